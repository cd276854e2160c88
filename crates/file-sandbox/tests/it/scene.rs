//! A host directory with mounts, a neighbour that nobody may touch, and every trap we know.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use file_sandbox::{FileSandbox, Limits, ListOptions, Mode, Mount, SandboxPath};

pub(crate) struct Scene {
    pub(crate) files: FileSandbox,
    pub(crate) host: tempfile::TempDir,
}

pub(crate) fn path(text: &str) -> SandboxPath {
    SandboxPath::parse(text).expect(text)
}

pub(crate) fn mount(target: &str, host: &Path, mode: Mode) -> Mount {
    Mount::open_ambient(path(target), host, mode, cap_std::ambient_authority()).expect(target)
}

pub(crate) fn names(files: &FileSandbox, at: &str, options: ListOptions) -> Vec<String> {
    let listing = files.list(&path(at), options).expect(at);
    listing
        .entries
        .into_iter()
        .map(|entry| entry.name)
        .collect()
}

impl Scene {
    /// `/data` rw, `/ref` ro, `/docs` rw with limits; next to them `outside` and `data_evil`.
    pub(crate) fn new() -> Self {
        Self::build(false)
    }

    /// The same with one more root, `/data/nested`.
    pub(crate) fn with_nested_root() -> Self {
        Self::build(true)
    }

    fn build(nested: bool) -> Self {
        let host = tempfile::tempdir().unwrap();
        let at = |name: &str| host.path().join(name);
        let file = |name: &str, text: &str| {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        };
        file("outside/secret.txt", "secret");
        file("outside/dir/x.txt", "secret x");
        file("data_evil/secret.txt", "secret");
        file("ref/r.md", "reference");
        file("docs/a.md", "0123456789");
        file("docs/big.md", "0123456789+");
        file("docs/tool.exe", "MZ");
        file("data/a.md", "text a");
        file("data/sub/b.md", "text b");
        file("data/.git/hooks/pre-commit", "hook");
        file("data/.git/config", "config");
        file("data/.env", "KEY=secret");
        file("data/tls.key", "secret key");
        fs::create_dir(at("data/empty")).unwrap();
        file("data/hard.txt", "two names");
        fs::hard_link(at("data/hard.txt"), at("outside/hard.txt")).unwrap();

        let link = |name: &str, text: &Path| symlink(text, at(name)).unwrap();
        link("data/out_abs", &at("outside/secret.txt"));
        link("data/out_rel", Path::new("../outside/secret.txt"));
        link("data/out_dir", Path::new("../outside"));
        link("data/out_dir_slash", Path::new("../outside/"));
        link("data/out_chain", Path::new("sub/chain2"));
        link("data/sub/chain2", Path::new("../out_rel"));
        link("data/out_new", Path::new("../outside/new.txt"));
        link("data/out_evil", &at("data_evil/secret.txt"));
        link("data/out_climb", Path::new("sub/../../outside/secret.txt"));
        link("data/out_abs_climb", &at("data/../outside/secret.txt"));
        link("data/root", Path::new("/"));
        link("data/proc_root", Path::new("/proc/self/root"));
        link("data/in_rel", Path::new("sub/b.md"));
        link("data/in_abs", &at("data/sub/b.md"));
        link("data/in_dir", Path::new("sub"));
        link("data/to_ref", &at("ref/r.md"));
        link("data/dangling", Path::new("sub/missing.md"));
        link("data/dangling_climb", Path::new("nope/../a.md"));
        link("data/loop_a", Path::new("loop_b"));
        link("data/loop_b", Path::new("loop_a"));
        link("data/self", Path::new("self/x"));
        link("data/to_env", Path::new(".env"));
        link("data/to_hooks", Path::new(".git/hooks"));
        link("data/to_hook", Path::new(".git/hooks/pre-commit"));
        link("data/here", Path::new("."));
        link("docs/tool.md", Path::new("tool.exe"));
        link("ref/to_data", &at("data/a.md"));

        let fifo = Command::new("mkfifo")
            .arg(at("data/fifo"))
            .status()
            .unwrap();
        assert!(fifo.success());
        symlink("fifo", at("data/to_fifo")).unwrap();
        // The path of a socket is short of room; the name stays when the listener goes.
        drop(UnixListener::bind(at("data/socket")).unwrap());

        let data = mount("/data", &at("data"), Mode::ReadWrite)
            .protect([".git/hooks", ".git/config", "*.key", ".mcp.json"])
            .unwrap()
            .hide([".env*"])
            .unwrap();
        let limits = Limits::new().suffixes([".md", ".pdf"]).max_file_bytes(10);
        let mut mounts = vec![
            data,
            mount("/docs", &at("docs"), Mode::ReadWrite).with_limits(limits),
            mount("/ref", &at("ref"), Mode::ReadOnly),
        ];
        if nested {
            file("nested/n.md", "nested");
            mounts.push(mount("/data/nested", &at("nested"), Mode::ReadWrite));
        }
        let files = FileSandbox::new(mounts).unwrap();
        Self { files, host }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.host.path().join(name)
    }

    pub(crate) fn host_text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    /// Everything that must not change: names, types, bytes, modes and times. Directories inside
    /// the mounts count too, so that no leftover goes unseen.
    pub(crate) fn picture(&self) -> BTreeMap<PathBuf, Seen> {
        let mut seen = BTreeMap::new();
        let mut pending = vec![self.host.path().to_owned()];
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let meta = path.symlink_metadata().unwrap();
                if meta.is_dir() {
                    pending.push(path.clone());
                }
                let bytes = if meta.is_file() {
                    fs::read(&path).unwrap()
                } else {
                    Vec::new()
                };
                let seen_now = Seen {
                    mode: meta.permissions().mode(),
                    inode: meta.ino(),
                    modified: meta.modified().unwrap(),
                    bytes,
                };
                seen.insert(path, seen_now);
            }
        }
        seen
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    mode: u32,
    inode: u64,
    modified: SystemTime,
    bytes: Vec<u8>,
}
