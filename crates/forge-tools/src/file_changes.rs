//! The changes of a command in the worker's directories, found by a snapshot before it starts and
//! another after it has ended.
//!
//! The kernel does not report the writes of a process tree, and a watcher would miss files made in
//! a directory before it is watched. So two snapshots are compared: names, sizes, and the times
//! that cannot be set (of the last change of any kind). Both are bounded; where a bound is met the
//! record says so instead of listing half of it. Changes of other processes in these directories
//! meanwhile are listed as well: files do not name their writers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use file_sandbox::{EntryKind, FileSandbox, Mode, SandboxPath, WalkOptions};

use crate::audit::{EventKind, PolicyEvent};
use crate::change::{Artifact, Effect};

/// Names in one look, of all writable directories together.
const MAX_NAMES: usize = 5_000;
/// How long one look may take.
const MAX_LOOK: Duration = Duration::from_millis(150);
/// Files of one command that are listed.
const MAX_ARTIFACTS: usize = 200;
/// Bytes of one command's files that are hashed, all together.
const MAX_HASHED_BYTES: u64 = 16 * 1024 * 1024;

/// The files as they were before a command.
pub(crate) struct FileChangeTracker<'a> {
    files: Option<&'a FileSandbox>,
    before: Result<DirectorySnapshot, &'static str>,
}

type DirectorySnapshot = BTreeMap<String, FileTimes>;

#[derive(PartialEq, Eq)]
struct FileTimes {
    size: u64,
    modified: Option<SystemTime>,
    changed: Option<SystemTime>,
}

impl<'a> FileChangeTracker<'a> {
    pub(crate) fn before(files: Option<&'a FileSandbox>) -> Self {
        FileChangeTracker {
            files,
            before: files.map_or_else(|| Ok(DirectorySnapshot::new()), look),
        }
    }

    /// Returns the changed files, and an event about omitted ones.
    pub(crate) fn after(self) -> (Vec<Artifact>, Option<PolicyEvent>) {
        let Some(files) = self.files else {
            return (Vec::new(), None);
        };
        let untracked = |why: String| Some(PolicyEvent::new(EventKind::Untracked, why));
        let (before, after) = match (self.before, look(files)) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(why), _) | (_, Err(why)) => {
                return (
                    Vec::new(),
                    untracked(format!("its files were not compared: {why}")),
                );
            }
        };
        let mut found: Vec<(&String, Effect, u64)> = Vec::new();
        for (path, now) in &after {
            match before.get(path) {
                None => found.push((path, Effect::Created, now.size)),
                Some(then) if then != now => found.push((path, Effect::Updated, now.size)),
                Some(_) => {}
            }
        }
        let gone = before.keys().filter(|path| !after.contains_key(*path));
        found.extend(gone.map(|path| (path, Effect::Deleted, 0)));
        found.sort_unstable_by_key(|(path, _, _)| *path);
        let left_out = found.len().saturating_sub(MAX_ARTIFACTS);
        found.truncate(MAX_ARTIFACTS);
        let mut room = MAX_HASHED_BYTES;
        let artifacts = found
            .into_iter()
            .map(|(path, effect, bytes)| match effect {
                Effect::Deleted => Artifact::deleted(path),
                Effect::Created | Effect::Updated => {
                    let fits = bytes <= room;
                    let hash = fits.then(|| hash(files, path)).flatten();
                    room -= if fits { bytes } else { 0 };
                    Artifact::written(path, effect == Effect::Created, bytes, hash)
                }
            })
            .collect();
        let event = (left_out > 0)
            .then(|| untracked(format!("{left_out} more files are not listed")))
            .flatten();
        (artifacts, event)
    }
}

fn hash(files: &FileSandbox, path: &str) -> Option<String> {
    let path = SandboxPath::parse(path).ok()?;
    files.hash(&path).ok().map(|hash| hash.to_string())
}

/// The files of every writable directory. Those with hidden names are not among them.
fn look(files: &FileSandbox) -> Result<DirectorySnapshot, &'static str> {
    const MANY: &str = "there are too many of them";
    const LONG: &str = "it would have taken too long";
    let until = Instant::now() + MAX_LOOK;
    let mut found = DirectorySnapshot::new();
    for mount in files
        .mounts()
        .iter()
        .filter(|one| one.mode() == Mode::ReadWrite)
    {
        let left = until.saturating_duration_since(Instant::now());
        let options = WalkOptions::new()
            .max_entries(MAX_NAMES - found.len().min(MAX_NAMES))
            .max_names(MAX_NAMES)
            .time_limit(Some(left));
        let Ok(listing) = files.walk(mount.target(), options) else {
            continue;
        };
        if listing.more {
            return Err(if Instant::now() < until { MANY } else { LONG });
        }
        for entry in listing.entries {
            if entry.kind != EntryKind::File {
                continue;
            }
            if Instant::now() >= until {
                return Err(LONG);
            }
            let path = match mount.target().is_root() {
                true => format!("/{}", entry.name),
                false => format!("{}/{}", mount.target().as_str(), entry.name),
            };
            let stat = SandboxPath::parse(&path).and_then(|path| files.stat(&path));
            // Gone since it was listed.
            let Ok(stat) = stat else { continue };
            let facts = FileTimes {
                size: stat.size,
                modified: stat.modified,
                changed: stat.changed,
            };
            found.insert(path, facts);
        }
    }
    Ok(found)
}
