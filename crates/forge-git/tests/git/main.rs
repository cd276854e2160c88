//! Git, from outside: one suite for every place that holds repositories.
#![expect(clippy::unwrap_used, reason = "tests; helpers are not seen as such")]

mod again;
#[path = "../../../forge-tools/tests/it/argument_samples.rs"]
mod argument_samples;
mod asked;
// Commands are confined on Linux only, so far.
#[cfg(target_os = "linux")]
mod cache;
#[cfg(target_os = "linux")]
mod credentials;
mod granted;
#[cfg(target_os = "linux")]
mod hostile;
#[cfg(target_os = "linux")]
mod hostile_server;
#[cfg(target_os = "linux")]
mod hostile_trees;
#[cfg(target_os = "linux")]
mod losses;
mod memory;
#[cfg(target_os = "linux")]
mod program;
mod properties;
mod pulling;
mod rebase;
mod refusals;
#[cfg(target_os = "linux")]
mod remote;
mod secrets;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod sshd;
mod status;
mod staying;
mod suite;
mod tools;
mod world;
