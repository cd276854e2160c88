//! Records of the files that scans moved to quarantines, in the state directory: a command, or a file tool,
//! can write a directory that looks like a quarantine, and under Landlock alone in a real one.
//!
//! Entry point: [`QuarantineRecords`]. A line has the path on the host, a hash of the content, and the
//! name that a file had, if it is still in its own directory.

use super::state::{candidates, options};
use crate::key_files::content_of;
use crate::quarantine::QuarantineState;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use sandbox_names::{hex, unhex};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
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
    files: HashMap<PathBuf, RecordedFile>,
    /// The recorded paths that were compared, with `true` for those that are as they were.
    compared: RefCell<HashMap<PathBuf, bool>>,
}

/// A file that a scan moved.
#[derive(Debug)]
struct RecordedFile {
    hash: String,
    /// Its name before, if it is in its own directory.
    name: Option<OsString>,
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
                    meta.is_dir() && meta.uid() == geteuid().as_raw() && meta.mode() & 0o022 == 0
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
            files: all,
            compared: RefCell::default(),
        }
    }

    /// Compares a path of a quarantine on the host with the file that a scan moved there. A part of one that was
    /// moved is known as long as nothing of the whole was changed.
    #[must_use]
    pub fn state_of(&self, path: &Path) -> QuarantineState {
        let mut around = path.ancestors();
        let Some((one, was)) = around.find_map(|one| Some((one, self.files.get(one)?))) else {
            return QuarantineState::Unknown;
        };
        let mut compared = self.compared.borrow_mut();
        let known = compared.entry(one.to_owned());
        match *known.or_insert_with(|| was.hash == fingerprint(one)) {
            true => QuarantineState::Unchanged,
            false if one == path => QuarantineState::Changed,
            false => QuarantineState::Unknown,
        }
    }

    /// Returns the files below a directory that a scan renamed where they are, because it could not move
    /// them to the quarantine: their paths, and the names that they had.
    pub fn renamed_below<'a>(
        &'a self,
        top: &'a Path,
    ) -> impl Iterator<Item = (&'a Path, &'a OsStr)> {
        let files = self.files.iter();
        let files = files.filter_map(|(path, file)| Some((path.as_path(), file.name.as_deref()?)));
        files.filter(move |(path, _)| path.starts_with(top))
    }

    /// Returns `true` for a directory of a quarantine with nothing in it but files that scans have moved
    /// there: the directories around that are not recorded.
    pub(super) fn has_only_recorded(&self, path: &Path) -> bool {
        let mut entries = 0;
        let mut queue = vec![path.to_owned()];
        while let Some(path) = queue.pop() {
            entries += 1;
            let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
            let is_around = is_dir && self.files.keys().any(|one| one.starts_with(&path));
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

fn lines(record: &Path) -> Vec<(PathBuf, RecordedFile)> {
    let file = options().open(record).ok();
    let text = file.and_then(|file| content_of(file, MAX_RECORD_BYTES));
    let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
    let line = |line: &str| {
        let mut words = line.split(' ');
        let path = OsString::from_vec(unhex(words.next()?)?);
        let hash = words.next()?.to_owned();
        let name = words.next().and_then(unhex).map(OsString::from_vec);
        Some((path.into(), RecordedFile { hash, name }))
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
/// a person has to name it to get it back. `name`: its name before, if it is in its own directory.
pub(super) fn append(state: &Path, id: &str, moved: &Path, name: Option<&OsStr>) {
    let directory = state.join(DIRECTORY);
    let _ = DirBuilder::new().mode(0o700).create(&directory);
    let path = hex(moved.as_os_str().as_bytes());
    let name = name.map(|name| format!(" {}", hex(name.as_bytes())));
    let line = format!(
        "{path} {}{}\n",
        fingerprint(moved),
        name.unwrap_or_default()
    );
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
