//! The name of each isolation mechanism.

use std::fmt;

/// The mechanism that a command is started under.
///
/// ```
/// assert_eq!(os_sandbox::Backend::Landlock.to_string(), "landlock");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// Namespaces that the crate makes by itself, with Landlock and seccomp inside where the kernel
    /// has them, without anything to install.
    Namespaces,
    /// Namespaces by bubblewrap, with Landlock and seccomp inside where the kernel has them.
    Bubblewrap,
    /// Namespaces by birdcage, with Landlock and seccomp inside, at the host's own paths. It keeps
    /// fewer promises than bubblewrap, so a plan uses it only by name: see
    /// [`Support::with_birdcage`](crate::Support#method.with_birdcage).
    Birdcage,
    /// A fresh container of a Docker engine. A plan uses it only by name: see
    /// [`Support::with_docker`](crate::Support#method.with_docker).
    Docker,
    /// Landlock and seccomp, without anything to install.
    Landlock,
    /// The sandbox of macOS.
    Seatbelt,
    /// No confinement.
    None,
}

/// The fixed properties of a mechanism.
struct Properties {
    name: &'static str,
    /// `true` if a command gets namespaces with mounts of its own.
    mount_layer: bool,
    /// `true` if a command without a network gets a loopback interface of its own.
    loopback: bool,
    /// `true` if a command sees its mounts at their sandbox paths, and not at the host's.
    sandbox_paths: bool,
    /// `true` if the first process of the namespaces is the launcher, in a root directory of ours.
    own_root: bool,
}

impl Backend {
    /// Returns the row of a mechanism. Birdcage leaves the loopback of its namespace down.
    fn properties(self) -> Properties {
        let (name, mount_layer, loopback, sandbox_paths, own_root) = match self {
            Backend::Namespaces => ("namespaces", true, true, true, true),
            Backend::Bubblewrap => ("bubblewrap", true, true, true, true),
            Backend::Birdcage => ("birdcage", true, false, false, false),
            Backend::Docker => ("docker", true, true, true, false),
            Backend::Landlock => ("landlock", false, false, false, false),
            Backend::Seatbelt => ("seatbelt", false, false, false, false),
            Backend::None => ("none", false, false, false, false),
        };
        Properties {
            name,
            mount_layer,
            loopback,
            sandbox_paths,
            own_root,
        }
    }

    pub(crate) fn has_mount_layer(self) -> bool {
        self.properties().mount_layer
    }

    pub(crate) fn has_loopback(self) -> bool {
        self.properties().loopback
    }

    /// Returns `true` if the launcher of a command observes its calls.
    pub(crate) fn reports_denials(self) -> bool {
        self.has_own_root() || self == Backend::Landlock
    }

    /// Returns `true` if the launcher is the first process of a command's namespaces, in a root
    /// directory that os-sandbox composed.
    pub(crate) fn has_own_root(self) -> bool {
        self.properties().own_root
    }

    /// Returns `true` if the launcher hands out sockets of a command's network namespace, so that
    /// ports of its loopback can be published.
    pub(crate) fn publishes_ports(self) -> bool {
        self.has_own_root()
    }

    /// Returns `true` if the launcher can make a terminal for a command.
    pub(crate) fn makes_terminals(self) -> bool {
        self.has_own_root() || self == Backend::Landlock
    }

    pub(crate) fn shows_sandbox_paths(self) -> bool {
        self.properties().sandbox_paths
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.properties().name)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Backend {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
