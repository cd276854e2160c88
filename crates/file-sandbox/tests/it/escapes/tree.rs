//! The host directory of `fixtures/escapes/tree.toml`, and pictures of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use file_sandbox::{FileSandbox, Limits, Mode, Mount};
use serde::Deserialize;

use crate::scene::path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    mount: Vec<MountPlan>,
    files: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
    special: BTreeMap<String, Special>,
    hard_links: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MountPlan {
    target: String,
    dir: String,
    mode: String,
    #[serde(default)]
    protect: Vec<String>,
    #[serde(default)]
    hide: Vec<String>,
    suffixes: Option<Vec<String>>,
    max_file_bytes: Option<u64>,
    #[serde(default)]
    nested: bool,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Special {
    Pipe,
    Socket,
    Device,
}

fn plan() -> Plan {
    toml::from_str(include_str!("../../../../../fixtures/escapes/tree.toml")).unwrap()
}

/// A sandbox on a host directory.
pub(crate) struct Tree {
    pub(crate) files: FileSandbox,
    host: tempfile::TempDir,
}

impl Tree {
    /// With `nested`, one root lies below another one.
    pub(crate) fn new(nested: bool, device: bool) -> Self {
        let plan = plan();
        let host = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = host.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        for (name, text) in &plan.files {
            fs::write(at(name), text).unwrap();
        }
        for (name, to) in &plan.links {
            let to = to.replace("{host}", host.path().to_str().unwrap());
            symlink(to, at(name)).unwrap();
        }
        for (name, of) in &plan.hard_links {
            fs::hard_link(at(of), at(name)).unwrap();
        }
        for (name, kind) in &plan.special {
            match kind {
                Special::Pipe => run("mkfifo", &[at(name).to_str().unwrap()]),
                // Its name stays when the listener goes.
                Special::Socket => drop(UnixListener::bind(at(name)).unwrap()),
                Special::Device if device => {
                    run("mknod", &[at(name).to_str().unwrap(), "c", "1", "5"]);
                }
                Special::Device => {}
            }
        }
        let mounts = plan
            .mount
            .iter()
            .filter(|mount| nested || !mount.nested)
            .map(|mount| mount.open(&at(&mount.dir)))
            .collect();
        let files = FileSandbox::new(mounts).unwrap();
        Self { files, host }
    }

    pub(crate) fn host(&self) -> &Path {
        self.host.path()
    }

    /// Everything that must not change, below a directory of the host: names, types, bytes, modes
    /// and times. A file that comes and goes is seen too, in the times of its directory.
    pub(crate) fn picture(&self, below: &str) -> BTreeMap<PathBuf, Seen> {
        self.look(below, true)
    }

    /// The same without the bytes: whoever changes them moves a time that nobody can set back.
    pub(crate) fn glance(&self) -> BTreeMap<PathBuf, Seen> {
        self.look("", false)
    }

    fn look(&self, below: &str, bytes: bool) -> BTreeMap<PathBuf, Seen> {
        let top = self.host.path().join(below);
        let mut seen = BTreeMap::from([(top.clone(), Seen::of(&top, bytes))]);
        let mut pending = vec![top];
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let now = Seen::of(&path, bytes);
                if now.is_dir {
                    pending.push(path.clone());
                }
                seen.insert(path, now);
            }
        }
        seen
    }

    /// Names of temporary files, wherever they are, but for the one that was planted.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let ours = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(".forge-tmp-") && name != ".forge-tmp-0"
        };
        self.picture("").into_keys().filter(ours).collect()
    }
}

impl MountPlan {
    fn open(&self, host: &Path) -> Mount {
        let mode: Mode = self.mode.parse().unwrap();
        let target = path(&self.target);
        Mount::open_ambient(target, host, mode, cap_std::ambient_authority())
            .unwrap()
            .with_limits(self.limits())
            .protect(&self.protect)
            .unwrap()
            .hide(&self.hide)
            .unwrap()
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::new();
        if let Some(suffixes) = &self.suffixes {
            limits = limits.suffixes(suffixes);
        }
        if let Some(bytes) = self.max_file_bytes {
            limits = limits.max_file_bytes(bytes);
        }
        limits
    }
}

/// One object, without the time of its last reading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    is_dir: bool,
    mode: u32,
    owner: (u32, u32),
    inode: u64,
    links: u64,
    modified: SystemTime,
    /// Moves with every change, also of a mode that is changed back.
    changed: (i64, i64),
    bytes: Vec<u8>,
    link: Option<PathBuf>,
}

impl Seen {
    fn of(path: &Path, bytes: bool) -> Self {
        let meta = path.symlink_metadata().unwrap();
        let bytes = if bytes && meta.is_file() {
            fs::read(path).unwrap()
        } else {
            Vec::new()
        };
        Self {
            is_dir: meta.is_dir(),
            mode: meta.permissions().mode(),
            owner: (meta.uid(), meta.gid()),
            inode: meta.ino(),
            links: meta.nlink(),
            modified: meta.modified().unwrap(),
            changed: (meta.ctime(), meta.ctime_nsec()),
            bytes,
            link: meta.is_symlink().then(|| fs::read_link(path).unwrap()),
        }
    }
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}
