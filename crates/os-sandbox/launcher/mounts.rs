//! The system calls that make mounts by descriptor, a part of `sys.rs`: open_tree(2),
//! move_mount(2), mount_setattr(2), fsopen(2), openat2(2). All are there from Linux 5.12.

use super::{AT_EMPTY_PATH, CStr, O_CLOEXEC, O_NOFOLLOW, O_PATH, Result, fd, nr, raw};

const READ_ONLY_NOSUID_NODEV: u64 = 1 | 2 | 4;
const NOEXEC: u64 = 8;
const AT_RECURSIVE: usize = 0x8000;

/// A user namespace of our own, in which we have every capability, and a mount namespace that
/// belongs to it. The process must have one thread.
pub fn new_namespaces() -> Result<()> {
    const NEWUSER: usize = 0x1000_0000;
    const NEWNS: usize = 0x0002_0000;
    raw(nr::UNSHARE, [NEWUSER | NEWNS, 0, 0, 0, 0, 0]).map(drop)
}

/// Effective user and group.
pub fn ids() -> (u32, u32) {
    // Neither call can fail.
    let id = |number| raw(number, [0; 6]).unwrap_or(usize::MAX) as u32;
    (id(nr::GETEUID), id(nr::GETEGID))
}

/// What lies at an absolute path seen from `root`: no link is followed on the way or at the end.
pub fn open_beneath(root: i32, path: CStr<'_>) -> Result<i32> {
    const NO_MAGICLINKS: u64 = 2;
    const NO_SYMLINKS: u64 = 4;
    const BENEATH: u64 = 8;
    // struct open_how: flags, mode, resolve.
    let how = [
        (O_PATH | O_NOFOLLOW | O_CLOEXEC) as u64,
        0,
        NO_MAGICLINKS | NO_SYMLINKS | BENEATH,
    ];
    raw(
        nr::OPENAT2,
        [
            fd(root),
            path.without_root().pointer(),
            how.as_ptr() as usize,
            core::mem::size_of_val(&how),
            0,
            0,
        ],
    )
    .map(|number| number as i32)
}

/// A copy of the mounts at and below this place, attached nowhere.
pub fn copy_tree(place: i32) -> Result<i32> {
    const CLONE: usize = 1;
    raw(
        nr::OPEN_TREE,
        [
            fd(place),
            c"".as_ptr() as usize,
            CLONE | AT_RECURSIVE | AT_EMPTY_PATH | O_CLOEXEC as usize,
            0,
            0,
            0,
        ],
    )
    .map(|number| number as i32)
}

/// Read-only, without set-id bits and devices, all of the mounts at and below this one.
pub fn make_read_only(mount: i32) -> Result<()> {
    attributes(mount, READ_ONLY_NOSUID_NODEV, 0)
}

/// No mount of anybody else appears at or below this one any more, and none of ours elsewhere.
pub fn make_private(mount: i32) -> Result<()> {
    const PRIVATE: u64 = 1 << 18;
    attributes(mount, 0, PRIVATE)
}

fn attributes(mount: i32, set: u64, propagation: u64) -> Result<()> {
    // struct mount_attr: set, clear, propagation, user namespace.
    let attributes = [set, 0, propagation, 0];
    raw(
        nr::MOUNT_SETATTR,
        [
            fd(mount),
            c"".as_ptr() as usize,
            AT_EMPTY_PATH | AT_RECURSIVE,
            attributes.as_ptr() as usize,
            core::mem::size_of_val(&attributes),
            0,
        ],
    )
    .map(drop)
}

/// Attaches a copied or new mount on top of a place; both by descriptor.
pub fn attach(mount: i32, place: i32) -> Result<()> {
    const BOTH_EMPTY_PATHS: usize = 0x04 | 0x40;
    let empty = c"".as_ptr() as usize;
    raw(
        nr::MOVE_MOUNT,
        [fd(mount), empty, fd(place), empty, BOTH_EMPTY_PATHS, 0],
    )
    .map(drop)
}

/// An empty directory that nobody can read, enter or change, attached nowhere.
pub fn closed_directory() -> Result<i32> {
    const SET_STRING: usize = 1;
    const CREATE: usize = 6;
    const CLOEXEC: usize = 1;
    let context = raw(
        nr::FSOPEN,
        [c"tmpfs".as_ptr() as usize, CLOEXEC, 0, 0, 0, 0],
    )? as i32;
    let mode = [
        fd(context),
        SET_STRING,
        c"mode".as_ptr() as usize,
        c"0".as_ptr() as usize,
        0,
        0,
    ];
    let made = raw(nr::FSCONFIG, mode)
        .and_then(|_| raw(nr::FSCONFIG, [fd(context), CREATE, 0, 0, 0, 0]))
        .and_then(|_| {
            let how = (READ_ONLY_NOSUID_NODEV | NOEXEC) as usize;
            raw(nr::FSMOUNT, [fd(context), CLOEXEC, how, 0, 0, 0])
        });
    super::close(context);
    made.map(|number| number as i32)
}
