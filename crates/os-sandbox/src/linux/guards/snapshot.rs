//! The state of a mount before the command: its names, links and pointers.

use super::super::below;
use super::super::git_audit::pointer::Pointer;
use super::super::git_audit::repository;
use super::super::host_mount::{HostMount, ObeyedPath};
use super::listings::ListingCache;
use super::names::ScanResult;
use super::quarantine_dir::{FileIdentity, identity_at};
use super::saved::{SavedFile, SavedFiles};
use crate::findings::Findings;
use crate::promise::Promise;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, readlinkat};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The state of one mount before the command.
pub(super) struct MountSnapshot {
    /// Identity of the file behind each name, and `true` if the name is hidden. If nothing is mounted
    /// over the names, entries of protected directories are among them.
    pub(super) names: HashMap<PathBuf, (Option<FileIdentity>, bool)>,
    /// `true` if there were too many entries of protected directories to compare.
    pub(super) is_within_cut: bool,
    pub(super) links: HashMap<PathBuf, OsString>,
    /// The texts of links to protected targets.
    pub(super) guarded_links: HashMap<PathBuf, OsString>,
    /// Configuration of repositories.
    pub(super) configs: HashSet<PathBuf>,
    /// Configuration, and the protected files that could be read.
    pub(super) saved: SavedFiles,
    /// Protected names that another program replaced, but for files with the same content.
    pub(super) replaced: HashSet<PathBuf>,
    pub(super) bare: HashSet<PathBuf>,
    /// The files and links called `.git`.
    pub(super) pointers: HashMap<PathBuf, PriorPointer>,
    /// Files that the command may change because git tracks them.
    pub(super) tracked: HashSet<PathBuf>,
    /// Commands of unfinished rebases and similar operations.
    pub(super) todo: HashMap<PathBuf, HashSet<String>>,
    pub(super) unlisted: Vec<PathBuf>,
    /// Listings with which the walk skips unchanged directories.
    pub(super) memory: ListingCache,
}

/// A file or link called `.git`, before the command.
pub(super) struct PriorPointer {
    /// The git directory.
    pub(super) target: PathBuf,
    /// `None` of a link.
    pub(super) file: Option<SavedFile>,
    /// The text of a link.
    pub(super) link: Option<OsString>,
}

impl MountSnapshot {
    /// Returns the file that a name had before the start.
    pub(super) fn original(&self, below: &Path) -> Option<FileIdentity> {
        self.names.get(below).and_then(|(was, _)| *was)
    }

    /// Returns the protected directory around a path.
    pub(super) fn protected_around<'p>(&self, below: &'p Path) -> Option<&'p Path> {
        let is_protected = |around: &&Path| self.names.get(*around).is_some_and(|(_, hide)| !hide);
        below.ancestors().skip(1).filter(is_protected).last()
    }

    pub(super) fn new(mount: &HostMount, names: ScanResult) -> MountSnapshot {
        let text = |below: &PathBuf| readlinkat(AT_FDCWD, &mount.host.join(below)).ok();
        let texts = |links: Vec<PathBuf>| {
            let links = links.into_iter();
            links
                .filter_map(|link| text(&link).map(|text| (link, text)))
                .collect()
        };
        let saved = SavedFiles::read(mount, &names);
        let within = (names.within.into_iter()).filter(|_| !names.is_within_cut);
        let found = names.found.into_iter().map(|one| (one.below, one.hide));
        MountSnapshot {
            is_within_cut: names.is_within_cut,
            links: texts([names.links, names.plain_links].concat()),
            guarded_links: texts(names.guarded_links),
            saved,
            replaced: HashSet::new(),
            configs: names.configs.into_iter().collect(),
            bare: names.bare.into_iter().collect(),
            pointers: (names.pointers.into_iter())
                .map(|Pointer { below, target }| {
                    let (file, link) = (SavedFile::read(mount, &below), text(&below));
                    (below, PriorPointer { target, file, link })
                })
                .collect(),
            tracked: names.tracked.into_iter().collect(),
            todo: names
                .states
                .into_iter()
                .map(|state| {
                    let todo = repository::todo(mount, &state);
                    (state, todo)
                })
                .collect(),
            names: within
                .map(|below| (below, false))
                .chain(found)
                .map(|(below, hide)| {
                    let identity = identity(mount, &below).ok().flatten();
                    (below, (identity, hide))
                })
                .collect(),
            unlisted: names.unlisted,
            memory: names.memory,
        }
    }

    /// Reports names that another program replaced (an editor that saves, `git config`): such a name
    /// loses the mount over it, and the command can change the new file. The owner of the new file is
    /// unknown, so a protected one is judged as if the command had made it.
    pub(super) fn find_replaced(&mut self, mount: &HostMount, findings: &mut Findings) {
        for (below, (was, hide)) in &self.names {
            let now = match identity(mount, below) {
                Ok(now) => now,
                // A directory that may not be entered is told where it is found.
                Err(Errno::EACCES) => continue,
                Err(errno) => {
                    let path = mount.shown(below);
                    let why = format!("{}: {}", path, errno.desc());
                    findings.fail(&why);
                    continue;
                }
            };
            if now == *was || now.is_none() && !self.saved.has_text(below) {
                continue;
            }
            let (promise, since) = match hide {
                true => (Promise::HiddenNames, "not hidden from then on"),
                false => (Promise::ProtectedNames, "not kept from then on"),
            };
            let path = mount.shown(below);
            let reason = format!(
                "{} was replaced by another program while the command ran, and {since}; it was \
                 judged after the end",
                path
            );
            findings.note(promise, &reason);
            if !self.saved.is_same(mount, below) {
                self.replaced.insert(below.clone());
            }
        }
    }

    /// Adds the history of a file that is moved away.
    pub(super) fn explain(&self, below: &Path, why: String) -> String {
        match self.replaced.contains(below) {
            true => format!("{why}, after another program replaced it"),
            false => why,
        }
    }

    /// Returns `true` for names that the walk skips. Links are examined in every walk: they can be
    /// replaced.
    pub(super) fn knows(&self, path: &Path, link: bool) -> bool {
        // Configuration is compared with what it was.
        let is_replaced = self.replaced.contains(path) && !self.configs.contains(path);
        let is_known = self.names.contains_key(path) && !is_replaced;
        !link && (is_known || self.tracked.contains(path))
            || self
                .unlisted
                .iter()
                .any(|unlisted| path.starts_with(unlisted))
    }

    /// Returns the link that leads to a file, if the command made it or gave it another target.
    pub(super) fn repointed_link<'l>(
        &self,
        mount: &HostMount,
        target: &'l ObeyedPath,
    ) -> Option<&'l Path> {
        let link = target.link.as_deref()?;
        let now = readlinkat(AT_FDCWD, &mount.host.join(link)).ok();
        (self.guarded_links.get(link) != now.as_ref()).then_some(link)
    }

    pub(super) fn changed_link(&self, mount: &HostMount, below: &Path) -> bool {
        let now = readlinkat(AT_FDCWD, &mount.host.join(below)).ok();
        now.is_none() || self.links.get(below) != now.as_ref()
    }
}

/// Returns the file that a name leads to, `None` if there is none.
///
/// # Errors
/// If that is unknown: a directory may not be entered, or descriptors or memory are short.
pub(super) fn identity(mount: &HostMount, below: &Path) -> Result<Option<FileIdentity>, Errno> {
    let (parent, name) = (below.parent(), below.file_name());
    let looked = below::directory(mount.handle.as_fd(), parent.unwrap_or(Path::new("")))
        .and_then(|parent| identity_at(&parent, name.unwrap_or_default()));
    match looked {
        Err(errno @ (Errno::EACCES | Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)) => Err(errno),
        looked => Ok(looked.ok()),
    }
}
