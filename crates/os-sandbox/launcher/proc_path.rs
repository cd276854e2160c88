//! Paths of `/proc`, put together without an allocator.

use crate::sys::{self, CStr};

/// Room for the longest path and its NUL.
const MAX_BYTES: usize = 96;

/// A path in `/proc`.
#[derive(Clone, Copy)]
pub struct ProcPath {
    bytes: [u8; MAX_BYTES],
    len: usize,
}

impl ProcPath {
    /// `/proc` itself.
    pub fn new() -> ProcPath {
        let (bytes, len) = ([0; MAX_BYTES], 0);
        ProcPath { bytes, len }.text(b"/proc")
    }

    /// The directory of a process or thread.
    pub fn of(id: i32) -> ProcPath {
        ProcPath::new().text(b"/").number(id)
    }

    /// The link of one of our descriptors.
    pub fn descriptor(number: i32) -> ProcPath {
        ProcPath::new().text(b"/self/fd/").number(number)
    }

    /// Appends a text. A part that does not fit is left out, and the path is then one that does not exist.
    pub fn text(mut self, more: &[u8]) -> ProcPath {
        for byte in more {
            if self.len + 1 < self.bytes.len() {
                self.bytes[self.len] = *byte;
                self.len += 1;
            }
        }
        self
    }

    pub fn number(self, number: i32) -> ProcPath {
        let mut digits = [0u8; 10];
        let mut rest = number.unsigned_abs();
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 || at == 0 {
                return self.text(&digits[at..]);
            }
        }
    }

    pub fn c_str(&self) -> sys::Result<CStr<'_>> {
        CStr::new(&self.bytes[..=self.len]).ok_or(sys::EINVAL)
    }

    /// Opens it for reading, and as the flags say.
    pub fn open(&self, flags: i32) -> sys::Result<i32> {
        sys::open(self.c_str()?, sys::O_RDONLY | sys::O_CLOEXEC | flags, 0)
    }
}
