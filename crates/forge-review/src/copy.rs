//! A copy of a mount's directory that a run changes in place of it, where no overlay can be mounted
//! or where other processes have to see the changes too.
//!
//! The copy is bounded, and complete before the run starts: a limit that is met is an error, and objects
//! that cannot be copied are left out and listed. A manifest tells afterwards the changes of the run
//! ([`crate::settle`]).

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Stat, StatxFlags, Uid, chownat, fchmod, fchown, fstat, ftruncate,
    futimens, ioctl_ficlone, linkat, mkdirat, openat, renameat, statx, symlinkat, syncfs, unlinkat,
    utimensat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::error::{ReviewError, failed, failed_own};
use crate::own_files::{OnDisk, read_json, write_json};
use crate::path::TreePath;
use crate::quarantine::is_quarantined;
use crate::review::{CopiedTree, LeftOutPath, LeftOutReason};
use crate::staging::{MODE_BITS, set_attributes, times_of, write_all};
use crate::state::{FileTime, PathKind, attributes, changed_at, each_block, u64_of};
use crate::tree;

/// The name of a copy in the directory of its mount.
pub(crate) const COPY: &str = "copy";
/// A copy that is being removed.
const GONE: &str = "copy-gone";
const MANIFEST: &str = "manifest.json";

/// The most left-out paths that are listed.
const MAX_LEFT_OUT: usize = 200;

/// The objects of a copy before the run, by path; the directory itself has the empty path.
#[derive(Serialize, Deserialize)]
pub(crate) struct CopyManifest {
    objects: Vec<(TreePath, CopiedObject)>,
}

/// An object of a copy before the run.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CopiedObject {
    /// Without inode and times: one that was removed and made again has its names compared all the
    /// same, and its times change with the names in it.
    Directory {
        mode: u32,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        attributes: BTreeMap<String, String>,
    },
    /// A file or link. Any change of it changes the time of its status.
    Other {
        kind: PathKind,
        inode: u64,
        size: i64,
        changed: FileTime,
    },
}

impl CopiedObject {
    /// Describes an object that is not a directory.
    pub(crate) fn other(stat: &Stat) -> CopiedObject {
        CopiedObject::Other {
            kind: PathKind::of(stat),
            inode: stat.st_ino,
            size: stat.st_size,
            changed: changed_at(stat),
        }
    }

    pub(crate) fn directory(stat: &Stat, attributes: BTreeMap<String, String>) -> CopiedObject {
        CopiedObject::Directory {
            mode: stat.st_mode & 0o7777,
            attributes,
        }
    }

    fn changed(&self) -> Option<FileTime> {
        match self {
            CopiedObject::Directory { .. } => None,
            CopiedObject::Other { changed, .. } => Some(*changed),
        }
    }
}

/// A manifest, to look things up.
pub(crate) struct CopyIndex {
    objects: HashMap<TreePath, CopiedObject>,
    names: HashMap<TreePath, Vec<TreePath>>,
}

impl CopyIndex {
    pub(crate) fn read(mount: &OwnedFd) -> Result<CopyIndex, ReviewError> {
        let manifest: Option<CopyManifest> = read_json(mount, MANIFEST)?;
        let manifest = manifest.ok_or_else(|| ReviewError::damaged(MANIFEST, "missing"))?;
        let mut names: HashMap<TreePath, Vec<TreePath>> = HashMap::new();
        for (path, _) in &manifest.objects {
            if let Some((above, _)) = path.split_last() {
                names.entry(above).or_default().push(path.clone());
            }
        }
        Ok(CopyIndex {
            objects: manifest.objects.into_iter().collect(),
            names,
        })
    }

    pub(crate) fn get(&self, path: &TreePath) -> Option<&CopiedObject> {
        self.objects.get(path)
    }

    /// Returns the paths directly below a directory.
    pub(crate) fn below(&self, path: &TreePath) -> &[TreePath] {
        self.names.get(path).map_or(&[], Vec::as_slice)
    }
}

/// Copies a directory into `mount`, with a manifest. `reviews` is left out.
pub(crate) fn make(
    lower: &OwnedFd,
    mount: &OwnedFd,
    reviews: &Stat,
    budget: &mut Budget,
) -> Result<CopiedTree, ReviewError> {
    let root = TreePath::default();
    mkdirat(mount, COPY, Mode::RWXU).map_err(failed_own("create", "the copy"))?;
    let to = tree::open_dir(mount, COPY.as_ref()).map_err(failed_own("open", "the copy"))?;
    let stat = fstat(lower).map_err(failed("examine", &root))?;
    let mut copier = TreeCopier {
        root: to.try_clone().map_err(|error| ReviewError::Io {
            operation: "open",
            path: "the copy".to_owned(),
            source: error,
        })?,
        device: stat.st_dev,
        mounted: mount_id(lower, OsStr::new("")),
        reviews: (reviews.st_dev, reviews.st_ino),
        can_clone: true,
        links: HashMap::new(),
        budget,
        copied: CopiedTree::default(),
    };
    copier.directory(lower, &to, &root)?;
    finish_dir(lower, &to, &stat, &root)?;
    // A loss of power must not make objects differ from the manifest.
    syncfs(&to).map_err(failed_own("write", "the copy"))?;
    let mut objects = Vec::new();
    note(mount, COPY.as_ref(), &root, &mut objects)?;
    let last = objects
        .iter()
        .filter_map(|(_, object)| object.changed())
        .max();
    write_json(mount, MANIFEST, &CopyManifest { objects }, OnDisk::Now)?;
    wait_for_later(mount, last.unwrap_or_default())?;
    Ok(copier.copied)
}

/// Returns the mount that a name is on, if the kernel says (Linux 5.8).
fn mount_id(dir: &OwnedFd, name: &OsStr) -> Option<u64> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
    let found = statx(dir, name, flags, StatxFlags::MNT_ID).ok()?;
    StatxFlags::from_bits_retain(found.stx_mask)
        .contains(StatxFlags::MNT_ID)
        .then_some(found.stx_mnt_id)
}

struct TreeCopier<'a> {
    /// The directory of the copy.
    root: OwnedFd,
    device: u64,
    mounted: Option<u64>,
    /// Device and inode of the directory of all reviews.
    reviews: (u64, u64),
    can_clone: bool,
    /// Copied files with several names, by device and inode.
    links: HashMap<(u64, u64), TreePath>,
    budget: &'a mut Budget,
    copied: CopiedTree,
}

impl TreeCopier<'_> {
    fn directory(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        path: &TreePath,
    ) -> Result<(), ReviewError> {
        self.budget.depth(path)?;
        for name in tree::names(from).map_err(failed("read", path))? {
            let path = path.join(&name);
            match self.entry(from, to, &name, &path) {
                Err(ReviewError::Io {
                    operation: OPEN | EXAMINE,
                    source,
                    ..
                }) if source.kind() == ErrorKind::PermissionDenied => {
                    self.leave_out(path, LeftOutReason::Unreadable);
                }
                // Removed in the meantime.
                Err(ReviewError::Io {
                    operation: OPEN | EXAMINE,
                    source,
                    ..
                }) if source.kind() == ErrorKind::NotFound => {}
                copied => copied?,
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &OsStr,
        path: &TreePath,
    ) -> Result<(), ReviewError> {
        let stat = tree::lstat(from, name).map_err(failed(EXAMINE, path))?;
        let Some(stat) = stat else { return Ok(()) };
        self.budget.entry(path)?;
        let kind = PathKind::of(&stat);
        if let Some(reason) = self.reason_to_leave_out(from, name, &stat) {
            self.leave_out(path.clone(), reason);
            return Ok(());
        }
        match kind {
            PathKind::Directory => {
                let source = tree::open_dir(from, name).map_err(failed(OPEN, path))?;
                mkdirat(to, name, Mode::RWXU).map_err(failed("copy", path))?;
                let inner = tree::open_dir(to, name).map_err(failed("copy", path))?;
                self.directory(&source, &inner, path)?;
                finish_dir(&source, &inner, &stat, path)?;
            }
            PathKind::Link => {
                let target = tree::read_link(from, name).map_err(failed(OPEN, path))?;
                symlinkat(OsStr::from_bytes(&target), to, name).map_err(failed("copy", path))?;
                if let Some((user, group)) = owner(&stat) {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    permitted(chownat(to, name, user, group, flags))
                        .map_err(failed("copy", path))?;
                }
                utimensat(to, name, &times_of(&stat), AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(failed("copy", path))?;
            }
            PathKind::File => {
                let key = (stat.st_dev, stat.st_ino);
                let first = self.links.get(&key).filter(|_| stat.st_nlink > 1);
                if let Some((above, first)) = first.and_then(TreePath::split_last) {
                    // Closed directories are closed only when everything in them is there.
                    let above = tree::open_own_below(&self.root, &above);
                    let above = above.map_err(failed("copy", path))?;
                    linkat(&*above, first, to, name, AtFlags::empty())
                        .map_err(failed("copy", path))?;
                } else {
                    self.file(from, to, name, path)?;
                    if stat.st_nlink > 1 {
                        self.links.insert(key, path.clone());
                    }
                }
            }
            PathKind::Pipe | PathKind::Socket | PathKind::Device => {}
        }
        self.copied.objects += 1;
        Ok(())
    }

    fn reason_to_leave_out(
        &self,
        from: &OwnedFd,
        name: &OsStr,
        stat: &Stat,
    ) -> Option<LeftOutReason> {
        if !PathKind::of(stat).is_applicable() {
            return Some(LeftOutReason::Special);
        }
        if (stat.st_dev, stat.st_ino) == self.reviews {
            return Some(LeftOutReason::Reviews);
        }
        let is_mount = match (self.mounted, mount_id(from, name)) {
            (Some(outer), Some(inner)) => outer != inner,
            // Also a subvolume then.
            _ => stat.st_dev != self.device,
        };
        is_mount.then_some(LeftOutReason::Mounted)
    }

    fn leave_out(&mut self, path: TreePath, reason: LeftOutReason) {
        self.copied.left_out += 1;
        if self.copied.left_out_paths.len() < MAX_LEFT_OUT {
            let one = LeftOutPath { path, reason };
            self.copied.left_out_paths.push(one);
        }
    }

    fn file(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &OsStr,
        path: &TreePath,
    ) -> Result<(), ReviewError> {
        let source = tree::open_file(from, name).map_err(failed(OPEN, path))?;
        let stat = fstat(&source).map_err(failed("read", path))?;
        if PathKind::of(&stat) != PathKind::File {
            return Err(failed("copy", path)(Errno::BUSY));
        }
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            openat(to, name, flags, Mode::RUSR | Mode::WUSR).map_err(failed("copy", path))?;
        self.content(&source, &file, &stat, path)?;
        set_attributes(&file, &BTreeMap::new(), &attributes(&source, path)?, path)?;
        if let Some((user, group)) = owner(&stat) {
            permitted(fchown(&file, user, group)).map_err(failed("copy", path))?;
        }
        let mode = Mode::from_raw_mode(stat.st_mode & MODE_BITS);
        fchmod(&file, mode).map_err(failed("copy", path))?;
        futimens(&file, &times_of(&stat)).map_err(failed("copy", path))
    }

    /// Shares the blocks of a file where the file system can do that, and copies them otherwise,
    /// without holes.
    fn content(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        stat: &Stat,
        path: &TreePath,
    ) -> Result<(), ReviewError> {
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        if self.can_clone && size > 0 {
            if ioctl_ficlone(to, from).is_ok() {
                let blocks = u64::try_from(stat.st_blocks).unwrap_or_default();
                let bytes = size.min(blocks.saturating_mul(512));
                self.copied.bytes += bytes;
                return self.budget.bytes(bytes, path);
            }
            self.can_clone = false;
        }
        ftruncate(to, size).map_err(failed("copy", path))?;
        each_block(from, size, path, |at, block| {
            self.budget.bytes(u64_of(block.len()), path)?;
            self.copied.bytes += u64_of(block.len());
            write_all(to, block, at).map_err(failed("copy", path))
        })
    }
}

const OPEN: &str = "open";
const EXAMINE: &str = "examine";

/// Gives a copied directory its attributes, owner, mode and times.
fn finish_dir(
    from: &OwnedFd,
    to: &OwnedFd,
    stat: &Stat,
    path: &TreePath,
) -> Result<(), ReviewError> {
    set_attributes(to, &BTreeMap::new(), &attributes(from, path)?, path)?;
    shape_dir(to, stat, path)
}

/// Gives a directory the owner, the mode and the times of another one.
pub(crate) fn shape_dir(dir: &OwnedFd, like: &Stat, path: &TreePath) -> Result<(), ReviewError> {
    if let Some((user, group)) = owner(like) {
        permitted(fchown(dir, user, group)).map_err(failed("copy", path))?;
    }
    fchmod(dir, Mode::from_raw_mode(like.st_mode & 0o7777)).map_err(failed("copy", path))?;
    futimens(dir, &times_of(like)).map_err(failed("copy", path))
}

/// Returns the owner of an object, unless it is this process.
fn owner(stat: &Stat) -> Option<(Option<Uid>, Option<Gid>)> {
    let is_own = (stat.st_uid, stat.st_gid) == (geteuid().as_raw(), getegid().as_raw());
    let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    (!is_own).then_some((Some(owner.0), Some(owner.1)))
}

/// Objects of others belong to this user in the copy; an apply keeps the owner, or is refused.
fn permitted(changed: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match changed {
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        changed => changed,
    }
}

/// Notes an object of the copy, and everything below it.
fn note(
    dir: &OwnedFd,
    name: &OsStr,
    path: &TreePath,
    objects: &mut Vec<(TreePath, CopiedObject)>,
) -> Result<(), ReviewError> {
    let stat = tree::lstat(dir, name).map_err(failed(EXAMINE, path))?;
    let stat = stat.ok_or_else(|| failed(EXAMINE, path)(Errno::NOENT))?;
    if PathKind::of(&stat) != PathKind::Directory {
        objects.push((path.clone(), CopiedObject::other(&stat)));
        return Ok(());
    }
    let inner = tree::open_own(dir, name, true).map_err(failed("open", path))?;
    let found = attributes(&inner, path)?;
    objects.push((path.clone(), CopiedObject::directory(&stat, found)));
    for name in tree::names(&*inner).map_err(failed("read", path))? {
        note(&inner, &name, &path.join(&name), objects)?;
    }
    Ok(())
}

/// Waits until a change would have another time than the last object of the copy. The clocks of file
/// systems go forward in steps of some milliseconds.
fn wait_for_later(mount: &OwnedFd, last: FileTime) -> Result<(), ReviewError> {
    const STEP: std::time::Duration = std::time::Duration::from_millis(1);
    const STEPS: u32 = 5_000;
    const PROBE: &str = "clock";
    for _ in 0..STEPS {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let probe = openat(mount, PROBE, flags, Mode::RUSR | Mode::WUSR)
            .map_err(failed_own("create", PROBE))?;
        let stat = fstat(&probe).map_err(failed_own("examine", PROBE))?;
        unlinkat(mount, PROBE, AtFlags::empty()).map_err(failed_own("remove", PROBE))?;
        if changed_at(&stat) > last {
            return Ok(());
        }
        std::thread::sleep(STEP);
    }
    Err(ReviewError::Unsupported {
        path: "copy".to_owned(),
        reason: "is on a file system whose clock stands still, so changes would not be noticed",
    })
}

/// Returns `true` if a run can go on in the copy of a mount.
pub(crate) fn is_whole(mount: &OwnedFd) -> bool {
    let has = |name: &str| tree::lstat(mount, name.as_ref()).is_ok_and(|stat| stat.is_some());
    has(COPY) && has(MANIFEST)
}

/// Removes the copy of a mount, except its quarantine with `keeps_quarantine`. From the first step on
/// no run can go on in it.
pub(crate) fn drop_copy(mount: &OwnedFd, keeps_quarantine: bool) -> Result<(), ReviewError> {
    let removed = |error| failed_own("remove", "the copy")(error);
    tree::remove_tree(mount, GONE.as_ref()).map_err(removed)?;
    if keeps_quarantine {
        match unlinkat(mount, MANIFEST, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(removed(error)),
        }
        let copy = tree::open_own(mount, COPY.as_ref(), true).map_err(removed)?;
        for name in tree::names(&*copy).map_err(removed)? {
            if !is_quarantined(&TreePath::default().join(&name)) {
                tree::remove_tree(&*copy, &name).map_err(removed)?;
            }
        }
        return Ok(());
    }
    match renameat(mount, COPY, mount, GONE) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(removed(error)),
    }
    tree::remove_tree(mount, GONE.as_ref()).map_err(removed)
}
