//! The state that a worker's commands leave to the next one, if the worker has a session: the
//! directory they ended in and the variables they set.
//!
//! No process stays for it. Each call is a shell of its own, under the plan, the rules and a time
//! limit of its own, and none of its processes survives; at its end it reports its directory and
//! its variables, and the next one begins with them. So output needs no marks, a command that hangs
//! takes nothing with it, and the judged command is the one that runs: the state is part of the
//! question, and the call runs with that state.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// Variables kept, and bytes of them all.
const MAX_VARIABLES: usize = 64;
const MAX_BYTES: usize = 32 * 1024;

/// Variables that every shell sets itself.
const OF_THE_SHELL: [&str; 6] = ["PWD", "OLDPWD", "SHLVL", "_", "PPID", "OPTIND"];

/// The last output of the script if it cannot enter its directory.
const GONE: &str = "\0!\0";

/// State that the next command starts with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShellState {
    /// Absolute, or from where commands begin otherwise (`./sub`).
    directory: Option<String>,
    /// `None` for an unset variable.
    variables: BTreeMap<String, Option<String>>,
}

/// The state of one worker.
#[derive(Debug, Default)]
pub(crate) struct ShellSession(Mutex<Arc<ShellState>>);

impl ShellSession {
    pub(crate) fn state(&self) -> Arc<ShellState> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Of calls side by side, the one that ends last leaves its state.
    pub(crate) fn set(&self, state: ShellState) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
    }
}

impl ShellState {
    /// Returns `true` if commands mean something else than in the beginning because of a variable.
    pub(crate) fn has_variables(&self) -> bool {
        !self.variables.is_empty()
    }

    pub(crate) fn has_variable(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    sandbox_names::getters! {
        pub(crate) has_moved: bool = directory.is_some();
        pub(crate) directory: Option<&str> = directory.as_deref();
    }

    /// Describes the state to a person who is asked about a command; empty for the initial state.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        if let Some(directory) = &self.directory {
            let _infallible = write!(text, "\n  in {}", crate::escape_controls(directory));
        }
        for (name, value) in &self.variables {
            let _infallible = match value {
                Some(value) => write!(text, "\n  with {name}={}", crate::escape_controls(value)),
                None => write!(text, "\n  without {name}"),
            };
        }
        text
    }

    /// As the script takes them.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let directory = self.directory.iter().map(|path| format!("@{path}"));
        let variables = self.variables.iter().map(|(name, value)| match value {
            Some(value) => format!("+{name}={value}"),
            None => format!("-{name}"),
        });
        directory.chain(variables).collect()
    }

    /// Parses the arguments of the script; `None` if they are not a state.
    pub(crate) fn from_arguments(arguments: &[String]) -> Option<ShellState> {
        let mut state = ShellState::default();
        for argument in arguments {
            match argument.split_at_checked(1)? {
                ("@", path) => state.directory = Some(path.to_owned()),
                ("+", set) => {
                    let (name, value) = set.split_once('=')?;
                    state
                        .variables
                        .insert(name.to_owned(), Some(value.to_owned()));
                }
                ("-", name) => {
                    state.variables.insert(name.to_owned(), None);
                }
                _ => return None,
            }
        }
        Some(state)
    }

    /// Returns the state after a command, from the report of the script, or the reason why it is
    /// unknown.
    pub(crate) fn after(&self, said: &[u8]) -> Result<ShellState, &'static str> {
        let Ok(said) = std::str::from_utf8(said) else {
            return Err("a name or a value is not text");
        };
        let start = said.split('\0').next().unwrap_or_default();
        if said.ends_with(GONE) {
            return Ok(ShellState {
                directory: None,
                variables: self.variables.clone(),
            });
        }
        let Some(ended) = said.strip_suffix("\0=\0") else {
            return Err("the shell did not reach its end");
        };
        let Some((before, after)) = ended.split_once("\0=\0") else {
            return Err("the shell did not reach its end");
        };
        let before = before.strip_prefix(start).unwrap_or_default();
        let (directory, after) = after.split_once('\0').unwrap_or((after, ""));
        let (before, after) = (variables(before), variables(after));
        let mut state = ShellState {
            directory: from_start(start.trim_end_matches('\n'), directory),
            variables: self.variables.clone(),
        };
        for (name, value) in &after {
            if before.get(name) != Some(value) {
                let _earlier = state
                    .variables
                    .insert((*name).to_owned(), Some((*value).to_owned()));
            }
        }
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            let _earlier = state.variables.insert((*name).to_owned(), None);
        }
        let bytes: usize = state.arguments().iter().map(String::len).sum();
        if state.variables.len() > MAX_VARIABLES || bytes > MAX_BYTES {
            return Err("there is too much of it");
        }
        Ok(state)
    }
}

/// Returns `true` if there was no way back to where the command should have begun; then it was not
/// run.
pub(crate) fn is_gone(said: &[u8]) -> bool {
    said.ends_with(GONE.as_bytes())
}

/// Those that a shell can set again.
fn variables(records: &str) -> BTreeMap<&str, &str> {
    let is_name = |name: &str| {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    records
        .split('\0')
        .filter_map(|record| record.split_once('='))
        .filter(|(name, _)| is_name(name) && !OF_THE_SHELL.contains(name))
        .collect()
}

/// Returns the directory relative to the start directory, because the path of that can differ
/// between commands.
fn from_start(start: &str, directory: &str) -> Option<String> {
    let directory = directory.strip_suffix('\n').unwrap_or(directory);
    match directory.strip_prefix(start) {
        Some("") => None,
        Some(below) if below.starts_with('/') && start != "/" => Some(format!(".{below}")),
        Some(_) | None => Some(directory.to_owned()),
    }
}

/// Runs its last argument as a command line, after entering the state that the other arguments
/// describe, and reports on descriptor 0 the initial directory and variables, and both again at the
/// end.
///
/// Descriptor 0 is one end of a socket: programs get `/dev/null` instead, the shell's own copy is
/// closed when it starts one, and no path leads to a socket.
pub(crate) const SCRIPT: &str = r#"
pwd -P >&0
while [ "$#" -gt 1 ]; do
  case $1 in
    @*) cd -- "${1#@}" || { printf '\0!\0' >&0; exit 1; } ;;
    +*) export "${1#+}" ;;
    -*) unset "${1#-}" ;;
  esac
  shift
done
{ printf '\0'; /usr/bin/env -0; printf '=\0'; } >&0
set -a
eval " $1" </dev/null
set -- "$?"
set +a
{ pwd -P; printf '\0'; /usr/bin/env -0; printf '=\0'; } >&0 2>/dev/null
exit "$1"
"#;

/// A plain command as a line for a shell that finds nothing to expand in it.
pub(crate) fn quoted(words: &[String]) -> String {
    let quoted = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(start: &str, before: &str, directory: &str, after: &str) -> Vec<u8> {
        format!("{start}\n\0{before}=\0{directory}\n\0{after}=\0").into_bytes()
    }

    #[test]
    fn what_changed_is_kept() {
        let first = ShellState::default()
            .after(&said(
                "/work",
                "A=1\0B=2\0",
                "/work/sub",
                "A=1\0B=3\0C=4\n=5\0",
            ))
            .unwrap();
        assert_eq!(first.arguments(), ["@./sub", "+B=3", "+C=4\n=5"]);
        let second = first
            .after(&said(
                "/run/other",
                "A=1\0B=3\0C=4\n=5\0",
                "/data",
                "B=3\0PWD=/x\0",
            ))
            .unwrap();
        assert_eq!(second.arguments(), ["@/data", "-A", "+B=3", "-C"]);
        assert_eq!(
            ShellState::from_arguments(&second.arguments()),
            Some(second.clone())
        );
        let back = second.after(&said("/w", "B=3\0", "/w", "B=3\0")).unwrap();
        assert_eq!(back.arguments(), ["-A", "+B=3", "-C"]);
        assert_eq!(back.describe(), "\n  without A\n  with B=3\n  without C");
    }

    #[test]
    fn what_is_not_whole_changes_nothing() {
        let whole = said("/work", "A=1\0", "/x", "A=2\0");
        for end in 0..whole.len() - 1 {
            assert!(ShellState::default().after(&whole[..end]).is_err(), "{end}");
        }
        assert!(ShellState::default().after(b"\xff\0=\0=\0").is_err());
        let long = "x".repeat(MAX_BYTES);
        let much = said("/", "", "/", &format!("A={long}\0"));
        assert_eq!(
            ShellState::default().after(&much),
            Err("there is too much of it")
        );
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_is_said_panics(said in "(\0|=|!|\n|/|[a-c]){0,60}") {
            let _either = ShellState::default().after(said.as_bytes());
        }
    }
}
