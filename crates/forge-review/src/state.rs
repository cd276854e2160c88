//! The state of one path: its kind, mode, content, target and attributes, as far as a review
//! compares them.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{FileType, SeekFrom, Stat, fstat, seek};
use rustix::io::{Errno, pread};
use sandbox_names::hex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::budget::Budget;
use crate::error::{ReviewError, failed};
use crate::git_index::{self, IndexEntries};
use crate::path::{self, TreePath};
use crate::tree::{self, OpenObject};

/// The files up to this size have an ordinary SHA-256. A larger one has a hash of its blocks, in
/// which holes cost nothing.
const WHOLE_BYTES: u64 = 64 << 20;

/// The block of the hash of a large file.
const BLOCK_BYTES: usize = 64 << 10;

/// Attributes that overlayfs itself keeps in a layer.
const OVERLAY_XATTRS: &str = "user.overlay.";

/// Those of features that a mount with `userxattr` does not use: content or names would be
/// elsewhere.
const FOREIGN_XATTRS: [&CStr; 2] = [c"user.overlay.redirect", c"user.overlay.metacopy"];

/// Beginning of a content, or of a sum, that is compared without reading the files.
const BY_STAT: &str = "stat:";

/// The kind of an object.
///
/// ```
/// # #[cfg(target_os = "linux")]
/// assert_eq!(serde_json::json!(forge_review::PathKind::File), "file");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

impl PathKind {
    pub(crate) fn of(stat: &Stat) -> PathKind {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => PathKind::File,
            FileType::Directory => PathKind::Directory,
            FileType::Symlink => PathKind::Link,
            FileType::Fifo => PathKind::Pipe,
            FileType::Socket => PathKind::Socket,
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
                PathKind::Device
            }
        }
    }

    /// Returns `true` if an apply can make an object of this kind.
    pub fn is_applicable(self) -> bool {
        match self {
            PathKind::File | PathKind::Directory | PathKind::Link => true,
            PathKind::Pipe | PathKind::Socket | PathKind::Device => false,
        }
    }
}

/// The state of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectState {
    /// The kind of object.
    pub kind: PathKind,
    /// The permission bits, set-id bits included.
    pub mode: u32,
    /// Bytes of a file; 0 for an index of git.
    pub size: u64,
    /// The content of a file: `sha256:…`; `sha256-blocks:…` for a file above 64 MiB; `stat:…`, the
    /// identity, size and times, for one in a generated directory or one that cannot be read;
    /// `git-index:COUNT:…`, the entries of an index of git, whose times git changes when it looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The target of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<LinkTarget>,
    /// The attributes `user.*` without those of overlayfs, values in hexadecimal digits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Everything below a directory that is deleted or replaced by another kind of object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeSum>,
}

/// Returns the kind of an object; `None` if it does not exist.
pub(crate) fn kind_of(state: Option<&ObjectState>) -> Option<PathKind> {
    state.map(|state| state.kind)
}

/// The content of a directory as one figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeSum {
    /// Number of objects below it.
    pub entries: u64,
    /// Bytes of the files below it.
    pub bytes: u64,
    /// A hash of all their names and states; `stat:…` for a generated directory.
    pub digest: String,
}

/// The bytes of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTarget(pub Vec<u8>);

impl Serialize for LinkTarget {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        path::serialize_bytes(&self.0, to)
    }
}

impl<'de> Deserialize<'de> for LinkTarget {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        path::deserialize_bytes(from).map(LinkTarget)
    }
}

/// A time of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct FileTime {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

impl FileTime {
    fn new(seconds: i64, nanoseconds: u64) -> FileTime {
        let nanoseconds = i64::try_from(nanoseconds).unwrap_or(i64::MAX);
        FileTime {
            seconds,
            nanoseconds,
        }
    }
}

/// An object at one moment: which one, and whether its content was written since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectIdentity {
    device: u64,
    inode: u64,
    size: i64,
    modified: FileTime,
}

impl ObjectIdentity {
    pub(crate) fn of(stat: &Stat) -> ObjectIdentity {
        let is_dir = PathKind::of(stat) == PathKind::Directory;
        ObjectIdentity {
            device: stat.st_dev,
            inode: stat.st_ino,
            // Those of a directory change with the names in it.
            size: if is_dir { 0 } else { stat.st_size },
            modified: match is_dir {
                true => FileTime::default(),
                false => modified_at(stat),
            },
        }
    }

    pub(crate) fn is_object(self, other: ObjectIdentity) -> bool {
        self.object() == other.object()
    }

    /// Returns device and inode.
    pub(crate) fn object(self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// How the content of a file is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Content,
    /// By identity, size and times: for directories with many generated files.
    Stat,
}

impl Comparison {
    /// Files in generated directories are many, and are compared without reading them.
    pub(crate) fn new(is_generated: bool) -> Comparison {
        match is_generated {
            true => Comparison::Stat,
            false => Comparison::Content,
        }
    }

    /// Returns the comparison by which a state was made. Without content, the kind of object counts.
    pub(crate) fn of(state: Option<&ObjectState>) -> Comparison {
        let told = state.and_then(|state| {
            let tree = state.tree.as_ref().map(|tree| &tree.digest);
            state.content.as_ref().or(tree)
        });
        Comparison::new(told.is_none_or(|told| told.starts_with(BY_STAT)))
    }
}

/// A path's state with the facts that only count at this moment.
pub(crate) struct ObservedPath {
    pub(crate) state: ObjectState,
    pub(crate) stat: Stat,
}

/// A name in an open directory, in the project or in a layer of ours.
pub(crate) struct Place<'a> {
    pub(crate) dir: &'a OwnedFd,
    pub(crate) name: &'a OsStr,
    pub(crate) path: &'a TreePath,
    /// In a layer of ours: can be opened whatever its mode is.
    pub(crate) is_own: bool,
}

impl Place<'_> {
    /// Returns the state of the object; `None` if it does not exist.
    pub(crate) fn observe(
        &self,
        by: Comparison,
        budget: &mut Budget,
    ) -> Result<Option<ObservedPath>, ReviewError> {
        let stat = tree::lstat(self.dir, self.name).map_err(failed("examine", self.path))?;
        let Some(stat) = stat else { return Ok(None) };
        budget.entry(self.path)?;
        let kind = PathKind::of(&stat);
        let mut observed = ObservedPath {
            state: ObjectState {
                kind,
                mode: stat.st_mode & 0o7777,
                size: 0,
                content: None,
                target: None,
                attributes: BTreeMap::new(),
                tree: None,
            },
            stat,
        };
        match kind {
            PathKind::Link => {
                let target = tree::read_link(self.dir, self.name);
                let target = target.map_err(failed("read", self.path))?;
                observed.state.mode = 0o777;
                observed.state.target = Some(LinkTarget(target));
            }
            PathKind::File | PathKind::Directory => {
                self.observe_content(by, &mut observed, budget)?;
            }
            PathKind::Pipe | PathKind::Socket | PathKind::Device => {
                observed.state.content = Some(by_stat(&observed.stat));
            }
        }
        Ok(Some(observed))
    }

    fn observe_content(
        &self,
        by: Comparison,
        observed: &mut ObservedPath,
        budget: &mut Budget,
    ) -> Result<(), ReviewError> {
        let is_file = observed.state.kind == PathKind::File;
        if is_file {
            observed.state.size = u64::try_from(observed.stat.st_size).unwrap_or_default();
            if by == Comparison::Stat {
                observed.state.content = Some(by_stat(&observed.stat));
                return Ok(());
            }
        }
        let object = match self.open(!is_file) {
            // Unreadable for the person too: it is compared by its identity.
            Err(Errno::ACCESS) if !self.is_own => {
                observed.state.content = is_file.then(|| by_stat(&observed.stat));
                return Ok(());
            }
            object => object.map_err(failed("open", self.path))?,
        };
        let stat = fstat(&*object).map_err(failed("examine", self.path))?;
        // Replaced in between, by the person.
        if (stat.st_dev, stat.st_ino) != (observed.stat.st_dev, observed.stat.st_ino) {
            return Err(failed("examine", self.path)(Errno::BUSY));
        }
        observed.state.attributes = attributes(&object, self.path)?;
        if is_file {
            observed.state.size = u64::try_from(stat.st_size).unwrap_or_default();
            let entries = self.index_entries(&object, observed.state.size, budget)?;
            observed.state.content = Some(match entries {
                Some(entries) => {
                    observed.state.size = 0;
                    format!("git-index:{}:{}", entries.count, hex(entries.digest))
                }
                None => content_hash(&object, self.path, budget)?,
            });
        }
        Ok(())
    }

    /// Returns the entries of a file that is an index of git.
    fn index_entries(
        &self,
        file: &OwnedFd,
        size: u64,
        budget: &mut Budget,
    ) -> Result<Option<IndexEntries>, ReviewError> {
        let bytes = usize::try_from(size).unwrap_or(usize::MAX);
        if size > WHOLE_BYTES || !git_index::is_possible_at(self.path) {
            return Ok(None);
        }
        let mut content = vec![0; bytes];
        each_block(file, size, self.path, |at, block| {
            budget.bytes(u64_of(block.len()), self.path)?;
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            if let Some(room) = content.get_mut(at..).and_then(|c| c.get_mut(..block.len())) {
                room.copy_from_slice(block);
            }
            Ok(())
        })?;
        Ok(git_index::entries(&content))
    }

    pub(crate) fn open(&self, is_dir: bool) -> rustix::io::Result<OpenObject> {
        match (self.is_own, is_dir) {
            (true, _) => tree::open_own(self.dir, self.name, is_dir),
            (false, true) => tree::open_dir(self.dir, self.name).map(OpenObject::from),
            (false, false) => tree::open_file(self.dir, self.name).map(OpenObject::from),
        }
    }

    /// Returns everything below a directory of the project as one figure, and tells `visit` about
    /// every object.
    pub(crate) fn observe_tree(
        &self,
        by: Comparison,
        budget: &mut Budget,
        visit: &mut dyn FnMut(&TreePath, &ObservedPath) -> Result<(), ReviewError>,
    ) -> Result<TreeSum, ReviewError> {
        let dir = self.open(true).map_err(failed("open", self.path))?;
        let mut sum = TreeSum {
            entries: 0,
            bytes: 0,
            digest: String::new(),
        };
        let mut hash = Sha256::new();
        let mut walk = Walk {
            by,
            budget,
            visit,
            sum: &mut sum,
            hash: &mut hash,
        };
        walk.directory(&dir, self.path)?;
        let form = match by {
            Comparison::Content => "sha256:",
            Comparison::Stat => BY_STAT,
        };
        sum.digest = format!("{form}{}", hex(hash.finalize()));
        Ok(sum)
    }
}

struct Walk<'a> {
    by: Comparison,
    budget: &'a mut Budget,
    visit: &'a mut dyn FnMut(&TreePath, &ObservedPath) -> Result<(), ReviewError>,
    sum: &'a mut TreeSum,
    hash: &'a mut Sha256,
}

impl Walk<'_> {
    fn directory(&mut self, dir: &OwnedFd, path: &TreePath) -> Result<(), ReviewError> {
        self.budget.depth(path)?;
        for name in tree::names(dir).map_err(failed("read", path))? {
            let path = path.join(&name);
            let place = Place {
                dir,
                name: &name,
                path: &path,
                is_own: false,
            };
            let Some(observed) = place.observe(self.by, self.budget)? else {
                continue;
            };
            self.sum.entries += 1;
            self.sum.bytes += observed.state.size;
            self.hash.update(u64_of(name.len()).to_le_bytes());
            self.hash.update(name.as_bytes());
            let state = serde_json::to_vec(&observed.state)
                .map_err(|error| ReviewError::damaged("state", error))?;
            self.hash.update(u64_of(state.len()).to_le_bytes());
            self.hash.update(&state);
            (self.visit)(&path, &observed)?;
            if observed.state.kind == PathKind::Directory {
                let below = place.open(true).map_err(failed("open", &path))?;
                self.directory(&below, &path)?;
                self.hash.update(b"end");
            }
        }
        Ok(())
    }
}

pub(crate) fn changed_at(stat: &Stat) -> FileTime {
    FileTime::new(stat.st_ctime, stat.st_ctime_nsec)
}

/// Returns the time of the last write of an object.
pub(crate) fn modified_at(stat: &Stat) -> FileTime {
    FileTime::new(stat.st_mtime, stat.st_mtime_nsec)
}

pub(crate) fn u64_of(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn by_stat(stat: &Stat) -> String {
    format!(
        "{BY_STAT}{}:{}:{}:{}.{:09}:{}.{:09}",
        stat.st_dev,
        stat.st_ino,
        stat.st_size,
        stat.st_mtime,
        stat.st_mtime_nsec,
        stat.st_ctime,
        stat.st_ctime_nsec
    )
}

/// Fails for an object of an overlay whose content or names are elsewhere.
pub(crate) fn refuse_foreign(object: &OwnedFd, path: &TreePath) -> Result<(), ReviewError> {
    let names = tree::xattr_names(object).map_err(failed("list the attributes of", path))?;
    match names.iter().any(|name| FOREIGN_XATTRS.contains(&&**name)) {
        true => Err(ReviewError::Unsupported {
            path: path.to_string(),
            reason: "is marked as moved or without its content",
        }),
        false => Ok(()),
    }
}

/// Returns the attributes of an object that a review compares and applies.
pub(crate) fn attributes(
    object: &OwnedFd,
    path: &TreePath,
) -> Result<BTreeMap<String, String>, ReviewError> {
    let mut found = BTreeMap::new();
    for name in tree::xattr_names(object).map_err(failed("list the attributes of", path))? {
        let Ok(name) = name.into_string() else {
            continue;
        };
        if !name.starts_with("user.") || name.starts_with(OVERLAY_XATTRS) {
            continue;
        }
        let value = tree::xattr(object, &name).map_err(failed("read an attribute of", path))?;
        if let Some(value) = value {
            found.insert(name, hex(value));
        }
    }
    Ok(found)
}

/// Hashes a file. Only its size decides how, so that two files of one content have one hash,
/// whatever holes they have.
pub(crate) fn content_hash(
    file: &OwnedFd,
    path: &TreePath,
    budget: &mut Budget,
) -> Result<String, ReviewError> {
    let stat = fstat(file).map_err(failed("examine", path))?;
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    let mut hash = BlockHasher::of(size);
    each_block(file, size, path, |at, block| {
        budget.bytes(u64_of(block.len()), path)?;
        hash.block(at, block);
        Ok(())
    })?;
    Ok(hash.finish())
}

/// The hash of a content that arrives in blocks of [`BLOCK_BYTES`], in order; blocks of zeros may
/// be missing.
pub(crate) struct BlockHasher {
    hash: Sha256,
    size: u64,
    /// Hashed bytes.
    at: u64,
}

impl BlockHasher {
    pub(crate) fn of(size: u64) -> BlockHasher {
        BlockHasher {
            hash: Sha256::new(),
            size,
            at: 0,
        }
    }

    pub(crate) fn block(&mut self, at: u64, block: &[u8]) {
        if self.size > WHOLE_BYTES {
            if block.iter().any(|byte| *byte != 0) {
                self.hash.update(at.to_le_bytes());
                self.hash.update(u64_of(block.len()).to_le_bytes());
                self.hash.update(block);
            }
            return;
        }
        self.zeros_up_to(at);
        self.hash.update(block);
        self.at = at + u64_of(block.len());
    }

    fn zeros_up_to(&mut self, end: u64) {
        while self.at < end {
            let missing =
                usize::try_from(end - self.at).map_or(BLOCK_BYTES, |n| n.min(BLOCK_BYTES));
            self.hash.update(&[0; BLOCK_BYTES][..missing]);
            self.at += u64_of(missing);
        }
    }

    pub(crate) fn finish(mut self) -> String {
        if self.size > WHOLE_BYTES {
            self.hash.update(b"size");
            self.hash.update(self.size.to_le_bytes());
            return format!("sha256-blocks:{}", hex(self.hash.finalize()));
        }
        self.zeros_up_to(self.size);
        format!("sha256:{}", hex(self.hash.finalize()))
    }
}

/// Passes all blocks of a file that are not in a hole. A file that grows meanwhile is read up to
/// `size`.
pub(crate) fn each_block(
    file: &OwnedFd,
    size: u64,
    path: &TreePath,
    mut pass: impl FnMut(u64, &[u8]) -> Result<(), ReviewError>,
) -> Result<(), ReviewError> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    while at < size {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // The rest is a hole.
            Err(Errno::NXIO) => break,
            // This file system knows no holes.
            Err(Errno::INVAL) => at,
            Err(error) => return Err(failed("read", path)(error)),
        };
        // Blocks begin at multiples of their size, wherever data begins.
        at = data - data % u64_of(BLOCK_BYTES);
        let end = match seek(file, SeekFrom::Hole(data)) {
            Ok(end) => end.min(size),
            Err(Errno::INVAL) => size,
            Err(error) => return Err(failed("read", path)(error)),
        };
        while at < end {
            let length = read_block(file, at, size, &mut block).map_err(failed("read", path))?;
            if length == 0 {
                return Ok(());
            }
            pass(at, &block[..length])?;
            at += u64_of(length);
        }
    }
    Ok(())
}

/// Fills a block as far as the file goes.
fn read_block(file: impl AsFd, at: u64, size: u64, block: &mut [u8]) -> rustix::io::Result<usize> {
    let wanted = usize::try_from(size - at).map_or(block.len(), |rest| rest.min(block.len()));
    let mut length = 0;
    while length < wanted {
        match pread(&file, &mut block[length..wanted], at + u64_of(length)) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek as _, Write as _};

    fn hash_of(file: std::fs::File) -> String {
        let mut budget = Budget::new(&crate::ReviewLimits::default());
        content_hash(&file.into(), &TreePath::default(), &mut budget).unwrap()
    }

    #[test]
    fn holes_do_not_change_a_hash() {
        for size in [3 << 20, (64 << 20) + (5 << 10)] {
            let mut dense = tempfile::tempfile().unwrap();
            let mut sparse = tempfile::tempfile().unwrap();
            dense.write_all(&vec![0; size]).unwrap();
            sparse.set_len(size.try_into().unwrap()).unwrap();
            for file in [&mut dense, &mut sparse] {
                for at in [70_001, 2 << 20] {
                    file.seek(std::io::SeekFrom::Start(at)).unwrap();
                    file.write_all(b"some data").unwrap();
                }
            }
            let mut other = dense.try_clone().unwrap();
            let before = hash_of(dense);
            assert_eq!(before, hash_of(sparse));
            other.seek(std::io::SeekFrom::Start(70_002)).unwrap();
            other.write_all(b"O").unwrap();
            assert_ne!(before, hash_of(other));
        }
    }

    #[test]
    fn small_files_have_the_usual_hash() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"abc").unwrap();
        assert_eq!(
            hash_of(file),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
