//! The public MCP servers that ours is measured beside, each of one version and put below the
//! target directory by the client of its own registry. One that cannot be had here is a row that
//! says so, and no reason to measure nothing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Context as _, Failure};
use crate::process;
use crate::workspace;

const NPM: &str = "@modelcontextprotocol/server-filesystem";
const NPM_VERSION: &str = "2026.8.31";
const CARGO: &str = "rust-mcp-filesystem";
const CARGO_VERSION: &str = "0.4.5";

/// What the bench is told in its environment: where they are, or why they are not here.
pub(crate) fn install() -> Vec<(&'static str, String)> {
    let dir = workspace::target_dir().join("bench-peers");
    [
        (
            npm(&dir.join("npm")),
            "FORGE_BENCH_NPM",
            "FORGE_BENCH_NPM_NOT_HERE",
        ),
        (
            cargo(&dir.join("cargo")),
            "FORGE_BENCH_CARGO",
            "FORGE_BENCH_CARGO_NOT_HERE",
        ),
    ]
    .map(|(installed, place, not_here)| match installed {
        Ok(path) => (place, path.to_string_lossy().into_owned()),
        // One line: it becomes a cell of a table.
        Err(failure) => {
            let why = failure.to_string();
            (not_here, why.lines().next().unwrap_or_default().to_owned())
        }
    })
    .into()
}

fn npm(dir: &Path) -> Result<PathBuf, Failure> {
    let server = dir.join("node_modules").join(NPM);
    let program = server.join("dist/index.js");
    for needed in ["node", "npm"] {
        if process::find(needed).is_none() {
            return Err(Failure::new(format!("there is no {needed}")));
        }
    }
    let manifest = fs::read_to_string(server.join("package.json")).unwrap_or_default();
    if !manifest.contains(&format!("\"version\": \"{NPM_VERSION}\"")) {
        fs::create_dir_all(dir).context("a directory for npm")?;
        let mut npm = process::command("npm");
        npm.args([
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
        ])
        .arg("--prefix")
        .arg(dir)
        .arg(format!("{NPM}@{NPM_VERSION}"));
        process::quiet(&mut npm)?;
    }
    Ok(program)
}

fn cargo(dir: &Path) -> Result<PathBuf, Failure> {
    let program = dir.join("bin").join(CARGO);
    let version = process::output(process::command(&program).arg("--version"));
    if !version.is_ok_and(|text| text.split_whitespace().last() == Some(CARGO_VERSION)) {
        let mut cargo = process::cargo();
        // Its own target directory, which is not needed afterwards.
        let build = dir.join("build");
        cargo
            .env("CARGO_TARGET_DIR", &build)
            .env_remove("RUSTFLAGS");
        cargo.args(["install", "--locked", "--quiet", "--force", CARGO]);
        cargo.args(["--version", CARGO_VERSION, "--root"]).arg(dir);
        let installed = process::shown(&mut cargo);
        // What is left over costs room only.
        let _ = fs::remove_dir_all(&build);
        installed?;
    }
    Ok(program)
}
