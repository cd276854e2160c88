//! Starts the real program in a directory of the test's own.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A project directory, a home and a state directory, all of the test's own.
pub(crate) struct World {
    root: TempDir,
}

/// What the program did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    /// A project with these files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let world = World {
            root: tempfile::tempdir().unwrap(),
        };
        // The `.git` makes it a repository, so that writing in place needs nobody's yes.
        for dir in ["project", "home", "state", ".git"] {
            std::fs::create_dir(world.root.path().join(dir)).unwrap();
        }
        for (name, text) in files {
            world.write(name, text);
        }
        world
    }

    /// The project's directory.
    pub(crate) fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// A directory beside the project.
    pub(crate) fn outside(&self) -> &Path {
        self.root.path()
    }

    /// Runs a script in the project, in no sandbox, with a committer and without a person's settings.
    #[cfg(target_os = "linux")]
    pub(crate) fn shell(&self, script: &str) {
        let mut command = std::process::Command::new("sh");
        command
            .args(["-ec", script])
            .current_dir(self.project())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b")])
            .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@b")]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
    }

    /// Writes a file of the project.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Runs `forge ARGS` in a directory.
    pub(crate) fn forge_in(&self, directory: &Path, args: &[&str]) -> Ran {
        let mut command = self.command(forge_program(), args);
        ran(command.current_dir(directory).output().unwrap())
    }

    /// Runs `forge ARGS` in the project, with nothing on standard input.
    pub(crate) fn forge(&self, args: &[&str]) -> Ran {
        ran(self.command(forge_program(), args).output().unwrap())
    }

    /// The program with the test's own surroundings and nothing of ours.
    pub(crate) fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", self.root.path().join("home"))
            .env("FORGE_STATE_DIR", self.root.path().join("state"))
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        command
    }
}

impl Ran {
    /// Checks the exit code; shows everything if it is another.
    #[track_caller]
    pub(crate) fn code(&self, expected: i32) -> &Self {
        assert_eq!(
            self.code, expected,
            "exit code\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// Checks that standard error contains every one of these.
    #[track_caller]
    pub(crate) fn says(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(
                self.stderr.contains(text),
                "no {text:?} in standard error:\n{}",
                self.stderr
            );
        }
        self
    }
}

/// Waits for what another process does, without bound but that of a machine that hangs.
#[cfg(target_os = "linux")]
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    use std::time::{Duration, Instant};

    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(600), "not {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn ran(output: Output) -> Ran {
    let stderr = String::from_utf8(output.stderr).unwrap();
    // An error is called one once, whatever has failed.
    assert!(!stderr.contains("error: error"), "{stderr}");
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr,
    }
}

pub(crate) fn forge_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_forge"))
}

/// Copies forge to `to`, followed by `more`. Another process writes it: what a thread of ours starts
/// meanwhile inherits our open files until it executes, and a file that is open for writing cannot
/// be executed (ETXTBSY in execve(2)).
pub(crate) fn copy_forge(to: &Path, more: &[u8]) {
    let script = "cat -- \"$1\" - > \"$2\" && chmod 755 -- \"$2\"";
    let mut writer = Command::new("sh")
        .args(["-c", script, "sh"])
        .args([forge_program(), to])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(more).unwrap();
    assert!(writer.wait().unwrap().success());
}

/// A project with a read-only and a writable zone and a few shell rules.
pub(crate) const PROJECT: &str = "\
sandbox:
  mode: direct
  zones:
    data: { path: ./data, mode: ro }
    workspace:
      path: ./workspace
      approval: { write: preApproved }
shell:
  rules:
    - { pattern: 'echo *', approval: preApproved }
    - { pattern: 'cat *', approval: preApproved }
    - { pattern: 'rm *', approval: blocked, why: Use delete_file. }
  default: ask
";
