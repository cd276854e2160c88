//! Creates placeholders for absent protected names, if the policy asks for it. A placeholder exists
//! before the command starts, is found like any existing name, and is mounted over read-only, so
//! that the command can neither create the name nor replace it. It is removed with the run
//! (`state.rs`).
//!
//! Placeholders are created for exact names (without `*`) at the root of each writable mount, and
//! for the names of a repository (`.git/…`) in every existing repository. Parent directories are
//! never created: a `.git` of ours would be a broken repository.

use super::super::below;
use super::super::git_audit::repository;
use super::super::host_mount::HostMount;
use super::names::{GuardedPath, ScanResult};
use super::record::{MAX_HELD, Placeholder, PlaceholderKind};
use super::state::{ActiveRuns, PlaceholderLease, StateDir};
use crate::access::Access;
use crate::escape::visible;
use crate::policy::Policy;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, SFlag, mkdirat, mknodat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Creates placeholders for absent names and adds them to the names that were found. Returns the
/// reasons for names without a placeholder.
pub(crate) fn hold(
    state_dir: Option<&Path>,
    policy: &Policy,
    mounts: &[HostMount],
    names: &mut [ScanResult],
) -> (Option<PlaceholderLease>, Vec<String>) {
    let mut reasons = Reasons::default();
    let places = absent_names(policy, mounts, names, &mut reasons);
    if places.is_empty() {
        return (None, reasons.0);
    }
    let held = match StateDir::open(state_dir, |path| is_outside(path, mounts)) {
        Ok(state) => make(&state, places, &mut reasons),
        Err(reason) => Err(reason),
    };
    match held {
        Ok((held, there)) => {
            add(&there, mounts, names);
            (held, reasons.0)
        }
        Err(reason) => {
            reasons.add(format!("absent names are not held: {reason}"));
            (None, reasons.0)
        }
    }
}

/// Removes the placeholders of killed runs. Called by a run that creates none itself.
pub(crate) fn clear(state_dir: Option<&Path>, mounts: &[HostMount]) {
    let left = StateDir::with_records(state_dir, |path| is_outside(path, mounts));
    // A placeholder that cannot be removed stays visible to a person; nothing depends on it.
    let _cleared = left.map(|state| state.lock().map(drop));
}

pub(super) fn is_outside(path: &Path, mounts: &[HostMount]) -> bool {
    let mut writable = mounts.iter().filter(|m| m.access.contains(Access::WRITE));
    !writable.any(|mount| path.starts_with(&mount.host))
}

/// Distinct reasons.
#[derive(Default)]
struct Reasons(Vec<String>);

impl Reasons {
    fn add(&mut self, reason: String) {
        const MAX: usize = 8;
        let reason = visible(&reason);
        if self.0.len() < MAX && !self.0.contains(&reason) {
            self.0.push(reason);
        }
    }
}

/// Absent name, with its directory opened.
struct PlaceholderTarget {
    directory: Rc<OwnedFd>,
    wanted: Placeholder,
}

/// Returns the absent names that get a placeholder.
fn absent_names(
    policy: &Policy,
    mounts: &[HostMount],
    names: &[ScanResult],
    reasons: &mut Reasons,
) -> Vec<PlaceholderTarget> {
    let mut out: Vec<PlaceholderTarget> = Vec::new();
    let mut seen: HashSet<PathBuf> = HashSet::new();
    for (mount, names) in mounts.iter().zip(names) {
        if !mount.is_dir || !mount.access.contains(Access::WRITE) {
            continue;
        }
        let found: HashSet<&Path> = names.found.iter().map(|one| one.below.as_path()).collect();
        let mut directories: HashMap<PathBuf, Option<Rc<OwnedFd>>> = HashMap::new();
        for below in wanted(policy, mount, names) {
            let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
                continue;
            };
            let host = mount.host.join(&below);
            // A name that was found can itself be a placeholder of another run.
            let taken = parent.ancestors().any(|part| found.contains(part))
                || names.links.contains(&below)
                || !writable(mounts, &host);
            if taken || !seen.insert(host) {
                continue;
            }
            let directory = directories.entry(parent.to_owned());
            let directory = directory.or_insert_with(|| open_parent(mount, parent, reasons));
            let Some(directory) = directory else { continue };
            if out.len() >= MAX_HELD {
                reasons.add(format!("more than {MAX_HELD} absent names"));
                return out;
            }
            out.push(PlaceholderTarget {
                directory: directory.clone(),
                wanted: Placeholder {
                    parent: mount.host.join(parent),
                    name: name.to_owned(),
                    form: form(mount, &below),
                    made: None,
                },
            });
        }
    }
    out
}

/// Opens the directory of an absent name. `None` if it is absent too, because the sandbox never
/// creates it, or cannot be opened.
fn open_parent(mount: &HostMount, parent: &Path, reasons: &mut Reasons) -> Option<Rc<OwnedFd>> {
    let shown = parent.display();
    match below::directory(mount.handle.as_fd(), parent) {
        Ok(directory) => return Some(Rc::new(directory)),
        Err(Errno::ENOENT | Errno::ENOTDIR) => {}
        Err(Errno::ELOOP | Errno::EXDEV) => {
            reasons.add(format!("{shown} is a link: names below it are not held"));
        }
        Err(errno) => reasons.add(format!("{shown} cannot be opened: {errno}")),
    }
    None
}

/// Returns the kind of a placeholder, also if the mount is itself a `.git`: git reads its parts
/// while the command runs.
fn form(mount: &HostMount, below: &Path) -> PlaceholderKind {
    match PlaceholderKind::of(&mount.named(below)) {
        PlaceholderKind::Socket => PlaceholderKind::of(&mount.host.join(below)),
        form @ (PlaceholderKind::Directory | PlaceholderKind::Empty | PlaceholderKind::DotFile) => {
            form
        }
    }
}

/// Returns the exact names of a mount: at its root, and in each repository.
fn wanted(policy: &Policy, mount: &HostMount, names: &ScanResult) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let patterns = mount.guards.protect.iter();
    for pattern in patterns.filter(|pattern| policy.holds(pattern)) {
        let Some(exact) = pattern.exact() else {
            continue;
        };
        let last = exact.file_name().unwrap_or_default();
        // A placeholder for a state would be an unfinished rebase, and clones copy the files below
        // `.git/objects`.
        if last == ".git" || repository::is_state(last) || exact.starts_with(".git/objects") {
            continue;
        }
        if mount.linked.is_some() {
            out.extend(exact.strip_prefix(".git").ok().map(Path::to_owned));
            continue;
        }
        out.push(exact.to_owned());
        if exact.starts_with(".git") && !pattern.is_from_top() {
            let around = names.repositories.iter().filter_map(|git| git.parent());
            out.extend(around.map(|around| around.join(exact)));
        }
    }
    out
}

/// Path of the host, and `true` if it is a directory.
type ExistingPath = (PathBuf, bool);

/// Creates the placeholders. Returns the record of the run, unless it is empty, and the paths that
/// exist now.
fn make(
    state: &StateDir,
    places: Vec<PlaceholderTarget>,
    reasons: &mut Reasons,
) -> Result<(Option<PlaceholderLease>, Vec<ExistingPath>), String> {
    let locked = state.lock()?;
    let mut there: Vec<ExistingPath> = Vec::new();
    let mut ours: Vec<PlaceholderTarget> = Vec::new();
    for mut place in places {
        let path = place.wanted.parent.join(&place.wanted.name);
        let parent = place.directory.as_fd();
        match below::look(parent, &place.wanted.name) {
            Err(Errno::ENOENT) => ours.push(place),
            Err(errno) => reasons.add(refused(&place.wanted.name, errno)),
            Ok(stat) if below::kind(&stat) == SFlag::S_IFLNK => {}
            Ok(stat) => {
                let is_dir = below::kind(&stat) == SFlag::S_IFDIR;
                there.push((path, is_dir));
                place.wanted.made = Some((stat.st_dev, stat.st_ino));
                if shared(&locked.live, &place, &stat) {
                    ours.push(place);
                }
            }
        }
    }
    if ours.is_empty() {
        return Ok((None, there));
    }
    let mut held = locked.record()?;
    let failed = |error: std::io::Error| format!("the record cannot be written: {error}");
    let directories: Vec<_> = ours.iter().map(|place| place.directory.clone()).collect();
    let result = held
        .want(ours.into_iter().map(|place| place.wanted).collect())
        .and_then(|()| {
            for (one, directory) in held.placeholders.iter_mut().zip(&directories) {
                if one.made.is_some() {
                    continue;
                }
                match create(directory.as_fd(), one) {
                    Ok(made) => {
                        one.made = Some(made);
                        there.push((one.parent.join(&one.name), one.form.is_dir()));
                    }
                    Err(errno) => reasons.add(refused(&one.name, errno)),
                }
            }
            held.made()
        })
        .map_err(failed);
    // Dropping a record takes the same lock.
    drop(locked);
    result.map(|()| (Some(held), there))
}

/// Returns `true` if the file is a placeholder of another run, alive or dead.
fn shared(live: &ActiveRuns, place: &PlaceholderTarget, stat: &nix::sys::stat::FileStat) -> bool {
    let wanted = &place.wanted;
    let fits = wanted
        .form
        .fits(place.directory.as_fd(), &wanted.name, stat);
    match wanted.form {
        // Other programs create no such sockets.
        PlaceholderKind::Socket => fits,
        PlaceholderKind::Directory | PlaceholderKind::Empty | PlaceholderKind::DotFile => {
            fits && live.lists(wanted)
        }
    }
}

fn create(parent: BorrowedFd<'_>, wanted: &Placeholder) -> Result<(u64, u64), Errno> {
    let name = wanted.name.as_os_str();
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let finished = match wanted.form {
        PlaceholderKind::Socket => mknodat(parent, name, SFlag::S_IFSOCK, Mode::empty(), 0),
        PlaceholderKind::Directory => {
            mkdirat(parent, name, Mode::from_bits_truncate(0o755))?;
            let flags = flags | OFlag::O_PATH | OFlag::O_DIRECTORY;
            openat(parent, name, flags, Mode::empty()).and_then(|made| finish(&made, 0o755))
        }
        PlaceholderKind::Empty | PlaceholderKind::DotFile => {
            let flags = flags | OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
            let mode = Mode::from_bits_truncate(0o444);
            let mut file = File::from(openat(parent, name, flags, mode)?);
            file.write_all(wanted.form.content())
                .map_err(|error| below::errno(&error))
                .and_then(|()| finish(&file.into(), 0o444))
        }
    };
    let looked = finished.and_then(|()| below::look(parent, name));
    match looked {
        Ok(stat) => Ok((stat.st_dev, stat.st_ino)),
        Err(errno) => {
            if wanted.form != PlaceholderKind::Socket {
                // The placeholder is incomplete and a moment old. If it cannot be removed either,
                // the record lists it.
                let how = if wanted.form.is_dir() {
                    UnlinkatFlags::RemoveDir
                } else {
                    UnlinkatFlags::NoRemoveDir
                };
                let _ = unlinkat(parent, name, how);
            }
            Err(errno)
        }
    }
}

/// Sets the mode, of which the umask may have removed bits.
fn finish(made: &OwnedFd, mode: u32) -> Result<(), Errno> {
    below::set_mode(made.as_fd(), mode).map_err(|error| below::errno(&error))
}

fn refused(name: &OsStr, errno: Errno) -> String {
    format!(
        "{} is absent and cannot be held: {}",
        name.display(),
        errno.desc()
    )
}

/// Adds host paths to the names of every mount that shows them writable.
fn add(there: &[ExistingPath], mounts: &[HostMount], names: &mut [ScanResult]) {
    for (mount, names) in mounts.iter().zip(names) {
        if !mount.is_dir || !mount.access.contains(Access::WRITE) {
            continue;
        }
        let mut known: HashSet<PathBuf> = names.found.iter().map(|one| one.below.clone()).collect();
        for (host, is_dir) in there {
            let Ok(below) = host.strip_prefix(&mount.host) else {
                continue;
            };
            if below.ancestors().any(|part| known.contains(part)) {
                continue;
            }
            known.insert(below.to_owned());
            names.found.push(GuardedPath {
                below: below.to_owned(),
                is_dir: *is_dir,
                hide: false,
                unlisted: false,
            });
        }
    }
}

/// Returns `true` if commands change a path of the host itself, by the longest mount around it.
pub(crate) fn writable(mounts: &[HostMount], host: &Path) -> bool {
    mounts
        .iter()
        .filter(|mount| host.starts_with(&mount.host))
        .max_by_key(|mount| mount.host.as_os_str().len())
        .is_some_and(HostMount::is_changed)
}
