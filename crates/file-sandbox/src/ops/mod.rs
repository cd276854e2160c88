//! The operations, one file each.

mod clip;
mod collect;
mod create;
mod delete;
mod descend;
mod edit;
mod ignored;
mod lines;
mod list;
mod open;
mod put;
mod quota;
mod read;
mod relocate;
mod search;
mod stat;
mod tail;
mod tree;
mod walk;
mod write;

pub use edit::{EditOptions, Edited, Replacement};
pub use list::{Entry, EntryKind, ListOptions, Listing};
pub use open::OpenFile;
pub use read::{ReadOptions, Text, TotalChars};
pub use relocate::{MoveOptions, Moved};
pub use search::{Hit, Matches, SearchOptions};
pub use stat::Stat;
pub use walk::{Cancel, Cut, Ignored, Skipped, WalkOptions};
pub use write::{WriteOptions, Written};
