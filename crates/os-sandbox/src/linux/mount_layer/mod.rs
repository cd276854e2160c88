//! Mount layers: what bubblewrap and container engines mount, and in which order.

pub(super) mod bwrap;
pub(super) mod inside_paths;
pub(super) mod layout;
pub(super) mod users;
