//! Local sockets. A socket's path is one of the host, not of a mount, because it names a daemon. A
//! process outside connects to it for the command (`launcher/connector/`).

use super::mounts::check_not_kernel;
use crate::error::{Error, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// Bound on the named sockets of one policy. The launcher has the same bound.
pub(crate) const MAX_SOCKETS: usize = 64;
/// The longest path that fits into `sun_path` with its NUL, see `unix(7)`.
const MAX_PATH_BYTES: usize = 107;

/// Local sockets (`AF_UNIX`), which reach daemons of the host whatever the network setting is.
///
/// `Closed` does not affect `socketpair`. It breaks programs that listen on a path: Python's
/// multiprocessing managers and forkserver, pipe servers of node, tmux.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnixSockets {
    /// `socket(AF_UNIX)` is refused.
    #[default]
    Closed,
    /// The sockets that the command itself listens on, in its writable mounts and its own `/tmp`.
    /// Sockets of the host in its mounts are covered at its start; it could reach those that
    /// another program creates there while it runs. Available only if a mount layer, and a network
    /// or a scope of its own (Landlock 6), tell them apart. Under other mechanisms they are closed,
    /// and the plan gives the reason.
    Own,
    /// The command can make stream sockets, and connect them to exactly these paths of the host,
    /// under the same names. It cannot make datagram sockets. A process of ours outside makes each
    /// connect.
    Named(Vec<PathBuf>),
    /// Any socket that the command can name: those inside its mounts and, without a mount layer,
    /// those outside too.
    Open,
}

/// Merges the values that the builder collected.
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
        return Err(ErrorKind::Limit.error(format!(
            "{} named sockets, at most {MAX_SOCKETS}",
            paths.len()
        )));
    }
    // An empty list does not name any socket.
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
        return Err(ErrorKind::Limit.error(format!(
            "a socket's path of {length} bytes, at most {MAX_PATH_BYTES}: {shown}"
        )));
    }
    if clean.file_name().is_none() || check_not_kernel(&clean).is_err() {
        return Err(Error::invalid(format!("not a socket: {shown}")));
    }
    Ok(clean)
}

/// Returns the error for a socket in a directory that the command can change. The command could
/// replace it by another daemon's socket, or by a link to one.
pub(crate) fn refuse_writable(path: &Path) -> Error {
    Error::invalid(format!(
        "the socket {} lies in a mount that the command may write",
        path.display()
    ))
    .with_hint("a command could put another socket in its place; have the daemon listen elsewhere")
}
