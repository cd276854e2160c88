//! The name of each isolation mechanism.

use std::fmt;

/// What a command is started under.
///
/// ```
/// assert_eq!(os_sandbox::Backend::Landlock.to_string(), "landlock");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Namespaces by bubblewrap, with Landlock and seccomp inside where the kernel has them.
    Bubblewrap,
    /// Namespaces by birdcage, with the same inside; everything at the host's own paths. It keeps
    /// less than bubblewrap, so a plan uses it only if it is asked for: see
    /// [`Support::with_birdcage`](crate::Support#method.with_birdcage).
    Birdcage,
    /// A fresh container of a Docker engine. A plan uses it only if it is asked for: see
    /// [`Support::with_docker`](crate::Support#method.with_docker).
    Docker,
    /// Landlock and seccomp, nothing to install.
    Landlock,
    /// macOS's own sandbox.
    Seatbelt,
    /// No confinement.
    None,
}

impl Backend {
    /// Returns `true` if a command gets namespaces with mounts of its own.
    pub(crate) fn has_mount_layer(self) -> bool {
        match self {
            Backend::Bubblewrap | Backend::Birdcage | Backend::Docker => true,
            Backend::Landlock | Backend::Seatbelt | Backend::None => false,
        }
    }

    /// Returns `true` if a command without a network gets a loopback interface of its own.
    pub(crate) fn has_loopback(self) -> bool {
        match self {
            Backend::Bubblewrap | Backend::Docker => true,
            // Birdcage leaves that of its namespace down.
            Backend::Birdcage | Backend::Landlock | Backend::Seatbelt | Backend::None => false,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Backend::Bubblewrap => "bubblewrap",
            Backend::Birdcage => "birdcage",
            Backend::Docker => "docker",
            Backend::Landlock => "landlock",
            Backend::Seatbelt => "seatbelt",
            Backend::None => "none",
        })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Backend {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
