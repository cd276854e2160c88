//! The system calls of terminals, a part of `sys/`: ioctl_tty(2), termios(3), setpgid(2). The
//! numbers are those of asm-generic/ioctls.h, which x86-64 and AArch64 share.

use super::{O_CLOEXEC, O_NOCTTY, O_RDWR, Result, done, fd, nr, raw};

const TCGETS: usize = 0x5401;
const TCSETS: usize = 0x5402;
const TIOCSCTTY: usize = 0x540e;
const TIOCSPGRP: usize = 0x5410;
const TIOCGWINSZ: usize = 0x5413;
const TIOCSWINSZ: usize = 0x5414;
const TIOCGPTPEER: usize = 0x5441;
const TIOCSPTLCK: usize = 0x4004_5431;

/// The kernel's struct termios: four words of flags, line discipline, 19 characters.
pub type TerminalModes = [u32; 9];
/// Index of the local modes.
const LOCAL: usize = 3;

fn request(number: i32, what: usize, argument: usize) -> Result<usize> {
    raw(nr::IOCTL, [fd(number), what, argument])
}

/// Fails for everything that is not a terminal.
pub fn modes(number: i32) -> Result<TerminalModes> {
    let mut modes = [0; 9];
    request(number, TCGETS, modes.as_mut_ptr() as usize)?;
    Ok(modes)
}

/// Returns `true` if the input is handed over by lines (`ICANON`).
pub fn collects_lines(modes: &TerminalModes) -> bool {
    const ICANON: u32 = 2;
    modes[LOCAL] & ICANON != 0
}

/// Returns `true` if no key is a line's or a signal's, as after cfmakeraw(3). A line editor or an editor
/// on the screen keeps one of these.
pub fn is_raw(modes: &TerminalModes) -> bool {
    const ISIG: u32 = 1;
    !collects_lines(modes) && modes[LOCAL] & ISIG == 0
}

pub fn set_modes(number: i32, modes: &TerminalModes) -> Result<()> {
    request(number, TCSETS, modes.as_ptr() as usize).map(drop)
}

/// Rows, columns, and the size in pixels.
pub fn size(number: i32) -> Result<[u16; 4]> {
    let mut size = [0; 4];
    request(number, TIOCGWINSZ, size.as_mut_ptr() as usize)?;
    Ok(size)
}

pub fn set_size(number: i32, size: [u16; 4]) -> Result<()> {
    request(number, TIOCSWINSZ, size.as_ptr() as usize).map(drop)
}

/// Lets the other side of a new pseudo-terminal be opened.
pub fn unlock(master: i32) -> Result<()> {
    let locked: i32 = 0;
    request(master, TIOCSPTLCK, &raw const locked as usize).map(drop)
}

/// Opens the other side, whatever is mounted at its name (Linux 4.13).
pub fn peer(master: i32) -> Result<i32> {
    let flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
    request(master, TIOCGPTPEER, fd(flags)).map(|number| number as i32)
}

/// Makes it the controlling terminal of our session.
pub fn control(number: i32) -> Result<()> {
    request(number, TIOCSCTTY, 0).map(drop)
}

/// Makes this process the leader of a process group.
pub fn lead_group() -> Result<()> {
    done(nr::SETPGID, [])
}

pub fn set_foreground(number: i32, group: i32) -> Result<()> {
    request(number, TIOCSPGRP, &raw const group as usize).map(drop)
}
