//! Creates the host directories of mounts before they are used. A missing directory inside the
//! project is made, one step at a time on open directories and through no link (mkdirat(2),
//! openat(2) with O_NOFOLLOW); a directory elsewhere must exist.

use rustix::fs::{Mode, OFlags};
use std::path::Component;

use crate::grant::front_end::FrontEnd;
use crate::grant::mount::Mount;

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
#[error("cannot open {target}: {why}")]
pub struct GrantError {
    pub(crate) target: String,
    pub(crate) why: String,
    pub(crate) host: Option<std::path::PathBuf>,
}

impl GrantError {
    pub(crate) fn of(mount: &Mount, why: &str) -> GrantError {
        GrantError {
            target: mount.target.clone(),
            why: why.to_owned(),
            host: Some(mount.host().to_path_buf()),
        }
    }

    /// In the spelling of a front-end.
    pub(crate) fn shown_by(mut self, front: FrontEnd) -> GrantError {
        if self.target.starts_with('/') {
            self.target = front.show(&self.target);
        }
        self
    }

    /// The sandbox path of the mount that is the matter.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// With the host path, for people; `Display` is without it, for models.
    #[must_use]
    pub fn for_person(&self) -> String {
        match &self.host {
            Some(host) => format!("{self} ({})", host.display()),
            None => self.to_string(),
        }
    }
}

/// See that the host directory of a mount is there.
pub(crate) fn ensure(mount: &Mount) -> Result<(), GrantError> {
    let refuse = |why: &str| GrantError::of(mount, why);
    if mount.awaits_run() {
        return Err(refuse("it is a run's own directory, and this is not a run"));
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = rustix::fs::open(&mount.anchor, flags, Mode::empty())
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
            match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(refuse(why(error))),
            }
        }
        dir = rustix::fs::openat(&dir, name, flags, Mode::empty())
            .map_err(|error| refuse(why(error)))?;
    }
    // A part that a worker asks for is never made: only a worker that holds the whole may do that.
    for name in mount.part_names() {
        dir = rustix::fs::openat(&dir, name, flags, Mode::empty())
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
