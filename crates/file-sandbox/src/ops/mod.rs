//! The operations, one file each.

mod delete;
mod list;
mod read;
mod stat;
mod write;

pub use list::{Entry, EntryKind, ListOptions, Listing, Skipped};
pub use read::{ReadOptions, Text, TotalChars};
pub use stat::Stat;
pub use write::{WriteOptions, Written};
