//! `cargo xtask fuzz [TARGET] [--seconds N]`: cargo-fuzz on every target, or on one.
//!
//! The targets are packages of their own below the crates they drive, outside the workspace: they
//! need a nightly compiler, which nothing else here does. A crash is left there as an input
//! file, whose name cargo-fuzz prints; it becomes a row of a test.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure};
use crate::process;
use crate::steps::Steps;
use crate::workspace;

pub(crate) const ABOUT: &str =
    "fuzz every target, or the one named, for --seconds N (60); needs nightly and cargo-fuzz";

const SECONDS: u64 = 60;
const DIRS: [&str; 8] = [
    "crates/file-sandbox/fuzz",
    "crates/forge-git/fuzz",
    "crates/forge-mcp/fuzz",
    "crates/forge-node/fuzz",
    "crates/forge-runtime/fuzz",
    "crates/forge-tools/fuzz",
    "crates/sandbox-config/fuzz",
    "crates/sandbox-network/fuzz",
];

/// Inputs to begin with: from nothing, a fuzzer hardly finds the first key of a file.
const SEEDS: [(&str, &str); 10] = [
    ("audit_log", "crates/forge-tools/fuzz/seeds/audit_log"),
    ("executor", "crates/forge-tools/fuzz/seeds/executor"),
    ("git_answers", "crates/forge-git/fuzz/seeds/git_answers"),
    ("git_kept", "crates/forge-git/fuzz/seeds/git_kept"),
    ("git_names", "crates/forge-git/fuzz/seeds/git_names"),
    ("mcp_server", "crates/forge-mcp/fuzz/seeds/mcp_server"),
    ("project_file", "fixtures/config"),
    ("provider_stream", "fixtures/providers"),
    ("transcript", "crates/forge-runtime/fuzz/seeds/transcript"),
    ("worker_file", "fixtures/config"),
];

/// A single input that takes longer is a finding.
const INPUT_LIMIT_S: u32 = 10;
const MEMORY_LIMIT_MB: u32 = 1024;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let asked = Asked::parse(arguments)?;
    let mut targets = targets()?;
    if let Some(name) = &asked.target {
        let known: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
        targets.retain(|target| target.name == *name);
        if targets.is_empty() {
            return Err(Failure::Usage(format!(
                "there is no target `{name}`; there are: {}",
                known.join(", ")
            )));
        }
    }
    let program = program()?;
    let mut steps = Steps::default();
    for target in targets {
        steps.run(&target.name, || fuzz(&program, &target, asked.seconds));
    }
    steps.close()
}

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    target: Option<String>,
    seconds: u64,
}

impl Asked {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut asked = Self {
            target: None,
            seconds: SECONDS,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--seconds" {
                let number = arguments.next().and_then(|number| number.parse().ok());
                asked.seconds = number
                    .filter(|number| *number > 0)
                    .ok_or_else(|| Failure::Usage("--seconds needs a number".into()))?;
            } else if argument.starts_with('-') || asked.target.is_some() {
                return Err(Failure::Usage(format!("unexpected argument `{argument}`")));
            } else {
                asked.target = Some(argument.clone());
            }
        }
        Ok(asked)
    }
}

struct Target {
    dir: &'static str,
    name: String,
}

/// One source file, one target.
fn targets() -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for dir in DIRS {
        let sources = workspace::root().join(dir).join("fuzz_targets");
        for entry in fs::read_dir(&sources).context(sources.display())? {
            let path = entry.context(sources.display())?.path();
            if path.extension().is_some_and(|extension| extension == "rs")
                && let Some(name) = path.file_stem()
            {
                let name = name.to_string_lossy().into_owned();
                targets.push(Target { dir, name });
            }
        }
    }
    targets.sort_by(|a, b| (a.dir, &a.name).cmp(&(b.dir, &b.name)));
    Ok(targets)
}

fn program() -> Result<PathBuf, Failure> {
    let name = "cargo-fuzz";
    let cached = workspace::cache_dir()?.join("bin").join(name);
    if cached.is_file() {
        return Ok(cached);
    }
    process::find(name).ok_or_else(|| {
        Failure::new(format!(
            "there is no cargo-fuzz; `cargo install cargo-fuzz --locked` makes it, and \
             `rustup toolchain install nightly` the compiler that it needs. With `--root {}` it is \
             kept beside the other tools",
            workspace::cache_dir()
                .map_or_else(|_| "DIR".to_owned(), |dir| dir.display().to_string())
        ))
    })
}

fn fuzz(program: &Path, target: &Target, seconds: u64) -> Result<(), Failure> {
    // The first directory takes what is found; the others are only read.
    let corpus = workspace::root()
        .join(target.dir)
        .join("corpus")
        .join(&target.name);
    fs::create_dir_all(&corpus).context(corpus.display())?;
    let seeds = SEEDS
        .iter()
        .filter(|(name, _)| *name == target.name)
        .map(|(_, dir)| workspace::root().join(dir));
    let mut command = process::command(program);
    command
        .args(["fuzz", "run", "--fuzz-dir", target.dir, &target.name])
        .arg(corpus)
        .args(seeds)
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_LIMIT_S}"))
        .arg(format!("-rss_limit_mb={MEMORY_LIMIT_MB}"))
        .arg("-print_final_stats=1")
        .env("RUSTUP_TOOLCHAIN", "nightly");
    // Ours is the pinned one.
    for variable in ["CARGO", "RUSTC", "RUSTDOC"] {
        command.env_remove(variable);
    }
    process::shown(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Asked::parse(&words)
                .ok()
                .map(|asked| (asked.target, asked.seconds))
        };
        assert_eq!(parse(&[]), Some((None, SECONDS)));
        assert_eq!(
            parse(&["path", "--seconds", "5"]),
            Some((Some("path".into()), 5))
        );
        for wrong in [
            &["--seconds"][..],
            &["--seconds", "0"],
            &["a", "b"],
            &["--fast"],
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn every_target_is_in_the_manifest() {
        let targets = targets().expect("the targets");
        for dir in DIRS {
            assert!(targets.iter().any(|target| target.dir == dir), "{dir}");
        }
        for (name, dir) in SEEDS {
            assert!(targets.iter().any(|target| target.name == name), "{name}");
            assert!(workspace::root().join(dir).is_dir(), "{dir}");
        }
        for Target { dir, name } in targets {
            let manifest = workspace::root().join(dir).join("Cargo.toml");
            let manifest = fs::read_to_string(manifest).expect("the manifest of the targets");
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        }
    }
}
