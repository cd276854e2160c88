//! From bytes to a tree in which every node knows its place, and the typed reads that report every
//! mistake at once.

pub(crate) mod complaint;
pub(crate) mod diagnostic;
pub(crate) mod fields;
pub(crate) mod foreign;
pub(crate) mod keys;
pub(crate) mod read;
pub(crate) mod shown;
pub(crate) mod text;
pub(crate) mod yaml;
