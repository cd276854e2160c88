//! Detects changes of the files of a project since they were last read. It compares metadata every
//! two seconds: this needs no setup, works on every system, and detects a replaced file like a
//! changed one.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use sandbox_config::PROJECT_FILES;

/// Most directories above the first in which a project file is looked for.
const MAX_ABOVE: usize = 32;

/// Most entries of one directory of workers that are looked at.
const MAX_WORKERS: usize = 1024;

/// The paths to watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchedPaths {
    /// Single files, whether they exist or not.
    pub(crate) files: Vec<PathBuf>,
    /// The directory from which a project file is looked for, upwards.
    pub(crate) start: Option<PathBuf>,
    /// Directories of `.worker` files.
    pub(crate) worker_dirs: Vec<PathBuf>,
}

/// The state of the files. Snapshots of the same state are equal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSnapshot {
    files: BTreeMap<PathBuf, FileStamp>,
    workers: BTreeMap<PathBuf, FileStamp>,
}

/// Inode, size, and when it was written and changed: the last one cannot be set back.
type FileStamp = [i64; 6];

impl WatchedPaths {
    /// Looks at all of them.
    pub(crate) fn snapshot(&self) -> FileSnapshot {
        let mut snapshot = FileSnapshot {
            files: BTreeMap::new(),
            workers: BTreeMap::new(),
        };
        let above = self.start.iter().flat_map(|start| start.ancestors());
        let found = above
            .take(MAX_ABOVE)
            .flat_map(|dir| PROJECT_FILES.map(|name| dir.join(name)));
        for file in self.files.iter().cloned().chain(found) {
            note(&mut snapshot.files, file);
        }
        self.snapshot_workers(&mut snapshot);
        snapshot
    }

    /// Reads the workers again, and keeps the state of the other files.
    pub(crate) fn snapshot_workers(&self, snapshot: &mut FileSnapshot) {
        snapshot.workers.clear();
        for dir in &self.worker_dirs {
            let Ok(entries) = dir.read_dir() else {
                continue;
            };
            for entry in entries.take(MAX_WORKERS).flatten() {
                let path = entry.path();
                if path.extension().is_some_and(|end| end == "worker") {
                    note(&mut snapshot.workers, path);
                }
            }
        }
    }
}

/// A file that is absent is in no look.
fn note(snapshot: &mut BTreeMap<PathBuf, FileStamp>, file: PathBuf) {
    if let Ok(found) = std::fs::metadata(&file) {
        let state = [
            found.ino().cast_signed(),
            found.size().cast_signed(),
            found.mtime(),
            found.mtime_nsec(),
            found.ctime(),
            found.ctime_nsec(),
        ];
        snapshot.insert(file, state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn whatever_happens_to_a_file_is_seen_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::create_dir_all(path("workers")).unwrap();
        let places = WatchedPaths {
            files: vec![path("user.yaml")],
            start: Some(path("a/b")),
            worker_dirs: vec![path("workers"), path("none")],
        };
        let mut last = places.snapshot();
        let mut changes = |what: &str, expected: bool| {
            let now = places.snapshot();
            assert_eq!(now != last, expected, "{what}");
            last = now;
        };
        changes("nothing", false);
        for name in [
            "user.yaml",
            "a/program.yml",
            "a/b/golem-forge.config.yaml",
            "workers/main.worker",
        ] {
            fs::write(path(name), "one").unwrap();
            changes(name, true);
            fs::write(path("new"), "two").unwrap();
            fs::rename(path("new"), path(name)).unwrap();
            changes(name, true);
            changes(name, false);
        }
        for name in ["a/other.yaml", "workers/notes.md", "user.yml"] {
            fs::write(path(name), "one").unwrap();
            changes(name, false);
        }
        fs::remove_file(path("workers/main.worker")).unwrap();
        changes("removal", true);
    }
}
