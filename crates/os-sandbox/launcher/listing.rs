//! Directories of numbers: processes in `/proc`, descriptors in `/proc/self/fd`.

use crate::sys;

/// Room for some of a directory's entries.
const BUFFER_BYTES: usize = 1024;

/// Closes every descriptor from `first` on. Before Linux 5.9, and under filters that do not know
/// close_range(2), one by one as the kernel lists them; where it does not, that is an error.
pub fn close_from(first: u32) -> sys::Result<()> {
    match sys::close_range_from(first) {
        Err(sys::ENOSYS | sys::EPERM) => close_listed(first as usize),
        other => other,
    }
}

fn close_listed(first: usize) -> sys::Result<()> {
    let path = sys::CStr::new(b"/proc/self/fd\0").ok_or(sys::EINVAL)?;
    let list = sys::open(path, sys::O_RDONLY | sys::O_DIRECTORY | sys::O_CLOEXEC, 0)?;
    let mut buffer = [0u8; BUFFER_BYTES];
    // A position in this directory is a descriptor's number, so closing some skips none.
    let listed = each_number(list, &mut buffer, |number| {
        if number >= first && number != list as usize {
            sys::close(number as i32);
        }
    });
    sys::close(list);
    listed
}

/// Every name of an open directory that is a number.
pub fn each_number(
    directory: i32,
    buffer: &mut [u8],
    mut see: impl FnMut(usize),
) -> sys::Result<()> {
    /// Inode, offset, length of the entry, type; then the name, ended by NUL.
    const NAME: usize = 19;
    loop {
        let bytes = sys::entries(directory, buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..bytes];
        while let Some(&[low, high]) = rest.get(16..18) {
            let len = usize::from(u16::from_ne_bytes([low, high]));
            let Some((entry, more)) = rest.split_at_checked(len).filter(|_| len > NAME) else {
                break;
            };
            let name = &entry[NAME..];
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
            if let Some(number) = number(&name[..end]) {
                see(number);
            }
            rest = more;
        }
    }
}

pub fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0usize, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| usize::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}
