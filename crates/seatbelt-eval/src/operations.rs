//! The tree of operations, as far as we use it. A rule for an operation counts for those below.

/// `(operation, its parent, the type of its subject)`.
const TREE: [(&str, &str, About); 39] = [
    ("file*", "default", About::Path),
    ("file-read*", "file*", About::Path),
    ("file-read-data", "file-read*", About::Path),
    ("file-read-metadata", "file-read*", About::Path),
    ("file-read-xattr", "file-read*", About::Path),
    ("file-test-existence", "file*", About::Path),
    ("file-write*", "file*", About::Path),
    ("file-write-create", "file-write*", About::Path),
    ("file-write-data", "file-write*", About::Path),
    ("file-write-flags", "file-write*", About::Path),
    ("file-write-mode", "file-write*", About::Path),
    ("file-write-owner", "file-write*", About::Path),
    ("file-write-setugid", "file-write*", About::Path),
    ("file-write-times", "file-write*", About::Path),
    ("file-write-unlink", "file-write*", About::Path),
    ("file-write-xattr", "file-write*", About::Path),
    ("file-ioctl", "file*", About::Path),
    ("file-link", "file*", About::Path),
    ("file-clone", "file*", About::Path),
    ("file-map-executable", "file*", About::Path),
    ("process*", "default", About::Nothing),
    ("process-exec*", "process*", About::Path),
    ("process-fork", "process*", About::Nothing),
    ("process-info*", "process*", About::Process),
    ("signal", "default", About::Process),
    ("mach-priv-task-port", "default", About::Process),
    ("mach-lookup", "default", About::Name),
    ("mach-register", "default", About::Name),
    ("sysctl-read", "default", About::Name),
    ("sysctl-write", "default", About::Name),
    ("ipc-posix-sem", "default", About::Name),
    ("ipc-posix-shm*", "default", About::Name),
    ("ipc-posix-shm-read*", "ipc-posix-shm*", About::Name),
    ("iokit-open", "default", About::Name),
    ("iokit-get-properties", "default", About::Name),
    ("user-preference-read", "default", About::Nothing),
    ("pseudo-tty", "default", About::Nothing),
    ("system-fsctl", "default", About::Name),
    ("system-mac-syscall", "default", About::Call),
];

/// The operations of sockets, whose filters differ from one to the next.
const SOCKETS: [(&str, &str, About); 5] = [
    ("network*", "default", About::Nothing),
    ("network-bind", "network*", About::Local),
    ("network-inbound", "network*", About::Local),
    ("network-outbound", "network*", About::Remote),
    ("system-socket", "default", About::Socket),
];

/// Which filters make sense for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Path,
    Name,
    Process,
    /// A call of a kernel policy: its name and number.
    Call,
    /// Where a socket is bound. A filter for the remote end would say nothing.
    Local,
    /// Where a socket connects to. A filter for the local end matches any address.
    Remote,
    Socket,
    Nothing,
}

/// Returns the known operation of this name and the type of its subject.
pub(crate) fn find(name: &str) -> Option<(&'static str, About)> {
    TREE.iter()
        .chain(&SOCKETS)
        .find(|(known, _, _)| *known == name)
        .map(|(known, _, about)| (*known, *about))
}

/// The operation itself, the one above it, and so on, without `default`.
pub(crate) fn upwards(name: &'static str) -> Vec<&'static str> {
    let mut out = Vec::new();
    let mut at = name;
    // The tree is finite and has no cycle: each step is one level up.
    while let Some((known, above, _)) = TREE.iter().chain(&SOCKETS).find(|entry| entry.0 == at) {
        out.push(*known);
        at = above;
    }
    out
}
