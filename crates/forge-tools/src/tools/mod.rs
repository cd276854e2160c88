//! The tools themselves, one file each: what it says of itself, what a call would
//! touch, what it does.

mod delete_file;
mod list_files;
mod read_file;
#[cfg(feature = "process")]
mod shell;
mod write_file;

pub use delete_file::{DeleteFile, delete_file};
pub use list_files::{ListFiles, list_files};
pub use read_file::{ReadFile, read_file};
#[cfg(feature = "process")]
pub use shell::{Shell, shell};
pub use write_file::{WriteFile, write_file};

use crate::tool::Tool;

/// The parameter that every file tool shares.
const PATH: &str = "Path of the file. Use list_files with path \"/\" to see what there is.";

/// The tools of a worker that holds files, in the order they are listed.
pub(crate) fn file_tools() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(delete_file()),
        Box::new(list_files()),
        Box::new(read_file()),
        Box::new(write_file()),
    ]
}
