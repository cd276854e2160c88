//! `posix_spawn` with the flags of macOS: it closes every descriptor that is not named, and a flag
//! creates a new session. `std::process::Command` offers neither. See `posix_spawnattr_setflags(2)`
//! there.

use crate::error::Error;
use nix::errno::Errno;
use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;
use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// From `sys/spawn.h`. The libc crate does not define it.
const POSIX_SPAWN_SETSID: libc::c_int = 0x0400;

/// Starts a program with these arguments, an empty environment, and these streams as 0, 1 and 2.
/// All other descriptors are closed there.
pub(super) fn spawn(
    program: &Path,
    argv: Vec<OsString>,
    streams: &[OwnedFd; 3],
    session: bool,
) -> Result<Pid, Error> {
    let argv: Vec<CString> = argv
        .into_iter()
        .map(|arg| CString::new(arg.into_vec()))
        .collect::<Result<_, _>>()
        .map_err(|_| Error::invalid("an argument with a NUL byte"))?;
    start(program, &argv, streams, session).map_err(|errno| {
        Error::io(
            format!("could not start {}", program.display()),
            errno.into(),
        )
    })
}

fn start(
    program: &Path,
    argv: &[CString],
    streams: &[OwnedFd; 3],
    session: bool,
) -> Result<Pid, Errno> {
    let mut actions = PosixSpawnFileActions::init()?;
    // None of them is below 3, so that none is covered before it is copied.
    for (to, stream) in (0..).zip(streams) {
        actions.add_dup2(stream.as_raw_fd(), to)?;
    }
    let mut flags = libc::POSIX_SPAWN_CLOEXEC_DEFAULT;
    if session {
        flags |= POSIX_SPAWN_SETSID;
    }
    let flags = PosixSpawnFlags::from_bits_retain(flags)
        | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
        | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(flags)?;
    // Rust ignores SIGPIPE, and a caller may ignore or block any signal.
    let mut all = SigSet::all();
    all.remove(Signal::SIGKILL);
    all.remove(Signal::SIGSTOP);
    attributes.set_sigdefault(&all)?;
    attributes.set_sigmask(&SigSet::empty())?;
    let nothing: [CString; 0] = [];
    posix_spawn(program, &actions, &attributes, argv, &nothing)
}
