//! Containers of the test engine (`FORGE_TEST_ENGINE`). The image comes from no registry: it is a
//! tar of empty directories and links, with the host's own system mounted read-only, so that
//! commands see the programs that every other enforcer shows.

use crate::world::say;
use os_sandbox::{Backend, Directories, Plan, Sandbox, Support};
use os_sandbox_docker::{Containers, Engine, ImageName, Settings};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// The variable with the address of the engine.
const VARIABLE: &str = "FORGE_TEST_ENGINE";

/// Files of the host's `/etc` that its programs need.
const ETC: [&str; 3] = ["/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"];

static CONTAINERS: OnceLock<Containers> = OnceLock::new();
static WHY_NOT: OnceLock<String> = OnceLock::new();

/// Returns the support with the test engine, if one answers.
pub(crate) fn with(support: Support) -> Support {
    match containers() {
        Ok(containers) => {
            let support = support.with_docker(containers.support());
            let _ = CONTAINERS.set(containers);
            support
        }
        Err(why) => {
            // The engine is probed once.
            let _ = WHY_NOT.set(why);
            support
        }
    }
}

/// Opens a plan; one for containers with those of the test engine.
pub(crate) fn open(plan: Plan) -> Sandbox {
    match (plan.backend(), CONTAINERS.get()) {
        (Backend::Docker, Some(containers)) => {
            Sandbox::with_mechanism(plan, Directories::user(), containers.clone())
        }
        _ => Sandbox::open(plan, Directories::user()),
    }
}

/// Returns the reason why no engine is available.
pub(crate) fn why_not() -> String {
    WHY_NOT.get().cloned().unwrap_or_default()
}

fn containers() -> Result<Containers, String> {
    let host = std::env::var(VARIABLE).map_err(|_| format!("{VARIABLE} names no engine"))?;
    let engine = Engine::connect(Some(&host)).map_err(say)?;
    let name = "forge-conformance:1";
    let mut settings = Settings::new(ImageName::parse(name).map_err(say)?);
    for path in import(&host, name)? {
        let inside = path.clone();
        settings = settings.mount(path, inside).map_err(say)?;
    }
    Containers::new(engine, settings).map_err(say)
}

/// Creates the image and returns the host paths to mount into it.
fn import(host: &str, name: &str) -> Result<Vec<String>, String> {
    let scratch = tempfile::tempdir().map_err(say)?;
    let root = scratch.path().join("root");
    let mut mounts = vec!["/usr".to_owned()];
    // Of /sbin the engine needs a directory of the image's own, for the first process.
    for dir in [
        "usr", "proc", "sys", "dev", "tmp", "etc", "home", "run", "sbin",
    ] {
        fs::create_dir_all(root.join(dir)).map_err(say)?;
    }
    for dir in ["bin", "lib", "lib32", "lib64", "libx32"] {
        let path = Path::new("/").join(dir);
        match fs::read_link(&path) {
            Ok(to) => symlink(to, root.join(dir)).map_err(say)?,
            Err(_) if path.is_dir() => mounts.push(path.display().to_string()),
            Err(_) => {}
        }
    }
    for (file, text) in [
        ("etc/passwd", "root:x:0:0::/root:/bin/sh\n"),
        ("etc/group", "root:x:0:\n"),
    ] {
        fs::write(root.join(file), text).map_err(say)?;
    }
    let there = |path: &&str| Path::new(path).exists();
    mounts.extend(ETC.iter().copied().filter(there).map(str::to_owned));
    let tar = scratch.path().join("root.tar");
    quiet(
        Command::new("tar")
            .arg("-C")
            .arg(&root)
            .arg("-cf")
            .arg(&tar)
            .arg("."),
    )?;
    quiet(
        Command::new("docker")
            .args(["--host", host, "import"])
            .arg(&tar)
            .arg(name),
    )?;
    Ok(mounts)
}

fn quiet(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(say)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
