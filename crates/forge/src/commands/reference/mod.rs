//! Commands that print pages about forge itself.

pub(crate) mod help;
pub(crate) mod pages;
pub(crate) mod schema;
