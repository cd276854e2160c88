//! Where commands see a mount. They see the names that file tools use, from their working directory:
//! a mount at `/` is that directory, `/work`, and others stand in it by name. Of a part whose whole
//! is not held only the way down is there: below `/work` if the whole would be `/`, else below the
//! whole's own name.

use crate::grant::Grant;
use crate::grant::mount::{Mount, RESERVED};

/// The name of a mount in the policy for commands.
pub(crate) fn shown_at(grant: &Grant, mount: &Mount) -> String {
    let usable = || grant.mounts().filter(|other| other.usable());
    // With `/` everything below it is a part of the working directory.
    if usable().any(|other| other.target == "/") {
        return mount.target.clone();
    }
    let below_root = is_below_root(mount)
        || usable().any(|outer| mount.is_part_of(outer) && is_below_root(outer));
    if below_root {
        format!("/work{}", mount.target)
    } else {
        mount.target.clone()
    }
}

/// Whether it lies in what is `/`, for whoever sees it, by name.
fn is_below_root(mount: &Mount) -> bool {
    let names: Vec<&str> = mount.target.split('/').skip(1).collect();
    // Nobody can declare such a mount, but a directory in `/` may have that name.
    let reserved = names.first().is_some_and(|name| RESERVED.contains(name));
    let part: Vec<&str> = mount.part_names().collect();
    reserved || part.ends_with(&names)
}
