//! The result of resolving a path: a virtual directory, or a position in a mount.

use std::ffi::OsString;

use crate::backend::FileId;
use crate::mount::name_rules::NameRuleMatch;
use crate::mount::{Mount, path_in};
use crate::path::SandboxPath;
use crate::resolve::bare_repository::PlacedName;
use crate::resolve::path_walk::Lookup;

/// A place in a mount: the mount's index, and the names below it.
pub(crate) type MountPlace = (usize, Vec<OsString>);

/// The result of resolving a path.
pub(crate) enum Resolution<'s> {
    /// A directory outside every mount and above one.
    Virtual(SandboxPath),
    In(MountLocation<'s>),
}

/// A position in a mount, with the links resolved and its names allowed.
pub(crate) struct MountLocation<'s> {
    pub(crate) mount: &'s Mount,
    pub(crate) index: usize,
    /// The names below the mount. Only the last one may be a link.
    pub(crate) real: Vec<OsString>,
    pub(crate) found: Lookup<'s>,
    /// The rule for the requested or the real path that depends on the content of the file.
    pub(crate) by_content: Option<NameRuleMatch<'s>>,
}

impl MountLocation<'_> {
    /// Returns its real path in the sandbox.
    pub(crate) fn path(&self) -> SandboxPath {
        path_in(self.mount, &self.real)
    }

    /// Returns its name, with the object that has it by now.
    pub(crate) fn placed(&self, id: Option<FileId>) -> PlacedName<'_> {
        let new = match &self.found {
            Lookup::Missing { rest, .. } => rest.len(),
            Lookup::Root | Lookup::Entry { .. } => 0,
        };
        PlacedName {
            mount: self.mount,
            real: &self.real,
            new,
            id,
        }
    }

    /// `true` if a change here must be on the disk before the call returns.
    pub(crate) fn is_durable(&self, asked: bool) -> bool {
        asked || self.mount.limits().is_durable()
    }
}
