//! A program that commands do not see, though it is there outside: where it is, and the key that
//! shows it.

use std::ffi::OsStr;
use std::io::{BufRead as _, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use os_sandbox::{Access, Denial, DenialReason, DeniedOperation, Policy};
use sandbox_config::Project;

use super::hints::advice_for_project_files;
use super::proposals::RuleOffers;
use crate::ambient::Ambient;
use crate::output::escape::{escape_path, shell_word};
use crate::setup::host_programs::is_program;
use crate::setup::program_dirs::PathDirs;

/// Most that is read of a script's first line; the kernel reads 256 bytes (execve(2)).
const MAX_FIRST_LINE: u64 = 256;

/// The reason for which a program could not be started.
pub(super) enum MissingProgram {
    /// It exists, and commands do not see it.
    Unseen(PathBuf),
    /// Its interpreter exists, and commands do not see it.
    UnseenInterpreter(PathBuf),
    /// Another reason, in words.
    Other(String),
}

impl MissingProgram {
    /// Looks for a program that was not found; `here` is the caller's directory.
    pub(super) fn find(
        program: &OsStr,
        here: &Path,
        policy: &Policy,
        ambient: &Ambient,
    ) -> Option<MissingProgram> {
        if let Some(advice) = shell_words(program) {
            return Some(MissingProgram::Other(advice));
        }
        let sees = |path: &Path| policy.allows(path, Access::READ | Access::EXECUTE);
        let path: PathBuf = here.join(program).components().collect();
        let is_path = program.as_bytes().contains(&b'/') || program == "." || program == "..";
        if is_path && path.is_dir() {
            let text = format!("{} is a directory, not a program", escape_path(&path));
            return Some(MissingProgram::Other(text));
        }
        if !program.as_bytes().contains(&b'/') {
            let outside = ambient.var("PATH").and_then(|path| find(program, path));
            let Some(outside) = outside else {
                let mut text = "it is not in your PATH outside of the sandbox either".to_owned();
                if path.is_file() {
                    let name = shell_word(&program.to_string_lossy());
                    text += &format!("; the file in this directory is ./{name}");
                }
                return Some(MissingProgram::Other(text));
            };
            return Some(match sees(&outside) {
                true => match interpreter(&outside).filter(|path| !sees(path)) {
                    Some(path) => MissingProgram::UnseenInterpreter(path),
                    None => MissingProgram::Other(format!("it is at {}", escape_path(&outside))),
                },
                false => MissingProgram::Unseen(outside),
            });
        }
        if !path.is_file() {
            return Some(MissingProgram::Other(format!(
                "{} is not there outside of the sandbox either",
                escape_path(&path)
            )));
        }
        match interpreter(&path) {
            _ if !sees(&path) => Some(MissingProgram::Unseen(path)),
            Some(path) if !path.exists() => Some(MissingProgram::Other(format!(
                "its first line names {}, which does not exist",
                escape_path(&path)
            ))),
            // A link out of the visible directories.
            Some(path) => {
                let end = path.canonicalize().unwrap_or_else(|_| path.clone());
                (!sees(&end)).then_some(MissingProgram::UnseenInterpreter(end))
            }
            None => {
                let end = path.canonicalize().ok()?;
                (!sees(&end)).then_some(MissingProgram::Unseen(end))
            }
        }
    }

    /// Returns the reason, with the key that shows the program.
    pub(super) fn hint(&self, project: &Project, is_of_worker: bool, ambient: &Ambient) -> String {
        let (verb, path) = match self {
            MissingProgram::Unseen(path) => ("is at", path),
            MissingProgram::UnseenInterpreter(path) => ("runs with", path),
            MissingProgram::Other(text) => return text.clone(),
        };
        let denials: Vec<Denial> = self.denial().into_iter().collect();
        let rules = RuleOffers::new(&denials, &[], project, ambient.home.as_deref());
        let how = match (
            advice_for_project_files(path, project),
            rules.without.first(),
        ) {
            (Some(advice), _) => advice.to_owned(),
            (None, Some((_, why))) => format!("no rule shows it: {why}"),
            (None, None) => how_to_show(path, ambient, is_of_worker),
        };
        format!(
            "it {verb} {}, which commands do not see; {how}",
            escape_path(path)
        )
    }

    /// Returns the refusal for the log; `None` if it is none.
    pub(super) fn denial(&self) -> Option<Denial> {
        let path = match self {
            MissingProgram::Unseen(path) | MissingProgram::UnseenInterpreter(path) => path,
            MissingProgram::Other(_) => return None,
        };
        Some(Denial {
            operation: DeniedOperation::Execute,
            object: escape_path(path),
            reason: DenialReason::NotShown,
            program: "forge".to_owned(),
        })
    }
}

/// Returns advice about a program's name that is a line for a shell.
fn shell_words(program: &OsStr) -> Option<String> {
    const BUILTINS: [&str; 9] = [
        ".", "alias", "cd", "eval", "exit", "export", "set", "source", "unset",
    ];
    let name = program.to_str()?;
    if Path::new(name).exists() {
        return None;
    }
    if BUILTINS.contains(&name) {
        return Some(format!(
            "`{name}` is a word of shells, not a program: forge exec sh -c '{name} …'"
        ));
    }
    if name.contains(|c: char| c.is_whitespace() || "|&;<>()$`*?".contains(c)) {
        return Some(
            "the command is one word: write its words apart, or let a shell read it: \
             forge exec sh -c '…'"
                .to_owned(),
        );
    }
    let (variable, _) = name.split_once('=')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!variable.is_empty() && variable.chars().all(is_name))
        .then(|| "a shell sets variables in that way: forge exec env NAME=VALUE COMMAND".to_owned())
}

/// Returns `true` if the user's shell would find a program of this name.
pub(super) fn is_installed(program: &OsStr, ambient: &Ambient) -> bool {
    let name = Path::new(program).file_name();
    let path = ambient.var("PATH").unwrap_or_default();
    name.is_some_and(|name| find(name, path).is_some())
}

pub(super) fn how_to_show(path: &Path, ambient: &Ambient, is_of_worker: bool) -> String {
    let directory = path.parent().unwrap_or(path);
    let list = PathDirs::of(directory, ambient.home.as_deref()).list();
    let rule = match is_of_worker {
        true => "",
        false => "for yourself in this project: forge allow --last, or ",
    };
    format!(
        "to show it: `sandbox: {{ programs: [{list}] }}` in the project file or in your own, {rule}\
         for once: -c 'sandbox.programs=[{list}]'"
    )
}

/// Finds a program in a search path, as a shell would.
pub(super) fn find(program: &OsStr, path: &str) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|path| is_program(path))
}

/// Returns the interpreter in the first line of a script.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let file = std::fs::File::open(path).ok()?;
    let mut line = Vec::new();
    let mut start = std::io::BufReader::new(file.take(MAX_FIRST_LINE));
    start.read_until(b'\n', &mut line).ok()?;
    let text = std::str::from_utf8(&line).ok()?.strip_prefix("#!")?;
    text.split_whitespace().next().map(PathBuf::from)
}
