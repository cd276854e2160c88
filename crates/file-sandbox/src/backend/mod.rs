//! The line between the rules and the files: what a backend must be able to do, and no more.
//!
//! Above this line there are names, handles and what lies at a name. Nothing here assumes that
//! there is a path of the host, a file descriptor, or a system that answers before the call
//! returns: every question is a future. The host and memory answer at once, so [`block_on_ready`] polls once
//! and allocates nothing; a backend that has to wait (a browser's storage) only has to wake it.
//!
//! What every backend must keep: one call takes one plain name, and a link is never followed.

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
    /// For reading, without waiting for whoever else should open it; `Link` if it is one.
    async fn open_file(&self, name: &OsStr) -> Result<Self::File, BackendError>;
    /// Like `open_file`, for writing in place.
    async fn open_to_write(&self, name: &OsStr) -> Result<Self::File, BackendError>;

    /// The directory that this one lies in by now, which may be another one than it was opened
    /// from; `None` where the backend does not tell.
    async fn open_parent(&self) -> Option<Self>;
    /// Whether something else is mounted at the name, as far as the backend tells.
    async fn is_mount_point(&self, name: &OsStr) -> bool;
    /// When the object at the name was created, where that is known.
    async fn created(&self, name: &OsStr) -> Option<SystemTime>;

    /// A shortcut for several steps at once, by plain names with single slashes between them.
    /// `None` says nothing: then go step by step.
    async fn open_dir_beneath(&self, way: &str) -> Option<Self>;
    /// The same for a file to read.
    async fn open_file_beneath(&self, way: &str) -> Option<Self::File>;
    /// The same for what lies there, which is no link.
    async fn meta_beneath(&self, way: &str) -> Option<FileMeta>;

    /// Why an ordinary write to the name would be refused, as far as can be told beforehand.
    async fn refuses_write(&self, name: &OsStr) -> Option<BackendError>;
    async fn create_dir(&self, name: &OsStr) -> Result<(), BackendError>;
    /// A new file, for writing.
    async fn create_file(&self, name: &OsStr, mode: u32) -> Result<Self::File, BackendError>;
    /// Moves an object, also into another directory of the same backend. Without `replace` there
    /// is nothing under the new name at the moment of the move.
    async fn rename(
        &self,
        from: &OsStr,
        to: &Self,
        name: &OsStr,
        replace: bool,
    ) -> Result<(), BackendError>;
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
    /// Whether nobody else has claimed the file. The claim ends with the handle or its process.
    async fn claim(&self) -> bool;
    /// Takes the file's lock, which ends with the handle or its process; `false` while somebody
    /// else has it, a fault where there are no locks.
    async fn lock(&self) -> Result<bool, BackendError>;
    async fn sync(&self) -> Result<(), BackendError>;
}

/// The names in a directory and, where the backend tells, what they are. In no order.
pub(crate) trait BackendNames {
    async fn next(&mut self) -> Result<Option<(OsString, Option<FileKind>)>, BackendError>;
}

/// What lies at a name.
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

/// Volume and object: the same thing under whatever name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) u64, pub(crate) u64);

/// The type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    File,
    Directory,
    Link,
    Pipe,
    Socket,
    Device,
    Unknown,
}

impl FileKind {
    /// For "it is …".
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::File => "a file, not a directory",
            Self::Directory => "a directory",
            Self::Link => "a link",
            Self::Pipe => "a pipe, not a file",
            Self::Socket => "a socket, not a file",
            Self::Device => "a device, not a file",
            Self::Unknown => "no regular file",
        }
    }
}

/// What went wrong, in the words that decisions are made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendError {
    Missing,
    Exists,
    NotDirectory,
    IsDirectory,
    NotEmpty,
    /// A link where none is followed.
    Link,
    NameTooLong,
    /// The backend has no such object or no such operation here.
    Invalid,
    /// The other end lies on another volume.
    OtherVolume,
    /// A special file that nobody serves.
    NotServed,
    /// Nobody waits for the answer any more.
    Cancelled,
    /// By number, of the host.
    System(i32),
    /// By kind, where there are no numbers.
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

/// The answer of a future, waited for here if need be.
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

/// Apart, so that what answers at once is small enough to become part of its caller.
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
