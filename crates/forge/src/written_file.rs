//! Files that the person names and forge writes. A command may be able to write there, so no link on the
//! way leads out of the directory that forge was started in.
//!
//! Entry points: [`WrittenFile`] for one that is written whole, beside it first, then renamed over it, so
//! that a reader sees the old one or the new one; [`open_plain`] for one that is written bit by bit.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path};
use std::time::SystemTime;

use file_sandbox::cap_std::fs::MetadataExt as _;
use file_sandbox::cap_std::{ambient_authority, fs as cap};
use rustix::fs::OFlags;

/// The place of the file.
pub(crate) struct WrittenFile {
    pub(crate) directory: cap::Dir,
    pub(crate) name: OsString,
}

impl WrittenFile {
    /// Opens the directory of the file.
    ///
    /// # Errors
    /// If it does not exist, or something other than a file is at the path.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = path.file_name().map(OsStr::to_owned);
        let name = name.ok_or_else(|| Error::from(ErrorKind::IsADirectory))?;
        let around = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            Some(_) | None => Path::new("."),
        };
        let directory = match below_here(around)? {
            Some((here, below)) if below.as_os_str().is_empty() => here,
            Some((here, below)) => here.open_dir(below)?,
            None => cap::Dir::open_ambient_dir(around, ambient_authority())?,
        };
        WrittenFile::open_in(directory, name)
    }

    /// Takes a file of an open directory.
    ///
    /// # Errors
    /// If something other than a file is there.
    pub(crate) fn open_in(directory: cap::Dir, name: OsString) -> Result<Self> {
        match directory.symlink_metadata(&name) {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Err(Error::other("it is not a file")),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(WrittenFile { directory, name })
    }

    /// Writes the file. Returns its device and inode.
    pub(crate) fn replace(&self, text: &[u8]) -> Result<(u64, u64)> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let unique = since.map_or(0, |since| since.as_nanos());
        let beside = format!(".forge-tmp-{}-{unique}", std::process::id());
        let mut options = cap::OpenOptions::new();
        options.write(true).create_new(true);
        let mut file = self.directory.open_with(&beside, &options)?;
        let written = file.write_all(text).and_then(|()| {
            file.sync_all()?;
            let found = file.metadata()?;
            self.directory
                .rename(&beside, &self.directory, &self.name)?;
            Ok((found.dev(), found.ino()))
        });
        if written.is_err() {
            // Perhaps it is not even there.
            let _ = self.directory.remove_file(&beside);
        }
        written
    }
}

/// Opens a file to write into it from its beginning. No link on the way leads out of the directory that
/// forge was started in, and none at the end is followed.
pub(crate) fn open_plain(path: &Path) -> Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let opened = match below_here(path)? {
        Some((here, below)) => {
            let mut options = cap::OpenOptions::new();
            options.write(true).create(true).truncate(true);
            cap::OpenOptionsExt::custom_flags(&mut options, flags);
            here.open_with(below, &options)?.into_std()
        }
        None => OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(flags)
            .open(path)?,
    };
    if !opened.metadata()?.is_file() {
        return Err(Error::other("it is not a file"));
    }
    Ok(opened)
}

/// Returns the directory that forge was started in, and the path from there. `None` for a path that the
/// person leads elsewhere.
fn below_here(path: &Path) -> Result<Option<(cap::Dir, &Path)>> {
    let here = std::env::current_dir()?;
    let below = match path.is_relative() {
        true => Some(path),
        false => path.strip_prefix(&here).ok(),
    };
    let climbs = |path: &Path| path.components().any(|part| part == Component::ParentDir);
    let Some(below) = below.filter(|path| !climbs(path)) else {
        return Ok(None);
    };
    let here = cap::Dir::open_ambient_dir(&here, ambient_authority())?;
    Ok(Some((here, below)))
}
