//! Confinement of commands besides mounts and network: local sockets, repositories, background
//! processes, and how strictly the host must enforce all of it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::grant::programs::ProgramDirs;
use crate::syntax::word::words;

/// Which local sockets of the host commands may connect to.
///
/// ```
/// use sandbox_config::UnixSockets;
/// let agent = UnixSockets::named(["/run/agent.sock"]);
/// assert!(UnixSockets::Closed.is_within(&agent) && agent.is_within(&UnixSockets::Open));
/// assert!(!UnixSockets::named(["/run/docker.sock"]).is_within(&agent));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UnixSockets {
    /// None.
    #[default]
    Closed,
    /// These; never empty.
    Named(BTreeSet<PathBuf>),
    /// Every socket that a command can name.
    Open,
}

impl UnixSockets {
    /// Returns a list of sockets; an empty list is [`Closed`](Self::Closed).
    #[must_use]
    pub fn named(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> UnixSockets {
        let paths: BTreeSet<PathBuf> = paths.into_iter().map(Into::into).collect();
        if paths.is_empty() {
            UnixSockets::Closed
        } else {
            UnixSockets::Named(paths)
        }
    }

    /// Returns the sockets that both open.
    #[must_use]
    pub fn meet(&self, other: &UnixSockets) -> UnixSockets {
        match (self, other) {
            (UnixSockets::Closed, _) | (_, UnixSockets::Closed) => UnixSockets::Closed,
            (UnixSockets::Open, held) | (held, UnixSockets::Open) => held.clone(),
            (UnixSockets::Named(own), UnixSockets::Named(others)) => {
                UnixSockets::named(own.intersection(others))
            }
        }
    }

    /// Returns `true` if it opens nothing that the other keeps closed.
    #[must_use]
    pub fn is_within(&self, other: &UnixSockets) -> bool {
        self.meet(other) == *self
    }
}

impl fmt::Display for UnixSockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnixSockets::Closed => f.write_str("closed"),
            UnixSockets::Open => f.write_str("open"),
            UnixSockets::Named(paths) => {
                let shown: Vec<_> = paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                f.write_str(&shown.join(", "))
            }
        }
    }
}

/// A worker's word on sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SocketRequest {
    /// The parent's sockets.
    Inherit,
    These(UnixSockets),
}

words! {
    /// Operations of commands on repositories in writable mounts.
    ///
    /// ```
    /// use sandbox_config::Grant;
    /// assert_eq!(Grant::empty().confinement().git(), sandbox_config::GitMode::Unaware);
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum GitMode {
        /// Everything that the protected names permit.
        #[default]
        Unaware = "unaware",
        /// Nothing.
        ReadOnly = "read_only",
        /// Everything except the files that git executes or obeys; also where a linked worktree belongs
        /// to.
        Commit = "commit",
    }
}

words! {
    /// The changes that commands can make to a repository's configuration, `.git/config`, and to its
    /// list of modules, `.gitmodules`.
    ///
    /// ```
    /// use sandbox_config::{GitConfigMode, Grant};
    /// assert_eq!(Grant::empty().confinement().git_config(), GitConfigMode::Judged);
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum GitConfigMode {
        /// None: `sandbox.protect` lists one of them, or `require: guards`.
        Kept = "kept",
        /// Harmless ones by git: the identity of the committer, new remotes, branches and modules.
        #[default]
        Judged = "judged",
        /// All, and harmful ones are undone after the end: `sandbox.unprotect: [.git/config]`.
        JudgedAfter = "judged_after",
    }
}

words! {
    /// Treatment of the processes that a command leaves behind.
    ///
    /// ```
    /// use sandbox_config::{Grant, Survivors};
    /// assert_eq!(Grant::empty().confinement().survivors(), Survivors::Ended);
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Survivors {
        /// They end with it.
        #[default]
        Ended = "ended",
        /// They stay, confined as it was. A boundary is given up by name.
        Left = "left",
    }
}

words! {
    /// The attempts of commands that are reported to the receipt, the log and the worker.
    ///
    /// ```
    /// use sandbox_config::{Grant, Trace};
    /// assert_eq!(Grant::empty().confinement().trace(), Trace::Refused);
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Trace {
        /// Refused attempts to change files and to use the network.
        #[default]
        Refused = "refused",
        /// Refused reads and executions too, and everything that a command touched.
        Full = "full",
    }
}

/// How commands are confined, besides mounts and network. Children have equal confinement; they
/// must ask for sockets.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
/// #     "require: guards\ngit: { mode: read_only }\n").unwrap();
/// use sandbox_config::{load, GitMode, Sources, UnixSockets};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// let confinement = project.ceiling().confinement();
/// assert!(confinement.requires_guards());
/// assert_eq!(confinement.git(), GitMode::ReadOnly);
/// assert_eq!(confinement.unix_sockets(), &UnixSockets::Closed);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    pub(crate) require_guards: bool,
    pub(crate) unix_sockets: UnixSockets,
    pub(crate) git: GitMode,
    pub(crate) git_config: GitConfigMode,
    pub(crate) survivors: Survivors,
    pub(crate) trace: Trace,
    pub(crate) programs: ProgramDirs,
    pub(crate) review: bool,
}

impl Confinement {
    sandbox_names::getters! {
        /// `require: guards`: a command is refused instead of listing a gap.
        pub requires_guards: bool = require_guards;
        /// `sandbox.unix_sockets`.
        pub unix_sockets: &UnixSockets = &unix_sockets;
        /// `git.mode`.
        pub git: GitMode = git;
        /// `sandbox.programs`.
        pub programs: &ProgramDirs = &programs;
        /// `sandbox.review`: changes of a command that a person types, and of a run, are kept apart.
        pub reviews_changes: bool = review;
        /// `sandbox.trace`.
        pub trace: Trace = trace;
        /// `sandbox.survivors`.
        pub survivors: Survivors = survivors;
    }

    /// The changes of a repository's configuration that git can make.
    #[must_use]
    pub fn git_config(&self) -> GitConfigMode {
        match self.require_guards {
            true => GitConfigMode::Kept,
            false => self.git_config,
        }
    }
}

/// Limit on the named sockets of one project, and on the length of each: the size of an address
/// (unix(7)).
pub(crate) const MAX_SOCKETS: usize = 64;
const MAX_SOCKET_PATH: usize = 107;

/// Returns the problem with the path of a socket.
pub(crate) fn socket_problem(path: &Path) -> Option<&'static str> {
    let text = path.as_os_str().as_encoded_bytes();
    let kernels_own = ["/proc", "/sys"].iter().any(|dir| path.starts_with(dir));
    if !path.is_absolute() {
        Some("it is not an absolute path")
    } else if text.contains(&0) || path.components().any(|part| part.as_os_str() == "..") {
        Some("it holds a NUL or `..`")
    } else if text.len() > MAX_SOCKET_PATH {
        Some("it is longer than 107 bytes, which no address can hold")
    } else if path.file_name().is_none() || kernels_own {
        Some("it is not the path of a socket")
    } else {
        None
    }
}
