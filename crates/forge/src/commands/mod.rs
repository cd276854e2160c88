//! One file a command.

pub(crate) mod allow;
pub(crate) mod approve;
pub(crate) mod check;
pub(crate) mod clean;
pub(crate) mod config;
pub(crate) mod doctor;
mod doctor_docker;
mod doctor_git;
mod doctor_mcp;
mod doctor_model;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod help;
pub(crate) mod image;
pub(crate) mod init;
pub(crate) mod install;
pub(crate) mod log;
pub(crate) mod mcp;
pub(crate) mod node;
pub(crate) mod pages;
pub(crate) mod quarantine;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod stage;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod worker;
