//! One file or directory for each command; commands about one concept share a directory.

pub(crate) mod approve;
pub(crate) mod clean;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod image;
pub(crate) mod log;
pub(crate) mod project;
pub(crate) mod quarantine;
pub(crate) mod reference;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod stage;
