//! The operations, one file each.

mod append;
mod atomic_write;
#[cfg(test)]
mod cancelled;
mod clip;
mod collect;
mod create;
mod delete;
mod descend;
mod edit;
mod ignored;
mod lines;
mod list;
mod lock;
mod open;
mod quota;
mod read;
mod relocate;
mod search;
mod stat;
mod tail;
mod tree;
mod walk;
mod write;

pub use append::{AppendOptions, Appended};
pub use delete::DeleteOptions;
pub use edit::{EditOptions, Edited, Replacement};
pub use list::{Entry, EntryKind, ListKinds, ListOptions, Listing};
pub use open::OpenFile;
pub use read::{ReadOptions, Text, TotalChars};
pub use relocate::{MoveOptions, Moved};
pub use search::{Hit, Matches, SearchOptions};
pub use stat::Stat;
pub use walk::{Cancel, Cut, Ignored, Skipped, WalkOptions};
pub use write::{WriteOptions, Written};
