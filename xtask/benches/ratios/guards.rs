//! What looking for protected and hidden names costs a command in a large project: before its
//! start, and after its end.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use os_sandbox::{
    Access, Backend, Directories, Git, Plan, Policy, Requirement, Sandbox, Stdio, Support,
};

use crate::compare::{Measure, Outcome, median};

const ROUNDS: usize = 25;
const DIRECTORIES: usize = 5_000;
const FILES_EACH: usize = 20;
/// As `sandbox-config` protects and hides them by default.
const PROTECTED: [&str; 12] = [
    ".gitmodules",
    ".env*",
    "*.pem",
    ".ssh",
    ".envrc",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".cursor",
    ".claude",
    ".codex",
    ".devcontainer",
];
const HIDDEN: [&str; 3] = [".env*", "*.pem", ".ssh"];

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let (empty, large) = (scratch.path().join("empty"), scratch.path().join("large"));
    std::fs::create_dir(&empty)?;
    plant(&large)?;
    settle();
    let name = "guards, a project of 100 000 files";
    let open = |project: &Path| {
        let directories = Directories::user().with_state(scratch.path().join("state"));
        plan(project).map(|plan| Sandbox::open(plan, directories))
    };
    let outcome = match (open(&empty), open(&large)) {
        (Ok(empty), Ok(large)) => {
            let mut times = [Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                for (sandbox, times) in [&empty, &large].into_iter().zip(&mut times) {
                    times.push(one(sandbox)?);
                }
            }
            let [empty, large] = times.map(median);
            Outcome::Amount {
                got: large.saturating_sub(empty).as_secs_f64() * 1e3,
                unit: "ms",
                of: "start and end, over an empty project",
                target: 60.0,
            }
        }
        (Err(why), _) | (_, Err(why)) => Outcome::NotHere(why.to_string()),
    };
    Ok(vec![Measure { name, outcome }])
}

/// 100 000 files in a directory.
pub(crate) fn plant(large: &Path) -> Result<(), Box<dyn Error>> {
    for directory in 0..DIRECTORIES {
        let directory = large.join(format!("d{}/d{directory}", directory % 50));
        std::fs::create_dir_all(&directory)?;
        for file in 0..FILES_EACH {
            std::fs::write(directory.join(format!("file{file}.rs")), "")?;
        }
    }
    Ok(())
}

/// Waits until a project is like one that was not made just now: times of directories tell changes.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_secs(4));
}

fn plan(project: &Path) -> Result<Plan, Box<dyn Error>> {
    let mut policy = Policy::builder()
        .mount(project, "/", Access::ALL)
        .git(Git::Commit);
    for name in PROTECTED {
        policy = policy.protect(name);
    }
    for name in HIDDEN {
        policy = policy.hide(name);
    }
    let (support, enforce) = (Support::detect(), Requirement::Enforce);
    Ok(Plan::with_mechanism(
        &policy.build()?,
        &support,
        enforce,
        Backend::Namespaces,
    )?)
}

fn one(sandbox: &Sandbox) -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    let mut child = os_sandbox::Command::new(sandbox, "/usr/bin/true")
        .stdin(Stdio::Null)
        .stdout(Stdio::Null)
        .stderr(Stdio::Null)
        .spawn()?;
    if !child.wait()?.success() {
        return Err("true failed".into());
    }
    Ok(start.elapsed())
}
