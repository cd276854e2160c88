//! Identification of this process, valid later as well. A process number alone is not: the kernel
//! uses it again, also after the next boot, and it means another process in another namespace.

use super::OwnerId;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use std::os::unix::net::UnixStream;

/// Returns an id of the machine and its boot; `None` if the system does not report one.
pub(crate) fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the PID namespace, which gives process numbers their meaning.
pub(crate) fn namespace() -> Option<String> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Returns the process at the other end of a connection; `None` if this namespace has no number for it.
pub(crate) fn peer(connection: &UnixStream) -> std::io::Result<Option<i32>> {
    let credentials = getsockopt(connection, PeerCredentials)?;
    Ok(Some(credentials.pid()).filter(|pid| *pid != 0))
}

/// Returns the start time of a process, in ticks after boot.
pub(crate) fn life(pid: u32) -> OwnerId {
    let text = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => text,
        // The process does not exist, or the kernel hides it (hidepid); `kill` tells which.
        Err(_) => return asked(pid),
    };
    // The program's name, in brackets, can contain any text.
    let Some((_, rest)) = text.rsplit_once(')') else {
        return OwnerId::Unknown;
    };
    let mut fields = rest.split_ascii_whitespace();
    match (fields.next(), fields.nth(18)) {
        // The process has ended, and its parent has not been notified yet.
        (Some("Z" | "X"), _) => OwnerId::Gone,
        (Some(_), Some(started)) => OwnerId::Since(started.to_owned()),
        _ => OwnerId::Unknown,
    }
}

fn asked(pid: u32) -> OwnerId {
    use nix::errno::Errno;
    let Ok(pid) = i32::try_from(pid) else {
        return OwnerId::Gone;
    };
    match nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None) {
        Err(Errno::ESRCH) => OwnerId::Gone,
        _ => OwnerId::Unknown,
    }
}
