//! The operations, one file each.

mod append;
mod atomic_write;
#[cfg(all(test, feature = "search", feature = "edit", feature = "encodings"))]
mod cancelled;
#[cfg(feature = "search")]
mod clip;
mod collect;
mod create;
mod delete;
mod descend;
#[cfg(feature = "edit")]
mod edit;
mod file_hash;
#[cfg_attr(not(feature = "search"), path = "no_ignore_rules.rs")]
mod ignored;
#[cfg(feature = "search")]
mod lines;
mod list;
mod list_window;
mod listing;
mod lock;
mod open;
mod quota;
mod read;
mod relocate;
#[cfg(feature = "search")]
mod search;
mod stat;
mod tail;
mod tree;
mod walk;
mod walk_options;
mod write;

pub use append::{AppendOptions, AppendOutcome};
pub use delete::DeleteOptions;
#[cfg(feature = "edit")]
pub use edit::{EditOptions, EditOutcome, Replacement};
pub use list::ListOptions;
pub use list_window::ListKinds;
pub use listing::{EntryKind, IgnoredEntries, ListEntry, Listing, SkippedEntry, TruncationReason};
pub use open::OpenFile;
pub use read::{ReadOptions, TextSlice, TotalChars};
pub use relocate::{MoveOptions, MoveOutcome};
#[cfg(feature = "search")]
pub use search::{SearchHit, SearchOptions, SearchResults};
pub use stat::Stat;
pub use walk_options::WalkOptions;
pub use write::{WriteOptions, WriteOutcome};
