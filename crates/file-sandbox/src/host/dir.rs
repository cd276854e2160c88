//! The host as a backend: each question is one system call, answered before the call returns.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::time::SystemTime;

use cap_std::fs::Dir;
use rustix::io::Errno;

use super::sys;
use crate::backend::{BackendDir, BackendError, BackendFile, BackendNames, FileKind, FileMeta};

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
        Ok(sys::read_link(self, name)?)
    }

    async fn open_dir(&self, name: &OsStr) -> Result<Self, BackendError> {
        Ok(Self(sys::open_dir(self, name)?))
    }

    async fn open_file(&self, name: &OsStr) -> Result<HostFile, BackendError> {
        Ok(HostFile(sys::open_file(self, name)?))
    }

    async fn open_to_write(&self, name: &OsStr) -> Result<HostFile, BackendError> {
        Ok(HostFile(sys::open_to_write(self, name)?))
    }

    async fn open_parent(&self) -> Option<Self> {
        sys::open_parent(self).ok().map(Self)
    }

    async fn is_mount_point(&self, name: &OsStr) -> bool {
        sys::is_mount_point(self, name)
    }

    async fn created(&self, name: &OsStr) -> Option<SystemTime> {
        sys::created(self, name)
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
        sys::refuses_write(self, name).map(BackendError::from)
    }

    async fn create_dir(&self, name: &OsStr) -> Result<(), BackendError> {
        Ok(sys::create_dir(self, name)?)
    }

    async fn create_file(&self, name: &OsStr, mode: u32) -> Result<HostFile, BackendError> {
        Ok(HostFile(sys::create_file(self, name, mode)?))
    }

    async fn rename(
        &self,
        from: &OsStr,
        to: &Self,
        name: &OsStr,
        replace: bool,
    ) -> Result<(), BackendError> {
        Ok(if replace {
            sys::replace(self, from, to, name)
        } else {
            sys::rename_new(self, from, to, name)
        }?)
    }

    async fn remove_file(&self, name: &OsStr) -> Result<(), BackendError> {
        Ok(sys::remove_file(self, name)?)
    }

    async fn remove_dir(&self, name: &OsStr) -> Result<(), BackendError> {
        Ok(sys::remove_dir(self, name)?)
    }

    async fn sync(&self) -> Result<(), BackendError> {
        Ok(sys::sync_dir(self)?)
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
        Ok(sys::set_mode(&self.0, mode)?)
    }

    async fn set_owner(&self, owner: (u32, u32)) -> Result<(), BackendError> {
        Ok(sys::set_owner(&self.0, owner)?)
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
