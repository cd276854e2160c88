//! The ports of a command's own loopback that are published on the host's, as a set. The meet is the
//! intersection.

use std::collections::BTreeSet;
use std::fmt;

/// Bound on the published ports: each takes listeners for every command.
pub(crate) const MAX_PUBLISHED_PORTS: usize = 16;

/// The published ports of commands.
///
/// ```
/// use sandbox_config::PublishedPorts;
/// let ports = |list: &[u16]| PublishedPorts::Only(list.iter().copied().collect());
/// assert_eq!(ports(&[3000, 8080]).meet(&ports(&[8080, 9090])), ports(&[8080]));
/// assert_eq!(ports(&[8080]).meet(&PublishedPorts::Every), ports(&[8080]));
/// assert_eq!(ports(&[3000, 8080]).to_string(), "3000, 8080");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishedPorts {
    /// These.
    Only(BTreeSet<u16>),
    /// Nothing is published, because the command is in the host's network (`network: true`). It
    /// listens on any port there.
    Every,
}

impl PublishedPorts {
    /// Returns the ports that are published; empty for [`Every`](Self::Every).
    pub fn list(&self) -> impl Iterator<Item = u16> {
        let only = match self {
            PublishedPorts::Only(ports) => Some(ports),
            PublishedPorts::Every => None,
        };
        only.into_iter().flatten().copied()
    }

    /// Returns `true` if no port is published.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list().next().is_none()
    }

    /// Returns the ports that both have.
    #[must_use]
    pub fn meet(&self, other: &PublishedPorts) -> PublishedPorts {
        match (self, other) {
            (PublishedPorts::Every, held) | (held, PublishedPorts::Every) => held.clone(),
            (PublishedPorts::Only(own), PublishedPorts::Only(others)) => {
                PublishedPorts::Only(own & others)
            }
        }
    }

    /// Returns `true` if the other has every port of this one.
    #[must_use]
    pub fn is_within(&self, other: &PublishedPorts) -> bool {
        self.meet(other) == *self
    }

    /// Returns the published ports that the other does not have.
    pub(crate) fn has(&self, port: u16) -> bool {
        match self {
            PublishedPorts::Only(ports) => ports.contains(&port),
            PublishedPorts::Every => true,
        }
    }

    pub(crate) fn excess_over(&self, other: &PublishedPorts) -> PublishedPorts {
        match (self, other) {
            (_, PublishedPorts::Every) | (PublishedPorts::Every, _) => PublishedPorts::default(),
            (PublishedPorts::Only(own), PublishedPorts::Only(others)) => {
                PublishedPorts::Only(own - others)
            }
        }
    }
}

impl Default for PublishedPorts {
    fn default() -> PublishedPorts {
        PublishedPorts::Only(BTreeSet::new())
    }
}

impl fmt::Display for PublishedPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<String> = self.list().map(|port| port.to_string()).collect();
        f.write_str(&ports.join(", "))
    }
}
