//! Containers of a real engine, seen from outside: one daemon for all tests, started here and ended
//! here. Where none can be started, every test is passed over visibly, with the reason.
//!
//! The program has more lives: `--broker …` is one that is going to be killed (`reaper.rs`),
//! `--reach …` one with another environment (`reach.rs`), `--life …` one that runs commands
//! (`losses.rs`).
#![expect(clippy::print_stdout, reason = "the program reports on its streams")]

#[cfg(target_os = "linux")]
mod copies;
#[cfg(target_os = "linux")]
mod daemon;
#[cfg(target_os = "linux")]
mod elsewhere;
#[cfg(target_os = "linux")]
mod fixture;
#[cfg(target_os = "linux")]
mod hostile;
#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod losses;
#[cfg(target_os = "linux")]
mod reach;
#[cfg(target_os = "linux")]
mod reaper;
#[cfg(target_os = "linux")]
mod runs;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("skipped: only Linux starts an engine of its own");
}

/// A test is given the engine, and panics if something is not as it should be.
#[cfg(target_os = "linux")]
type Test = (&'static str, fn(&daemon::Daemon));

#[cfg(target_os = "linux")]
fn tests() -> Vec<Test> {
    vec![
        ("daemon::runs", daemon_runs),
        ("daemon::crashes", daemon_crashes),
        ("copies::there_and_back", copies::there_and_back),
        ("copies::whose_files", copies::whose_files),
        ("copies::bounds", copies::bounds),
        ("copies::hostile", copies::hostile),
        ("losses::engine", losses::engine),
        ("losses::image", losses::image),
        ("losses::broker", losses::broker),
        ("losses::user", losses::user),
        ("losses::asynchronous", losses::asynchronous),
        ("elsewhere::probes", elsewhere::probes),
        ("elsewhere::commands", elsewhere::commands),
        ("elsewhere::told_so", elsewhere::told_so),
        ("hostile::images", hostile::images),
        ("hostile::many", hostile::many),
        ("hostile::dead_engines", hostile::dead_engines),
        ("hostile::full_disk", hostile::full_disk),
        ("hostile::long_paths", hostile::long_paths),
        ("hosts::reach", hosts::reach),
        ("hosts::receipts", hosts::receipts),
        ("hosts::two", hosts::two),
        ("hosts::own_files", hosts::own_files),
        ("hosts::replaced", hosts::replaced),
        ("hosts::strangers", hosts::strangers),
        ("hosts::killed", hosts::killed),
        ("hosts::fails_closed", hosts::fails_closed),
        ("hosts::remapped", hosts::remapped),
        ("hosts::broker", hosts::broker),
        ("reach::unix", reach::unix),
        ("reach::tcp_and_tls", reach::tcp_and_tls),
        ("reach::ssh", reach::ssh),
        ("reaper::killed", reaper::killed),
        ("reaper::others", reaper::others),
        ("runs::scripts", runs::scripts),
        ("runs::owners", runs::owners),
        ("runs::receipts", runs::receipts),
        ("runs::streams", runs::streams),
        ("runs::ends", runs::ends),
        ("runs::limits", runs::limits),
        ("runs::names", runs::names),
        ("runs::paths", runs::paths),
        ("runs::places", runs::places),
        ("runs::network", runs::network),
    ]
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::ExitCode;

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [life, rest @ ..] = arguments.as_slice() {
        match life.as_str() {
            "--broker" => return reaper::broker(rest),
            "--reach" => return reach::main(rest),
            "--life" => return losses::life(rest),
            _ => {}
        }
    }
    // What cargo and nextest pass: a filter, --list, --exact, --nocapture.
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let filters: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-') && *argument != "terse")
        .collect();
    let wanted = |name: &str| {
        let matches = |filter: &&String| match has("--exact") {
            true => name == *filter,
            false => name.contains(filter.as_str()),
        };
        !has("--ignored") && (filters.is_empty() || filters.iter().any(matches))
    };
    let chosen: Vec<Test> = tests()
        .into_iter()
        .filter(|(name, _)| wanted(name))
        .collect();
    if has("--list") {
        for (name, _) in chosen {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    if chosen.is_empty() {
        return ExitCode::SUCCESS;
    }
    let engine = match daemon::Daemon::start() {
        Ok(engine) => engine,
        Err(reason) => {
            println!("{} tests skipped: {reason}", chosen.len());
            return ExitCode::SUCCESS;
        }
    };
    let mut failures = 0;
    for (name, test) in chosen {
        let passed = catch_unwind(AssertUnwindSafe(|| test(&engine))).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failures += usize::from(!passed);
    }
    println!("{failures} failures");
    ExitCode::from(u8::from(failures > 0))
}

#[cfg(target_os = "linux")]
fn daemon_runs(engine: &daemon::Daemon) {
    let run = [
        "run",
        "--rm",
        "--network",
        "none",
        daemon::IMAGE,
        "sh",
        "-c",
        "echo hello",
    ];
    assert_eq!(engine.docker(&run), "hello");
    let connected = os_sandbox_docker::Engine::connect(Some(engine.host())).expect("an engine");
    connected.ping().expect("it answers");
    assert_eq!(engine.everything(), Vec::<String>::new());
}

/// What was reached once and is gone is an error, and no wait.
#[cfg(target_os = "linux")]
fn daemon_crashes(_: &daemon::Daemon) {
    let mut own = daemon::Daemon::start_in(&std::env::temp_dir(), |_| Vec::new()).expect("one");
    let engine = os_sandbox_docker::Engine::connect(Some(own.host())).expect("an engine");
    engine.ping().expect("it answers");
    own.kill();
    let error = engine.ping().expect_err("it is gone");
    assert_eq!(error.kind(), os_sandbox::ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("does not answer any more"),
        "{error}"
    );
}
