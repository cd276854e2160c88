//! Composes bubblewrap's arguments. They travel in a sealed file (`--args`), so they are neither
//! in the process list nor bounded by `execve`.
//!
//! Order matters: what is mounted later lies on top. So: system, /proc with its covers, /dev,
//! private places, then everything that concerns mounts by ascending depth, and read-only `/` last.
//! Destinations lie in bubblewrap's own empty root, or are directories that exist in a mount, so
//! it never has to create anything in a tree that a target could have prepared (CVE-2026-87766).

use super::names::Names;
use super::view::HostMount;
use crate::access::Access;
use crate::error::{Error, ErrorKind};
use crate::policy::{BROAD, ETC, Network, PROGRAMS, Place, Policy, System};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// HOME inside.
pub(crate) const HOME: &str = "/home/sandbox";
/// TMPDIR inside.
pub(crate) const TMP: &str = "/tmp";

/// bubblewrap stops at 9000.
const MAX_ARGS: usize = 8000;

/// Parts of /proc that change or show the whole machine: covered read-only, also for uid 0, whom
/// bubblewrap's own attempt at this misses.
const PROC_READ_ONLY: [&str; 11] = [
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/driver",
    "/proc/dynamic_debug",
    "/proc/latency_stats",
    "/proc/pressure",
];
/// Parts of /proc that show what is nobody's business.
const PROC_MASKED: [&str; 5] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/kallsyms",
];

/// What is composed, and what the first process inside must find to be so.
pub(crate) struct Composed {
    pub(crate) args: Vec<u8>,
    pub(crate) pins: Vec<Pin>,
}

/// A place that must be the root of a mount, of this file if its identity is known.
pub(crate) struct Pin {
    pub(crate) path: Vec<u8>,
    /// Device (major in the low half) and inode; zero for "any".
    pub(crate) identity: (u64, u64),
}

/// One mount to make.
enum Op {
    Bind {
        from: PathBuf,
        writable: bool,
        identity: (u64, u64),
    },
    Mask {
        is_dir: bool,
    },
}

/// `passwd` and `group` are the descriptors, as bubblewrap will know them, of our own versions.
pub(crate) fn compose(
    policy: &Policy,
    mounts: &[HostMount],
    names: &[Names],
    passwd: i32,
    group: i32,
) -> Result<Composed, Error> {
    let mut args = Args(Vec::new());
    args.all(&[
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
    ]);
    args.all(&[
        "--unshare-cgroup-try",
        "--die-with-parent",
        "--as-pid-1",
        "--clearenv",
    ]);
    args.all(&["--cap-drop", "ALL", "--hostname", "sandbox", "--chdir", "/"]);
    match policy.network() {
        Network::Unrestricted => {}
        Network::Denied | Network::Loopback | Network::Hosts(_) => args.all(&["--unshare-net"]),
    }
    system(&mut args, policy.system(), passwd, group);
    args.all(&["--proc", "/proc"]);
    for path in PROC_READ_ONLY
        .iter()
        .filter(|path| Path::new(path).exists())
    {
        args.all(&["--ro-bind", path, path]);
    }
    for path in PROC_MASKED.iter().filter(|path| Path::new(path).exists()) {
        args.all(&["--ro-bind", "/dev/null", path]);
    }
    args.all(&[
        "--dev",
        "/dev",
        "--perms",
        "1777",
        "--tmpfs",
        "/dev/shm",
        "--remount-ro",
        "/dev",
    ]);
    args.all(&[
        "--perms", "1777", "--tmpfs", TMP, "--perms", "0700", "--tmpfs", HOME,
    ]);

    let ops = ops(mounts, names)?;
    let mut pins = Vec::new();
    for ((_, dest), op) in &ops {
        match op {
            Op::Bind {
                from,
                writable,
                identity,
            } => {
                let flag = if *writable { "--bind" } else { "--ro-bind" };
                args.paths(flag, from.as_os_str().as_bytes(), dest);
                pins.push(Pin {
                    path: dest.clone(),
                    identity: *identity,
                });
            }
            Op::Mask { is_dir: true } => {
                args.all(&["--perms", "0000"]);
                args.path("--tmpfs", dest);
                args.path("--remount-ro", dest);
                pins.push(Pin {
                    path: dest.clone(),
                    identity: (0, 0),
                });
            }
            Op::Mask { is_dir: false } => {
                args.paths("--ro-bind", b"/dev/null", dest);
                pins.push(Pin {
                    path: dest.clone(),
                    identity: (0, 0),
                });
            }
        }
    }
    if !mounts.iter().any(|mount| mount.place == Place::Root) {
        args.all(&["--dir", "/work"]);
        for mount in mounts.iter().filter(|mount| mount.place == Place::Named) {
            let name = mount.inside.trim_start_matches('/');
            args.all(&["--symlink", &mount.inside, &format!("/work/{name}")]);
        }
    }
    args.all(&["--remount-ro", "/"]);
    if args.0.len() > MAX_ARGS {
        return Err(Error::new(
            ErrorKind::Limit,
            "too many mounts and protected names for bubblewrap",
        ));
    }
    let mut bytes = Vec::new();
    for arg in args.0 {
        bytes.extend_from_slice(&arg.into_vec());
        bytes.push(0);
    }
    Ok(Composed { args: bytes, pins })
}

fn system(args: &mut Args, system: System, passwd: i32, group: i32) {
    match system {
        System::None => return,
        System::Minimal | System::BroadRead => {}
    }
    for path in PROGRAMS {
        match std::fs::read_link(path) {
            // /bin on a merged-usr system is a link, and stays one.
            Ok(to) => args.paths("--symlink", to.as_os_str().as_bytes(), path.as_bytes()),
            Err(_) if Path::new(path).is_dir() => args.all(&["--ro-bind", path, path]),
            Err(_) => {}
        }
    }
    if system == System::BroadRead {
        for path in BROAD.iter().filter(|path| Path::new(path).is_dir()) {
            args.all(&["--ro-bind", path, path]);
        }
        return;
    }
    for path in ETC {
        match path {
            "/etc/passwd" => args.all(&[
                "--perms",
                "0644",
                "--ro-bind-data",
                &passwd.to_string(),
                path,
            ]),
            "/etc/group" => args.all(&[
                "--perms",
                "0644",
                "--ro-bind-data",
                &group.to_string(),
                path,
            ]),
            // A link is followed: what it points to may lie in /run, which is not shown.
            _ if Path::new(path).exists() => args.all(&["--ro-bind", path, path]),
            _ => {}
        }
    }
}

/// All mounts by depth of their destination, so that nothing buries what lies deeper.
fn ops(mounts: &[HostMount], names: &[Names]) -> Result<Ops, Error> {
    let mut ops = BTreeMap::new();
    for mount in mounts {
        ops.insert(key(mount.inside.as_bytes().to_vec()), of_mount(mount)?);
    }
    for mount in mounts {
        // A mount inside another's directory has its own access under that name as well.
        for outer in mounts {
            if let Ok(rest) = mount.host.strip_prefix(&outer.host)
                && !rest.as_os_str().is_empty()
            {
                ops.insert(key(dest(&outer.inside, rest)), of_mount(mount)?);
                pin_way(&mut ops, mounts, outer, rest)?;
            }
        }
    }
    for (mount, names) in mounts.iter().zip(names) {
        for found in &names.found {
            let effective = access_of(mounts, &mount.host.join(&found.below));
            let dest_of = |rest: &Path| key(dest(&mount.inside, rest));
            if found.hide {
                if effective.contains(Access::READ) {
                    ops.insert(
                        dest_of(&found.below),
                        Op::Mask {
                            is_dir: found.is_dir,
                        },
                    );
                }
            } else if effective.contains(Access::WRITE) {
                ops.insert(
                    dest_of(&found.below),
                    Op::Bind {
                        from: mount.host.join(&found.below),
                        writable: false,
                        identity: mount.identity_below(&found.below)?,
                    },
                );
            } else {
                continue;
            }
            pin_way(&mut ops, mounts, mount, &found.below)?;
        }
    }
    Ok(ops)
}

/// Makes each directory on the way to a part of a mount a mount point too: one that is not can be
/// moved aside with everything in it (`mv .git aside; mkdir .git`).
fn pin_way(
    ops: &mut Ops,
    mounts: &[HostMount],
    mount: &HostMount,
    below: &Path,
) -> Result<(), Error> {
    for ancestor in below.ancestors().skip(1) {
        let host = mount.host.join(ancestor);
        let writable = access_of(mounts, &host).contains(Access::WRITE);
        if ancestor.as_os_str().is_empty() || !writable {
            continue;
        }
        let place = key(dest(&mount.inside, ancestor));
        if let Entry::Vacant(vacant) = ops.entry(place) {
            vacant.insert(Op::Bind {
                from: host,
                writable: true,
                identity: mount.identity_below(ancestor)?,
            });
        }
    }
    Ok(())
}

/// What is made at a destination inside, those nearer to the root first.
type Ops = BTreeMap<(usize, Vec<u8>), Op>;

fn key(dest: Vec<u8>) -> (usize, Vec<u8>) {
    (dest.iter().filter(|byte| **byte == b'/').count(), dest)
}

fn of_mount(mount: &HostMount) -> Result<Op, Error> {
    if mount.access.is_none() {
        return Ok(Op::Mask {
            is_dir: mount.is_dir,
        });
    }
    Ok(Op::Bind {
        from: mount.host.clone(),
        writable: mount.access.contains(Access::WRITE),
        identity: mount.identity()?,
    })
}

/// The access of the longest mount around a host path.
fn access_of(mounts: &[HostMount], host: &Path) -> Access {
    mounts
        .iter()
        .filter(|mount| host.starts_with(&mount.host))
        .max_by_key(|mount| mount.host.as_os_str().len())
        .map_or(Access::NONE, |mount| mount.access)
}

fn dest(inside: &str, rest: &Path) -> Vec<u8> {
    let mut out = inside.as_bytes().to_vec();
    out.push(b'/');
    out.extend_from_slice(rest.as_os_str().as_bytes());
    out
}

struct Args(Vec<OsString>);

impl Args {
    fn all(&mut self, args: &[&str]) {
        self.0.extend(args.iter().map(OsString::from));
    }

    fn path(&mut self, flag: &str, dest: &[u8]) {
        self.0.push(flag.into());
        self.0.push(OsString::from_vec(dest.to_vec()));
    }

    fn paths(&mut self, flag: &str, from: &[u8], dest: &[u8]) {
        self.0.push(flag.into());
        self.0.push(OsString::from_vec(from.to_vec()));
        self.0.push(OsString::from_vec(dest.to_vec()));
    }
}
