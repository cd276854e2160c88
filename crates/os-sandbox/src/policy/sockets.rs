//! Local sockets. A path of the host, not of a mount: what is named is a daemon, which is reached
//! by a connect that somebody outside makes (`launcher/connect.rs`).

use super::mounts::check_not_kernel;
use crate::error::{Error, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// Bound on the named sockets of one policy; the launcher has the same.
pub(crate) const MAX_SOCKETS: usize = 64;
/// What fits into `sun_path` with its NUL, see `unix(7)`.
const MAX_PATH_BYTES: usize = 107;

/// Local sockets (`AF_UNIX`), which reach daemons of the host whatever the network says.
///
/// Closed leaves `socketpair` alone. It breaks what listens on a path: Python's multiprocessing
/// managers and forkserver, pipe servers of node, tmux.
///
/// ```
/// use os_sandbox::{Policy, UnixSockets};
///
/// assert_eq!(Policy::builder().build()?.unix_sockets(), &UnixSockets::Closed);
///
/// let policy = Policy::builder().unix_socket("/run/user/1000/agent.sock").build()?;
/// assert_eq!(
///     policy.unix_sockets(),
///     &UnixSockets::Named(vec!["/run/user/1000/agent.sock".into()])
/// );
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnixSockets {
    /// `socket(AF_UNIX)` is refused.
    #[default]
    Closed,
    /// The command's own: what it listens on itself, in its writable mounts and its own `/tmp`. The
    /// host's in its mounts are covered when it starts; what another program makes there while it
    /// runs could be reached. Only where a mount layer, and a network or a scope of its own
    /// (Landlock 6), tell them apart; elsewhere they are closed, and the plan says why.
    Own,
    /// Stream sockets can be made, and connected to exactly these paths of the host, under the
    /// same names; datagram sockets cannot. Each connect is made by a process of ours outside.
    Named(Vec<PathBuf>),
    /// Any socket that the command can name: those inside its mounts and, without a mount
    /// layer, those outside too.
    Open,
}

/// What the builder collected, as one value.
pub(crate) fn resolve(general: UnixSockets, named: Vec<PathBuf>) -> Result<UnixSockets, Error> {
    let mut paths = match (general, named.is_empty()) {
        (UnixSockets::Open, true) => return Ok(UnixSockets::Open),
        (UnixSockets::Open, false) => {
            return Err(Error::invalid("unix sockets are open, and some are named")
                .with_hint("name sockets only, or leave all of them open"));
        }
        (UnixSockets::Own, true) => return Ok(UnixSockets::Own),
        (UnixSockets::Closed | UnixSockets::Own, _) => named,
        (UnixSockets::Named(mut paths), _) => {
            paths.extend(named);
            paths
        }
    };
    for path in &mut paths {
        *path = check(path)?;
    }
    paths.sort();
    paths.dedup();
    if paths.len() > MAX_SOCKETS {
        return Err(Error::new(
            ErrorKind::Limit,
            format!("{} named sockets, at most {MAX_SOCKETS}", paths.len()),
        ));
    }
    // An empty list names nobody.
    if paths.is_empty() {
        return Ok(UnixSockets::Closed);
    }
    Ok(UnixSockets::Named(paths))
}

fn check(path: &Path) -> Result<PathBuf, Error> {
    let shown = path.display();
    let bytes = path.as_os_str().as_encoded_bytes();
    if !path.is_absolute() {
        return Err(Error::invalid(format!("not an absolute path: {shown}"))
            .with_hint("abstract sockets have no path and cannot be named"));
    }
    if bytes.contains(&0) {
        return Err(Error::invalid("a path with a NUL byte"));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(Error::invalid(format!("a path with ..: {shown}")));
    }
    let clean: PathBuf = path.components().collect();
    let length = clean.as_os_str().len();
    if length > MAX_PATH_BYTES {
        return Err(Error::new(
            ErrorKind::Limit,
            format!("a socket's path of {length} bytes, at most {MAX_PATH_BYTES}: {shown}"),
        ));
    }
    if clean.file_name().is_none() || check_not_kernel(&clean).is_err() {
        return Err(Error::invalid(format!("not a socket: {shown}")));
    }
    Ok(clean)
}

/// A socket in a directory that the command can change is whatever the command puts there: another
/// daemon's socket, or a link to one.
pub(crate) fn refuse_writable(path: &Path) -> Error {
    Error::invalid(format!(
        "the socket {} lies in a mount that the command may write",
        path.display()
    ))
    .with_hint("a command could put another socket in its place; have the daemon listen elsewhere")
}
