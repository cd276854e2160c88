//! System calls that only the probe makes: most of them must fail, and arguments are chosen so
//! that one that passes changes nothing. A part of `sys/`, by its rules.

use super::{AT_FDCWD, CStr, Result, done, fd, nr, raw, raw_i32};

pub fn chmod(path: CStr<'_>, mode: u32) -> Result<()> {
    done(nr::FCHMODAT, [fd(AT_FDCWD), path.pointer(), mode as usize])
}

/// To nothing.
pub fn truncate(path: CStr<'_>) -> Result<()> {
    done(nr::TRUNCATE, [path.pointer()])
}

pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<i32> {
    raw_i32(nr::SOCKET, [fd(domain), fd(kind), fd(protocol)])
}

/// A pair of local sockets.
pub fn socket_pair(kind: i32) -> Result<[i32; 2]> {
    const AF_UNIX: usize = 1;
    let mut ends = [0i32; 2];
    raw(
        nr::SOCKETPAIR,
        [AF_UNIX, fd(kind), 0, &raw mut ends as usize],
    )?;
    Ok(ends)
}

/// To a port of 127.0.0.1.
pub fn connect_loopback(socket: i32, port: u16) -> Result<()> {
    // struct sockaddr_in: family (AF_INET), port and address in network order, padding.
    let mut address = [0u8; 16];
    address[0..2].copy_from_slice(&2u16.to_ne_bytes());
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&[127, 0, 0, 1]);
    super::notify::connect(socket, &address)
}

/// Reads memory of another process, at an address where nothing lies: EFAULT means that it could.
pub fn read_memory(pid: i32) -> Result<()> {
    let mut buffer = [0u8; 8];
    let here = [buffer.as_mut_ptr() as usize, buffer.len()];
    let there = [0usize, buffer.len()];
    done(
        nr::PROCESS_VM_READV,
        [
            fd(pid),
            here.as_ptr() as usize,
            1,
            there.as_ptr() as usize,
            1,
        ],
    )
}

/// Pushes a byte into the terminal that the descriptor is, if it is one.
pub fn push_input(number: i32) -> Result<()> {
    const TIOCSTI: usize = 0x5412;
    let byte = [0u8; 1];
    done(nr::IOCTL, [fd(number), TIOCSTI, byte.as_ptr() as usize])
}

/// Without parameters, so that nothing is made: EFAULT means that it would have been.
pub fn io_uring() -> Result<()> {
    done(nr::IO_URING_SETUP, [1])
}

pub fn unshare_user() -> Result<()> {
    const CLONE_NEWUSER: usize = 0x1000_0000;
    done(nr::UNSHARE, [CLONE_NEWUSER])
}

/// A file system that no kernel has: ENODEV means that another one could be mounted.
pub fn mount() -> Result<()> {
    let name = c"os-sandbox-no-such".as_ptr() as usize;
    done(nr::MOUNT, [name, c"/".as_ptr() as usize, name])
}

/// A program in the kernel, a counter of events, this process's keyring: what each answers to
/// arguments that make nothing.
pub fn kernel_programs() -> [Result<()>; 3] {
    const KEYCTL_GET_KEYRING_ID: usize = 0;
    const PROCESS_KEYRING: i32 = -2;
    [
        done(nr::BPF, []),
        done(nr::PERF_EVENT_OPEN, [0, 0, fd(-1), fd(-1)]),
        done(nr::KEYCTL, [KEYCTL_GET_KEYRING_ID, fd(PROCESS_KEYRING)]),
    ]
}
