//! SIGTSTP while a relay runs: it stays pending until the person's terminal is given back. Its own
//! effect then stops forge, so that a shell sees the usual stop and an orphaned process group goes on.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{getpgrp, kill_process_group};

/// While this is held, SIGTSTP stops neither the thread that made it nor threads that it starts later.
pub(crate) struct HeldStops(SigSet);

impl HeldStops {
    /// # Errors
    /// If the system refuses the mask.
    pub(crate) fn install() -> io::Result<Self> {
        Ok(HeldStops(stops().thread_swap_mask(SigmaskHow::SIG_BLOCK)?))
    }
}

impl Drop for HeldStops {
    fn drop(&mut self) {
        // The mask was valid before.
        let _same = self.0.thread_set_mask();
    }
}

/// Returns a descriptor that is readable while SIGTSTP is pending.
#[cfg(target_os = "linux")]
pub(super) fn pending_stops() -> io::Result<OwnedFd> {
    Ok(nix::sys::signalfd::SignalFd::new(&stops())?.into())
}

/// Returns a descriptor that is never readable: commands have terminals of forge's on Linux alone.
#[cfg(not(target_os = "linux"))]
pub(super) fn pending_stops() -> io::Result<OwnedFd> {
    Ok(std::os::unix::net::UnixDatagram::unbound()?.into())
}

/// Stops the process group of forge, and returns when it goes on. The others of a pipeline stop too,
/// as the terminal would have done.
pub(super) fn stop_group() -> io::Result<()> {
    // It stays pending together with the one that another process has sent.
    let _alone = kill_process_group(getpgrp(), rustix::process::Signal::TSTP);
    // Every other thread holds it, so that this one takes it before the call returns.
    let held = stops().thread_swap_mask(SigmaskHow::SIG_UNBLOCK)?;
    Ok(held.thread_set_mask()?)
}

fn stops() -> SigSet {
    SigSet::from_iter([Signal::SIGTSTP])
}
