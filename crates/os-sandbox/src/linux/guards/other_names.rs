//! Other names (hard links) of protected and hidden files. Mounts are over names, and a file can be
//! changed or read by each of its names.
//!
//! Entry point: [`close`], between the walks and the start. Every name of such a file in a mount is
//! guarded like the one that was found. A name outside of the mounts is out of reach.

use super::super::host_mount::HostMount;
use super::names::{GuardedPath, ScanResult};
use super::walk::MAX_ENTRIES;
use crate::access::Access;
use crate::promise::Promise;
use crate::quarantine::QUARANTINE;
use rustix::fs::FileType;
use std::collections::{HashMap, HashSet};
use std::fs::{self, DirEntry};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Number of an inode from a file system that fills in none (`FUSE_UNKNOWN_INO`).
const UNKNOWN_INODE: u64 = u32::MAX as u64;

/// Bound on the names that a receipt lists.
const MAX_REMARKS: usize = 8;

/// A guarded file with more than one name.
struct MultiNamedFile {
    /// One of its names, as the command sees it.
    shown: String,
    hide: bool,
    links: u64,
    /// Its names of the host that are guarded.
    guarded: HashSet<PathBuf>,
}

/// The guarded files with other names, by device and inode.
type MultiNamedFiles = HashMap<(u64, u64), MultiNamedFile>;

/// Guards the other names of guarded files. Returns remarks on them; the error is the reason why they
/// cannot be looked for.
pub(super) fn close(
    mounts: &[HostMount],
    names: &mut [ScanResult],
) -> Result<Vec<(Promise, String)>, String> {
    let mut shared = MultiNamedFiles::new();
    for (mount, names) in mounts.iter().zip(names.iter()) {
        let known = |found: &&GuardedPath| !found.unlisted && found.below != Path::new(QUARANTINE);
        for found in names.found.iter().filter(known) {
            collect(mount, found, &mut shared);
        }
    }
    shared.retain(|_, file| file.links > file.guarded.len() as u64);
    let hides = shared.values().any(|file| file.hide);
    let (mut remarks, mut more) = (Vec::new(), 0);
    for (mount, names) in mounts.iter().zip(names) {
        let is_reached = mount.access.contains(Access::WRITE) || hides && !mount.access.is_none();
        if shared.is_empty() || !mount.is_dir || !is_reached {
            continue;
        }
        for (below, file) in find(mount, names, &shared)? {
            let (promise, how) = match file.hide {
                true => (Promise::HiddenNames, "hidden"),
                false => (Promise::ProtectedNames, "read-only"),
            };
            if remarks.len() < MAX_REMARKS {
                let (name, of) = (mount.shown(&below), &file.shown);
                remarks.push((
                    promise,
                    format!("{name} is {how} too: another name of {of}"),
                ));
            } else {
                more += 1;
            }
            names.add(mount, below, FileType::RegularFile, file.hide);
        }
    }
    if more > 0 {
        let remark = format!("so are {more} further names of such files");
        remarks.push((Promise::ProtectedNames, remark));
    }
    Ok(remarks)
}

/// Collects the files at and below a guarded name that have several names.
fn collect(mount: &HostMount, found: &GuardedPath, shared: &mut MultiNamedFiles) {
    let mut queue = vec![found.below.clone()];
    while let Some(below) = queue.pop() {
        let path = mount.host.join(&below);
        let Ok(meta) = path.symlink_metadata() else {
            continue;
        };
        if meta.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            queue.extend(entries.map(|entry| below.join(entry.file_name())));
        } else if meta.is_file() && meta.nlink() > 1 {
            let file = shared.entry((meta.dev(), meta.ino()));
            let file = file.or_insert_with(|| MultiNamedFile {
                shown: mount.shown(&below),
                hide: false,
                links: meta.nlink(),
                guarded: HashSet::new(),
            });
            file.hide |= found.hide;
            file.guarded.insert(path);
        }
    }
}

/// Finds the names in a mount that are not guarded.
fn find<'s>(
    mount: &HostMount,
    names: &ScanResult,
    shared: &'s MultiNamedFiles,
) -> Result<Vec<(PathBuf, &'s MultiNamedFile)>, String> {
    let guarded: HashSet<&Path> = names.found.iter().map(|one| one.below.as_path()).collect();
    let inodes: HashSet<u64> = shared.keys().map(|(_, inode)| *inode).collect();
    let may_be = |entry: &DirEntry| {
        matches!(entry.ino(), 0 | UNKNOWN_INODE) || inodes.contains(&entry.ino())
    };
    let (mut out, mut queue, mut count) = (Vec::new(), vec![PathBuf::new()], 0);
    while let Some(dir) = queue.pop() {
        // The walk has reported directories that cannot be listed.
        let entries = fs::read_dir(mount.host.join(&dir))
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            count += 1;
            let (Ok(kind), below) = (entry.file_type(), dir.join(entry.file_name())) else {
                continue;
            };
            if guarded.contains(&*below) || mount.is_covered(&below) {
                continue;
            }
            if kind.is_dir() {
                queue.push(below);
            } else if kind.is_file()
                && may_be(&entry)
                && let Ok(meta) = entry.metadata()
                && let Some(file) = shared.get(&(meta.dev(), meta.ino()))
            {
                out.push((below, file));
            }
        }
        if count > MAX_ENTRIES {
            let file = shared.values().next().map_or("", |file| &file.shown);
            return Err(format!(
                "{file} has another name, and {} more than {MAX_ENTRIES} files and directories; give \
                 {file} content of its own (cp, mv)",
                mount.inside
            ));
        }
    }
    Ok(out)
}
