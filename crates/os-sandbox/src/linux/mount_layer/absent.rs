//! Hidden files that a command finds as absent as a mount point can be: as a link that leads nowhere.
//! Programs that copy, search or archive a tree go on there, while a file that cannot be opened ends
//! them.
//!
//! git would take such a link for a change. So a file that git tracks stays one that cannot be opened,
//! at which git stops; and the others are listed in the repository's `info/exclude`, of which the
//! command sees a copy
//! (<https://git-scm.com/docs/gitignore>).

use super::super::below;
use super::super::guards::names::{GuardedPath, ScanResult};
use super::super::host_mount::{HostMount, identity};
use super::inside_paths::dest;
use crate::access::Access;
use crate::key_files::content_of;
use nix::errno::Errno;
use nix::sys::stat::SFlag;
use sandbox_names::git_index::{MAX_INDEX_BYTES, TrackedFiles};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bound on the size of a repository's list of ignored files.
const MAX_EXCLUDE_BYTES: u64 = 256 << 10;
/// The list, and its directory, below the top of a repository.
const EXCLUDE: &str = ".git/info/exclude";
const INFO: &str = ".git/info";

/// The names, and the lists of ignored files that go with them.
#[derive(Default)]
pub(super) struct AbsentNames {
    names: HashSet<Vec<u8>>,
    pub(super) lists: Vec<IgnoreList>,
}

/// A repository's list of ignored files with the hidden ones.
pub(super) struct IgnoreList {
    /// Its path inside.
    pub(super) at: Vec<u8>,
    pub(super) identity: (u64, u64),
    pub(super) text: String,
}

/// The repository around a hidden name.
enum Around {
    Nothing,
    /// Its directory is below the top.
    Repository(PathBuf),
    /// It is elsewhere, or cannot be looked at.
    Unknown,
}

impl AbsentNames {
    /// Finds them among the names that are hidden. One that is not found is merely closed.
    pub(super) fn find(mounts: &[HostMount], names: &[ScanResult]) -> AbsentNames {
        let mut absent = AbsentNames::default();
        for (mount, names) in mounts.iter().zip(names) {
            if mount.linked.is_some() {
                continue;
            }
            let mut repositories: BTreeMap<PathBuf, Vec<&GuardedPath>> = BTreeMap::new();
            for found in names.found.iter().filter(|one| one.hide && !one.is_dir) {
                match around(mount, &found.below) {
                    Around::Nothing => absent.add(mount, &found.below),
                    Around::Repository(top) => repositories.entry(top).or_default().push(found),
                    Around::Unknown => {}
                }
            }
            for (top, hidden) in repositories {
                let info = top.join(INFO);
                let keeps_list = !mount.access.contains(Access::WRITE)
                    || (names.found.iter()).any(|one| one.below == info && !one.hide);
                if keeps_list {
                    absent.add_repository(mount, &top, &hidden);
                }
            }
        }
        absent
    }

    pub(super) fn has(&self, inside: &[u8]) -> bool {
        self.names.contains(inside)
    }

    fn add(&mut self, mount: &HostMount, below: &Path) {
        self.names.insert(dest(&mount.inside, below));
    }

    /// Adds the untracked files of a repository.
    fn add_repository(&mut self, mount: &HostMount, top: &Path, hidden: &[&GuardedPath]) {
        let Some(untracked) = untracked(mount, top, hidden) else {
            return;
        };
        if untracked.is_empty() {
            return;
        }
        let Some(list) = list_with(mount, top, &untracked) else {
            return;
        };
        for found in untracked {
            self.add(mount, &found.below);
        }
        self.lists.push(list);
    }
}

/// Finds the innermost repository around a name.
fn around(mount: &HostMount, name: &Path) -> Around {
    let inside_git = name.components().any(|part| part.as_os_str() == ".git");
    for top in name.ancestors().skip(1) {
        let looked = below::directory(mount.handle.as_fd(), top)
            .and_then(|top| below::look(top.as_fd(), OsStr::new(".git")));
        match looked {
            Err(Errno::ENOENT) => {}
            Ok(stat) if below::kind(&stat) == SFlag::S_IFDIR && !inside_git => {
                return Around::Repository(top.to_owned());
            }
            Ok(_) | Err(_) => return Around::Unknown,
        }
    }
    Around::Nothing
}

/// Returns the files that are not in a repository's index; `None` if the index cannot be read.
fn untracked<'a>(
    mount: &HostMount,
    top: &Path,
    hidden: &[&'a GuardedPath],
) -> Option<Vec<&'a GuardedPath>> {
    let index = match open(mount, &top.join(".git/index")) {
        // Nothing was added yet.
        Err(Errno::ENOENT) => return Some(hidden.to_vec()),
        file => content_of(file.ok()?, MAX_INDEX_BYTES)?,
    };
    let mut all: HashMap<&[u8], (Cell<bool>, &GuardedPath)> = HashMap::new();
    for found in hidden {
        let path = found.below.strip_prefix(top).ok()?;
        all.insert(path.as_os_str().as_bytes(), (Cell::new(false), found));
    }
    let note = |path: &[u8]| {
        if let Some((tracked, _)) = all.get(path) {
            tracked.set(true);
        }
        false
    };
    TrackedFiles::read(&index, &note).ok()?;
    let untracked = all.values().filter(|(tracked, _)| !tracked.get());
    Some(untracked.map(|(_, found)| *found).collect())
}

/// Returns a repository's list of ignored files with the hidden ones; `None` if it cannot be made.
fn list_with(mount: &HostMount, top: &Path, hidden: &[&GuardedPath]) -> Option<IgnoreList> {
    let below = top.join(EXCLUDE);
    let file = open(mount, &below).ok()?;
    let identity = identity(&file).ok()?;
    let mut text = String::from_utf8(content_of(file, MAX_EXCLUDE_BYTES)?).ok()?;
    text.push_str("\n# Hidden by the sandbox, and not there for it.\n");
    let mut patterns = Vec::new();
    for found in hidden {
        patterns.push(pattern(found.below.strip_prefix(top).ok()?.to_str()?)?);
    }
    patterns.sort();
    text.push_str(&patterns.concat());
    Some(IgnoreList {
        at: dest(&mount.inside, &below),
        identity,
        text,
    })
}

/// Returns the line of git for exactly this path; `None` for one that a line cannot hold.
fn pattern(path: &str) -> Option<String> {
    if path.contains(['\n', '\r']) {
        return None;
    }
    let mut out = String::from("/");
    for char in path.chars() {
        if matches!(char, '\\' | '*' | '?' | '[' | ' ' | '\t') {
            out.push('\\');
        }
        out.push(char);
    }
    out.push('\n');
    Some(out)
}

fn open(mount: &HostMount, path: &Path) -> Result<File, Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::EINVAL);
    };
    let parent = below::directory(mount.handle.as_fd(), parent)?;
    below::file(parent.as_fd(), name)
}
