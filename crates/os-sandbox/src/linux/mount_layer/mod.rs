//! Mount layers: the mounts that bubblewrap and container engines make, and their order.

mod absent;
pub(super) mod bwrap;
pub(super) mod inside_paths;
pub(super) mod layout;
pub(super) mod root;
pub(super) mod users;
