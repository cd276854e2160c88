//! A project, its review, and the layer between them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use forge_review::{
    ApplyReport, ChangeSelection, LayerLimits, NewMount, OpenReview, ProtectedName, ReviewDir,
    ReviewError, ReviewLimits, ReviewedChange, RunInfo, RunReview, TreePath, open_host_dir,
};
use rustix::fs::{FileType, Mode, XattrFlags};

/// The variable by which a test tells another process of this program what to do.
pub(crate) const DIR: &str = "FORGE_REVIEW_TEST_DIR";

/// The only run.
pub(crate) const RUN: &str = "run-1";

pub(crate) struct Scene {
    dir: PathBuf,
    /// Removes it at the end; absent in a process that another one started.
    _owner: Option<tempfile::TempDir>,
}

impl Scene {
    /// An empty project.
    pub(crate) fn new() -> Scene {
        let owner = tempfile::tempdir().unwrap();
        let scene = Scene {
            dir: owner.path().to_owned(),
            _owner: Some(owner),
        };
        fs::create_dir(scene.lower()).unwrap();
        fs::create_dir(scene.reviews()).unwrap();
        scene
    }

    /// The scene of the process that started this one.
    pub(crate) fn given() -> Scene {
        Scene {
            dir: std::env::var_os(DIR).expect("run by another test").into(),
            _owner: None,
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn lower(&self) -> PathBuf {
        self.dir.join("lower")
    }

    pub(crate) fn reviews(&self) -> PathBuf {
        self.dir.join("reviews")
    }

    pub(crate) fn upper(&self) -> PathBuf {
        self.reviews().join(RUN).join("mounts/project/upper")
    }

    pub(crate) fn reviews_fd(&self) -> OwnedFd {
        open_host_dir(&self.reviews()).unwrap()
    }

    pub(crate) fn lowers(&self) -> Vec<Option<OwnedFd>> {
        vec![open_host_dir(&self.lower()).ok()]
    }

    /// The directory in which a run with a copy works.
    pub(crate) fn copy(&self) -> PathBuf {
        self.upper().with_file_name("copy")
    }

    /// Starts the run in an overlay.
    pub(crate) fn create(&self) -> ReviewDir {
        self.try_create(false, LayerLimits::default()).unwrap()
    }

    /// Starts the run in a copy.
    pub(crate) fn create_copy(&self) -> ReviewDir {
        self.try_create(true, LayerLimits::default()).unwrap()
    }

    pub(crate) fn try_create(
        &self,
        copy: bool,
        limits: LayerLimits,
    ) -> Result<ReviewDir, ReviewError> {
        self.create_in(&self.reviews_fd(), copy, limits)
    }

    pub(crate) fn create_in(
        &self,
        reviews: &OwnedFd,
        copy: bool,
        limits: LayerLimits,
    ) -> Result<ReviewDir, ReviewError> {
        let lower = open_host_dir(&self.lower()).unwrap();
        let about = RunInfo {
            run: RUN.to_owned(),
            project: self.lower(),
            command: vec!["true".to_owned()],
            at_ms: 1,
        };
        let mounts = [NewMount {
            name: "project",
            lower: lower.as_fd(),
            host: &self.lower(),
            protected: &[],
            copy,
        }];
        ReviewDir::create(reviews.as_fd(), &about, &mounts, &limits)
    }

    pub(crate) fn open(&self) -> OpenReview {
        let dir = ReviewDir::open(self.reviews_fd().as_fd(), OsStr::new(RUN)).unwrap();
        OpenReview::new(dir, self.lowers()).unwrap().0
    }

    pub(crate) fn try_record(&self, dir: &mut ReviewDir) -> Result<RunReview, ReviewError> {
        let limits = ReviewLimits::default();
        dir.record(&self.lowers(), &protects, &limits).cloned()
    }

    /// Ends the run.
    pub(crate) fn record(&self, mut dir: ReviewDir) -> OpenReview {
        self.try_record(&mut dir).unwrap();
        drop(dir);
        self.open()
    }

    /// Runs this program again as root of namespaces of its own, with the overlay mounted at
    /// `merged`. Returns `false`, and says why, where that is not possible.
    pub(crate) fn in_overlay(&self, test: &str) -> bool {
        fs::create_dir_all(self.dir.join("merged")).unwrap();
        let script = "mount -t overlay overlay -o \"$1\" \"$2\" && shift 2 && exec \"$@\"";
        let work = self.upper().with_file_name("work");
        let options = format!(
            "lowerdir={},upperdir={},workdir={},userxattr,xino=off,index=off",
            self.lower().display(),
            self.upper().display(),
            work.display()
        );
        let output = Command::new("unshare")
            .args([
                "-U",
                "-r",
                "-m",
                "--propagation",
                "private",
                "sh",
                "-c",
                script,
                "sh",
            ])
            .arg(options)
            .arg(self.dir.join("merged"))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(DIR, &self.dir)
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                eprintln!("skipped: no unshare ({error})");
                return false;
            }
        };
        let said = String::from_utf8_lossy(&output.stdout);
        let why = String::from_utf8_lossy(&output.stderr);
        if !said.contains("running 1 test") {
            eprintln!(
                "skipped: overlayfs cannot be mounted by this user ({})",
                why.trim()
            );
            return false;
        }
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}\n{why}"
        );
        true
    }
}

/// A few of the names that policies protect.
fn protects(_: usize, path: &Path) -> Option<ProtectedName> {
    let names = [".vscode", ".env"];
    let found = names
        .iter()
        .find(|name| path.iter().any(|part| part == **name))?;
    Some(ProtectedName {
        pattern: (*found).to_owned(),
        by_content: false,
    })
}

pub(crate) fn tree_path(path: &str) -> TreePath {
    TreePath::parse(Path::new(path)).unwrap()
}

pub(crate) fn all() -> ChangeSelection {
    ChangeSelection {
        all: true,
        ..ChangeSelection::default()
    }
}

pub(crate) fn paths(paths: &[&str]) -> ChangeSelection {
    ChangeSelection {
        paths: paths.iter().map(|path| (0, tree_path(path))).collect(),
        ..ChangeSelection::default()
    }
}

pub(crate) fn apply(
    review: &mut OpenReview,
    selection: &ChangeSelection,
) -> Result<ApplyReport, ReviewError> {
    review.apply(selection, "tester", 2, &ReviewLimits::default())
}

/// The list as `kind path` lines.
pub(crate) fn lines(review: &RunReview) -> Vec<String> {
    let line = |(_, change): (usize, &ReviewedChange)| {
        let kind = serde_json::to_value(change.kind).unwrap();
        format!("{} {}", kind.as_str().unwrap(), change.path)
    };
    review.changes().map(line).collect()
}

/// Makes files below a directory: `path=content`, `path/` for a directory, `path->target`.
pub(crate) fn lay(dir: &Path, files: &[&str]) {
    for file in files {
        if let Some((path, content)) = file.split_once('=') {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        } else if let Some((path, target)) = file.split_once("->") {
            std::os::unix::fs::symlink(target, dir.join(path)).unwrap();
        } else {
            fs::create_dir_all(dir.join(file)).unwrap();
        }
    }
}

/// Marks names of a layer as deleted.
pub(crate) fn white_out(upper: &Path, names: &[&str]) {
    for name in names {
        let path = upper.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let kind = FileType::CharacterDevice;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, Mode::empty(), 0).unwrap();
    }
}

pub(crate) fn set_xattr(path: &Path, name: &str, value: &str) {
    rustix::fs::lsetxattr(path, name, value.as_bytes(), XattrFlags::empty()).unwrap();
}

/// Everything of a tree that an apply keeps: kind and mode, content or target, attributes.
pub(crate) fn snapshot(dir: &Path, with_times: bool) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut queue = vec![PathBuf::new()];
    while let Some(path) = queue.pop() {
        let full = dir.join(&path);
        let meta = fs::symlink_metadata(&full).unwrap();
        let mut text = format!("{:o}", meta.mode());
        if meta.is_symlink() {
            text += &format!(" -> {:?}", fs::read_link(&full).unwrap());
        } else {
            // A file that is closed to an ordinary user.
            let mode = meta.permissions();
            let readable = fs::Permissions::from_mode(mode.mode() | 0o700);
            if !with_times {
                fs::set_permissions(&full, readable).unwrap();
            }
            text += &attributes(&full);
            if meta.is_file() {
                text += &format!(" {:?}", String::from_utf8_lossy(&fs::read(&full).unwrap()));
            }
            if meta.is_dir() {
                let entries = fs::read_dir(&full).unwrap();
                queue.extend(entries.map(|entry| path.join(entry.unwrap().file_name())));
            }
            if !with_times {
                fs::set_permissions(&full, mode).unwrap();
            }
        }
        if with_times {
            let times = (
                meta.mtime(),
                meta.mtime_nsec(),
                meta.ctime(),
                meta.ctime_nsec(),
            );
            text += &format!(" {} {times:?}", meta.ino());
        }
        found.insert(path, text);
    }
    found
}

fn attributes(path: &Path) -> String {
    let mut list = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut list[..]).unwrap();
    let mut names: Vec<&[u8]> = list[..length].split(|byte| *byte == 0).collect();
    names.sort_unstable();
    let user = names.into_iter().filter(|name| name.starts_with(b"user."));
    let text = user.map(|name| {
        let mut value = vec![0; 4096];
        let name = OsStr::from_bytes(name);
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        format!(" {name:?}={:?}", String::from_utf8_lossy(&value[..length]))
    });
    text.collect()
}
