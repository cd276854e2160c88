//! Files that another command of the user's may have written, which runs now.

use std::fs::Metadata;
use std::path::PathBuf;

/// A command that may have made, changed or removed a file ([`find_possible_writer`]).
///
/// [`find_possible_writer`]: crate::find_possible_writer
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PossibleWriter {
    /// The process that started the command, if its record says so.
    pub process: Option<u32>,
    /// The directory of the host that the command may change.
    pub mount: PathBuf,
}

/// How a program found a file about which it asks.
#[derive(Clone, Copy, Debug)]
pub enum FoundFile<'f> {
    /// It read this content of the open file.
    Content(&'f Metadata, &'f [u8]),
    /// It looks at the name only.
    Name,
    /// There is none of the name.
    Absent,
}
