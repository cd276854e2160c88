//! Standard input, output and error of a command, the same way on every system.

use crate::child::Pipes;
use crate::command::Stdio;
use crate::error::Error;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

/// The command's ends of its streams, none of them below 3, and ours of those that are pipes.
pub(crate) fn streams(wanted: &[Stdio; 3]) -> Result<([OwnedFd; 3], Pipes), Error> {
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
