//! Named hosts for confined programs.

mod pattern;

pub use pattern::{HostError, HostPattern};
