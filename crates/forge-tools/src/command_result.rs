//! A command that has ended, in words and in fields.

use std::time::Duration;

use os_sandbox::Exit;
use serde_json::{Value, json};

use crate::audit::{EventKind, PolicyEvent};
use crate::captured_stream::CapturedStream;

/// The facts about a command after its end.
pub(crate) struct CommandResult {
    pub(crate) exit: Exit,
    /// The limit that it ran into.
    pub(crate) exceeded: Option<String>,
    pub(crate) stdout: CapturedStream,
    pub(crate) stderr: CapturedStream,
    /// The settings by which output was cut.
    pub(crate) cut_by: Vec<&'static str>,
    /// Notes for the model after a failure; part of standard error.
    pub(crate) notes: Vec<String>,
    /// As the command saw them. Where they lie now is a matter of people.
    pub(crate) quarantined: Vec<String>,
    pub(crate) duration: Duration,
    /// The handle with which `read_output` gives more of it.
    pub(crate) output_id: Option<String>,
    /// Why the next command does not begin where this one ended.
    pub(crate) session: Option<&'static str>,
}

/// Most protected names that a result's text lists.
const MAX_QUARANTINED_LINES: usize = 20;

impl CommandResult {
    pub(crate) fn facts(&self) -> Value {
        json!({
            "exit_code": self.exit.code(),
            "stdout": self.stdout.shown,
            "stderr": self.with_notes(&self.stderr.shown),
            "stdout_bytes": self.stdout.total_bytes,
            "stderr_bytes": self.stderr.total_bytes,
            "exceeded": self.exceeded,
            "quarantined": self.quarantined,
            "truncated": self.truncated(),
            "output_id": self.output_id,
            "session": self.session,
            "duration_ms": crate::time::millis(self.duration),
        })
    }

    pub(crate) fn text(&self) -> String {
        let mut text = self.printed(&self.stdout.shown, &self.stderr.shown);
        if !self.cut_by.is_empty() {
            own_line(&mut text);
            text.push_str(&format!(
                "[limit: output is cut by {}]",
                self.cut_by.join(", ")
            ));
        }
        if let Some(id) = &self.output_id {
            own_line(&mut text);
            let count = self.whole().chars().count();
            let dropped = self.stdout.dropped_bytes + self.stderr.dropped_bytes;
            let how = match dropped {
                0 => "reads all of it".to_owned(),
                _ => format!("reads all but {dropped} bytes of it"),
            };
            text.push_str(&format!(
                "[read_output with output_id \"{id}\" {how}: {count} characters]"
            ));
        }
        text
    }

    /// Everything that was kept.
    pub(crate) fn whole(&self) -> String {
        self.printed(self.stdout.whole(), self.stderr.whole())
    }

    pub(crate) fn truncated(&self) -> bool {
        self.stdout.truncated() || self.stderr.truncated()
    }

    /// Returns `true` if more was kept than is shown.
    pub(crate) fn has_more(&self) -> bool {
        self.stdout.has_more() || self.stderr.has_more()
    }

    pub(crate) fn events(&self) -> Vec<PolicyEvent> {
        let exceeded = self
            .exceeded
            .as_ref()
            .map(|limit| PolicyEvent::new(EventKind::Exceeded, limit));
        let taken = self
            .quarantined
            .iter()
            .map(|path| PolicyEvent::new(EventKind::Quarantined, path));
        exceeded.into_iter().chain(taken).collect()
    }

    fn printed(&self, stdout: &str, stderr: &str) -> String {
        let mut text = stdout.to_owned();
        let stderr = self.with_notes(stderr);
        if !stderr.is_empty() {
            own_line(&mut text);
            text.push_str("[stderr]\n");
            text.push_str(&stderr);
        }
        if !self.exit.success() || text.is_empty() {
            own_line(&mut text);
            text.push_str(&format!("[{}]", self.exit));
        }
        // Also after a success: a part of the command may have been ended.
        if let Some(exceeded) = &self.exceeded {
            own_line(&mut text);
            text.push_str(&format!("[limit: the command used {exceeded}]"));
        }
        if let Some(why) = self.session {
            own_line(&mut text);
            text.push_str(&format!("[session: {why}]"));
        }
        for path in self.quarantined.iter().take(MAX_QUARANTINED_LINES) {
            own_line(&mut text);
            text.push_str(&format!(
                "[not kept: {path} has a protected name, which no command may make]"
            ));
        }
        let more = self.quarantined.len().saturating_sub(MAX_QUARANTINED_LINES);
        if more > 0 {
            own_line(&mut text);
            text.push_str(&format!("[not kept: {more} more with protected names]"));
        }
        text
    }

    fn with_notes(&self, stderr: &str) -> String {
        self.notes.iter().fold(stderr.to_owned(), |text, note| {
            format!("{}\n\n{note}", text.trim_end_matches('\n'))
        })
    }
}

/// Makes the next appended text start a line.
fn own_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}
