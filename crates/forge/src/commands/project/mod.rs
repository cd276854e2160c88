//! Commands that write, check, explain and trust the configuration of a project.

pub(crate) mod allow;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod explain;
pub(crate) mod init;
mod offers;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod worker;
