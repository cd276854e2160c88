//! The operations, one file each.

mod create;
mod delete;
mod list;
mod put;
mod quota;
mod read;
mod relocate;
mod stat;
mod tree;
mod write;

pub use list::{Entry, EntryKind, ListOptions, Listing, Skipped};
pub use read::{ReadOptions, Text, TotalChars};
pub use relocate::{MoveOptions, Moved};
pub use stat::Stat;
pub use write::{WriteOptions, Written};
