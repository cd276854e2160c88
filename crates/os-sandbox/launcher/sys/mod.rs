//! System calls, and nothing else: the launcher's only unsafe code, apart from the five functions
//! that the compiler itself calls (`memory.rs`).
//!
//! There is no libc here, so nothing allocates, locks or keeps hidden state. Every wrapper takes
//! Rust references where the kernel reads or writes memory, so lengths and lifetimes are the
//! compiler's business; the safety argument is then only "this call touches nothing else".

use core::arch::{asm, global_asm};

pub mod attempts;
mod memory;
pub mod mounts;
pub mod network;
pub mod notify;
pub mod nr;
pub mod terminal;

// The kernel starts a static program with nothing set up but the stack pointer; see "Process
// Initialization" of the psABI. `launcher_start` gets that pointer and never returns.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    start = sym crate::launcher_start,
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, #0",
    "mov x30, #0",
    "mov x0, sp",
    "bl {start}",
    "brk #1",
    start = sym crate::launcher_start,
);

pub type Errno = i32;
pub type Result<T> = core::result::Result<T, Errno>;

pub const EPERM: Errno = 1;
pub const ENOENT: Errno = 2;
pub const EINTR: Errno = 4;
pub const EBADF: Errno = 9;
pub const ECHILD: Errno = 10;
pub const EAGAIN: Errno = 11;
pub const EACCES: Errno = 13;
pub const EFAULT: Errno = 14;
pub const EBUSY: Errno = 16;
pub const EEXIST: Errno = 17;
pub const EXDEV: Errno = 18;
pub const ENOTDIR: Errno = 20;
pub const EINVAL: Errno = 22;
pub const EFBIG: Errno = 27;
pub const ENAMETOOLONG: Errno = 36;
pub const ENOSYS: Errno = 38;
pub const ELOOP: Errno = 40;
pub const EPROTO: Errno = 71;
pub const EAFNOSUPPORT: Errno = 97;
pub const ENETUNREACH: Errno = 101;
pub const EINPROGRESS: Errno = 115;
pub const ETIMEDOUT: Errno = 110;
pub const ESTALE: Errno = 116;

pub const SIGKILL: i32 = 9;
pub const SIGTERM: i32 = 15;
pub const SIGCHLD: i32 = 17;
pub const SIGHUP: i32 = 1;
pub const SIGINT: i32 = 2;
pub const SIGQUIT: i32 = 3;
pub const SIGCONT: i32 = 18;
pub const LAST_SIGNAL: i32 = 64;

pub const O_RDONLY: i32 = 0;
pub const O_WRONLY: i32 = 1;
pub const O_RDWR: i32 = 2;
pub const O_CREAT: i32 = 0o100;
pub const O_EXCL: i32 = 0o200;
pub const O_NOCTTY: i32 = 0o400;
pub const O_NONBLOCK: i32 = 0o4000;
pub const O_CLOEXEC: i32 = 0o2_000_000;
pub const O_PATH: i32 = 0o10_000_000;
#[cfg(target_arch = "x86_64")]
pub const O_NOFOLLOW: i32 = 0o400_000;
#[cfg(target_arch = "x86_64")]
pub const O_DIRECTORY: i32 = 0o200_000;
#[cfg(target_arch = "aarch64")]
pub const O_DIRECTORY: i32 = 0o40_000;
pub const O_TMPFILE: i32 = 0o20_000_000 | O_DIRECTORY;
#[cfg(target_arch = "aarch64")]
pub const O_NOFOLLOW: i32 = 0o100_000;

pub const POLLIN: i16 = 1;
pub const POLLPRI: i16 = 2;
pub const POLLERR: i16 = 8;
pub const POLLHUP: i16 = 16;
pub const POLLRDHUP: i16 = 0x2000;

pub const AT_FDCWD: i32 = -100;
const AT_EMPTY_PATH: usize = 0x1000;

/// A string that ends in NUL, checked where it was made.
#[derive(Clone, Copy)]
pub struct CStr<'a>(&'a [u8]);

impl<'a> CStr<'a> {
    /// `bytes` with its NUL as the last byte and nowhere else.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        match bytes.iter().position(|byte| *byte == 0) {
            Some(end) if end + 1 == bytes.len() => Some(CStr(bytes)),
            _ => None,
        }
    }

    /// Without the NUL.
    pub fn bytes(self) -> &'a [u8] {
        &self.0[..self.0.len() - 1]
    }

    /// The first byte, and the rest. `None` if it is empty.
    pub fn split_first(self) -> Option<(u8, Self)> {
        let (first, rest) = self.0.split_first()?;
        (!rest.is_empty()).then_some((*first, CStr(rest)))
    }

    pub fn pointer(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// An absolute path, as seen from the root; the root itself is then empty.
    pub fn without_root(self) -> Self {
        CStr(self.0.strip_prefix(b"/").unwrap_or(self.0))
    }

    /// The path before the last name, and that name.
    pub fn split_name(self) -> (&'a [u8], Self) {
        match self.bytes().iter().rposition(|byte| *byte == b'/') {
            Some(end) => (&self.0[..end], CStr(&self.0[end + 1..])),
            None => (b"", self),
        }
    }

    /// The decimal number that it begins with.
    pub fn number(self) -> u64 {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0u64, |number, digit| {
            number
                .wrapping_mul(10)
                .wrapping_add(u64::from(digit - b'0'))
        })
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct PollFd {
    pub fd: i32,
    pub events: i16,
    pub revents: i16,
}

impl PollFd {
    /// Waits for these events; poll ignores a negative descriptor.
    pub fn new(fd: i32, events: i16) -> PollFd {
        PollFd {
            fd,
            events,
            revents: 0,
        }
    }
}

#[repr(C)]
struct IoVec {
    base: usize,
    len: usize,
}

#[repr(C)]
struct MsgHdr {
    name: usize,
    name_len: u32,
    pad: u32,
    iov: usize,
    iov_len: usize,
    control: usize,
    control_len: usize,
    flags: i32,
    pad2: i32,
}

impl MsgHdr {
    /// Around one buffer and room for control data, which both must outlive it.
    fn new(iov: &mut IoVec, control: &mut [u64]) -> Self {
        MsgHdr {
            name: 0,
            name_len: 0,
            pad: 0,
            iov: core::ptr::from_mut(iov) as usize,
            iov_len: 1,
            control: control.as_mut_ptr() as usize,
            control_len: core::mem::size_of_val(control),
            flags: 0,
            pad2: 0,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn system_call(number: usize, a: [usize; 6]) -> Result<usize> {
    let out: isize;
    // SAFETY: the `syscall` instruction clobbers rcx and r11 and returns in rax; the kernel reads
    // and writes only memory that the arguments point to, which each wrapper below owns or
    // borrows for the length it passes. No wrapper hands out memory that the call unmaps.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => out,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result(out)
}

#[cfg(target_arch = "aarch64")]
fn system_call(number: usize, a: [usize; 6]) -> Result<usize> {
    let out: isize;
    // SAFETY: `svc 0` takes the number in x8 and arguments in x0..x5, returns in x0 and preserves
    // every other register; memory as argued for x86_64.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a[0] as isize => out,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    result(out)
}

/// Makes a system call with its arguments; those that are not given are zero.
fn raw<const N: usize>(number: usize, arguments: [usize; N]) -> Result<usize> {
    let mut all = [0; 6];
    all.iter_mut()
        .zip(arguments)
        .for_each(|(slot, argument)| *slot = argument);
    system_call(number, all)
}

/// As [`raw`], for a call whose result says no more than that it succeeded.
fn done<const N: usize>(number: usize, arguments: [usize; N]) -> Result<()> {
    raw(number, arguments).map(drop)
}

/// As [`raw`], for a call that returns a descriptor or a process.
fn raw_i32<const N: usize>(number: usize, arguments: [usize; N]) -> Result<i32> {
    raw(number, arguments).map(|value| value as i32)
}

fn result(out: isize) -> Result<usize> {
    if (-4095..0).contains(&out) {
        Err(-out as Errno)
    } else {
        Ok(out as usize)
    }
}

fn fd(number: i32) -> usize {
    number as isize as usize
}

/// The stack that the kernel starts a program with: the count of the arguments, a pointer to each of
/// them, and a null pointer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct StartStack(*const usize);

impl StartStack {
    /// Returns the argument after the program's name; `None` without one, and if it is longer than
    /// `most` bytes.
    pub fn argument(self, most: usize) -> Option<CStr<'static>> {
        // SAFETY: `_start` passes the stack pointer of the start. The kernel wrote the count and the
        // pointers there, and strings that end in NUL; all of them stay until the next exec.
        unsafe {
            let text = match *self.0 {
                0 | 1 => return None,
                _ => *self.0.add(2) as *const u8,
            };
            let length = (0..=most).find(|at| *text.add(*at) == 0)?;
            CStr::new(core::slice::from_raw_parts(text, length + 1))
        }
    }
}

pub fn exit(code: i32) -> ! {
    loop {
        let _ = raw(nr::EXIT_GROUP, [fd(code)]);
    }
}

pub fn getpid() -> i32 {
    raw(nr::GETPID, []).unwrap_or(0) as i32
}

pub fn getppid() -> i32 {
    raw(nr::GETPPID, []).unwrap_or(0) as i32
}

pub fn setsid() -> Result<()> {
    done(nr::SETSID, [])
}

pub fn kill(pid: i32, signal: i32) -> Result<()> {
    done(nr::KILL, [fd(pid), fd(signal)])
}

/// `fork`, by clone: the launcher has one thread and no state that a copy could confuse.
pub fn fork() -> Result<i32> {
    raw_i32(nr::CLONE, [SIGCHLD as usize])
}

/// Waits for a child that ended; `None` if none has (with `block` false). A child that asked its
/// parent to trace it (`PTRACE_TRACEME`) stops at its first signal: it is let go, and the signal
/// goes on to it.
pub fn wait_any(block: bool) -> Result<Option<(i32, i32)>> {
    wait(if block { 0 } else { NO_HANG })
}

const NO_HANG: usize = 1;
const UNTRACED: usize = 2;
const STOPPED: i32 = 0x7f;

/// Looks for a child that ended or was stopped, without waiting.
pub fn wait_any_or_stop() -> Result<Option<(i32, i32)>> {
    wait(NO_HANG | UNTRACED)
}

/// Returns the signal by which a child was stopped, if its status says so.
pub fn stop_signal(status: i32) -> Option<i32> {
    (status & 0xff == STOPPED).then_some(status >> 8 & 0xff)
}

fn wait(options: usize) -> Result<Option<(i32, i32)>> {
    loop {
        let mut status: i32 = 0;
        let pid = raw(nr::WAIT4, [fd(-1), &raw mut status as usize, options])? as i32;
        if pid <= 0 {
            return Ok(None);
        }
        match stop_signal(status) {
            Some(signal) if let_go(pid, signal) || options & UNTRACED == 0 => {}
            _ => return Ok(Some((pid, status))),
        }
    }
}

/// Stops tracing a stopped process, which gets the signal that it stopped at. Returns `false` if it
/// was not traced, or has been ended meanwhile.
fn let_go(pid: i32, signal: i32) -> bool {
    const PTRACE_DETACH: usize = 17;
    const SIGTRAP: i32 = 5;
    // The kernel sends it after an exec, to those that are traced only.
    let signal = if signal == SIGTRAP { 0 } else { signal };
    raw(nr::PTRACE, [PTRACE_DETACH, fd(pid), 0, fd(signal)]).is_ok()
}

pub fn close(number: i32) {
    let _ = raw(nr::CLOSE, [fd(number)]);
}

/// Closes every descriptor from `first` on, if the kernel can; see listing.rs.
pub fn close_range_from(first: u32) -> Result<()> {
    done(nr::CLOSE_RANGE, [first as usize, u32::MAX as usize])
}

pub fn dup_to(from: i32, to: i32, cloexec: bool) -> Result<()> {
    let flags = if cloexec { O_CLOEXEC } else { 0 };
    done(nr::DUP3, [fd(from), fd(to), fd(flags)])
}

/// A close-on-exec copy with a number of at least `lowest`.
pub fn dup_above(from: i32, lowest: i32) -> Result<i32> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    raw_i32(nr::FCNTL, [fd(from), F_DUPFD_CLOEXEC, fd(lowest)])
}

pub fn is_open(number: i32) -> bool {
    const F_GETFD: usize = 1;
    raw(nr::FCNTL, [fd(number), F_GETFD]).is_ok()
}

pub fn pipe() -> Result<[i32; 2]> {
    let mut ends = [0i32; 2];
    raw(nr::PIPE2, [&raw mut ends as usize, fd(O_CLOEXEC)])?;
    Ok(ends)
}

pub fn read(number: i32, buffer: &mut [u8]) -> Result<usize> {
    loop {
        let got = raw(
            nr::READ,
            [fd(number), buffer.as_mut_ptr() as usize, buffer.len()],
        );
        if got != Err(EINTR) {
            return got;
        }
    }
}

pub fn write(number: i32, buffer: &[u8]) -> Result<usize> {
    loop {
        let got = raw(
            nr::WRITE,
            [fd(number), buffer.as_ptr() as usize, buffer.len()],
        );
        if got != Err(EINTR) {
            return got;
        }
    }
}

pub fn open(path: CStr<'_>, flags: i32, mode: u32) -> Result<i32> {
    raw_i32(
        nr::OPENAT,
        [fd(AT_FDCWD), path.pointer(), fd(flags), mode as usize],
    )
}

/// Makes a link at `path`.
pub fn link_to(target: CStr<'_>, path: CStr<'_>) -> Result<()> {
    done(
        nr::SYMLINKAT,
        [target.pointer(), fd(AT_FDCWD), path.pointer()],
    )
}

/// The next entries of an open directory, as many as fit: `struct linux_dirent64` one after the
/// other. 0 at the end.
pub fn entries(directory: i32, buffer: &mut [u8]) -> Result<usize> {
    raw(
        nr::GETDENTS64,
        [fd(directory), buffer.as_mut_ptr() as usize, buffer.len()],
    )
}

/// Bytes used in a file system in memory; `None` if it is none.
pub fn memory_used(path: CStr<'_>) -> Result<Option<u64>> {
    const TMPFS: u64 = 0x0102_1994;
    /// What the kernel keeps for an empty file, more or less.
    const FILE_BYTES: u64 = 1024;
    // struct statfs: type, block size, blocks, free blocks, those for others than root, files,
    // free files, and more; 120 bytes.
    let mut about = [0u64; 15];
    let to = about.as_mut_ptr() as usize;
    raw(nr::STATFS, [path.pointer(), to])?;
    let [
        kind,
        block_bytes,
        blocks,
        free_blocks,
        _,
        files,
        free_files,
        ..,
    ] = about;
    let content = blocks
        .saturating_sub(free_blocks)
        .saturating_mul(block_bytes);
    let names = files.saturating_sub(free_files).saturating_mul(FILE_BYTES);
    Ok((kind == TMPFS).then_some(content.saturating_add(names)))
}

/// Returns `true` if nothing in the mount of an open file can be written.
pub fn is_read_only(number: i32) -> Result<bool> {
    const ST_RDONLY: u64 = 1;
    // struct statfs, whose eleventh word has the flags.
    let mut about = [0u64; 15];
    let to = about.as_mut_ptr() as usize;
    raw(nr::FSTATFS, [fd(number), to])?;
    Ok(about[10] & ST_RDONLY != 0)
}

pub fn unlink(path: CStr<'_>) -> Result<()> {
    done(nr::UNLINKAT, [fd(AT_FDCWD), path.pointer()])
}

pub fn rename(from: CStr<'_>, to: CStr<'_>) -> Result<()> {
    let at = fd(AT_FDCWD);
    done(nr::RENAMEAT2, [at, from.pointer(), at, to.pointer()])
}

pub fn chdir(path: CStr<'_>) -> Result<()> {
    done(nr::CHDIR, [path.pointer()])
}

pub fn poll(fds: &mut [PollFd], timeout_ms: Option<u64>) -> Result<usize> {
    let time = timeout_ms.map(|ms| [(ms / 1000) as i64, (ms % 1000 * 1_000_000) as i64]);
    let pointer = time.as_ref().map_or(0, |time| time.as_ptr() as usize);
    raw(nr::PPOLL, [fds.as_mut_ptr() as usize, fds.len(), pointer])
}

pub fn monotonic_ms() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut time = [0i64; 2];
    match raw(nr::CLOCK_GETTIME, [CLOCK_MONOTONIC, &raw mut time as usize]) {
        Ok(_) => time[0] as u64 * 1000 + time[1] as u64 / 1_000_000,
        Err(_) => 0,
    }
}

/// Receives exactly `buffer.len()` bytes; descriptors that come with them land in `fds`, in
/// order. Returns how many. A longer list than `fds` takes is an error.
pub fn receive(socket: i32, buffer: &mut [u8], fds: &mut [i32]) -> Result<usize> {
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    const MSG_CTRUNC: i32 = 8;
    // cmsghdr: length (word), level, type, then descriptors.
    let mut control = [0u64; 2 + crate::wire::MAX_FDS / 2];
    let mut iov = IoVec {
        base: buffer.as_mut_ptr() as usize,
        len: buffer.len(),
    };
    let mut message = MsgHdr::new(&mut iov, &mut control);
    let got = loop {
        match raw(nr::RECVMSG, [fd(socket), &raw mut message as usize]) {
            Err(EINTR) => {}
            other => break other?,
        }
    };
    if message.flags & MSG_CTRUNC != 0 {
        return Err(EPROTO);
    }
    let mut count = 0;
    if message.control_len >= 16 {
        let length = control[0] as usize;
        let level_and_type = control[1].to_ne_bytes();
        let level = i32::from_ne_bytes([
            level_and_type[0],
            level_and_type[1],
            level_and_type[2],
            level_and_type[3],
        ]);
        let kind = i32::from_ne_bytes([
            level_and_type[4],
            level_and_type[5],
            level_and_type[6],
            level_and_type[7],
        ]);
        if level == SOL_SOCKET && kind == SCM_RIGHTS {
            count = length.saturating_sub(16) / 4;
            if count > fds.len() {
                return Err(EPROTO);
            }
            for (index, slot) in fds.iter_mut().enumerate().take(count) {
                let pair = control[2 + index / 2].to_ne_bytes();
                let at = index % 2 * 4;
                *slot = i32::from_ne_bytes([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
            }
        }
    }
    read_rest(socket, buffer, got)?;
    Ok(count)
}

/// Fills `buffer` from `have` on; an early end is an error.
pub fn read_rest(number: i32, buffer: &mut [u8], have: usize) -> Result<()> {
    let mut have = have;
    if have == 0 && !buffer.is_empty() {
        return Err(EPROTO);
    }
    while have < buffer.len() {
        match read(number, &mut buffer[have..])? {
            0 => return Err(EPROTO),
            more => have += more,
        }
    }
    Ok(())
}

/// Fresh zeroed memory, never given back: the launcher runs one job.
pub fn memory(bytes: usize) -> Result<&'static mut [u8]> {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    let bytes = bytes.max(1);
    let base = raw(nr::MMAP, [0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, fd(-1)])?;
    // SAFETY: the kernel just mapped `bytes` zeroed bytes at `base` for us alone, readable and
    // writable, and nothing ever unmaps them.
    Ok(unsafe { core::slice::from_raw_parts_mut(base as *mut u8, bytes) })
}

/// Fresh zeroed words; see [`memory`].
pub fn words(count: usize) -> Result<&'static mut [usize]> {
    let bytes = memory(count.saturating_mul(core::mem::size_of::<usize>()))?;
    // SAFETY: mmap returns page-aligned memory, at least `count` words long, all zero.
    Ok(unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<usize>(), count) })
}

/// `argv` and `envp` are lists of string addresses ended by 0, as [`CStr::pointer`] gives them.
pub fn exec(path: CStr<'_>, argv: &[usize], envp: &[usize]) -> Errno {
    if argv.last() != Some(&0) || envp.last() != Some(&0) {
        return EINVAL;
    }
    match raw(
        nr::EXECVE,
        [
            path.pointer(),
            argv.as_ptr() as usize,
            envp.as_ptr() as usize,
        ],
    ) {
        Ok(_) => EINVAL,
        Err(errno) => errno,
    }
}

pub fn prctl(option: usize, a: usize, b: usize) -> Result<usize> {
    raw(nr::PRCTL, [option, a, b])
}

/// All signals blocked, or none.
pub fn block_signals(all: bool) -> Result<()> {
    const SIG_SETMASK: usize = 2;
    let mask: u64 = if all { u64::MAX } else { 0 };
    done(
        nr::RT_SIGPROCMASK,
        [SIG_SETMASK, &raw const mask as usize, 0, 8],
    )
}

/// Gives a signal its default action again, whatever the caller had inherited to us.
pub fn default_action(signal: i32) -> Result<()> {
    // struct sigaction of the kernel: handler (SIG_DFL = 0), flags, restorer, mask.
    let action = [0u64; 4];
    done(
        nr::RT_SIGACTION,
        [fd(signal), action.as_ptr() as usize, 0, 8],
    )
}

/// A descriptor that is readable while a child waits to be reaped.
pub fn child_signals() -> Result<i32> {
    let mask: u64 = 1 << (SIGCHLD - 1);
    raw_i32(
        nr::SIGNALFD4,
        [fd(-1), &raw const mask as usize, 8, fd(O_CLOEXEC | 0o4000)],
    )
}

pub fn set_limit(resource: u64, soft: u64, hard: u64) -> Result<()> {
    let new = [soft, hard];
    done(nr::PRLIMIT64, [0, resource as usize, new.as_ptr() as usize])
}

pub fn get_limit(resource: u64) -> Result<(u64, u64)> {
    let mut old = [0u64; 2];
    raw(
        nr::PRLIMIT64,
        [0, resource as usize, 0, &raw mut old as usize],
    )?;
    Ok((old[0], old[1]))
}

#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

const CAP_VERSION_3: u32 = 0x2008_0522;

/// Effective, permitted and inheritable capabilities of this process, all emptied.
pub fn drop_capabilities() -> Result<()> {
    let header = CapHeader {
        version: CAP_VERSION_3,
        pid: 0,
    };
    let data = [0u32; 6];
    done(
        nr::CAPSET,
        [&raw const header as usize, data.as_ptr() as usize],
    )
}

pub fn has_capabilities() -> bool {
    let header = CapHeader {
        version: CAP_VERSION_3,
        pid: 0,
    };
    let mut data = [0u32; 6];
    raw(
        nr::CAPGET,
        [&raw const header as usize, data.as_mut_ptr() as usize],
    )
    .is_err()
        || data != [0; 6]
}

/// A filter is a list of 8-byte instructions, as the broker compiled them. With `listener` the
/// descriptor comes back on which calls ask for an answer.
pub fn install_filter(program: &[u8], listener: bool) -> Result<Option<i32>> {
    #[repr(C)]
    struct BpfProgram {
        len: u16,
        filter: usize,
    }
    const SECCOMP_SET_MODE_FILTER: usize = 1;
    const NEW_LISTENER: usize = 8;
    // Linux 5.19: a signal does not interrupt a call that the listener has taken up, so no answer
    // is lost. Without it a handler that runs at that very moment can make a connect that worked
    // look like "connected already".
    const WAIT_KILLABLE: usize = 32;
    let len = u16::try_from(program.len() / 8).map_err(|_| EINVAL)?;
    let program = BpfProgram {
        len,
        filter: program.as_ptr() as usize,
    };
    let install = |flags: usize| {
        raw(
            nr::SECCOMP,
            [SECCOMP_SET_MODE_FILTER, flags, &raw const program as usize],
        )
    };
    if !listener {
        return install(0).map(|_| None);
    }
    match install(NEW_LISTENER | WAIT_KILLABLE) {
        Err(EINVAL) => install(NEW_LISTENER),
        other => other,
    }
    .map(|number| Some(number as i32))
}

/// Returns `true` if a filter could answer with an errno on this kernel.
pub fn filters_work() -> bool {
    const SECCOMP_GET_ACTION_AVAIL: usize = 2;
    let action: u32 = 0x0005_0000;
    raw(
        nr::SECCOMP,
        [SECCOMP_GET_ACTION_AVAIL, 0, &raw const action as usize],
    )
    .is_ok()
}

/// The version (`what` 1) or the fixed errata (`what` 2); why the kernel has none, as an errno below
/// zero.
pub fn landlock_query(what: usize) -> i32 {
    match raw(nr::LANDLOCK_CREATE_RULESET, [0, 0, what]) {
        Ok(value) => value as i32,
        Err(errno) => -errno,
    }
}

/// Moving a file to another directory, the one right that every ruleset denies unless it says
/// otherwise.
pub const LANDLOCK_REFER: u64 = 1 << 13;

/// A ruleset that scopes abstract sockets and signals and handles no file right but `refer`.
pub fn landlock_scope() -> Result<i32> {
    const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 3;
    let attributes = [LANDLOCK_REFER, 0, ABSTRACT_SOCKETS_AND_SIGNALS];
    raw_i32(
        nr::LANDLOCK_CREATE_RULESET,
        [attributes.as_ptr() as usize, 24],
    )
}

pub fn landlock_restrict(ruleset: i32) -> Result<()> {
    done(nr::LANDLOCK_RESTRICT_SELF, [fd(ruleset)])
}

pub fn landlock_allow(ruleset: i32, parent: i32, rights: u64) -> Result<()> {
    #[repr(C, packed)]
    struct Beneath {
        rights: u64,
        parent: i32,
    }
    const PATH_BENEATH: usize = 1;
    let rule = Beneath { rights, parent };
    done(
        nr::LANDLOCK_ADD_RULE,
        [fd(ruleset), PATH_BENEATH, &raw const rule as usize],
    )
}

/// The attribute of a file at which a mount begins.
const MOUNT_ROOT: u64 = 0x2000;

/// What `statx` says of an open descriptor: device, inode, and whether it is the root of a mount.
pub fn identity(number: i32) -> Result<(u64, u64, bool)> {
    let data = statx(number)?;
    // struct statx: mask and blksize (0), attributes (1), nlink and uid (2), … inode (4), …
    // attributes_mask (7), … rdev (16), dev_major and dev_minor (17).
    Ok((data[17], data[4], data[1] & data[7] & MOUNT_ROOT != 0))
}

/// The kind of an open file.
pub struct ObjectKind {
    pub is_directory: bool,
    /// A device, a FIFO or a socket.
    pub is_special: bool,
    pub is_mount_root: bool,
    /// Its mode lets nobody use it.
    pub is_closed: bool,
}

pub fn about(number: i32) -> Result<ObjectKind> {
    const S_IFMT: u64 = 0o170_000;
    const S_IFDIR: u64 = 0o040_000;
    const S_IFREG: u64 = 0o100_000;
    const S_IFLNK: u64 = 0o120_000;
    let data = statx(number)?;
    // gid and mode (3).
    let mode = data[3] >> 32;
    let kind = mode & S_IFMT;
    Ok(ObjectKind {
        is_directory: kind == S_IFDIR,
        is_special: !matches!(kind, S_IFDIR | S_IFREG | S_IFLNK),
        is_mount_root: data[1] & data[7] & MOUNT_ROOT != 0,
        is_closed: mode & 0o777 == 0,
    })
}

/// Returns the number of hard links of an open file.
/// Adds a watch to an inotify instance, and returns its number (inotify_add_watch(2)).
pub fn add_watch(instance: i32, path: CStr<'_>, mask: u32) -> Result<u32> {
    let args = [fd(instance), path.pointer(), mask as usize];
    raw(nr::INOTIFY_ADD_WATCH, args).map(|watch| watch as u32)
}

/// The owner and the group of an open file.
pub fn owner(number: i32) -> Result<(u32, u32)> {
    statx(number).map(|data| ((data[2] >> 32) as u32, data[3] as u32))
}

pub fn links(number: i32) -> Result<u32> {
    statx(number).map(|data| data[2] as u32)
}

fn statx(number: i32) -> Result<[u64; 32]> {
    const BASIC: usize = 0x7ff;
    let mut data = [0u64; 32];
    raw(
        nr::STATX,
        [
            fd(number),
            c"".as_ptr() as usize,
            AT_EMPTY_PATH,
            BASIC,
            data.as_mut_ptr() as usize,
        ],
    )?;
    Ok(data)
}
