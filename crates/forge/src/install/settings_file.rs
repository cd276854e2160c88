//! A file of another program, read and replaced as a whole. All access goes through directory
//! handles, and no link is followed below the base directory (the home, the project): a link there
//! leads to a file that the user did not name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, Mode, OFlags, fchmod, linkat, mkdirat, open, openat, readlinkat, renameat, unlinkat,
};
use rustix::io::Errno;

use super::clients::{Scope, SettingsPath};

/// Settings that are larger are something else.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// A file that may not be there yet.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    base: PathBuf,
    dirs: Vec<OsString>,
    name: OsString,
    /// The permissions of new files and directories.
    scope: Scope,
}

/// The present content.
#[derive(Debug)]
pub(crate) struct SettingsText {
    pub(crate) text: String,
    mode: Mode,
}

/// The error of reading or writing a file.
#[derive(Debug)]
pub(crate) enum SettingsFileError {
    /// A link, and where it leads.
    Link {
        at: PathBuf,
        to: PathBuf,
    },
    /// It changed between reading and writing.
    Changed,
    Io(Error),
}

impl From<Errno> for SettingsFileError {
    fn from(error: Errno) -> Self {
        SettingsFileError::Io(error.into())
    }
}

impl From<Error> for SettingsFileError {
    fn from(error: Error) -> Self {
        SettingsFileError::Io(error)
    }
}

fn refused<T>(what: impl Into<String>) -> Result<T, SettingsFileError> {
    Err(SettingsFileError::Io(Error::new(
        ErrorKind::InvalidInput,
        what.into(),
    )))
}

impl SettingsFile {
    /// `None` if it is not a path to a file below `base`.
    pub(crate) fn new(place: SettingsPath, scope: Scope) -> Option<Self> {
        let mut dirs = Vec::new();
        for component in place.below.components() {
            match component {
                Component::Normal(name) => dirs.push(name.to_owned()),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
            }
        }
        let name = dirs.pop()?;
        Some(SettingsFile {
            base: place.base,
            dirs,
            name,
            scope,
        })
    }

    pub(crate) fn path(&self) -> PathBuf {
        let mut path = self.base.clone();
        path.extend(&self.dirs);
        path.push(&self.name);
        path
    }

    /// Returns the present text; `None` if the file does not exist.
    pub(crate) fn read(&self) -> Result<Option<SettingsText>, SettingsFileError> {
        match self.dir(false)? {
            Some(dir) => self.read_in(&dir),
            None => Ok(None),
        }
    }

    /// Replaces the text that was `found` with `text`, atomically.
    pub(crate) fn write(
        &self,
        found: Option<&SettingsText>,
        text: &str,
    ) -> Result<(), SettingsFileError> {
        let Some(dir) = self.dir(true)? else {
            return Err(Errno::NOENT.into());
        };
        let mut beside = OsString::from(".");
        beside.push(&self.name);
        beside.push(format!(".forge-{}", std::process::id()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(
            &dir,
            &beside,
            flags | OFlags::NOFOLLOW,
            Mode::RUSR | Mode::WUSR,
        )?;
        let put = self.put(&dir, &beside, file.into(), found, text);
        // Gone already if it was renamed.
        let _ = unlinkat(&dir, &beside, AtFlags::empty());
        put
    }

    fn put(
        &self,
        dir: &OwnedFd,
        beside: &OsStr,
        mut file: File,
        found: Option<&SettingsText>,
        text: &str,
    ) -> Result<(), SettingsFileError> {
        file.write_all(text.as_bytes())?;
        let mode = match (found, self.scope) {
            (Some(found), _) => found.mode,
            // Others' secrets come to stand in it.
            (None, Scope::User) => Mode::RUSR | Mode::WUSR,
            (None, Scope::Project) => Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH,
        };
        fchmod(&file, mode)?;
        file.sync_all()?;
        match found {
            None => match linkat(dir, beside, dir, &self.name, AtFlags::empty()) {
                Err(Errno::EXIST) => Err(SettingsFileError::Changed),
                linked => Ok(linked?),
            },
            Some(found) => {
                let now = self.read_in(dir)?;
                if now.is_none_or(|now| now.text != found.text) {
                    return Err(SettingsFileError::Changed);
                }
                Ok(renameat(dir, beside, dir, &self.name)?)
            }
        }
    }

    /// Opens the directory of the file. `None` if it does not exist and `make` is not set.
    fn dir(&self, make: bool) -> Result<Option<OwnedFd>, SettingsFileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut dir = match open(&self.base, flags, Mode::empty()) {
            Err(Errno::NOENT) if !make => return Ok(None),
            opened => opened?,
        };
        let mut way = self.base.clone();
        for name in &self.dirs {
            way.push(name);
            if make {
                let mode = match self.scope {
                    Scope::User => Mode::RWXU,
                    Scope::Project => Mode::from_raw_mode(0o755),
                };
                match mkdirat(&dir, name, mode) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            dir = match openat(&dir, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) if !make => return Ok(None),
                Err(error) => return Err(self.why(&dir, name, &way, error)),
            };
        }
        Ok(Some(dir))
    }

    fn read_in(&self, dir: &OwnedFd) -> Result<Option<SettingsText>, SettingsFileError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match openat(dir, &self.name, flags | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.why(dir, &self.name, &self.path(), error)),
        };
        let stat = rustix::fs::fstat(&file)?;
        if !file.metadata()?.is_file() {
            return refused("not a regular file");
        }
        // A file that is put in its place would be ours.
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return refused(format!("it belongs to another user (uid {})", stat.st_uid));
        }
        let mut text = String::new();
        file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_BYTES {
            return refused(format!("it is larger than {MAX_BYTES} bytes"));
        }
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        Ok(Some(SettingsText { text, mode }))
    }

    /// Returns the error; the several errors of a link become one.
    fn why(&self, dir: &OwnedFd, name: &OsStr, at: &Path, error: Errno) -> SettingsFileError {
        use std::os::unix::ffi::OsStringExt as _;
        match readlinkat(dir, name, Vec::new()) {
            Ok(to) => {
                let to = PathBuf::from(OsString::from_vec(to.into_bytes()));
                let from = at.parent().unwrap_or(&self.base);
                SettingsFileError::Link {
                    at: at.to_owned(),
                    to: from.join(to),
                }
            }
            Err(_) => error.into(),
        }
    }
}
