//! Between the streams of a container, which come in pieces through one connection, and real pipes
//! and files. Nothing is queued: a piece is written before the next one is read, so that whoever does
//! not read holds up the command, as with a pipe. Two outputs share the connection: one that nobody
//! reads holds up the other.

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

/// Bound on what is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The command's ends of its streams, and what they are.
pub(super) struct Streams {
    pub(super) ends: [OwnedFd; 3],
    pub(super) kinds: [Stdio; 3],
}

pub(super) struct Copying {
    /// Until the input is at its end, or nobody takes it any more.
    pub(super) input: Option<JoinHandle<()>>,
    /// Until both outputs are, and all of it has been written.
    pub(super) output: JoinHandle<Result<(), bollard::errors::Error>>,
}

type LogStream = Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;
type StdinWriter = Pin<Box<dyn AsyncWrite + Send>>;

/// On the engine's runtime only.
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
        // The connection is both ways.
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
    // The command sees the end. If that cannot be told, it has ended.
    let _told = input.shutdown().await;
    // The connection stays until the other half is done with it.
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

/// Where an output goes.
enum Sink {
    Pipe(pipe::Sender),
    /// Something that cannot be waited for: a thread writes it.
    Thread(pipe::Sender, JoinHandle<()>),
    Nothing,
}

impl Sink {
    /// What nobody reads any more is thrown away.
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
    // What cannot be written is lost to whoever made it so, and the command goes on.
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

/// Until the end, or until nobody reads the pipe any more, which is also seen while there is nothing
/// to copy.
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
