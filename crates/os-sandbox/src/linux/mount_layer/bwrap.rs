//! Writes the steps of a command's root as bubblewrap's arguments. They are passed in a sealed file
//! (`--args`), so they are neither in the process list nor bounded by `execve`.

use super::super::start::launch::data;
use super::super::wire;
use super::root::{RootSetup, RootStep};
use crate::error::{Error, ErrorKind};
use crate::plan::NO_OVERLAY;
use crate::policy::{Network, Policy};
use nix::unistd::geteuid;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

/// bubblewrap refuses more than 9000.
const MAX_ARGS: usize = 8000;

/// Namespaces, and a process that keeps nothing of the caller's.
const BEFORE_ROOT: [&str; 10] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--as-pid-1",
    "--clearenv",
    "--cap-drop",
    "ALL",
];

/// Composed arguments, and the descriptors that they name.
pub(crate) struct BubblewrapArgs {
    pub(crate) args: OwnedFd,
    /// Files of ours, in the order of their descriptors.
    pub(crate) own_files: Vec<OwnedFd>,
    /// Files that the launcher opens for bubblewrap; their descriptors come after those.
    pub(crate) files: Vec<&'static str>,
}

/// Composes the arguments. `first` is the number of the first descriptor of ours in bubblewrap.
pub(crate) fn arguments(
    policy: &Policy,
    root: &RootSetup,
    first: i32,
) -> Result<BubblewrapArgs, Error> {
    if root
        .steps
        .iter()
        .any(|step| matches!(step, RootStep::Overlay(_)))
    {
        return Err(ErrorKind::Unsupported.error(NO_OVERLAY));
    }
    let mut args = Args(Vec::new());
    args.all(BEFORE_ROOT);
    args.all(["--hostname", policy.host_name(), "--chdir", "/"]);
    match policy.network() {
        Network::Unrestricted => {}
        Network::Denied | Network::Loopback | Network::Hosts(_) => args.all(["--unshare-net"]),
    }
    let is_own = |step: &&RootStep| matches!(step, RootStep::Write { .. } | RootStep::Cover { .. });
    let mut files = Vec::new();
    let mut own_files = Vec::new();
    let first_file = first + root.steps.iter().filter(is_own).count() as i32;
    for step in &root.steps {
        args.step(
            step,
            first + own_files.len() as i32,
            first_file + files.len() as i32,
        );
        match step {
            RootStep::Write { text, .. } | RootStep::Cover { text, .. } => {
                own_files.push(data("own-file", text.as_bytes())?);
            }
            RootStep::Copy { from, .. } => files.push(*from),
            _ => {}
        }
    }
    if geteuid().is_root() && root.pins.iter().any(|pin| pin.how != wire::PIN_LOOK) {
        // The kernel lets a process map uid 0 into a nested namespace only if it could also give
        // files capabilities (Linux 5.12). Our first process needs CAP_SETFCAP for that and drops
        // it with all others before the command starts.
        args.all(["--cap-add", "CAP_SETFCAP"]);
    }
    if args.0.len() > MAX_ARGS {
        return Err(ErrorKind::Limit.error("too many mounts and protected names for bubblewrap"));
    }
    let mut bytes = Vec::new();
    for arg in args.0 {
        bytes.extend_from_slice(&arg.into_vec());
        bytes.push(0);
    }
    Ok(BubblewrapArgs {
        args: data("bwrap-args", &bytes)?,
        own_files,
        files,
    })
}

struct Args(Vec<OsString>);

impl Args {
    fn all<T: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = T>) {
        self.0
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
    }

    /// Adds one step. The numbers are those of the next descriptor of ours and of the next file.
    fn step(&mut self, step: &RootStep, own: i32, file: i32) {
        let octal = |mode: u16| format!("{mode:04o}");
        match step {
            RootStep::Bind {
                from,
                at,
                writable,
                optional,
            } => {
                let flag = match (writable, optional) {
                    (true, false) => "--bind",
                    (true, true) => "--bind-try",
                    (false, false) => "--ro-bind",
                    (false, true) => "--ro-bind-try",
                };
                self.all([OsStr::new(flag), from.as_os_str(), at.as_os_str()]);
            }
            RootStep::Copy { at, .. } => self.file("--file", file, at.as_os_str()),
            RootStep::Write { at, .. } => self.file("--file", own, at.as_os_str()),
            RootStep::Cover { at, .. } => self.file("--ro-bind-data", own, at.as_os_str()),
            RootStep::Processes => self.all(["--proc", "/proc"]),
            RootStep::Devices => self.all(["--dev", "/dev"]),
            RootStep::Empty { at, mode } => {
                self.all(["--perms", &octal(*mode), "--tmpfs"]);
                self.all([at]);
            }
            RootStep::Directory { at, mode } => {
                self.all(["--perms", &octal(*mode), "--dir"]);
                self.all([at]);
            }
            RootStep::Link { to, at } => {
                self.all([OsStr::new("--symlink"), to.as_os_str(), at.as_os_str()]);
            }
            RootStep::Seal { at } => self.all([OsStr::new("--remount-ro"), at.as_os_str()]),
            RootStep::Overlay(_) => {}
        }
    }

    /// Makes a file with the content of a descriptor, readable for all users.
    fn file(&mut self, flag: &str, from: i32, at: &OsStr) {
        self.all(["--perms", "0444", flag, &from.to_string()]);
        self.all([at]);
    }
}
