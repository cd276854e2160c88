//! Linux: all code that uses the system. The broker compiles rules, filter and arguments and sends
//! them; the launcher applies them. This code does not fork and is not unsafe.

mod below;
mod birdcage;
mod cgroup;
mod detect;
mod git_audit;
mod guards;
mod host_mount;
mod landlock;
mod mount_layer;
mod pool;
mod prove;
mod remove;
mod start;

/// Constants of the launcher, compiled into both programs.
#[path = "../../launcher/wire.rs"]
#[expect(dead_code, unreachable_pub, reason = "one file for two programs")]
mod wire;

#[cfg(feature = "birdcage")]
pub(crate) use birdcage::birdcage;
pub(crate) use detect::cache::forget;
pub(crate) use detect::{detect, detect_fresh};
pub use guards::after::Cleanup;
pub use guards::possible_writers::find_possible_writer;
pub use guards::quarantine_record::QuarantineRecords;
pub use guards::start_lock::{ActiveCommand, StartLock};
pub(crate) use guards::survey::survey;
pub(crate) use landlock::private::ScratchPool;
pub use mount_layer::layout::MountSources;
pub(crate) use mount_layer::layout::layout;
pub(crate) use prove::{ProbeScope, prove};
pub(crate) use remove::remove;
pub use start::host_sockets::serve_own_namespace;
pub(crate) use start::launch::warm_up;
pub(crate) use start::start;

/// Returns a small static program for this system, which does nothing without instructions.
#[must_use]
pub fn static_program() -> Option<&'static [u8]> {
    Some(start::launch::LAUNCHER)
}
