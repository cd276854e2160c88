//! One file a command.

pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod init;
pub(crate) mod mcp;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod tools;
pub(crate) mod trust;
