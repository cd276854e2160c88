//! Nodes from outside, and the tests of forge-tools with the work in nodes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../forge-tools/tests/it/agreed.rs"]
mod agreed;
#[path = "../../../forge-tools/tests/it/both_forms.rs"]
mod both_forms;
// Commands are confined on Linux only, so far.
#[cfg(target_os = "linux")]
#[path = "../../../forge-tools/tests/it/capture.rs"]
mod capture;
#[cfg(target_os = "linux")]
#[path = "../../../forge-tools/tests/it/commands.rs"]
mod commands;
#[cfg(target_os = "linux")]
#[path = "../../../forge-tools/tests/it/endings.rs"]
mod endings;
#[path = "../../../forge-tools/tests/it/executor.rs"]
mod executor;
#[path = "../../../forge-tools/tests/it/file_tools.rs"]
mod file_tools;
#[cfg(target_os = "linux")]
mod node;
#[path = "../../../forge-tools/tests/it/pieces.rs"]
mod pieces;
mod place;
#[path = "../../../forge-tools/tests/it/refusals/mod.rs"]
mod refusals;
#[path = "../../../forge-tools/tests/it/secrets.rs"]
mod secrets;
#[cfg(target_os = "linux")]
#[path = "../../../forge-tools/tests/it/sessions.rs"]
mod sessions;
#[path = "../../../forge-tools/tests/it/support.rs"]
mod support;
#[path = "../../../forge-tools/tests/it/texts.rs"]
mod texts;
#[path = "../../../forge-tools/tests/it/waiting.rs"]
mod waiting;
