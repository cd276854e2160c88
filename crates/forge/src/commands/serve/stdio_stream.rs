//! One end of the process's standard streams, without a thread between it and the runtime if
//! possible: a hand-over of each message to another thread and back costs more than many a call.
//!
//! Other holders of the same pipe or socket must not be affected. So no flag of the given
//! descriptor is changed: a pipe is opened once more, of our own, and a socket is read with a flag
//! for each call that does not block.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// A stream to read from or to write to.
pub(crate) enum StdioStream {
    /// The runtime says when there is something to do.
    Polled(AsyncFd<NonBlockingFd>),
    /// Anything else, such as a file or a terminal: on a thread that may wait.
    Waited(tokio::fs::File),
}

/// A descriptor of ours that is never waited for.
#[derive(Debug)]
pub(crate) enum NonBlockingFd {
    Pipe(OwnedFd),
    Socket(OwnedFd),
}

impl StdioStream {
    /// To read from. Must be called on a runtime.
    pub(crate) fn reader(given: OwnedFd) -> Self {
        StdioStream::new(given, OFlags::RDONLY, Interest::READABLE)
    }

    /// To write to. Must be called on a runtime.
    pub(crate) fn writer(given: OwnedFd) -> Self {
        StdioStream::new(given, OFlags::WRONLY, Interest::WRITABLE)
    }

    fn new(given: OwnedFd, access: OFlags, interest: Interest) -> Self {
        match NonBlockingFd::of(&given, access).and_then(|channel| polled(channel, interest)) {
            Ok(polled) => StdioStream::Polled(polled),
            Err(_) => StdioStream::Waited(tokio::fs::File::from_std(File::from(given))),
        }
    }
}

#[expect(
    deprecated,
    reason = "what comes in its place is unsafe, for types that might exchange their descriptor; \
              this one keeps it as long as it is there"
)]
fn polled(channel: NonBlockingFd, interest: Interest) -> io::Result<AsyncFd<NonBlockingFd>> {
    AsyncFd::with_interest(channel, interest)
}

impl NonBlockingFd {
    fn of(given: &OwnedFd, access: OFlags) -> io::Result<Self> {
        match FileType::from_raw_mode(rustix::fs::fstat(given)?.st_mode) {
            FileType::Fifo => {
                // Without such a directory, or with a pipe of another user, a blocking thread reads
                // it.
                let place = format!("/proc/self/fd/{}", given.as_raw_fd());
                let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
                Ok(NonBlockingFd::Pipe(rustix::fs::open(
                    place,
                    flags,
                    Mode::empty(),
                )?))
            }
            FileType::Socket => Ok(NonBlockingFd::Socket(given.try_clone()?)),
            FileType::RegularFile
            | FileType::Directory
            | FileType::Symlink
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(match self {
            NonBlockingFd::Pipe(pipe) => rustix::io::read(pipe, into)?,
            NonBlockingFd::Socket(socket) => {
                rustix::net::recv(socket, into, RecvFlags::DONTWAIT)?.0
            }
        })
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(match self {
            NonBlockingFd::Pipe(pipe) => rustix::io::write(pipe, bytes)?,
            NonBlockingFd::Socket(socket) => {
                // A closed socket raises no signal: the standard library ignores it.
                rustix::net::send(socket, bytes, SendFlags::DONTWAIT)?
            }
        })
    }
}

impl std::os::fd::AsRawFd for NonBlockingFd {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        match self {
            NonBlockingFd::Pipe(fd) | NonBlockingFd::Socket(fd) => fd.as_fd().as_raw_fd(),
        }
    }
}

impl AsyncRead for StdioStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = match self.get_mut() {
            StdioStream::Polled(polled) => polled,
            StdioStream::Waited(file) => return Pin::new(file).poll_read(context, into),
        };
        loop {
            let mut ready = ready!(polled.poll_read_ready(context))?;
            let room = into.remaining();
            match ready.try_io(|channel| channel.get_ref().read(into.initialize_unfilled())) {
                Ok(Ok(read)) => {
                    into.advance(read);
                    // There was no more: to ask once more would say the same.
                    if 0 < read && read < room {
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_not_ready_after_all) => {}
            }
        }
    }
}

impl AsyncWrite for StdioStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = match self.get_mut() {
            StdioStream::Polled(polled) => polled,
            StdioStream::Waited(file) => return Pin::new(file).poll_write(context, bytes),
        };
        loop {
            let mut ready = ready!(polled.poll_write_ready(context))?;
            match ready.try_io(|channel| channel.get_ref().write(bytes)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(outcome) => return Poll::Ready(outcome),
                Err(_not_ready_after_all) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            StdioStream::Polled(_) => Poll::Ready(Ok(())),
            StdioStream::Waited(file) => Pin::new(file).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            // The end of the process closes it, like the given descriptor.
            StdioStream::Polled(_) => Poll::Ready(Ok(())),
            StdioStream::Waited(file) => Pin::new(file).poll_shutdown(context),
        }
    }
}
