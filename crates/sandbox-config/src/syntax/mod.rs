//! From bytes to a tree in which every node knows its place, and the typed reads that report every
//! mistake at once.

pub(crate) mod diagnostic;
pub(crate) mod escape;
pub(crate) mod fields;
pub(crate) mod key_table;
pub(crate) mod other_tools;
pub(crate) mod read;
pub(crate) mod section;
pub(crate) mod text;
pub(crate) mod word;
pub(crate) mod yaml;
pub(crate) mod yaml_errors;
