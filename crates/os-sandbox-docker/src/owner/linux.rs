//! Which process this is, in words that mean the same one later: numbers of processes are used again,
//! by the next start of the machine too, and are other ones in another namespace.

use super::OwnerId;

/// Which start of which machine; `None` if the kernel does not say.
pub(super) fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// In which namespace numbers of processes are meant.
pub(super) fn namespace() -> Option<String> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// When a process was started, in ticks after the start of the machine.
pub(super) fn life(pid: u32) -> OwnerId {
    let text = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => text,
        // Seen by nobody (hidepid) or not there: who is asked directly knows.
        Err(_) => return asked(pid),
    };
    // The name of the program, in brackets, can have anything in it.
    let Some((_, rest)) = text.rsplit_once(')') else {
        return OwnerId::Unknown;
    };
    let mut fields = rest.split_ascii_whitespace();
    match (fields.next(), fields.nth(18)) {
        // It has ended, and its parent was not told yet.
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
