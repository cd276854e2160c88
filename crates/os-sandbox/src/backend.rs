//! The isolation mechanisms, and everything that is fixed about each.

use crate::promise::Enforcer;
use crate::support::Support;
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

/// The fixed properties of a mechanism. A new mechanism is a variant of [`Backend`], a row of these, and
/// a directory with its start.
pub(crate) struct Properties {
    name: &'static str,
    works_on: fn(&Support) -> bool,
    pub(crate) starter: Starter,
    /// `false` if a command runs without confinement.
    pub(crate) confines: bool,
    /// The enforcer of mounts and namespaces. `None` if a command shares those of the host.
    pub(crate) layer: Option<Enforcer>,
    /// `true` if a command without a network gets a loopback interface of its own.
    loopback: bool,
    /// `true` if a command sees its mounts at their sandbox paths, and not at the host's.
    sandbox_paths: bool,
    /// `true` if the first process of the namespaces is the launcher, in a root directory of ours.
    own_root: bool,
    /// Name of its report on a process outside that connects named sockets for a command. `None` if
    /// it has no such process.
    pub(crate) connector: Option<&'static str>,
    /// Processes of the same user that the kernel counts beside those of a command (`RLIMIT_NPROC`).
    pub(crate) others_counted: u64,
    /// The reason why debuggers never work.
    pub(crate) no_tracing: Option<&'static str>,
    /// Returns the remedy if the caller has not handed over its program.
    pub(crate) not_handed_over: fn(&Support) -> Option<&'static str>,
}

/// The program that starts the commands of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Starter {
    /// The launcher, which stays itself.
    Launcher,
    /// The launcher, which becomes another program on its way into the namespaces.
    Program,
    /// An engine of containers.
    Engine,
    /// `sandbox-exec`.
    SandboxExec,
}

/// Processes that the caller's user may have beside those of the command.
const ROOM_FOR_OTHERS: u64 = 16 << 10;

/// A mechanism that shares everything with the host and confines nothing. The rows of the others
/// say in which way they differ.
const NONE: Properties = Properties {
    name: "none",
    works_on: |_| true,
    starter: Starter::Launcher,
    confines: false,
    layer: None,
    loopback: false,
    sandbox_paths: false,
    own_root: false,
    connector: None,
    others_counted: ROOM_FOR_OTHERS,
    no_tracing: None,
    not_handed_over: |_| None,
};

const NAMESPACES: Properties = Properties {
    name: "namespaces",
    works_on: |support| support.launcher() && support.namespaces(),
    confines: true,
    layer: Some(Enforcer::Namespaces),
    loopback: true,
    sandbox_paths: true,
    own_root: true,
    connector: Some("named sockets under namespaces"),
    others_counted: 0,
    ..NONE
};

const BUBBLEWRAP: Properties = Properties {
    name: "bubblewrap",
    works_on: |support| support.launcher() && support.bubblewrap().is_some(),
    starter: Starter::Program,
    layer: Some(Enforcer::Bubblewrap),
    connector: Some("named sockets under bubblewrap"),
    ..NAMESPACES
};

/// It leaves the loopback of its namespace down.
const BIRDCAGE: Properties = Properties {
    name: "birdcage",
    works_on: |support| support.launcher() && support.birdcage().is_some(),
    starter: Starter::Program,
    confines: true,
    layer: Some(Enforcer::Birdcage),
    // Its own first process.
    others_counted: 1,
    no_tracing: Some("debuggers do not work: birdcage's own filter refuses ptrace"),
    not_handed_over: |support| {
        support.birdcage.is_none().then_some(
            "birdcage: nobody has named its program; build os-sandbox with the feature birdcage \
             and use Support::with_birdcage",
        )
    },
    ..NONE
};

const DOCKER: Properties = Properties {
    name: "docker",
    works_on: Support::docker,
    starter: Starter::Engine,
    confines: true,
    layer: Some(Enforcer::Docker),
    loopback: true,
    sandbox_paths: true,
    others_counted: 0,
    not_handed_over: |_| {
        Some(
            "docker: no engine was handed over; use the crate os-sandbox-docker and \
             Support::with_docker",
        )
    },
    ..NONE
};

const LANDLOCK: Properties = Properties {
    name: "landlock",
    works_on: |support| support.launcher() && support.landlock_abi() > 0,
    confines: true,
    connector: Some("named sockets under landlock"),
    ..NONE
};

const SEATBELT: Properties = Properties {
    name: "seatbelt",
    works_on: Support::seatbelt,
    starter: Starter::SandboxExec,
    confines: true,
    ..NONE
};

impl Backend {
    /// The mechanisms that a plan may use without a request by name, the preferred ones first.
    pub(crate) const AUTOMATIC: [Backend; 5] = [
        Backend::Namespaces,
        Backend::Bubblewrap,
        Backend::Landlock,
        Backend::Seatbelt,
        Backend::None,
    ];

    /// Returns the row of a mechanism.
    pub(crate) const fn properties(self) -> &'static Properties {
        match self {
            Backend::Namespaces => &NAMESPACES,
            Backend::Bubblewrap => &BUBBLEWRAP,
            Backend::Birdcage => &BIRDCAGE,
            Backend::Docker => &DOCKER,
            Backend::Landlock => &LANDLOCK,
            Backend::Seatbelt => &SEATBELT,
            Backend::None => &NONE,
        }
    }

    /// Returns `true` if this host can use it.
    pub(crate) fn works_on(self, support: &Support) -> bool {
        (self.properties().works_on)(support)
    }

    /// Returns `true` if a command gets namespaces with mounts of its own.
    pub(crate) fn has_mount_layer(self) -> bool {
        self.properties().layer.is_some()
    }

    /// Returns `true` if a command is confined among the host's files, processes and network
    /// devices, which it shares.
    pub(crate) fn shares_host(self) -> bool {
        self == Backend::Landlock
    }

    pub(crate) fn has_loopback(self) -> bool {
        self.properties().loopback
    }

    /// Returns `true` if the launcher of a command observes its calls.
    pub(crate) fn reports_denials(self) -> bool {
        self.has_own_root() || self.shares_host()
    }

    /// Returns `true` if a command runs in namespaces and a root directory that os-sandbox composed.
    ///
    /// ```
    /// use os_sandbox::Backend;
    /// assert!(Backend::Bubblewrap.has_own_root() && !Backend::Landlock.has_own_root());
    /// ```
    #[must_use]
    pub fn has_own_root(self) -> bool {
        self.properties().own_root
    }

    /// Returns `true` if the launcher hands out sockets of a command's network namespace, so that
    /// ports of its loopback can be published.
    pub(crate) fn publishes_ports(self) -> bool {
        self.has_own_root()
    }

    /// Returns `true` if the launcher can make a terminal for a command.
    pub(crate) fn makes_terminals(self) -> bool {
        self.has_own_root() || self.shares_host()
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

impl serde::Serialize for Backend {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
