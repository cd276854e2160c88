//! One row of the mount table: every front-end is lowered to these.

use std::path::{Path, PathBuf};

use crate::grant::file_rules::FileRules;
use crate::grant::verdict::MountApproval;
use crate::syntax::text::ConfigOrigin;
use crate::syntax::word::words;

words! {
    /// Access to a mount. Ordered, so the meet is `min`.
    ///
    /// ```
    /// use sandbox_config::Mode;
    /// assert_eq!(Mode::ReadOnly.min(Mode::ReadWrite).to_string(), "ro");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Mode {
        /// `ro`.
        ReadOnly = "ro",
        /// `rw`.
        ReadWrite = "rw",
    }
}

words! {
    /// Access to a directory, as a project declares it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum DeclaredMode {
        ReadOnly = "ro",
        ReadWrite = "rw",
        /// `rw`, and changes wait for a review.
        Staged = "staged",
    }
}

impl DeclaredMode {
    pub(crate) fn access(self) -> Mode {
        match self {
            DeclaredMode::ReadOnly => Mode::ReadOnly,
            DeclaredMode::ReadWrite | DeclaredMode::Staged => Mode::ReadWrite,
        }
    }
}

/// A host directory shown at a sandbox path.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use sandbox_config::{load, Mode, Sources};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// let mounts: Vec<_> = project.ceiling().mounts().map(|m| (m.target(), m.mode())).collect();
/// assert_eq!(mounts, [("/cache", Mode::ReadWrite), ("/workspace", Mode::ReadWrite)]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub(crate) name: String,
    pub(crate) target: String,
    /// The directory that the project declares.
    pub(crate) host: PathBuf,
    /// The held part of it; `None`: all.
    pub(crate) part: Option<MountPart>,
    /// The part of `host` that existed and was resolved when the config was read; directories below
    /// may be created, never through a link.
    pub(crate) anchor: PathBuf,
    pub(crate) create: bool,
    pub(crate) mode: Mode,
    /// `true` for `mode: staged`, until the mount is moved to a copy or an overlay.
    pub(crate) staged: bool,
    pub(crate) suffixes: Option<Vec<String>>,
    pub(crate) max_file_bytes: Option<u64>,
    pub(crate) approval: MountApproval,
    pub(crate) usable: bool,
    pub(crate) file_rules: FileRules,
    /// The names on the way to `host`: from the project directory, or from the root of the file
    /// system if it is elsewhere. Guards count there as well.
    pub(crate) way: Vec<String>,
    /// Forge's own files below this mount, relative to it.
    pub(crate) own_files: Vec<String>,
    pub(crate) outside: bool,
    pub(crate) rooted: Rooted,
    pub(crate) origin: ConfigOrigin,
    pub(crate) mode_origin: ConfigOrigin,
}

/// Protected and hidden paths that a file writes with a leading `/`, as far as they lie in one
/// mount, from its own top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rooted {
    pub(crate) protect: Vec<String>,
    pub(crate) hide: Vec<String>,
}

impl Mount {
    /// Returns the path from the mount's top, if a pattern with a leading `/` is in the mount as
    /// workers see it (`/data/x`), as commands do (`/work/data/x`, `/work/x` in a mount at `/`), or
    /// by its host path. The mount itself is an empty path.
    pub(crate) fn paths_of<'p>(&self, pattern: &'p str) -> Vec<&'p str> {
        let target = self.target.trim_end_matches('/');
        let host = self.host.to_string_lossy();
        let tops = [
            target.to_owned(),
            format!("/work{target}"),
            host.into_owned(),
        ];
        tops.iter()
            .filter_map(|top| pattern.strip_prefix(top.as_str()))
            .filter(|rest| rest.is_empty() || rest.starts_with('/'))
            .collect()
    }

    sandbox_names::getters! {
        /// Returns paths below this mount that are hidden, beside the names that are hidden anywhere.
        pub hidden_paths: &[String] = &rooted.hide;
        /// Returns paths below this mount that are protected, beside the names that are protected
        /// anywhere.
        pub protected_paths: &[String] = &rooted.protect;
        /// The name that config files use: `data`; `/` for the whole tree of a root project.
        pub name: &str = &name;
        /// The sandbox path: `/data`, `/`, or `/src/lib` for a part of it.
        pub target: &str = &target;
        /// Returns `true` if its directory is outside the project's: writing there is
        /// [`Risk::WritesFs`](crate::Risk::WritesFs). The directory of a run is the run's own.
        pub is_outside_project: bool = outside;
        /// Returns `true` if a missing host directory is made: inside the project yes, elsewhere no.
        pub creates_host: bool = create;
        /// Read-only or read-write.
        pub mode: Mode = mode;
        /// `mode: staged`: changes wait for a review. They are made in a copy
        /// ([`Grant::relocated`](crate::Grant::relocated)) or in an overlay
        /// ([`Grant::staged_in_overlays`](crate::Grant::staged_in_overlays)); until there is one, the
        /// directory can only be read.
        ///
        /// ```
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let file = dir.path().join("forge.yaml");
        /// # std::fs::write(file, "sandbox: { zones: { src: { path: ./src, mode: staged } } }\n").unwrap();
        /// use sandbox_config::{load, Mode, Sources};
        /// let project = load(&Sources::new(dir.path())).unwrap();
        /// let src = project.ceiling().mount("src").unwrap();
        /// assert!(src.is_staged());
        /// assert_eq!((src.mode(), src.mode_word()), (Mode::ReadWrite, "staged"));
        /// ```
        pub is_staged: bool = staged;
        /// The only suffixes that files may have; `None`: any. Lower case, with the dot.
        pub suffixes: Option<&[String]> = suffixes.as_deref();
        /// The largest file, in bytes.
        pub max_file_bytes: Option<u64> = max_file_bytes;
        /// Consent for each operation.
        pub approval: MountApproval = approval;
        /// False: held only to be passed on to children (`use: false`).
        pub usable: bool = usable;
        /// Returns the rules of file tools for hard links, quotas and `..`.
        pub file_rules: &FileRules = &file_rules;
        /// Forge's own project and worker files below this mount, as patterns from the root of the
        /// declared mount (`/golem-forge.config.yaml`, `/workers/*.worker`): never writable.
        pub own_files: &[String] = &own_files;
        /// Where the project declares it.
        pub origin: &ConfigOrigin = &origin;
    }

    /// Returns the host directory of the held part. Never shown to a model.
    #[must_use]
    pub fn host(&self) -> &Path {
        self.part.as_ref().map_or(&self.host, |part| &part.host)
    }

    /// Returns `true` if it is the directory that each run has of its own (`run:workspace`), and no
    /// run has said yet where that is: [`Grant::in_run`](crate::Grant::in_run) does. Until then it
    /// cannot be opened.
    #[must_use]
    pub fn awaits_run(&self) -> bool {
        self.host == Path::new(NO_RUN_YET)
    }

    /// Sets the directory of a run.
    pub(crate) fn in_run(&mut self, workspace: &Path) {
        if !self.awaits_run() {
            return;
        }
        self.host = workspace.to_path_buf();
        self.anchor = workspace.to_path_buf();
        self.staged = false;
        // Forge made the directory: no name on the way to it is the project's to guard.
        self.way = Vec::new();
        if let Some(part) = &mut self.part {
            part.host = workspace.join(&part.below);
        }
    }

    /// Takes the directory from `to`, if it is at or below `from` on the host.
    pub(crate) fn relocate(&mut self, from: &Path, to: &Path) {
        let Ok(below) = self.host.strip_prefix(from) else {
            return;
        };
        self.staged = false;
        self.host = to.components().chain(below.components()).collect();
        self.anchor = to.to_path_buf();
        if let Some(part) = &mut self.part {
            part.host = self.host.join(&part.below);
        }
    }

    /// The mode as files have it: `ro`, `rw` or `staged`.
    #[must_use]
    pub fn mode_word(&self) -> &'static str {
        match self.mode {
            Mode::ReadOnly => "ro",
            Mode::ReadWrite if self.staged => "staged",
            Mode::ReadWrite => "rw",
        }
    }

    /// Access to the directory itself: that of a staged one is for reading.
    #[cfg(any(feature = "files", feature = "process"))]
    pub(crate) fn open_mode(&self) -> Mode {
        match self.staged {
            true => Mode::ReadOnly,
            false => self.mode,
        }
    }

    /// Returns the location of the setting that names the held directory: a worker's for a part.
    #[cfg(any(feature = "files", feature = "process"))]
    pub(crate) fn declared_at(&self) -> &ConfigOrigin {
        let part = self.part.as_ref().and_then(|part| part.origin.as_ref());
        part.unwrap_or(&self.origin)
    }
}

/// Names that are never writable below any mount; projects may add to it. A name or
/// path counts at any depth, one with a leading `/` at the mount's root only.
pub(crate) use sandbox_names::PROTECTED as DEFAULT_PROTECT;

/// Listed as absent and not readable.
pub(crate) use sandbox_names::HIDDEN as DEFAULT_HIDE;

/// A part of a mount that the project declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountPart {
    /// From the mount's own directory: `src/lib`.
    pub(crate) below: String,
    pub(crate) host: PathBuf,
    /// The setting of the worker that asks for it.
    pub(crate) origin: Option<ConfigOrigin>,
}

/// Stands for the host path of `run:workspace` until `Grant::in_run` sets it. Never opened.
pub(crate) const NO_RUN_YET: &str = "/run:/workspace";

/// Returns the innermost mount of a sandbox path.
pub(crate) fn innermost<'m>(mounts: &'m [Mount], path: &str) -> Option<&'m Mount> {
    mounts
        .iter()
        .filter(|mount| is_below(path, mount.target()))
        .max_by_key(|mount| mount.target.len())
}

/// Returns `true` if a sandbox path is `above` or below it.
pub(crate) fn is_below(path: &str, above: &str) -> bool {
    above == "/"
        || path
            .strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns `true` if a pattern of a grant counts in every mount. A path that a project names counts
/// in the mount that has it ([`Rooted`]).
pub(crate) fn counts_everywhere(pattern: &str) -> bool {
    !pattern.starts_with('/') || DEFAULT_PROTECT.contains(&pattern)
}
