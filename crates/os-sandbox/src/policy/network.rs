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
#[non_exhaustive]
pub enum Network {
    /// Nobody else. With a network namespace (bubblewrap, Docker) a command and what it starts have
    /// a loopback interface of their own; without one no internet socket can be made, and connects
    /// fail with "Network is unreachable".
    #[default]
    Denied,
    /// The same, and a host without network namespaces is refused.
    Loopback,
    /// Only these hosts. No mechanism of this version keeps that promise: a gap.
    Hosts(Vec<String>),
    /// Everybody the caller can reach, over TCP and UDP.
    Unrestricted,
}
