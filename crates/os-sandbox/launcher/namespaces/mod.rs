//! Makes the namespaces of a command without another program, and its root directory in them
//! (`root.rs`). The launcher starts a child in the namespaces: their first process, which takes the
//! next messages and supervises the command. It has every capability in its own user namespace until
//! it gives all of them up, before the command starts. The launcher itself stays outside and waits.

pub mod pins;
pub mod root;
pub mod routes;
pub mod sockets;

use crate::sys::{self, CStr, mounts, network};
use crate::wire;
use crate::{CONTROL, Failure, at};

const PR_SET_PDEATHSIG: usize = 1;

/// Returns in the child alone. The other process waits for its end.
pub fn enter(body: &[u8]) -> Result<(), Failure> {
    let malformed = (wire::STAGE_PROTOCOL, sys::EPROTO);
    let (flags, rest) = body.split_at_checked(4).ok_or(malformed)?;
    let end = rest.iter().position(|byte| *byte == 0).ok_or(malformed)?;
    let host_name = &rest[..end];
    let has_network = flags != wire::NAMESPACES_NETWORK.to_ne_bytes();
    let failed = at(wire::STAGE_NAMESPACES);
    let (user, group) = mounts::ids();
    match mounts::fork_into_namespaces(!has_network).map_err(&failed)? {
        0 => {}
        child => wait_for(child),
    }
    // Beside the end of the control socket. The launcher has one thread, which ends with it.
    sys::prctl(PR_SET_PDEATHSIG, sys::SIGKILL as usize, 0).map_err(&failed)?;
    map_ids(user, group).map_err(&failed)?;
    mounts::set_host_name(host_name).map_err(&failed)?;
    if !has_network {
        network::enable_loopback().map_err(&failed)?;
    }
    root::build()
}

fn wait_for(child: i32) -> ! {
    // The end of this socket tells the broker that the tree is gone.
    sys::close(CONTROL);
    loop {
        match sys::wait_any(true) {
            Ok(Some((pid, status))) if pid == child => sys::exit(if status == 0 { 0 } else { 125 }),
            Ok(_) => {}
            Err(_) => sys::exit(125),
        }
    }
}

/// Maps the caller's user and group to themselves in this process's user namespace.
pub fn map_ids(user: u32, group: u32) -> sys::Result<()> {
    // If another process has denied it before and this write fails too, the next one fails.
    let _ = say(b"/proc/self/setgroups\0", b"deny");
    say(b"/proc/self/gid_map\0", same(group, &mut [0; 32]))?;
    say(b"/proc/self/uid_map\0", same(user, &mut [0; 32]))
}

fn say(file: &[u8], text: &[u8]) -> sys::Result<()> {
    let file = CStr::new(file).ok_or(sys::EINVAL)?;
    let file = sys::open(file, sys::O_WRONLY | sys::O_CLOEXEC, 0)?;
    let written = sys::write(file, text);
    sys::close(file);
    written.map(drop)
}

/// Returns "1000 1000 1" for 1000: an id maps to itself.
fn same(id: u32, buffer: &mut [u8; 32]) -> &[u8] {
    let mut at = 0;
    for _ in 0..2 {
        let mut digit = 1_000_000_000;
        while digit > id.max(1) {
            digit /= 10;
        }
        while digit > 0 {
            buffer[at] = b'0' + (id / digit % 10) as u8;
            digit /= 10;
            at += 1;
        }
        buffer[at] = b' ';
        at += 1;
    }
    buffer[at] = b'1';
    &buffer[..=at]
}
