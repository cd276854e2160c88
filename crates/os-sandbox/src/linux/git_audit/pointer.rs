//! Files and links called `.git`: the repository that each leads git to, wherever that is.
//!
//! Entry point: [`Pointer::read`]. Paths are those of the host, links resolved as git does it.
//!
//! <https://git-scm.com/docs/gitrepository-layout>

use super::super::host_mount::HostMount;
use crate::key_files::content_of;
use nix::fcntl::OFlag;
use sandbox_names::git::gitfile_target;
use sandbox_names::lexical::normalize;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Git reads no larger file.
const MAX_POINTER_BYTES: u64 = 1 << 20;
/// Bound on the dangling links on the way to one target.
const MAX_LINKS: usize = 40;

/// A file or link called `.git` that leads git to a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// Relative to the mount.
    pub(crate) below: PathBuf,
    /// The git directory on the host. It need not exist.
    pub(crate) target: PathBuf,
}

impl Pointer {
    /// Returns `None` if git does not follow the name.
    pub(crate) fn read(mount: &HostMount, below: &Path) -> Option<Pointer> {
        let path = mount.host.join(below);
        let target = match std::fs::metadata(&path) {
            Ok(meta) if !meta.is_file() => resolved(&path, 0),
            Ok(_) => {
                let bytes = read_file(&path, MAX_POINTER_BYTES)?;
                let text = OsStr::from_bytes(gitfile_target(&bytes)?);
                resolved(&path.parent()?.join(text), 0)
            }
            Err(_) => resolved(&path, 0),
        };
        Some(Pointer {
            below: below.to_owned(),
            target,
        })
    }

    /// Returns the directory with the repository's configuration: a linked worktree shares it.
    pub(crate) fn common_dir(&self) -> PathBuf {
        let common = read_file(&self.target.join("commondir"), MAX_POINTER_BYTES);
        let named = common.map(|text| {
            let text = OsStr::from_bytes(text.trim_ascii_end());
            resolved(&self.target.join(text), 0)
        });
        named.unwrap_or_else(|| self.target.clone())
    }
}

/// Returns the content of a regular file of the host, through links, without blocking.
pub(super) fn read_file(path: &Path, most: u64) -> Option<Vec<u8>> {
    let file = File::options()
        .read(true)
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
        .open(path)
        .ok()?;
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    is_file.then(|| content_of(file, most)).flatten()
}

/// Returns a path without links, also if its last names do not exist.
pub(crate) fn resolved(path: &Path, depth: usize) -> PathBuf {
    for around in path.ancestors() {
        let rest = path.strip_prefix(around).unwrap_or(Path::new(""));
        if let Ok(real) = around.canonicalize() {
            return normalize(&real.join(rest));
        }
        if let (Ok(text), Some(parent)) = (around.read_link(), around.parent())
            && depth < MAX_LINKS
        {
            return resolved(&parent.join(text).join(rest), depth + 1);
        }
    }
    normalize(path)
}
