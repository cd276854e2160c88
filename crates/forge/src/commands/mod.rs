//! One file or directory for each command; commands about one concept share a directory.

mod active_commands;
pub(crate) mod approve;
pub(crate) mod clean;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod image;
pub(crate) mod log;
mod prelude;
pub(crate) mod preset;
pub(crate) mod project;
pub(crate) mod quarantine;
pub(crate) mod reference;
#[cfg(target_os = "linux")]
pub(crate) mod review;
#[cfg(not(target_os = "linux"))]
#[path = "review_unsupported.rs"]
pub(crate) mod review;
pub(crate) mod review_subject;
#[cfg(target_os = "linux")]
pub(crate) mod reviewed;
#[cfg(not(target_os = "linux"))]
#[path = "reviewed_unsupported.rs"]
pub(crate) mod reviewed;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod stage;
