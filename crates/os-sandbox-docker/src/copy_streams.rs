//! Copies between the streams of a container, which arrive in pieces through one connection, and
//! real pipes and files. Nothing is queued: a task writes each piece before it reads the next one,
//! so that a slow reader delays the command, as with a pipe. Both outputs share the connection, so
//! an output without a reader delays the other one.

use bollard::container::{AttachContainerResults, LogOutput};
use futures_util::{Stream, StreamExt as _};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use os_sandbox::{Error, Stdio};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::task::{JoinHandle, spawn, spawn_blocking};

/// Bound on the bytes of one read.
const CHUNK_BYTES: usize = 64 << 10;

/// The command's ends of its streams, with their kinds.
pub(super) struct Streams {
    pub(super) ends: [OwnedFd; 3],
    pub(super) kinds: [Stdio; 3],
}

pub(super) struct Copying {
    /// Task that runs until the input ends or the command stops reading it.
    pub(super) input: Option<JoinHandle<()>>,
    /// Task that runs until both outputs end and all their bytes are written.
    pub(super) output: JoinHandle<Result<(), bollard::errors::Error>>,
}

type LogStream = Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;
type StdinWriter = Pin<Box<dyn AsyncWrite + Send>>;

/// Starts the tasks that copy the streams. Callers run it on the engines' runtime only.
pub(super) fn copy(attached: AttachContainerResults, streams: Streams) -> Result<Copying, Error> {
    let failed = |error| Error::io("could not copy the command's streams", error);
    let [stdin, stdout, stderr] = streams.ends;
    let [into, out, err] = &streams.kinds;
    let AttachContainerResults { output, input } = attached;
    let source = source(stdin, into).map_err(failed)?;
    let sinks = [
        sink(stdout, out).map_err(failed)?,
        sink(stderr, err).map_err(failed)?,
    ];
    let (input, unused) = match source {
        Some(source) => (Some(spawn(feed(source, input))), None),
        None => (None, Some(input)),
    };
    let output = spawn(async move {
        let read = read(output, sinks).await;
        // The connection carries both directions, so it stays open until the output ends.
        drop(unused);
        read
    });
    Ok(Copying { input, output })
}

async fn feed(mut source: pipe::Receiver, mut input: StdinWriter) {
    let mut chunk = vec![0u8; CHUNK_BYTES];
    loop {
        match source.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => {
                let written = async {
                    input.write_all(&chunk[..count]).await?;
                    input.flush().await
                };
                if written.await.is_err() {
                    return;
                }
            }
        }
    }
    // The command sees the end of its input. If the shutdown fails, the command has ended.
    let _told = input.shutdown().await;
    // The connection stays open until the other half is done with it.
    drop(source);
}

async fn read(mut output: LogStream, mut sinks: [Sink; 2]) -> Result<(), bollard::errors::Error> {
    while let Some(piece) = output.next().await {
        match piece? {
            LogOutput::StdOut { message } | LogOutput::Console { message } => {
                sinks[0].write(&message).await;
            }
            LogOutput::StdErr { message } => sinks[1].write(&message).await,
            LogOutput::StdIn { .. } => {}
        }
    }
    for sink in sinks {
        sink.done().await;
    }
    Ok(())
}

/// Destination of an output.
enum Sink {
    Pipe(pipe::Sender),
    /// A file that cannot be waited for; a thread writes it.
    Thread(pipe::Sender, JoinHandle<()>),
    Nothing,
}

impl Sink {
    /// Writes the bytes, or discards them if the pipe has no reader any more.
    async fn write(&mut self, bytes: &[u8]) {
        let written = match self {
            Sink::Pipe(pipe) | Sink::Thread(pipe, _) => pipe.write_all(bytes).await,
            Sink::Nothing => Ok(()),
        };
        if written.is_err() {
            *self = Sink::Nothing;
        }
    }

    async fn done(self) {
        if let Sink::Thread(pipe, writer) = self {
            drop(pipe);
            let _ended = writer.await;
        }
    }
}

fn sink(end: OwnedFd, kind: &Stdio) -> io::Result<Sink> {
    Ok(match kind {
        Stdio::Null => Sink::Nothing,
        Stdio::Piped => Sink::Pipe(pipe::Sender::from_owned_fd(end)?),
        Stdio::Inherit | Stdio::File(_) => {
            let (reader, writer) = io::pipe()?;
            let thread = spawn_blocking(move || write_out(reader, File::from(end)));
            Sink::Thread(pipe::Sender::from_owned_fd(writer.into())?, thread)
        }
    })
}

fn write_out(mut from: PipeReader, mut to: File) {
    // A failed write loses the rest of the output, and the command continues.
    let _copied = io::copy(&mut from, &mut to);
    let _rest = io::copy(&mut from, &mut io::sink());
}

fn source(end: OwnedFd, kind: &Stdio) -> io::Result<Option<pipe::Receiver>> {
    Ok(match kind {
        Stdio::Null => None,
        Stdio::Piped => Some(pipe::Receiver::from_owned_fd(end)?),
        Stdio::Inherit | Stdio::File(_) => {
            let (reader, writer) = io::pipe()?;
            let source = pipe::Receiver::from_owned_fd(reader.into())?;
            spawn_blocking(move || read_in(File::from(end), writer));
            Some(source)
        }
    })
}

/// Copies until the end of the file or until the pipe has no reader any more. The poll also notices
/// a closed pipe while the file has no data.
fn read_in(mut from: File, mut to: PipeWriter) {
    let mut chunk = vec![0u8; CHUNK_BYTES];
    loop {
        let mut both = [
            PollFd::new(from.as_fd(), PollFlags::POLLIN),
            PollFd::new(to.as_fd(), PollFlags::empty()),
        ];
        match poll(&mut both, PollTimeout::NONE) {
            Ok(_) => {}
            Err(nix::Error::EINTR) => continue,
            Err(_) => return,
        }
        if both[1].any() == Some(true) {
            return;
        }
        match from.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if to.write_all(&chunk[..count]).is_err() {
                    return;
                }
            }
        }
    }
}
