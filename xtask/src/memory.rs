//! Temporary files of a run of tests in memory, on a file system that nobody else sees. Tests make and
//! remove hundreds of thousands of files: ext4 searches through the inodes that were removed in the
//! last five seconds each time it makes one (`recently_deleted` in the kernel's fs/ext4/ialloc.c),
//! which was most of the processor time of some of them.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::engine;
use crate::failure::{Context, Failure};
use crate::process;
use crate::sampled::Extent;
use crate::steps::Outcome;

/// Tells the process that is started that its temporary files are in memory.
const ENTERED: &str = "XTASK_TEMPORARY_FILES_IN_MEMORY";

/// The least memory available, in KiB: some tests store whole images of containers.
const AT_LEAST_KIB: u64 = 8 << 20;

/// A file system as large as half of the memory (tmpfs(5)) at the first argument; then the other
/// ones as a command. `noswap` is not asked for: it is younger than the kernels that we support.
const MOUNT: &str = r#"mount -t tmpfs -o mode=1777 xtask "$0" && exec "$@""#;

/// Starts this process again with its temporary files in memory. Returns why that was left out, or
/// in the process that was started, that it was done.
pub(crate) fn enter(extent: Extent) -> Outcome {
    if env::var_os(ENTERED).is_some() {
        return Outcome::Passed;
    }
    let start_again = || -> Result<(), Failure> {
        let program = env::current_exe().context("our own program")?;
        let mut command = mounted(&env::temp_dir(), &program);
        command.args(env::args_os().skip(1)).env(ENTERED, "1");
        Err(command.exec()).context("starting again")
    };
    match why_not(extent) {
        Some(reason) => Outcome::Skipped(reason),
        None => match start_again() {
            Ok(()) => Outcome::Passed,
            Err(failure) => Outcome::Failed(failure.to_string()),
        },
    }
}

fn why_not(extent: Extent) -> Option<String> {
    if extent == Extent::Full {
        return Some("`--full` is for the file system of this machine as well".into());
    }
    match available_kib() {
        Some(kib) if kib >= AT_LEAST_KIB => {}
        Some(kib) => {
            let mib = kib >> 10;
            return Some(format!(
                "{mib} MiB of memory are available, less than 8 GiB"
            ));
        }
        None => return Some("/proc/meminfo does not say how much memory is available".into()),
    }
    if !process::is_root() {
        return Some("only root can mount it for all tests".into());
    }
    // An engine outside of our namespace does not see our files.
    if env::var_os(engine::VARIABLE).is_some()
        || process::find("docker").is_some() && process::find("dockerd").is_none()
    {
        return Some("a container engine that is there already does not see it".into());
    }
    let covered = env::temp_dir();
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let named = ["HOME", "CARGO_HOME", "RUSTUP_HOME"].map(env::var_os);
    let named = named.into_iter().flatten().map(PathBuf::from);
    let known = [env::current_dir(), env::current_exe()];
    let mut needed = known.into_iter().flatten().chain(named);
    if let Some(path) = needed.find(|path| real(path).starts_with(real(&covered))) {
        return Some(format!("it would cover {}", path.display()));
    }
    if process::quiet(&mut mounted(&covered, Path::new("true"))).is_err() {
        return Some("this machine does not let us mount it".into());
    }
    None
}

/// A program in a mount namespace of its own, with a file system in memory at a directory.
fn mounted(directory: &Path, program: &Path) -> Command {
    let mut command = process::command("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c", MOUNT])
        .args([directory, program]);
    command
}

fn available_kib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
