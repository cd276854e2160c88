//! Records of the files that scans moved to quarantines, in the state directory: a command, or a file tool,
//! can write a directory that looks like a quarantine, and under Landlock alone in a real one.
//!
//! Entry point: [`QuarantineRecords`]. A line has the path on the host and a hash of the content.

use super::state::{candidates, options};
use crate::key_files::content_of;
use crate::quarantine::QuarantineState;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use sandbox_names::{hex, unhex};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The directory of these records.
const DIRECTORY: &str = "quarantines";
/// Bound on the entries of one hash.
const MAX_ENTRIES: usize = 10_000;
/// Bound on the content of one hash.
const MAX_CONTENT_BYTES: u64 = 64 << 20;
/// Bound on one record.
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// The records of the files in quarantines.
///
/// ```
/// use os_sandbox::{QuarantineRecords, QuarantineState};
/// let records = QuarantineRecords::read();
/// let path = "/work/.os-sandbox-quarantine/1-2-3/x";
/// assert_eq!(records.state_of(path.as_ref()), QuarantineState::Unknown);
/// ```
#[derive(Debug, Default)]
pub struct QuarantineRecords {
    hashes: HashMap<PathBuf, String>,
    /// The recorded paths that were compared, with `true` for those that are as they were.
    compared: RefCell<HashMap<PathBuf, bool>>,
}

impl QuarantineRecords {
    /// Reads the records of this user. One that cannot be read is left out.
    #[must_use]
    pub fn read() -> QuarantineRecords {
        QuarantineRecords::of(candidates(None))
    }

    /// Reads the records in state directories.
    pub(super) fn of(states: impl IntoIterator<Item = PathBuf>) -> QuarantineRecords {
        let mut all = HashMap::new();
        for directory in states {
            let is_own = |path: &Path| {
                let meta = path.symlink_metadata();
                meta.is_ok_and(|meta| {
                    meta.is_dir() && meta.uid() == geteuid().as_raw() && meta.mode() & 0o077 == 0
                })
            };
            let records = directory.join(DIRECTORY);
            if !is_own(&directory) || !is_own(&records) {
                continue;
            }
            for record in fs::read_dir(records).into_iter().flatten().flatten() {
                all.extend(lines(&record.path()));
            }
        }
        QuarantineRecords {
            hashes: all,
            compared: RefCell::default(),
        }
    }

    /// Compares a path of a quarantine on the host with the file that a scan moved there. A part of one that was
    /// moved is known as long as nothing of the whole was changed.
    #[must_use]
    pub fn state_of(&self, path: &Path) -> QuarantineState {
        let mut around = path.ancestors();
        let Some((one, was)) = around.find_map(|one| Some((one, self.hashes.get(one)?))) else {
            return QuarantineState::Unknown;
        };
        let mut compared = self.compared.borrow_mut();
        let known = compared.entry(one.to_owned());
        match *known.or_insert_with(|| *was == fingerprint(one)) {
            true => QuarantineState::Unchanged,
            false if one == path => QuarantineState::Changed,
            false => QuarantineState::Unknown,
        }
    }
}

impl QuarantineRecords {
    /// Returns `true` for a directory of a quarantine with nothing in it but files that scans have moved
    /// there: the directories around that are not recorded.
    pub(super) fn has_only_recorded(&self, path: &Path) -> bool {
        let mut entries = 0;
        let mut queue = vec![path.to_owned()];
        while let Some(path) = queue.pop() {
            entries += 1;
            let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
            let is_around = is_dir && self.hashes.keys().any(|one| one.starts_with(&path));
            let is_listed = match (self.state_of(&path), is_around) {
                (QuarantineState::Unchanged, _) => continue,
                (QuarantineState::Unknown, true) => fs::read_dir(&path),
                _ => return false,
            };
            let Ok(listed) = is_listed else { return false };
            queue.extend(listed.flatten().map(|entry| entry.path()));
            if entries + queue.len() > MAX_ENTRIES {
                return false;
            }
        }
        true
    }
}

fn lines(record: &Path) -> Vec<(PathBuf, String)> {
    let file = options().open(record).ok();
    let text = file.and_then(|file| content_of(file, MAX_RECORD_BYTES));
    let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
    let line = |line: &str| {
        let (path, hash) = line.split_once(' ')?;
        Some((OsString::from_vec(unhex(path)?).into(), hash.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// Forgets records of files that are gone.
pub(super) fn clear(state: &Path) {
    for record in fs::read_dir(state.join(DIRECTORY))
        .into_iter()
        .flatten()
        .flatten()
    {
        let mut lines = lines(&record.path()).into_iter();
        if !lines.any(|(path, _)| path.symlink_metadata().is_ok()) {
            let _ = fs::remove_file(record.path());
        }
    }
}

/// Records a file that a scan has just moved: another scan may find it at any moment. Without a record
/// a person has to name it to get it back.
pub(super) fn append(state: &Path, id: &str, moved: &Path) {
    let directory = state.join(DIRECTORY);
    let _ = DirBuilder::new().mode(0o700).create(&directory);
    let name = hex(moved.as_os_str().as_bytes());
    let line = format!("{name} {}\n", fingerprint(moved));
    // Another mount of this command has that name too.
    let written = options().create(true).append(true).open(directory.join(id));
    let _ = written.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// Returns a hash of names, kinds, modes and contents; a rename does not change it. Beyond the
/// bounds it leaves out the rest.
fn fingerprint(path: &Path) -> String {
    let mut hash = Sha256::new();
    let (mut entries, mut room) = (0, MAX_CONTENT_BYTES);
    let mut queue = vec![path.to_owned()];
    while let Some(path) = queue.pop() {
        entries += 1;
        let Ok(meta) = path.symlink_metadata() else {
            hash.update(b"absent\n");
            continue;
        };
        let name = hex(path.file_name().unwrap_or_default().as_bytes());
        hash.update(format!("{name} {:o} {}\n", meta.mode(), meta.uid()));
        if meta.is_dir() {
            let names = fs::read_dir(&path).into_iter().flatten().flatten();
            let mut names: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
            names.sort();
            hash.update(format!("{}\n", names.len()));
            names.truncate(MAX_ENTRIES.saturating_sub(entries + queue.len()));
            queue.extend(names);
        } else if meta.is_symlink() {
            let text = path.read_link().unwrap_or_default();
            hash.update(hex(text.as_os_str().as_bytes()));
        } else if meta.is_file() {
            hash.update(format!("{}\n", meta.len()));
            if let Some(left) = room.checked_sub(meta.len())
                && let Some(content) = content(&path, meta.len())
            {
                room = left;
                hash.update(content);
            }
        }
    }
    hex(hash.finalize())
}

fn content(path: &Path, most: u64) -> Option<Vec<u8>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags.bits()).open(path);
    content_of(file.ok()?, most)
}
