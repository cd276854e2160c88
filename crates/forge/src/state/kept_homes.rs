//! The home directories that are kept for the commands of projects, as a collection: their list, use
//! and bounds. Each has a record beside it, whose lock a running command holds.
//!
//! One lock for all of them is held while links in a home directory change, and while one is created
//! or removed. So two commands never see a half of each other's changes.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{Error, ErrorKind, Read as _, Result, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sandbox_config::PersonalRules;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::state::kept_home::KeptHome;
use crate::state::private_dirs::{is_private, lock, make_private};
use crate::state::remove_contents::{RemovalReport, remove_contents};

/// Most home directories that are kept.
pub(crate) const MAX_HOMES: usize = 256;
/// Largest total size of the files of one home directory at the start of a command, in bytes.
pub(crate) const MAX_HOME_BYTES: u64 = 16 << 30;
/// A home directory is measured again after this time, and before each command above the bound.
const MEASUREMENT_AGE: Duration = Duration::from_secs(3600);
/// Bound on the size of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 64 * 1024;

/// Directory of the home directories, in the state directory.
const HOMES: &str = "homes";
/// Directory of their records.
const RECORDS: &str = "home-records";
/// The lock of all of them.
const LOCK: &str = "homes.lock";
/// Beginning of the names of home directories that are being removed.
const REMOVING: &str = ".removing-";

/// The home directories of a state directory.
#[derive(Debug)]
pub(crate) struct KeptHomes {
    state: PathBuf,
}

/// The commands that have one home directory. Those with a login or keys of the person's do not
/// share it with others, which could leave programs and settings there that run with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HomeOwner<'a> {
    pub(crate) project: &'a Path,
    /// The presets with state or keys of the person's.
    pub(crate) presets: Vec<&'a str>,
    /// `true` if the person shares them.
    pub(crate) shares: bool,
}

/// Before each preset in the name of a home directory. No preset's name has it.
const OF_PRESET: &str = "+";
/// Longest names of presets in the name of a home directory, in bytes. Of more it has the hash: a name
/// of the file system has at most 255.
const MAX_PRESET_NAMES: usize = 120;
/// The end of the name if the person shares state or keys.
const SHARED: &str = "=shared";

impl HomeOwner<'_> {
    fn name(&self) -> String {
        let mut presets = self.presets.clone();
        presets.sort_unstable();
        presets.dedup();
        let mut names: String = presets
            .iter()
            .flat_map(|preset| [OF_PRESET, preset])
            .collect();
        if names.len() > MAX_PRESET_NAMES {
            names = format!("{OF_PRESET}{}", sandbox_names::hex(Sha256::digest(&names)));
        }
        let shared = match self.shares && !presets.is_empty() {
            true => SHARED,
            false => "",
        };
        format!("{}{names}{shared}", home_name(self.project))
    }
}

/// The facts about a home directory, as its record has them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct HomeRecord {
    #[serde(default)]
    project: Option<PathBuf>,
    /// Seconds since 1970.
    #[serde(default)]
    measured_at: u64,
    #[serde(default)]
    bytes: u64,
}

/// A home directory in a list.
#[derive(Debug)]
pub(crate) struct HomeListing {
    pub(crate) name: String,
    /// `None` if an earlier version of forge created it.
    pub(crate) project: Option<PathBuf>,
    pub(crate) path: PathBuf,
    pub(crate) last_used: SystemTime,
    pub(crate) in_use: bool,
}

impl HomeListing {
    /// Returns the presets that it is for, and whether the person shares state with them.
    pub(crate) fn owners(&self) -> (Vec<&str>, bool) {
        let (name, shares) = match self.name.strip_suffix(SHARED) {
            Some(name) => (name, true),
            None => (self.name.as_str(), false),
        };
        let base = self.project.as_deref().map(home_name);
        let presets = base
            .and_then(|base| name.strip_prefix(&base))
            .unwrap_or_default();
        let presets = presets.split(OF_PRESET).filter(|name| !name.is_empty());
        (presets.collect(), shares)
    }

    /// Returns the files in it, with their total size. It reads the whole directory.
    pub(crate) fn measure(&self) -> Result<RemovalReport> {
        match KeptHome::open(self.path.clone()) {
            Ok(home) => home.measure(),
            // Another forge removed it in the meantime.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(RemovalReport::default()),
            Err(error) => Err(error),
        }
    }
}

/// A home directory while a command uses it. It is not removed, and its links do not change.
#[derive(Debug)]
pub(crate) struct HomeLease {
    _record: File,
}

/// The record of a home directory, open and without a lock.
#[derive(Debug)]
struct OpenRecord {
    file: File,
    content: HomeRecord,
}

impl KeptHomes {
    pub(crate) fn in_state(state: &Path) -> KeptHomes {
        KeptHomes {
            state: state.to_owned(),
        }
    }

    fn lock(&self) -> Result<File> {
        lock(&self.state, &self.state.join(LOCK))
    }

    /// Creates the home directory if it is absent, and leases it. `has_changes` looks whether its
    /// links must change, and `change` changes them: only while no other command uses it.
    pub(crate) fn lease(
        &self,
        owner: &HomeOwner<'_>,
        has_changes: impl FnOnce(&KeptHome) -> Result<bool>,
        change: impl FnOnce(&KeptHome) -> Result<()>,
    ) -> Result<(PathBuf, HomeLease)> {
        let name = owner.name();
        let all = self.lock()?;
        let path = make_private(&self.state, Path::new(HOMES))?.join(&name);
        if path.symlink_metadata().is_err() && self.names()?.len() >= MAX_HOMES {
            return Err(Error::other(format!(
                "{MAX_HOMES} are kept already, which is the most: see them with `forge preset home \
                 list`, remove some with `forge preset home remove`"
            )));
        }
        close_to_others(&path)?;
        let path = make_private(&self.state, &Path::new(HOMES).join(&name))?.canonicalize()?;
        let home = KeptHome::open(path)?;
        let mut record = self.record(&name)?;
        if has_changes(&home)? {
            match record.file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(in_use_otherwise()),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        change(&home)?;
        // The lock of all keeps others from this lock between the two calls.
        record.file.lock_shared()?;
        record.content.project = Some(owner.project.to_owned());
        record.write()?;
        drop(all);
        self.check_size(&mut record, &home)?;
        let lease = HomeLease {
            _record: record.file,
        };
        Ok((home.path().to_owned(), lease))
    }

    /// Refuses a home directory above the bound.
    fn check_size(&self, record: &mut OpenRecord, home: &KeptHome) -> Result<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        let content = &record.content;
        let is_recent = now.abs_diff(content.measured_at) < MEASUREMENT_AGE.as_secs();
        if is_recent && content.bytes <= MAX_HOME_BYTES {
            return Ok(());
        }
        let bytes = home.measure()?.bytes;
        record.content.measured_at = now;
        record.content.bytes = bytes;
        let _all = self.lock()?;
        record.write()?;
        if bytes <= MAX_HOME_BYTES {
            return Ok(());
        }
        Err(Error::other(format!(
            "it has {bytes} bytes, and the most is {MAX_HOME_BYTES}: remove it with `forge preset home \
             remove`, or files in it"
        )))
    }

    /// Returns the home directories, the one that was used last first.
    pub(crate) fn list(&self) -> Result<Vec<HomeListing>> {
        let mut list = Vec::new();
        for name in self.names()? {
            let path = self.state.join(HOMES).join(&name);
            close_to_others(&path)?;
            let _all = self.lock()?;
            let Ok(directory) = path.symlink_metadata() else {
                continue;
            };
            let record = self.record(&name)?;
            let project = record.content.project.clone();
            let used = match &project {
                Some(_) => record.file.metadata()?,
                None => directory,
            };
            list.push(HomeListing {
                project,
                last_used: used.modified()?,
                in_use: record.is_in_use()?,
                path,
                name,
            });
        }
        list.sort_by(|a, b| (b.last_used, &b.name).cmp(&(a.last_used, &a.name)));
        Ok(list)
    }

    /// Removes a home directory. `None` if a command uses it.
    pub(crate) fn remove(&self, name: &str) -> Result<Option<RemovalReport>> {
        let homes = self.state.join(HOMES);
        let all = self.lock()?;
        let record = self.record(name)?;
        if record.is_in_use()? {
            return Ok(None);
        }
        let aside = homes.join(format!("{REMOVING}{name}"));
        // Of a forge that was killed.
        remove_directory(&aside)?;
        std::fs::rename(homes.join(name), &aside)?;
        std::fs::remove_file(self.record_path(name))?;
        drop(all);
        remove_directory(&aside).map(Some)
    }

    /// Removes home directories whose removal was interrupted.
    pub(crate) fn finish_removals(&self) -> Result<()> {
        let _all = self.lock()?;
        for name in self.entries()? {
            if name.starts_with(REMOVING) {
                remove_directory(&self.state.join(HOMES).join(name))?;
            }
        }
        Ok(())
    }

    /// Returns the names of the home directories.
    fn names(&self) -> Result<Vec<String>> {
        let mut names = self.entries()?;
        names.retain(|name| !name.starts_with('.'));
        Ok(names)
    }

    fn entries(&self) -> Result<Vec<String>> {
        let homes = self.state.join(HOMES);
        match is_private(&homes) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            checked => checked?,
        }
        let mut names = Vec::new();
        for entry in homes.read_dir()? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn record_path(&self, name: &str) -> PathBuf {
        self.state.join(RECORDS).join(name)
    }

    /// Opens the record of a home directory. The caller holds the lock of all.
    fn record(&self, name: &str) -> Result<OpenRecord> {
        make_private(&self.state, Path::new(RECORDS))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).open(self.record_path(name))?;
        let mut text = Vec::new();
        (&mut file).take(MAX_RECORD_BYTES).read_to_end(&mut text)?;
        // A record that a kill left half written counts as empty.
        let content = serde_json::from_slice(&text).unwrap_or_default();
        Ok(OpenRecord { file, content })
    }
}

impl OpenRecord {
    fn write(&mut self) -> Result<()> {
        let text = serde_json::to_vec(&self.content)?;
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(&text)
    }

    /// `true` if a command uses the home directory.
    fn is_in_use(&self) -> Result<bool> {
        match self.file.try_lock() {
            Ok(()) => self.file.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Returns the name of a project's home directory, without presets.
fn home_name(project: &Path) -> String {
    let name = PersonalRules::file_name(project);
    name.strip_suffix(".rules").unwrap_or(&name).to_owned()
}

fn in_use_otherwise() -> Error {
    Error::new(
        ErrorKind::ResourceBusy,
        "another command uses it and shares something else: end that one first, or share the same",
    )
}

/// Gives a home directory the mode that commands may have taken from it. Nobody else reaches it: the
/// directory above is closed to others.
fn close_to_others(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() && found.mode() & 0o777 != 0o700 => {
            std::fs::set_permissions(path, Permissions::from_mode(0o700))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes a directory with everything in it. It is fine if it is absent.
fn remove_directory(path: &Path) -> Result<RemovalReport> {
    close_to_others(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(RemovalReport::default()),
        opened => opened?,
    };
    let report = remove_contents(&directory, false)?;
    if report.left_count == 0 {
        std::fs::remove_dir(path)?;
    }
    Ok(report)
}
