//! Our own passwd and group, so that names inside say nothing about the host's users unless the
//! policy names one.

use super::inside_paths;
use crate::policy::Policy;
use nix::unistd::{getegid, geteuid};

/// Returns the texts of passwd and group: the caller, by the name of the policy or a neutral one, and
/// `nobody`.
pub(crate) fn users(policy: &Policy) -> (String, String) {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let neutral = if uid == 0 { "root" } else { "sandbox" };
    let user = policy.user_name().unwrap_or(neutral);
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
