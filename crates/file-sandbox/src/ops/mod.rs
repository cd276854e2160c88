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
mod file_hash;
mod ignored;
mod lines;
mod list;
mod list_window;
mod listing;
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
mod walk_options;
mod write;

pub use append::{AppendOptions, AppendOutcome};
pub use delete::DeleteOptions;
pub use edit::{EditOptions, EditOutcome, Replacement};
pub use list::ListOptions;
pub use list_window::ListKinds;
pub use listing::{EntryKind, IgnoredEntries, ListEntry, Listing, SkippedEntry, TruncationReason};
pub use open::OpenFile;
pub use read::{ReadOptions, TextSlice, TotalChars};
pub use relocate::{MoveOptions, MoveOutcome};
pub use search::{SearchHit, SearchOptions, SearchResults};
pub use stat::Stat;
pub use walk_options::WalkOptions;
pub use write::{WriteOptions, WriteOutcome};
