//! Mounts inside mounts: protected and hidden names, the directories on the way to them, parts of a
//! mount with an access of their own, and other directories in the place of one in a mount.
//!
//! They are in trees that a target may write, perhaps one that runs right now. bubblewrap resolves
//! such a place by its path and, before 0.12, creates the missing parts of it. Another process can
//! then put in a link at the right moment, and bubblewrap creates a file outside (CVE-2026-87766).
//! So bubblewrap only makes the mounts of its own root, and the launcher makes the others: in a
//! mount namespace of its own, with the rights that a nested user namespace gives it, it opens each
//! place once without following any link, compares it with the identity that the broker saw, and
//! from then on refers to it by descriptor. The launcher never creates anything.
//!
//! Mounts that come from bubblewrap's namespace are locked in the launcher's: the launcher can make
//! them stricter, and cannot remove them. If the launcher made all mounts (`root.rs`), it makes these
//! in that namespace. The target has no capability in any of the namespaces.

use crate::job::{Pin, Run};
use crate::namespaces;
use crate::sys::{self, CStr, mounts};
use crate::wire;
use crate::{Failure, at};

pub fn make(run: &Run<'_>) -> Result<(), Failure> {
    let changed = at(wire::STAGE_PIN);
    let Some(root) = own_namespaces(run).map_err(at(wire::STAGE_MOUNTS))? else {
        return run
            .pins()
            .try_for_each(|pin| look_by_path(&pin))
            .map_err(&changed);
    };
    let mut maker = Maker {
        root,
        masks: [None; 4],
    };
    maker.cover(run)?;
    // The launcher copies these mounts first, while the surrounding mounts still have the access
    // that bubblewrap gave them.
    let copies = sys::words(own_access(run).count()).map_err(at(wire::STAGE_MOUNTS))?;
    for (pin, copy) in own_access(run).zip(copies.iter_mut()) {
        let place = maker.open(&pin)?;
        *copy = copy_of(&pin, place)? as usize;
        sys::close(place);
    }
    for pin in run.pins().filter(|pin| pin.how == wire::PIN_SEAL) {
        let place = maker.open(&pin)?;
        mounts::make_read_only(place).map_err(at(wire::STAGE_MOUNTS))?;
        sys::close(place);
    }
    let mut copies = copies.iter().map(|copy| *copy as i32);
    for pin in run.pins() {
        maker.hold(&pin, &mut copies)?;
    }
    // A link of a moment ago can be a directory now, so the launcher verifies every place once
    // more.
    for pin in run.pins().filter(|pin| !is_covering(pin)) {
        mounts::open_beneath(root, pin.path)
            .and_then(|place| look(&pin, place))
            .map_err(&changed)?;
    }
    maker.close();
    Ok(())
}

/// `true` for the pins of [`Maker::cover`], whose places are not visible afterwards.
fn is_covering(pin: &Pin<'_>) -> bool {
    matches!(pin.how, wire::PIN_ASIDE | wire::PIN_COVERED)
}

fn own_access<'a>(run: &Run<'a>) -> impl Iterator<Item = Pin<'a>> {
    run.pins().filter(|pin| pin.how & wire::PIN_MOUNT != 0)
}

/// Creates namespaces for the launcher, unless the present ones are its own, and returns their root;
/// `None` if every pin only has to be verified.
fn own_namespaces(run: &Run<'_>) -> sys::Result<Option<i32>> {
    if run.pins().all(|pin| pin.how == wire::PIN_LOOK) {
        return Ok(None);
    }
    if !run.has(wire::FLAG_OWN_MOUNTS) {
        let (user, group) = mounts::ids();
        mounts::new_namespaces()?;
        namespaces::map_ids(user, group)?;
    }
    let root = CStr::new(b"/\0").ok_or(sys::EINVAL)?;
    let root = sys::open(root, sys::O_PATH | sys::O_CLOEXEC, 0)?;
    mounts::make_private(root)?;
    Ok(Some(root))
}

struct Maker {
    root: i32,
    /// The mounts over hidden names, by the kind of the pin. Each is attached once, and copied from
    /// then on.
    masks: [Option<i32>; 4],
}

impl Maker {
    /// Opens the place of a pin; fails with ESTALE if the broker saw another file there.
    fn open(&self, pin: &Pin<'_>) -> Result<i32, Failure> {
        let changed = at(wire::STAGE_PIN);
        let place = mounts::open_beneath(self.root, pin.path).map_err(|errno| match errno {
            // The kernel does not have this call, or a filter denies it.
            sys::ENOSYS | sys::EPERM => (wire::STAGE_MOUNTS, errno),
            errno => changed(errno),
        })?;
        let (device, inode, _) = sys::identity(place).map_err(&changed)?;
        match is(pin, device, inode) {
            true => Ok(place),
            false => Err(changed(sys::ESTALE)),
        }
    }

    /// Mounts other directories over those that they cover, outer ones first, and then closes the
    /// directory in which bubblewrap mounted them.
    fn cover(&mut self, run: &Run<'_>) -> Result<(), Failure> {
        let failed = at(wire::STAGE_MOUNTS);
        let mut aside: Option<i32> = None;
        for pin in run.pins().filter(is_covering) {
            let place = self.open(&pin)?;
            match (pin.how, aside.take()) {
                (wire::PIN_ASIDE, None) => {
                    aside = Some(mounts::copy_tree(place).map_err(&failed)?);
                }
                (wire::PIN_COVERED, Some(mount)) => {
                    mounts::attach(mount, place).map_err(&failed)?;
                    sys::close(mount);
                }
                _ => return Err((wire::STAGE_PROTOCOL, sys::EPROTO)),
            }
            sys::close(place);
        }
        if run.pins().any(|pin| is_covering(&pin)) {
            let path = CStr::new(wire::ASIDE).ok_or(failed(sys::EINVAL))?;
            let place = mounts::open_beneath(self.root, path).map_err(&failed)?;
            let closed = self.mask(wire::PIN_CLOSED_DIRECTORY)?;
            mounts::attach(closed, place).map_err(&failed)?;
            sys::close(place);
        }
        Ok(())
    }

    /// Mounts one pin. The surrounding mounts exist by now, so this opens even the place of a
    /// copied mount again.
    fn hold(
        &mut self,
        pin: &Pin<'_>,
        copies: &mut impl Iterator<Item = i32>,
    ) -> Result<(), Failure> {
        let protocol = (wire::STAGE_PROTOCOL, sys::EPROTO);
        let how = pin.how & !wire::PIN_MOUNT;
        if matches!(how, wire::PIN_LOOK | wire::PIN_SEAL) || is_covering(pin) {
            return Ok(());
        }
        let place = self.open(pin)?;
        let mount = match how {
            wire::PIN_READ_ONLY | wire::PIN_IN_PLACE if pin.how == how => copy_of(pin, place)?,
            wire::PIN_READ_ONLY | wire::PIN_IN_PLACE => copies.next().ok_or(protocol)?,
            how if is_mask(how) => self.mask(how)?,
            _ => return Err(protocol),
        };
        mounts::attach(mount, place).map_err(at(wire::STAGE_MOUNTS))?;
        sys::close(place);
        if !self.masks.contains(&Some(mount)) {
            sys::close(mount);
        }
        Ok(())
    }

    /// Returns a mount for the place of a hidden name.
    fn mask(&mut self, how: u64) -> Result<i32, Failure> {
        let failed = at(wire::STAGE_MOUNTS);
        let place = how.wrapping_sub(wire::PIN_CLOSED_DIRECTORY) as usize;
        let kept = self.masks.get(place).copied().flatten();
        let new = match (kept, how) {
            (Some(first), _) => return mounts::copy_tree(first).map_err(failed),
            (None, wire::PIN_CLOSED_DIRECTORY) => mounts::empty_directory(c"0"),
            (None, wire::PIN_EMPTY_DIRECTORY) => mounts::empty_directory(c"555"),
            (None, wire::PIN_DANGLING_LINK) => CStr::new(wire::HIDDEN_LINK_TARGET)
                .ok_or(sys::EINVAL)
                .and_then(mounts::link),
            (None, wire::PIN_CLOSED_FILE) => closed_file(self.root),
            (None, _) => Err(sys::EPROTO),
        }
        .map_err(failed)?;
        if let Some(kept) = self.masks.get_mut(place) {
            *kept = Some(new);
        }
        Ok(new)
    }

    fn close(self) {
        for open in self.masks.into_iter().flatten().chain([self.root]) {
            sys::close(open);
        }
    }
}

/// Returns a device file in a mount that forbids devices: no process can open it, whatever its
/// privileges.
fn closed_file(root: i32) -> sys::Result<i32> {
    let path = CStr::new(b"/dev/null\0").ok_or(sys::EINVAL)?;
    let null = mounts::open_beneath(root, path)?;
    let copy = mounts::copy_tree(null)?;
    sys::close(null);
    mounts::make_read_only(copy)?;
    Ok(copy)
}

/// `true` for the pins of hidden names.
fn is_mask(how: u64) -> bool {
    (wire::PIN_CLOSED_DIRECTORY..=wire::PIN_EMPTY_DIRECTORY).contains(&how)
}

/// Returns a copy of the mounts at a place, with the pin's own access.
fn copy_of(pin: &Pin<'_>, place: i32) -> Result<i32, Failure> {
    let failed = at(wire::STAGE_MOUNTS);
    let copy = mounts::copy_tree(place).map_err(&failed)?;
    if pin.how & !wire::PIN_MOUNT == wire::PIN_READ_ONLY {
        mounts::make_read_only(copy).map_err(&failed)?;
    }
    Ok(copy)
}

/// Returns `true` if a part of a mount does not have the access of the policy any more. A process
/// in another namespace destroys a mount when it renames a file over its mount point, or removes
/// the mount point. A place that cannot be examined counts as lost.
pub fn is_part_lost(run: &Run<'_>) -> bool {
    let part = |pin: &Pin<'_>| !matches!(pin.how, wire::PIN_READ_ONLY | wire::PIN_IN_PLACE);
    run.pins()
        .filter(|pin| part(pin) && !is_covering(pin))
        .any(|pin| look_by_path(&pin).is_err())
}

/// Verifies a mount that bubblewrap made. Between the broker's scan of a tree and that mount,
/// another target may have exchanged a directory for a link: the place must be a mount of exactly
/// that file.
fn look_by_path(pin: &Pin<'_>) -> sys::Result<()> {
    let place = sys::open(pin.path, sys::O_PATH | sys::O_CLOEXEC | sys::O_NOFOLLOW, 0)?;
    look(pin, place)
}

fn look(pin: &Pin<'_>, place: i32) -> sys::Result<()> {
    let found = sys::identity(place);
    sys::close(place);
    let (device, inode, mount_root) = found?;
    match mount_root {
        false => Err(sys::EXDEV),
        true if is_mask(pin.how) || is(pin, device, inode) => Ok(()),
        true => Err(sys::ESTALE),
    }
}

fn is(pin: &Pin<'_>, device: u64, inode: u64) -> bool {
    match pin.identity {
        (_, 0) => true,
        (wire::DEVICE_OF_OVERLAY, of_lower) => of_lower == inode,
        identity => identity == (device, inode),
    }
}
