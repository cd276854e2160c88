//! Room on the disk beyond the end of a file.

use std::fs::File;
use std::io;

/// Allocates `len` bytes from `offset` and leaves the file's size as it is. A file system that cannot
/// allocate gives no room, and that is no error.
///
/// # Errors
///
/// The disk is full, or the user's quota is used up.
#[cfg(target_os = "linux")]
pub(super) fn allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    use rustix::process::{Resource, getrlimit};
    // Beyond the limit the call would be answered with SIGXFSZ.
    let most = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    let len = len.min(most.saturating_sub(offset));
    if len == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, offset, len) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT)) => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// fcntl(2) with `F_PREALLOCATE` keeps no promise beyond the end that is known here.
#[cfg(not(target_os = "linux"))]
pub(super) fn allocate(_file: &File, _offset: u64, _len: u64) -> io::Result<()> {
    Ok(())
}
