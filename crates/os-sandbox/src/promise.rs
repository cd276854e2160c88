//! The promises of a policy and the state of each: the vocabulary of plan and receipt.

use std::fmt;

sandbox_names::word_enum! {
    /// A restriction of a confined command.
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
        /// The command cannot read files outside the mounts.
        ReadOutside = "read outside",
        /// The command cannot change, create, truncate or delete anything outside the writable mounts.
        WriteOutside = "write outside",
        /// The command cannot start a program outside the mounts.
        ExecuteOutside = "execute outside",
        /// A mount inside a larger one allows less than the larger one.
        NarrowerInside = "narrower inside",
        /// What the command changes below an overlay goes to its upper directory; the directory of the
        /// host stays as it is.
        OverlayWrites = "overlay writes",
        /// The command cannot write `/proc/sys`, `/sys` and the like, not even as uid 0.
        KernelSettings = "kernel settings",
        /// The command cannot give a file a set-user-id or set-group-id bit.
        SetIdBits = "set-id bits",
        /// The command reaches only the hosts that the policy names.
        Network = "network",
        /// The command cannot create or connect a local socket.
        UnixSockets = "unix sockets",
        /// Only the declared descriptors reach the command.
        Descriptors = "descriptors",
        /// Only the declared variables reach the command.
        Environment = "environment",
        /// The command cannot signal a process outside.
        Signals = "signals",
        /// The command cannot trace a process outside, nor read its memory or environment.
        Tracing = "tracing",
        /// The command cannot push input into a terminal.
        Terminal = "terminal input",
        /// Kernel interfaces with a record of escapes (io_uring, bpf, mounts, keyrings …) are closed.
        KernelSurface = "kernel surface",
        /// Every process of the command ends when the command ends or is cancelled, or when the caller
        /// is killed.
        Survivors = "survivors",
        /// The command cannot change protected names below writable mounts.
        ProtectedNames = "protected names",
        /// The command cannot read hidden names.
        HiddenNames = "hidden names",
        /// The command can neither change nor read modes, owners, times and attributes outside the
        /// mounts.
        Metadata = "metadata",
        /// The command cannot list other processes.
        ProcessList = "process list",
        /// Device-specific requests reach only the harmless devices.
        Devices = "devices",
        /// The whole process tree stays within the memory limit.
        MemoryLimit = "memory limit",
        /// The whole process tree stays within the limit on processes.
        ProcessLimit = "process limit",
    }
    /// Returns a stable name, for receipts and programs.
    pub fn name
}

sandbox_names::word_enum! {
    /// The consequence for a plan if a promise cannot be kept.
    ///
    /// ```
    /// assert_eq!(os_sandbox::Rank::Boundary.to_string(), "boundary");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Rank {
        /// The plan is refused.
        Boundary = "boundary",
        /// The plan lists the promise as absent. A caller can require guards too.
        Guard = "guard",
    }
    fn word
}

impl Promise {
    /// Returns the consequence for a plan if this promise cannot be kept.
    #[must_use]
    pub fn rank(self) -> Rank {
        match self {
            Promise::ReadOutside
            | Promise::WriteOutside
            | Promise::ExecuteOutside
            | Promise::NarrowerInside
            | Promise::OverlayWrites
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
}

sandbox_names::word_enum! {
    /// The mechanism that enforces a promise.
    ///
    /// ```
    /// assert_eq!(os_sandbox::Enforcer::Seccomp.to_string(), "seccomp");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Enforcer {
        /// Namespaces and a private mount table, set up by the launcher.
        Namespaces = "namespaces",
        /// Namespaces and a private mount table, set up by `bwrap`.
        Bubblewrap = "bubblewrap",
        /// Namespaces and mounts by the crate birdcage, at the host's own paths.
        Birdcage = "birdcage",
        /// A container of a Docker engine: namespaces, mounts, capabilities, a control group.
        Docker = "docker",
        /// The kernel's Landlock: file access, signals, tracing.
        Landlock = "landlock",
        /// A system call filter.
        Seccomp = "seccomp",
        /// The sandbox of macOS, by a profile.
        Seatbelt = "seatbelt",
        /// The start of a command, on Linux by the first process of this crate: descriptors,
        /// environment, the end of the tree.
        Launcher = "launcher",
        /// Limits of one process (`setrlimit`).
        Rlimits = "rlimits",
        /// A control group of the command's own.
        Cgroup = "cgroup",
    }
    fn word
}

sandbox_names::word_enum! {
    /// The state of one promise.
    ///
    /// ```
    /// assert_eq!(os_sandbox::PromiseState::Absent.to_string(), "absent");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum PromiseState {
        /// The promise is kept.
        Enforced = "enforced",
        /// Violations cannot be prevented, but are found and undone: those of guards before the caller
        /// gets the result, and those of [`Promise::Survivors`] at the next start after a caller was
        /// killed. The reason names the violation.
        Detected = "detected",
        /// The promise is kept in part. The reason names the part.
        Degraded = "degraded",
        /// The promise is not kept.
        Absent = "absent",
    }
    fn word
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
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Entry {
    /// The promise.
    pub promise: Promise,
    /// The state of the promise.
    pub state: PromiseState,
    /// The mechanisms that keep the promise. Empty if it is absent.
    pub by: Vec<Enforcer>,
    /// The reason why the promise is not fully kept, and the missing prerequisite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Entry {
    /// Returns `true` if the promise is kept in part or not at all. A promise that is
    /// [`PromiseState::Detected`] is not a gap.
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

sandbox_names::display!(Rank = pad word());

sandbox_names::display!(Enforcer = pad word());

sandbox_names::display!(PromiseState = pad word());

impl serde::Serialize for Promise {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl serde::Serialize for Enforcer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
