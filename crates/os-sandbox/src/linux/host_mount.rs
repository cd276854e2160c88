//! Mounts of a policy as the host has them: each is opened once, in the broker, and everything that
//! is made of a mount afterwards is made of its open handle.

use super::below;
use crate::access::Access;
use crate::error::{Error, ErrorKind};
use crate::escape::visible;
use crate::policy::{
    LinkPolicy, Mount, MountGuards, MountPlacement, OverlayDirs, Policy, check_not_kernel, covered,
};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, major, minor};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Names that git changes in a repository on behalf of a linked worktree; every other name at the
/// top belongs to the main worktree.
const SHARED: [&str; 11] = [
    "objects",
    "refs",
    "logs",
    "packed-refs",
    "packed-refs.lock",
    "packed-refs.new",
    "worktrees",
    "gc.pid",
    "gc.pid.lock",
    "gc.log",
    "gc.log.lock",
];

/// A mount whose links were followed once, in the broker. It stays open: rules are made from the
/// open handle, and the first process inside compares with its identity.
#[derive(Debug)]
pub(crate) struct HostMount {
    pub(crate) host: PathBuf,
    pub(crate) inside: String,
    pub(crate) access: Access,
    pub(crate) place: MountPlacement,
    pub(crate) is_dir: bool,
    /// Opened with O_PATH.
    pub(crate) handle: File,
    /// Protected and hidden names below the mount.
    pub(crate) guards: MountGuards,
    /// `true` if only patterns of its own apply, and sockets of the host are not looked for.
    pub(crate) is_unguarded: bool,
    /// A repository that no mount of the policy names.
    pub(crate) linked: Option<Linked>,
    /// Directories below this mount that other mounts cover.
    pub(crate) covered: Vec<PathBuf>,
    /// Files in this mount that other mounts lead to, after those were scanned.
    pub(crate) targets: OnceLock<Vec<ObeyedPath>>,
    /// The directories that take the changes, if this mount is an overlay.
    pub(crate) overlay: Option<OpenOverlay>,
    /// `true` if this mount is a part of an overlay, which takes its changes too.
    pub(crate) in_overlay: bool,
}

/// A directory of the host, and the device and inode that the broker saw there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownDir {
    pub(crate) path: PathBuf,
    pub(crate) identity: (u64, u64),
}

/// The directories of an overlay beside its lower one, opened once in the broker.
#[derive(Debug)]
pub(crate) struct OpenOverlay {
    pub(crate) upper: KnownDir,
    pub(crate) work: KnownDir,
}

impl HostMount {
    /// A directory or file that is shown at no place yet, without access and guards.
    fn opened(host: PathBuf, handle: File, is_dir: bool) -> HostMount {
        HostMount {
            host,
            inside: String::new(),
            access: Access::NONE,
            place: MountPlacement::Named,
            is_dir,
            handle,
            guards: MountGuards::default(),
            is_unguarded: false,
            linked: None,
            covered: Vec::new(),
            targets: OnceLock::new(),
            overlay: None,
            in_overlay: false,
        }
    }

    /// Returns `true` if commands change the directory of the host itself.
    pub(crate) fn is_changed(&self) -> bool {
        self.access.contains(Access::WRITE) && !self.is_layered()
    }

    /// Returns `true` if an overlay takes the changes.
    pub(crate) fn is_layered(&self) -> bool {
        self.overlay.is_some() || self.in_overlay
    }

    /// Returns device (major number in the low half, as `statx` has it) and inode.
    pub(crate) fn identity(&self) -> Result<(u64, u64), Error> {
        identity(&self.handle)
    }

    /// Returns a path below this mount in the form that patterns match: paths of a repository start
    /// with `.git`.
    pub(crate) fn named(&self, below: &Path) -> PathBuf {
        match self.linked {
            Some(_) => Path::new(".git").join(below),
            None => below.to_owned(),
        }
    }

    /// Returns a path below this mount as the command sees it.
    pub(crate) fn shown(&self, below: &Path) -> String {
        let path = Path::new(&self.inside).join(below);
        visible(&path.components().as_path().to_string_lossy())
    }

    /// Returns `true` if another mount covers a path below this one.
    pub(crate) fn is_covered(&self, below: &Path) -> bool {
        self.covered.iter().any(|place| below.starts_with(place))
    }

    /// Returns the metadata of a name below this mount, of a link its own, without following a link
    /// on the way.
    pub(crate) fn look(&self, below: &Path) -> Result<FileStat, Errno> {
        let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
            return Err(Errno::EINVAL);
        };
        let parent = below::directory(self.handle.as_fd(), parent)?;
        below::look(parent.as_fd(), name)
    }

    /// Returns the identity of a name below this mount, without following a link on the way.
    pub(crate) fn identity_below(&self, below: &Path) -> Result<(u64, u64), Error> {
        let gone = |errno: nix::Error| {
            let what = format!("{} changed during the start", self.shown(below));
            Error::io(what, errno.into()).of_change()
        };
        let mut at = self
            .handle
            .try_clone()
            .map_err(|e| Error::io("out of descriptors", e))?;
        for name in below {
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            at = openat(&at, name, flags, Mode::empty())
                .map_err(gone)?
                .into();
        }
        identity(&at)
    }
}

/// A file of the mount that git obeys because of a link or of configuration, and the description of
/// that reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObeyedPath {
    pub(crate) below: PathBuf,
    pub(crate) by: String,
    /// The link in this mount that leads to it, if one does.
    pub(crate) link: Option<PathBuf>,
}

/// A repository that is shown for a linked worktree, with the name of the part that is that
/// worktree's own.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(super) id: OsString,
    /// Git locks the heads of these worktrees while it collects garbage, so new files must be
    /// possible beside the existing ones; the scan after the end finds the files that stay.
    pub(super) others: Vec<OsString>,
}

impl Linked {
    /// Returns `true` if a name belongs to the main worktree or to another one.
    pub(crate) fn foreign(&self, below: &Path, name: &OsStr) -> bool {
        if below.as_os_str().is_empty() {
            return !SHARED.iter().any(|shared| name == *shared);
        }
        let mut parts = below.iter();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(first), None, None) if first == "worktrees" => {
                name != self.id && !self.others.iter().any(|other| other == name)
            }
            (Some(first), Some(id), None) if first == "worktrees" && id != self.id => {
                name != "logs" && name != "refs"
            }
            _ => false,
        }
    }

    /// Returns `true` for a directory whose entries have the names of branches.
    pub(crate) fn is_data(&self, below: &Path) -> bool {
        below.starts_with("logs") || below.starts_with("refs")
    }
}

/// Follows each mount's links, and refuses directories of the kernel.
pub(crate) fn host_mounts(policy: &Policy) -> Result<Vec<HostMount>, Error> {
    let mounts: Vec<HostMount> = policy
        .mounts()
        .iter()
        .enumerate()
        .map(|(index, mount)| {
            let covered = covered(policy.mounts(), mount).collect();
            Ok(HostMount {
                covered,
                guards: policy.guards_of(index),
                is_unguarded: policy.is_unguarded(mount),
                in_overlay: policy
                    .overlay_around(index)
                    .is_some_and(|outer| outer != index),
                ..host_mount(mount)?
            })
        })
        .collect::<Result<_, Error>>()?;
    for (inner, inner_policy) in mounts.iter().zip(policy.mounts()) {
        for (outer, outer_policy) in mounts.iter().zip(policy.mounts()) {
            // A command that may write in the outer mount could have replaced the inner one by a
            // link to any directory.
            if let Ok(rest) = inner_policy.host().strip_prefix(outer_policy.host())
                && inner.host != join(outer.host.clone(), rest)
            {
                return Err(Error::invalid(format!(
                    "{} runs through a link inside {}",
                    inner_policy.shown_at(),
                    outer_policy.shown_at()
                ))
                .with_hint("a part of a mount must be a real directory or file in it"));
            }
        }
        if let MountPlacement::Covers(outer) = inner.place {
            mount_point(&mounts[outer], inner, inner_policy, &policy.mounts()[outer])?;
        }
    }
    Ok(mounts)
}

/// Opens the directories of programs, which are apart from every mount. A missing one is not shown.
pub(crate) fn program_mounts(policy: &Policy) -> Result<Vec<HostMount>, Error> {
    let mut mounts = Vec::new();
    for programs in policy.programs() {
        let failed = |error| {
            let shown = programs.shown_at().display();
            Error::io(format!("could not open the programs at {shown}"), error)
        };
        let host = match std::fs::canonicalize(programs.host()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            host => host.map_err(failed)?,
        };
        let handle = File::options()
            .read(true)
            .custom_flags(OFlag::O_PATH.bits())
            .open(&host)
            .map_err(failed)?;
        let is_dir = handle.metadata().map_err(failed)?.is_dir();
        mounts.push(HostMount {
            inside: programs.shown_at().to_string_lossy().into_owned(),
            access: Access::READ.union(Access::EXECUTE),
            ..HostMount::opened(host, handle, is_dir)
        });
    }
    Ok(mounts)
}

/// Checks that a covering mount has a file or directory of its kind to cover. The sandbox creates
/// none: the tree is a person's.
fn mount_point(
    outer: &HostMount,
    inner: &HostMount,
    inner_policy: &Mount,
    outer_policy: &Mount,
) -> Result<(), Error> {
    let below = outer_policy.way_to(inner_policy).unwrap_or_default();
    // The check also uses the outer mount for a path that an intermediate mount covers.
    let kind = outer.look(&below).map(|stat| below::kind(&stat));
    let (fits, what) = match inner.is_dir {
        true => (matches!(kind, Ok(SFlag::S_IFDIR)), "directory"),
        false => (matches!(kind, Ok(SFlag::S_IFREG)), "file"),
    };
    if fits {
        return Ok(());
    }
    let (place, shown) = (outer.host.join(&below), inner_policy.shown_at());
    Err(Error::invalid(format!(
        "there is no {what} {} to show {shown} at",
        place.display()
    ))
    .with_hint(format!(
        "create an empty {what} there; the sandbox makes nothing in a mount"
    )))
}

fn host_mount(mount: &Mount) -> Result<HostMount, Error> {
    let (path, shown_at) = (mount.host().display(), mount.shown_at());
    let failed = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => "create the directory, or take the mount out",
            _ => "check that the directory can be reached",
        };
        Error::io(format!("could not open {path} ({shown_at})"), error).with_hint(hint)
    };
    let (host, handle) = match mount.links() {
        LinkPolicy::Followed => {
            let host = std::fs::canonicalize(mount.host()).map_err(failed)?;
            check_not_kernel(&host)?;
            let handle = File::options()
                .read(true)
                .custom_flags(OFlag::O_PATH.bits())
                .open(&host)
                .map_err(failed)?;
            (host, handle)
        }
        LinkPolicy::Refused => (mount.host().to_owned(), through_no_link(mount, &failed)?),
    };
    // Proves that the opened file is the checked one, even if a program replaced it in between.
    let opened =
        std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())).map_err(failed)?;
    if opened != host {
        return Err(ErrorKind::Enforcement.error(format!(
            "{path} ({shown_at}) was replaced while it was opened"
        )));
    }
    let meta = handle.metadata().map_err(failed)?;
    if mount.overlay().is_some() && !meta.is_dir() {
        return Err(Error::invalid(format!(
            "{path} is not a directory, so it cannot be the lower directory of an overlay"
        )));
    }
    if !meta.is_dir() && !meta.is_file() {
        return Err(Error::invalid(format!(
            "{path} is neither a directory nor a file"
        )));
    }
    Ok(HostMount {
        inside: mount.inside().to_owned(),
        access: mount.access(),
        place: mount.place(),
        overlay: mount.overlay().map(open_overlay).transpose()?,
        ..HostMount::opened(host, handle, meta.is_dir())
    })
}

/// Opens the upper and the work directory, without following a link.
fn open_overlay(overlay: &OverlayDirs) -> Result<OpenOverlay, Error> {
    let known = |path: &Path, what: &str| {
        let failed = |errno: Errno| {
            Error::io(
                format!("could not open {what} {}", path.display()),
                errno.into(),
            )
        };
        let directory = File::from(below::absolute(path).map_err(failed)?);
        Ok::<_, Error>((identity(&directory)?, directory))
    };
    let (upper, directory) = known(&overlay.upper, "the upper directory")?;
    let (work, _) = known(&overlay.work, "the work directory")?;
    overlay_system(&directory, &overlay.upper)?;
    if upper.0 != work.0 {
        return Err(ErrorKind::Unsupported.error(format!(
            "an overlay needs its upper and its work directory on one file system; {} and {} \
                 are on two",
            overlay.upper.display(),
            overlay.work.display()
        )));
    }
    let place = |path: &Path, identity| KnownDir {
        path: path.to_owned(),
        identity,
    };
    Ok(OpenOverlay {
        upper: place(&overlay.upper, upper),
        work: place(&overlay.work, work),
    })
}

/// Refuses an upper directory on a file system that overlayfs cannot use, by the magic number of
/// statfs(2).
fn overlay_system(directory: &File, path: &Path) -> Result<(), Error> {
    const UNUSABLE: [(i64, &str); 5] = [
        (
            0x794c_7630,
            "an overlay itself, such as the root of a container",
        ),
        (0x6969, "NFS"),
        (0xf15f, "eCryptfs"),
        (0xff53_4d42, "SMB"),
        (0x0102_1997, "9p"),
    ];
    let found = rustix::fs::fstatfs(directory)
        .map_err(|errno| Error::io("could not look at the upper directory", errno.into()))?;
    let magic = found.f_type as i64 & 0xffff_ffff;
    match UNUSABLE.iter().find(|(unusable, _)| *unusable == magic) {
        None => Ok(()),
        Some((_, name)) => Err(ErrorKind::Unsupported
            .error(format!(
                "the file system of {} is {name}, on which the kernel makes no upper directory of \
                 an overlay",
                path.display()
            ))
            .with_hint(
                "use a directory on a local disk, such as one of ext4, XFS, Btrfs or tmpfs",
            )),
    }
}

/// Opens a mount's path without following a link on the way or at its end.
fn through_no_link(mount: &Mount, failed: &dyn Fn(std::io::Error) -> Error) -> Result<File, Error> {
    below::place(mount.host())
        .map(File::from)
        .map_err(|errno| match errno {
            Errno::ELOOP => ErrorKind::Enforcement
                .error(format!(
                    "{} ({}) runs through a link now",
                    mount.host().display(),
                    mount.shown_at()
                ))
                .with_hint("another program has replaced a directory of the path; put it back"),
            errno => failed(errno.into()),
        })
}

pub(super) fn identity(file: &File) -> Result<(u64, u64), Error> {
    let meta = file
        .metadata()
        .map_err(|error| Error::io("could not look at a mount", error))?;
    let device = meta.dev();
    Ok((major(device) | minor(device) << 32, meta.ino()))
}

/// Joins two paths, without a trailing slash for an empty rest.
pub(super) fn join(base: PathBuf, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        base
    } else {
        base.join(rest)
    }
}
