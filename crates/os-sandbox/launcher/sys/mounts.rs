//! The system calls that make namespaces, and mounts by descriptor, a part of `sys/`: clone(2),
//! unshare(2), pivot_root(2), open_tree(2), move_mount(2), mount_setattr(2), fsopen(2), openat2(2).
//! All are there from Linux 5.12.

use super::{
    AT_EMPTY_PATH, AT_FDCWD, CStr, O_CLOEXEC, O_NOFOLLOW, O_PATH, Result, SIGCHLD, done, fd, nr,
    raw, raw_i32,
};

pub const READ_ONLY: u64 = 1;
pub const NOSUID: u64 = 2;
pub const NODEV: u64 = 4;
pub const NOEXEC: u64 = 8;
/// For file systems without programs and devices.
pub const SAFE: u64 = NOSUID | NODEV | NOEXEC;
const AT_RECURSIVE: usize = 0x8000;

const NEWNS: usize = 0x0002_0000;
const NEWCGROUP: usize = 0x0200_0000;
const NEWUTS: usize = 0x0400_0000;
const NEWIPC: usize = 0x0800_0000;
const NEWUSER: usize = 0x1000_0000;
const NEWPID: usize = 0x2000_0000;
const NEWNET: usize = 0x4000_0000;

/// A user namespace of our own, in which we have every capability, and a mount namespace that
/// belongs to it. The process must have one thread.
pub fn new_namespaces() -> Result<()> {
    done(nr::UNSHARE, [NEWUSER | NEWNS])
}

/// `fork`, into new namespaces of every kind but time, which belong to a new user namespace; the
/// network is optional.
pub fn fork_into_namespaces(network: bool) -> Result<i32> {
    let network = if network { NEWNET } else { 0 };
    let namespaces = NEWUSER | NEWNS | NEWPID | NEWIPC | NEWUTS | network;
    let fork = |flags| raw(nr::CLONE, [flags | SIGCHLD as usize]);
    match fork(namespaces | NEWCGROUP) {
        // A kernel without control groups.
        Err(super::EINVAL) => fork(namespaces),
        other => other,
    }
    .map(|pid| pid as i32)
}

/// Effective user and group.
pub fn ids() -> (u32, u32) {
    // Neither call can fail.
    let id = |number| raw(number, []).unwrap_or(usize::MAX) as u32;
    (id(nr::GETEUID), id(nr::GETEGID))
}

/// Opens an absolute path seen from `root`, and follows no link on the way or at the end.
pub fn open_beneath(root: i32, path: CStr<'_>) -> Result<i32> {
    open_in(root, path.without_root())
}

/// Opens a relative path, and follows no link on the way or at the end.
pub fn open_in(directory: i32, path: CStr<'_>) -> Result<i32> {
    const NO_MAGICLINKS: u64 = 2;
    const NO_SYMLINKS: u64 = 4;
    const BENEATH: u64 = 8;
    // struct open_how: flags, mode, resolve.
    let how = [
        (O_PATH | O_NOFOLLOW | O_CLOEXEC) as u64,
        0,
        NO_MAGICLINKS | NO_SYMLINKS | BENEATH,
    ];
    raw_i32(
        nr::OPENAT2,
        [
            fd(directory),
            path.pointer(),
            how.as_ptr() as usize,
            core::mem::size_of_val(&how),
        ],
    )
}

/// A copy of the mounts at and below this place, attached nowhere.
pub fn copy_tree(place: i32) -> Result<i32> {
    open_tree(place, c"".as_ptr() as usize, AT_EMPTY_PATH)
}

/// Copies the mounts at and below a path, whose links are followed.
pub fn copy_tree_at(path: CStr<'_>) -> Result<i32> {
    open_tree(AT_FDCWD, path.pointer(), 0)
}

fn open_tree(directory: i32, path: usize, flags: usize) -> Result<i32> {
    const CLONE: usize = 1;
    let flags = flags | CLONE | AT_RECURSIVE | O_CLOEXEC as usize;
    raw_i32(nr::OPEN_TREE, [fd(directory), path, flags])
}

/// Read-only, without set-id bits and devices, all of the mounts at and below this one.
pub fn make_read_only(mount: i32) -> Result<()> {
    restrict(mount, READ_ONLY | NOSUID | NODEV)
}

/// Adds attributes to all of the mounts at and below this one.
pub fn restrict(mount: i32, set: u64) -> Result<()> {
    attributes(mount, AT_RECURSIVE, set, 0)
}

/// Read-only, without the mounts in it.
pub fn seal(mount: i32) -> Result<()> {
    attributes(mount, 0, READ_ONLY, 0)
}

/// No mount of anybody else appears at or below this one any more, and none of ours elsewhere.
pub fn make_private(mount: i32) -> Result<()> {
    const PRIVATE: u64 = 1 << 18;
    attributes(mount, AT_RECURSIVE, 0, PRIVATE)
}

fn attributes(mount: i32, flags: usize, set: u64, propagation: u64) -> Result<()> {
    // struct mount_attr: set, clear, propagation, user namespace.
    let attributes = [set, 0, propagation, 0];
    done(
        nr::MOUNT_SETATTR,
        [
            fd(mount),
            c"".as_ptr() as usize,
            AT_EMPTY_PATH | flags,
            attributes.as_ptr() as usize,
            core::mem::size_of_val(&attributes),
        ],
    )
}

/// Attaches a copied or new mount on top of a place; both by descriptor.
pub fn attach(mount: i32, place: i32) -> Result<()> {
    const BOTH_EMPTY_PATHS: usize = 0x04 | 0x40;
    let empty = c"".as_ptr() as usize;
    done(
        nr::MOVE_MOUNT,
        [fd(mount), empty, fd(place), empty, BOTH_EMPTY_PATHS],
    )
}

/// An empty directory that nobody can change, attached nowhere. With mode `0` nobody can list it.
pub fn empty_directory(mode: &core::ffi::CStr) -> Result<i32> {
    let how = READ_ONLY | SAFE;
    new_file_system(c"tmpfs", &[(c"mode", mode)], how)
}

/// A link, attached nowhere.
pub fn link(to: CStr<'_>) -> Result<i32> {
    let around = new_file_system(c"tmpfs", &[(c"mode", c"700")], SAFE)?;
    let name = CStr::new(b"link\0").ok_or(super::EINVAL)?;
    link_in(to, around, name)?;
    let link = open_in(around, name)?;
    let mount = copy_tree(link)?;
    super::close(link);
    super::close(around);
    restrict(mount, READ_ONLY | SAFE)?;
    Ok(mount)
}

/// A new file system with options, attached nowhere. An option with an empty value is a flag.
pub fn new_file_system(
    kind: &core::ffi::CStr,
    options: &[(&core::ffi::CStr, &core::ffi::CStr)],
    attributes: u64,
) -> Result<i32> {
    const SET_FLAG: usize = 0;
    const SET_STRING: usize = 1;
    const CREATE: usize = 6;
    const CLOEXEC: usize = 1;
    let context = raw(nr::FSOPEN, [kind.as_ptr() as usize, CLOEXEC])? as i32;
    let set = |(name, value): &(&core::ffi::CStr, &core::ffi::CStr)| {
        let (how, value) = match value.is_empty() {
            true => (SET_FLAG, 0),
            false => (SET_STRING, value.as_ptr() as usize),
        };
        let name = name.as_ptr() as usize;
        done(nr::FSCONFIG, [fd(context), how, name, value])
    };
    // Programs such as df(1) print the source of a mount.
    let made = set(&(c"source", kind))
        .and_then(|()| options.iter().try_for_each(set))
        .and_then(|()| raw(nr::FSCONFIG, [fd(context), CREATE]))
        .and_then(|_| {
            let how = attributes as usize;
            raw(nr::FSMOUNT, [fd(context), CLOEXEC, how])
        });
    super::close(context);
    made.map(|number| number as i32)
}

/// An overlay of three open directories, attached nowhere (overlayfs, Linux 5.11). Its attributes are
/// in the `user.` namespace, because those in `trusted.` need rights outside of this user namespace.
/// Nothing depends on inode numbers or indexes that outlive the mount.
pub fn overlay(lower: i32, upper: i32, work: i32) -> Result<i32> {
    let (mut lower_path, mut upper_path, mut work_path) = ([0; 32], [0; 32], [0; 32]);
    let options = [
        (c"lowerdir", path_of(lower, &mut lower_path)?),
        (c"upperdir", path_of(upper, &mut upper_path)?),
        (c"workdir", path_of(work, &mut work_path)?),
        (c"userxattr", c""),
        (c"xino", c"off"),
        (c"index", c"off"),
    ];
    new_file_system(c"overlay", &options, NOSUID | NODEV)
}

/// Returns "/proc/self/fd/5" for 5. The kernel follows it to the open directory, wherever that is.
fn path_of(number: i32, buffer: &mut [u8; 32]) -> Result<&core::ffi::CStr> {
    const DIRECTORY: &[u8] = b"/proc/self/fd/";
    let mut digits = [0; 10];
    let mut first = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let digits = &digits[first..];
    buffer[..DIRECTORY.len()].copy_from_slice(DIRECTORY);
    buffer[DIRECTORY.len()..][..digits.len()].copy_from_slice(digits);
    core::ffi::CStr::from_bytes_until_nul(buffer).map_err(|_| super::EINVAL)
}

/// Makes this directory, the root of a mount, the root of the mount namespace and of this process,
/// and takes the old root out of reach.
pub fn change_root(root: i32) -> Result<()> {
    const DETACH: usize = 2;
    let here = c".".as_ptr() as usize;
    raw(nr::FCHDIR, [fd(root)])?;
    // The old root is then mounted over the new one (pivot_root(2), `pivot_root(".", ".")`).
    raw(nr::PIVOT_ROOT, [here, here])?;
    raw(nr::UMOUNT2, [here, DETACH])?;
    done(nr::CHDIR, [c"/".as_ptr() as usize])
}

/// Opens or makes a file in a directory.
pub fn create_in(directory: i32, name: CStr<'_>, flags: i32, mode: u32) -> Result<i32> {
    let flags = flags | O_CLOEXEC | O_NOFOLLOW;
    let arguments = [
        fd(directory),
        name.pointer(),
        fd(flags),
        mode as usize,
        0,
        0,
    ];
    raw_i32(nr::OPENAT, arguments)
}

pub fn make_directory_in(directory: i32, name: CStr<'_>, mode: u32) -> Result<()> {
    let arguments = [fd(directory), name.pointer(), mode as usize, 0, 0, 0];
    done(nr::MKDIRAT, arguments)
}

pub fn link_in(target: CStr<'_>, directory: i32, name: CStr<'_>) -> Result<()> {
    let arguments = [target.pointer(), fd(directory), name.pointer(), 0, 0, 0];
    done(nr::SYMLINKAT, arguments)
}

/// Sets the file mode creation mask, and returns the previous one.
pub fn set_mask(mask: usize) -> usize {
    // It cannot fail.
    raw(nr::UMASK, [mask]).unwrap_or(mask)
}

pub fn set_host_name(name: &[u8]) -> Result<()> {
    let name = [name.as_ptr() as usize, name.len(), 0, 0, 0, 0];
    done(nr::SETHOSTNAME, name)
}
