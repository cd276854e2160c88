//! Globbing and searching 10 000 files, beside ripgrep as a process, with the same answers.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use cap_std::ambient_authority;
use file_sandbox::{
    DEFAULT_HIDDEN, DEFAULT_PROTECTED, FileSandbox, Mode, Mount, SandboxPath, SearchOptions,
    WalkOptions,
};

use crate::compare::{Measure, Outcome, medians};

const ROUNDS: usize = 20;
const BATCH: u32 = 1;

const FILES: usize = 10_000;
const FILES_PER_DIR: usize = 10;
const DIRS_PER_DIR: usize = 10;
/// Every so many lines hold the word that is searched for.
const EVERY: usize = 1_000;
const LINES: usize = 40;
const WORD: &str = "needle";

const GLOB: &str = "FileSandbox::glob, 10 000 files";
const SEARCH: &str = "FileSandbox::search, 10 000 files";

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    if Command::new("rg").arg("--version").output().is_err() {
        return Ok([GLOB, SEARCH]
            .map(|name| Measure {
                name,
                outcome: Outcome::NotHere("no rg".to_owned()),
            })
            .into());
    }
    let dir = tempfile::tempdir()?;
    plant(dir.path())?;
    let files = sandbox(dir.path())?;
    Ok(vec![glob(dir.path(), &files)?, search(dir.path(), &files)?])
}

pub(crate) fn sandbox(dir: &Path) -> Result<FileSandbox, Box<dyn Error>> {
    let target = SandboxPath::parse("/data")?;
    let mount = Mount::open_ambient(target, dir, Mode::ReadWrite, ambient_authority())?;
    // With rules, as in most uses: each name is held against them.
    let mount = mount.protect(DEFAULT_PROTECTED)?.hide(DEFAULT_HIDDEN)?;
    Ok(FileSandbox::new(vec![mount])?)
}

/// 10 000 files of some 40 lines in 1 100 directories, every other one a `.rs`.
pub(crate) fn plant(dir: &Path) -> Result<(), Box<dyn Error>> {
    let mut line = 0;
    for file in 0..FILES {
        let in_dir = file / FILES_PER_DIR;
        let parent = dir
            .join(format!("d{}", in_dir / DIRS_PER_DIR))
            .join(format!("e{}", in_dir % DIRS_PER_DIR));
        if file % FILES_PER_DIR == 0 {
            fs::create_dir_all(&parent)?;
        }
        let mut text = String::new();
        for _ in 0..LINES {
            line += 1;
            let word = if line % EVERY == 0 { WORD } else { "thread" };
            text.push_str(&format!("{line} of the hay, with one more {word} in it\n"));
        }
        let suffix = if file % 2 == 0 { "rs" } else { "md" };
        fs::write(parent.join(format!("f{file}.{suffix}")), text)?;
    }
    Ok(())
}

fn glob(dir: &Path, files: &FileSandbox) -> Result<Measure, Box<dyn Error>> {
    let ours = || {
        let found = files.glob(&SandboxPath::parse("/data")?, "**/*.rs", WalkOptions::new())?;
        Ok::<_, Box<dyn Error>>(found.entries.into_iter().map(|entry| entry.name))
    };
    let theirs = || lines(dir, &["--files", "-g", "**/*.rs"]);
    same(
        ours()?.collect(),
        theirs()?.lines().map(str::to_owned).collect(),
    )?;
    let [ours, other] = medians(
        ROUNDS,
        BATCH,
        [
            Box::new(|| ours().map(drop)),
            Box::new(|| theirs().map(drop)),
        ],
    )?;
    Ok(Measure {
        name: GLOB,
        outcome: Outcome::Ratio {
            ours,
            other,
            other_name: "rg --files -g",
            target: Some(1.0),
        },
    })
}

fn search(dir: &Path, files: &FileSandbox) -> Result<Measure, Box<dyn Error>> {
    let ours = || {
        let found = files.search(&SandboxPath::parse("/data")?, WORD, SearchOptions::new())?;
        Ok::<_, Box<dyn Error>>(found)
    };
    let theirs = || lines(dir, &["--no-heading", "--line-number", WORD]);
    let shown = |hit: &file_sandbox::SearchHit| {
        let name = hit.path.as_str().trim_start_matches("/data/");
        format!("{name}:{}:{}", hit.line, hit.text)
    };
    same(
        ours()?.hits.iter().map(shown).collect(),
        theirs()?.lines().map(str::to_owned).collect(),
    )?;
    let [ours, other] = medians(
        ROUNDS,
        BATCH,
        [
            Box::new(|| ours().map(drop)),
            Box::new(|| theirs().map(drop)),
        ],
    )?;
    Ok(Measure {
        name: SEARCH,
        outcome: Outcome::Ratio {
            ours,
            other,
            other_name: "rg",
            target: Some(1.0),
        },
    })
}

/// A comparison of different answers would measure nothing.
fn same(ours: BTreeSet<String>, theirs: BTreeSet<String>) -> Result<(), Box<dyn Error>> {
    if ours.is_empty() || ours != theirs {
        return Err(format!("{} and {} answers differ", ours.len(), theirs.len()).into());
    }
    Ok(())
}

fn lines(dir: &Path, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Command::new("rg")
        .args(arguments)
        .arg("--no-config")
        .arg("./")
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.replace("./", ""))
}
