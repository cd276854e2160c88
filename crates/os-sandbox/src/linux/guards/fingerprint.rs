//! Fingerprints of names over which nothing is mounted.

use super::super::below;
use super::super::host_mount::HostMount;
use super::saved::MAX_CONTENT_BYTES;
use crate::findings::Findings;
use crate::promise::Promise;
use nix::dir::Dir;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, SFlag};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Reports changed names. The scan can neither attribute the change to the command nor revert it.
pub(super) fn changed(
    mount: &HostMount,
    loose: &HashMap<PathBuf, NameFingerprint>,
    findings: &mut Findings,
) {
    for (below, was) in loose {
        let path = mount.shown(below);
        let reason = match (was, fingerprint(mount, below)) {
            (Some(was), Some(now)) if *was == now => continue,
            (Some(_), _) => format!("{} was changed while the command ran", path),
            (None, _) => format!("{} cannot be compared with what it was", path),
        };
        findings.note(Promise::ProtectedNames, &reason);
    }
}

/// NameFingerprint of a name: a hash of times, sizes and modes, contents of small files, and the
/// fingerprints of everything below it. `None` if it cannot be read, or exceeds the limits.
pub(super) type NameFingerprint = Option<[u8; 32]>;

/// Bound on the files of one name.
const MAX_HASHED: usize = 10_000;

pub(super) fn fingerprint(mount: &HostMount, below: &Path) -> NameFingerprint {
    let parent = below::directory(mount.handle.as_fd(), below.parent()?).ok()?;
    let mut hash = Sha256::new();
    let mut room = MAX_HASHED;
    hash_name(&mut hash, parent.as_fd(), below.file_name()?, &mut room)?;
    Some(hash.finalize().into())
}

fn hash_name(
    hash: &mut Sha256,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    room: &mut usize,
) -> Option<()> {
    *room = room.checked_sub(1)?;
    let stat = below::look(parent, name).ok()?;
    let kind = below::kind(&stat);
    let facts = (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_uid);
    hash.update(format!("{name:?} {facts:?}\n"));
    // A directory has its names, also after a new one was moved away.
    if kind != SFlag::S_IFDIR {
        let written = (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        // Programs cannot set the change time of a file.
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        hash.update(format!("{written:?} {changed:?}\n"));
    }
    match kind {
        SFlag::S_IFREG => {
            let file = below::file(parent, name).ok()?;
            let mut content = Vec::new();
            file.take(MAX_CONTENT_BYTES)
                .read_to_end(&mut content)
                .ok()?;
            hash.update(content);
        }
        SFlag::S_IFDIR => {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let mut directory = Dir::openat(parent, name, flags, Mode::empty()).ok()?;
            let mut names: Vec<OsString> = Vec::new();
            for entry in directory.iter() {
                let entry = entry.ok()?;
                let name = entry.file_name().to_bytes();
                if !matches!(name, b"." | b"..") && names.len() < MAX_HASHED {
                    names.push(OsStr::from_bytes(name).to_owned());
                }
            }
            names.sort();
            for name in names {
                hash_name(hash, directory.as_fd(), &name, room)?;
            }
        }
        _ => {}
    }
    Some(())
}
