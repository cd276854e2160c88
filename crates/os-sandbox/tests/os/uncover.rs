//! A target that may make namespaces of its own, as under a plan without a filter: it has every
//! capability in them, and tries to get at what a mount covers or forbids.

use crate::raw::{self, DATA, DATA_MIDDLE};
use nix::libc;
use nix::sys::statvfs::{FsFlags, statvfs};
use std::io;

/// struct mount_attr is 32 bytes: set, clear, propagation, user namespace.
const ATTRIBUTES_BYTES: u64 = 32;
const CLONE: u64 = 1;
const RECURSIVE: u64 = 0x8000;
const FROM_EMPTY_PATH: u64 = 4;
const HERE: u64 = libc::AT_FDCWD as u64;

/// Says what worked and must not.
pub(crate) fn run(path: &str) -> io::Result<String> {
    let flags = (libc::CLONE_NEWUSER | libc::CLONE_NEWNS) as u64;
    call(libc::SYS_unshare, [flags, 0, 0, 0, 0, 0], "").map_err(io::Error::from_raw_os_error)?;
    let held = read_only(path);
    let mut worked = attempts(path, held);
    // A copy of everything, attached elsewhere, is as locked as the original.
    let (parent, name) = path.rsplit_once('/').unwrap_or_default();
    let copy = tree(parent, CLONE | RECURSIVE).map_err(io::Error::from_raw_os_error)?;
    let args = [copy, DATA_MIDDLE, HERE, DATA, FROM_EMPTY_PATH, 0];
    call(libc::SYS_move_mount, args, "/tmp").map_err(io::Error::from_raw_os_error)?;
    worked.extend(attempts(&format!("/tmp/{name}"), held));
    Ok(worked.join(", "))
}

fn attempts(path: &str, held: bool) -> Vec<String> {
    let mut worked = Vec::new();
    let mut attempt = |name: &str, did: bool| {
        if did {
            worked.push(format!("{name} {path}"));
        }
    };
    let (parent, _) = path.rsplit_once('/').unwrap_or_default();
    for flags in [0, libc::MNT_DETACH, libc::MNT_FORCE] {
        let args = [DATA, flags as u64, 0, 0, 0, 0];
        attempt("umount", call(libc::SYS_umount2, args, path).is_ok());
    }
    attempt("copy without", tree(parent, CLONE).is_ok());
    if held {
        let remount = libc::MS_REMOUNT | libc::MS_BIND;
        let _ = call(libc::SYS_mount, [0, DATA, 0, remount, 0, 0], path);
        attempt("remount", !read_only(path));
        let args = [HERE, DATA, 0, DATA_MIDDLE, ATTRIBUTES_BYTES, 0];
        let cleared = call(libc::SYS_mount_setattr, args, path);
        attempt("mount_setattr", cleared.is_ok());
    }
    worked
}

fn tree(path: &str, flags: u64) -> Result<u64, i32> {
    call(libc::SYS_open_tree, [HERE, DATA, flags, 0, 0, 0], path).map(|fd| fd as u64)
}

fn read_only(path: &str) -> bool {
    statvfs(path).is_ok_and(|stat| stat.flags().contains(FsFlags::ST_RDONLY))
}

/// `DATA` is the path. The buffer's second half is an empty string, and attributes: set nothing,
/// clear read-only.
fn call(number: i64, args: [u64; 6], path: &str) -> Result<i64, i32> {
    let mut data = [0u8; 8192];
    data[..path.len()].copy_from_slice(path.as_bytes());
    data[4096 + 8] = 1;
    raw::call(number, args, &mut data)
}
