//! What the mounts of a policy come to for whoever makes them elsewhere: which place of the host
//! lies where inside, what is covered, and whose the writable ones are. Made by the backend, which
//! knows how to look for names.

use crate::error::Error;
use crate::findings::Notes;
use crate::platform::{self, Cleanup, MountSources};
use crate::policy::Policy;
use std::path::{Path, PathBuf};

/// The mounts of one command.
pub struct Layout {
    /// Those nearer to the root first.
    pub placed: Vec<LayoutEntry>,
    /// Whose each writable mount of the policy is.
    pub owners: Vec<Owner>,
    /// For each mount of the policy, in order: whether it is a directory.
    pub directories: Vec<bool>,
    /// What of the host is mounted, to be looked at once more when it has been.
    pub sources: MountSources,
    /// Facts that were learnt meanwhile.
    pub notes: Notes,
    /// To be done once nothing of the command is left.
    pub after: Cleanup,
}

impl Layout {
    /// Looks at the mounts now. What is held for them is given up with the layout.
    ///
    /// # Errors
    /// If a mount cannot be opened, or names cannot be looked for everywhere.
    pub fn new(policy: &Policy, state_dir: Option<&Path>) -> Result<Layout, Error> {
        platform::layout(policy, state_dir)
    }
}

/// One place inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutEntry {
    /// The path inside.
    pub inside: PathBuf,
    /// What is there.
    pub what: LayoutContent,
}

/// What lies at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutContent {
    /// This of the host.
    Host {
        /// The path on the host.
        from: PathBuf,
        /// `true` if it can be written.
        writable: bool,
    },
    /// Nothing that could be read or written.
    Closed {
        /// `true` if a directory is covered.
        is_dir: bool,
    },
}

/// Whose a writable mount is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The mount as the command sees it.
    pub name: String,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}
