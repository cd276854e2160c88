//! The target's Landlock ruleset, made in the broker and handed over by descriptor. Rules hang on
//! inodes, so they hold for a directory under whatever name a mount namespace shows it.
//!
//! <https://docs.kernel.org/userspace-api/landlock.html>

use super::view::HostMount;
use crate::access::Access;
use crate::error::{Error, ErrorKind};
use crate::policy::{BROAD, DEVICES, ETC, Network, PROGRAMS, Policy, System, UnixSockets};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};
use nix::sys::stat::{SFlag, fstat};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// What a ruleset is made from.
pub(crate) struct Wanted<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) abi: u32,
    pub(crate) mounts: &'a [HostMount],
    /// Private places of this run that exist on the host: read, write, execute.
    pub(crate) private: &'a [&'a Path],
    /// Directories that can be listed and hold no files.
    pub(crate) listed: &'a [&'a Path],
    /// The host's own `/proc` is what the target sees.
    pub(crate) host_proc: bool,
}

/// The ruleset's descriptor.
pub(crate) fn build(wanted: &Wanted<'_>) -> Result<OwnedFd, Error> {
    let abi = abi(wanted.abi);
    let handled = handled(wanted.policy, abi);
    let refused = |error: RulesetError| {
        Error::new(
            ErrorKind::Enforcement,
            format!("Landlock refused the rules: {error}"),
        )
    };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)
        .map_err(refused)?;
    // A second lock on TCP; the first is the filter, which also sees everything else.
    if wanted.policy.network() == &Network::Denied && abi >= ABI::V4 {
        ruleset = ruleset
            .handle_access(AccessNet::from_all(ABI::V4))
            .map_err(refused)?;
    }
    if abi >= ABI::V6 {
        ruleset = ruleset.scope(Scope::from_all(ABI::V6)).map_err(refused)?;
    }
    let mut rules = Rules {
        created: ruleset.create().map_err(refused)?,
        handled,
    };

    for mount in wanted.mounts {
        let handle = mount.handle.as_fd();
        rules.add_open(
            handle,
            mount.is_dir,
            rights(wanted.policy, mount.access),
            &mount.host,
        )?;
    }
    for path in wanted.private {
        rules.add(path, rights(wanted.policy, Access::ALL), true)?;
    }
    for path in wanted.listed {
        rules.add(path, AccessFs::ReadDir.into(), true)?;
    }
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    match wanted.policy.system() {
        System::None => {}
        System::Minimal | System::BroadRead => {
            for path in PROGRAMS {
                rules.add(Path::new(path), read | AccessFs::Execute, false)?;
            }
            for path in ETC {
                rules.add(Path::new(path), read, false)?;
            }
        }
    }
    if wanted.policy.system() == System::BroadRead {
        for path in BROAD {
            rules.add(Path::new(path), read, false)?;
        }
    }
    for path in DEVICES {
        rules.add(Path::new(path), device(), false)?;
    }
    if wanted.host_proc {
        // Never write: uid 0 owns /proc/sys, whatever capabilities it has left.
        rules.add(Path::new("/proc"), read, false)?;
    }
    Option::<OwnedFd>::from(rules.created).ok_or_else(|| {
        Error::new(
            ErrorKind::Enforcement,
            "this kernel has no Landlock any more",
        )
    })
}

/// Rights for places that exist only inside the namespaces, as the kernel's bits.
pub(crate) fn inside(policy: &Policy, abi_number: u32, links: bool) -> Vec<(u64, Vec<u8>)> {
    let abi = abi(abi_number);
    let handled = handled(policy, abi);
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let all = rights(policy, Access::ALL);
    let mut out: Vec<(BitFlags<AccessFs>, &str)> = vec![
        (read, "/proc"),
        (AccessFs::ReadDir.into(), "/dev"),
        (read | AccessFs::WriteFile | AccessFs::IoctlDev, "/dev/pts"),
        (all, "/dev/shm"),
        (all, "/tmp"),
        (all, super::bwrap::HOME),
    ];
    match policy.system() {
        System::None => {}
        // Its passwd and group are our own files; everything else in it is there by list.
        System::Minimal => out.push((read, "/etc")),
        System::BroadRead => {}
    }
    if links {
        out.push((AccessFs::ReadDir.into(), "/work"));
    }
    // Listing / means listing everything below it, which must be readable for that.
    if policy
        .mounts()
        .iter()
        .all(|mount| mount.access().contains(Access::READ))
    {
        out.push((AccessFs::ReadDir.into(), "/"));
    }
    out.into_iter()
        .map(|(rights, path)| ((rights & handled).bits(), path.as_bytes().to_vec()))
        .collect()
}

fn abi(number: u32) -> ABI {
    ABI::from(i32::try_from(number).unwrap_or(i32::MAX))
}

fn handled(policy: &Policy, abi: ABI) -> BitFlags<AccessFs> {
    let all = AccessFs::from_all(abi);
    match policy.unix_sockets() {
        // Named ones are connected by somebody else.
        UnixSockets::Closed | UnixSockets::Named(_) => all,
        UnixSockets::Open => all & !BitFlags::from(AccessFs::ResolveUnix),
    }
}

/// What a mount's access is in the kernel's words. No device nodes can be made or spoken to in
/// any mount, and no sockets unless they are open.
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
            UnixSockets::Named(_) | UnixSockets::Open => out |= AccessFs::MakeSock,
        }
    }
    out
}

fn device() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev})
}

struct Rules {
    created: RulesetCreated,
    handled: BitFlags<AccessFs>,
}

impl Rules {
    /// Opens the system's own paths leniently (not every host has them all), mounts strictly.
    fn add(
        &mut self,
        path: &Path,
        rights: BitFlags<AccessFs>,
        must_exist: bool,
    ) -> Result<(), Error> {
        let fd = match PathFd::new(path) {
            Ok(fd) => fd,
            Err(_) if !must_exist => return Ok(()),
            Err(error) => {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!("could not open {}: {error}", path.display()),
                ));
            }
        };
        let kind = fstat(&fd).map(|stat| stat.st_mode & SFlag::S_IFMT.bits());
        let is_dir = kind == Ok(SFlag::S_IFDIR.bits());
        self.add_open(fd.as_fd(), is_dir, rights, path)
    }

    fn add_open(
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
                Error::new(
                    ErrorKind::Enforcement,
                    format!("Landlock refused the rule for {}: {error}", path.display()),
                )
            })?;
        Ok(())
    }
}
