//! The interface of isolation mechanisms, for crates that add one. It changes more often than the
//! rest of this crate.
//!
//! A mechanism of another crate is a type that implements [`Mechanism`], and a row in the
//! [`Support`](crate::Support) of this host.

pub use crate::escape::{Visible, visible};
pub use crate::exceeded::{EffectiveLimits, LimitHit};
pub use crate::findings::{Findings, StartNotes};
pub use crate::host_proxy::NAME_FILES;
pub use crate::key_files::is_key;
pub use crate::layout::{Layout, LayoutContent, LayoutEntry, Owner};
pub use crate::platform::{Cleanup, MountSources, serve_own_namespace, static_program};
pub use crate::policy::{MountGuards, MountPlacement, Pattern};
pub use crate::process::{Event, Process, Readiness, StartedCommand, wait_readable};
pub use crate::sandbox::Mechanism;
pub use crate::scratch::{Scratch, random};
pub use crate::streams::{Pipes, streams};
pub use crate::support::ContainerSupport;

/// The table of the system call filter, for mechanisms that have another program apply it.
pub mod seccomp {
    pub use crate::seccomp::{
        Action, Arch, Clause, ENOSYS, EPERM, FilterSpec, InternetSocketRule, ObservedCalls, Range,
        Rule, Table, Test, UnixSocketRule, WatchRule, table,
    };
}
