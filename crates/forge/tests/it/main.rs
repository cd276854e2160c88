//! The program from outside: arguments in; exit code, standard output and standard
//! error out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[cfg(target_os = "linux")]
mod agents;
mod allow;
mod alone;
mod approve;
mod check;
mod clean;
mod cli;
mod completion;
mod config;
#[cfg(target_os = "linux")]
mod confined;
#[cfg(target_os = "linux")]
mod containers;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "the tests of another crate use all of it")]
#[path = "../../../os-sandbox-docker/tests/docker/daemon.rs"]
mod daemon;
mod doctor_model;
mod explain;
mod git;
mod help;
#[cfg(target_os = "linux")]
mod host_connections;
#[cfg(target_os = "linux")]
mod image;
mod init;
mod install;
#[cfg(target_os = "linux")]
mod interrupted;
mod json;
mod log;
#[cfg(target_os = "linux")]
mod messages;
#[cfg(target_os = "linux")]
mod named_hosts;
mod node;
mod own_dirs;
mod playbooks;
#[path = "../../../forge-mcp/tests/it/protocol.rs"]
mod protocol;
mod provider_keys;
mod published;
mod reload;
mod resume;
#[cfg(target_os = "linux")]
mod review;
mod root_approval;
mod run_ends;
mod run_flags;
mod schema;
mod settings;
mod stage;
mod support;
#[cfg(target_os = "linux")]
mod terminal;
mod two_servers;
mod vendor;
mod visible;
mod wire;
mod worker;
mod worker_tools;
mod workspaces;
