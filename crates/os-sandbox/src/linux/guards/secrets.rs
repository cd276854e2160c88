//! Judges files by content: a `*.pem` file is a secret if it holds a private key, and a file is not a
//! secret if git tracks exactly its content. A file that cannot be judged is a secret. A walk reads
//! the index of a repository at most once, and only if a file needs it.

use super::super::below;
use super::super::host_mount::HostMount;
use crate::key_files::content_of;
use crate::policy::Pattern;
use nix::errno::Errno;
use nix::sys::stat::SFlag;
use rustix::fs::FileType;
use sandbox_names::git_index::{MAX_INDEX_BYTES, TrackedFiles};
use sandbox_names::secret::{MAX_JUDGED_BYTES, holds_private_key};
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Judges the files of one mount.
pub(super) struct Secrets<'a> {
    mount: &'a HostMount,
    /// `true` if files that git tracks are not secrets. `false` after a command, which may have
    /// written the index.
    spares_tracked: bool,
    /// Names to look for in an index, beside those of the patterns.
    names: HashSet<&'a OsStr>,
    /// Tracked files by the top directory of a repository: `None` without a repository,
    /// `Some(None)` if its index was not read.
    repositories: RefCell<HashMap<PathBuf, Option<Option<TrackedFiles>>>>,
    unread: RefCell<Vec<String>>,
}

/// A name that is judged when a pattern asks for it.
pub(super) struct SecretCandidate<'a> {
    secrets: &'a Secrets<'a>,
    parent: &'a Path,
    name: &'a OsStr,
    kind: FileType,
    content: OnceCell<Option<Vec<u8>>>,
    tracked: OnceCell<bool>,
}

impl<'a> Secrets<'a> {
    pub(super) fn new(mount: &'a HostMount, spares_tracked: bool) -> Self {
        Secrets {
            mount,
            spares_tracked: spares_tracked && mount.linked.is_none(),
            names: HashSet::new(),
            repositories: RefCell::default(),
            unread: RefCell::default(),
        }
    }

    /// Judges files with these names too, before a command.
    pub(super) fn with_names(mount: &'a HostMount, names: HashSet<&'a OsStr>) -> Self {
        Secrets {
            names,
            ..Secrets::new(mount, true)
        }
    }

    pub(super) fn candidate<'c>(
        &'c self,
        parent: &'c Path,
        name: &'c OsStr,
        kind: FileType,
    ) -> SecretCandidate<'c> {
        SecretCandidate {
            secrets: self,
            parent,
            name,
            kind,
            content: OnceCell::new(),
            tracked: OnceCell::new(),
        }
    }

    /// Returns the indexes that were read, by the tops of their repositories, and the reasons why others
    /// were not.
    pub(super) fn into_indexes(self) -> (HashMap<PathBuf, TrackedFiles>, Vec<String>) {
        let repositories = self.repositories.into_inner().into_iter();
        let read = repositories.filter_map(|(top, index)| Some((top, index??)));
        (read.collect(), self.unread.into_inner())
    }

    fn open(&self, path: &Path) -> Option<File> {
        below::file_below(self.mount.handle.as_fd(), path).ok()
    }

    /// Returns `true` if the innermost repository around a file has it in its index with this
    /// content.
    fn is_tracked(&self, parent: &Path, name: &OsStr, content: &[u8]) -> bool {
        let mut repositories = self.repositories.borrow_mut();
        for top in parent.ancestors() {
            let tracked = match repositories.get(top) {
                Some(tracked) => tracked,
                None => {
                    let tracked = self.tracked_in(top);
                    repositories.entry(top.to_owned()).or_insert(tracked)
                }
            };
            let Some(tracked) = tracked else { continue };
            let path = parent.join(name);
            let path = path
                .strip_prefix(top)
                .unwrap_or(&path)
                .as_os_str()
                .as_bytes();
            return tracked
                .as_ref()
                .is_some_and(|files| files.has(path, content));
        }
        false
    }

    /// Returns the tracked files of the repository with this working tree; `None` without one.
    fn tracked_in(&self, top: &Path) -> Option<Option<TrackedFiles>> {
        let git = top.join(".git");
        match self.mount.look(&git) {
            Err(Errno::ENOENT) => return None,
            Ok(stat) if below::kind(&stat) == SFlag::S_IFDIR => {}
            // The repository is elsewhere, or cannot be examined.
            Ok(_) | Err(_) => return Some(None),
        }
        // Why: a command that cannot read the objects cannot read the content there either.
        let objects = git.join("objects");
        let mut hide = self.mount.guards.hide.iter();
        if hide.any(|pattern| pattern.covers(&objects)) || self.mount.is_covered(&objects) {
            return Some(None);
        }
        let Some(index) = self.open(&git.join("index")) else {
            return Some(None);
        };
        let is_wanted = |path: &[u8]| {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
            let mut patterns = self.mount.guards.hide.iter();
            let name = OsStr::from_bytes(name);
            self.names.contains(name) || patterns.any(|pattern| pattern.last(name))
        };
        let read = content_of(index, MAX_INDEX_BYTES)
            .ok_or("it is too large, or cannot be read")
            .and_then(|index| TrackedFiles::read(&index, &is_wanted));
        Some(match read {
            Ok(tracked) => Some(tracked),
            Err(why) => {
                let git = self.mount.shown(&git);
                let unread = format!("the index of {git} is not read ({why})");
                self.unread.borrow_mut().push(unread);
                None
            }
        })
    }
}

impl SecretCandidate<'_> {
    /// Returns `true` if a pattern that matches the name applies to the file.
    pub(super) fn is_held_by(&self, pattern: &Pattern) -> bool {
        let (for_keys, spares_tracked) = (pattern.is_by_content(), pattern.spares_tracked());
        if !for_keys && !spares_tracked {
            return true;
        }
        let Some(content) = self.content.get_or_init(|| self.read(for_keys)) else {
            return true;
        };
        if for_keys && !holds_private_key(content) {
            return false;
        }
        !self.is_tracked(content)
    }

    /// Returns `true` if a pattern does not apply to the file because git tracks it.
    pub(super) fn is_spared(&self) -> bool {
        self.tracked.get() == Some(&true)
    }

    fn is_tracked(&self, content: &[u8]) -> bool {
        let secrets = self.secrets;
        *self.tracked.get_or_init(|| {
            secrets.spares_tracked
                && self.kind.is_file()
                && secrets.is_tracked(self.parent, self.name, content)
        })
    }

    /// Reads the file; with `follows` also the target of a link, if it is in the mount.
    fn read(&self, follows: bool) -> Option<Vec<u8>> {
        let path = self.parent.join(self.name);
        let path = match self.kind.is_symlink() {
            true if follows => {
                let top = &self.secrets.mount.host;
                let target = top.join(path).canonicalize().ok()?;
                target.strip_prefix(top).ok()?.to_owned()
            }
            _ => path,
        };
        content_of(self.secrets.open(&path)?, MAX_JUDGED_BYTES)
    }
}
