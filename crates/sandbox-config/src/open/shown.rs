//! The path of a mount in commands. They see the names that file tools use, from their working
//! directory: a mount at `/` is that directory, `/work`, and others are in it by name. Of a part
//! whose whole is not held only the way down exists: below `/work` if the whole would be `/`, else
//! below the whole's own name.
//!
//! A mount of another directory covers a directory of the outer mount, wherever that is seen. Below
//! a mount at `/` that has no directory of that name nothing is covered, and commands see the mount
//! by its own name, `/cache`, only.

use std::path::Path;

use sandbox_names::SYSTEM_DIRECTORIES;

use crate::grant::Grant;
use crate::grant::mount::Mount;
use crate::grant::verdict::{Operation, Verdict};

/// Returns `true` if commands see the mount. A command that sees a file can print it, so a
/// mount whose `read` is blocked is left out like one that is only held.
pub(crate) fn is_shown(mount: &Mount) -> bool {
    mount.usable() && mount.approval().verdict(Operation::Read) != Verdict::Block
}

/// The name of a mount in the policy for commands.
pub(crate) fn shown_at(grant: &Grant, mount: &Mount) -> String {
    let shown = || grant.mounts().filter(|other| is_shown(other));
    // With `/` everything below it is a part of the working directory.
    if shown().any(|other| other.target == "/") {
        return match covers_place_in(grant, mount) {
            Some(_) => format!("/work{}", mount.target),
            None => mount.target.clone(),
        };
    }
    let below_root = is_below_root(mount)
        || shown().any(|outer| mount.is_nested_in(outer) && is_below_root(outer));
    if below_root {
        format!("/work{}", mount.target)
    } else {
        mount.target.clone()
    }
}

/// The name of a place of a mount in the policy for commands, which `inner` has for file tools.
pub(crate) fn below(grant: &Grant, mount: &Mount, inner: &Mount) -> String {
    let outer = shown_at(grant, mount);
    format!("{}/{}", outer.trim_end_matches('/'), inner.way_in(mount))
}

/// The mount around a nested mount of another directory, where commands see one in the other.
pub(crate) fn covers_place_in<'g>(grant: &'g Grant, mount: &Mount) -> Option<&'g Mount> {
    let outer = grant
        .mounts()
        .filter(|outer| is_shown(outer) && mount.is_nested_in(outer))
        .max_by_key(|outer| outer.target.len())?;
    if mount.is_part_of(outer) {
        return None;
    }
    let name = mount.target.trim_start_matches('/');
    let own_name = outer.target == "/"
        && !name.contains('/')
        && !SYSTEM_DIRECTORIES.contains(&&*name.to_lowercase());
    let covered = is_directory(&outer.host().join(mount.way_in(outer)));
    (covered || !own_name).then_some(outer)
}

/// Returns `true` if the path is a directory, and not a link to one.
pub(crate) fn is_directory(place: &Path) -> bool {
    std::fs::symlink_metadata(place).is_ok_and(|found| found.is_dir())
}

/// Returns `true` if a worker sees it inside the mount at `/`, by name.
fn is_below_root(mount: &Mount) -> bool {
    let names: Vec<&str> = mount.target.split('/').skip(1).collect();
    // No project can declare such a mount, but a directory in `/` may have that name.
    let reserved = names
        .first()
        .is_some_and(|name| SYSTEM_DIRECTORIES.contains(name));
    let part: Vec<&str> = mount.part_names().collect();
    reserved || part.ends_with(&names)
}
