//! `cargo xtask conformance`: the cases of `fixtures/conformance` under every enforcer that this
//! host has. The program that does it is a crate of its own; this builds and starts it.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread::{self, ScopedJoinHandle};

use crate::engine::{self, Engine};
use crate::failure::{Context, Failure};
use crate::process;
use crate::scratch::Scratch;
use crate::steps::Outcome;
use crate::test_os;
use crate::workspace;

pub(crate) const ABOUT: &str = "one policy under every enforcer, and docs/conformance.md (--check: compare; or part of a name)";

/// The program of the crate os-sandbox-birdcage, by which its column runs.
const BIRDCAGE: &str = "os-sandbox-birdcage";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let (check, filter) = match arguments {
        [] => (false, None),
        [flag] if flag == "--check" => (true, None),
        [flag, filter] if flag == "--check" && !filter.starts_with('-') => (true, Some(filter)),
        [filter] if !filter.starts_with('-') => (false, Some(filter)),
        _ => {
            return Err(Failure::Usage(
                "expected `--check`, part of a case's name, or both".into(),
            ));
        }
    };
    let (_engine, answer) = Engine::for_all();
    // Without one the column of containers is not here, which is said there.
    if let Outcome::Failed(why) = answer {
        return Err(Failure::new(why));
    }
    if check && filter.is_none() {
        let (outcome, shown) = outcome(None);
        print!("{shown}");
        return match outcome {
            Outcome::Failed(why) => Err(Failure::new(why)),
            Outcome::Passed | Outcome::Partly(_) | Outcome::Skipped(_) => Ok(()),
        };
    }
    let mut command = process::command(program()?);
    command.arg(if check { "--check" } else { "--write" });
    process::shown(command.args(filter))
}

/// The command as a step of `cargo xtask test`, and its output: an enforcer that this host does not
/// have is said.
pub(crate) fn in_own_engine() -> (Outcome, String) {
    match Engine::own() {
        Ok(engine) => outcome(engine.as_ref().and_then(Engine::host)),
        Err(failure) => (Outcome::Failed(failure.to_string()), String::new()),
    }
}

/// When we are root, also as an ordinary user, who is confined in other ways; side by side, since most
/// of a case is waiting for processes. `engine` is where an engine answers, if not the shared one.
fn outcome(engine: Option<&str>) -> (Outcome, String) {
    let program = match program() {
        Ok(program) => program,
        Err(failure) => return (Outcome::Failed(failure.to_string()), String::new()),
    };
    let run = |mut command: Command| {
        command.envs(engine.map(|host| (engine::VARIABLE, host)));
        process::captured(&mut command)
    };
    let ((ours, mut shown), theirs) = thread::scope(|scope| {
        let theirs = process::is_root()
            .then(|| scope.spawn(|| told("as an ordinary user: ", as_ordinary(&program, &run))));
        let mut ours = process::command(&program);
        ours.arg("--check");
        (told("", run(ours)), theirs.map(ScopedJoinHandle::join))
    });
    let theirs = match theirs {
        None => return (ours, shown),
        Some(Ok((outcome, text))) => {
            shown.push_str(&text);
            outcome
        }
        Some(Err(_)) => Outcome::Failed("its thread panicked".to_owned()),
    };
    let outcome = match (ours, theirs) {
        (ours @ Outcome::Failed(_), _) => ours,
        (_, Outcome::Failed(why)) => Outcome::Failed(format!("as an ordinary user: {why}")),
        // What only they do not have.
        (Outcome::Passed, Outcome::Partly(why)) => {
            Outcome::Partly(format!("as an ordinary user: {why}"))
        }
        (Outcome::Partly(ours), Outcome::Partly(why)) if ours != why => {
            Outcome::Partly(format!("{ours}; as an ordinary user: {why}"))
        }
        (ours, _) => ours,
    };
    (outcome, shown)
}

fn told(whose: &str, ran: Result<(ExitStatus, String), Failure>) -> (Outcome, String) {
    match ran {
        Err(failure) => (Outcome::Failed(failure.to_string()), String::new()),
        Ok((status, text)) => (
            judged(status.success(), &text),
            text.lines()
                .map(|line| format!("{whose}{line}\n"))
                .collect(),
        ),
    }
}

/// With copies that everybody can reach: a checkout below somebody's home cannot be entered.
fn as_ordinary(
    program: &Path,
    run: &dyn Fn(Command) -> Result<(ExitStatus, String), Failure>,
) -> Result<(ExitStatus, String), Failure> {
    let scratch = Scratch::new()?;
    test_os::open_to_all(scratch.path())?;
    let copied = scratch.file("conformance");
    fs::copy(program, &copied).context(copied.display())?;
    test_os::open_to_all(&copied)?;
    // What it looks for beside itself.
    let birdcage = program.with_file_name(BIRDCAGE);
    let beside = scratch.file(BIRDCAGE);
    if birdcage.exists() {
        fs::copy(&birdcage, &beside).context(beside.display())?;
        test_os::open_to_all(&beside)?;
    }
    let cases = scratch.file("cases");
    fs::create_dir(&cases).context(cases.display())?;
    test_os::open_to_all(&cases)?;
    let fixtures = workspace::root().join("fixtures/conformance");
    for entry in fs::read_dir(&fixtures).context(fixtures.display())? {
        let entry = entry.context(fixtures.display())?;
        let copy = cases.join(entry.file_name());
        fs::copy(entry.path(), &copy).context(copy.display())?;
        test_os::open_to_all(&copy)?;
    }
    let home = scratch.file("home");
    fs::create_dir(&home).context(home.display())?;
    chown(&home, Some(test_os::ORDINARY), Some(test_os::ORDINARY)).context(home.display())?;
    let id = test_os::ORDINARY;
    let mut command = process::command("setpriv");
    command
        .args([format!("--reuid={id}"), format!("--regid={id}")])
        .args(["--clear-groups", "--"])
        .arg(&copied)
        .args(["--brief", "--fixtures"])
        .arg(&cases)
        .current_dir(&home)
        .env("HOME", &home)
        .env("TMPDIR", &home);
    for name in ["XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
        command.env(name, home.join(name));
    }
    run(command)
}

fn judged(good: bool, text: &str) -> Outcome {
    let lines = |start: &'static str| {
        text.lines()
            .filter_map(move |line| line.strip_prefix(start))
    };
    let missing: Vec<&str> = lines("not here: ").collect();
    match (good, lines("WRONG ").next()) {
        (false, wrong) => Outcome::Failed(wrong.unwrap_or("it did not run to its end").to_owned()),
        (true, _) if missing.is_empty() => Outcome::Passed,
        (true, _) => Outcome::Partly(missing.join("; ")),
    }
}

fn program() -> Result<PathBuf, Failure> {
    test_os::built()?
        .remove(&("conformance".to_owned(), "conformance".to_owned()))
        .ok_or_else(|| Failure::new("there is no program `conformance`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_here_is_said() {
        let text = "files: 9 cases, 0 wrong\nnot here: docker: no engine\n9 cases, 0 wrong\n";
        assert_eq!(
            judged(true, text),
            Outcome::Partly("docker: no engine".into())
        );
        assert_eq!(judged(true, "9 cases, 0 wrong\n"), Outcome::Passed);
    }

    #[test]
    fn a_failure_names_the_first_wrong_case() {
        let text = "WRONG files: \"a\": denied\nWRONG files: \"b\": denied\n";
        assert_eq!(
            judged(false, text),
            Outcome::Failed("files: \"a\": denied".into())
        );
        assert!(matches!(judged(false, ""), Outcome::Failed(_)));
    }
}
