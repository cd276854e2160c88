//! Temporary files of a run of tests in memory, on a file system that nobody else sees. Tests make and
//! remove hundreds of thousands of files: ext4 searches through the inodes that were removed in the
//! last five seconds each time it makes one (`recently_deleted` in the kernel's fs/ext4/ialloc.c),
//! which was most of the processor time of some of them.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Context, Failure};
use crate::process;
use crate::sampled::Extent;
use crate::scratch::Scratch;
use crate::steps::Outcome;

/// Names the directory, for the process that has entered it.
const ENTERED: &str = "XTASK_TEMPORARY_FILES";

/// What has to be available: some tests keep whole images of containers.
const AT_LEAST_KIB: u64 = 8 << 20;

/// A file system as large as half of the memory (tmpfs(5)), mounted where `TMPDIR` says; then the
/// rest of the words. `noswap` is not asked for: it is younger than the kernels that we support.
const MOUNT: &str = r#"mount -t tmpfs -o mode=1777 xtask "$TMPDIR" && exec "$@""#;

/// Starts this process again with its temporary files in memory. Returns why that was left out, or
/// in the process that was started, that it was done.
pub(crate) fn enter(extent: Extent) -> Outcome {
    if env::var_os(ENTERED).is_some() {
        return Outcome::Passed;
    }
    if extent == Extent::Full {
        return Outcome::Skipped("`--full` is for the file system of this machine as well".into());
    }
    match start_again() {
        Ok(why_not) => Outcome::Skipped(why_not),
        Err(failure) => Outcome::Failed(failure.to_string()),
    }
}

fn start_again() -> Result<String, Failure> {
    match available_kib() {
        Some(kib) if kib >= AT_LEAST_KIB => {}
        Some(kib) => {
            return Ok(format!(
                "{} MiB of memory are available, less than 8 GiB",
                kib >> 10
            ));
        }
        None => return Ok("/proc/meminfo does not say how much memory is available".into()),
    }
    if !process::is_root() {
        return Ok("only root can mount it for all tests".into());
    }
    let scratch = Scratch::new()?;
    if process::quiet(&mut mounted(scratch.path(), &[Path::new("true")])).is_err() {
        return Ok("this machine does not let us mount it".into());
    }
    let program = env::current_exe().context("our own program")?;
    let mut command = mounted(scratch.path(), &[&program]);
    command
        .args(env::args_os().skip(1))
        .env(ENTERED, scratch.path());
    // The one who comes after us removes it.
    std::mem::forget(scratch);
    Err(command.exec()).context("starting again")
}

/// `words` with a mount namespace of their own, and `TMPDIR` in memory.
fn mounted(dir: &Path, words: &[&Path]) -> Command {
    let mut command = process::command("unshare");
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            MOUNT,
            "sh",
        ])
        .args(words)
        .env("TMPDIR", dir);
    command
}

fn available_kib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Removes what is left of the directory that this process has entered: its files go with the
/// namespace.
pub(crate) fn leave() {
    let Some(dir) = env::var_os(ENTERED).map(PathBuf::from) else {
        return;
    };
    let unmounted = process::quiet(process::command("umount").arg("--lazy").arg(&dir));
    if unmounted.is_ok() {
        let _ = fs::remove_dir(dir).context("removing a temporary directory");
    }
}
