//! Whom a command may talk to.

/// The network of a command. A stricter value is always the safe choice.
///
/// ```
/// use os_sandbox::{Network, Policy};
///
/// assert_eq!(Policy::builder().build()?.network(), &Network::Denied);
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nobody: connects fail with "Network is unreachable".
    #[default]
    Denied,
    /// Only itself, on a loopback interface of its own. Needs a network namespace.
    Loopback,
    /// Only these hosts. No mechanism of this version keeps that promise: a gap.
    Hosts(Vec<String>),
    /// Everybody the caller can reach, over TCP and UDP.
    Unrestricted,
}

/// Local sockets (`AF_UNIX`), which reach daemons of the host whatever the network says.
///
/// Closed leaves `socketpair` alone. It breaks what listens on a path: Python's multiprocessing
/// managers and forkserver, pipe servers of node, tmux.
///
/// ```
/// use os_sandbox::{Policy, UnixSockets};
///
/// assert_eq!(Policy::builder().build()?.unix_sockets(), UnixSockets::Closed);
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnixSockets {
    /// `socket(AF_UNIX)` is refused.
    #[default]
    Closed,
    /// Any socket that the command can name: those inside its mounts and, without a mount
    /// layer, those outside too.
    Open,
}
