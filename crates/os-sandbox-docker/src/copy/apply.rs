//! Copies the engine's changes back into the host's files. It touches only paths that differ from
//! the copy, and only if the host has not changed them meanwhile: the host's files take precedence.

use super::pack::{CopiedContent, CopiedEntry, Manifest};
use super::tree::{self, FileAttributes, FileVersion};
use super::unpack::{ReceivedEntry, StoredRange, Unpacked};
use nix::errno::Errno;
use os_sandbox::mechanism::Pattern;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Result of copying the changes back from an engine.
///
/// ```
/// use os_sandbox_docker::CopyBackReport;
///
/// let nothing = CopyBackReport::default();
/// assert!(nothing.is_whole() && nothing.written.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyBackReport {
    /// Paths that were made or changed on the host. All paths are those of the host.
    pub written: Vec<PathBuf>,
    /// Paths that were removed on the host.
    pub removed: Vec<PathBuf>,
    /// Paths that changed on both sides; the host's version stayed.
    pub conflicts: Vec<PathBuf>,
    /// Protected paths that changed at the engine; the host's version stayed.
    pub refused: Vec<PathBuf>,
    /// Sockets, pipes and devices.
    pub left_out: Vec<PathBuf>,
    /// Paths that could not be written, with the reason.
    pub failed: Vec<(PathBuf, String)>,
}

impl CopyBackReport {
    /// Returns `true` if every change at the engine was made on the host.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.conflicts.is_empty()
            && self.refused.is_empty()
            && self.left_out.is_empty()
            && self.failed.is_empty()
    }
}

/// Names that do not change on the host, whatever changes at the engine.
#[derive(Debug)]
pub(super) struct Protected {
    names: Vec<Pattern>,
    /// Parent directories of the names. A link in place of a parent would turn the names into other
    /// files.
    around: Vec<Pattern>,
}

impl Protected {
    pub(super) fn new(names: &[Pattern]) -> Protected {
        let parents = names.iter().flat_map(|name| {
            let text = name.text();
            let slashes = text.match_indices('/');
            slashes.filter_map(|(at, _)| Pattern::parse(&text[..at]).ok())
        });
        Protected {
            around: parents.collect(),
            names: names.to_vec(),
        }
    }

    /// Returns `true` if the path below `top` is protected. A rule that depends on content applies
    /// to the host's file.
    fn keeps(&self, top: BorrowedFd<'_>, below: &Path) -> bool {
        let mut names = self.names.iter().filter(|name| name.covers(below));
        names.any(|name| {
            !name.is_by_content()
                || below.ancestors().any(|path| {
                    name.ends(path)
                        && match tree::around(top, path) {
                            Ok((at, name)) => tree::is_key(at.as_fd(), Some(name)),
                            Err(errno) => errno != Errno::ENOENT,
                        }
                })
        })
    }

    fn leads(&self, below: &Path) -> bool {
        self.around.iter().any(|around| around.ends(below))
    }
}

/// Changes the files below `top`, except protected ones.
pub(super) fn apply(
    top: BorrowedFd<'_>,
    known: &Manifest,
    mut unpacked: Unpacked,
    protected: &Protected,
) -> CopyBackReport {
    let mut applying = ChangeApplier {
        top,
        known,
        protected,
        back: CopyBackReport {
            left_out: std::mem::take(&mut unpacked.left_out),
            ..CopyBackReport::default()
        },
    };
    // The deepest entries are removed first, so that directories are empty.
    for (below, was) in known.iter().rev() {
        let stays = match (unpacked.entries.get(below).map(|got| &got.what), &was.what) {
            (None, _) => false,
            // The new directory takes the place of the old one.
            (Some(CopiedContent::Directory), CopiedContent::Directory) => true,
            // A protected path is below it, so the directory stays.
            (Some(_), CopiedContent::Directory) if protected.leads(below) => true,
            (Some(CopiedContent::Directory), _) | (Some(_), CopiedContent::Directory) => false,
            (Some(_), _) => true,
        };
        if !stays {
            applying.remove(below, was);
        }
    }
    for (below, got) in &unpacked.entries {
        applying.write(below, got, &unpacked);
    }
    let mut back = applying.back;
    // These entries were removed only to make room for written ones.
    back.removed
        .retain(|below| !unpacked.entries.contains_key(below));
    back
}

struct ChangeApplier<'a> {
    top: BorrowedFd<'a>,
    known: &'a Manifest,
    protected: &'a Protected,
    back: CopyBackReport,
}

impl ChangeApplier<'_> {
    fn remove(&mut self, below: &Path, was: &CopiedEntry) {
        if self.protected.keeps(self.top, below) {
            self.back.refused.push(below.to_owned());
            return;
        }
        let directory = was.what == CopiedContent::Directory;
        let removed = tree::around(self.top, below).and_then(|(at, name)| {
            let stat = tree::look(at.as_fd(), name)?;
            match directory || FileVersion::of(&stat) == was.stamp {
                true => tree::remove(at.as_fd(), name, directory),
                false => Err(Errno::EEXIST),
            }
        });
        match removed {
            Ok(()) => self.back.removed.push(below.to_owned()),
            // Another process has removed it.
            Err(Errno::ENOENT) => {}
            // The host changed the entry or added a file to it, or it contains a protected path.
            Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR | Errno::ELOOP) => {
                self.back.conflicts.push(below.to_owned());
            }
            Err(errno) => self.fail(below, &io::Error::from(errno)),
        }
    }

    fn write(&mut self, below: &Path, got: &ReceivedEntry, unpacked: &Unpacked) {
        let was = self.known.get(below);
        if was.is_some_and(|was| was.what == got.what && was.mode == got.mode) {
            return;
        }
        // The permissions of a link have no meaning.
        if let (Some(was), CopiedContent::Link(_)) = (was, &got.what)
            && was.what == got.what
        {
            return;
        }
        let leads = got.what != CopiedContent::Directory && self.protected.leads(below);
        if leads || self.protected.keeps(self.top, below) {
            self.back.refused.push(below.to_owned());
            return;
        }
        match self.try_write(below, got, was, unpacked) {
            Ok(true) => self.back.written.push(below.to_owned()),
            Ok(false) => {}
            Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EEXIST | Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {
                    self.back.conflicts.push(below.to_owned());
                }
                _ => self.fail(below, &error),
            },
        }
    }

    /// Returns `false` if nothing had to change.
    fn try_write(
        &self,
        below: &Path,
        got: &ReceivedEntry,
        was: Option<&CopiedEntry>,
        unpacked: &Unpacked,
    ) -> io::Result<bool> {
        let (at, name) = tree::around(self.top, below)?;
        let at = at.as_fd();
        let here = match tree::look(at, name) {
            Ok(stat) => Some(stat),
            Err(Errno::ENOENT) => None,
            Err(errno) => return Err(errno.into()),
        };
        let directory = got.what == CopiedContent::Directory;
        match (&here, was) {
            // The host removed the entry while the container changed it. An entry that was removed
            // above to make room is of the other kind.
            (None, Some(was)) if (was.what == CopiedContent::Directory) == directory => {
                return Err(Errno::ENOENT.into());
            }
            (None, _) => {}
            (Some(stat), _) if directory && tree::kind(stat) == nix::sys::stat::SFlag::S_IFDIR => {
                // Both sides made the directory, or its permissions changed.
                let mine = was.is_some_and(|was| was.mode == tree::permissions(stat));
                if mine {
                    tree::set_mode(at, name, got.mode)?;
                }
                return Ok(mine);
            }
            (Some(stat), Some(was)) if FileVersion::of(stat) == was.stamp => {
                if was.what == got.what {
                    tree::set_mode(at, name, got.mode)?;
                    return Ok(true);
                }
            }
            (Some(_), _) => return Err(Errno::EEXIST.into()),
        }
        let around = nix::sys::stat::fstat(at)?;
        let owner = here.map_or((around.st_uid, around.st_gid), |stat| {
            (stat.st_uid, stat.st_gid)
        });
        let shape = FileAttributes {
            mode: got.mode,
            owner,
        };
        match &got.what {
            CopiedContent::Directory => tree::make_directory(at, name, shape)?,
            CopiedContent::Link(to) => tree::replace_link(at, name, to, owner)?,
            CopiedContent::File(hash) => {
                tree::replace(at, name, shape, got.modified, |file| match got.kept {
                    Some(kept) => copy_kept(&unpacked.store, kept, file),
                    None => self.copy_known(hash, file),
                })?;
            }
        }
        Ok(true)
    }

    /// Copies the bytes from a file that was copied to the engine and has not changed since.
    fn copy_known(&self, hash: &[u8; 32], to: &mut File) -> io::Result<()> {
        let same = |known: &&CopiedEntry| matches!(&known.what, CopiedContent::File(other) if other == hash);
        let found = self.known.iter().find(|(_, known)| same(known));
        let (below, known) = found.ok_or_else(|| io::Error::from(Errno::ENOENT))?;
        let (at, name) = tree::around(self.top, below)?;
        let (mut file, stat) = tree::file(at.as_fd(), name)?;
        if FileVersion::of(&stat) != known.stamp {
            return Err(Errno::EEXIST.into());
        }
        io::copy(&mut file, to).map(drop)
    }

    fn fail(&mut self, below: &Path, error: &io::Error) {
        self.back.failed.push((below.to_owned(), error.to_string()));
    }
}

fn copy_kept(mut store: &File, kept: StoredRange, to: &mut File) -> io::Result<()> {
    store.seek(SeekFrom::Start(kept.at))?;
    let copied = io::copy(&mut store.take(kept.bytes), to)?;
    match copied == kept.bytes {
        true => Ok(()),
        false => Err(io::Error::other("the private copy is shorter than it was")),
    }
}
