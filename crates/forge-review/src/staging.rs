//! New objects, prepared on the file system of their destination under names of ours, and complete
//! before the first one is moved.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod,
    fchown, fremovexattr, fsetxattr, fstat, fsync, ftruncate, futimens, linkat, mkdirat, openat,
    symlinkat, utimensat,
};
use rustix::io::{Errno, pwrite};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::budget::Budget;
use crate::error::{ReviewError, failed};
use crate::path::TreePath;
use crate::state::{
    BlockHasher, ObjectIdentity, ObjectState, PathKind, Place, attributes, content_hash,
    each_block, u64_of,
};
use crate::tree;

/// The bits of a mode that an apply gives: never set-user-id and set-group-id.
pub(crate) const MODE_BITS: u32 = 0o1777;

/// Beginning of the name of the directory with prepared objects, at the root of a mount.
pub(crate) const AREA: &str = ".forge-review-";

/// The directory with prepared objects of one mount.
pub(crate) struct StagingArea {
    pub(crate) dir: OwnedFd,
    /// Files of the layer with several names, by device and inode.
    links: BTreeMap<(u64, u64), SharedFile>,
}

/// A file of the layer with several names.
struct SharedFile {
    /// The number of the first prepared name.
    first: usize,
    /// Its device and inode.
    object: (u64, u64),
    path: TreePath,
    prepared: u64,
    names: u64,
}

/// An object to prepare.
pub(crate) struct Blueprint<'a> {
    pub(crate) number: usize,
    pub(crate) path: &'a TreePath,
    pub(crate) state: &'a ObjectState,
    /// The object of the project that it replaces.
    pub(crate) victim: Option<&'a Stat>,
    /// The content, if it is not the one of the layer.
    pub(crate) content: Option<&'a [u8]>,
    /// `true` for a protected name, which no other name may share its content with.
    pub(crate) is_single: bool,
}

/// A prepared object.
pub(crate) struct PreparedPath {
    pub(crate) identity: ObjectIdentity,
    /// Its state, with the hash of the content that was written.
    pub(crate) state: ObjectState,
}

pub(crate) fn staged_name(number: usize) -> OsString {
    format!("new-{number}").into()
}

pub(crate) fn victim_name(number: usize) -> OsString {
    format!("old-{number}").into()
}

impl StagingArea {
    pub(crate) fn open(lower: &OwnedFd, name: &str) -> rustix::io::Result<StagingArea> {
        let dir = tree::open_dir(lower, name.as_ref())?;
        Ok(StagingArea {
            dir,
            links: BTreeMap::new(),
        })
    }

    pub(crate) fn create(lower: &OwnedFd, name: &str) -> Result<StagingArea, ReviewError> {
        let root = TreePath::default();
        mkdirat(lower, name, Mode::RWXU).map_err(failed("prepare files in", &root))?;
        StagingArea::open(lower, name).map_err(failed("prepare files in", &root))
    }

    /// Prepares an object from the layer.
    pub(crate) fn prepare(
        &mut self,
        from: &Place<'_>,
        blueprint: &Blueprint<'_>,
        budget: &mut Budget,
    ) -> Result<PreparedPath, ReviewError> {
        let Blueprint { path, state, .. } = blueprint;
        let gone = || failed("read", path)(Errno::NOENT);
        let source = tree::lstat(from.dir, from.name).map_err(failed("read", path))?;
        let source = source.ok_or_else(gone)?;
        if PathKind::of(&source) != state.kind {
            return Err(changed_since_listed(path));
        }
        let name = staged_name(blueprint.number);
        let mut state = (*state).clone();
        state.mode &= if state.kind == PathKind::Link {
            0o777
        } else {
            MODE_BITS
        };
        let stat = match state.kind {
            PathKind::Link => self.link(from, &name, &source, path)?,
            PathKind::Directory => self.directory(from, &name, blueprint, &mut state)?,
            PathKind::File => {
                let key = (source.st_dev, source.st_ino);
                let can_share = blueprint.content.is_none() && !blueprint.is_single;
                let is_shared = source.st_nlink > 1 && can_share;
                let stat = match self.links.get(&key) {
                    Some(shared) if is_shared => {
                        let (stat, content) = self.further_name(shared, &name, path, budget)?;
                        state.content = Some(content);
                        stat
                    }
                    _ => self.file(from, &name, blueprint, (&source, &mut state), budget)?,
                };
                if is_shared {
                    let shared = self.links.entry(key).or_insert_with(|| SharedFile {
                        first: blueprint.number,
                        path: (*path).clone(),
                        object: (stat.st_dev, stat.st_ino),
                        prepared: 0,
                        names: source.st_nlink,
                    });
                    shared.prepared += 1;
                }
                stat
            }
            PathKind::Pipe | PathKind::Socket | PathKind::Device => {
                return Err(ReviewError::Unsupported {
                    path: path.to_string(),
                    reason: "is a pipe, socket or device",
                });
            }
        };
        Ok(PreparedPath {
            identity: ObjectIdentity::of(&stat),
            state,
        })
    }

    /// Returns the files of which not every name is applied, as notes.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> + '_ {
        let split = self
            .links
            .values()
            .filter(|file| file.prepared < file.names);
        split.map(|file| {
            format!(
                "{}: it is a hard link of names that are not applied, and becomes a file of its own",
                file.path
            )
        })
    }

    // Each returns the facts of the object that it made, by its descriptor: another program may have put
    // its own object at the name meanwhile.

    /// Gives the first prepared name's file another one. Returns its content, too.
    fn further_name(
        &self,
        shared: &SharedFile,
        name: &OsStr,
        path: &TreePath,
        budget: &mut Budget,
    ) -> Result<(Stat, String), ReviewError> {
        let first = staged_name(shared.first);
        linkat(&self.dir, &first, &self.dir, name, AtFlags::empty())
            .map_err(failed("link", path))?;
        let file = tree::open_own(&self.dir, name, false).map_err(failed("read", path))?;
        let stat = fstat(&*file).map_err(failed("prepare", path))?;
        if (stat.st_dev, stat.st_ino) != shared.object {
            return Err(ReviewError::PreparedChanged(path.clone()));
        }
        Ok((stat, content_hash(&file, path, budget)?))
    }

    fn link(
        &self,
        from: &Place<'_>,
        name: &OsStr,
        source: &Stat,
        path: &TreePath,
    ) -> Result<Stat, ReviewError> {
        let target = tree::read_link(from.dir, from.name).map_err(failed("read", path))?;
        let target = OsStr::from_bytes(&target);
        symlinkat(target, &self.dir, name).map_err(failed("prepare", path))?;
        if let Some((user, group)) = self.other_owner(name, source, path)? {
            chownat(
                &self.dir,
                name,
                Some(user),
                Some(group),
                AtFlags::SYMLINK_NOFOLLOW,
            )
            .map_err(failed("keep the owner of", path))?;
        }
        utimensat(
            &self.dir,
            name,
            &times_of(source),
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .map_err(failed("prepare", path))?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(&self.dir, name, flags, Mode::empty());
        let made = made.map_err(failed("prepare", path))?;
        match tree::read_link(&made, OsStr::new("")) {
            Ok(found) if found == target.as_bytes() => {
                fstat(&made).map_err(failed("prepare", path))
            }
            Ok(_) | Err(_) => Err(ReviewError::PreparedChanged(path.clone())),
        }
    }

    /// A directory stays writable for its owner until everything in it is there.
    fn directory(
        &self,
        from: &Place<'_>,
        name: &OsStr,
        blueprint: &Blueprint<'_>,
        state: &mut ObjectState,
    ) -> Result<Stat, ReviewError> {
        let path = blueprint.path;
        mkdirat(&self.dir, name, Mode::RWXU).map_err(failed("prepare", path))?;
        let dir = tree::open_dir(&self.dir, name).map_err(failed("prepare", path))?;
        let source = from.open(true).map_err(failed("read", path))?;
        let source_stat = fstat(&*source).map_err(failed("read", path))?;
        self.own(&dir, name, &source_stat, path)?;
        state.attributes = attributes(&source, path)?;
        set_attributes(&dir, &BTreeMap::new(), &state.attributes, path)?;
        let mode = Mode::from_raw_mode(state.mode | 0o700);
        fchmod(&dir, mode).map_err(failed("prepare", path))?;
        fsync(&dir).map_err(failed("prepare", path))?;
        fstat(&dir).map_err(failed("prepare", path))
    }

    fn file(
        &self,
        from: &Place<'_>,
        name: &OsStr,
        blueprint: &Blueprint<'_>,
        (source_stat, state): (&Stat, &mut ObjectState),
        budget: &mut Budget,
    ) -> Result<Stat, ReviewError> {
        let path = blueprint.path;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(failed("prepare", path))?;
        let source = from.open(false).map_err(failed("read", path))?;
        let written = match blueprint.content {
            Some(content) => {
                write_all(&file, content, 0).map_err(failed("write", path))?;
                state.size = u64_of(content.len());
                let mut hash = BlockHasher::of(state.size);
                hash.block(0, content);
                hash.finish()
            }
            None => {
                state.size = u64::try_from(source_stat.st_size).unwrap_or_default();
                copy_content(&source, &file, state.size, path, budget)?
            }
        };
        let listed = state.content.replace(written);
        let is_other = listed.is_some_and(|listed| {
            listed.starts_with("sha256") && state.content.as_deref() != Some(listed.as_str())
        });
        if is_other && blueprint.content.is_none() {
            return Err(changed_since_listed(path));
        }
        if blueprint.content.is_none() {
            state.attributes = attributes(&source, path)?;
        }
        set_attributes(&file, &BTreeMap::new(), &state.attributes, path)?;
        self.own(&file, name, blueprint.victim.unwrap_or(source_stat), path)?;
        let mode = Mode::from_raw_mode(state.mode);
        fchmod(&file, mode).map_err(failed("prepare", path))?;
        if blueprint.content.is_none() {
            futimens(&file, &times_of(source_stat)).map_err(failed("prepare", path))?;
        }
        fsync(&file).map_err(failed("write", path))?;
        fstat(&file).map_err(failed("prepare", path))
    }

    /// Gives a prepared object the owner of another one, or fails.
    fn own(
        &self,
        object: &OwnedFd,
        name: &OsStr,
        like: &Stat,
        path: &TreePath,
    ) -> Result<(), ReviewError> {
        match self.other_owner(name, like, path)? {
            Some((user, group)) => {
                fchown(object, Some(user), Some(group)).map_err(failed("keep the owner of", path))
            }
            None => Ok(()),
        }
    }

    fn other_owner(
        &self,
        name: &OsStr,
        like: &Stat,
        path: &TreePath,
    ) -> Result<Option<(Uid, Gid)>, ReviewError> {
        let made = tree::lstat(&self.dir, name).map_err(failed("prepare", path))?;
        let is_same =
            made.is_some_and(|made| (made.st_uid, made.st_gid) == (like.st_uid, like.st_gid));
        let (user, group) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
        Ok((!is_same).then_some((user, group)))
    }
}

fn changed_since_listed(path: &TreePath) -> ReviewError {
    ReviewError::damaged("layer", format!("`{path}` is not as it was listed"))
}

/// Copies a file with its holes, and returns the hash of the content.
fn copy_content(
    from: &OwnedFd,
    to: &OwnedFd,
    size: u64,
    path: &TreePath,
    budget: &mut Budget,
) -> Result<String, ReviewError> {
    let mut hash = BlockHasher::of(size);
    ftruncate(to, size).map_err(failed("write", path))?;
    each_block(from, size, path, |at, block| {
        budget.bytes(u64_of(block.len()), path)?;
        hash.block(at, block);
        write_all(to, block, at).map_err(failed("write", path))
    })?;
    Ok(hash.finish())
}

pub(crate) fn write_all(file: &OwnedFd, mut bytes: &[u8], mut at: u64) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match pwrite(file, bytes, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                bytes = &bytes[written..];
                at += u64_of(written);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(crate) fn times_of(stat: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or_default(),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// Turns the attributes `before` of an object into `after`.
pub(crate) fn set_attributes(
    object: &OwnedFd,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    path: &TreePath,
) -> Result<(), ReviewError> {
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        match fremovexattr(object, name.as_str()) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(error) => return Err(failed("change an attribute of", path)(error)),
        }
    }
    for (name, value) in after
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(value))
    {
        let invalid = || format!("invalid value of the attribute {name}");
        let value = sandbox_names::unhex(value);
        let value = value.ok_or_else(|| ReviewError::damaged("review.json", invalid()))?;
        fsetxattr(object, name.as_str(), &value, XattrFlags::empty())
            .map_err(failed("set an attribute of", path))?;
    }
    Ok(())
}
