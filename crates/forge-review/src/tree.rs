//! Directories as handles. No function follows a link: every name is opened below an open directory
//! with O_NOFOLLOW (openat(2)), one component after the other, so that a link planted on the way is
//! an error and never a way out.

use std::ffi::{CString, OsStr, OsString};
use std::io::Read as _;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat, chmod, fchmod, fgetxattr, flistxattr,
    fstat, openat, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, Result};

use crate::path::TreePath;

/// Largest list of names of extended attributes, and largest value (the kernel's own limits).
const MAX_XATTR_BYTES: usize = 64 << 10;

pub(crate) const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Neither follows a link nor waits for the other end of a pipe.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

pub(crate) fn open_dir(dir: impl AsFd, name: &OsStr) -> Result<OwnedFd> {
    openat(dir, name, DIRECTORY, Mode::empty())
}

pub(crate) fn open_file(dir: impl AsFd, name: &OsStr) -> Result<OwnedFd> {
    openat(dir, name, FILE, Mode::empty())
}

/// Reads a regular file, up to `max_bytes` and one byte more; `None` for another kind of object.
pub(crate) fn read_file(file: &OwnedFd, max_bytes: u64) -> Result<Option<Vec<u8>>> {
    if FileType::from_raw_mode(fstat(file)?.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let mut content = Vec::new();
    let read = std::fs::File::from(file.try_clone().map_err(errno)?)
        .take(max_bytes + 1)
        .read_to_end(&mut content);
    read.map_err(errno)?;
    Ok(Some(content))
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// An open object. If its mode had to be changed for that, it gets its own mode back at the end.
#[derive(Debug)]
pub(crate) struct OpenObject {
    object: OwnedFd,
    restore: Option<Mode>,
}

impl From<OwnedFd> for OpenObject {
    fn from(object: OwnedFd) -> Self {
        OpenObject {
            object,
            restore: None,
        }
    }
}

impl Deref for OpenObject {
    type Target = OwnedFd;

    fn deref(&self) -> &OwnedFd {
        &self.object
    }
}

impl Drop for OpenObject {
    fn drop(&mut self) {
        if let Some(mode) = self.restore {
            // It belongs to us, so this cannot be refused.
            let _ = fchmod(&self.object, mode);
        }
    }
}

/// Opens an object of a layer that belongs to us, although its mode may forbid that: a command may
/// run `chmod 000`. Names and attributes can be read as long as it is open.
pub(crate) fn open_own(dir: impl AsFd, name: &OsStr, is_dir: bool) -> Result<OpenObject> {
    let open = || match is_dir {
        true => open_dir(&dir, name),
        false => open_file(&dir, name),
    };
    match open() {
        Err(Errno::ACCESS) => {}
        // A directory that may be read and not entered.
        Ok(object) if is_dir && !is_open_to_owner(&object)? => {}
        result => return result.map(OpenObject::from),
    }
    let restore = chmod_nofollow(&dir, name, Mode::RWXU)?;
    Ok(OpenObject {
        object: open()?,
        restore: Some(restore),
    })
}

fn is_open_to_owner(object: &OwnedFd) -> Result<bool> {
    let mode = Mode::from_raw_mode(fstat(object)?.st_mode);
    Ok(mode.contains(Mode::RUSR | Mode::XUSR))
}

/// Sets the mode of exactly the object that was opened, and returns the mode that it had.
fn chmod_nofollow(dir: impl AsFd, name: &OsStr, mode: Mode) -> Result<Mode> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let object = openat(dir, name, flags, Mode::empty())?;
    let stat = fstat(&object)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    // fchmod(2) refuses a handle of O_PATH; this name leads to the opened object and nowhere else.
    chmod(format!("/proc/self/fd/{}", object.as_raw_fd()), mode)?;
    Ok(Mode::from_raw_mode(stat.st_mode))
}

/// Opens the directory `path` below `root`.
pub(crate) fn open_below(root: impl AsFd, path: &TreePath) -> Result<OwnedFd> {
    let mut dir = openat(root, ".", DIRECTORY, Mode::empty())?;
    for name in path.names() {
        dir = open_dir(&dir, name)?;
    }
    Ok(dir)
}

/// Like [`open_below`], for a layer that belongs to us.
pub(crate) fn open_own_below(root: impl AsFd, path: &TreePath) -> Result<OpenObject> {
    let mut dir = open_own(root, OsStr::new("."), true)?;
    for name in path.names() {
        // The outer directory stays open until the inner one is.
        dir = open_own(&*dir, name, true)?;
    }
    Ok(dir)
}

/// Returns the status of a name, or `None` if it does not exist.
pub(crate) fn lstat(dir: impl AsFd, name: &OsStr) -> Result<Option<Stat>> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the names in a directory, in order.
pub(crate) fn names(dir: impl AsFd) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the value of an extended attribute, or `None` if the object or its file system has none.
pub(crate) fn xattr(object: impl AsFd, name: &str) -> Result<Option<Vec<u8>>> {
    let mut value = vec![0; MAX_XATTR_BYTES];
    match fgetxattr(object, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the names of the extended attributes of an object.
pub(crate) fn xattr_names(object: impl AsFd) -> Result<Vec<CString>> {
    let mut list = vec![0; 1 << 10];
    let length = match flistxattr(&object, &mut list[..]) {
        Err(Errno::RANGE) => {
            list.resize(MAX_XATTR_BYTES, 0);
            flistxattr(&object, &mut list[..])?
        }
        Err(Errno::OPNOTSUPP) => 0,
        result => result?,
    };
    let names = list[..length].split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| CString::new(name).ok()).collect())
}

/// Removes `name` of `parent` with everything below it.
///
/// Each directory is emptied by moving the directories in it to the top one: so a tree of any depth
/// needs two open directories, and no path is walked twice. What is mounted there stays an error.
pub(crate) fn remove_tree(parent: impl AsFd, name: &OsStr) -> Result<()> {
    let Some(stat) = lstat(&parent, name)? else {
        return Ok(());
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return unlinkat(&parent, name, AtFlags::empty());
    }
    let top = open_writable(&parent, name)?;
    let mut moved = 0_u64;
    loop {
        let found = names(&top)?;
        if found.is_empty() {
            break;
        }
        for name in found {
            match unlinkat(&top, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(Errno::ISDIR | Errno::PERM) => {}
                Err(error) => return Err(error),
            }
            if unlinkat(&top, &name, AtFlags::REMOVEDIR).is_ok() {
                continue;
            }
            empty_into(&top, &name, &mut moved)?;
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
    unlinkat(&parent, name, AtFlags::REMOVEDIR)
}

/// Removes the files of the directory `name`, and moves its directories to `top`.
fn empty_into(top: &OwnedFd, name: &OsStr, moved: &mut u64) -> Result<()> {
    let dir = open_writable(top, name)?;
    for inner in names(&dir)? {
        match unlinkat(&dir, &inner, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error),
        }
        if unlinkat(&dir, &inner, AtFlags::REMOVEDIR).is_ok() {
            continue;
        }
        // A directory that changes its parent has to be writable itself.
        open_writable(&dir, &inner)?;
        loop {
            *moved += 1;
            let free = OsString::from(format!("moved-{moved}"));
            match renameat_with(&dir, &inner, top, &free, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => continue,
                result => break result?,
            }
        }
    }
    Ok(())
}

/// Opens a directory that is about to be removed, and makes it writable.
fn open_writable(dir: impl AsFd, name: &OsStr) -> Result<OwnedFd> {
    let opened = match open_dir(&dir, name) {
        Err(Errno::ACCESS) => {
            chmod_nofollow(&dir, name, Mode::RWXU)?;
            open_dir(&dir, name)?
        }
        result => result?,
    };
    if Mode::from_raw_mode(fstat(&opened)?.st_mode).contains(Mode::RWXU) {
        return Ok(opened);
    }
    fchmod(&opened, Mode::RWXU)?;
    Ok(opened)
}

/// Returns the bytes of the target of a link.
pub(crate) fn read_link(dir: impl AsFd, name: &OsStr) -> Result<Vec<u8>> {
    rustix::fs::readlinkat(dir, name, Vec::new()).map(CString::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_deep_tree_with_closed_directories_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut path = dir.path().join("tree");
        fs::create_dir(&path).unwrap();
        for _ in 0..60 {
            path.push("d");
            fs::create_dir(&path).unwrap();
            fs::create_dir(path.join("moved-1")).unwrap();
            fs::write(path.join("moved-1/f"), "x").unwrap();
            fs::write(path.join("f"), "x").unwrap();
        }
        let kept = dir.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("f"), "x").unwrap();
        std::os::unix::fs::symlink(&kept, path.join("link")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        let parent = rustix::fs::open(dir.path(), DIRECTORY, Mode::empty()).unwrap();
        remove_tree(&parent, OsStr::new("tree")).unwrap();
        assert!(!dir.path().join("tree").exists());
        assert!(kept.join("f").exists());
        remove_tree(&parent, OsStr::new("tree")).unwrap();
    }
}
