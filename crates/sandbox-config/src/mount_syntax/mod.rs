//! The front-ends: how project files name the directories they give. All lower to rows of one mount
//! table; the front-end decides the words of messages and the access of a called worker without a
//! declaration.

pub(crate) mod choose;
pub(crate) mod file_rules;
mod mount_table;
pub(crate) mod mounts;
pub(crate) mod named;
mod path_lists;
pub(crate) mod path_scope;
pub(crate) mod paths;
mod root;
mod zones;
