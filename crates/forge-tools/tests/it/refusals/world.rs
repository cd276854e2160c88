//! Directories with everything in them that a call can stumble over.

use std::fs;
use std::os::unix::fs::symlink;

use file_sandbox::{FileSandbox, Limits, Mode, Mount, SandboxPath};
use forge_tools::{Toolbox, ToolboxBuilder};
use tempfile::TempDir;

use crate::place::with_files;

pub(super) struct World {
    host: TempDir,
}

impl World {
    pub(super) fn new() -> Self {
        let host = tempfile::tempdir().unwrap();
        let at = |name: &str| host.path().join(name);
        for dir in ["data/sub", "out/dir", "out/empty", "full", "outside"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        for (name, text) in [
            ("data/readme.md", "hello\nworld\n"),
            ("data/sub/deep.md", "deep"),
            ("out/kept.md", "one\ntwo\none\n"),
            ("out/other.md", "other"),
            ("out/dir/in.md", "in"),
            ("out/held.lock", "held"),
            ("out/secret.key", "secret"),
            ("full/there.md", "0123456789"),
            ("outside/secret.txt", "the secret"),
        ] {
            fs::write(at(name), text).unwrap();
        }
        fs::write(at("out/long.md"), "x".repeat(50)).unwrap();
        fs::write(at("data/picture.png"), [0x89, b'P', 0, 1]).unwrap();
        fs::write(at("out/picture.md"), [0x89, b'P', 0, 1]).unwrap();
        symlink(at("outside"), at("data/away")).unwrap();
        symlink(at("outside"), at("out/away")).unwrap();
        symlink("loop.md", at("data/loop.md")).unwrap();
        symlink("loop.md", at("out/loop.md")).unwrap();
        fs::hard_link(at("outside/secret.txt"), at("out/hard.md")).unwrap();
        for pipe in ["data/pipe.md", "out/pipe.md"] {
            // By the program: rustix has no call for it on macOS.
            let made = std::process::Command::new("mkfifo").arg(at(pipe)).status();
            assert!(made.unwrap().success());
        }
        World { host }
    }

    pub(super) fn host(&self) -> &str {
        self.host.path().to_str().unwrap()
    }

    /// `/data` read-only; `/out` writable, with suffixes, 40 bytes a file, a protected and a hidden
    /// name; `/full` writable, with no room left.
    fn files(&self) -> FileSandbox {
        let open = |target: &str, dir: &str, mode| {
            Mount::open_ambient(
                SandboxPath::parse(target).unwrap(),
                self.host.path().join(dir),
                mode,
                cap_std::ambient_authority(),
            )
            .unwrap()
        };
        let limits = Limits::new()
            .suffixes([".md", ".txt", ".lock", ".key"])
            .max_file_bytes(40);
        FileSandbox::new(vec![
            open("/data", "data", Mode::ReadOnly),
            open("/out", "out", Mode::ReadWrite)
                .with_limits(limits)
                .protect(["*.lock"])
                .unwrap()
                .hide(["*.key"])
                .unwrap(),
            open("/full", "full", Mode::ReadWrite).with_limits(
                Limits::new()
                    .max_total_bytes(12, "quota.max_bytes")
                    .max_files(1, "quota.max_files"),
            ),
        ])
        .unwrap()
    }

    pub(super) fn builder(&self) -> ToolboxBuilder {
        with_files(Toolbox::builder(), self.files())
    }
}
