//! The host as a backend: each question is one system call, answered before the call returns.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::time::SystemTime;

use cap_std::fs::Dir;
use rustix::fs::{self, Access, AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::sys::{self, plain, raw_mode};
use crate::backend::{BackendDir, BackendError, BackendFile, BackendNames, FileKind, FileMeta};

/// Flags that open a directory on the way to another, and no link.
const STEP: OFlags = sys::STEP
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Flags that open a file for writing, take no terminal and follow no link.
const WRITE: OFlags = OFlags::WRONLY
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A directory handle of the system.
#[derive(Debug)]
pub(crate) struct HostDir(OwnedFd);

#[derive(Debug)]
pub(crate) struct HostFile(pub(crate) File);

pub(crate) struct HostNames(sys::Entries);

impl HostDir {
    pub(crate) fn of(dir: Dir) -> Self {
        Self(dir.into_std_file().into())
    }

    fn open(&self, name: &OsStr, flags: OFlags, mode: Mode) -> Result<HostFile, BackendError> {
        let opened = fs::openat(self, plain(name)?, flags, mode)?;
        Ok(HostFile(opened.into()))
    }
}

impl From<OwnedFd> for HostDir {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl AsFd for HostDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl BackendDir for HostDir {
    type File = HostFile;
    type Names = HostNames;

    async fn own_meta(&self) -> Result<FileMeta, BackendError> {
        Ok(sys::meta_of(self)?)
    }

    async fn meta(&self, name: &OsStr) -> Result<FileMeta, BackendError> {
        Ok(sys::meta(self, name)?)
    }

    async fn names(&self) -> Result<HostNames, BackendError> {
        Ok(HostNames(sys::entries(self)?))
    }

    async fn read_link(&self, name: &OsStr) -> Result<OsString, BackendError> {
        let text = fs::readlinkat(self, plain(name)?, Vec::new())?;
        Ok(OsString::from_vec(text.into_bytes()))
    }

    /// `ENOTDIR` or `ELOOP` if it is a link.
    async fn open_dir(&self, name: &OsStr) -> Result<Self, BackendError> {
        Ok(Self(fs::openat(self, plain(name)?, STEP, Mode::empty())?))
    }

    /// `ELOOP` if it is a link.
    async fn open_file(&self, name: &OsStr) -> Result<HostFile, BackendError> {
        self.open(name, sys::READ, Mode::empty())
    }

    /// `ELOOP` if it is a link, `ENXIO` for a pipe without a reader.
    async fn open_to_write(&self, name: &OsStr) -> Result<HostFile, BackendError> {
        self.open(name, WRITE | OFlags::NONBLOCK, Mode::empty())
    }

    /// The only way up in this crate: the caller must compare its identity with the expected one.
    async fn open_parent(&self) -> Option<Self> {
        fs::openat(self, c"..", STEP, Mode::empty()).ok().map(Self)
    }

    async fn is_mount_point(&self, name: &OsStr) -> bool {
        sys::is_mount_point(self, name)
    }

    async fn created(&self, name: &OsStr) -> Option<SystemTime> {
        sys::created(self, plain(name).ok()?)
    }

    async fn open_dir_beneath(&self, way: &str) -> Option<Self> {
        sys::open_dir_beneath(self, way.as_ref()).map(Self)
    }

    #[inline]
    async fn open_file_beneath(&self, way: &str) -> Option<HostFile> {
        sys::open_beneath(self, way.as_ref()).map(HostFile)
    }

    async fn meta_beneath(&self, way: &str) -> Option<FileMeta> {
        let meta = if way.contains('/') {
            let object = sys::open_object_beneath(self, way.as_ref())?;
            sys::meta_of(object)
        } else {
            sys::meta(self, way.as_ref())
        };
        meta.ok().filter(|meta| meta.kind != FileKind::Link)
    }

    async fn refuses_write(&self, name: &OsStr) -> Option<BackendError> {
        let answer = fs::accessat(self, plain(name).ok()?, Access::WRITE_OK, AtFlags::EACCESS);
        // Systems without faccessat2(2) answer otherwise; then the rename decides alone.
        let refused = answer.err();
        let refused = refused.filter(|e| [Errno::ACCESS, Errno::ROFS].contains(e));
        refused.map(BackendError::from)
    }

    async fn create_dir(&self, name: &OsStr) -> Result<(), BackendError> {
        let mode = Mode::from_raw_mode(0o777);
        Ok(fs::mkdirat(self, plain(name)?, mode)?)
    }

    /// The umask applies.
    async fn create_file(&self, name: &OsStr, mode: u32) -> Result<HostFile, BackendError> {
        self.open(name, WRITE | OFlags::CREATE | OFlags::EXCL, raw_mode(mode))
    }

    async fn rename(
        &self,
        from: &OsStr,
        to: &Self,
        name: &OsStr,
        replace: bool,
    ) -> Result<(), BackendError> {
        Ok(if replace {
            fs::renameat(self, plain(from)?, to, plain(name)?)
        } else {
            sys::rename_new(self, from, to, name)
        }?)
    }

    async fn exchange(&self, from: &OsStr, to: &Self, name: &OsStr) -> Result<(), BackendError> {
        Ok(sys::exchange(self, plain(from)?, to, plain(name)?)?)
    }

    async fn remove_file(&self, name: &OsStr) -> Result<(), BackendError> {
        Ok(fs::unlinkat(self, plain(name)?, AtFlags::empty())?)
    }

    async fn remove_dir(&self, name: &OsStr) -> Result<(), BackendError> {
        Ok(fs::unlinkat(self, plain(name)?, AtFlags::REMOVEDIR)?)
    }

    /// Makes a rename last through a power cut: `fsync(2)` asks for one on the directory too.
    async fn sync(&self) -> Result<(), BackendError> {
        Ok(fs::fsync(sys::open_itself(self)?)?)
    }
}

impl BackendFile for HostFile {
    #[inline]
    async fn meta(&self) -> Result<FileMeta, BackendError> {
        Ok(sys::meta_of(&self.0)?)
    }

    async fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, BackendError> {
        loop {
            match self.0.read_at(buffer, offset) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                answer => return Ok(answer?),
            }
        }
    }

    async fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), BackendError> {
        Ok(self.0.write_all_at(bytes, offset)?)
    }

    async fn set_size(&self, bytes: u64) -> Result<(), BackendError> {
        Ok(self.0.set_len(bytes)?)
    }

    async fn set_mode(&self, mode: u32) -> Result<(), BackendError> {
        Ok(fs::fchmod(&self.0, raw_mode(mode))?)
    }

    async fn set_owner(&self, owner: (u32, u32)) -> Result<(), BackendError> {
        let (user, group) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
        Ok(fs::fchown(&self.0, Some(user), Some(group))?)
    }

    async fn claim(&self) -> bool {
        sys::lock(&self.0).is_ok()
    }

    async fn lock(&self) -> Result<bool, BackendError> {
        match sys::lock(&self.0) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    async fn sync(&self) -> Result<(), BackendError> {
        Ok(self.0.sync_all()?)
    }
}

impl BackendNames for HostNames {
    async fn next(&mut self) -> Result<Option<(OsString, Option<FileKind>)>, BackendError> {
        Ok(self.0.next().transpose()?)
    }
}

impl From<Errno> for BackendError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::Missing,
            Errno::EXIST => Self::Exists,
            Errno::NOTDIR => Self::NotDirectory,
            Errno::ISDIR => Self::IsDirectory,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::LOOP => Self::Link,
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::INVAL => Self::Invalid,
            Errno::XDEV => Self::OtherVolume,
            Errno::NXIO => Self::NotServed,
            errno => Self::System(errno.raw_os_error()),
        }
    }
}

impl From<std::io::Error> for BackendError {
    fn from(error: std::io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None => Self::Kind(error.kind()),
        }
    }
}
