//! Contents of protected files before the start, for those that another program replaces or that
//! nothing is mounted over: what cannot stay after the end makes way for what was there before.

use super::super::below;
use super::super::host_mount::HostMount;
use super::names::ScanResult;
use crate::key_files::content_of;
use crate::quarantine::QUARANTINE;
use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat, renameat2};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use sandbox_names::{hex, unhex};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Bound on one file.
pub(super) const MAX_CONTENT_BYTES: u64 = 1 << 20;
/// Bound on all files of a mount, beside the configuration of repositories.
const MAX_SAVED_BYTES: usize = 16 << 20;

/// The contents of protected files of a mount, by their paths below it.
pub(super) struct SavedFiles(HashMap<PathBuf, SavedFile>);

/// The content of a file, and who can change it.
pub(super) struct SavedFile {
    text: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
    /// The number of its names.
    links: u64,
}

impl SavedFiles {
    /// Reads the configuration of repositories, and the protected files that fit into the bounds.
    pub(super) fn read(mount: &HostMount, names: &ScanResult) -> SavedFiles {
        let open = |below: &PathBuf| {
            let saved = SavedFile::read(mount, below)?;
            Some((below.clone(), saved))
        };
        let mut saved: HashMap<_, _> = names.configs.iter().filter_map(open).collect();
        let mut room = MAX_SAVED_BYTES;
        let found = names.found.iter().filter(|one| !one.is_dir);
        for (below, file) in found.filter_map(|one| open(&one.below)) {
            let Some(left) = room.checked_sub(file.text.len()) else {
                break;
            };
            room = left;
            saved.entry(below).or_insert(file);
        }
        SavedFiles(saved)
    }

    pub(super) fn keep_only(&mut self, is_kept: impl Fn(&Path) -> bool) {
        self.0.retain(|below, _| is_kept(below));
    }

    pub(super) fn insert(&mut self, below: PathBuf, file: SavedFile) {
        self.0.insert(below, file);
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.keys()
    }

    pub(super) fn get(&self, below: &Path) -> Option<&SavedFile> {
        self.0.get(below)
    }

    /// Returns `true` for a file with content: a placeholder has none.
    pub(super) fn has_text(&self, below: &Path) -> bool {
        self.get(below).is_some_and(|file| !file.text.is_empty())
    }

    /// Returns `true` if the file has the content that it had, and nobody else can change it.
    pub(super) fn is_same(&self, mount: &HostMount, below: &Path) -> bool {
        let was_and_now = self.get(below).zip(SavedFile::read(mount, below));
        was_and_now.is_some_and(|(was, now)| was.text == now.text && was.opened_by(&now).is_none())
    }
}

impl SavedFile {
    /// Reads a file; `None` if it cannot be read, or is too large.
    pub(super) fn read(mount: &HostMount, below: &Path) -> Option<SavedFile> {
        let file = below::file_below(mount.handle.as_fd(), below).ok()?;
        let meta = file.metadata().ok()?;
        Some(SavedFile {
            text: content_of(file, MAX_CONTENT_BYTES)?,
            mode: meta.mode() & 0o777,
            owner: (meta.uid(), meta.gid()),
            links: meta.nlink(),
        })
    }

    /// Returns the file as a part of a line.
    pub(super) fn to_line(&self) -> String {
        let (uid, gid) = self.owner;
        format!(
            "{} {uid} {gid} {} {}",
            self.mode,
            self.links,
            hex(&self.text)
        )
    }

    /// Parses the result of [`SavedFile::to_line`].
    pub(super) fn parse(line: &str) -> Option<SavedFile> {
        let mut words = line.split(' ');
        let mut number = || words.next()?.parse().ok();
        let (mode, uid, gid, links) = (number()?, number()?, number()?, number()?);
        Some(SavedFile {
            text: unhex(words.next()?)?,
            mode,
            owner: (uid, gid),
            links: links.into(),
        })
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the reason if the file that is there now can be changed in more ways than this one: the
    /// next command could, by a name that is not protected.
    pub(super) fn opened_by(&self, now: &SavedFile) -> Option<&'static str> {
        if now.links > self.links {
            return Some("it has another name");
        }
        (now.mode & !self.mode != 0).then_some("it has more permissions than before")
    }

    /// Restores the file in one step. Returns the new name of the replaced file, if one existed.
    pub(super) fn exchange(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        id: &str,
    ) -> Result<Option<OsString>, Errno> {
        let aside = OsString::from(format!("{QUARANTINE}.config.{id}"));
        self.create(parent.as_fd(), &aside)?;
        let rename = |flags| renameat2(parent, &*aside, parent, name, flags);
        let exchanged = match rename(RenameFlags::RENAME_EXCHANGE) {
            Ok(()) => return Ok(Some(aside)),
            // The command removed the file.
            Err(Errno::ENOENT) => rename(RenameFlags::RENAME_NOREPLACE),
            Err(errno) => Err(errno),
        };
        if exchanged.is_err() {
            let _ = unlinkat(parent, &*aside, UnlinkatFlags::NoRemoveDir);
        }
        exchanged.map(|()| None)
    }

    fn create(&self, parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(
            parent,
            name,
            flags,
            Mode::from_bits_truncate(0o600),
        )?);
        let written = file.write_all(&self.text).and_then(|()| {
            // Only the administrator can give a file away.
            let _ = fchown(&file, Some(self.owner.0), Some(self.owner.1));
            file.set_permissions(Permissions::from_mode(self.mode))
        });
        written.map_err(|error| {
            let _ = unlinkat(parent, name, UnlinkatFlags::NoRemoveDir);
            below::errno(&error)
        })
    }
}
