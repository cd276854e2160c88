//! The state directory records the placeholders of all runs. Each run has one record, locked
//! (flock) as long as the run lives; the supervisor shares the lock, so that a tree that outlives
//! its killed broker for a moment counts as alive. An unlocked record belongs to a run that could
//! not clean up, and the next start does it.
//!
//! Removing a file detaches every mount over it in other namespaces, so a placeholder is removed
//! only if no living run lists it. One lock for the whole directory makes "list and create" and
//! "check and remove" single steps.

use super::record::{self, MAX_RECORD_BYTES, Placeholder, Removed};
use crate::state_dir::{StateDirError, prepare_state_dir, user_state_dir};
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PREFIX: &str = "run-";
/// The records of commands (`running.rs`).
const COMMAND_PREFIX: &str = "command-";
/// The lock of starts (`start_lock.rs`).
const STARTS: &str = "starts";
/// Bound on the records that are read.
const MAX_RECORDS: usize = 4096;
/// Maximum wait for another start or end that has locked the directory; each takes well below a
/// millisecond.
const LOCK_WITHIN: Duration = Duration::from_secs(10);
/// Maximum wait of a start for a program that writes protected names: an apply writes all its files.
const START_WITHIN: Duration = Duration::from_secs(60);

/// A state directory that was checked.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
}

/// Short-lived lock of the whole directory.
pub(crate) struct Locked<'a> {
    state: &'a StateDir,
    /// Placeholders of living runs.
    pub(crate) live: ActiveRuns,
    _lock: File,
}

/// The placeholders of living runs, by path and by inode.
#[derive(Debug, Default)]
pub(crate) struct ActiveRuns {
    paths: HashSet<(PathBuf, OsString)>,
    inodes: HashSet<(u64, u64)>,
}

/// The record of a run. Dropping it removes the run's placeholders.
#[derive(Debug)]
pub(crate) struct PlaceholderLease {
    state: StateDir,
    path: PathBuf,
    /// Locked.
    file: File,
    pub(crate) placeholders: Vec<Placeholder>,
}

impl StateDir {
    /// Opens the directory that the caller named, or the default one. `outside` returns `true` for
    /// a path outside everything that the command can write.
    pub(crate) fn open(
        wanted: Option<&Path>,
        outside: impl Fn(&Path) -> bool,
    ) -> Result<StateDir, String> {
        let candidates = candidates(wanted);
        let mut problem = "there is no place for a state directory".to_owned();
        for path in candidates {
            // Why first: in a place that a command can write, it could have left a link to any
            // directory.
            if !path.ancestors().all(|part| around(part, &outside)) {
                problem = inside(&path);
                continue;
            }
            match prepare_state_dir(&path) {
                Ok(path) if outside(&path) => return Ok(StateDir { path }),
                Ok(path) => problem = inside(&path),
                Err(error) => {
                    let is_last = matches!(error, StateDirError::Unsafe(_));
                    let (path, reason) = (path.display(), error.reason());
                    problem = format!("the state directory {path}: {reason}");
                    if is_last {
                        break;
                    }
                }
            }
        }
        Err(problem)
    }

    /// Returns a directory that [`prepare_state_dir`] has prepared.
    pub(super) fn at(path: PathBuf) -> StateDir {
        StateDir { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path for the record of a command.
    pub(super) fn new_command_record(&self) -> PathBuf {
        let random = crate::scratch::random();
        self.path.join(format!("{COMMAND_PREFIX}{random:016x}"))
    }

    /// Returns the paths of the records of commands.
    pub(super) fn command_records(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let entries = fs::read_dir(&self.path).into_iter().flatten();
        let names = entries.take(MAX_RECORDS).flatten().filter(|entry| {
            let name = entry.file_name();
            name.as_encoded_bytes()
                .starts_with(COMMAND_PREFIX.as_bytes())
        });
        names.map(|entry| entry.path())
    }

    /// Takes the lock of starts for a start, beside others; `None` if a program holds it.
    pub(super) fn lock_for_start(&self) -> io::Result<Option<File>> {
        self.lock_starts(START_WITHIN, File::try_lock_shared)
    }

    /// Takes the lock of starts alone; `None` if a start holds it.
    pub(super) fn lock_for_change(&self) -> io::Result<Option<File>> {
        self.lock_starts(LOCK_WITHIN, File::try_lock)
    }

    fn lock_starts(
        &self,
        within: Duration,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> io::Result<Option<File>> {
        let file = options().create(true).open(self.path.join(STARTS))?;
        Ok(is_locked_within(within, || lock(&file))?.then_some(file))
    }

    /// Opens an existing state directory with at least one record.
    pub(crate) fn with_records(
        wanted: Option<&Path>,
        outside: impl Fn(&Path) -> bool,
    ) -> Option<StateDir> {
        let has_records = |path: &PathBuf| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let mut names = entries.map(|entry| entry.file_name());
            names.any(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
        };
        let path = candidates(wanted).into_iter().find(has_records)?;
        StateDir::open(Some(&path), outside).ok()
    }

    /// Takes the lock, and removes the placeholders of dead runs.
    pub(crate) fn lock(&self) -> Result<Locked<'_>, String> {
        self.locked(None)
    }

    fn locked(&self, own: Option<&Path>) -> Result<Locked<'_>, String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("the state directory {}: {error}", self.path.display())
        };
        let lock = options()
            .create(true)
            .open(self.path.join("lock"))
            .map_err(|error| failed(&error))?;
        match is_locked_within(LOCK_WITHIN, || lock.try_lock()) {
            Ok(true) => {}
            Ok(false) => return Err(failed(&"another run holds its lock")),
            Err(error) => return Err(failed(&error)),
        }
        let mut locked = Locked {
            state: self,
            live: ActiveRuns::default(),
            _lock: lock,
        };
        locked.look(own);
        Ok(locked)
    }
}

impl Locked<'_> {
    /// Reads all records but `own`: placeholders of living runs stay, those of dead runs are
    /// removed.
    fn look(&mut self, own: Option<&Path>) {
        let mut dead = Vec::new();
        let entries = fs::read_dir(&self.state.path).into_iter().flatten();
        for entry in entries.take(MAX_RECORDS).flatten() {
            let path = entry.path();
            let named = entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(PREFIX));
            if !named || Some(path.as_path()) == own {
                continue;
            }
            let Ok(file) = options().open(&path) else {
                continue;
            };
            if !file.metadata().is_ok_and(|meta| meta.is_file()) {
                continue;
            }
            let (placeholders, same_boot) = read(&file);
            match file.try_lock() {
                Err(_) => self.live.add(&placeholders),
                // The lock is held until the record is processed.
                Ok(()) => dead.push((path, file, placeholders, same_boot)),
            }
        }
        for (path, _lock, placeholders, same_boot) in dead {
            let mut stays = false;
            for placeholder in &placeholders {
                stays |= !self.live.lists(placeholder)
                    && placeholder.remove(same_boot) == Removed::Stays;
            }
            if !stays {
                // If this fails, the next start finds nothing left to remove.
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Creates an empty record for a run.
    pub(crate) fn record(&self) -> Result<PlaceholderLease, String> {
        let mut last = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        for _ in 0..16 {
            let path = self
                .state
                .path
                .join(format!("{PREFIX}{:016x}", crate::scratch::random()));
            match options().create_new(true).open(&path) {
                Ok(file) => {
                    // Why here: dropping a lease takes the lock that this function's caller already
                    // has.
                    let ready = file
                        .lock()
                        .and_then(|()| (&file).write_all(record::head().as_bytes()));
                    if let Err(error) = ready {
                        last = error;
                        break;
                    }
                    return Ok(PlaceholderLease {
                        state: StateDir {
                            path: self.state.path.clone(),
                        },
                        path,
                        file,
                        placeholders: Vec::new(),
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(format!(
            "the state directory {}: {last}",
            self.state.path.display()
        ))
    }
}

impl ActiveRuns {
    fn add(&mut self, placeholders: &[Placeholder]) {
        for one in placeholders {
            self.paths.insert((one.parent.clone(), one.name.clone()));
            self.inodes.extend(one.made);
        }
    }

    pub(crate) fn lists(&self, placeholder: &Placeholder) -> bool {
        let path = (placeholder.parent.clone(), placeholder.name.clone());
        let inode = placeholder
            .made
            .is_some_and(|made| self.inodes.contains(&made));
        inode || self.paths.contains(&path)
    }
}

impl PlaceholderLease {
    /// Records the placeholders that will be created.
    pub(crate) fn want(&mut self, placeholders: Vec<Placeholder>) -> std::io::Result<()> {
        let lines: String = placeholders.iter().map(record::wanted).collect();
        self.append(&lines)?;
        self.placeholders = placeholders;
        Ok(())
    }

    /// Records the placeholders that were created.
    pub(crate) fn made(&mut self) -> std::io::Result<()> {
        let lines: String = self
            .placeholders
            .iter()
            .enumerate()
            .filter_map(|(index, one)| one.made.map(|made| record::made(index, made)))
            .collect();
        self.append(&lines)
    }

    /// Returns the locked file: each process with the descriptor keeps the run alive.
    pub(crate) fn lock(&self) -> &File {
        &self.file
    }

    fn append(&self, text: &str) -> std::io::Result<()> {
        (&self.file).write_all(text.as_bytes())
    }
}

impl Drop for PlaceholderLease {
    fn drop(&mut self) {
        // Without the lock, the record stays, and the next start does this.
        let Ok(locked) = self.state.locked(Some(&self.path)) else {
            return;
        };
        let mut stays = false;
        for placeholder in &self.placeholders {
            // A file that the run did not create is not ours.
            stays |= placeholder.made.is_some()
                && !locked.live.lists(placeholder)
                && placeholder.remove(true) == Removed::Stays;
        }
        if !stays {
            // If this fails, the next start finds nothing left to remove.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Tries to lock until it succeeds; `false` if the time is over.
fn is_locked_within(
    within: Duration,
    lock: impl Fn() -> Result<(), TryLockError>,
) -> io::Result<bool> {
    let until = Instant::now() + within;
    loop {
        match lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Parses a record. A record above the size limit is not ours.
fn read(file: &File) -> (Vec<Placeholder>, bool) {
    let mut bytes = Vec::new();
    match file.take(MAX_RECORD_BYTES + 1).read_to_end(&mut bytes) {
        Ok(length) if length as u64 <= MAX_RECORD_BYTES => record::parse(&bytes),
        _ => (Vec::new(), false),
    }
}

/// Options for opening the crate's own files: without following a link and without waiting.
pub(super) fn options() -> OpenOptions {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let mut options = OpenOptions::new();
    options
        .read(true)
        .append(true)
        .mode(0o600)
        .custom_flags(flags.bits());
    options
}

/// Returns the possible state directories, the best first.
pub(super) fn candidates(wanted: Option<&Path>) -> Vec<PathBuf> {
    match wanted {
        Some(path) => vec![path.to_owned()],
        None => usual(),
    }
}

fn usual() -> Vec<PathBuf> {
    let shared = std::env::temp_dir().join(format!("os-sandbox-state-{}", geteuid()));
    user_state_dir().into_iter().chain([shared]).collect()
}

/// Returns `true` if an existing path is outside; a missing path is where its parent is.
fn around(part: &Path, outside: &impl Fn(&Path) -> bool) -> bool {
    match part.canonicalize() {
        Ok(place) => outside(&place),
        Err(_) => outside(part),
    }
}

fn inside(path: &Path) -> String {
    let path = path.display();
    format!("the state directory {path} lies where the command can write")
}

#[cfg(test)]
mod tests {
    use super::super::record::PlaceholderKind;
    use super::*;
    use nix::sys::stat::{Mode, SFlag, mknod};
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn state(dir: &Path) -> StateDir {
        StateDir::open(Some(&dir.join("state")), |_| true).unwrap()
    }

    fn socket(dir: &Path, name: &str) -> Placeholder {
        let path = dir.join(name);
        mknod(&path, SFlag::S_IFSOCK, Mode::empty(), 0).unwrap();
        let meta = path.symlink_metadata().unwrap();
        Placeholder {
            parent: dir.canonicalize().unwrap(),
            name: name.into(),
            form: PlaceholderKind::Socket,
            made: Some((meta.dev(), meta.ino())),
        }
    }

    fn list(held: &mut PlaceholderLease, placeholders: Vec<Placeholder>) {
        held.want(placeholders).unwrap();
        held.made().unwrap();
    }

    /// Simulates a killed run: the lock is released, the record stays.
    fn kill(held: PlaceholderLease) {
        let path = held.path.clone();
        let kept = fs::read(&path).unwrap();
        let mut held = held;
        held.placeholders.clear();
        drop(held);
        fs::write(&path, kept).unwrap();
    }

    #[test]
    fn nothing_is_made_by_way_of_what_a_command_writes() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (home, elsewhere) = (base.join("home"), base.join("elsewhere"));
        fs::create_dir(&home).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, home.join(".local")).unwrap();
        let outside = |path: &Path| !path.starts_with(&home);
        for path in [".local/state/os-sandbox", "new/os-sandbox", "os-sandbox"] {
            let refused = StateDir::open(Some(&home.join(path)), outside);
            assert!(refused.unwrap_err().contains("can write"), "{path}");
        }
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        assert_eq!(fs::read_dir(&home).unwrap().count(), 1);
        assert!(StateDir::open(Some(&elsewhere.join("state/x")), outside).is_ok());
    }

    #[test]
    fn the_last_run_removes() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (state(dir.path()), state(dir.path()));
        let placeholder = socket(dir.path(), "x");
        let mut first = one.lock().unwrap().record().unwrap();
        list(&mut first, vec![placeholder.clone()]);
        let locked = two.lock().unwrap();
        assert!(locked.live.lists(&placeholder));
        let mut second = locked.record().unwrap();
        drop(locked);
        list(&mut second, vec![placeholder]);
        drop(first);
        assert!(dir.path().join("x").symlink_metadata().is_ok());
        drop(second);
        assert!(dir.path().join("x").symlink_metadata().is_err());
        assert_eq!(fs::read_dir(dir.path().join("state")).unwrap().count(), 1);
    }

    #[test]
    fn what_the_dead_left_goes_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let mut held = state.lock().unwrap().record().unwrap();
        let (left, replaced, opened) = (
            socket(dir.path(), "left"),
            socket(dir.path(), "replaced"),
            socket(dir.path(), "opened"),
        );
        let mut unmade = socket(dir.path(), "unmade");
        unmade.made = None;
        list(&mut held, vec![left, replaced, opened, unmade]);
        fs::remove_file(dir.path().join("replaced")).unwrap();
        fs::write(dir.path().join("replaced"), "mine").unwrap();
        fs::set_permissions(dir.path().join("opened"), Permissions::from_mode(0o600)).unwrap();
        kill(held);
        drop(state.lock().unwrap());
        let there = |name: &str| dir.path().join(name).symlink_metadata().is_ok();
        assert_eq!(
            ["left", "replaced", "opened", "unmade"].map(there),
            [false, true, true, false]
        );
        assert_eq!(fs::read_dir(dir.path().join("state")).unwrap().count(), 1);
    }

    #[test]
    fn strange_records_are_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let path = |name: &str| dir.path().join("state").join(name);
        fs::write(path("run-garbage"), b"\xff\0garbage\n").unwrap();
        let huge = File::create(path("run-huge")).unwrap();
        huge.set_len(MAX_RECORD_BYTES * 100).unwrap();
        drop(huge);
        std::os::unix::fs::symlink("/etc/passwd", path("run-link")).unwrap();
        nix::unistd::mkfifo(&path("run-fifo"), Mode::S_IRWXU).unwrap();
        fs::create_dir(path("run-dir")).unwrap();
        let other_boot = socket(dir.path(), "old");
        let (device, inode) = other_boot.made.unwrap();
        let text = format!(
            "os-sandbox-holds 1\nanother-boot\n{}{}",
            record::wanted(&other_boot),
            record::made(0, (device + 1, inode))
        );
        fs::write(path("run-old"), text).unwrap();
        drop(state.lock().unwrap());
        assert!(dir.path().join("old").symlink_metadata().is_err());
        for (name, there) in [
            ("run-garbage", false),
            ("run-huge", false),
            ("run-old", false),
            ("run-link", true),
            ("run-fifo", true),
            ("run-dir", true),
        ] {
            assert_eq!(path(name).symlink_metadata().is_ok(), there, "{name}");
        }
    }

    /// A state directory that anybody could have filled is refused, and one that others can only
    /// read, or that its owner cannot use, is closed.
    #[test]
    fn the_mode_of_a_state_directory_is_mended_unless_others_could_write() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [
            0o700, 0o755, 0o750, 0o711, 0o500, 0o000, 0o777, 0o770, 0o702,
        ] {
            let path = dir.path().join(format!("{mode:o}"));
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let opened = StateDir::open(Some(&path), |_| true);
            let now = path.metadata().unwrap().mode() & 0o777;
            match mode & 0o022 {
                0 => assert!(
                    opened.is_ok() && now == 0o700,
                    "{mode:o}: {opened:?} {now:o}"
                ),
                _ => {
                    let refused = opened.unwrap_err();
                    assert!(refused.contains("chmod 700"), "{mode:o}: {refused}");
                    assert_eq!(now, mode);
                }
            }
        }
    }

    #[test]
    fn strange_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        std::os::unix::fs::symlink(at("dir"), at("link")).unwrap();
        fs::write(at("file"), "").unwrap();
        for (name, said) in [
            ("link", "not a directory"),
            ("file", "not a directory"),
            ("file/below", "file"),
        ] {
            let refused = StateDir::open(Some(&at(name)), |_| true).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
        let inside = StateDir::open(Some(&at("new")), |_| false).unwrap_err();
        assert!(inside.contains("can write"), "{inside}");
        assert!(StateDir::open(Some(Path::new("relative")), |_| true).is_err());
        if geteuid().is_root() {
            nix::unistd::chown(&at("dir"), Some(65534.into()), None).unwrap();
            let foreign = StateDir::open(Some(&at("dir")), |_| true).unwrap_err();
            assert!(foreign.contains("another user"), "{foreign}");
        }
    }
}
