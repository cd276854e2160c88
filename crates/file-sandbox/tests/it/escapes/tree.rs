//! The host directory of `fixtures/escapes/tree.toml`, and pictures of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use file_sandbox::{
    EntryKind, FileSandbox, Limits, ListEntry, Mode, Mount, Restriction, WalkOptions,
};
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

/// The same mounts in memory. There is nothing outside, so links out lead nowhere.
pub(crate) struct Memory {
    pub(crate) files: FileSandbox,
    /// The same trees, without a rule.
    whole: FileSandbox,
}

/// What links take for the directory of the host.
pub(crate) const NO_HOST: &str = "/no/such/host";

impl Memory {
    pub(crate) fn new(nested: bool) -> Self {
        let plan = plan();
        let mut mounts = Vec::new();
        for planned in plan.mount.iter().filter(|mount| nested || !mount.nested) {
            let mut mount = Mount::memory(path(&planned.target), Mode::ReadWrite);
            for (name, to) in &plan.links {
                if let Some(below) = name.strip_prefix(&format!("{}/", planned.dir)) {
                    let to = to.replace("{host}", NO_HOST);
                    mount = mount.with_link(&path(below), to).unwrap();
                }
            }
            mounts.push(mount);
        }
        let whole = FileSandbox::new(mounts).unwrap();
        for (name, text) in &plan.files {
            let place = path(name);
            if whole.mode_at(&place).is_some() {
                whole.write(&place, text, Default::default()).unwrap();
            }
        }
        let read_only = whole.restrict(&Restriction::new().read_only(true)).unwrap();
        let ruled = plan.mount.iter().filter_map(|planned| {
            let mode: Mode = planned.mode.parse().unwrap();
            let of = if mode.can_write() { &whole } else { &read_only };
            let target = path(&planned.target);
            let mount = of.mounts().iter().find(|mount| *mount.target() == target)?;
            Some(planned.rule(mount.clone()))
        });
        let files = FileSandbox::new(ruled.collect()).unwrap();
        Self { files, whole }
    }

    /// Names, types, sizes, times and bytes of everything.
    pub(crate) fn picture(&self) -> Vec<(String, String, Vec<u8>)> {
        let all = self.whole.walk(&path("/"), WalkOptions::new()).unwrap();
        assert!(!all.more && all.skipped.is_empty());
        let look = |entry: ListEntry| {
            let place = path(&format!("/{}", entry.name));
            let bytes = match entry.kind {
                EntryKind::File => self.whole.read_bytes(&place, 1 << 20).unwrap(),
                EntryKind::Directory | EntryKind::Link | EntryKind::Other => Vec::new(),
            };
            let stat = match entry.kind {
                EntryKind::Link => String::new(),
                EntryKind::File | EntryKind::Directory | EntryKind::Other => {
                    format!("{:?}", self.whole.stat(&place).unwrap())
                }
            };
            (entry.name, stat, bytes)
        };
        all.entries.into_iter().map(look).collect()
    }
}

impl MountPlan {
    fn open(&self, host: &Path) -> Mount {
        let mode: Mode = self.mode.parse().unwrap();
        let target = path(&self.target);
        let authority = cap_std::ambient_authority();
        self.rule(Mount::open_ambient(target, host, mode, authority).unwrap())
    }

    fn rule(&self, mount: Mount) -> Mount {
        mount
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
