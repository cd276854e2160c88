//! `cargo xtask conformance`: the cases of `fixtures/conformance` under every enforcer that this
//! host has. The program that does it is a crate of its own; this builds and starts it.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::process;
use crate::steps::Outcome;
use crate::test_os;

pub(crate) const ABOUT: &str = "one policy under every enforcer, and docs/conformance.md (--check: compare; or part of a name)";

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
    let mut command = process::command(program()?);
    command.arg(if check { "--check" } else { "--write" });
    process::shown(command.args(filter))
}

/// The command as a step of `cargo xtask test`: an enforcer that this host does not have is said.
pub(crate) fn outcome() -> Outcome {
    let checked =
        program().and_then(|program| process::captured(process::command(program).arg("--check")));
    match checked {
        Err(failure) => Outcome::Failed(failure.to_string()),
        Ok((status, text)) => {
            print!("{text}");
            judged(status.success(), &text)
        }
    }
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
        let text = "files: 9 cases, 0 wrong\nnot here: docker: not built\n9 cases, 0 wrong\n";
        assert_eq!(
            judged(true, text),
            Outcome::Partly("docker: not built".into())
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
