//! Behaviour from outside: calls in, results and records out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agreed;
mod argument_samples;
mod arguments;
mod audit;
// Commands are confined on Linux only, so far.
mod arbitrary;
mod both_forms;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod commands;
#[cfg(target_os = "linux")]
mod endings;
#[cfg(target_os = "linux")]
mod exchanged;
mod executor;
mod file_tools;
mod given_up;
mod hidden_lines;
#[cfg(target_os = "linux")]
mod listed;
mod outputs;
mod pieces;
mod place;
// Its world has pipes, links and commands of Linux.
#[cfg(target_os = "linux")]
mod redaction;
mod refusals;
mod secrets;
#[cfg(target_os = "linux")]
mod sessions;
#[cfg(unix)]
mod shell_readings;
mod stand_in;
mod support;
mod texts;
mod waiting;
