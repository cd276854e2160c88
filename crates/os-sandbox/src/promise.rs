//! The promises that a policy makes, and what became of each: the vocabulary of plan and receipt.

use std::fmt;

/// One thing that a confined command cannot do.
///
/// ```
/// use os_sandbox::{Promise, Rank};
///
/// assert_eq!(Promise::WriteOutside.rank(), Rank::Boundary);
/// assert_eq!(Promise::Metadata.rank(), Rank::Guard);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Promise {
    /// Files outside the mounts are not read.
    ReadOutside,
    /// Nothing outside the writable mounts is changed, created, truncated or deleted.
    WriteOutside,
    /// No program outside the mounts is started.
    ExecuteOutside,
    /// A mount inside a larger one allows less than the larger one.
    NarrowerInside,
    /// `/proc/sys`, `/sys` and the like are not written, not even by uid 0.
    KernelSettings,
    /// No set-user-id or set-group-id bit is given to a file.
    SetIdBits,
    /// Nobody is reached that the policy does not name.
    Network,
    /// No local socket is made or connected.
    UnixSockets,
    /// Only the declared descriptors reach the command.
    Descriptors,
    /// Only the declared variables reach the command.
    Environment,
    /// No process outside is signalled.
    Signals,
    /// No process outside is traced, nor its memory or environment read.
    Tracing,
    /// No input is pushed into a terminal.
    Terminal,
    /// Kernel interfaces with a record of escapes (io_uring, bpf, mounts, keyrings …) are closed.
    KernelSurface,
    /// Nothing of the command is left when it ends, is cancelled, or when the caller is killed.
    Survivors,
    /// Protected names below writable mounts are not changed.
    ProtectedNames,
    /// Hidden names are not read.
    HiddenNames,
    /// Modes, owners, times and attributes outside the mounts are neither changed nor looked at.
    Metadata,
    /// Other processes are not listed.
    ProcessList,
    /// Device-specific requests reach only the harmless devices.
    Devices,
    /// The whole tree keeps to the memory limit.
    MemoryLimit,
    /// The whole tree keeps to the limit on processes.
    ProcessLimit,
}

/// What it means if a promise cannot be kept.
///
/// ```
/// assert_eq!(os_sandbox::Rank::Boundary.to_string(), "boundary");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rank {
    /// The plan is refused.
    Boundary,
    /// It is listed as absent; guards can be required too.
    Guard,
}

impl Promise {
    /// What it means if this one cannot be kept.
    #[must_use]
    pub fn rank(self) -> Rank {
        match self {
            Promise::ReadOutside
            | Promise::WriteOutside
            | Promise::ExecuteOutside
            | Promise::NarrowerInside
            | Promise::KernelSettings
            | Promise::SetIdBits
            | Promise::Network
            | Promise::UnixSockets
            | Promise::Descriptors
            | Promise::Environment
            | Promise::Signals
            | Promise::Tracing
            | Promise::Terminal
            | Promise::KernelSurface
            | Promise::Survivors => Rank::Boundary,
            Promise::ProtectedNames
            | Promise::HiddenNames
            | Promise::Metadata
            | Promise::ProcessList
            | Promise::Devices
            | Promise::MemoryLimit
            | Promise::ProcessLimit => Rank::Guard,
        }
    }

    /// A stable name, for receipts and programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Promise::ReadOutside => "read outside",
            Promise::WriteOutside => "write outside",
            Promise::ExecuteOutside => "execute outside",
            Promise::NarrowerInside => "narrower inside",
            Promise::KernelSettings => "kernel settings",
            Promise::SetIdBits => "set-id bits",
            Promise::Network => "network",
            Promise::UnixSockets => "unix sockets",
            Promise::Descriptors => "descriptors",
            Promise::Environment => "environment",
            Promise::Signals => "signals",
            Promise::Tracing => "tracing",
            Promise::Terminal => "terminal input",
            Promise::KernelSurface => "kernel surface",
            Promise::Survivors => "survivors",
            Promise::ProtectedNames => "protected names",
            Promise::HiddenNames => "hidden names",
            Promise::Metadata => "metadata",
            Promise::ProcessList => "process list",
            Promise::Devices => "devices",
            Promise::MemoryLimit => "memory limit",
            Promise::ProcessLimit => "process limit",
        }
    }
}

/// What keeps a promise.
///
/// ```
/// assert_eq!(os_sandbox::Enforcer::Seccomp.to_string(), "seccomp");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Enforcer {
    /// Namespaces and a private mount table, set up by `bwrap`.
    Bubblewrap,
    /// The same by the crate birdcage, at the host's own paths.
    Birdcage,
    /// A container of a Docker engine: namespaces, mounts, capabilities, a control group.
    Docker,
    /// The kernel's Landlock: file access, signals, tracing.
    Landlock,
    /// A system call filter.
    Seccomp,
    /// macOS's own sandbox, by a profile.
    Seatbelt,
    /// How a command is started, on Linux our own first process: descriptors, environment, the end
    /// of the tree.
    Launcher,
    /// Limits of one process (`setrlimit`).
    Rlimits,
    /// A control group of the command's own.
    Cgroup,
}

/// What became of one promise.
///
/// ```
/// assert_eq!(os_sandbox::PromiseState::Absent.to_string(), "absent");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "lowercase")
)]
pub enum PromiseState {
    /// Kept.
    Enforced,
    /// What breaks it cannot be prevented, but is found and undone: by guards before the result is
    /// there, by [`Promise::Survivors`] of a caller that was killed at the next start. The reason
    /// says what.
    Detected,
    /// Kept in part; the reason says which.
    Degraded,
    /// Not kept.
    Absent,
}

/// One line of a plan or receipt.
///
/// ```
/// use os_sandbox::{Plan, Policy, Requirement, Support};
///
/// let policy = Policy::builder().build()?;
/// let plan = Plan::new(&policy, &Support::assume(Default::default()), Requirement::BestEffort)?;
/// for entry in plan.gaps() {
///     println!("{entry}");
/// }
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Entry {
    /// What was promised.
    pub promise: Promise,
    /// What became of it.
    pub state: PromiseState,
    /// What keeps it; empty if it is absent.
    pub by: Vec<Enforcer>,
    /// Why it is not fully kept, and what would be needed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub reason: Option<String>,
}

impl Entry {
    /// Returns `true` if the promise is kept in part or not at all. One that is
    /// [`PromiseState::Detected`] is no gap.
    #[must_use]
    pub fn is_gap(&self) -> bool {
        match self.state {
            PromiseState::Enforced | PromiseState::Detected => false,
            PromiseState::Degraded | PromiseState::Absent => true,
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<16} {:<9}",
            self.promise.name(),
            self.state.to_string()
        )?;
        for (index, mechanism) in self.by.iter().enumerate() {
            write!(f, "{}{mechanism}", if index == 0 { " " } else { " + " })?;
        }
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        Ok(())
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Rank::Boundary => "boundary",
            Rank::Guard => "guard",
        })
    }
}

impl fmt::Display for Enforcer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Enforcer::Bubblewrap => "bubblewrap",
            Enforcer::Birdcage => "birdcage",
            Enforcer::Docker => "docker",
            Enforcer::Landlock => "landlock",
            Enforcer::Seccomp => "seccomp",
            Enforcer::Seatbelt => "seatbelt",
            Enforcer::Launcher => "launcher",
            Enforcer::Rlimits => "rlimits",
            Enforcer::Cgroup => "cgroup",
        })
    }
}

impl fmt::Display for PromiseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PromiseState::Enforced => "enforced",
            PromiseState::Detected => "detected",
            PromiseState::Degraded => "degraded",
            PromiseState::Absent => "absent",
        })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Promise {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Enforcer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
