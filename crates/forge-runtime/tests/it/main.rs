//! Worker trees on real directories, driven by playbooks.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod any_events;
mod attachments;
mod command_lines;
mod delegation;
mod fronts;
mod hostile;
mod limits;
mod listed;
#[cfg(unix)]
#[path = "../../../forge-git/tests/git/memory.rs"]
#[allow(dead_code, reason = "the tests of forge-git use the rest")]
mod memory;
mod precedence;
#[cfg(unix)]
mod rights;
// Commands are confined on Linux only, so far.
mod mock_provider;
#[cfg(target_os = "linux")]
mod rules;
#[cfg(target_os = "linux")]
mod runners;
#[cfg(target_os = "linux")]
mod sessions;
mod support;
mod transcripts;
#[cfg(unix)]
mod trees;
mod turns;
mod watched;
