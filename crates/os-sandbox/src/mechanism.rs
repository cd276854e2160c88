//! The interface of isolation mechanisms, for crates that add one. It changes more often than the rest
//! of this crate.
//!
//! A mechanism of another crate is a type that implements [`Mechanism`] and a row in what a
//! [`Support`](crate::Support) says of this host.

pub use crate::escape::{Visible, visible};
pub use crate::exceeded::{EffectiveLimits, LimitHit};
pub use crate::findings::{Findings, Notes};
pub use crate::key_files::is_key;
pub use crate::layout::{Layout, LayoutContent, LayoutEntry, Owner};
pub use crate::platform::{Cleanup, MountSources, static_program};
pub use crate::policy::{MountGuards, MountPlacement, Pattern};
pub use crate::process::{Event, Process, Readiness, StartedCommand, wait_readable};
pub use crate::scratch::{Scratch, random};
pub use crate::streams::{Pipes, streams};
pub use crate::support::ContainerSupport;

/// The table of the system call filter, for mechanisms that have it applied by somebody else.
pub mod seccomp {
    pub use crate::seccomp::{
        Action, Arch, Clause, ENOSYS, EPERM, FilterSpec, Range, Rule, Table, Test, UnixSocketRule,
        table,
    };
}

use crate::backend::Backend;
use crate::command::Command;
use crate::error::{Error, ErrorKind};
use std::fmt;

/// Starts commands under the plans of a sandbox.
pub trait Mechanism: fmt::Debug + Send + Sync {
    /// Starts a command, and returns when the program itself runs.
    ///
    /// # Errors
    /// If the program does not run exactly as its plan says. Nothing is left running then.
    fn start(&self, command: Command) -> Result<StartedCommand, Error>;
}

/// The mechanisms of this system.
#[derive(Debug)]
pub(crate) struct System;

impl Mechanism for System {
    fn start(&self, command: Command) -> Result<StartedCommand, Error> {
        match command.plan().backend() {
            Backend::Docker => {
                let what = "the plan's containers are only described";
                Err(Error::new(ErrorKind::Unsupported, what))
            }
            _ => crate::platform::start(command),
        }
    }
}
