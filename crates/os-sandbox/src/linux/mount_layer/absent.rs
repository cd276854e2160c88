//! Hidden files that a command finds as absent as a mount point can be: as a link that leads nowhere.
//! Programs that copy, search or archive a tree pass it, while a file that cannot be opened ends them.
//!
//! git would add such a link. So a file that is in an index cannot be opened, and git stops there.
//! Other hidden files of a repository are added to the command's copy of its list of ignored files. A
//! file in no repository cannot be opened if the command can make one around it, because nothing
//! would ignore it there.
//!
//! <https://git-scm.com/docs/gitignore>

use super::super::below;
use super::super::guards::names::{GuardedPath, ScanResult};
use super::super::host_mount::{HostMount, identity};
use super::inside_paths::dest;
use crate::access::Access;
use crate::key_files::content_of;
use nix::errno::Errno;
use nix::sys::stat::SFlag;
use sandbox_names::git_index::{MAX_INDEX_BYTES, TrackedFiles};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bound on the size of a list of ignored files.
const MAX_LIST_BYTES: u64 = 256 << 10;
/// A repository's list, and its directory, from the top.
const LIST: &str = ".git/info/exclude";
const INFO: &str = ".git/info";
/// Precedes the hidden files in a list.
const COMMENT: &str = "\n# Hidden by the sandbox, and not there for it.\n";

/// The hidden files, and the lists of ignored files that name them.
#[derive(Default)]
pub(super) struct AbsentFiles {
    /// Their paths inside.
    files: HashSet<Vec<u8>>,
    pub(super) lists: Vec<IgnoreList>,
}

/// The list of a repository.
pub(super) struct IgnoreList {
    /// Its path inside.
    pub(super) at: Vec<u8>,
    pub(super) identity: (u64, u64),
    pub(super) text: String,
}

/// The innermost repository around a file.
enum RepositoryAround {
    Absent,
    /// Its directory is below this one.
    At(PathBuf),
    /// It is elsewhere, or cannot be examined.
    Unknown,
}

impl AbsentFiles {
    /// Finds the hidden files that a link can replace. The others stay closed.
    pub(super) fn find(mounts: &[HostMount], names: &[ScanResult]) -> AbsentFiles {
        let mut absent = AbsentFiles::default();
        for (mount, names) in mounts.iter().zip(names) {
            let hidden = names.found.iter().filter(|one| one.hide && !one.is_dir);
            let mut repositories: BTreeMap<PathBuf, Vec<&GuardedPath>> = BTreeMap::new();
            for found in hidden.filter(|_| mount.linked.is_none()) {
                match repository_around(mount, &found.below) {
                    RepositoryAround::At(top) => repositories.entry(top).or_default().push(found),
                    RepositoryAround::Absent if !is_writable(mount) => absent.add(mount, found),
                    RepositoryAround::Absent | RepositoryAround::Unknown => {}
                }
            }
            for (top, hidden) in repositories {
                absent.add_untracked(mount, names, &top, &hidden);
            }
        }
        absent
    }

    pub(super) fn has(&self, inside: &[u8]) -> bool {
        self.files.contains(inside)
    }

    fn add(&mut self, mount: &HostMount, found: &GuardedPath) {
        self.files.insert(dest(&mount.inside, &found.below));
    }

    /// Adds the files of a repository that are not in its index.
    fn add_untracked(
        &mut self,
        mount: &HostMount,
        names: &ScanResult,
        top: &Path,
        hidden: &[&GuardedPath],
    ) {
        // Only where the list is read-only its copy can take its place.
        let info = top.join(INFO);
        let is_kept = |found: &GuardedPath| found.below == info && !found.hide;
        if is_writable(mount) && !names.found.iter().any(is_kept) {
            return;
        }
        let Some(untracked) = untracked(mount, names, top, hidden) else {
            return;
        };
        let Some(list) = list_with(mount, top, &untracked) else {
            return;
        };
        for found in untracked {
            self.add(mount, found);
        }
        self.lists.push(list);
    }
}

fn is_writable(mount: &HostMount) -> bool {
    mount.access.contains(Access::WRITE)
}

fn repository_around(mount: &HostMount, file: &Path) -> RepositoryAround {
    let in_git = file.components().any(|part| part.as_os_str() == ".git");
    for top in file.ancestors().skip(1) {
        match mount.look(&top.join(".git")) {
            Err(Errno::ENOENT) => {}
            Ok(stat) if below::kind(&stat) == SFlag::S_IFDIR && !in_git => {
                return RepositoryAround::At(top.to_owned());
            }
            Ok(_) | Err(_) => return RepositoryAround::Unknown,
        }
    }
    RepositoryAround::Absent
}

/// Returns the files that are not in a repository's index. `None` if there are none, or the index
/// cannot be read.
fn untracked<'a>(
    mount: &HostMount,
    names: &ScanResult,
    top: &Path,
    hidden: &[&'a GuardedPath],
) -> Option<Vec<&'a GuardedPath>> {
    let in_repository = |found: &GuardedPath| found.below.strip_prefix(top).ok().map(path_bytes);
    let own;
    let index = match names.indexes.get(top) {
        Some(index) => index,
        None => {
            let wanted: HashSet<Vec<u8>> =
                hidden.iter().filter_map(|one| in_repository(one)).collect();
            own = read_index(mount, top, &|path| wanted.contains(path))?;
            &own
        }
    };
    let is_untracked =
        |found: &&&GuardedPath| in_repository(found).is_some_and(|path| !index.lists(&path));
    let untracked: Vec<_> = hidden.iter().filter(is_untracked).copied().collect();
    (!untracked.is_empty()).then_some(untracked)
}

fn read_index(
    mount: &HostMount,
    top: &Path,
    is_wanted: &dyn Fn(&[u8]) -> bool,
) -> Option<TrackedFiles> {
    match below::file_below(mount.handle.as_fd(), &top.join(".git/index")) {
        // Nothing was added yet.
        Err(Errno::ENOENT) => Some(TrackedFiles::default()),
        file => TrackedFiles::read(&content_of(file.ok()?, MAX_INDEX_BYTES)?, is_wanted).ok(),
    }
}

/// Returns a repository's list with the hidden files; `None` if it cannot be read, or cannot name one.
fn list_with(mount: &HostMount, top: &Path, hidden: &[&GuardedPath]) -> Option<IgnoreList> {
    let below = top.join(LIST);
    let file = below::file_below(mount.handle.as_fd(), &below).ok()?;
    let identity = identity(&file).ok()?;
    let line = |found: &&GuardedPath| {
        let path = found.below.strip_prefix(top).ok()?.to_str()?;
        Some(format!("/{}\n", escaped(path)?))
    };
    let lines: Option<BTreeSet<String>> = hidden.iter().map(line).collect();
    let mut text = String::from_utf8(content_of(file, MAX_LIST_BYTES)?).ok()?;
    text.push_str(COMMENT);
    lines?.iter().for_each(|line| text.push_str(line));
    Some(IgnoreList {
        at: dest(&mount.inside, &below),
        identity,
        text,
    })
}

/// Returns a pattern that matches only this text; `None` for one that no line can hold.
fn escaped(text: &str) -> Option<String> {
    if text.contains(['\n', '\r']) {
        return None;
    }
    let mut out = String::new();
    for char in text.chars() {
        if matches!(char, '\\' | '*' | '?' | '[' | ' ' | '\t') {
            out.push('\\');
        }
        out.push(char);
    }
    Some(out)
}

fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}
