//! Raw system calls for the probe: some of what must be refused has no safe wrapper anywhere.

use nix::libc;

/// Makes a call with plain numbers for arguments, or the address of `data` where an argument is
/// [`DATA`].
pub(crate) fn call(number: i64, args: [u64; 6], data: &mut [u8]) -> Result<i64, i32> {
    let pointer = data.as_mut_ptr() as u64;
    let a = args.map(|arg| if arg == DATA { pointer } else { arg });
    // SAFETY: every call that the tests make either takes numbers only, or reads or writes at most
    // `data`, which is larger than any structure concerned and outlives the call. Calls are made
    // in a single-threaded probe that exits right after.
    let out = unsafe { libc::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if out == -1 {
        Err(nix::errno::Errno::last_raw())
    } else {
        Ok(out)
    }
}

/// Stands for the address of the probe's buffer.
pub(crate) const DATA: u64 = u64::MAX - 1;
