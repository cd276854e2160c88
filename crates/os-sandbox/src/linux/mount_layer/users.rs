//! Our own passwd and group, so that names inside say nothing about the host's users.

use super::inside_paths;
use nix::unistd::{getegid, geteuid};

/// Returns the texts of passwd and group: the caller, by a neutral name, and `nobody`.
pub(crate) fn users() -> (String, String) {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let user = if uid == 0 { "root" } else { "sandbox" };
    let group = if gid == 0 { "root" } else { "sandbox" };
    let mut passwd = format!("{user}:x:{uid}:{gid}::{}:/bin/sh\n", inside_paths::HOME);
    let mut groups = format!("{group}:x:{gid}:\n");
    if uid != 65534 {
        passwd.push_str("nobody:x:65534:65534::/:/bin/false\n");
    }
    if gid != 65534 {
        groups.push_str("nogroup:x:65534:\n");
    }
    (passwd, groups)
}
