//! The target's Landlock ruleset, created in the broker and passed on by descriptor. Rules refer to
//! inodes, so they apply to a directory under any name in a mount namespace.
//!
//! <https://docs.kernel.org/userspace-api/landlock.html>

use super::super::below;
use super::super::host_mount::HostMount;
use super::super::mount_layer::inside_paths;
use crate::access::Access;
use crate::error::{Error, ErrorKind};
use crate::policy::{BROAD, DEVICES, ETC, Mount, Network, PROGRAMS, Policy, System, UnixSockets};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};
use nix::fcntl::OFlag;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::SystemTime;

/// Inputs of a ruleset.
pub(crate) struct RulesetSpec<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) abi: u32,
    pub(crate) mounts: &'a [HostMount],
    /// Private directories of this run that exist on the host: read, write, execute.
    pub(crate) private: &'a [&'a Path],
    /// Directories that can be listed and contain no files.
    pub(crate) listed: &'a [&'a Path],
    /// `true` if the target sees the host's own `/etc`, or files of it.
    pub(crate) host_etc: bool,
    /// `true` if the target sees the host's own `/proc`.
    pub(crate) host_proc: bool,
    /// `true` if the command has a network namespace of its own.
    pub(crate) own_loopback: bool,
    /// In a container of our own, the paths at its root that come from the image, from [`image`].
    pub(crate) image: Option<&'a [String]>,
}

/// A ruleset and its inputs. Creating one costs half as much as a start, so the ruleset of a
/// private directory is used again if each of its rules would refer to the same file again: this
/// check costs a quarter of creating. A rule keeps its inode (not the file system) alive, so an
/// equal number is the same file; should that ever be wrong, the old rule names a file that is out
/// of reach, and the new file is refused.
#[derive(Debug)]
pub(crate) struct LandlockRuleset {
    fd: OwnedFd,
    from: Vec<Option<RuleTarget>>,
}

/// Device, inode and time of birth, where the file system has one.
#[derive(Debug, PartialEq, Eq)]
struct RuleTarget(u64, u64, Option<SystemTime>);

/// File that a rule refers to.
enum At<'a> {
    Mount(&'a HostMount),
    /// Must exist.
    Own(&'a Path),
    /// Optional: hosts differ.
    Systems(&'a str),
    /// Optional too, and opened without following a link.
    Programs(&'a Path),
}

impl LandlockRuleset {
    pub(crate) fn build(wanted: &RulesetSpec<'_>) -> Result<LandlockRuleset, Error> {
        let mut ruleset = Building::new(wanted)?;
        let mut from = Vec::new();
        for (at, rights) in wanted.rules() {
            from.push(ruleset.add(&at, rights)?);
        }
        let gone = "this kernel has no Landlock any more";
        let fd = Option::<OwnedFd>::from(ruleset.created)
            .ok_or_else(|| ErrorKind::Enforcement.error(gone))?;
        Ok(LandlockRuleset { fd, from })
    }

    /// Returns `true` if a new ruleset would have the same rules. Policy and version are those of
    /// one plan.
    pub(crate) fn hold_for(&self, wanted: &RulesetSpec<'_>) -> bool {
        let mut kept = self.from.iter();
        let same = wanted.rules().all(|(at, _)| {
            let now = match at {
                At::Mount(mount) => mount.handle.metadata(),
                At::Own(path) => own(path).and_then(|place| place.metadata()),
                At::Systems(path) => fs::metadata(path),
                At::Programs(path) => programs(path).and_then(|place| place.metadata()),
            };
            kept.next() == Some(&now.ok().map(|meta| RuleTarget::of(&meta)))
        });
        same && kept.next().is_none()
    }
}

/// Opens a private directory. Its parent is for temporary files of all programs, so another command
/// may write there: a link that the command created must not become a rule.
fn own(path: &Path) -> io::Result<File> {
    Ok(below::absolute(path)?.into())
}

/// Opens a directory or file of programs, without following a link.
fn programs(path: &Path) -> io::Result<File> {
    Ok(below::place(path)?.into())
}

impl AsFd for LandlockRuleset {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl RuleTarget {
    fn of(meta: &fs::Metadata) -> RuleTarget {
        RuleTarget(meta.dev(), meta.ino(), meta.created().ok())
    }
}

impl RulesetSpec<'_> {
    fn rules(&self) -> impl Iterator<Item = (At<'_>, BitFlags<AccessFs>)> {
        let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        // An overlay has inodes of its own: its rule is one of `inside`.
        let mounts = self
            .mounts
            .iter()
            .filter(|mount| !mount.is_layered())
            .map(|mount| (At::Mount(mount), rights(self.policy, mount.access)));
        let all = rights(self.policy, Access::ALL);
        let private = self.private.iter().map(move |path| (At::Own(path), all));
        let listed = self.listed.iter();
        let listed = listed.map(|path| (At::Own(path), AccessFs::ReadDir.into()));
        let (programs, broad, etc): (&[&str], &[&str], &[&str]) = match self.policy.system() {
            System::None => (&[], &[], &[]),
            _ if self.image.is_some() => (&[], &[], &[]),
            // Inside namespaces `/etc` is a directory of ours, with a rule of its own.
            System::Minimal if !self.host_etc => (&PROGRAMS, &[], &[]),
            System::Minimal => (&PROGRAMS, &[], &ETC),
            System::BroadRead if !self.host_etc => (&PROGRAMS, &BROAD, &[]),
            // Links in `/etc` whose targets are outside of it.
            System::BroadRead => (&PROGRAMS, &BROAD, &ETC),
        };
        // Never write in /proc: uid 0 owns /proc/sys, whatever capabilities it has left.
        let proc: &[&str] = if self.host_proc { &["/proc"] } else { &[] };
        let systems = [
            (programs, read | AccessFs::Execute),
            (broad, read),
            (etc, read),
            (&DEVICES, device()),
            (proc, read),
        ];
        let systems = systems
            .into_iter()
            .flat_map(|(paths, rights)| paths.iter().map(move |path| (At::Systems(path), rights)));
        // In a container these paths are the image's.
        let programs = self.policy.programs().iter();
        let programs = programs
            .filter(|_| self.image.is_none())
            .map(move |one| (At::Programs(one.host()), read | AccessFs::Execute));
        let image = self.image.into_iter().flat_map(move |image| {
            let image = image.iter().map(String::as_str);
            image
                .map(move |path| (At::Systems(path), read | AccessFs::Execute))
                .chain(own_places(self.policy).map(|(rights, path)| (At::Systems(path), rights)))
        });
        mounts
            .chain(private)
            .chain(listed)
            .chain(systems)
            .chain(programs)
            .chain(image)
    }
}

/// Returns the paths at the root of a container that come from the image: neither a mount (or a
/// parent of one), nor the kernel's.
pub(crate) fn image(policy: &Policy) -> Result<Vec<String>, Error> {
    let failed = |error| Error::io("could not list /", error);
    if policy.system() == System::None {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    for entry in fs::read_dir("/").map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let mounted = policy
            .mounts()
            .iter()
            .any(|mount| Path::new(mount.inside()).starts_with(&path));
        let path = path.to_str().filter(|path| {
            !mounted && !["/dev", "/proc", "/sys", "/home", "/tmp", "/work"].contains(path)
        });
        out.extend(path.map(str::to_owned));
    }
    out.sort_unstable();
    Ok(out)
}

/// Returns the directories that a command has for itself under a mount layer, and the rights for
/// them.
fn own_places(policy: &Policy) -> impl Iterator<Item = (BitFlags<AccessFs>, &'static str)> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let all = rights(policy, Access::ALL);
    let places = [
        (AccessFs::ReadDir.into(), "/dev"),
        (read | AccessFs::WriteFile | AccessFs::IoctlDev, "/dev/pts"),
        (all, "/dev/shm"),
        (all, "/tmp"),
        (all, inside_paths::HOME),
    ];
    places.into_iter().chain(root(policy))
}

/// Returns the rights for a command's own terminal on the host's devpts, as the kernel's bits.
pub(crate) fn terminal(abi_number: u32) -> u64 {
    if abi_number == 0 {
        return 0;
    }
    let rights = make_bitflags!(AccessFs::{ReadFile | WriteFile | IoctlDev});
    (rights & AccessFs::from_all(abi(abi_number))).bits()
}

/// Returns the directories among them that the command may write.
pub(crate) fn own_writable_places(policy: &Policy) -> impl Iterator<Item = &'static str> {
    own_places(policy)
        .filter(|(rights, _)| rights.contains(AccessFs::WriteFile))
        .map(|(_, path)| path)
}

/// Returns the rights for paths that exist only inside the namespaces, as the kernel's bits.
pub(crate) fn inside(
    policy: &Policy,
    mounts: &[HostMount],
    abi_number: u32,
    links: bool,
) -> Vec<(u64, Vec<u8>)> {
    let abi = abi(abi_number);
    let handled = handled(policy, abi);
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let mut out: Vec<(BitFlags<AccessFs>, &str)> = vec![(read, "/proc")];
    out.extend(own_places(policy).map(|(rights, path): (_, &str)| (rights, path)));
    match policy.system() {
        System::None => {}
        // Its passwd and group are our own files; the profile lists all other files in it.
        System::Minimal => out.push((read, "/etc")),
        System::BroadRead => {}
    }
    // This right also lists the mounts below.
    let lists = |mount: &Mount| {
        !mount.inside().starts_with("/work/") || mount.access().contains(Access::READ)
    };
    if links && policy.mounts().iter().all(lists) {
        out.push((AccessFs::ReadDir.into(), "/work"));
    }
    for mount in mounts {
        if !mount.is_layered() {
            continue;
        }
        let rights = rights(policy, mount.access);
        let of_file = AccessFs::from_file(ABI::V9);
        let rights = if mount.is_dir {
            rights
        } else {
            rights & of_file
        };
        if !(rights & handled).is_empty() {
            out.push((rights, &mount.inside));
        }
    }
    out.into_iter()
        .map(|(rights, path)| ((rights & handled).bits(), path.as_bytes().to_vec()))
        .collect()
}

/// Returns the rights for birdcage, which shows the host's own paths except for these.
pub(crate) fn inside_birdcage(policy: &Policy, abi_number: u32) -> Vec<(u64, Vec<u8>)> {
    let handled = handled(policy, abi(abi_number));
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let mut out: Vec<(BitFlags<AccessFs>, &str)> =
        vec![(read, "/proc"), (AccessFs::ReadDir.into(), "/dev")];
    out.extend(root(policy));
    out.into_iter()
        .map(|(rights, path)| ((rights & handled).bits(), path.as_bytes().to_vec()))
        .collect()
}

/// Returns the right to list `/`, if every mount is readable: listing `/` includes everything below
/// it.
fn root(policy: &Policy) -> Option<(BitFlags<AccessFs>, &'static str)> {
    let mut mounts = policy.mounts().iter();
    mounts
        .all(|mount| mount.access().contains(Access::READ))
        .then_some((AccessFs::ReadDir.into(), "/"))
}

fn abi(number: u32) -> ABI {
    ABI::from(i32::try_from(number).unwrap_or(i32::MAX))
}

fn handled(policy: &Policy, abi: ABI) -> BitFlags<AccessFs> {
    let all = AccessFs::from_all(abi);
    match policy.unix_sockets() {
        // The connector connects to named sockets, and sockets of the same domain are not subject
        // to this right.
        UnixSockets::Closed | UnixSockets::Own | UnixSockets::Named(_) => all,
        UnixSockets::Open => all & !BitFlags::from(AccessFs::ResolveUnix),
    }
}

/// Returns the access of a mount as the kernel's rights. Device nodes can neither be created nor
/// used in any mount, and sockets can be created only if the policy opens them.
fn rights(policy: &Policy, access: Access) -> BitFlags<AccessFs> {
    let mut out = BitFlags::EMPTY;
    if access.contains(Access::READ) {
        out |= make_bitflags!(AccessFs::{ReadFile | ReadDir});
    }
    if access.contains(Access::EXECUTE) {
        out |= AccessFs::Execute;
    }
    if access.contains(Access::WRITE) {
        out |= make_bitflags!(AccessFs::{
            WriteFile | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeFifo | MakeSym | Refer
            | Truncate
        });
        match policy.unix_sockets() {
            UnixSockets::Closed => {}
            UnixSockets::Own | UnixSockets::Named(_) | UnixSockets::Open => {
                out |= AccessFs::MakeSock;
            }
        }
    }
    out
}

fn device() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev})
}

struct Building {
    created: RulesetCreated,
    handled: BitFlags<AccessFs>,
}

impl Building {
    fn new(wanted: &RulesetSpec<'_>) -> Result<Building, Error> {
        let abi = abi(wanted.abi);
        let handled = handled(wanted.policy, abi);
        let refused = |error: RulesetError| {
            ErrorKind::Enforcement.error(format!("Landlock refused the rules: {error}"))
        };
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(handled)
            .map_err(refused)?;
        // A second barrier for TCP; the first is the filter, which also covers every other
        // protocol. The connector, which is outside, connects what is allowed.
        let closed = match wanted.policy.network() {
            Network::Denied | Network::Hosts(_) => !wanted.own_loopback,
            Network::Loopback | Network::Unrestricted => false,
        };
        if closed && abi >= ABI::V4 {
            ruleset = ruleset
                .handle_access(AccessNet::from_all(ABI::V4))
                .map_err(refused)?;
        }
        if abi >= ABI::V6 {
            ruleset = ruleset.scope(Scope::from_all(ABI::V6)).map_err(refused)?;
        }
        let created = ruleset.create().map_err(refused)?;
        Ok(Building { created, handled })
    }

    /// Adds a rule, and returns the identity of the opened file.
    fn add(
        &mut self,
        at: &At<'_>,
        rights: BitFlags<AccessFs>,
    ) -> Result<Option<RuleTarget>, Error> {
        let (path, must_exist) = match at {
            At::Mount(mount) => {
                let meta = mount.handle.metadata();
                let meta = meta.map_err(|error| unreachable_place(&mount.host, error))?;
                self.allow(mount.handle.as_fd(), meta.is_dir(), rights, &mount.host)?;
                return Ok(Some(RuleTarget::of(&meta)));
            }
            At::Own(path) => (*path, true),
            At::Systems(path) => (Path::new(path), false),
            At::Programs(path) => (*path, false),
        };
        let opened = match at {
            At::Mount(_) | At::Own(_) => own(path),
            At::Programs(_) => programs(path),
            At::Systems(_) => File::options()
                .read(true)
                .custom_flags(OFlag::O_PATH.bits())
                .open(path),
        };
        let (place, meta) =
            match opened.and_then(|place| place.metadata().map(|meta| (place, meta))) {
                Ok(opened) => opened,
                Err(_) if !must_exist => return Ok(None),
                Err(error) => return Err(unreachable_place(path, error)),
            };
        self.allow(place.as_fd(), meta.is_dir(), rights, path)?;
        Ok(Some(RuleTarget::of(&meta)))
    }

    fn allow(
        &mut self,
        place: BorrowedFd<'_>,
        is_dir: bool,
        rights: BitFlags<AccessFs>,
        path: &Path,
    ) -> Result<(), Error> {
        let mut rights = rights & self.handled;
        if !is_dir {
            rights &= AccessFs::from_file(ABI::V9);
        }
        if rights.is_empty() {
            return Ok(());
        }
        (&mut self.created)
            .set_compatibility(CompatLevel::HardRequirement)
            .add_rule(PathBeneath::new(place, rights))
            .map_err(|error| {
                ErrorKind::Enforcement.error(format!(
                    "Landlock refused the rule for {}: {error}",
                    path.display()
                ))
            })?;
        Ok(())
    }
}

fn unreachable_place(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("could not open {}", path.display()), error)
}
