//! Directories of generated files: a name of dependencies, environments or build output, unless git
//! tracks something in the directory. Tracked files are sources, and each change of one is shown.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::io::Errno;
use sandbox_names::git::gitfile_target;
use sandbox_names::git_index::{MAX_INDEX_BYTES, TrackedFiles};

use crate::path::{TreePath, is_objects};
use crate::state::u64_of;
use crate::tree;

/// Largest file that leads to a git directory.
const MAX_LEAD_BYTES: u64 = 8 << 10;

/// Directories with names of generated files in which a repository tracks something, by their folded
/// names. `None` for a repository that cannot be read: it may track anything.
type TrackedDirs = Option<BTreeSet<Vec<String>>>;

/// The directories of generated files of one mount.
pub(crate) struct GeneratedDirs<'a> {
    host: &'a Path,
    /// By the top of a repository, which may be around the mount.
    tracked: RefCell<HashMap<PathBuf, TrackedDirs>>,
}

impl<'a> GeneratedDirs<'a> {
    /// `host` is the path of the project.
    pub(crate) fn new(host: &'a Path) -> GeneratedDirs<'a> {
        let tracked = RefCell::default();
        GeneratedDirs { host, tracked }
    }

    /// Returns the outermost directory of generated files that contains this path or, with `is_dir`,
    /// is at it.
    pub(crate) fn root_of(&self, path: &TreePath, is_dir: bool) -> Option<TreePath> {
        let mut roots = path.generated_roots(is_dir);
        roots.find(|root| is_objects(&root.folded_names()) || !self.is_tracked(root, path))
    }

    /// Returns `true` if a repository around a path may track something below `root`. A wrong
    /// repository only adds to that, so links on the way need no care.
    fn is_tracked(&self, root: &TreePath, path: &TreePath) -> bool {
        let root = root.folded_names();
        let mut tracked = self.tracked.borrow_mut();
        let path = self.host.join(path.to_os_string());
        path.ancestors().skip(1).any(|top| {
            if !tracked.contains_key(top) {
                tracked.insert(top.to_owned(), self.tracked_dirs(top));
            }
            tracked[top]
                .as_ref()
                .is_none_or(|dirs| dirs.contains(&root))
        })
    }

    fn tracked_dirs(&self, top: &Path) -> TrackedDirs {
        let index = match index_of(top) {
            // Without a repository, or one that git cannot use either.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Some(BTreeSet::new()),
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
}

/// Reads the index of the repository with this top.
fn index_of(top: &Path) -> rustix::io::Result<Vec<u8>> {
    let git = top.join(".git");
    match read(&git.join("index"), MAX_INDEX_BYTES) {
        // The git directory of a linked working tree, or of a module, is elsewhere.
        Err(Errno::NOTDIR) => {
            let lead = read(&git, MAX_LEAD_BYTES)?;
            let path = gitfile_target(&lead).ok_or(Errno::INVAL)?;
            let git = top.join(OsStr::from_bytes(path));
            read(&git.join("index"), MAX_INDEX_BYTES)
        }
        index => index,
    }
}

/// Reads a regular file of at most this many bytes.
fn read(path: &Path, max_bytes: u64) -> rustix::io::Result<Vec<u8>> {
    let file = tree::open_file(CWD, path.as_os_str())?;
    let content = tree::read_file(&file, max_bytes)?.ok_or(Errno::INVAL)?;
    let is_whole = u64_of(content.len()) <= max_bytes;
    is_whole.then_some(content).ok_or(Errno::FBIG)
}
