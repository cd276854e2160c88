//! What came back, into the files here. Only what differs from what went out is touched, and of that
//! only what nobody has changed here meanwhile: the files here are the truth.

use super::pack::{CopiedContent, CopiedEntry, Manifest};
use super::tree::{self, FileAttributes, FileVersion};
use super::unpack::{Got, StoredRange, Unpacked};
use nix::errno::Errno;
use os_sandbox::mechanism::Pattern;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// What became of the changes at an engine.
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
    /// Made or changed here. All paths are those of the host.
    pub written: Vec<PathBuf>,
    /// Removed here.
    pub removed: Vec<PathBuf>,
    /// Changed there and here too: what is here stayed.
    pub conflicts: Vec<PathBuf>,
    /// Changed there, and protected: what is here stayed.
    pub refused: Vec<PathBuf>,
    /// Sockets, pipes and devices.
    pub left_out: Vec<PathBuf>,
    /// What could not be written, and why.
    pub failed: Vec<(PathBuf, String)>,
}

impl CopyBackReport {
    /// Returns `true` if everything that was changed there is changed here.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.conflicts.is_empty()
            && self.refused.is_empty()
            && self.left_out.is_empty()
            && self.failed.is_empty()
    }
}

/// What is not changed here, whatever is changed there.
#[derive(Debug)]
pub(super) struct Protected {
    names: Vec<Pattern>,
    /// What they are in: by a link in its place, they would be other files.
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

    /// Returns `true` if the path below `top` is protected. A rule that depends on content is
    /// applied to the file of this machine.
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

/// Changes what is below `top`, but for what is protected.
pub(super) fn apply(
    top: BorrowedFd<'_>,
    known: &Manifest,
    mut unpacked: Unpacked,
    protected: &Protected,
) -> CopyBackReport {
    let mut applying = Applying {
        top,
        known,
        protected,
        back: CopyBackReport {
            left_out: std::mem::take(&mut unpacked.left_out),
            ..CopyBackReport::default()
        },
    };
    // What is deepest goes first, so that directories are empty.
    for (below, was) in known.iter().rev() {
        let stays = match (unpacked.entries.get(below).map(|got| &got.what), &was.what) {
            (None, _) => false,
            // One takes the place of the other.
            (Some(CopiedContent::Directory), CopiedContent::Directory) => true,
            // It stays a directory.
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
    // To make room for what was written then.
    back.removed
        .retain(|below| !unpacked.entries.contains_key(below));
    back
}

struct Applying<'a> {
    top: BorrowedFd<'a>,
    known: &'a Manifest,
    protected: &'a Protected,
    back: CopyBackReport,
}

impl Applying<'_> {
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
            // Somebody else has done it.
            Err(Errno::ENOENT) => {}
            // Changed here, or something was put into it here; or what is protected is in it.
            Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR | Errno::ELOOP) => {
                self.back.conflicts.push(below.to_owned());
            }
            Err(errno) => self.fail(below, &io::Error::from(errno)),
        }
    }

    fn write(&mut self, below: &Path, got: &Got, unpacked: &Unpacked) {
        let was = self.known.get(below);
        if was.is_some_and(|was| was.what == got.what && was.mode == got.mode) {
            return;
        }
        // The permissions of a link say nothing.
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

    /// False: there was nothing to do.
    fn try_write(
        &self,
        below: &Path,
        got: &Got,
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
            // It was removed here while it was changed there, or removed above to make room.
            (None, Some(was)) if (was.what == CopiedContent::Directory) == directory => {
                return Err(Errno::ENOENT.into());
            }
            (None, _) => {}
            (Some(stat), _) if directory && tree::kind(stat) == nix::sys::stat::SFlag::S_IFDIR => {
                // Made here and there, or its permissions changed.
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

    /// The bytes of a file that went out and is still as it was.
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
