//! The files of a review's directory.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, fsync, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ReviewError, failed_own};
use crate::tree;

/// Largest file that is read.
const MAX_LIST_BYTES: u64 = 2 << 30;

/// When a file of the review is on the disk. A process that ends at any moment loses neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDisk {
    /// Before the function returns: a loss of power does not undo it.
    Now,
    /// When the kernel writes it: for a review without changes, which has nothing to lose.
    Later,
}

pub(crate) fn write_file(
    dir: &OwnedFd,
    name: &'static str,
    content: &[u8],
    on_disk: OnDisk,
) -> Result<OwnedFd, ReviewError> {
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        openat(dir, name, flags, Mode::RUSR | Mode::WUSR).map_err(failed_own("create", name))?;
    let mut file = std::fs::File::from(file);
    let written = file.write_all(content).and_then(|()| match on_disk {
        OnDisk::Now => file.sync_all(),
        OnDisk::Later => Ok(()),
    });
    written.map_err(|source| ReviewError::Io {
        operation: "write",
        path: name.to_owned(),
        source,
    })?;
    Ok(file.into())
}

/// Writes a file of the review as a whole: it is old or new at any time, with [`OnDisk::Now`] after a
/// loss of power too.
pub(crate) fn write_json(
    dir: &OwnedFd,
    name: &'static str,
    value: &impl Serialize,
    on_disk: OnDisk,
) -> Result<(), ReviewError> {
    const NEW: &str = "new.json";
    let text = serde_json::to_vec(value).map_err(|error| ReviewError::damaged(name, error))?;
    write_file(dir, NEW, &text, on_disk)?;
    renameat(dir, NEW, dir, name).map_err(failed_own("write", name))?;
    match on_disk {
        OnDisk::Now => fsync(dir).map_err(failed_own("write", name)),
        OnDisk::Later => Ok(()),
    }
}

/// Reads a file of the review; `None` if it does not exist.
pub(crate) fn read_json<T: DeserializeOwned>(
    dir: &OwnedFd,
    name: &'static str,
) -> Result<Option<T>, ReviewError> {
    let file = match tree::open_file(dir, name.as_ref()) {
        Err(Errno::NOENT) => return Ok(None),
        file => std::fs::File::from(file.map_err(failed_own("open", name))?),
    };
    let mut text = Vec::new();
    let read = file.take(MAX_LIST_BYTES).read_to_end(&mut text);
    read.map_err(|error| ReviewError::damaged(name, error))?;
    let value = serde_json::from_slice(&text).map_err(|error| ReviewError::damaged(name, error))?;
    Ok(Some(value))
}

/// Removes a file of the review, so that it is gone after a loss of power too.
pub(crate) fn remove_file(dir: &OwnedFd, name: &'static str) -> Result<(), ReviewError> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => fsync(dir).map_err(failed_own("remove", name)),
        Err(error) => Err(failed_own("remove", name)(error)),
    }
}
