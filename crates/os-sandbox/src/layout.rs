//! What the mounts of a policy come to for whoever makes them elsewhere: which place of the host
//! lies where inside, what is covered, and whose the writable ones are. Made by the backend, which
//! knows how to look for names.

use crate::findings::Notes;
use std::path::PathBuf;

/// The mounts of one command.
pub(crate) struct Layout {
    /// Those nearer to the root first.
    pub(crate) placed: Vec<LayoutEntry>,
    /// Whose each writable mount of the policy is.
    pub(crate) owners: Vec<Owner>,
    /// For each mount of the policy, in order: whether it is a directory.
    pub(crate) directories: Vec<bool>,
    /// What of the host is mounted, to be looked at once more when it has been.
    pub(crate) sources: crate::platform::MountSources,
    pub(crate) notes: Notes,
    /// To be done once nothing of the command is left.
    pub(crate) after: crate::platform::Cleanup,
}

/// One place inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayoutEntry {
    pub(crate) inside: PathBuf,
    pub(crate) what: LayoutContent,
}

/// What lies at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LayoutContent {
    /// This of the host.
    Host { from: PathBuf, writable: bool },
    /// Nothing that could be read or written.
    Closed { is_dir: bool },
}

/// Whose a writable mount is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}
