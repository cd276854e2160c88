//! One test, run again in a process of its own: with `openat2(2)` hidden by a seccomp filter, as in
//! containers of old, or as an ordinary user. A filter cannot be taken off a thread again, and a
//! user cannot become root again, so the process of the other tests must not be the one.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// What the kernel answers to `openat2(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Openat2 {
    Shown,
    /// `ENOSYS`, as kernels before 5.6 do.
    NoSys,
    /// `EPERM`, as container runtimes with an older list of calls do.
    NotPermitted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Ordinary,
}

/// Where a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) openat2: Openat2,
    pub(crate) user: User,
}

const ASKED: &str = "FILE_SANDBOX_CELL";
const OPENAT2: [Openat2; 3] = [Openat2::Shown, Openat2::NoSys, Openat2::NotPermitted];
/// `nobody` on every system we know.
const ORDINARY: u32 = 65_534;

/// All cells that this host can have, and why others are missing.
pub(crate) fn cells() -> (Vec<Cell>, Vec<String>) {
    let mut missing = Vec::new();
    let kernel: &[Openat2] = if cfg!(target_os = "linux") {
        &OPENAT2
    } else {
        missing.push("openat2(2) is Linux, so there is nothing to hide".to_owned());
        &OPENAT2[1..2]
    };
    let users: &[User] = if user() == User::Root {
        &[User::Root, User::Ordinary]
    } else {
        missing.push("as root: the tests were not started by root".to_owned());
        &[User::Ordinary]
    };
    let cells = users
        .iter()
        .flat_map(|user| kernel.iter().map(|openat2| (*openat2, *user)))
        .map(|(openat2, user)| Cell { openat2, user })
        .collect();
    (cells, missing)
}

/// Runs one test in `cell` and returns what it wrote. It finds out by [`entered`].
pub(crate) fn run(test: &str, cell: Cell) -> String {
    let exe = if cfg!(target_os = "linux") {
        // The file itself, whoever may reach its directory.
        "/proc/self/exe".into()
    } else {
        std::env::current_exe().unwrap()
    };
    let mut command = Command::new(exe);
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ASKED, cell.to_string())
        .current_dir("/");
    if user() == User::Root && cell.user == User::Ordinary {
        command.uid(ORDINARY).gid(ORDINARY).env_remove("TMPDIR");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} in {cell}:\n{text}{errors}");
    assert!(text.contains("1 passed"), "{test} in {cell}:\n{text}");
    text
}

/// The cell that this process was started for. From here on the calling thread is in it.
pub(crate) fn entered() -> Option<Cell> {
    let asked = std::env::var(ASKED).ok()?;
    let all = OPENAT2.iter().flat_map(|openat2| {
        [User::Root, User::Ordinary].map(|user| Cell {
            openat2: *openat2,
            user,
        })
    });
    let cell = all
        .into_iter()
        .find(|cell| cell.to_string() == asked)
        .unwrap();
    kernel::hide(cell.openat2);
    assert_eq!(user(), cell.user);
    Some(cell)
}

fn user() -> User {
    match tempfile::tempfile().unwrap().metadata().unwrap().uid() {
        0 => User::Root,
        _ => User::Ordinary,
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let openat2 = match self.openat2 {
            Openat2::Shown => "openat2",
            Openat2::NoSys => "openat2 hidden by ENOSYS",
            Openat2::NotPermitted => "openat2 hidden by EPERM",
        };
        let user = match self.user {
            User::Root => "root",
            User::Ordinary => "an ordinary user",
        };
        write!(f, "{openat2}, {user}")
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::collections::BTreeMap;

    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

    use super::Openat2;

    /// `__NR_openat2`, the same on every architecture.
    const NUMBER: i64 = 437;

    /// For the calling thread and those that it starts.
    pub(super) fn hide(what: Openat2) {
        let errno = match what {
            Openat2::Shown => None,
            Openat2::NoSys => Some(Errno::NOSYS),
            Openat2::NotPermitted => Some(Errno::PERM),
        };
        if let Some(errno) = errno {
            let number = u32::try_from(errno.raw_os_error()).unwrap();
            let filter = SeccompFilter::new(
                BTreeMap::from([(NUMBER, Vec::new())]),
                SeccompAction::Allow,
                SeccompAction::Errno(number),
                TargetArch::try_from(std::env::consts::ARCH).unwrap(),
            );
            let program = BpfProgram::try_from(filter.unwrap()).unwrap();
            seccompiler::apply_filter(&program).unwrap();
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let answer = openat2(CWD, ".", flags, Mode::empty(), ResolveFlags::empty());
        assert_eq!(answer.err(), errno, "a cell that is not what it says");
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::Openat2;

    /// There is no such call anyway.
    pub(super) fn hide(what: Openat2) {
        assert_eq!(what, Openat2::NoSys);
    }
}
