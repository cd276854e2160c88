//! Tries, from inside a fully confined target, what must not work. The answer is a set of bits of
//! what did work: an enforcement that was seen, not one that was configured.

use crate::job::Run;
use crate::sys;
use crate::wire;

const AF_UNIX: i32 = 1;
const AF_INET: i32 = 2;
const SOCK_STREAM: i32 = 1;
const PR_GET_NO_NEW_PRIVS: usize = 39;

/// The probe's strings: a file outside, a path outside to create, a path to create inside, a
/// kernel setting. Then, where names are held, a path in a protected directory to create, that
/// directory, a name to move it to, and hidden files.

pub fn run(run: &Run<'_>) -> i32 {
    let mut found = 0;
    // First, before this function opens anything itself.
    for number in crate::target::ERRORS + 1..256 {
        if sys::is_open(number) {
            found |= wire::PROBE_DESCRIPTOR;
        }
    }
    let mut paths = run.probes();
    if let Some(secret) = paths.next()
        && sys::open(secret, sys::O_RDONLY | sys::O_CLOEXEC, 0).is_ok()
    {
        found |= wire::PROBE_READ;
    }
    if let Some(outside) = paths.next()
        && create(outside)
    {
        found |= wire::PROBE_WRITE;
    }
    if let Some(inside) = paths.next() {
        if create(inside) {
            sys::unlink(inside);
        } else {
            found |= wire::PROBE_NO_WRITE;
        }
    }
    if let Some(setting) = paths.next()
        && sys::open(setting, sys::O_WRONLY | sys::O_CLOEXEC, 0).is_ok()
    {
        found |= wire::PROBE_SYSCTL;
    }
    if let Some(protected) = paths.next()
        && create(protected)
    {
        found |= wire::PROBE_PIN;
    }
    if let (Some(directory), Some(elsewhere)) = (paths.next(), paths.next())
        && sys::rename(directory, elsewhere).is_ok()
    {
        found |= wire::PROBE_PIN;
    }
    for hidden in paths {
        if sys::open(hidden, sys::O_RDONLY | sys::O_CLOEXEC, 0).is_ok() {
            found |= wire::PROBE_PIN;
        }
    }
    if !run.filter.is_empty() {
        if sys::socket(AF_INET, SOCK_STREAM) != Err(sys::ENETUNREACH) {
            found |= wire::PROBE_INET;
        }
        if sys::socket(AF_UNIX, SOCK_STREAM).is_ok() {
            found |= wire::PROBE_UNIX;
        }
    }
    if run.probe_pid > 0 && sys::kill(run.probe_pid, 0).is_ok() {
        found |= wire::PROBE_SIGNAL;
    }
    if sys::has_capabilities() {
        found |= wire::PROBE_CAPABILITIES;
    }
    if sys::prctl(PR_GET_NO_NEW_PRIVS, 0, 0) != Ok(1) {
        found |= wire::PROBE_PRIVILEGES;
    }
    found as i32
}

fn create(path: sys::CStr<'_>) -> bool {
    sys::open(path, sys::O_WRONLY | sys::O_CREAT | sys::O_CLOEXEC, 0o600).is_ok()
}
