//! The hosts that a command may reach.

/// The network of a command. A stricter value is always the safe choice.
///
/// ```
/// use os_sandbox::{Network, Policy};
///
/// assert_eq!(Policy::builder().build()?.network(), &Network::Denied);
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// No other host. With a network namespace (bubblewrap, Docker) a command and its children have
    /// a loopback interface of their own. Without one the command cannot make an internet socket,
    /// and connects fail with "Network is unreachable".
    #[default]
    Denied,
    /// As `Denied`, but a host without network namespaces is refused.
    Loopback,
    /// Only these hosts. The mechanisms of this version do not keep that promise, so it is a gap.
    Hosts(Vec<String>),
    /// Every host that the caller can reach, over TCP and UDP.
    Unrestricted,
}
