//! Files that live in memory: for tests, previews, and programs without a disk of their own.
//!
//! Objects are shared by reference like inodes, so a handle refers to its object even if names
//! move. One lock protects the whole tree: two names change at once or not at all.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::{BackendDir, BackendError, BackendFile, BackendNames, FileId, FileKind, FileMeta};

/// An open directory of a tree in memory.
#[derive(Clone, Debug)]
pub(crate) struct MemoryDir {
    tree: Arc<MemoryTree>,
    inode: u64,
    /// Keeps the inode while this handle lives.
    _open: Arc<InodeHandle>,
}

#[derive(Debug)]
pub(crate) struct MemoryFile {
    tree: Arc<MemoryTree>,
    inode: u64,
    made_here: bool,
    _open: Arc<InodeHandle>,
}

pub(crate) struct MemoryNames(std::vec::IntoIter<(OsString, FileKind)>);

#[derive(Debug)]
struct MemoryTree {
    volume: u64,
    inodes: Mutex<Inodes>,
}

#[derive(Debug)]
struct Inodes {
    all: BTreeMap<u64, Inode>,
    next: u64,
}

#[derive(Debug)]
struct Inode {
    content: InodeContent,
    mode: u32,
    owner: (u32, u32),
    modified: SystemTime,
    /// Names that lead here; 1 for the root.
    links: u64,
    handles: u64,
}

#[derive(Debug)]
enum InodeContent {
    Directory(BTreeMap<OsString, u64>),
    File(Vec<u8>),
    Link(OsString),
}

/// One open handle; the last one of an object without a name takes it along.
#[derive(Debug)]
struct InodeHandle {
    tree: Arc<MemoryTree>,
    inode: u64,
}

const ROOT: u64 = 1;
const DIR_MODE: u32 = 0o755;
const NAME_MAX_BYTES: usize = 255;

static VOLUMES: AtomicU64 = AtomicU64::new(1);

impl MemoryDir {
    /// The root of a new, empty tree.
    pub(crate) fn new() -> Self {
        let root = Inode::new(InodeContent::Directory(BTreeMap::new()), DIR_MODE);
        let inodes = Inodes {
            all: BTreeMap::from([(ROOT, Inode { links: 1, ..root })]),
            next: ROOT + 1,
        };
        let tree = Arc::new(MemoryTree {
            // Far from the device numbers of a host.
            volume: u64::MAX - VOLUMES.fetch_add(1, Ordering::Relaxed),
            inodes: Mutex::new(inodes),
        });
        let mut all = tree.lock();
        let open = tree.open(&mut all, ROOT);
        drop(all);
        Self {
            inode: ROOT,
            _open: open,
            tree,
        }
    }

    pub(crate) fn add_link(&self, name: &OsStr, text: &OsStr) -> Result<(), BackendError> {
        self.add(name, InodeContent::Link(text.to_owned()), 0o777)
            .map(drop)
    }

    fn add(&self, name: &OsStr, content: InodeContent, mode: u32) -> Result<u64, BackendError> {
        check_name(name)?;
        let mut all = self.tree.lock();
        if all.dir(self.inode)?.contains_key(name) {
            return Err(BackendError::Exists);
        }
        // A directory without a name takes no new ones, as on a host.
        if all.get(self.inode)?.links == 0 {
            return Err(BackendError::Missing);
        }
        let inode = all.next;
        all.next += 1;
        let new = Inode {
            links: 1,
            ..Inode::new(content, mode)
        };
        all.all.insert(inode, new);
        all.dir_mut(self.inode)?.insert(name.to_owned(), inode);
        Ok(inode)
    }

    fn child(&self, all: &Inodes, name: &OsStr) -> Result<u64, BackendError> {
        check_name(name)?;
        all.dir(self.inode)?
            .get(name)
            .copied()
            .ok_or(BackendError::Missing)
    }

    fn file(&self, name: &OsStr) -> Result<MemoryFile, BackendError> {
        let mut all = self.tree.lock();
        let inode = self.child(&all, name)?;
        match all.get(inode)?.content {
            InodeContent::Directory(_) => return Err(BackendError::IsDirectory),
            InodeContent::Link(_) => return Err(BackendError::Link),
            InodeContent::File(_) => {}
        }
        let open = self.tree.open(&mut all, inode);
        Ok(MemoryFile {
            tree: self.tree.clone(),
            inode,
            made_here: false,
            _open: open,
        })
    }

    fn unname(&self, all: &mut Inodes, name: &OsStr) -> Result<(), BackendError> {
        let gone = all.dir_mut(self.inode)?.remove(name);
        if let Some(inode) = gone {
            all.unlink(inode);
        }
        Ok(())
    }
}

impl BackendDir for MemoryDir {
    type File = MemoryFile;
    type Names = MemoryNames;

    async fn own_meta(&self) -> Result<FileMeta, BackendError> {
        self.tree.meta(&self.tree.lock(), self.inode)
    }

    async fn meta(&self, name: &OsStr) -> Result<FileMeta, BackendError> {
        let all = self.tree.lock();
        self.tree.meta(&all, self.child(&all, name)?)
    }

    async fn names(&self) -> Result<MemoryNames, BackendError> {
        let all = self.tree.lock();
        let mut names = Vec::new();
        for (name, inode) in all.dir(self.inode)? {
            names.push((name.clone(), all.get(*inode)?.kind()));
        }
        Ok(MemoryNames(names.into_iter()))
    }

    async fn read_link(&self, name: &OsStr) -> Result<OsString, BackendError> {
        let all = self.tree.lock();
        match &all.get(self.child(&all, name)?)?.content {
            InodeContent::Link(text) => Ok(text.clone()),
            InodeContent::Directory(_) | InodeContent::File(_) => Err(BackendError::Invalid),
        }
    }

    async fn open_dir(&self, name: &OsStr) -> Result<Self, BackendError> {
        let mut all = self.tree.lock();
        let inode = self.child(&all, name)?;
        match all.get(inode)?.content {
            InodeContent::Link(_) | InodeContent::File(_) => {
                return Err(BackendError::NotDirectory);
            }
            InodeContent::Directory(_) => {}
        }
        let open = self.tree.open(&mut all, inode);
        Ok(Self {
            tree: self.tree.clone(),
            inode,
            _open: open,
        })
    }

    async fn open_file(&self, name: &OsStr) -> Result<MemoryFile, BackendError> {
        self.file(name)
    }

    async fn open_to_write(&self, name: &OsStr) -> Result<MemoryFile, BackendError> {
        self.file(name)
    }

    async fn open_parent(&self) -> Option<Self> {
        None
    }

    async fn is_mount_point(&self, _name: &OsStr) -> bool {
        false
    }

    async fn created(&self, _name: &OsStr) -> Option<SystemTime> {
        None
    }

    async fn open_dir_beneath(&self, _way: &str) -> Option<Self> {
        None
    }

    async fn open_file_beneath(&self, _way: &str) -> Option<MemoryFile> {
        None
    }

    async fn meta_beneath(&self, _way: &str) -> Option<FileMeta> {
        None
    }

    async fn refuses_write(&self, _name: &OsStr) -> Option<BackendError> {
        None
    }

    async fn create_dir(&self, name: &OsStr) -> Result<(), BackendError> {
        self.add(name, InodeContent::Directory(BTreeMap::new()), DIR_MODE)
            .map(drop)
    }

    async fn create_file(&self, name: &OsStr, mode: u32) -> Result<MemoryFile, BackendError> {
        // As under the usual umask.
        self.add(name, InodeContent::File(Vec::new()), mode & !0o022)?;
        let made_here = true;
        Ok(MemoryFile {
            made_here,
            ..self.file(name)?
        })
    }

    async fn rename(
        &self,
        from: &OsStr,
        to: &Self,
        name: &OsStr,
        replace: bool,
    ) -> Result<(), BackendError> {
        if !Arc::ptr_eq(&self.tree, &to.tree) {
            return Err(BackendError::OtherVolume);
        }
        let mut all = self.tree.lock();
        let moved = self.child(&all, from)?;
        check_name(name)?;
        if all.get(to.inode)?.links == 0 {
            return Err(BackendError::Missing);
        }
        if all.holds(moved, to.inode) {
            return Err(BackendError::Invalid);
        }
        if let Some(old) = all.dir(to.inode)?.get(name).copied() {
            if !replace {
                return Err(BackendError::Exists);
            }
            if old == moved {
                return Ok(());
            }
            match (&all.get(moved)?.content, &all.get(old)?.content) {
                (InodeContent::Directory(_), InodeContent::Directory(old)) if !old.is_empty() => {
                    return Err(BackendError::NotEmpty);
                }
                (InodeContent::Directory(_), InodeContent::File(_) | InodeContent::Link(_)) => {
                    return Err(BackendError::NotDirectory);
                }
                (InodeContent::File(_) | InodeContent::Link(_), InodeContent::Directory(_)) => {
                    return Err(BackendError::IsDirectory);
                }
                (InodeContent::Directory(_), InodeContent::Directory(_))
                | (
                    InodeContent::File(_) | InodeContent::Link(_),
                    InodeContent::File(_) | InodeContent::Link(_),
                ) => {}
            }
            to.unname(&mut all, name)?;
        }
        all.dir_mut(self.inode)?.remove(from);
        all.dir_mut(to.inode)?.insert(name.to_owned(), moved);
        Ok(())
    }

    async fn exchange(&self, from: &OsStr, to: &Self, name: &OsStr) -> Result<(), BackendError> {
        if !Arc::ptr_eq(&self.tree, &to.tree) {
            return Err(BackendError::OtherVolume);
        }
        let mut all = self.tree.lock();
        let (one, other) = (self.child(&all, from)?, to.child(&all, name)?);
        if all.holds(one, to.inode) || all.holds(other, self.inode) {
            return Err(BackendError::Invalid);
        }
        all.dir_mut(self.inode)?.insert(from.to_owned(), other);
        all.dir_mut(to.inode)?.insert(name.to_owned(), one);
        Ok(())
    }

    async fn remove_file(&self, name: &OsStr) -> Result<(), BackendError> {
        let mut all = self.tree.lock();
        let inode = self.child(&all, name)?;
        match all.get(inode)?.content {
            InodeContent::Directory(_) => Err(BackendError::IsDirectory),
            InodeContent::File(_) | InodeContent::Link(_) => self.unname(&mut all, name),
        }
    }

    async fn remove_dir(&self, name: &OsStr) -> Result<(), BackendError> {
        let mut all = self.tree.lock();
        let inode = self.child(&all, name)?;
        match &all.get(inode)?.content {
            InodeContent::Directory(entries) if entries.is_empty() => self.unname(&mut all, name),
            InodeContent::Directory(_) => Err(BackendError::NotEmpty),
            InodeContent::File(_) | InodeContent::Link(_) => Err(BackendError::NotDirectory),
        }
    }

    async fn sync(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl BackendFile for MemoryFile {
    async fn meta(&self) -> Result<FileMeta, BackendError> {
        self.tree.meta(&self.tree.lock(), self.inode)
    }

    async fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, BackendError> {
        let all = self.tree.lock();
        let bytes = all.file(self.inode)?;
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| bytes.get(offset..))
            .unwrap_or_default();
        let got = rest.len().min(buffer.len());
        buffer[..got].copy_from_slice(&rest[..got]);
        Ok(got)
    }

    async fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), BackendError> {
        let mut all = self.tree.lock();
        let own = all.file_mut(self.inode)?;
        let start = usize::try_from(offset).map_err(|_| FULL)?;
        let end = start.checked_add(bytes.len()).ok_or(FULL)?;
        if own.len() < end {
            own.try_reserve(end - own.len()).map_err(|_| FULL)?;
            own.resize(end, 0);
        }
        own[start..end].copy_from_slice(bytes);
        Ok(())
    }

    async fn set_size(&self, bytes: u64) -> Result<(), BackendError> {
        let mut all = self.tree.lock();
        let own = all.file_mut(self.inode)?;
        let size = usize::try_from(bytes).map_err(|_| FULL)?;
        own.try_reserve(size.saturating_sub(own.len()))
            .map_err(|_| FULL)?;
        own.resize(size, 0);
        Ok(())
    }

    async fn set_mode(&self, mode: u32) -> Result<(), BackendError> {
        self.tree.lock().get_mut(self.inode)?.mode = mode;
        Ok(())
    }

    async fn set_owner(&self, owner: (u32, u32)) -> Result<(), BackendError> {
        self.tree.lock().get_mut(self.inode)?.owner = owner;
        Ok(())
    }

    /// The tree ends with its process, so only the creator of a file claims it.
    async fn claim(&self) -> bool {
        self.made_here
    }

    /// No other process sees the tree, and `ops::lock` has a lock within this one.
    async fn lock(&self) -> Result<bool, BackendError> {
        Ok(true)
    }

    async fn sync(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl BackendNames for MemoryNames {
    async fn next(&mut self) -> Result<Option<(OsString, Option<FileKind>)>, BackendError> {
        Ok(self.0.next().map(|(name, kind)| (name, Some(kind))))
    }
}

const FULL: BackendError = BackendError::Kind(io::ErrorKind::StorageFull);

impl MemoryTree {
    fn lock(&self) -> MutexGuard<'_, Inodes> {
        // Nothing that runs under the lock leaves it half done.
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(self: &Arc<Self>, all: &mut Inodes, inode: u64) -> Arc<InodeHandle> {
        if let Ok(node) = all.get_mut(inode) {
            node.handles += 1;
        }
        Arc::new(InodeHandle {
            tree: self.clone(),
            inode,
        })
    }

    fn meta(&self, all: &Inodes, inode: u64) -> Result<FileMeta, BackendError> {
        let node = all.get(inode)?;
        let size = match &node.content {
            InodeContent::Directory(_) => 0,
            InodeContent::File(bytes) => bytes.len() as u64,
            InodeContent::Link(text) => text.len() as u64,
        };
        Ok(FileMeta {
            kind: node.kind(),
            size,
            mode: node.mode,
            links: node.links,
            owner: node.owner,
            modified: Some(node.modified),
            changed: Some(node.modified),
            id: FileId(self.volume, inode),
        })
    }
}

impl Inodes {
    fn get(&self, inode: u64) -> Result<&Inode, BackendError> {
        self.all.get(&inode).ok_or(BackendError::Missing)
    }

    fn get_mut(&mut self, inode: u64) -> Result<&mut Inode, BackendError> {
        self.all.get_mut(&inode).ok_or(BackendError::Missing)
    }

    fn dir(&self, inode: u64) -> Result<&BTreeMap<OsString, u64>, BackendError> {
        match &self.get(inode)?.content {
            InodeContent::Directory(entries) => Ok(entries),
            InodeContent::File(_) | InodeContent::Link(_) => Err(BackendError::NotDirectory),
        }
    }

    /// Returns an inode to change, and updates its time.
    fn dir_mut(&mut self, inode: u64) -> Result<&mut BTreeMap<OsString, u64>, BackendError> {
        let node = self.get_mut(inode)?;
        node.modified = SystemTime::now();
        match &mut node.content {
            InodeContent::Directory(entries) => Ok(entries),
            InodeContent::File(_) | InodeContent::Link(_) => Err(BackendError::NotDirectory),
        }
    }

    fn file(&self, inode: u64) -> Result<&[u8], BackendError> {
        match &self.get(inode)?.content {
            InodeContent::File(bytes) => Ok(bytes),
            InodeContent::Directory(_) | InodeContent::Link(_) => Err(BackendError::Invalid),
        }
    }

    fn file_mut(&mut self, inode: u64) -> Result<&mut Vec<u8>, BackendError> {
        let node = self.get_mut(inode)?;
        node.modified = SystemTime::now();
        match &mut node.content {
            InodeContent::File(bytes) => Ok(bytes),
            InodeContent::Directory(_) | InodeContent::Link(_) => Err(BackendError::Invalid),
        }
    }

    fn unlink(&mut self, inode: u64) {
        if let Some(node) = self.all.get_mut(&inode) {
            node.links = node.links.saturating_sub(1);
        }
        self.drop_unused(inode);
    }

    fn drop_unused(&mut self, inode: u64) {
        if let Some(node) = self.all.get(&inode)
            && node.links == 0
            && node.handles == 0
        {
            self.all.remove(&inode);
        }
    }

    /// `true` if `inner` is `outer` or below it.
    fn holds(&self, outer: u64, inner: u64) -> bool {
        let mut pending = vec![outer];
        while let Some(inode) = pending.pop() {
            if inode == inner {
                return true;
            }
            if let Ok(entries) = self.dir(inode) {
                pending.extend(entries.values());
            }
        }
        false
    }
}

impl Inode {
    fn new(content: InodeContent, mode: u32) -> Self {
        Self {
            content,
            mode,
            owner: (0, 0),
            modified: SystemTime::now(),
            links: 0,
            handles: 0,
        }
    }

    fn kind(&self) -> FileKind {
        match self.content {
            InodeContent::Directory(_) => FileKind::Directory,
            InodeContent::File(_) => FileKind::File,
            InodeContent::Link(_) => FileKind::Link,
        }
    }
}

impl Drop for InodeHandle {
    fn drop(&mut self) {
        let mut all = self.tree.lock();
        if let Some(node) = all.all.get_mut(&self.inode) {
            node.handles = node.handles.saturating_sub(1);
        }
        all.drop_unused(self.inode);
    }
}

fn check_name(name: &OsStr) -> Result<(), BackendError> {
    let bytes = name.as_encoded_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(BackendError::Invalid);
    }
    if bytes.len() > NAME_MAX_BYTES {
        return Err(BackendError::NameTooLong);
    }
    Ok(())
}
