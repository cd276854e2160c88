//! `cargo xtask COMMAND`: everything this repository does to itself, in one program that needs
//! nothing but cargo. This file is the list; each command has a file of its own.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program: its output is its result"
)]

use std::process::ExitCode;

mod bench;
mod check_targets;
mod conformance;
mod docs;
mod fuzz;
mod mcp;
mod package;
mod race;
mod setup;
mod structure;
mod test;
mod test_os;

mod checkout;
mod container;
mod counted;
mod crash;
mod engine;
mod failure;
mod markdown;
mod measure;
mod memory;
mod peers;
mod picture;
mod process;
mod report;
mod sampled;
mod scratch;
mod steps;
mod table;
mod tools;
mod workspace;

use failure::Failure;

/// One command: its name, what `help` says about it, and the function that does it.
struct Command {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), Failure>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "setup",
        about: setup::ABOUT,
        run: setup::run,
    },
    Command {
        name: "test",
        about: test::ABOUT,
        run: test::run,
    },
    Command {
        name: "test-os",
        about: test_os::ABOUT,
        run: test_os::run,
    },
    Command {
        name: "conformance",
        about: conformance::ABOUT,
        run: conformance::run,
    },
    Command {
        name: "bench",
        about: bench::ABOUT,
        run: bench::run,
    },
    Command {
        name: "race",
        about: race::ABOUT,
        run: |arguments| race::TEST.run(arguments),
    },
    Command {
        name: "crash",
        about: crash::ABOUT,
        run: |arguments| crash::TEST.run(arguments),
    },
    Command {
        name: "fuzz",
        about: fuzz::ABOUT,
        run: fuzz::run,
    },
    Command {
        name: "package",
        about: package::ABOUT,
        run: package::run,
    },
    Command {
        name: "docs",
        about: docs::ABOUT,
        run: docs::run,
    },
    Command {
        name: "structure",
        about: structure::ABOUT,
        run: structure::run,
    },
    Command {
        name: "check-targets",
        about: check_targets::ABOUT,
        run: check_targets::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        eprint!("{}", help());
        return ExitCode::from(2);
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprint!("xtask: there is no command `{name}`\n\n{}", help());
        return ExitCode::from(2);
    };
    match (command.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask {name}: {failure}");
            failure.exit_code()
        }
    }
}

/// The text of `cargo xtask help`, which `docs/testing.md` also carries.
fn help() -> String {
    let width = COMMANDS
        .iter()
        .map(|command| command.name.len())
        .max()
        .unwrap_or(0);
    let mut text = String::from("Usage: cargo xtask COMMAND\n\n");
    for Command { name, about, .. } in COMMANDS {
        text.push_str(&format!("  {name:width$}  {about}\n"));
    }
    text
}
