//! Composes the root directory of a command as steps, which a mount layer takes in their order:
//! bubblewrap by its arguments (`bwrap.rs`), the launcher by itself (`launcher/namespaces/root.rs`).
//!
//! Order matters: a later mount covers an earlier one. So: system, /proc with its covers, /dev,
//! private directories, then all mounts of the policy by ascending depth, and read-only `/` last.
//!
//! Our own first process makes the mounts inside a mount, by descriptor (`launcher/namespaces/pins.rs`),
//! because a target could be changing that tree right now; bubblewrap would use paths and, before
//! 0.12, create missing ones (CVE-2026-87766). Only if the kernel does not allow it, bubblewrap
//! makes these mounts too, and the first process checks the result.

use super::super::guards::names::{GuardedPath, ScanResult};
use super::super::host_mount::{HostMount, KnownDir};
use super::super::start::message::Pin;
use super::super::wire;
use super::absent::{AbsentFiles, IgnoreList};
use super::inside_paths::{HOME, TMP, dest};
use crate::access::Access;
use crate::error::Error;
use crate::policy::{BROAD, ETC, Mount, MountPlacement, PROGRAMS, Policy, System};
use crate::quarantine::QUARANTINE;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Size above which a file of the system is mounted, not copied.
pub(super) const MAX_COPIED_BYTES: u64 = 256 << 10;

/// Parts of /proc that change or show the whole machine: covered read-only, also for uid 0, which
/// bubblewrap's own covers do not stop.
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
/// Parts of /proc that expose data which is not for commands.
const PROC_MASKED: [&str; 5] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/kallsyms",
];

/// The root directory of a command.
pub(crate) struct RootSetup {
    pub(crate) steps: Vec<RootStep>,
    /// Mounts that the first process inside must make or find.
    pub(crate) pins: Vec<Pin>,
}

/// One step. Paths are absolute and of the command's root, except for `from`, which is of the host.
/// Missing parents are made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RootStep {
    /// Mounts a file or directory of the host, and what is mounted in it.
    Bind {
        from: PathBuf,
        at: PathBuf,
        writable: bool,
        /// Does nothing if the host has no such file.
        optional: bool,
    },
    /// Makes a read-only file with the content of one of the host's.
    Copy { from: &'static str, at: PathBuf },
    /// Makes a read-only file with this text.
    Write { text: String, at: PathBuf },
    /// Mounts a file with this text over one that is there.
    Cover { text: String, at: PathBuf },
    /// Mounts a new procfs at `/proc`.
    Processes,
    /// Makes `/dev`: a few harmless devices, and terminals of its own.
    Devices,
    /// Mounts an empty directory.
    Empty { at: PathBuf, mode: u16 },
    /// Makes a directory.
    Directory { at: PathBuf, mode: u16 },
    /// Makes a symbolic link.
    Link { to: PathBuf, at: PathBuf },
    /// Makes the mount at this path read-only, without those in it.
    Seal { at: PathBuf },
    /// Mounts an overlay. bubblewrap never gets this step.
    Overlay(OverlayStep),
}

/// The directories of an overlay, and its path in the command's root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverlayStep {
    pub(crate) lower: KnownDir,
    pub(crate) upper: KnownDir,
    pub(crate) work: KnownDir,
    pub(crate) at: PathBuf,
}

impl fmt::Display for RootStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RootStep::Bind { from, at, .. } if from == at => write!(f, "mount {}", at.display()),
            RootStep::Bind { from, at, .. } => {
                write!(f, "mount {} at {}", from.display(), at.display())
            }
            RootStep::Copy { at, .. } | RootStep::Write { at, .. } => {
                write!(f, "make {}", at.display())
            }
            RootStep::Cover { at, .. } => write!(f, "replace {}", at.display()),
            RootStep::Processes => f.write_str("mount a new /proc"),
            RootStep::Devices => f.write_str("make /dev"),
            RootStep::Empty { at, .. } => write!(f, "mount an empty {}", at.display()),
            RootStep::Directory { at, .. } => write!(f, "make {}", at.display()),
            RootStep::Link { at, .. } => write!(f, "make the link {}", at.display()),
            RootStep::Seal { at } => write!(f, "make {} read-only", at.display()),
            RootStep::Overlay(step) => {
                let (lower, upper) = (step.lower.path.display(), step.upper.path.display());
                write!(
                    f,
                    "mount an overlay of {lower} with the upper directory {upper}"
                )
            }
        }
    }
}

/// A file of ours in the command's `/etc`.
pub(crate) struct OwnFile {
    pub(crate) at: &'static str,
    pub(crate) text: String,
}

/// Program that makes the mounts inside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NestedMountMethod {
    /// Our first process, by descriptor.
    ByDescriptor,
    /// bubblewrap, by path.
    ByPath,
}

/// One mount to make.
pub(super) enum Op {
    Bind {
        from: PathBuf,
        writable: bool,
        /// `true` for a mount of the policy, `false` for a name in one or a directory on the way to
        /// it.
        of_policy: bool,
        identity: (u64, u64),
        /// Identity of the directory or file of another mount that it covers.
        covered: Option<(u64, u64)>,
    },
    Mask {
        is_dir: bool,
        identity: (u64, u64),
    },
}

/// Returns the first steps, which do not depend on the mounts.
pub(crate) fn begin(policy: &Policy, own_files: Vec<OwnFile>) -> Vec<RootStep> {
    let mut steps = Vec::new();
    system(&mut steps, policy.system(), own_files);
    private_file_systems(&mut steps);
    steps
}

/// Composes the steps after the first ones.
pub(crate) fn compose(
    mut steps: Vec<RootStep>,
    policy: &Policy,
    mounts: &[HostMount],
    names: &[ScanResult],
    programs: (&[HostMount], &[ScanResult]),
    inner: NestedMountMethod,
) -> Result<RootSetup, Error> {
    ways(&mut steps, mounts);
    for programs in policy.programs() {
        steps.push(RootStep::Bind {
            from: programs.host().to_owned(),
            at: programs.shown_at().to_owned(),
            writable: false,
            optional: true,
        });
    }

    let ops = ops(mounts, names)?;
    let mut pins = close_in_programs(&mut steps, programs)?;
    let absent = match inner {
        NestedMountMethod::ByDescriptor => AbsentFiles::find(mounts, names),
        NestedMountMethod::ByPath => AbsentFiles::default(),
    };
    for ((_, dest), op) in ops {
        if let Some((step, pin)) = overlay_at(mounts, &dest)? {
            steps.push(step);
            pins.push(pin);
            continue;
        }
        let own_root = !mounts.iter().any(|mount| is_inside(&dest, &mount.inside));
        if inner == NestedMountMethod::ByDescriptor {
            let staged = aside(&mut steps, mounts, &dest, &op, pins.len());
            pins.extend(staged.into_iter().flatten());
        }
        pins.push(match inner {
            NestedMountMethod::ByDescriptor if own_root => outer(&mut steps, mounts, dest, &op),
            NestedMountMethod::ByDescriptor => in_overlay(mounts, of_launcher(dest, &op, &absent)),
            NestedMountMethod::ByPath => by_path(&mut steps, dest, &op),
        });
    }
    for list in absent.lists {
        pins.extend(ignore_list(&mut steps, mounts, list, pins.len()));
    }
    working_directory(&mut steps, policy, mounts);
    steps.push(RootStep::Seal { at: "/".into() });
    Ok(RootSetup { steps, pins })
}

/// Mounts `/proc` with its covers, `/dev`, and the private directories.
fn private_file_systems(steps: &mut Vec<RootStep>) {
    steps.push(RootStep::Processes);
    let covers = PROC_READ_ONLY.iter().map(|path| (*path, *path));
    let masks = PROC_MASKED.iter().map(|path| ("/dev/null", *path));
    for (from, at) in covers.chain(masks) {
        let (from, at) = (Path::new(from), Path::new(at));
        if at.exists() {
            steps.push(bind(from, at, false));
        }
    }
    steps.push(RootStep::Devices);
    steps.push(empty("/dev/shm", 0o1777));
    steps.push(RootStep::Seal { at: "/dev".into() });
    steps.push(empty(TMP, 0o1777));
    steps.push(empty(HOME, 0o700));
}

/// Covers what was found in the directories of programs, which are mounted already.
fn close_in_programs(
    steps: &mut Vec<RootStep>,
    (mounts, names): (&[HostMount], &[ScanResult]),
) -> Result<Vec<Pin>, Error> {
    let ops = ops(mounts, names)?.into_iter();
    let masks = ops.filter(|(_, op)| matches!(op, Op::Mask { .. }));
    let pins = masks.map(|((_, dest), op)| by_path(steps, dest, &op));
    Ok(pins.collect())
}

fn bind(from: &Path, at: &Path, writable: bool) -> RootStep {
    RootStep::Bind {
        from: from.to_owned(),
        at: at.to_owned(),
        writable,
        optional: false,
    }
}

fn empty(at: &str, mode: u16) -> RootStep {
    RootStep::Empty {
        at: at.into(),
        mode,
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

/// Makes the parents of mounts in directories that the command can write: the command cannot write
/// in a parent, where a person would not find its files.
fn ways(steps: &mut Vec<RootStep>, mounts: &[HostMount]) {
    for way in parents_of_mounts(mounts) {
        steps.push(RootStep::Directory {
            at: way.to_owned(),
            mode: 0o555,
        });
    }
}

/// Returns the parents of mounts in directories that the command can write, except those that are
/// mounts.
pub(crate) fn parents_of_mounts(mounts: &[HostMount]) -> impl Iterator<Item = &Path> {
    let mut ways: BTreeSet<&Path> = BTreeSet::new();
    for mount in mounts {
        for own in [TMP, HOME].map(Path::new) {
            let above = Path::new(&mount.inside).ancestors().skip(1);
            ways.extend(above.take_while(|way| *way != own && way.starts_with(own)));
        }
    }
    let shown = |way: &&Path| mounts.iter().any(|mount| way.starts_with(&mount.inside));
    ways.into_iter().filter(move |way| !shown(way))
}

/// Makes `/work`: the root mount itself, or a directory of links to the other mounts. If mounts are
/// at their paths of the host, their names are links too.
fn working_directory(steps: &mut Vec<RootStep>, policy: &Policy, mounts: &[HostMount]) {
    let at_host_paths = policy.mounts().iter().any(Mount::is_at_host_path);
    let root = mounts
        .iter()
        .find(|mount| mount.place == MountPlacement::Root);
    let mut links: BTreeMap<String, String> = BTreeMap::new();
    match root {
        Some(root) if at_host_paths => {
            links.insert("/work".to_owned(), root.inside.clone());
        }
        Some(_) => {}
        None => {
            steps.push(RootStep::Directory {
                at: "/work".into(),
                mode: 0o755,
            });
            for mount in policy.mounts() {
                let Some(name) = mount.in_work() else {
                    continue;
                };
                if at_host_paths {
                    links.insert(format!("/work/{name}"), mount.inside().to_owned());
                } else if mount.place() == MountPlacement::Named
                    // Of a deeper name, links the first directory, which all names in it share.
                    && let Some(name) = name.split('/').next()
                {
                    links.insert(format!("/work/{name}"), format!("/{name}"));
                }
            }
        }
    }
    if at_host_paths {
        for mount in policy
            .mounts()
            .iter()
            .filter(|one| one.place() == MountPlacement::Named)
        {
            links.insert(mount.shown_at().to_owned(), mount.inside().to_owned());
        }
    }
    for (at, to) in links {
        // A project of that path is already mounted there.
        if !mounts.iter().any(|mount| {
            let inside = Path::new(&mount.inside);
            at_host_paths && (inside.starts_with(&at) || Path::new(&at).starts_with(inside))
        }) {
            steps.push(RootStep::Link {
                to: to.into(),
                at: at.into(),
            });
        }
    }
}

/// bubblewrap mounts a directory that covers another one at a free path, and the first process
/// moves the mount to its place, by descriptor.
fn aside(
    steps: &mut Vec<RootStep>,
    mounts: &[HostMount],
    dest: &[u8],
    op: &Op,
    number: usize,
) -> Option<[Pin; 2]> {
    let Op::Bind {
        from,
        writable,
        identity,
        covered: Some(covered),
        ..
    } = op
    else {
        return None;
    };
    let writable = *writable || has_writable_part(mounts, from);
    let path = place_aside(number);
    steps.push(bind(from, &path_of(&path), writable));
    Some([
        pin(wire::PIN_ASIDE, *identity, path),
        pin(wire::PIN_COVERED, *covered, dest.to_vec()),
    ])
}

/// Mounts a list of ignored files in the same way over a repository's own.
fn ignore_list(
    steps: &mut Vec<RootStep>,
    mounts: &[HostMount],
    list: IgnoreList,
    number: usize,
) -> [Pin; 2] {
    let path = place_aside(number);
    steps.push(RootStep::Write {
        text: list.text,
        at: path_of(&path),
    });
    let covered = in_overlay(mounts, pin(wire::PIN_CLOSED_FILE, list.identity, list.at));
    [
        pin(wire::PIN_ASIDE, (0, 0), path),
        Pin {
            how: wire::PIN_COVERED,
            ..covered
        },
    ]
}

fn place_aside(number: usize) -> Vec<u8> {
    let home = wire::ASIDE.strip_suffix(b"\0").unwrap_or(wire::ASIDE);
    [home, format!("/{number}").as_bytes()].concat()
}

fn pin(how: u64, identity: (u64, u64), path: Vec<u8>) -> Pin {
    Pin {
        how,
        identity,
        path,
    }
}

/// Returns `true` if a writable mount is below a directory of the host.
fn has_writable_part(mounts: &[HostMount], from: &Path) -> bool {
    mounts.iter().any(|mount| {
        mount.access.contains(Access::WRITE) && mount.host != *from && mount.host.starts_with(from)
    })
}

/// Has bubblewrap make the mount. A mount that is read-only as a whole is so at once; a part that
/// can be written has to be copied before (flags that come with a namespace cannot be cleared), so
/// the first process then makes the rest read-only.
fn outer(steps: &mut Vec<RootStep>, mounts: &[HostMount], dest: Vec<u8>, op: &Op) -> Pin {
    let Op::Bind {
        from,
        writable: false,
        of_policy,
        identity,
        covered,
    } = op
    else {
        return by_path(steps, dest, op);
    };
    let sealed = has_writable_part(mounts, from);
    let mut pin = by_path(
        steps,
        dest,
        &Op::Bind {
            from: from.clone(),
            writable: sealed,
            of_policy: *of_policy,
            identity: *identity,
            covered: *covered,
        },
    );
    if sealed {
        pin.how = wire::PIN_SEAL;
    }
    pin
}

/// Has the first process make the mount, by descriptor.
fn of_launcher(path: Vec<u8>, op: &Op, absent: &AbsentFiles) -> Pin {
    let (how, identity) = match *op {
        Op::Bind {
            writable,
            of_policy,
            identity,
            ..
        } => {
            let how = if writable {
                wire::PIN_IN_PLACE
            } else {
                wire::PIN_READ_ONLY
            };
            let of_policy = if of_policy { wire::PIN_MOUNT } else { 0 };
            (how | of_policy, identity)
        }
        Op::Mask { is_dir, identity } => {
            let how = match is_dir {
                true if is_quarantine(&path) => wire::PIN_EMPTY_DIRECTORY,
                true => wire::PIN_CLOSED_DIRECTORY,
                false if absent.has(&path) => wire::PIN_DANGLING_LINK,
                false => wire::PIN_CLOSED_FILE,
            };
            (how, identity)
        }
    };
    pin(how, identity, path)
}

/// Returns the step for the overlay at a destination and its pin; `None` for every other mount.
fn overlay_at(mounts: &[HostMount], dest: &[u8]) -> Result<Option<(RootStep, Pin)>, Error> {
    let at = |mount: &&HostMount| mount.inside.as_bytes() == dest;
    let Some((mount, overlay)) = mounts
        .iter()
        .find(at)
        .and_then(|mount| Some((mount, mount.overlay.as_ref()?)))
    else {
        return Ok(None);
    };
    let step = RootStep::Overlay(OverlayStep {
        lower: KnownDir {
            path: mount.host.clone(),
            identity: mount.identity()?,
        },
        upper: overlay.upper.clone(),
        work: overlay.work.clone(),
        at: path_of(dest),
    });
    // The root of an overlay is a directory of its own.
    let pin = pin(wire::PIN_LOOK, (0, 0), dest.to_vec());
    Ok(Some((step, pin)))
}

/// Makes a pin comparable with its place, if that is in an overlay. A file has the inode number of
/// the lower there. A directory has it if lower and upper are on one file system, and else a number
/// of its own.
fn in_overlay(mounts: &[HostMount], pin: Pin) -> Pin {
    let around = mounts
        .iter()
        .filter(|mount| is_inside(&pin.path, &mount.inside))
        .find_map(|mount| Some((mount, mount.overlay.as_ref()?)));
    let Some((mount, overlay)) = around else {
        return pin;
    };
    let (device, inode) = pin.identity;
    let one_system = overlay.upper.identity.0 == device
        && mount.identity().is_ok_and(|(lower, _)| lower == device);
    let is_file = matches!(pin.how, wire::PIN_CLOSED_FILE | wire::PIN_DANGLING_LINK);
    Pin {
        identity: match one_system || is_file {
            true => (wire::DEVICE_OF_OVERLAY, inode),
            false => (0, 0),
        },
        ..pin
    }
}

/// Has bubblewrap make the mount, and the first process check it.
fn by_path(steps: &mut Vec<RootStep>, path: Vec<u8>, op: &Op) -> Pin {
    let at = path_of(&path);
    let identity = match op {
        Op::Bind {
            from,
            writable,
            identity,
            ..
        } => {
            steps.push(bind(from, &at, *writable));
            *identity
        }
        Op::Mask { is_dir: true, .. } => {
            let mode = if is_quarantine(&path) { 0o555 } else { 0 };
            let at_empty = at.clone();
            steps.push(RootStep::Empty { at: at_empty, mode });
            steps.push(RootStep::Seal { at });
            (0, 0)
        }
        Op::Mask { is_dir: false, .. } => {
            steps.push(bind(Path::new("/dev/null"), &at, false));
            (0, 0)
        }
    };
    pin(wire::PIN_LOOK, identity, path)
}

/// Returns `true` for the quarantine. It can be listed and looks empty: forge made it, so a command
/// that copies or searches the project does not fail at it.
fn is_quarantine(path: &[u8]) -> bool {
    path_of(path).file_name() == Some(OsStr::new(QUARANTINE))
}

/// Returns `true` if a destination is below this directory inside.
fn is_inside(dest: &[u8], directory: &str) -> bool {
    dest.strip_prefix(directory.as_bytes())
        .is_some_and(|rest| rest.first() == Some(&b'/'))
}

fn system(steps: &mut Vec<RootStep>, system: System, own_files: Vec<OwnFile>) {
    match system {
        System::None => return,
        System::Minimal | System::BroadRead => {}
    }
    for path in PROGRAMS.iter().map(Path::new) {
        match std::fs::read_link(path) {
            // /bin on a merged-usr system is a link, and remains one.
            Ok(to) => steps.push(RootStep::Link {
                to,
                at: path.to_owned(),
            }),
            Err(_) if path.is_dir() => steps.push(bind(path, path, false)),
            Err(_) => {}
        }
    }
    if system == System::BroadRead {
        let shown = BROAD.iter().map(Path::new).filter(|path| path.is_dir());
        steps.extend(shown.map(|path| bind(path, path, false)));
        for own in own_files.into_iter().filter(|own| is_of_network(own.at)) {
            // A link may lead to a place that is not shown; then programs find no file, and use
            // the defaults of the C library.
            if let Ok(real) = std::fs::canonicalize(own.at)
                && BROAD.iter().any(|shown| real.starts_with(shown))
            {
                steps.push(RootStep::Cover {
                    text: own.text,
                    at: real,
                });
            }
        }
        return;
    }
    steps.push(RootStep::Directory {
        at: "/etc".into(),
        mode: 0o755,
    });
    for path in ETC {
        if own_files.iter().any(|own| own.at == path) {
            continue;
        }
        // Links are followed: their targets may be in /run, which is not shown.
        match std::fs::metadata(path) {
            // Why a copy: bubblewrap reads the whole mount table for every mount, so dozens of
            // single files are most of a start; copies in its own root cost next to nothing.
            Ok(meta) if meta.is_file() && meta.len() <= MAX_COPIED_BYTES => {
                steps.push(RootStep::Copy {
                    from: path,
                    at: path.into(),
                });
            }
            Ok(_) => steps.push(bind(Path::new(path), Path::new(path), false)),
            Err(_) => {}
        }
    }
    steps.extend(own_files.into_iter().map(|own| RootStep::Write {
        text: own.text,
        at: own.at.into(),
    }));
}

/// Returns `true` for the files of ours that a system view of the host's own `/etc` needs too.
fn is_of_network(path: &str) -> bool {
    ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"].contains(&path)
}

/// Returns all mounts by depth of their destination, so that no mount covers a deeper one.
pub(super) fn ops(mounts: &[HostMount], names: &[ScanResult]) -> Result<Ops, Error> {
    let mut ops = BTreeMap::new();
    for mount in mounts {
        let mut op = of_mount(mount)?;
        if let (MountPlacement::Covers(outer), Op::Bind { covered, .. }) = (mount.place, &mut op) {
            let outer = &mounts[outer];
            let way = Path::new(&mount.inside).strip_prefix(&outer.inside);
            let way = way.map_err(|_| Error::invalid("a mount lies beside the one around it"))?;
            *covered = Some(outer.identity_below(way)?);
            pin_way(&mut ops, mounts, outer, way)?;
        }
        ops.insert(key(mount.inside.as_bytes().to_vec()), op);
    }
    for mount in mounts {
        // A mount inside another's directory has its own access under that name as well.
        for outer in mounts {
            if let Ok(rest) = mount.host.strip_prefix(&outer.host)
                && !rest.as_os_str().is_empty()
                && !outer.is_covered(rest)
            {
                ops.insert(key(dest(&outer.inside, rest)), of_mount(mount)?);
                pin_way(&mut ops, mounts, outer, rest)?;
            }
        }
    }
    for (mount, names) in mounts.iter().zip(names) {
        let (sealed, masked) = (names.sealed(), names.masked());
        // Nothing can be mounted in a hidden directory.
        let reached = |found: &&GuardedPath| !found.is_in(&masked);
        for found in names.found.iter().filter(reached) {
            let effective = access_of(mounts, &mount.host.join(&found.below));
            let at = key(dest(&mount.inside, &found.below));
            if found.hide {
                if effective.contains(Access::READ) || found.unlisted && !effective.is_none() {
                    let identity = mount.identity_below(&found.below)?;
                    let is_dir = found.is_dir;
                    ops.insert(at, Op::Mask { is_dir, identity });
                }
            } else if effective.contains(Access::WRITE) {
                ops.insert(
                    at,
                    Op::Bind {
                        from: mount.host.join(&found.below),
                        writable: false,
                        of_policy: false,
                        identity: mount.identity_below(&found.below)?,
                        covered: None,
                    },
                );
            } else {
                continue;
            }
            // A directory in a read-only one cannot be renamed, and its pin would be writable.
            if !found.is_in(&sealed) {
                pin_way(&mut ops, mounts, mount, &found.below)?;
            }
        }
    }
    Ok(ops)
}

/// Makes each directory on the way to a part of a mount a mount point too: any other directory can
/// be renamed with its contents (`mv .git aside; mkdir .git`).
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
                of_policy: false,
                identity: mount.identity_below(ancestor)?,
                covered: None,
            });
        }
    }
    Ok(())
}

/// Mounts by destination inside, those nearer to the root first.
pub(super) type Ops = BTreeMap<(usize, Vec<u8>), Op>;

fn key(dest: Vec<u8>) -> (usize, Vec<u8>) {
    (dest.iter().filter(|byte| **byte == b'/').count(), dest)
}

fn of_mount(mount: &HostMount) -> Result<Op, Error> {
    if mount.access.is_none() {
        return Ok(Op::Mask {
            is_dir: mount.is_dir,
            identity: mount.identity()?,
        });
    }
    Ok(Op::Bind {
        from: mount.host.clone(),
        writable: mount.access.contains(Access::WRITE),
        of_policy: true,
        identity: mount.identity()?,
        covered: None,
    })
}

/// Returns the access of the longest mount around a host path.
pub(crate) fn access_of(mounts: &[HostMount], host: &Path) -> Access {
    mounts
        .iter()
        .filter(|mount| host.starts_with(&mount.host))
        .max_by_key(|mount| mount.host.as_os_str().len())
        .map_or(Access::NONE, |mount| mount.access)
}
