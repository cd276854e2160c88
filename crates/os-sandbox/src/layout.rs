//! The mounts of a policy for a mechanism that makes them elsewhere: the host path of each path
//! inside, the covered paths, and the owners of the writable mounts. The backend creates it,
//! because it knows how to search for names.

use crate::error::Error;
use crate::findings::StartNotes;
use crate::platform::{self, Cleanup, MountSources};
use crate::policy::Policy;
use std::path::{Path, PathBuf};

/// The mounts of one command.
pub struct Layout {
    /// The paths inside. Those nearer to the root are first.
    pub placed: Vec<LayoutEntry>,
    /// The owner of each writable mount of the policy.
    pub owners: Vec<Owner>,
    /// For each mount of the policy, in order: `true` if it is a directory.
    pub directories: Vec<bool>,
    /// The mounted files of the host, to be checked again after they were mounted.
    pub sources: MountSources,
    /// Facts that the layout revealed.
    pub notes: StartNotes,
    /// The work to do after every process of the command has ended.
    pub after: Cleanup,
}

impl Layout {
    /// Reads the mounts now. Dropping the layout releases the names that it reserves.
    ///
    /// # Errors
    /// If a mount cannot be opened, or names cannot be looked for everywhere.
    pub fn new(policy: &Policy, state_dir: Option<&Path>) -> Result<Layout, Error> {
        platform::layout(policy, state_dir)
    }
}

/// One path inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutEntry {
    /// The path inside.
    pub inside: PathBuf,
    /// The content at the path.
    pub what: LayoutContent,
}

/// The content at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutContent {
    /// A file or directory of the host.
    Host {
        /// The path on the host.
        from: PathBuf,
        /// `true` if it can be written.
        writable: bool,
    },
    /// A cover that cannot be read or written.
    Closed {
        /// `true` if a directory is covered.
        is_dir: bool,
    },
}

/// The owner of a writable mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The mount as the command sees it.
    pub name: String,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}
