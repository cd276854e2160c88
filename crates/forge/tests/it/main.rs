//! The program from outside: arguments in; exit code, standard output and standard
//! error out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cli;
mod support;

// Commands are confined on Linux only, so far.
#[cfg(target_os = "linux")]
mod example;
#[cfg(target_os = "linux")]
mod exec;
#[cfg(target_os = "linux")]
mod isolation;
#[cfg(target_os = "linux")]
mod mcp;
#[cfg(target_os = "linux")]
mod stopping;
