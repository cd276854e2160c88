//! Identification of this process, valid later as well. Programs of the system report it.

use super::OwnerId;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// Returns an id of the machine and its boot; `None` if the system does not report one.
pub(crate) fn boot() -> Option<String> {
    command_output(Command::new("/usr/sbin/sysctl").args(["-n", "kern.bootsessionuuid"]))
}

/// Returns the only namespace of this system.
pub(crate) fn namespace() -> Option<String> {
    Some("macos".to_owned())
}

/// Returns the process at the other end of a connection; `None` if the system does not report it.
pub(crate) fn peer(_: &UnixStream) -> std::io::Result<Option<i32>> {
    Ok(None)
}

/// Returns the start time of a process.
pub(crate) fn life(pid: u32) -> OwnerId {
    let mut ps = Command::new("/bin/ps");
    ps.args(["-o", "lstart=", "-p", &pid.to_string()]);
    match command_output(ps.env("LC_ALL", "C").env("TZ", "UTC")) {
        Some(started) => OwnerId::Since(started),
        None => gone(pid),
    }
}

fn gone(pid: u32) -> OwnerId {
    use nix::errno::Errno;
    let Ok(pid) = i32::try_from(pid) else {
        return OwnerId::Gone;
    };
    match nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None) {
        Err(Errno::ESRCH) => OwnerId::Gone,
        _ => OwnerId::Unknown,
    }
}

fn command_output(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
