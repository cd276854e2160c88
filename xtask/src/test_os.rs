//! `cargo xtask test-os`: the sandbox tests against this kernel. Asks os-sandbox what this host
//! supports, runs the test program once per user, and holds the two against each other.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::container;
use crate::failure::{Context, Failure};
use crate::process;
use crate::report::{self, Run, support};
use crate::sampled::Extent;
use crate::scratch::Scratch;
use crate::steps::Outcome;
use crate::workspace::{self, EVERYTHING};

pub(crate) const ABOUT: &str = "sandbox tests on this kernel, as root and as an ordinary user (--full: every case everywhere; --container: there only)";

/// Set for `cargo test` as a step of `cargo xtask test`: the sandbox tests are a step of their own
/// there, and would run twice.
pub(crate) const LATER: &str = "FORGE_TEST_OS_LATER";

/// An ordinary user that owns nothing: nobody, by number, since names differ.
pub(crate) const ORDINARY: u32 = 65534;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let what = match arguments {
        [] => What::Usual,
        [flag] if flag == "--full" => What::Full,
        [flag] if flag == "--container" => What::Container,
        _ => {
            return Err(Failure::Usage(
                "expected nothing, `--full` or `--container`".into(),
            ));
        }
    };
    let (outcome, shown) = outcome_of(what);
    print!("{shown}");
    match outcome {
        Outcome::Failed(why) => Err(Failure::new(why)),
        Outcome::Passed | Outcome::Partly(_) | Outcome::Skipped(_) => Ok(()),
    }
}

/// The command as a step of `cargo xtask test`. Returns what it prints, too: the step runs beside
/// another one.
pub(crate) fn outcome(extent: Extent) -> (Outcome, String) {
    outcome_of(match extent {
        Extent::Sample => What::Usual,
        Extent::Full => What::Full,
    })
}

/// How much of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Usual,
    /// Every case at every version.
    Full,
    /// In a container, and nothing else.
    Container,
}

fn outcome_of(what: What) -> (Outcome, String) {
    let mut shown = String::new();
    let outcome = match all_users(what, &mut shown) {
        Ok(Coverage {
            nothing: true,
            left_out,
        }) => Outcome::Skipped(left_out.join("; ")),
        Ok(Coverage { left_out, .. }) if left_out.is_empty() => Outcome::Passed,
        Ok(Coverage { left_out, .. }) => Outcome::Partly(left_out.join("; ")),
        Err(failure) => Outcome::Failed(failure.to_string()),
    };
    (outcome, shown)
}

/// What could not be tried here.
struct Coverage {
    left_out: Vec<String>,
    /// No mechanism works here, for anybody.
    nothing: bool,
}

fn all_users(what: What, shown: &mut String) -> Result<Coverage, Failure> {
    let stage = Stage::build()?;
    let mut left_out = Vec::new();
    if !process::is_root() {
        left_out.push("as root: not run, we are not root".to_owned());
    }
    let users = users();
    let mut runs = Vec::new();
    let mut failed = Vec::new();
    let users: &[User] = if what == What::Container { &[] } else { &users };
    let results = run_side_by_side(&stage, users, what);
    for (user, result) in users.iter().zip(results) {
        let (run, output, result) = result?;
        *shown += &format!("\n-- as {}\n{output}", user.name);
        if let Err(failure) = result {
            failed.push(format!("{}: {failure}", user.name));
        }
        for (mechanism, why_not) in &run.support {
            if let Some(why) = why_not {
                left_out.push(format!("{mechanism} as {}: {why}", user.name));
            }
        }
        left_out.extend(run.not_posed());
        runs.push(run);
    }
    let inside = container::run(&container::Programs {
        stage: stage.scratch.path(),
        tests: &stage.tests,
        support: &stage.support,
        forge: stage.forge.as_deref(),
    })?;
    match inside {
        Ok(found) => {
            *shown += &found.shown;
            for run in &found.runs {
                left_out.extend(run.not_posed());
            }
            runs.extend(found.runs);
            failed.extend(found.complaints);
        }
        Err(reason) => left_out.push(format!("in a container: {reason}")),
    }
    *shown += &format!("\n{}\n", report::matrix(&runs));
    // A case that failed says more than the end of its program.
    failed.splice(..0, report::complaints(&runs));
    let skipped = left_out.iter().map(|line| format!("skipped: {line}\n"));
    let failures = failed.iter().map(|line| format!("{line}\n"));
    shown.extend(skipped.chain(failures));
    match failed.first() {
        None => Ok(Coverage {
            nothing: runs
                .iter()
                .all(|run| run.support.values().all(Option::is_some)),
            left_out,
        }),
        Some(first) => Err(Failure::new(first)),
    }
}

/// Returns the users of this host as which the tests run.
fn users() -> Vec<User> {
    let ordinary = |uid| User {
        name: "ordinary user",
        uid,
    };
    let root = User {
        name: "root",
        uid: None,
    };
    match process::is_root() {
        true => vec![root, ordinary(Some(ORDINARY))],
        false => vec![ordinary(None)],
    }
}

/// The run of one user, its output, and the failure of its tests.
type UserRun = Result<(Run, String, Result<(), Failure>), Failure>;

fn run_side_by_side(stage: &Stage, users: &[User], what: What) -> Vec<UserRun> {
    // Side by side: most of a case is waiting for processes.
    thread::scope(|scope| {
        let started: Vec<_> = users
            .iter()
            .map(|user| scope.spawn(|| stage.run(user, what)))
            .collect();
        started
            .into_iter()
            .map(|run| {
                run.join()
                    .unwrap_or_else(|_| Err(Failure::new("a thread of test-os panicked")))
            })
            .collect()
    })
}

struct User {
    name: &'static str,
    /// `None`: whoever we are.
    uid: Option<u32>,
}

/// The test program and its helpers, where every user can reach them: a checkout below
/// somebody's home cannot be entered by an ordinary user.
struct Stage {
    scratch: Scratch,
    tests: PathBuf,
    support: PathBuf,
    forge: Option<PathBuf>,
}

impl Stage {
    fn build() -> Result<Self, Failure> {
        let programs = built()?;
        let scratch = Scratch::new()?;
        open_to_all(scratch.path())?;
        let stage = |package: &str, name: &str| {
            let program = programs
                .get(&(package.to_owned(), name.to_owned()))
                .ok_or_else(|| Failure::new(format!("{package} has no program `{name}`")))?;
            staged(&scratch, program)
        };
        let (tests, support) = (stage("os-sandbox", "os")?, stage("xtask", "support")?);
        // The tests find their helpers as in the target directory: beside themselves.
        for ((package, _), program) in &programs {
            if ["os-sandbox", "os-sandbox-birdcage"].contains(&package.as_str()) {
                staged(&scratch, program)?;
            }
        }
        let forge = programs
            .get(&("forge".to_owned(), "forge".to_owned()))
            .map(|program| staged(&scratch, program))
            .transpose()?;
        Ok(Stage {
            scratch,
            tests,
            support,
            forge,
        })
    }

    /// Runs the test program as `user`. Returns its report, its output and how it ended.
    fn run(&self, user: &User, what: What) -> UserRun {
        let home = self.scratch.file(&user.name.replace(' ', "-"));
        fs::create_dir(&home).context(home.display())?;
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).context(home.display())?;
        if let Some(uid) = user.uid {
            chown(&home, Some(uid), Some(uid)).context(home.display())?;
        }
        let table = process::output(&mut user.command(&self.support, &home))?;
        let (table, support) = support(&table)?;

        let report = home.join("report.jsonl");
        let mut tests = user.command(&self.tests, &home);
        Extent::of(what == What::Full).tell(&mut tests);
        let (status, output) = process::captured(tests.env("FORGE_TEST_OS_REPORT", &report))?;
        let result = process::judge(&tests, status);
        let text = fs::read_to_string(&report)
            .context("the sandbox tests wrote no report (FORGE_TEST_OS_REPORT)")?;
        let records = report::parse(&text).context("the sandbox tests' report")?;
        Ok((
            Run {
                user: user.name.to_owned(),
                support,
                records,
            },
            format!("{table}\n{output}"),
            result,
        ))
    }
}

impl User {
    /// The toolchain often lies in a home that an ordinary user cannot enter. In a mount namespace
    /// of its own, which goes away with the run, it is shown at a place that everybody can.
    fn with_toolchain(&self, home: &Path) -> Option<Command> {
        const SHOW: &str = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
        let sysroot =
            process::output(process::command("rustc").args(["--print", "sysroot"])).ok()?;
        let place = home.with_extension("toolchain");
        fs::create_dir_all(&place).ok()?;
        let begin = |rest: &str| {
            let mut command = process::command("unshare");
            command
                .args(["--mount", "--propagation", "private", "--"])
                .args(["sh", "-c", SHOW, "sh", sysroot.trim()])
                .arg(&place)
                .arg(rest)
                .env("FORGE_TEST_TOOLCHAIN", &place);
            command
        };
        // In a container even root may not.
        process::quiet(&mut begin("true")).ok()?;
        Some(begin("setpriv"))
    }

    fn command(&self, program: &Path, home: &Path) -> Command {
        let mut command = match self.uid {
            None => process::command(program),
            Some(uid) => {
                let mut command = self
                    .with_toolchain(home)
                    .unwrap_or_else(|| process::command("setpriv"));
                command
                    .arg(format!("--reuid={uid}"))
                    .arg(format!("--regid={uid}"));
                command.args(["--clear-groups", "--"]).arg(program);
                command
            }
        };
        command.current_dir(home).env("TMPDIR", home);
        if self.uid.is_some() {
            command.env("HOME", home);
        }
        for name in [
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_STATE_HOME",
            "XDG_RUNTIME_DIR",
        ] {
            // Short: the address of a socket below it has 108 bytes (unix(7)).
            let short = name.trim_start_matches("XDG_").trim_end_matches("_HOME");
            command.env(name, home.join(short));
        }
        command
    }
}

/// Copies `program` to the place in the stage that it has in the target directory.
fn staged(scratch: &Scratch, program: &Path) -> Result<PathBuf, Failure> {
    let inside = program
        .strip_prefix(workspace::target_dir())
        .context(program.display())?;
    let place = scratch.path().join(inside);
    let mut dir = scratch.path().to_owned();
    for component in inside.parent().into_iter().flat_map(Path::components) {
        dir.push(component);
        if !dir.exists() {
            fs::create_dir(&dir).context(dir.display())?;
            open_to_all(&dir)?;
        }
    }
    if !place.exists() {
        fs::copy(program, &place).context(place.display())?;
        open_to_all(&place)?;
    }
    Ok(place)
}

pub(crate) fn open_to_all(path: &Path) -> Result<(), Failure> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).context(path.display())
}

/// Every test program and example, built with the words that `cargo xtask test` uses.
pub(crate) fn built() -> Result<BTreeMap<(String, String), PathBuf>, Failure> {
    let mut cargo = process::cargo();
    cargo
        .arg("test")
        .args(EVERYTHING)
        .args(["--no-run", "--message-format=json-render-diagnostics"]);
    Ok(programs(&process::output(&mut cargo)?))
}

/// The programs in cargo's messages, by package and name.
fn programs(messages: &str) -> BTreeMap<(String, String), PathBuf> {
    let mut found = BTreeMap::new();
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        let (Some(executable), Some(name), Some(manifest)) = (
            message["executable"].as_str(),
            message["target"]["name"].as_str(),
            message["manifest_path"].as_str(),
        ) else {
            continue;
        };
        let package = Path::new(manifest)
            .parent()
            .and_then(Path::file_name)
            .unwrap_or_default();
        let key = (package.to_string_lossy().into_owned(), name.to_owned());
        // A program and its own unit tests share a name; the program is meant.
        let of_units = message["profile"]["test"] == true && found.contains_key(&key);
        if !of_units {
            found.insert(key, PathBuf::from(executable));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_package_and_name() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/r/crates/os-sandbox/Cargo.toml","target":{"kind":["test"],"name":"os"},"executable":"/t/debug/deps/os-1"}
{"reason":"compiler-artifact","manifest_path":"/r/crates/os-sandbox/Cargo.toml","target":{"kind":["lib"],"name":"os_sandbox"},"executable":null}
{"reason":"build-finished","success":true}
not json
"#;
        let expected = BTreeMap::from([(
            ("os-sandbox".into(), "os".into()),
            PathBuf::from("/t/debug/deps/os-1"),
        )]);
        assert_eq!(programs(messages), expected);
    }
}
