//! The boundary between the rules and the files: the minimal operations of a backend.
//!
//! Code above this boundary knows names, handles and metadata. The traits do not assume host paths,
//! file descriptors, or a synchronous system: every operation is a future. The host and memory
//! answer at once, so [`block_on_ready`] polls once and allocates nothing; a backend that has to
//! wait (a browser's storage) only has to wake it.
//!
//! The contract of every backend: one call takes one plain name, and never follows a link.

mod any;
mod memory;

use std::ffi::{OsStr, OsString};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::SystemTime;

pub(crate) use any::{AnyDir, AnyFile, Handle};
pub(crate) use memory::MemoryDir;

/// An open directory.
pub(crate) trait BackendDir: Sized {
    type File: BackendFile;
    type Names: BackendNames;

    /// Of the directory itself.
    async fn own_meta(&self) -> Result<FileMeta, BackendError>;
    async fn meta(&self, name: &OsStr) -> Result<FileMeta, BackendError>;
    async fn names(&self) -> Result<Self::Names, BackendError>;
    async fn read_link(&self, name: &OsStr) -> Result<OsString, BackendError>;

    /// `NotDirectory` or `Link` if it is none.
    async fn open_dir(&self, name: &OsStr) -> Result<Self, BackendError>;
    /// Opens a file for reading, without waiting for another process to open it (pipes); `Link` if
    /// it is one.
    async fn open_file(&self, name: &OsStr) -> Result<Self::File, BackendError>;
    /// Like `open_file`, for writing in place.
    async fn open_to_write(&self, name: &OsStr) -> Result<Self::File, BackendError>;

    /// Opens the present parent directory, which may be another one than it was opened from; `None`
    /// if the backend cannot.
    async fn open_parent(&self) -> Option<Self>;
    /// `true` if the name is a mount point, as far as the backend knows.
    async fn is_mount_point(&self, name: &OsStr) -> bool;
    /// When the object at the name was created, where that is known.
    async fn created(&self, name: &OsStr) -> Option<SystemTime>;

    /// Opens a directory several names below, by plain names with single slashes between them.
    /// After `None` the caller goes step by step.
    async fn open_dir_beneath(&self, way: &str) -> Option<Self>;
    /// Like `open_dir_beneath`, for a file to read.
    async fn open_file_beneath(&self, way: &str) -> Option<Self::File>;
    /// Like `open_dir_beneath`, for the metadata of an object that is not a link.
    async fn meta_beneath(&self, way: &str) -> Option<FileMeta>;

    /// Returns the error of an ordinary write to the name, as far as it is known beforehand.
    async fn refuses_write(&self, name: &OsStr) -> Option<BackendError>;
    async fn create_dir(&self, name: &OsStr) -> Result<(), BackendError>;
    /// A new file, for writing.
    async fn create_file(&self, name: &OsStr, mode: u32) -> Result<Self::File, BackendError>;
    /// Moves an object, also into another directory of the backend. Without `replace` it fails if
    /// the new name exists.
    async fn rename(
        &self,
        from: &OsStr,
        to: &Self,
        name: &OsStr,
        replace: bool,
    ) -> Result<(), BackendError>;
    /// Exchanges two objects in one step, as far as the backend can.
    async fn exchange(&self, from: &OsStr, to: &Self, name: &OsStr) -> Result<(), BackendError>;
    async fn remove_file(&self, name: &OsStr) -> Result<(), BackendError>;
    /// Of an empty one.
    async fn remove_dir(&self, name: &OsStr) -> Result<(), BackendError>;
    /// Makes the names in it last through a power cut.
    async fn sync(&self) -> Result<(), BackendError>;
}

/// An open file.
pub(crate) trait BackendFile {
    async fn meta(&self) -> Result<FileMeta, BackendError>;
    /// At most `buffer` from `offset` on; 0 at the end.
    async fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, BackendError>;
    /// All of `bytes`, or a fault with some of them written.
    async fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), BackendError>;
    async fn set_size(&self, bytes: u64) -> Result<(), BackendError>;
    async fn set_mode(&self, mode: u32) -> Result<(), BackendError>;
    async fn set_owner(&self, owner: (u32, u32)) -> Result<(), BackendError>;
    /// Claims the file; `false` if another process has claimed it. The claim ends with the handle
    /// or its process.
    async fn claim(&self) -> bool;
    /// Takes the file's lock, which ends with the handle or its process; `false` while another
    /// process has it, an error without locks.
    async fn lock(&self) -> Result<bool, BackendError>;
    async fn sync(&self) -> Result<(), BackendError>;
}

/// The names in a directory and, if the backend knows, their types. In any order.
pub(crate) trait BackendNames {
    async fn next(&mut self) -> Result<Option<(OsString, Option<FileKind>)>, BackendError>;
}

/// The metadata of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileMeta {
    pub(crate) kind: FileKind,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) links: u64,
    pub(crate) owner: (u32, u32),
    pub(crate) modified: Option<SystemTime>,
    pub(crate) changed: Option<SystemTime>,
    pub(crate) id: FileId,
}

/// Volume and object number: equal for all names of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) u64, pub(crate) u64);

sandbox_names::word_enum! {
    /// The type of an object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum FileKind {
        File = "a file, not a directory",
        Directory = "a directory",
        Link = "a link",
        Pipe = "a pipe, not a file",
        Socket = "a socket, not a file",
        Device = "a device, not a file",
        Unknown = "no regular file",
    }
    /// For "it is …".
    pub(crate) fn words
}

/// The error of a backend, as far as callers distinguish errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendError {
    Missing,
    Exists,
    NotDirectory,
    IsDirectory,
    NotEmpty,
    /// A link, which is not followed.
    Link,
    NameTooLong,
    /// The backend has no such object or no such operation here.
    Invalid,
    /// The other end is on another volume.
    OtherVolume,
    /// A special file without a server.
    NotServed,
    /// The caller cancelled the operation.
    Cancelled,
    /// By number, of the host.
    System(i32),
    /// By kind, on systems without numbers.
    Kind(io::ErrorKind),
}

impl BackendError {
    /// For the source of an error.
    pub(crate) fn into_io(self) -> io::Error {
        let kind = match self {
            Self::System(code) => return io::Error::from_raw_os_error(code),
            Self::Kind(kind) => kind,
            Self::Missing => io::ErrorKind::NotFound,
            Self::Exists => io::ErrorKind::AlreadyExists,
            Self::NotDirectory => io::ErrorKind::NotADirectory,
            Self::IsDirectory => io::ErrorKind::IsADirectory,
            Self::NotEmpty => io::ErrorKind::DirectoryNotEmpty,
            Self::NameTooLong => io::ErrorKind::InvalidFilename,
            Self::OtherVolume => io::ErrorKind::CrossesDevices,
            Self::Cancelled => io::ErrorKind::Interrupted,
            Self::Invalid | Self::Link | Self::NotServed => io::ErrorKind::InvalidInput,
        };
        kind.into()
    }
}

/// Returns the result of a future, and waits for it if necessary.
#[inline]
pub(crate) fn block_on_ready<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(answer) => answer,
        Poll::Pending => wait(future),
    }
}

/// Why a separate function: the path without waiting is small enough to be inlined.
#[cold]
fn wait<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_is_waited_for() {
        let mut polls = 0;
        let late = std::future::poll_fn(|context| {
            polls += 1;
            if polls == 3 {
                return Poll::Ready(7);
            }
            let waker = context.waker().clone();
            thread::spawn(move || waker.wake());
            // The first poll has no waker that could wake anybody.
            Poll::Pending
        });
        assert_eq!(block_on_ready(late), 7);
    }
}
