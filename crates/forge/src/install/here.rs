//! The server of this directory, as somebody else has to start it.

use std::path::{Path, PathBuf};

use super::entry::Server;
use crate::ambient::Ambient;
use crate::cli::{ApproverName, Global};
use crate::exit::{Exit, Failure};
use crate::visible::{visible, visible_path};

/// What says where our own files are. Clients pass on little of their environment, so what is
/// set where a person types this has to be told to them.
pub(crate) const OUR_PLACES: [&str; 3] = ["FORGE_STATE_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"];

const MAX_NAME_CHARS: usize = 64;

impl Server {
    /// The command line that starts the server from any directory, with the settings of this one.
    pub(crate) fn here(
        global: &Global,
        ambient: &Ambient,
        name: &str,
        worker: Option<&str>,
        approver: Option<ApproverName>,
    ) -> Result<Server, Failure> {
        let start = &start(global)?;
        if global.trust {
            return Err(Failure::usage(
                "--trust is for one run, and a client's settings are for many",
            )
            .hint("`forge trust` agrees to what the project's file says now"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(is_plain) {
            return Err(Failure::usage(format!(
                "--name {}: expected up to {MAX_NAME_CHARS} letters, digits, `-` and `_`",
                visible(name)
            )));
        }
        let mut arguments = vec!["-C".to_owned(), utf8(start)?];
        let named = global.config.clone();
        let named = named.or_else(|| ambient.var("FORGE_CONFIG").map(PathBuf::from));
        match named {
            _ if global.no_config => arguments.push("--no-config".to_owned()),
            Some(file) => arguments.extend(["--config".to_owned(), utf8(&start.join(file))?]),
            None => {}
        }
        for pair in &global.set {
            arguments.extend(["-c".to_owned(), pair.clone()]);
        }
        if let Some(root) = &global.sandbox_root {
            arguments.extend(["--sandbox-root".to_owned(), root.clone()]);
        }
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
        let env = OUR_PLACES.into_iter().filter_map(|name| {
            let value = ambient.var(name)?;
            Some((name.to_owned(), value.to_owned()))
        });
        Ok(Server {
            name: name.to_owned(),
            program: utf8(&program(ambient)?)?,
            arguments,
            env: env.collect(),
        })
    }
}

/// The directory that forge was started for.
pub(crate) fn start(global: &Global) -> Result<PathBuf, Failure> {
    absolute(global.directory.as_deref().unwrap_or(Path::new("")))
}

/// Where this program is, by the name that stays when it is updated: the one in PATH, if that is
/// this program.
fn program(ambient: &Ambient) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::new(
            Exit::Negative,
            "client.file",
            format!("cannot tell where this program is: {error}"),
        )
    })?;
    let is_own = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == own);
    let dirs = std::env::split_paths(ambient.var("PATH").unwrap_or_default());
    let in_path = dirs
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("forge"))
        .find(is_own);
    Ok(in_path.unwrap_or(own))
}

/// As the person who typed it means it.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    // With nothing after it, the dot keeps an empty path from being a mistake.
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    std::path::absolute(path)
        .map_err(|error| Failure::usage(format!("{}: {error}", visible_path(path))))
}

fn utf8(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!(
            "{}: settings of clients cannot hold a path that is no UTF-8",
            visible_path(path)
        ))
    })
}
