//! The same program again as an ordinary user, when the tests run as root. `cargo xtask test-os`
//! does that for everything; this is for `cargo test`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

/// An ordinary user that owns nothing: nobody, by number, since names differ.
const ORDINARY: u32 = 65534;

/// Whether there is anything to do: we are root, and nobody does it for us.
pub(crate) fn wanted() -> bool {
    nix::unistd::geteuid().is_root() && std::env::var_os("FORGE_TEST_OS_REPORT").is_none()
}

pub(crate) fn again() -> usize {
    match run() {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            println!("  as an ordinary user: {error}");
            1
        }
    }
}

fn run() -> std::io::Result<bool> {
    let dir = tempfile::tempdir()?;
    let at = dir.path();
    fs::set_permissions(at, fs::Permissions::from_mode(0o755))?;
    let program = at.join("os");
    fs::copy(std::env::current_exe()?, &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let home = at.join("home");
    fs::create_dir(&home)?;
    chown(&home, Some(ORDINARY), Some(ORDINARY))?;
    if !Path::new("/usr/bin/setpriv").exists() {
        println!("  setpriv is not installed (util-linux): not run as an ordinary user");
        return Ok(true);
    }
    let mut command = shown_toolchain(at)?.unwrap_or_else(|| Command::new("/usr/bin/setpriv"));
    let status = command
        .args([format!("--reuid={ORDINARY}"), format!("--regid={ORDINARY}")])
        .args(["--clear-groups", "--"])
        .arg(&program)
        .args(["matrix::", "::tracing"])
        .current_dir(&home)
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .status()?;
    Ok(status.success())
}

/// The Rust toolchain often lies in a home that an ordinary user cannot enter. In a mount namespace
/// of its own, which goes away with the run, it is shown at a place that everybody can.
fn shown_toolchain(at: &Path) -> std::io::Result<Option<Command>> {
    let Some(toolchain) = super::scene::toolchain() else {
        return Ok(None);
    };
    let place = at.join("toolchain");
    fs::create_dir(&place)?;
    const SHOW: &str = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    let begin = |rest: &str| {
        let mut command = Command::new("/usr/bin/unshare");
        command
            .args([
                "--mount",
                "--propagation",
                "private",
                "--",
                "sh",
                "-c",
                SHOW,
                "sh",
            ])
            .args([&toolchain, &place])
            .arg(rest)
            .env("FORGE_TEST_TOOLCHAIN", &place);
        command
    };
    // In a container even root may not.
    let works = begin("/bin/true")
        .output()
        .is_ok_and(|output| output.status.success());
    Ok(works.then(|| begin("/usr/bin/setpriv")))
}
