//! Counts attempts to reach other hosts in a network namespace without a route to any. The kernel
//! counts them anyway (`OutNoRoutes`, proc_net_snmp(5)): connects and datagrams, those of a resolver
//! too. The count is of the whole namespace, so it means the tree only where that is its own.

use crate::listing;
use crate::sys;

/// Room for one of the two files.
const TEXT_BYTES: usize = 16 << 10;

/// Returns how many there were; 0 also where the kernel does not say.
pub fn refused() -> u32 {
    let Ok(text) = sys::memory(TEXT_BYTES) else {
        return 0;
    };
    let four = version_4(read(b"/proc/self/net/snmp\0", text));
    let six = version_6(read(b"/proc/self/net/snmp6\0", text));
    u32::try_from(four.saturating_add(six)).unwrap_or(u32::MAX)
}

fn read<'a>(path: &[u8], text: &'a mut [u8]) -> &'a [u8] {
    let opened = sys::CStr::new(path)
        .ok_or(sys::EINVAL)
        .and_then(|path| sys::open(path, sys::O_RDONLY | sys::O_CLOEXEC, 0));
    let Ok(open) = opened else {
        return &[];
    };
    let mut have = 0;
    while have < text.len()
        && let Ok(bytes) = sys::read(open, &mut text[have..])
        && bytes > 0
    {
        have += bytes;
    }
    sys::close(open);
    &text[..have]
}

/// A line of names, and below it one of numbers.
fn version_4(text: &[u8]) -> usize {
    let mut lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| line.starts_with(b"Ip: "));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else {
        return 0;
    };
    let mut columns = words(names).zip(words(numbers));
    columns
        .find(|(name, _)| *name == b"OutNoRoutes")
        .and_then(|(_, number)| listing::number(number))
        .unwrap_or(0)
}

/// A name and a number on each line.
fn version_6(text: &[u8]) -> usize {
    text.split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Ip6OutNoRoutes"))
        .and_then(|rest| words(rest).next())
        .and_then(listing::number)
        .unwrap_or(0)
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(*byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty())
}
