//! Standard input, output and error of a command, the same way on every system.

use crate::error::Error;
use std::fs::File;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};

/// The target of a standard stream of the command.
///
/// ```
/// use os_sandbox::Stdio;
///
/// let log = std::fs::File::open("/dev/null")?;
/// let streams = [Stdio::Null, Stdio::Inherit, Stdio::Piped, Stdio::from(log)];
/// # let _ = streams;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub enum Stdio {
    /// Empty input; output is discarded.
    Null,
    /// The broker's own stream.
    Inherit,
    /// A pipe to the [`Child`](crate::Child).
    Piped,
    /// An open file. The command can do everything with it that the file allows.
    File(File),
}

/// The broker's ends of the pipes that a backend made.
pub type Pipes = (Option<PipeWriter>, Option<PipeReader>, Option<PipeReader>);

/// Returns the command's ends of its streams, none of them below 3, and the broker's ends of those
/// that are pipes.
///
/// # Errors
/// If the system is out of descriptors.
pub fn streams(wanted: &[Stdio; 3]) -> Result<([OwnedFd; 3], Pipes), Error> {
    let failed = |error| Error::io("could not make the command's streams", error);
    let mut pipes: Pipes = (None, None, None);
    let mut one = |index: usize| -> std::io::Result<OwnedFd> {
        let fd: OwnedFd = match &wanted[index] {
            Stdio::Null if index == 0 => File::open("/dev/null")?.into(),
            Stdio::Null => File::options().write(true).open("/dev/null")?.into(),
            Stdio::Inherit => match index {
                0 => std::io::stdin().as_fd().try_clone_to_owned(),
                1 => std::io::stdout().as_fd().try_clone_to_owned(),
                _ => std::io::stderr().as_fd().try_clone_to_owned(),
            }?,
            Stdio::Piped => {
                let (reader, writer) = std::io::pipe()?;
                match index {
                    0 => {
                        pipes.0 = Some(writer);
                        reader.into()
                    }
                    1 => {
                        pipes.1 = Some(reader);
                        writer.into()
                    }
                    _ => {
                        pipes.2 = Some(reader);
                        writer.into()
                    }
                }
            }
            Stdio::File(file) => file.try_clone()?.into(),
        };
        // A copy of ours is made above the standard streams, in case the caller closed its own.
        fd.try_clone()
    };
    let streams = [
        one(0).map_err(failed)?,
        one(1).map_err(failed)?,
        one(2).map_err(failed)?,
    ];
    Ok((streams, pipes))
}

impl From<File> for Stdio {
    fn from(file: File) -> Stdio {
        Stdio::File(file)
    }
}

#[cfg(unix)]
impl From<std::os::fd::OwnedFd> for Stdio {
    fn from(fd: std::os::fd::OwnedFd) -> Stdio {
        Stdio::File(File::from(fd))
    }
}
