//! The operations, one file each.

mod delete;
mod file_hash;
mod read;
mod relocate;
#[cfg(feature = "search")]
mod search;
mod stat;
#[cfg(all(test, feature = "search", feature = "edit", feature = "encodings"))]
mod tests {
    mod cancelled;
}
mod tree_visitor;
mod walk;
mod write;

pub use delete::DeleteOptions;
pub use read::open::OpenFile;
pub use read::{ReadOptions, TextSlice, TotalChars};
pub use relocate::{MoveOptions, MoveOutcome};
#[cfg(feature = "search")]
pub use search::{SearchHit, SearchOptions, SearchResults};
pub use stat::Stat;
pub use walk::list::ListOptions;
pub use walk::list_window::ListKinds;
pub use walk::listing::{
    EntryKind, IgnoredEntries, ListEntry, Listing, SkippedEntry, TruncationReason,
};
pub use walk::options::WalkOptions;
pub use write::append::{AppendOptions, AppendOutcome};
#[cfg(feature = "edit")]
pub use write::edit::{EditOptions, EditOutcome, MAX_EDITED_BYTES, Replacement};
pub use write::{WriteOptions, WriteOutcome};
