//! `cargo xtask test`: every check of this repository, in one target directory. All cargo steps
//! choose the same packages, features and profile, so that nothing is built twice.

use std::fs::{self, Permissions};
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::conformance;
use crate::docs;
use crate::engine::Engine;
use crate::failure::{Context, Failure};
use crate::mcp;
use crate::memory;
use crate::process;
use crate::sampled::{Extent, Notes};
use crate::scratch::Scratch;
use crate::steps::{Beside, Outcome, Steps};
use crate::structure;
use crate::test_os;
use crate::tools;
use crate::workspace::{self, EVERYTHING};

pub(crate) const ABOUT: &str = "every check: format, clippy, deny, tests, docs, README, sandbox tests, conformance, MCP (--full: no samples; --mcp: MCP alone)";

/// The steps that `--mcp` runs alone.
const MCP: &str = "judges of MCP";
const MCP_CLIENTS: &str = "MCP clients";

/// Rust sources that belong to no crate, so that `cargo fmt` does not see them: the launcher
/// is compiled by os-sandbox's build script.
const LAUNCHER: &str = "crates/os-sandbox/launcher";

/// How deep a source directory may be.
const MAX_DEPTH: usize = 8;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut steps = Steps::default();
    if arguments == ["--mcp"] {
        steps.run(MCP, mcp::outcome);
        steps.run(MCP_CLIENTS, mcp::settings_outcome);
        return steps.close();
    }
    let extent = match arguments {
        [] => Extent::of(false),
        [flag] if flag == "--full" => Extent::of(true),
        _ => {
            return Err(Failure::Usage(
                "expected nothing, `--full` or `--mcp`".into(),
            ));
        }
    };
    let in_memory = memory::enter(extent);
    steps.run("temporary files in memory", || in_memory);
    steps.run("format", format);
    steps.run("deny", deny);
    steps.run("structure", || structure::run(&[]));
    // From here on somebody needs it.
    let mut engine = None;
    steps.run("engine for tests", || {
        let (started, outcome) = Engine::for_all();
        engine = started;
        outcome
    });
    steps.run("cargo doc", cargo_doc);
    steps.run("build of the tests", || test_os::built().map(drop));
    // Side by side: tests mostly wait for processes, and the compiler takes what they leave.
    let sandbox: Vec<Beside<'_>> = vec![
        ("test-os", Box::new(move || test_os::outcome(extent))),
        // In an engine of its own: some tests count the containers of the shared one.
        ("conformance", Box::new(conformance::in_own_engine)),
    ];
    let (running, run) = mpsc::channel();
    steps.run_beside(vec![sandbox, compiler(extent, run)], |steps| {
        steps.run("tests", || tests(extent, running));
        steps.run("docs --check", || docs::run(&["--check".to_owned()]));
        steps.run(MCP, mcp::outcome);
        steps.run(MCP_CLIENTS, mcp::settings_outcome);
    });
    drop(engine);
    steps.close()
}

/// The steps of the compiler, which begin when `run` is told that tests run: cargo locks the target
/// directory while it builds, and the tests would wait.
fn compiler(extent: Extent, run: Receiver<()>) -> Vec<Beside<'static>> {
    vec![
        (
            "clippy",
            Box::new(move || {
                // Nobody sends if the tests could not start.
                let _ = run.recv();
                (clippy().into(), String::new())
            }),
        ),
        (
            "each crate alone",
            Box::new(move || (each_alone(extent), String::new())),
        ),
    ]
}

fn format() -> Result<(), Failure> {
    process::quiet(process::cargo().args(["fmt", "--all", "--check"]))?;
    let sources = rust_sources(&workspace::root().join(LAUNCHER), MAX_DEPTH)?;
    if sources.is_empty() {
        return Ok(());
    }
    process::quiet(
        process::command("rustfmt")
            .args(["--check", "--edition", "2024"])
            .args(sources),
    )
}

fn clippy() -> Result<(), Failure> {
    let mut cargo = process::cargo();
    cargo
        .arg("clippy")
        .args(EVERYTHING)
        .arg("--all-targets")
        .args(["--", "-D", "warnings"]);
    process::quiet(&mut cargo)
}

fn deny() -> Outcome {
    let deny = match tools::find(&tools::CARGO_DENY) {
        Ok(Some(deny)) => deny,
        Ok(None) => {
            return Outcome::Failed("there is no cargo-deny: run `cargo xtask setup`".into());
        }
        Err(failure) => return Outcome::Failed(failure.to_string()),
    };
    let mut command = process::command(deny);
    command.args([
        "--all-features",
        "--locked",
        "check",
        "bans",
        "licenses",
        "sources",
    ]);
    process::quiet(&mut command).into()
}

/// Unit, integration and documentation tests. Their output is shown: its summary lines are
/// what a reader of the log looks for. Tells `running` when cargo has started the first program.
fn tests(extent: Extent, running: Sender<()>) -> Outcome {
    let notes = match Notes::new() {
        Ok(notes) => notes,
        Err(failure) => return Outcome::Failed(failure.to_string()),
    };
    let seed = std::env::var(SEED).unwrap_or_else(|_| "2026".to_owned());
    println!("property tests draw from seed {seed} ({SEED})");
    let mut cargo = process::cargo();
    cargo
        .arg("test")
        .args(EVERYTHING)
        .arg("--no-fail-fast")
        .env(SEED, seed)
        .env(test_os::LATER, "1")
        .env(DOCUMENTED, workspace::target_dir().join("doc"));
    if std::env::var_os(THREADS).is_none() {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        cargo.env(THREADS, (cores + 1).to_string());
    }
    extent.tell(&mut cargo);
    notes.tell(&mut cargo);
    let mut running = Some(running);
    let started = |output: &str| {
        if output.contains("Running ")
            && let Some(running) = running.take()
        {
            let _ = running.send(());
        }
    };
    let ended = process::followed(&mut cargo, started).and_then(|(status, output)| {
        process::judge(&cargo, status)
            .map_err(|failure| Failure::new(format!("{failure}\n{}", failures(&output))))
    });
    notes.close(ended)
}

/// What the test programs say of the tests that failed, as the closing lines repeat it.
fn failures(output: &str) -> String {
    let mut inside = false;
    let lines = output.lines().filter(|line| {
        inside = (inside || *line == "failures:") && !line.starts_with("test result: ");
        inside
    });
    let mut lines: Vec<&str> = lines.collect();
    if lines.len() > MAX_FAILURE_LINES {
        lines.truncate(MAX_FAILURE_LINES);
        lines.push("(more above)");
    }
    lines.join("\n")
}

/// How many tests of a program run at a time: one more than there are cores, since much of a test is
/// waiting for processes.
const THREADS: &str = "RUST_TEST_THREADS";

/// How many lines about failed tests are repeated.
const MAX_FAILURE_LINES: usize = 200;

/// What property tests draw from. Fixed here, so that a commit is either green or red; `cargo test`
/// by itself draws anew each time, and finds what nobody has seen yet.
const SEED: &str = "PROPTEST_RNG_SEED";

/// The crates that others depend on alone, and the one that is installed alone. Each set of features is another check
/// of the dependencies.
const ALONE: [&str; 6] = [
    "file-sandbox",
    "forge",
    "os-sandbox",
    "sandbox-config",
    "sandbox-names",
    "sandbox-network",
];

/// In the workspace a crate may live on a feature that another one asked for; whoever depends on
/// it alone would find out. A check with its own features, so nothing is built.
fn each_alone(extent: Extent) -> Outcome {
    let crates = match crates() {
        Ok(crates) => crates,
        Err(failure) => return Outcome::Failed(failure.to_string()),
    };
    let chosen = crates
        .iter()
        .filter(|name| extent == Extent::Full || ALONE.contains(&name.as_str()));
    let mut done = 0;
    for name in chosen {
        let mut cargo = process::cargo();
        cargo.args(["check", "--locked", "--package", name]);
        if let Err(failure) = process::quiet(&mut cargo) {
            return Outcome::Failed(failure.to_string());
        }
        done += 1;
    }
    match extent {
        Extent::Full => Outcome::Passed,
        Extent::Sample => Outcome::Partly(format!(
            "sampled: {done} of {} crates, the libraries and forge; `--full` runs all",
            crates.len()
        )),
    }
}

fn crates() -> Result<Vec<String>, Failure> {
    let dir = workspace::root().join("crates");
    let entries = fs::read_dir(&dir).context(dir.display())?;
    entries
        .map(|entry| {
            let name = entry.context(dir.display())?.file_name();
            Ok(name.to_string_lossy().into_owned())
        })
        .collect()
}

/// The directory in which the test of the public API finds the output of this step.
const DOCUMENTED: &str = "FORGE_TEST_DOCUMENTED";

/// Lets rustdoc write JSON. The variable is for rustdoc alone: build scripts of dependencies look at
/// it too, and would build them again.
const RUSTDOC: &str = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";

/// As JSON, which the test of the public API reads: complaints of rustdoc do not depend on
/// the form. Through RUSTDOCFLAGS and not RUSTFLAGS: those would build every dependency again.
fn cargo_doc() -> Result<(), Failure> {
    let scratch = Scratch::new()?;
    let rustdoc = scratch.file("rustdoc");
    fs::write(&rustdoc, RUSTDOC).context(rustdoc.display())?;
    fs::set_permissions(&rustdoc, Permissions::from_mode(0o755)).context(rustdoc.display())?;
    let mut cargo = process::cargo();
    cargo
        .arg("doc")
        .args(EVERYTHING)
        .arg("--no-deps")
        .env("RUSTDOC", rustdoc)
        .env(
            "RUSTDOCFLAGS",
            "-D warnings -Z unstable-options --output-format json",
        );
    process::quiet(&mut cargo)
}

fn rust_sources(dir: &Path, depth: usize) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    if depth == 0 || !dir.is_dir() {
        return Ok(found);
    }
    for entry in fs::read_dir(dir).context(dir.display())? {
        let path = entry.context(dir.display())?.path();
        if path.is_dir() {
            found.extend(rust_sources(&path, depth - 1)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::failures;

    #[test]
    fn what_failed_is_repeated_and_what_passed_is_not() {
        let output = "\
test a ... ok
test b ... FAILED

failures:

---- b stdout ----
it broke

failures:
    b

test result: FAILED. 1 passed; 1 failed
test c ... ok
test result: ok. 1 passed; 0 failed
";
        let repeated = failures(output);
        assert!(repeated.contains("it broke"), "{repeated}");
        assert!(!repeated.contains("... ok"), "{repeated}");
        assert!(!repeated.contains("test result"), "{repeated}");
        let long = "failures:\n".to_owned() + &"x\n".repeat(300);
        assert!(failures(&long).ends_with("x\n(more above)"));
    }
}
