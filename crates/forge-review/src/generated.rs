//! Directories of generated files: a name of dependencies, environments or build output, unless git
//! tracks something in the directory. Tracked files are sources, and each change of one is shown.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use sandbox_names::git_index::{MAX_INDEX_BYTES, TrackedFiles};

use crate::path::{TreePath, is_objects};
use crate::tree;

/// Largest file that leads to a git directory.
const MAX_LEAD_BYTES: u64 = 8 << 10;

/// Directories with names of generated files in which a repository tracks something, by their folded
/// names. `None` for a repository that cannot be read: it may track anything.
type TrackedDirs = Option<BTreeSet<Vec<String>>>;

/// The directories of generated files of one mount.
pub(crate) struct GeneratedDirs<'a> {
    lower: &'a OwnedFd,
    host: &'a Path,
    /// By the top of a repository; the top of the mount stands for the directories around it too.
    tracked: RefCell<BTreeMap<TreePath, TrackedDirs>>,
}

impl<'a> GeneratedDirs<'a> {
    /// `host` is the path of the project `lower`.
    pub(crate) fn new(lower: &'a OwnedFd, host: &'a Path) -> GeneratedDirs<'a> {
        let tracked = RefCell::default();
        GeneratedDirs {
            lower,
            host,
            tracked,
        }
    }

    /// Returns the outermost directory of generated files that contains this path or, with `is_dir`,
    /// is at it.
    pub(crate) fn root_of(&self, path: &TreePath, is_dir: bool) -> Option<TreePath> {
        let mut roots = path.generated_roots(is_dir);
        roots.find(|root| is_objects(&root.folded_names()) || !self.is_tracked(root, path))
    }

    /// Returns `true` if a repository around a path may track something below `root`.
    fn is_tracked(&self, root: &TreePath, path: &TreePath) -> bool {
        let root = root.folded_names();
        let mut tops = std::iter::once(TreePath::default()).chain(path.parents());
        tops.any(|top| {
            let mut tracked = self.tracked.borrow_mut();
            let dirs = tracked
                .entry(top)
                .or_insert_with_key(|top| self.tracked_dirs(top));
            dirs.as_ref().is_none_or(|dirs| dirs.contains(&root))
        })
    }

    fn tracked_dirs(&self, top: &TreePath) -> TrackedDirs {
        let (git, top) = match self.repository(top) {
            Ok(Some(found)) => found,
            Ok(None) => return Some(BTreeSet::new()),
            Err(_) => return None,
        };
        let index = match read(git.as_fd(), "index".as_ref(), MAX_INDEX_BYTES) {
            Err(Errno::NOENT) => return Some(BTreeSet::new()),
            index => index.ok()?,
        };
        let roots = |path: &[u8]| {
            let path = top.join(OsStr::from_bytes(path));
            let path = path.strip_prefix(self.host).ok().and_then(TreePath::parse);
            let roots = path.map(|path| path.generated_roots(true).collect::<Vec<_>>());
            roots.unwrap_or_default()
        };
        let files = TrackedFiles::read(&index, &|path| !roots(path).is_empty()).ok()?;
        let roots = files.paths().flat_map(roots);
        Some(roots.map(|root| root.folded_names()).collect())
    }

    /// Returns the git directory of a repository with this top, and the top's path on the host.
    fn repository(&self, top: &TreePath) -> rustix::io::Result<Option<(OwnedFd, PathBuf)>> {
        let host = self.host.join(top.to_os_string());
        let dir = match tree::open_below(self.lower, top) {
            // It is new, or was no directory.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            dir => dir?,
        };
        if let Some(git) = git_dir(dir.as_fd(), ".git".as_ref(), &host)? {
            return Ok(Some((git, host)));
        }
        if !top.names().is_empty() {
            return Ok(None);
        }
        for top in self.host.ancestors().skip(1) {
            if let Some(git) = git_dir(CWD, &top.join(".git"), top)? {
                return Ok(Some((git, top.to_owned())));
            }
        }
        Ok(None)
    }
}

/// Opens a git directory. That of a linked working tree or of a module is elsewhere.
fn git_dir(dir: BorrowedFd<'_>, git: &Path, top: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    let open = |path: &Path| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(dir, path, flags, Mode::empty())
    };
    match open(git) {
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR) => {
            let lead = read(dir, git, MAX_LEAD_BYTES)?;
            let path = lead.strip_prefix(b"gitdir: ").ok_or(Errno::INVAL)?;
            let path = path.strip_suffix(b"\n").unwrap_or(path);
            open(&top.join(OsStr::from_bytes(path))).map(Some)
        }
        opened => opened.map(Some),
    }
}

/// Reads a regular file of at most this many bytes.
fn read(dir: BorrowedFd<'_>, path: &Path, max_bytes: u64) -> rustix::io::Result<Vec<u8>> {
    let file = std::fs::File::from(tree::open_file(dir, path.as_os_str())?);
    let mut content = Vec::new();
    let read = file.metadata().and_then(|meta| match meta.is_file() {
        true => file.take(max_bytes + 1).read_to_end(&mut content),
        false => Err(Errno::INVAL.into()),
    });
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    match u64::try_from(content.len()).is_ok_and(|bytes| bytes <= max_bytes) {
        true => Ok(content),
        false => Err(Errno::FBIG),
    }
}
