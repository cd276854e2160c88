//! A run as it goes on, for the person watching: one line an event, on standard
//! error.

use std::sync::{Arc, Mutex, PoisonError};

use forge_runtime::{Message, Observer, RunEvent, ToolResult};
use forge_tools::escape_controls;
use sandbox_config::DrawnFrom;

use crate::run_dir::Transcript;
use crate::stderr::say;

/// Longest shown line, in characters.
const MAX_LINE_CHARS: usize = 160;
/// Calls of one turn that are shown one by one; the rest is a count.
const MAX_SHOWN_CALLS: usize = 8;

/// Shows events, and keeps the transcript.
pub(crate) struct Watcher {
    quiet: bool,
    transcript: Option<Arc<Transcript>>,
    results_shown: Mutex<usize>,
}

impl Watcher {
    /// A watcher that prints unless `quiet`.
    pub(crate) fn new(quiet: bool, transcript: Option<Arc<Transcript>>) -> Self {
        Watcher {
            quiet,
            transcript,
            results_shown: Mutex::new(0),
        }
    }

    fn line(&self, depth: usize, text: &str) {
        if self.quiet {
            return;
        }
        let flat = escape_controls(text);
        let mut shown: String = flat.chars().take(MAX_LINE_CHARS).collect();
        if shown.len() < flat.len() {
            shown.push('…');
        }
        let width = depth.saturating_sub(1) * 2;
        say(format_args!("{:width$}{shown}", ""));
    }

    fn said(&self, depth: usize, message: &Message) {
        let mut shown = self
            .results_shown
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match message {
            Message::Input { .. } => {}
            Message::Model { text, calls, .. } => {
                *shown = 0;
                if !text.trim().is_empty() {
                    let first = text.trim().lines().next().unwrap_or_default();
                    self.line(depth, &format!("  {first}"));
                }
                if calls.len() > MAX_SHOWN_CALLS {
                    self.line(
                        depth,
                        &format!("  {} calls, {} of them shown", calls.len(), MAX_SHOWN_CALLS),
                    );
                }
            }
            Message::ToolResult(result) => {
                *shown += 1;
                if *shown <= MAX_SHOWN_CALLS {
                    self.line(depth, &outcome(result));
                }
            }
        }
    }
}

/// One line for one call: a refusal in its words, a result by its size if it is
/// longer than a line.
fn outcome(result: &ToolResult) -> String {
    let text = result.content.trim_end();
    let first = text.lines().next().unwrap_or_default();
    if result.is_error {
        return format!("  ✗ {}: {first}", result.tool);
    }
    match text.lines().count() {
        0 | 1 => format!("  ✓ {}: {first}", result.tool),
        lines => format!("  ✓ {}: {lines} lines", result.tool),
    }
}

impl Observer for Watcher {
    fn observe(&self, event: RunEvent<'_>) {
        match event {
            RunEvent::Started { caller, drawn_from } => {
                let depth = caller.chain().len();
                let note = match drawn_from {
                    DrawnFrom::Project if depth > 1 => {
                        "  (directories: its own, met with the project)"
                    }
                    DrawnFrom::Project | DrawnFrom::Caller => "",
                };
                self.line(depth, &format!("▸ {}{note}", caller.worker()));
            }
            RunEvent::TurnStarted { .. }
            | RunEvent::Streamed { .. }
            | RunEvent::Used { .. }
            | RunEvent::CallStarted { .. }
            | RunEvent::CallEnded { .. } => {}
            RunEvent::Said { caller, message } => {
                self.said(caller.chain().len(), message);
                if let Some(transcript) = &self.transcript {
                    transcript.add(caller, message);
                }
            }
            RunEvent::LeftOut { caller, calls, .. } => self.line(
                caller.chain().len(),
                &format!("  the results of {} old calls are left out", calls.len()),
            ),
            RunEvent::Ended { caller, end } => {
                if !end.is_answer() {
                    self.line(
                        caller.chain().len(),
                        &format!("  {} ended: {end}", caller.worker()),
                    );
                }
            }
            RunEvent::Warning { text } => self.line(1, &format!("warning: {text}")),
        }
    }
}
