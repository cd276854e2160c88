//! Our own files in `/etc`, so that names inside say nothing about the host and its users unless the
//! policy names them, and every program finds the same name of the host.

use super::inside_paths;
use super::root::{MAX_COPIED_BYTES, OwnFile};
use crate::host_proxy::NAME_FILES;
use crate::policy::Policy;
use nix::unistd::{getegid, geteuid};

const HOSTS: &str = "/etc/hosts";

/// Returns the files. `has_proxy`: a resolver of the sandbox answers for named hosts.
pub(crate) fn own_files(policy: &Policy, has_proxy: bool) -> Vec<OwnFile> {
    let (passwd, group) = users(policy);
    let name = policy.host_name();
    let mut files = vec![
        ("/etc/passwd", passwd),
        ("/etc/group", group),
        ("/etc/hostname", format!("{name}\n")),
    ];
    match has_proxy {
        true => files.extend(NAME_FILES.map(|(at, text)| (at, text.to_owned()))),
        false => files.extend(hosts().map(|text| (HOSTS, text))),
    }
    for (_, text) in files.iter_mut().filter(|(at, _)| *at == HOSTS) {
        add_host(text, "127.0.0.1", name);
        add_host(text, "::1", "localhost");
    }
    let files = files.into_iter();
    files.map(|(at, text)| OwnFile { at, text }).collect()
}

/// Returns the host's hosts(5); `None` if it is not text, or too long to be changed.
fn hosts() -> Option<String> {
    let length = std::fs::metadata(HOSTS).map_or(0, |about| about.len());
    match std::fs::read_to_string(HOSTS) {
        Ok(text) => (length <= MAX_COPIED_BYTES).then_some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(String::new()),
        Err(_) => None,
    }
}

/// Adds a name of the host, unless it has one of the family of this address. Why: programs look it up,
/// and a question about it to a resolver that cannot be reached takes as long as that waits.
fn add_host(text: &mut String, address: &str, name: &str) {
    let is_named = |line: &str| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let of_family = |found: &str| found.contains(':') == address.contains(':');
        words.next().is_some_and(of_family) && words.any(|word| word == name)
    };
    if text.lines().any(is_named) {
        return;
    }
    if !(text.is_empty() || text.ends_with('\n')) {
        text.push('\n');
    }
    let also = if name == "localhost" {
        ""
    } else {
        "localhost "
    };
    text.push_str(&format!("{address} {also}{name}\n"));
}

/// Returns the texts of passwd and group: the caller, by the name of the policy or a neutral one, and
/// `nobody`.
fn users(policy: &Policy) -> (String, String) {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let user = policy.shown_user();
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
