//! Linux: everything that touches the system. The broker compiles (rules, filter, arguments) and
//! sends; the launcher applies. Nothing here forks, and nothing here is unsafe.

mod advice;
mod after;
mod alone;
mod bare;
mod below;
mod birdcage;
mod bwrap;
mod cache;
mod cgroup;
mod checks;
mod detect;
mod failed;
mod fresh;
mod guards;
mod hold;
mod host_mount;
mod inside_paths;
mod launch;
mod layout;
mod limits;
mod listings;
mod message;
mod names;
mod pool;
mod private;
mod prove;
mod ready_patterns;
mod record;
mod remove;
mod repository;
mod ruleset;
mod running;
mod secrets;
mod sockets;
mod start;
mod state;
mod survey;
mod sweep;
mod users;
mod view;
mod worktree;

/// The launcher's own constants, compiled into both ends.
#[path = "../../launcher/wire.rs"]
#[expect(dead_code, unreachable_pub, reason = "one file for two programs")]
mod wire;

pub use after::Cleanup;
#[cfg(feature = "birdcage")]
pub(crate) use birdcage::birdcage;
pub(crate) use cache::forget;
pub(crate) use detect::{detect, detect_fresh};
pub use layout::MountSources;
pub(crate) use layout::layout;
pub(crate) use private::ScratchPool;
pub(crate) use prove::{ProbeScope, prove};
pub(crate) use remove::remove;
pub(crate) use start::start;
pub(crate) use survey::survey;

/// Returns a small program of this system that needs nothing, and does nothing unless it is told to.
#[must_use]
pub fn static_program() -> Option<&'static [u8]> {
    Some(launch::LAUNCHER)
}
