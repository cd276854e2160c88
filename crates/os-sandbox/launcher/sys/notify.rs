//! System calls that answer for a filter, and act on another process's behalf.
//! All of them go through `raw`; the unsafe code is there.
//!
//! <https://man7.org/linux/man-pages/man2/seccomp_unotify.2.html>

use super::{
    AT_FDCWD, CStr, EFAULT, EINTR, EINVAL, IoVec, O_CLOEXEC, Result, close, done, fd, nr, raw, read,
};
use crate::proc_path::ProcPath;

/// An open descriptor, closed when it goes out of scope.
pub struct OwnedDescriptor(pub i32);

impl Drop for OwnedDescriptor {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// `PATH_MAX`, with the NUL.
pub const MAX_PATH_BYTES: usize = 4096;
/// Largest address that the kernel takes (`struct sockaddr_storage`).
pub const MAX_ADDRESS_BYTES: usize = 128;

/// A call that waits for an answer.
#[derive(Clone, Copy)]
pub struct Request {
    pub id: u64,
    /// The thread that made the call, as we number it.
    pub thread: i32,
    pub number: u32,
    pub args: [u64; 6],
}

/// The next call. `ENOENT` if whoever made it is gone already.
pub fn receive(listener: i32) -> Result<Request> {
    const RECEIVE: usize = 0xc050_2100;
    // struct seccomp_notif: id, pid and flags, then struct seccomp_data: number and architecture,
    // instruction pointer, arguments. The kernel wants it zeroed.
    let mut words = [0u64; 10];
    raw(
        nr::IOCTL,
        [fd(listener), RECEIVE, words.as_mut_ptr() as usize],
    )?;
    let mut args = [0u64; 6];
    args.copy_from_slice(&words[4..10]);
    Ok(Request {
        id: words[0],
        thread: words[1] as u32 as i32,
        number: words[2] as u32,
        args,
    })
}

/// Lets the call return 0 or this error. `ENOENT` if nobody waits for it any more.
pub fn answer(listener: i32, id: u64, result: Result<()>) -> Result<()> {
    answer_value(listener, id, result.map(|()| 0))
}

/// Lets the call return this value or error. `ENOENT` if nobody waits for it any more.
pub fn answer_value(listener: i32, id: u64, result: Result<u32>) -> Result<()> {
    let error = result.err().map_or(0, |errno| -errno);
    let value = result.unwrap_or(0);
    respond(listener, id, u64::from(value), u64::from(error as u32))
}

/// Lets the kernel go on with the call (Linux 5.5). Only for calls that are observed: the kernel
/// looks again at memory that could have changed.
pub fn go_on(listener: i32, id: u64) -> Result<()> {
    const CONTINUE: u64 = 1;
    respond(listener, id, 0, CONTINUE << 32)
}

/// `last`: the error, and the flags above it.
fn respond(listener: i32, id: u64, value: u64, last: u64) -> Result<()> {
    const SEND: usize = 0xc018_2101;
    let response = [id, value, last];
    loop {
        let sent = raw(nr::IOCTL, [fd(listener), SEND, response.as_ptr() as usize]);
        if sent != Err(EINTR) {
            return sent.map(drop);
        }
    }
}

/// Returns `true` if the call still waits, and so whether its thread number still means that
/// thread.
pub fn waits(listener: i32, id: u64) -> bool {
    const ID_VALID: usize = 0x4008_2102;
    raw(nr::IOCTL, [fd(listener), ID_VALID, &raw const id as usize]).is_ok()
}

/// Has the kernel hand the processor over directly, there and back (Linux 6.6): a quarter of the
/// time. Older kernels refuse, which changes nothing else.
pub fn wake_in_step(listener: i32) {
    const SET_FLAGS: usize = 0x4008_2104;
    const SYNC_WAKE_UP: usize = 1;
    let _ = raw(nr::IOCTL, [fd(listener), SET_FLAGS, SYNC_WAKE_UP]);
}

/// A descriptor for a thread. Before Linux 6.9 there are only those for whole processes.
pub fn thread(id: i32) -> Result<OwnedDescriptor> {
    const PIDFD_THREAD: usize = 0o200;
    let opened = match raw(nr::PIDFD_OPEN, [fd(id), PIDFD_THREAD]) {
        Err(EINVAL) => raw(nr::PIDFD_OPEN, [fd(process_of(id)?)]),
        other => other,
    };
    opened.map(|number| OwnedDescriptor(number as i32))
}

/// Another process's open file, under a number of ours.
pub fn take_descriptor(of: &OwnedDescriptor, number: i32) -> Result<OwnedDescriptor> {
    raw(nr::PIDFD_GETFD, [fd(of.0), fd(number)]).map(|number| OwnedDescriptor(number as i32))
}

/// Copies all of `buffer.len()` bytes out of a thread's memory.
pub fn read_memory(thread: i32, address: u64, buffer: &mut [u8]) -> Result<()> {
    if buffer.is_empty() {
        return Ok(());
    }
    let ours = IoVec {
        base: buffer.as_mut_ptr() as usize,
        len: buffer.len(),
    };
    let theirs = IoVec {
        base: usize::try_from(address).map_err(|_| EFAULT)?,
        len: buffer.len(),
    };
    let got = raw(
        nr::PROCESS_VM_READV,
        [
            fd(thread),
            &raw const ours as usize,
            1,
            &raw const theirs as usize,
            1,
        ],
    )?;
    if got == buffer.len() {
        Ok(())
    } else {
        Err(EFAULT)
    }
}

/// A path of a thread's memory. Read page by page: behind its end there may be nothing.
pub fn read_path(thread: i32, address: u64, buffer: &mut [u8]) -> Result<CStr<'_>> {
    const PAGE: usize = 4096;
    let mut have = 0;
    while have < buffer.len() {
        let at = address.checked_add(have as u64).ok_or(EFAULT)?;
        let page = PAGE - at as usize % PAGE;
        let end = buffer.len().min(have + page);
        read_memory(thread, at, &mut buffer[have..end])?;
        if let Some(nul) = buffer[have..end].iter().position(|byte| *byte == 0) {
            return CStr::new(&buffer[..=have + nul]).ok_or(EINVAL);
        }
        have = end;
    }
    Err(super::ENAMETOOLONG)
}

/// A number that the kernel knows about a socket (`SOL_SOCKET`).
pub fn option(socket: i32, name: i32) -> Result<u64> {
    const SOL_SOCKET: i32 = 1;
    let mut value = 0u64;
    let mut bytes: u32 = 8;
    raw(
        nr::GETSOCKOPT,
        [
            fd(socket),
            fd(SOL_SOCKET),
            fd(name),
            &raw mut value as usize,
            &raw mut bytes as usize,
        ],
    )?;
    Ok(value)
}

/// A connect that gives up where another one would begin to wait: EAGAIN, after a clock tick at
/// most. The wait is a property of the socket, put back before anybody else knows that it is
/// connected.
pub fn connect_without_waiting(socket: i32, address: &[u8]) -> Result<()> {
    const SOL_SOCKET: i32 = 1;
    const SO_SNDTIMEO: i32 = 21;
    // struct timeval: seconds and microseconds.
    const SHORTEST: [u64; 2] = [0, 1];
    let mut before = [0u64; 2];
    let mut bytes: u32 = 16;
    let at = [fd(socket), fd(SOL_SOCKET), fd(SO_SNDTIMEO)];
    raw(
        nr::GETSOCKOPT,
        [
            at[0],
            at[1],
            at[2],
            before.as_mut_ptr() as usize,
            &raw mut bytes as usize,
        ],
    )?;
    let set = |time: &[u64; 2]| {
        let time = time.as_ptr() as usize;
        done(nr::SETSOCKOPT, [at[0], at[1], at[2], time, 16])
    };
    set(&SHORTEST)?;
    let connected = connect(socket, address);
    set(&before)?;
    connected
}

/// Whether calls on it return at once.
pub fn never_blocks(number: i32) -> Result<bool> {
    const O_NONBLOCK: usize = 0o4000;
    flags_of(number).map(|flags| flags & O_NONBLOCK != 0)
}

pub fn connect(socket: i32, address: &[u8]) -> Result<()> {
    done(
        nr::CONNECT,
        [fd(socket), address.as_ptr() as usize, address.len()],
    )
}

pub const RESOLVE_NO_MAGICLINKS: u64 = 2;
pub const RESOLVE_NO_SYMLINKS: u64 = 4;
pub const RESOLVE_BENEATH: u64 = 8;
pub const RESOLVE_IN_ROOT: u64 = 16;

/// A place, not opened for anything, through no link at all.
pub fn place(path: CStr<'_>) -> Result<OwnedDescriptor> {
    // Not with `nofollow`, which would open a link at the end instead of refusing it.
    open_place(AT_FDCWD, path, false, RESOLVE_NO_SYMLINKS)
}

/// A place, not opened for anything; with `nofollow` a link at the end is the place.
pub fn open_place(
    start: i32,
    path: CStr<'_>,
    nofollow: bool,
    resolve: u64,
) -> Result<OwnedDescriptor> {
    let nofollow = if nofollow { super::O_NOFOLLOW } else { 0 };
    let flags = (super::O_PATH | O_CLOEXEC | nofollow) as u32;
    let how = [u64::from(flags), 0, resolve];
    raw(
        nr::OPENAT2,
        [
            fd(start),
            path.pointer(),
            how.as_ptr() as usize,
            core::mem::size_of_val(&how),
        ],
    )
    .map(|number| OwnedDescriptor(number as i32))
}

/// Returns the present path of an open file, NUL-terminated.
pub fn name_of(number: i32, buffer: &mut [u8]) -> Result<&[u8]> {
    let bytes = read_link(ProcPath::descriptor(number).c_str()?, buffer)?.len();
    buffer[bytes] = 0;
    Ok(&buffer[..=bytes])
}

/// Returns the text of a link, without NUL, for which the buffer has room.
pub fn read_link<'a>(path: CStr<'_>, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
    read_link_at(AT_FDCWD, path, buffer)
}

/// Returns the text of a link that is open.
pub fn read_open_link(link: i32, buffer: &mut [u8]) -> Result<&[u8]> {
    let itself = CStr::new(b"\0").ok_or(EINVAL)?;
    read_link_at(link, itself, buffer)
}

fn read_link_at<'a>(start: i32, path: CStr<'_>, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
    let room = buffer.len() - 1;
    let bytes = raw(
        nr::READLINKAT,
        [
            fd(start),
            path.pointer(),
            buffer.as_mut_ptr() as usize,
            room,
        ],
    )?;
    if bytes >= room {
        return Err(super::ENAMETOOLONG);
    }
    Ok(&buffer[..bytes])
}

/// Returns `true` if a descriptor was opened with `O_PATH`.
pub fn is_path_only(number: i32) -> Result<bool> {
    flags_of(number).map(|flags| flags & super::O_PATH as usize != 0)
}

fn flags_of(number: i32) -> Result<usize> {
    const F_GETFL: usize = 3;
    raw(nr::FCNTL, [fd(number), F_GETFL])
}

/// Returns `true` if a signal waits for a thread that does not block it. Not known is no.
pub fn has_signal(thread: i32) -> bool {
    let mut buffer = [0u8; 4096];
    let Ok(status) = status(thread, &mut buffer) else {
        return false;
    };
    let mask = |name: &[u8]| field(status, name).map_or(0, |text| parse(text, 16));
    (mask(b"SigPnd:\t") | mask(b"ShdPnd:\t")) & !mask(b"SigBlk:\t") != 0
}

/// The process that a thread belongs to.
fn process_of(thread: i32) -> Result<i32> {
    let mut buffer = [0u8; 4096];
    let text = field(status(thread, &mut buffer)?, b"Tgid:\t").ok_or(EINVAL)?;
    i32::try_from(parse(text, 10)).map_err(|_| EINVAL)
}

/// What /proc tells about a thread, as one text.
fn status(thread: i32, buffer: &mut [u8]) -> Result<&[u8]> {
    let file = OwnedDescriptor(ProcPath::of(thread).text(b"/status").open(0)?);
    let got = read(file.0, buffer)?;
    Ok(&buffer[..got])
}

fn field<'a>(status: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    status
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(name))
}

/// Digits up to the first other byte.
fn parse(text: &[u8], base: u32) -> u64 {
    text.iter()
        .map_while(|byte| (*byte as char).to_digit(base))
        .fold(0u64, |value, digit| {
            value.wrapping_mul(base.into()).wrapping_add(digit.into())
        })
}

/// A short text in memory of the caller's; what does not fit is left out.
pub struct TextBuffer<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> TextBuffer<'a> {
    pub fn new(bytes: &'a mut [u8]) -> Self {
        TextBuffer { bytes, len: 0 }
    }

    /// Goes on after the first bytes of the memory.
    pub fn after(bytes: &'a mut [u8], len: usize) -> Self {
        TextBuffer { bytes, len }
    }

    pub fn push(&mut self, more: &[u8]) {
        for byte in more {
            if let Some(slot) = self.bytes.get_mut(self.len) {
                *slot = *byte;
                self.len += 1;
            }
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub fn c_str(&self) -> Option<CStr<'_>> {
        CStr::new(self.as_bytes())
    }

    pub fn into_c_str(self) -> Option<CStr<'a>> {
        CStr::new(&self.bytes[..self.len])
    }
}
