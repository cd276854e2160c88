//! One policy, every enforcer: runs the cases in `fixtures/conformance` under each of them. `cargo
//! xtask conformance` starts it. The program has several modes: the runner, `--probe` (the confined
//! target of the enforcers that confine commands) and `--column` (a column that needs a process of
//! its own).
//!
//! The workspace's terms are defined in `docs/terms.md` of the repository.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program: its output is its result"
)]

use std::path::PathBuf;
use std::process::{Command, ExitCode};

mod case;
mod column;
mod fixtures;
mod policy;
mod tree;
mod verb;

mod commands;
mod files;
mod memory;
mod reference;
mod reports;
mod seatbelt;

mod page;
mod run;
mod sound;
mod verdict;
mod world;

mod probe;

#[cfg(all(feature = "docker", target_os = "linux"))]
mod engine;
#[cfg(not(all(feature = "docker", target_os = "linux")))]
#[path = "no_engine.rs"]
mod engine;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod host;
#[cfg(not(target_os = "linux"))]
#[path = "other.rs"]
mod host;

use column::Column;
use fixtures::Fixtures;

/// Set for the runner: one that no command may see, and one that a policy passes on.
const VARIABLES: [(&str, &str); 2] = [
    ("CONFORMANCE_SECRET", "secret"),
    ("CONFORMANCE_PASSED", "passed"),
];

const USAGE: &str = "usage: conformance [--fixtures DIR] [--check | --write | --brief | --sound | --print-page] [FILTER]";

/// The command line.
#[derive(Default)]
struct Asked {
    fixtures: Option<PathBuf>,
    /// Compare the page.
    check: bool,
    /// Write it, if this host has every mechanism that it describes.
    write: bool,
    /// Print a line for each column only.
    brief: bool,
    /// Look at the fixtures only.
    sound: bool,
    /// Print it and do nothing else.
    print_page: bool,
    /// The column of a child process of the runner.
    column: Option<String>,
    filter: Option<String>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|word| word == "--probe") {
        return probe::main();
    }
    let Some(asked) = parse(args.clone()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Variables can only be set for a new process.
    if VARIABLES
        .iter()
        .any(|(name, _)| std::env::var_os(name).is_none())
    {
        return again(&args);
    }
    match work(&asked) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(args: Vec<String>) -> Option<Asked> {
    let mut asked = Asked::default();
    let mut args = args.into_iter();
    while let Some(word) = args.next() {
        match word.as_str() {
            "--fixtures" => asked.fixtures = Some(args.next()?.into()),
            "--column" => asked.column = Some(args.next()?),
            "--check" => asked.check = true,
            "--write" => asked.write = true,
            "--brief" => asked.brief = true,
            "--sound" => asked.sound = true,
            "--print-page" => asked.print_page = true,
            flag if flag.starts_with('-') => return None,
            _ if asked.filter.is_some() => return None,
            _ => asked.filter = Some(word),
        }
    }
    Some(asked)
}

fn again(args: &[String]) -> ExitCode {
    let status = std::env::current_exe().and_then(|own| {
        let mut command = Command::new(own);
        command.args(args).envs(VARIABLES).status()
    });
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => ExitCode::from(
            status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(1),
        ),
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the requested action. Returns `true` if all results are as the fixtures say.
fn work(asked: &Asked) -> Result<bool, String> {
    let fixtures = match &asked.fixtures {
        Some(dir) => Fixtures::read(dir)?,
        None => Fixtures::read(&fixtures::checkout()?.join("fixtures/conformance"))?,
    };
    if let Some(name) = &asked.column {
        let column = Column::ALL
            .into_iter()
            .find(|column| column.name() == *name)
            .ok_or_else(|| format!("no such column: {name}"))?;
        return run::child(&fixtures, column, asked.filter.as_deref());
    }
    if asked.print_page {
        print!("{}", page::page(&fixtures)?);
        return Ok(true);
    }
    let mut complaints = sound::complaints(&fixtures);
    let whole = asked.filter.is_none();
    let mut here = true;
    if !asked.sound && complaints.is_empty() {
        let done = run::all(
            &fixtures,
            asked.filter.as_deref(),
            asked.fixtures.as_deref(),
        )?;
        if !asked.check && !asked.brief {
            println!("{}", page::matrix(&fixtures, &done));
        }
        print!("{}", page::summary(&done));
        here = done.columns.iter().all(run::Done::was_here);
        complaints.extend(done.complaints());
        for accuracy in reports::all(&fixtures, asked.filter.as_deref())? {
            println!("{accuracy}");
            complaints.extend(accuracy.complaints());
        }
    }
    for line in &complaints {
        println!("WRONG {line}");
    }
    if whole && complaints.is_empty() && (asked.check || asked.write) {
        complaints.extend(keep(&fixtures, asked.write && here)?);
    }
    println!("{} cases, {} wrong", fixtures.cases.len(), complaints.len());
    Ok(complaints.is_empty())
}

/// Writes the page, or says that it is out of date.
fn keep(fixtures: &Fixtures, write: bool) -> Result<Option<String>, String> {
    let path = fixtures::checkout()?.join("docs/conformance.md");
    let fresh = page::page(fixtures)?;
    if std::fs::read_to_string(&path).is_ok_and(|old| old == fresh) {
        return Ok(None);
    }
    if write {
        std::fs::write(&path, fresh).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("written: docs/conformance.md");
        return Ok(None);
    }
    let what = "docs/conformance.md is out of date: run `cargo xtask conformance` on a host with every mechanism";
    println!("WRONG {what}");
    Ok(Some(what.to_owned()))
}
