//! The command line that starts the server of this directory from another program.

use std::path::{Path, PathBuf};

use super::clients::{McpClient, Scope};
use super::entry::ServerCommand;
use crate::ambient::Ambient;
use crate::cli::{ApproverName, Global};
use crate::exit::CliError;
use crate::output::escape::{escape, escape_path};
use crate::setup::host_programs::HostPrograms;

/// Variables that name forge's own directories. Clients pass on little of their environment, so
/// values set in this shell have to be part of the entry.
pub(crate) const OUR_PLACES: [&str; 3] = ["FORGE_STATE_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"];

/// The name of this program in PATH.
const PROGRAM: &str = "forge";

const MAX_NAME_CHARS: usize = 64;

/// The users for whom an entry names the program and the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// This user on this machine: absolute paths, which hold wherever the client starts the server.
    ThisUser,
    /// A team that commits the file: the program by its name in PATH, paths relative to the project,
    /// and no variables. The client starts the server in the project or has a variable for it.
    Team(McpClient),
}

impl Audience {
    /// Returns the readers of a client's settings of this scope.
    pub(crate) fn of(client: McpClient, scope: Scope) -> Self {
        match scope {
            Scope::Project => Audience::Team(client),
            Scope::User => Audience::ThisUser,
        }
    }
}

impl ServerCommand {
    /// Returns the command line that starts the server with the settings of this directory.
    pub(crate) fn here(
        ambient: &Ambient,
        name: &str,
        worker: Option<&str>,
        approver: Option<ApproverName>,
        audience: Audience,
    ) -> Result<ServerCommand, CliError> {
        let start = &start(&ambient.global)?;
        if ambient.global.trust {
            return Err(CliError::usage(
                "--trust is for one run, and a client's settings are for many",
            )
            .hint("`forge trust` agrees to what the project's file says now"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(is_plain) {
            return Err(CliError::usage(format!(
                "--name {}: expected up to {MAX_NAME_CHARS} letters, digits, `-` and `_`",
                escape(name)
            )));
        }
        let mut arguments = project_arguments(ambient, start, audience)?;
        arguments.push("mcp".to_owned());
        if let Some(worker) = worker {
            arguments.extend(["--worker".to_owned(), worker.to_owned()]);
        }
        if let Some(approver) = approver {
            let word = match approver {
                ApproverName::Host => "host",
                ApproverName::Queue => "queue",
            };
            arguments.extend(["--approver".to_owned(), word.to_owned()]);
        }
        let (program, env) = match audience {
            Audience::ThisUser => (utf8(&program(ambient)?)?, own_places(ambient)),
            Audience::Team(_) => (PROGRAM.to_owned(), Vec::new()),
        };
        Ok(ServerCommand {
            name: name.to_owned(),
            program,
            arguments,
            env,
        })
    }
}

/// Returns the global flags with which a client starts the server in this project.
fn project_arguments(
    ambient: &Ambient,
    start: &Path,
    audience: Audience,
) -> Result<Vec<String>, CliError> {
    let directory = match audience {
        Audience::ThisUser => Some(utf8(start)?),
        Audience::Team(client) => client.project_variable().map(str::to_owned),
    };
    let mut arguments = Vec::new();
    if let Some(directory) = directory {
        arguments.extend(["-C".to_owned(), directory]);
    }
    let named = ambient.global.config.clone();
    let named = named.or_else(|| ambient.path("FORGE_CONFIG"));
    match named {
        _ if ambient.global.no_config => arguments.push("--no-config".to_owned()),
        Some(file) => {
            let file = start.join(file);
            let shown = match audience {
                Audience::ThisUser => &file,
                Audience::Team(_) => file.strip_prefix(start).unwrap_or(&file),
            };
            arguments.extend(["--config".to_owned(), utf8(shown)?]);
        }
        None => {}
    }
    for pair in &ambient.global.set {
        arguments.extend(["-c".to_owned(), pair.clone()]);
    }
    if let Some(root) = &ambient.global.sandbox_root {
        arguments.extend(["--sandbox-root".to_owned(), root.clone()]);
    }
    Ok(arguments)
}

/// Returns the variables that say where forge's own files are, as they are set here.
pub(crate) fn own_places(ambient: &Ambient) -> Vec<(String, String)> {
    let set = OUR_PLACES.into_iter().filter_map(|name| {
        let value = ambient.var(name)?;
        Some((name.to_owned(), value.to_owned()))
    });
    set.collect()
}

/// The directory that forge was started for.
pub(crate) fn start(global: &Global) -> Result<PathBuf, CliError> {
    absolute(global.directory.as_deref().unwrap_or(Path::new("")))
}

/// Returns the path of this program by the name that stays when it is updated: the one in PATH, if
/// that is this program. A client starts it outside of the sandbox, so no command may change it.
fn program(ambient: &Ambient) -> Result<PathBuf, CliError> {
    let program = in_path(ambient)?.map_or_else(own, Ok)?;
    match HostPrograms::around_caller(ambient).problem(&program) {
        None => Ok(program),
        Some(why) => Err(CliError::negative(
            "client.file",
            format!("a client cannot start {}: it {why}", escape_path(&program)),
        )
        .hint("install forge outside of the project, where only you or root can change it")),
    }
}

/// Returns the path of this program in PATH. `None` if PATH has no `forge` or another one.
pub(crate) fn in_path(ambient: &Ambient) -> Result<Option<PathBuf>, CliError> {
    let own = own()?;
    let dirs = std::env::split_paths(ambient.var("PATH").unwrap_or_default());
    let programs = HostPrograms::around_caller(ambient);
    let first = dirs
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(PROGRAM))
        .filter(|path| path.canonicalize().is_ok_and(|path| path == own))
        .find(|path| programs.problem(path).is_none());
    Ok(first)
}

fn own() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(|error| {
        CliError::negative(
            "client.file",
            format!("cannot tell where this program is: {error}"),
        )
    })
}

/// Resolves a path of the command line.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    // With nothing after it, the dot keeps an empty path from being a mistake.
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    std::path::absolute(path)
        .map_err(|error| CliError::usage(format!("{}: {error}", escape_path(path))))
}

fn utf8(path: &Path) -> Result<String, CliError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        CliError::usage(format!(
            "{}: settings of clients cannot hold a path that is not UTF-8",
            escape_path(path)
        ))
    })
}
