//! One type for the directories of all backends, so that one sandbox can mount several. By value
//! and by `match`, without boxes.

use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::time::SystemTime;

use super::memory::{MemoryDir, MemoryFile, MemoryNames};
use super::{BackendDir, BackendError, BackendFile, BackendNames, FileKind, FileMeta};
use crate::host::{HostDir, HostFile, HostNames};

#[derive(Debug)]
pub(crate) enum AnyDir {
    Host(HostDir),
    Memory(MemoryDir),
}

#[derive(Debug)]
pub(crate) enum AnyFile {
    Host(HostFile),
    Memory(MemoryFile),
}

pub(crate) enum AnyNames {
    Host(HostNames),
    Memory(MemoryNames),
}

/// A directory handle, borrowed or our own.
#[derive(Debug)]
pub(crate) enum Handle<'r> {
    Root(&'r AnyDir),
    Own(AnyDir),
}

impl Handle<'_> {
    /// Borrows the directory.
    pub(crate) fn borrow(&self) -> Handle<'_> {
        Handle::Root(self)
    }
}

impl Deref for Handle<'_> {
    type Target = AnyDir;

    fn deref(&self) -> &AnyDir {
        match self {
            Self::Root(dir) => dir,
            Self::Own(dir) => dir,
        }
    }
}

/// Forwards a call to the backend's type.
macro_rules! each {
    ($any:ident, $type:ident, $it:ident => $call:expr) => {
        match $any {
            $type::Host($it) => $call,
            $type::Memory($it) => $call,
        }
    };
}

/// Like `each`, and converts the result into the common type.
macro_rules! each_into {
    ($any:ident, $into:ident, $it:ident => $call:expr) => {
        match $any {
            AnyDir::Host($it) => $call.map($into::Host),
            AnyDir::Memory($it) => $call.map($into::Memory),
        }
    };
}

impl BackendDir for AnyDir {
    type File = AnyFile;
    type Names = AnyNames;

    async fn own_meta(&self) -> Result<FileMeta, BackendError> {
        each!(self, AnyDir, dir => dir.own_meta().await)
    }

    async fn meta(&self, name: &OsStr) -> Result<FileMeta, BackendError> {
        each!(self, AnyDir, dir => dir.meta(name).await)
    }

    async fn names(&self) -> Result<AnyNames, BackendError> {
        each_into!(self, AnyNames, dir => dir.names().await)
    }

    async fn read_link(&self, name: &OsStr) -> Result<OsString, BackendError> {
        each!(self, AnyDir, dir => dir.read_link(name).await)
    }

    async fn open_dir(&self, name: &OsStr) -> Result<Self, BackendError> {
        each_into!(self, AnyDir, dir => dir.open_dir(name).await)
    }

    async fn open_file(&self, name: &OsStr) -> Result<AnyFile, BackendError> {
        each_into!(self, AnyFile, dir => dir.open_file(name).await)
    }

    async fn open_to_write(&self, name: &OsStr) -> Result<AnyFile, BackendError> {
        each_into!(self, AnyFile, dir => dir.open_to_write(name).await)
    }

    async fn open_parent(&self) -> Option<Self> {
        each_into!(self, AnyDir, dir => dir.open_parent().await)
    }

    async fn is_mount_point(&self, name: &OsStr) -> bool {
        each!(self, AnyDir, dir => dir.is_mount_point(name).await)
    }

    async fn created(&self, name: &OsStr) -> Option<SystemTime> {
        each!(self, AnyDir, dir => dir.created(name).await)
    }

    async fn open_dir_beneath(&self, way: &str) -> Option<Self> {
        each_into!(self, AnyDir, dir => dir.open_dir_beneath(way).await)
    }

    #[inline]
    async fn open_file_beneath(&self, way: &str) -> Option<AnyFile> {
        each_into!(self, AnyFile, dir => dir.open_file_beneath(way).await)
    }

    async fn meta_beneath(&self, way: &str) -> Option<FileMeta> {
        each!(self, AnyDir, dir => dir.meta_beneath(way).await)
    }

    async fn refuses_write(&self, name: &OsStr) -> Option<BackendError> {
        each!(self, AnyDir, dir => dir.refuses_write(name).await)
    }

    async fn create_dir(&self, name: &OsStr) -> Result<(), BackendError> {
        each!(self, AnyDir, dir => dir.create_dir(name).await)
    }

    async fn create_file(&self, name: &OsStr, mode: u32) -> Result<AnyFile, BackendError> {
        each_into!(self, AnyFile, dir => dir.create_file(name, mode).await)
    }

    async fn rename(
        &self,
        from: &OsStr,
        to: &Self,
        name: &OsStr,
        replace: bool,
    ) -> Result<(), BackendError> {
        match (self, to) {
            (Self::Host(dir), Self::Host(to)) => dir.rename(from, to, name, replace).await,
            (Self::Memory(dir), Self::Memory(to)) => dir.rename(from, to, name, replace).await,
            (Self::Host(_), Self::Memory(_)) | (Self::Memory(_), Self::Host(_)) => {
                Err(BackendError::OtherVolume)
            }
        }
    }

    async fn exchange(&self, from: &OsStr, to: &Self, name: &OsStr) -> Result<(), BackendError> {
        match (self, to) {
            (Self::Host(dir), Self::Host(to)) => dir.exchange(from, to, name).await,
            (Self::Memory(dir), Self::Memory(to)) => dir.exchange(from, to, name).await,
            (Self::Host(_), Self::Memory(_)) | (Self::Memory(_), Self::Host(_)) => {
                Err(BackendError::OtherVolume)
            }
        }
    }

    async fn remove_file(&self, name: &OsStr) -> Result<(), BackendError> {
        each!(self, AnyDir, dir => dir.remove_file(name).await)
    }

    async fn remove_dir(&self, name: &OsStr) -> Result<(), BackendError> {
        each!(self, AnyDir, dir => dir.remove_dir(name).await)
    }

    async fn sync(&self) -> Result<(), BackendError> {
        each!(self, AnyDir, dir => dir.sync().await)
    }
}

impl BackendFile for AnyFile {
    #[inline]
    async fn meta(&self) -> Result<FileMeta, BackendError> {
        each!(self, AnyFile, file => file.meta().await)
    }

    async fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, BackendError> {
        each!(self, AnyFile, file => file.read_at(buffer, offset).await)
    }

    async fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), BackendError> {
        each!(self, AnyFile, file => file.write_at(bytes, offset).await)
    }

    async fn set_size(&self, bytes: u64) -> Result<(), BackendError> {
        each!(self, AnyFile, file => file.set_size(bytes).await)
    }

    async fn set_mode(&self, mode: u32) -> Result<(), BackendError> {
        each!(self, AnyFile, file => file.set_mode(mode).await)
    }

    async fn set_owner(&self, owner: (u32, u32)) -> Result<(), BackendError> {
        each!(self, AnyFile, file => file.set_owner(owner).await)
    }

    async fn claim(&self) -> bool {
        each!(self, AnyFile, file => file.claim().await)
    }

    async fn lock(&self) -> Result<bool, BackendError> {
        each!(self, AnyFile, file => file.lock().await)
    }

    async fn sync(&self) -> Result<(), BackendError> {
        each!(self, AnyFile, file => file.sync().await)
    }
}

impl BackendNames for AnyNames {
    async fn next(&mut self) -> Result<Option<(OsString, Option<FileKind>)>, BackendError> {
        each!(self, AnyNames, names => names.next().await)
    }
}
