//! What configuration costs: loading and checking projects, and `forge check` from start to exit.
//! These targets are times, not ratios: nobody else reads these files. The least of many rounds
//! stands for what the work itself takes, on a machine that also does other things.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox_config::{Sources, load};

use crate::compare::{Measure, Outcome};

const ROUNDS: usize = 20;

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let workers = dir.path().join("workers-1000");
    plant_workers(&workers, 1_000)?;
    let zones = dir.path().join("zones-10000");
    plant_zones(&zones, 10_000)?;
    Ok(vec![
        in_process("load and check, 1 000 workers", &workers, 100.0)?,
        in_process("load and check, 10 000 zones", &zones, 500.0)?,
        check(
            "forge check, examples/dep-audit",
            &example("dep-audit"),
            20.0,
        )?,
        check("forge check, 1 000 workers", &workers, 250.0)?,
    ])
}

/// Workers as projects have them: zones, rules, limits, tools, and somebody to call.
fn plant_workers(dir: &Path, count: usize) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(dir.join("workers"))?;
    let mut config = String::from("entry: w0\ndelegation: { max_depth: 6 }\nsandbox:\n  zones:\n");
    for zone in 0..20 {
        writeln!(config, "    z{zone}: {{ path: ./z{zone}, mode: rw }}")?;
    }
    config.push_str("shell:\n  rules:\n");
    for rule in 0..20 {
        writeln!(
            config,
            "    - {{ pattern: \"tool{rule} (a|b) *\", approval: ask, examples: {{ match: [\"tool{rule} a\"] }} }}"
        )?;
    }
    fs::write(dir.join("golem-forge.config.yaml"), config)?;
    for worker in 0..count {
        // A tree of four: nobody is deeper than the project allows.
        let calls: Vec<String> = (4 * worker + 1..4 * worker + 5)
            .filter(|called| *called < count)
            .map(|called| format!("w{called}"))
            .collect();
        let text = format!(
            "---\nname: w{worker}\ndescription: Worker number {worker}\nsandbox:\n  zones:\n    - {{ name: z0, mode: ro }}\n    - {{ name: z1, mode: rw, approval: {{ delete: blocked }}, suffixes: [.md, .csv] }}\nshell:\n  rules:\n    - {{ pattern: \"tool1 a\", approval: ask }}\ntools: [read_file, write_file, list_files]\nworkers: [{}]\nlimits: {{ max_turns: 10 }}\n---\n{}",
            calls.join(", "),
            "Do what is asked.\n".repeat(20)
        );
        fs::write(dir.join(format!("workers/w{worker}.worker")), text)?;
    }
    Ok(())
}

fn plant_zones(dir: &Path, count: usize) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(dir)?;
    let mut config = String::from("sandbox:\n  zones:\n");
    for zone in 0..count {
        writeln!(config, "    z{zone}: {{ path: ./z{zone} }}")?;
    }
    fs::write(dir.join("golem-forge.config.yaml"), config)?;
    Ok(())
}

fn in_process(name: &'static str, dir: &Path, target: f64) -> Result<Measure, Box<dyn Error>> {
    let least = least(|| {
        let project = load(&Sources::new(dir))?;
        match project.check().iter().find(|one| one.is_error()) {
            Some(mistake) => Err(mistake.to_string().into()),
            None => Ok(()),
        }
    })?;
    Ok(milliseconds(name, least, target))
}

fn check(name: &'static str, dir: &Path, target: f64) -> Result<Measure, Box<dyn Error>> {
    let Some(forge) = forge() else {
        let outcome = Outcome::NotHere("there is no packaged build of forge".to_owned());
        return Ok(Measure { name, outcome });
    };
    let least = least(|| {
        // What the project asks of a person is no matter here, nor is the answer.
        let status = Command::new(&forge)
            .args(["check", "--trust"])
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        match status.code() {
            Some(0) => Ok(()),
            other => Err(format!("forge check ended with {other:?}").into()),
        }
    })?;
    Ok(milliseconds(name, least, target))
}

fn least(mut work: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work()?;
        least = least.min(start.elapsed());
    }
    Ok(least)
}

fn milliseconds(name: &'static str, least: Duration, target: f64) -> Measure {
    Measure {
        name,
        outcome: Outcome::Amount {
            got: least.as_secs_f64() * 1e3,
            unit: "ms",
            of: "the least of 20",
            target,
        },
    }
}

fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.join("examples").join(name)
}

/// Beside this program, which stands one directory deeper.
pub(crate) fn forge() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let forge = program.parent()?.parent()?.join("forge");
    forge.is_file().then_some(forge)
}
