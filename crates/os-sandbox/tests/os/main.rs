//! Every promise under every mechanism that this host has, seen from outside. The program has
//! several lives: the tests (the broker), `--probe OP…` (the confined target, `probe.rs`), and
//! `--broker …` and `--holder …` (brokers that are going to be killed), `--caller …` (one that was
//! started strangely), `--bomber …` (one whose command is), `--remembered …` and `--stricter …`
//! (ones that detect). The tests themselves are never confined.
//!
//! A mechanism that the host has is never skipped. With `FORGE_TEST_OS_REPORT=FILE` each
//! mechanism × case appends a line of JSON to the file.
#![expect(clippy::print_stdout, reason = "the program reports on its streams")]

#[cfg(all(target_os = "linux", feature = "tokio"))]
mod asynchronous;
#[cfg(target_os = "linux")]
mod attempts;
#[cfg(all(target_os = "linux", feature = "birdcage"))]
mod birdcage;
#[cfg(target_os = "linux")]
mod callers;
#[cfg(target_os = "linux")]
mod commands;
#[cfg(target_os = "linux")]
mod connects;
#[cfg(target_os = "linux")]
mod denials;
#[cfg(target_os = "linux")]
mod emulated;
#[cfg(target_os = "linux")]
mod fixture;
#[cfg(target_os = "linux")]
mod git;
#[cfg(target_os = "linux")]
mod git_files;
#[cfg(target_os = "linux")]
mod guards;
#[cfg(target_os = "linux")]
mod holds;
#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod inputs;
#[cfg(target_os = "linux")]
mod left;
#[cfg(target_os = "linux")]
mod limits;
mod matrix;
#[cfg(target_os = "linux")]
mod modes;
#[cfg(target_os = "linux")]
mod outcome;
#[cfg(target_os = "linux")]
mod overlays;
#[cfg(target_os = "linux")]
mod parts;
#[cfg(target_os = "linux")]
mod pins;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod proofs;
#[cfg(target_os = "linux")]
mod protected_dirs;
// Plays a stricter kernel; its own main is not called here.
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "one file for two programs")]
#[path = "../../examples/hide.rs"]
mod hide;
#[cfg(target_os = "linux")]
mod raw;
#[cfg(target_os = "linux")]
mod reads;
#[cfg(target_os = "linux")]
mod remembered;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod survivors;
#[cfg(target_os = "linux")]
mod tracing;
#[cfg(target_os = "linux")]
mod uncover;
#[cfg(target_os = "linux")]
mod watches;
#[cfg(target_os = "linux")]
mod words;

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    if std::env::args().any(|arg| arg == "--page") {
        return page();
    }
    println!(
        "these mechanisms are Linux's; tests/it and the conformance cases are about this system"
    );
    // Whoever asked for a report gets one: nothing was tried.
    if let Some(report) = std::env::var_os("FORGE_TEST_OS_REPORT")
        && let Err(error) = std::fs::write(&report, "")
    {
        println!("{}: {error}", report.display());
        return std::process::ExitCode::FAILURE;
    }
    match fixtures() {
        0 => std::process::ExitCode::SUCCESS,
        _ => std::process::ExitCode::FAILURE,
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("--probe") => return probe::main(&args[1..]),
        Some("--broker") => return survivors::broker(&args[1..]),
        Some("--holder") => return holds::holder(&args[1..]),
        Some("--bomber") => return limits::bomber(&args[1..]),
        Some("--caller") => return callers::main(&args[1..]),
        Some("--page") => return page(),
        Some("--remembered") => return remembered::main(&args[1..]),
        Some("--stricter") => return pins::main(&args[1..]),
        _ => {}
    }
    if std::env::var_os("FORGE_TEST_OS_LATER").is_some() {
        println!("left to the step `test-os` of `cargo xtask test` (FORGE_TEST_OS_LATER)");
        return std::process::ExitCode::SUCCESS;
    }
    // The libtest arguments that cargo and nextest pass: a filter, --list, --exact, --nocapture.
    let list = args.iter().any(|arg| arg == "--list");
    let exact = args.iter().any(|arg| arg == "--exact");
    let ignored = args.iter().any(|arg| arg == "--ignored");
    let filters: Vec<&String> = args
        .iter()
        .filter(|arg| !arg.starts_with('-') && *arg != "terse")
        .collect();
    let tests = tests();
    let chosen = tests.iter().filter(|(name, _)| {
        !ignored
            && (filters.is_empty()
                || filters.iter().any(|f| {
                    if exact {
                        name == *f
                    } else {
                        name.contains(f.as_str())
                    }
                }))
    });
    if list {
        for (name, _) in chosen {
            println!("{name}: test");
        }
        return std::process::ExitCode::SUCCESS;
    }
    // What a broker's environment can hold and a target must not see. Variables can only be set
    // for a new process.
    if std::env::var_os("OS_SANDBOX_TEST_API_KEY").is_none() {
        let status = std::process::Command::new(std::env::current_exe().expect("own path"))
            .args(&args)
            .env("OS_SANDBOX_TEST_API_KEY", "secret")
            .env("BASH_ENV", "/nonexistent")
            .env("PYTHONSTARTUP", "/nonexistent")
            .status()
            .expect("run again");
        return if status.success() {
            std::process::ExitCode::SUCCESS
        } else {
            std::process::ExitCode::FAILURE
        };
    }
    let mut failures = 0;
    for (name, test) in chosen {
        let failed = test();
        println!(
            "test {name} ... {}",
            if failed == 0 { "ok" } else { "FAILED" }
        );
        failures += failed;
    }
    println!("{failures} failures");
    if failures == 0 {
        std::process::ExitCode::SUCCESS
    } else {
        std::process::ExitCode::FAILURE
    }
}

/// The fixtures themselves.
fn fixtures() -> usize {
    let complaints = matrix::complaints();
    for line in &complaints {
        println!("  {line}");
    }
    complaints.len()
}

/// `docs/mechanisms.md`, for `cargo xtask docs`.
fn page() -> std::process::ExitCode {
    match matrix::expect::Fixtures::read() {
        Ok(fixtures) => {
            print!("{}", matrix::page::page(&fixtures));
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
type Test = (String, Box<dyn Fn() -> usize>);

#[cfg(target_os = "linux")]
type Set = fn(fixture::Mechanism, &mut report::Report);

#[cfg(target_os = "linux")]
fn case(mechanism: fixture::Mechanism, name: &str, set: Set) -> Test {
    let run = move || {
        let mut report = report::Report::new(mechanism);
        set(mechanism, &mut report);
        report.failures()
    };
    (format!("{}::{name}", mechanism.name()), Box::new(run))
}

/// Each set of cases under each mechanism.
#[cfg(target_os = "linux")]
fn tests() -> Vec<Test> {
    let mut out: Vec<Test> = vec![
        ("support::detect".to_owned(), Box::new(report::support)),
        ("matrix::fixtures".to_owned(), Box::new(fixtures)),
        ("support::remembered".to_owned(), Box::new(remembered::all)),
        ("pins::stricter".to_owned(), Box::new(pins::stricter)),
        #[cfg(feature = "birdcage")]
        ("birdcage::named".to_owned(), Box::new(birdcage::named)),
    ];
    for mechanism in fixture::mechanisms() {
        let sets: &[(&str, Set)] = &[
            #[cfg(feature = "tokio")]
            ("async", asynchronous::all),
            ("pins", pins::all),
            ("parts", parts::all),
            ("overlays", overlays::all),
            ("survivors", survivors::all),
            ("commands", commands::all),
            ("inputs", inputs::all),
            ("callers", callers::all),
            ("proofs", proofs::all),
            ("sockets", sockets::all),
            ("hosts", hosts::all),
            ("holds", holds::all),
            ("guards", guards::all),
            ("protected_dirs", protected_dirs::all),
            ("limits", limits::all),
            ("tracing", tracing::all),
            ("denials", denials::all),
            ("reads", reads::all),
            ("modes", modes::all),
            ("watches", watches::all),
            ("git", git::all),
            ("git_files", git_files::all),
        ];
        let made_otherwise = match mechanism {
            fixture::Mechanism::BubblewrapByPath => {
                &["pins", "parts", "commands", "protected_dirs"][..]
            }
            // As without bubblewrap, but for the mounts.
            fixture::Mechanism::BubblewrapAlone => &["pins", "parts", "commands", "proofs"],
            _ => &[],
        };
        #[cfg(feature = "birdcage")]
        if mechanism.family() == "birdcage" {
            let own: [(&str, Set); 4] = [
                ("own", birdcage::all),
                ("survivors", survivors::all),
                ("commands", commands::all),
                ("proofs", proofs::all),
            ];
            out.extend(own.map(|(name, set)| case(mechanism, name, set)));
            continue;
        }
        for &(name, set) in sets {
            // The other sets do not depend on the maker of the mounts.
            if !made_otherwise.is_empty() && !made_otherwise.contains(&name) {
                continue;
            }
            out.push(case(mechanism, name, set));
        }
    }
    if os_sandbox::Support::detect().landlock_abi() > 0 {
        out.push((
            "landlock::emulated".to_owned(),
            Box::new(emulated::landlock),
        ));
        out.push(("proofs::older".to_owned(), Box::new(proofs::older)));
    }
    if os_sandbox::Support::detect().landlock_abi() >= 6 {
        out.push(("landlock::left".to_owned(), Box::new(left::all)));
    }
    out.push(("none".to_owned(), Box::new(emulated::none)));
    out.push(("proofs::none".to_owned(), Box::new(proofs::unconfined)));
    if matrix::user::wanted() {
        out.push((
            "as an ordinary user: matrix".to_owned(),
            Box::new(matrix::user::again),
        ));
    }
    for level in matrix::run::levels() {
        out.push((
            format!("matrix::{}", level.name()),
            Box::new(move || matrix::run::level(level)),
        ));
    }
    out
}
