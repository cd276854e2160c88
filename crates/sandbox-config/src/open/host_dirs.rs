//! Creates the host directories of mounts before they are used. A missing directory inside the
//! project is made, one step at a time on open directories and through no link (mkdirat(2),
//! openat(2) with O_NOFOLLOW); a directory elsewhere must exist.

use rustix::fs::{Mode as CreateMode, OFlags};
use std::path::{Component, PathBuf};
use std::sync::Arc;

use crate::grant::Grant;
use crate::grant::front_end::FrontEnd;
use crate::grant::mount::{Mode, Mount};

/// Why a grant cannot be turned into something that enforces it.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
/// // A file has come where the default zones are to be.
/// std::fs::write(dir.path().join(".sandbox"), "a file").unwrap();
/// # #[cfg(feature = "files")] {
/// let error = project.ceiling().files(cap_std::ambient_authority()).unwrap_err();
/// assert_eq!(error.to_string(), "cannot open /cache: it is not a directory");
/// assert!(error.for_person().contains(".sandbox/cache"));
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{}{why}", self.prefix())]
pub struct GrantError {
    pub(crate) target: String,
    pub(crate) why: String,
    pub(crate) host: Option<PathBuf>,
    /// The setting that names the directory.
    pub(crate) origin: Option<String>,
}

impl GrantError {
    pub(crate) fn new(target: &str, why: impl Into<String>) -> GrantError {
        GrantError {
            target: target.to_owned(),
            why: why.into(),
            host: None,
            origin: None,
        }
    }

    pub(crate) fn of(mount: &Mount, why: &str) -> GrantError {
        let at = mount.declared_at();
        GrantError {
            host: Some(mount.host().to_path_buf()),
            origin: at.name().map(|_| at.to_string()),
            ..GrantError::new(&mount.target, why)
        }
    }

    /// Returns the beginning of the message; nothing for an error about no directory.
    fn prefix(&self) -> String {
        match self.target.as_str() {
            "" => String::new(),
            target => format!("cannot open {target}: "),
        }
    }

    /// In the spelling of a front-end.
    pub(crate) fn shown_by(mut self, front: FrontEnd) -> GrantError {
        if self.target.starts_with('/') {
            self.target = front.show(&self.target);
        }
        self
    }

    /// The sandbox path of the mount that is the matter; empty if none is.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// With the host path and the setting that names it, for people; `Display` is without them, for
    /// models.
    #[must_use]
    pub fn for_person(&self) -> String {
        match self.host_path() {
            Some(path) => format!("{self} ({path})"),
            None => self.to_string(),
        }
    }

    /// Returns the host path and the setting that names it, for people.
    #[must_use]
    pub fn host_path(&self) -> Option<String> {
        let host = self.host.as_ref()?.display();
        Some(match &self.origin {
            Some(origin) => format!("{host}, by {origin}"),
            None => host.to_string(),
        })
    }
}

impl Grant {
    /// Returns this grant for a command that has an overlay, or a copy, in the place of each of
    /// [`Grant::staged_dirs`]: it may write there.
    #[must_use]
    pub fn staged_in_overlays(&self) -> Grant {
        let mut grant = self.clone();
        for mount in Arc::make_mut(&mut grant.mounts) {
            mount.staged = false;
        }
        grant
    }

    /// Returns those of [`Grant::writable_dirs`] in which changes wait for a review (`mode: staged`).
    ///
    /// # Errors
    /// A directory cannot be opened.
    pub fn staged_dirs(&self) -> Result<Vec<PathBuf>, GrantError> {
        self.outermost_dirs(|mount| mount.staged)
    }

    /// Returns the directories of the host that this grant, or one that it passes on, can change:
    /// the outermost ones, each once. Those that are missing are made, as for a mount that is
    /// opened. The own directory of a run is none of them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::write(dir.path().join("golem-forge.config.yaml"), "sandbox: { root: . }\n").unwrap();
    /// use sandbox_config::{load, Sources};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// assert_eq!(project.ceiling().writable_dirs().unwrap(), [project.dir()]);
    /// assert!(project.ceiling().read_only().writable_dirs().unwrap().is_empty());
    /// ```
    ///
    /// # Errors
    /// A directory cannot be opened.
    pub fn writable_dirs(&self) -> Result<Vec<PathBuf>, GrantError> {
        self.outermost_dirs(|_| true)
    }

    fn outermost_dirs(
        &self,
        is_chosen: impl Fn(&Mount) -> bool,
    ) -> Result<Vec<PathBuf>, GrantError> {
        let pool = self.pool.iter().flat_map(|pool| pool.iter());
        let mut dirs: Vec<PathBuf> = Vec::new();
        for mount in self.mounts.iter().chain(pool) {
            if mount.mode == Mode::ReadWrite && !mount.awaits_run() && is_chosen(mount) {
                ensure(mount).map_err(|error| error.shown_by(self.front))?;
                dirs.push(mount.host.clone());
            }
        }
        // A path comes after those around it.
        dirs.sort();
        let mut outermost: Vec<PathBuf> = Vec::new();
        for dir in dirs {
            if !outermost.iter().any(|outer| dir.starts_with(outer)) {
                outermost.push(dir);
            }
        }
        Ok(outermost)
    }
}

/// See that the host directory of a mount is there.
pub(crate) fn ensure(mount: &Mount) -> Result<(), GrantError> {
    let refuse = |why: &str| GrantError::of(mount, why);
    if mount.awaits_run() {
        return Err(refuse("it is a run's own directory, and this is not a run"));
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = rustix::fs::open(&mount.anchor, flags, CreateMode::empty())
        .map_err(|error| refuse(why(error)))?;
    let below = mount
        .host
        .strip_prefix(&mount.anchor)
        .map_err(|_| refuse("its directory has moved"))?;
    for component in below.components() {
        let Component::Normal(name) = component else {
            return Err(refuse("its directory cannot be opened"));
        };
        if mount.create {
            match rustix::fs::mkdirat(&dir, name, CreateMode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(refuse(why(error))),
            }
        }
        dir = rustix::fs::openat(&dir, name, flags, CreateMode::empty())
            .map_err(|error| refuse(why(error)))?;
    }
    // A part that a worker asks for is never made: only a worker that holds the whole may do that.
    for name in mount.part_names() {
        dir = rustix::fs::openat(&dir, name, flags, CreateMode::empty())
            .map_err(|error| refuse(why(error)))?;
    }
    Ok(())
}

fn why(error: rustix::io::Errno) -> &'static str {
    match error {
        rustix::io::Errno::NOENT => "its directory does not exist",
        // O_NOFOLLOW with O_DIRECTORY: Linux answers ENOTDIR for a link, others ELOOP.
        rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP => "it is not a directory",
        rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => "its directory may not be opened",
        _ => "its directory cannot be opened",
    }
}
