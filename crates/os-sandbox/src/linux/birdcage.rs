//! Composes what birdcage is told, and tries it.
//!
//! birdcage is a library under the GPL that confines its caller. So it is a program of its own that
//! calls it (the crate os-sandbox-birdcage), which the launcher becomes as it becomes bubblewrap; what
//! it starts inside is the launcher again. birdcage makes a user, mount, pid, IPC and network
//! namespace, shows nothing but what is listed here, each thing at the host's own path, mounts a
//! new /proc, and adds a system call filter that lets ours and Landlock pass.
//!
//! What it does not do is said by the plan: it covers nothing, brings no loopback up, and leaves
//! /proc/sys to uid 0. It goes to each place by path, so the first process inside looks at what is
//! there, as it does after an old bubblewrap (`launcher/namespaces/pins.rs`).
//!
//! <https://docs.rs/birdcage>

use super::guards::names::ScanResult;
use super::host_mount::HostMount;
use super::mount_layer::root::access_of;
use super::start::message::Pin;
use super::wire;
use crate::access::Access;
use crate::birdcage::{BirdcageJob, MAX_BYTES, Right};
use crate::error::{Error, ErrorKind};
use crate::policy::{BROAD, DEVICES, ETC, Network, PROGRAMS, Policy, System};

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The job for birdcage, and the files that the first process inside verifies.
pub(crate) struct BirdcageSetup {
    pub(crate) job: Vec<u8>,
    pub(crate) pins: Vec<Pin>,
}

/// Visible paths with their access and, if it is verified, device and inode.
type VisiblePaths = BTreeMap<PathBuf, (Access, Option<(u64, u64)>)>;

/// `private` are directories of this run that can be written, `listed` one that can be listed.
pub(crate) fn compose(
    policy: &Policy,
    mounts: &[HostMount],
    names: &[ScanResult],
    private: &[PathBuf],
    listed: &Path,
) -> Result<BirdcageSetup, Error> {
    let mut shown = VisiblePaths::new();
    system(&mut shown, policy.system());
    let programs = policy.programs().iter().map(|one| one.host());
    for path in programs.filter(|path| path.exists()) {
        let access = Access::READ.union(Access::EXECUTE);
        shown.insert(path.to_owned(), (access, None));
    }
    for path in private {
        shown.insert(path.clone(), (Access::ALL, None));
    }
    shown.insert(listed.to_owned(), (Access::READ, None));
    for mount in mounts {
        let identity = mount.identity()?;
        shown.insert(mount.host.clone(), (mount.access, Some(identity)));
        for outer in mounts {
            if let Ok(rest) = mount.host.strip_prefix(&outer.host)
                && !rest.as_os_str().is_empty()
            {
                hold_way(&mut shown, mounts, outer, rest)?;
            }
        }
    }
    for (mount, names) in mounts.iter().zip(names) {
        let sealed = names.sealed();
        for found in &names.found {
            let host = mount.host.join(&found.below);
            let access = access_of(mounts, &host);
            if !access.contains(Access::WRITE) {
                continue;
            }
            let identity = mount.identity_below(&found.below)?;
            let kept = access.intersection(Access::READ.union(Access::EXECUTE));
            shown.insert(host, (kept, Some(identity)));
            if !found.is_in(&sealed) {
                hold_way(&mut shown, mounts, mount, &found.below)?;
            }
        }
    }

    let host_network = *policy.network() == Network::Unrestricted;
    setup(shown, host_network)
}

/// Returns the job and the pins for the visible paths.
fn setup(shown: VisiblePaths, host_network: bool) -> Result<BirdcageSetup, Error> {
    let mut job = BirdcageJob {
        host_network,
        exceptions: Vec::new(),
    };
    let mut pins = Vec::new();
    for (path, (access, identity)) in shown {
        // Nothing is less than reading.
        job.exceptions.push((Right::Read, path.clone()));
        for (part, right) in [
            (Access::WRITE, Right::Write),
            (Access::EXECUTE, Right::Execute),
        ] {
            if access.contains(part) {
                job.exceptions.push((right, path.clone()));
            }
        }
        if let Some(identity) = identity {
            pins.push(Pin {
                how: wire::PIN_LOOK,
                identity,
                path: path.as_os_str().as_bytes().to_vec(),
            });
        }
    }
    let job = job.bytes();
    if job.len() as u64 > MAX_BYTES {
        return Err(ErrorKind::Limit.error("too many mounts and protected names for birdcage"));
    }
    Ok(BirdcageSetup { job, pins })
}

/// Adds the paths of the system profile that exist; birdcage fails on a missing one.
fn system(shown: &mut VisiblePaths, system: System) {
    let mut show = |paths: &[&str], access: Access| {
        for path in paths.iter().map(Path::new).filter(|path| path.exists()) {
            shown.insert(path.to_owned(), (access, None));
        }
    };
    // A device on a read-only mount can be written to all the same, and its mode cannot be changed.
    show(&DEVICES, Access::READ);
    match system {
        System::None => return,
        System::Minimal => {}
        System::BroadRead => show(&BROAD, Access::READ),
    }
    show(&PROGRAMS, Access::READ.union(Access::EXECUTE));
    show(&ETC, Access::READ);
}

/// Makes each directory on the way to a part of a mount a mount too, so that it cannot be moved
/// aside with everything in it.
fn hold_way(
    shown: &mut VisiblePaths,
    mounts: &[HostMount],
    mount: &HostMount,
    below: &Path,
) -> Result<(), Error> {
    for ancestor in below.ancestors().skip(1) {
        let host = mount.host.join(ancestor);
        let access = access_of(mounts, &host);
        if ancestor.as_os_str().is_empty()
            || !access.contains(Access::WRITE)
            || shown.contains_key(&host)
        {
            continue;
        }
        let identity = mount.identity_below(ancestor)?;
        shown.insert(host, (access, Some(identity)));
    }
    Ok(())
}

#[cfg(feature = "birdcage")]
pub(crate) use looked_for::birdcage;

#[cfg(feature = "birdcage")]
mod looked_for {
    use crate::backend::Backend;
    use crate::platform::detect::probe;
    use crate::support::{Availability, Support};
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    const PROGRAM: &str = "os-sandbox-birdcage";

    /// The program, if a probe that it started was confined.
    pub(crate) fn birdcage(support: &Support, program: Option<&Path>) -> Availability<PathBuf> {
        let beside = || Some(std::env::current_exe().ok()?.parent()?.join(PROGRAM));
        let found = program.map(Path::to_owned).or_else(beside);
        let Some(path) = found.and_then(|path| std::fs::canonicalize(path).ok()) else {
            return Availability::missing(
                format!("{PROGRAM} is not there"),
                "build os-sandbox with the feature birdcage, and name the program",
            );
        };
        let mode = std::fs::metadata(&path).map_or(0, |meta| meta.permissions().mode());
        if mode & 0o6000 != 0 {
            return Availability::missing(
                format!("{} is set-user-id, which is not used", path.display()),
                "",
            );
        }
        let mut with = support.clone();
        with.birdcage = Some(Availability::Works(path.clone()));
        match probe(&with, Backend::Birdcage) {
            Ok(()) => Availability::Works(path),
            Err(unproven) => Availability::missing(
                format!("{} does not work: {}", path.display(), unproven.reason()),
                "it needs user namespaces and a /proc that nothing covers",
            ),
        }
    }
}
