//! The part of a directory that a listing shows.

use crate::backend::FileKind;

/// Which entries are listed.
///
/// ```
/// use file_sandbox::{ListKinds, ListOptions};
/// let options = ListOptions::new().pattern("**").kinds(ListKinds::Directories);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKinds {
    /// Files, links and special files.
    Files,
    /// Directories.
    Directories,
    /// Both.
    Any,
}

impl ListKinds {
    pub(crate) fn takes(self, kind: FileKind) -> bool {
        match self {
            Self::Files => kind != FileKind::Directory,
            Self::Directories => kind == FileKind::Directory,
            Self::Any => true,
        }
    }
}

/// The listed part of all names: a number of names after a given one. It bounds the names in
/// memory.
#[derive(Clone, Debug)]
pub(crate) struct ListWindow {
    after: Option<String>,
    max: usize,
    pub(crate) kinds: ListKinds,
    /// Names from this one on are dropped, because enough names precede it.
    pub(crate) beyond: Option<String>,
}

impl ListWindow {
    pub(crate) fn new(after: Option<String>, max: usize, kinds: ListKinds) -> Self {
        Self {
            after,
            max,
            kinds,
            beyond: None,
        }
    }

    /// Returns the number of names in memory at which the last ones are dropped; at least one more
    /// than are listed.
    pub(crate) fn room(&self) -> usize {
        self.max.saturating_add(1).saturating_mul(2).max(1024)
    }

    /// Returns the number of names that remain then.
    pub(crate) fn kept(&self) -> usize {
        self.max.saturating_add(1)
    }

    /// `true` if a name was listed before.
    pub(crate) fn is_before(&self, name: &str) -> bool {
        self.after.as_deref().is_some_and(|after| name <= after)
    }

    /// `true` if an entry is of a listed kind and not before the window. `prefix` is the path of
    /// its directory.
    pub(crate) fn shows(&self, prefix: &str, name: &str, kind: FileKind) -> bool {
        self.kinds.takes(kind)
            && !match prefix {
                "" => self.is_before(name),
                prefix => self.is_before(&format!("{prefix}{name}")),
            }
    }

    /// `true` if no name below a directory can be in the window.
    pub(crate) fn leaves_out(&self, prefix: &str) -> bool {
        let after = self.after.as_deref();
        after.is_some_and(|after| prefix < after && !after.starts_with(prefix))
            || self.beyond.as_deref().is_some_and(|end| prefix > end)
    }
}
