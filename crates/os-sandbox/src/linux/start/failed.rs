//! Error texts for the launcher's answers: the stage at which a start failed, and a hint.

use super::super::mount_layer::root::{OverlayStep, RootStep};
use super::super::wire;
use super::running::Record;
use crate::command::Command;
use crate::error::{Error, ErrorKind};
use nix::libc::{ELOOP, ENODEV, EPERM, ESTALE};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Returns the error of an overlay that the kernel did not mount. It gives one number for many
/// causes, so the mount table is read.
fn overlay_failure(step: &OverlayStep, source: std::io::Error) -> Error {
    let (lower, upper) = (step.lower.path.display(), step.upper.path.display());
    let inside = mounts_in(&step.lower.path);
    let (why, hint) = match (source.raw_os_error(), inside.as_slice()) {
        (Some(ESTALE), _) => (
            "one of its directories was replaced a moment ago".to_owned(),
            "try again when what moves them is done".to_owned(),
        ),
        (Some(ENODEV), _) => (
            "the kernel has no overlayfs".to_owned(),
            "load it: sudo modprobe overlay".to_owned(),
        ),
        (Some(ELOOP), _) => (
            "one of its directories lies in another".to_owned(),
            "use an upper directory outside of the lower one".to_owned(),
        ),
        (Some(EPERM), _) => (
            "the kernel does not let an ordinary user mount one".to_owned(),
            "Linux 5.11 or later is needed, and no outer filter that forbids it".to_owned(),
        ),
        (_, [first, more @ ..]) => {
            let more = match more.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            (
                format!(
                    "other file systems are mounted in the lower directory, at {}{more}",
                    first.display()
                ),
                "unmount them, or give the command a directory without them".to_owned(),
            )
        }
        _ => (
            "the kernel refused it".to_owned(),
            format!(
                "Linux 5.11 or later is needed, and a file system for {upper} that keeps \
                 user.* attributes: ext4, XFS, Btrfs, or tmpfs from Linux 6.6"
            ),
        ),
    };
    ErrorKind::Enforcement
        .error(format!(
            "no overlay of {lower} with the upper directory {upper} could be mounted: {why}"
        ))
        .with_source(source)
        .with_hint(hint)
}

/// Returns the mount points in a directory, from the mount table. Empty if it cannot be read.
fn mounts_in(directory: &Path) -> Vec<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|field| PathBuf::from(OsString::from_vec(unescape(field))))
        .filter(|point| point.starts_with(directory) && point != directory)
        .collect()
}

/// Replaces the octal escapes of a path in the mount table, such as `\040` for a space.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, more)) = rest.split_first() {
        let code = more.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &more[3..];
            }
            None => {
                out.push(*first);
                rest = more;
            }
        }
    }
    out
}

pub(super) fn failure(command: &Command, root: &[RootStep], record: Record) -> Error {
    const ENOEXEC: i32 = 8;
    let source = std::io::Error::from_raw_os_error(record.b);
    let program = command.program.display();
    let not_found = matches!(
        source.kind(),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
    );
    let of_ours = |what: &str| {
        ErrorKind::Enforcement
            .error(what)
            .with_source(std::io::Error::from_raw_os_error(record.b))
    };
    match record.a {
        wire::STAGE_EXEC if not_found => {
            ErrorKind::NotFound.error(format!("{program}: no such program in the sandbox"))
                .with_hint("it must lie in the system's directories or in a mount that allows execution")
        }
        wire::STAGE_EXEC if record.b == ENOEXEC => {
            ErrorKind::NotExecutable.error(format!("{program}: not a program"))
                .with_hint("a script needs a first line such as #!/bin/sh")
        }
        wire::STAGE_EXEC => {
            ErrorKind::NotExecutable.error(format!("{program}: cannot be started"))
                .with_source(source)
                .with_hint("it must be executable, in the system's directories or in a mount that allows execution")
        }
        wire::STAGE_DIRECTORY => ErrorKind::Invalid.error(format!("no such working directory: {}", command.cwd.as_deref().unwrap_or("/work")))
        .with_source(source),
        wire::STAGE_PROTOCOL => of_ours("the launcher did not understand the job"),
        wire::STAGE_OUTER => of_ours("the supervisor could not confine itself"),
        wire::STAGE_OUTER_CHECK => of_ours("signals are not kept in, although Landlock promises it"),
        wire::STAGE_LATE_RULE => of_ours("a Landlock rule inside the namespaces was refused"),
        wire::STAGE_FORK => of_ours("the supervisor could not start the command"),
        wire::STAGE_STDIO => of_ours("the command's streams could not be put in place"),
        wire::STAGE_PRIVILEGES => of_ours("capabilities could not be dropped"),
        wire::STAGE_LANDLOCK => of_ours("Landlock could not be applied"),
        wire::STAGE_DESCRIPTORS => of_ours("descriptors could not be closed (Linux 5.9 is needed)"),
        wire::STAGE_LIMITS => of_ours("a limit could not be set"),
        wire::STAGE_FILTER => of_ours("the system call filter could not be installed"),
        wire::STAGE_CONNECT => of_ours("the process that answers for the command's system call filter is gone"),
        wire::STAGE_FILES => of_ours("a file of the system went away during the start"),
        wire::STAGE_GROUP => of_ours("the command could not enter its control group"),
        wire::STAGE_PIN => of_ours("a mount or protected name is not what it was a moment ago"),
        wire::STAGE_MOUNTS => of_ours("the mounts inside mounts could not be made"),
        wire::STAGE_NETWORK => of_ours("the sockets for named hosts are not there"),
        wire::STAGE_NAMESPACES => of_ours("the namespaces could not be made"),
        wire::STAGE_ROOT => of_ours(&match root.get(record.c as usize) {
            Some(RootStep::Overlay(step)) => return overlay_failure(step, source),
            Some(step) => format!("the command's root directory could not be built: {step}"),
            None => "the command's root directory could not be built".to_owned(),
        }),
        wire::STAGE_TERMINAL => of_ours("no terminal could be made for the command")
            .with_hint("it is made from /dev/ptmx, and needs Linux 4.13"),
        wire::STAGE_PARENT => of_ours("the supervisor went away"),
        other => of_ours(&format!("the launcher failed at an unknown stage ({other})")),
    }
}
