//! A run for programs: `--output stream-json`, one object a line on standard output.
//!
//! The types of the lines are forge's own, not a provider's, and carry a version that changes with
//! their meaning. The last line is always the result, however the run ended.
//!
//! A thread writes the lines, so that a reader that stands still does not block the run, its limits
//! and its end. Unread lines are kept up to a bound; beyond it pieces of text are dropped and
//! counted.

use std::collections::{BTreeMap, VecDeque};
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forge_runtime::{AttackAttempt, Message, ModelEvent, RunEvent, RunReport, ToolResult};
use forge_tools::{Caller, Redactor};
use serde_json::{Value, json};

use crate::exit::CliError;
use crate::output::escape::escape_json;

/// The JSON Schema of one line.
pub(crate) const SCHEMA: &str = include_str!("events.schema.json");

/// Changes when a line that was there means something else, or is not there any more.
const VERSION: u64 = 1;
/// Bound on unread lines, in bytes.
const MAX_UNREAD_BYTES: usize = 64 * 1024 * 1024;
/// Time limit for a reader that stands still at the end of a stopped run.
const READER_TIMEOUT: Duration = Duration::from_secs(2);

/// Lines on their way to a reader.
pub(crate) struct EventStream {
    state: Mutex<StreamState>,
    wake: Condvar,
    written: Condvar,
    redactor: Mutex<Arc<Redactor>>,
    on_terminal: bool,
    /// Ends of texts that may be beginnings of secrets, by run of a worker.
    begun: Mutex<BTreeMap<u64, String>>,
}

#[derive(Default)]
struct StreamState {
    unread: VecDeque<String>,
    bytes: usize,
    /// Pieces that were left out since the last line.
    left_out: u64,
    ended: bool,
    done: bool,
    error: Option<std::io::Error>,
}

/// The parameters of a run.
pub(crate) struct RunStart<'a> {
    pub(crate) worker: &'a str,
    pub(crate) model: &'a str,
    pub(crate) input: &'a str,
    /// The directory of the run.
    pub(crate) run: &'a Path,
}

/// The result of a run.
pub(crate) struct RunResult<'a> {
    pub(crate) exit_code: u8,
    pub(crate) report: Option<&'a RunReport>,
    pub(crate) attempts: &'a [AttackAttempt],
    pub(crate) review: Option<&'a Value>,
    pub(crate) run: Option<&'a Path>,
    pub(crate) error: Option<&'a CliError>,
}

impl EventStream {
    /// Starts the writer. Without a thread the stream, and so the run, fails.
    pub(crate) fn start() -> std::io::Result<Arc<Self>> {
        let stream = Arc::new(EventStream {
            state: Mutex::default(),
            wake: Condvar::new(),
            written: Condvar::new(),
            redactor: Mutex::default(),
            on_terminal: std::io::stdout().is_terminal(),
            begun: Mutex::default(),
        });
        let writer = Arc::clone(&stream);
        std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || {
                let _done = WriterEnd(&writer);
                writer.write();
            })?;
        Ok(stream)
    }

    /// Replaces the redactor: later lines are without its secrets.
    pub(crate) fn redact(&self, redactor: Arc<Redactor>) {
        *self.redactor.lock().unwrap_or_else(PoisonError::into_inner) = redactor;
    }

    /// The run begins.
    pub(crate) fn begin(&self, beginning: &RunStart<'_>) {
        self.push(json!({
            "type": "run_started",
            "version": VERSION,
            "forge": env!("CARGO_PKG_VERSION"),
            "worker": beginning.worker,
            "model": beginning.model,
            "input": beginning.input,
            "run": beginning.run.to_string_lossy(),
        }));
    }

    /// Something happened.
    pub(crate) fn observe(&self, event: RunEvent<'_>) {
        match event {
            RunEvent::Streamed { caller, event } => match event {
                ModelEvent::Text(text) => return self.text(caller, text),
                // It is void.
                ModelEvent::Retry(_) => drop(self.rest(caller)),
                _ => {}
            },
            RunEvent::Used { caller, .. } | RunEvent::Ended { caller, .. } => {
                if let Some(rest) = self.rest(caller) {
                    self.push(text_line(caller, &rest));
                }
            }
            _ => {}
        }
        if let Some(line) = line(event) {
            self.push(line);
        }
    }

    /// A piece of text, but for an end of it that may be the beginning of a secret.
    fn text(&self, caller: &Caller, text: &str) {
        let redactor = Arc::clone(&self.redactor.lock().unwrap_or_else(PoisonError::into_inner));
        let mut text = self.rest(caller).unwrap_or_default() + text;
        let rest = text.split_off(text.len() - redactor.partial_match_len(&text));
        if !rest.is_empty() {
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            begun.insert(caller.run(), rest);
        }
        if !text.is_empty() {
            self.push(text_line(caller, &text));
        }
    }

    fn rest(&self, caller: &Caller) -> Option<String> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.remove(&caller.run())
    }

    /// Writes the result, and waits until everything is written.
    ///
    /// # Errors
    ///
    /// Fails if standard output cannot be written.
    pub(crate) fn end(&self, outcome: &RunResult<'_>) -> std::io::Result<()> {
        self.push(result(outcome));
        let mut state = self.lock();
        state.ended = true;
        self.wake.notify_one();
        let stopped = outcome
            .error
            .is_some_and(|failure| failure.code() == "interrupted");
        let is_waiting = |state: &mut StreamState| !state.done;
        let mut state = if stopped {
            let waited = (self.written).wait_timeout_while(state, READER_TIMEOUT, is_waiting);
            waited.unwrap_or_else(PoisonError::into_inner).0
        } else {
            let waited = self.written.wait_while(state, is_waiting);
            waited.unwrap_or_else(PoisonError::into_inner)
        };
        state.error.take().map_or(Ok(()), Err)
    }

    fn push(&self, mut line: Value) {
        let may_be_left_out = line["type"] == "text";
        let redactor = Arc::clone(&self.redactor.lock().unwrap_or_else(PoisonError::into_inner));
        redactor.redact_json(&mut line);
        let mut line = format!("{line}\n");
        if self.on_terminal {
            line = escape_json(&line);
        }
        let mut state = self.lock();
        if state.error.is_some() {
            return;
        }
        if may_be_left_out && state.bytes + line.len() > MAX_UNREAD_BYTES {
            state.left_out += 1;
            return;
        }
        if state.left_out > 0 {
            let events = std::mem::take(&mut state.left_out);
            let note = json!({"type": "not_written", "events": events});
            state.push_line(format!("{note}\n"));
        }
        state.push_line(line);
        self.wake.notify_one();
    }

    fn write(&self) {
        let mut state = self.lock();
        loop {
            let lines: Vec<String> = state.unread.drain(..).collect();
            state.bytes = 0;
            if lines.is_empty() {
                if state.ended {
                    return;
                }
                state = self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(state);
            // A line that is there is read at once.
            let mut stdout = std::io::stdout().lock();
            let written = stdout
                .write_all(lines.concat().as_bytes())
                .and_then(|()| stdout.flush());
            drop(stdout);
            state = self.lock();
            if let Err(error) = written {
                // The reader has gone; the run continues, and its end reports this.
                state.error = Some(error);
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamState {
    fn push_line(&mut self, line: String) {
        self.bytes += line.len();
        self.unread.push_back(line);
    }
}

/// Reports the end of the thread, also after a panic.
struct WriterEnd<'a>(&'a EventStream);

impl Drop for WriterEnd<'_> {
    fn drop(&mut self) {
        self.0.lock().done = true;
        self.0.written.notify_all();
    }
}

/// The stream of a run that could not even be started.
pub(crate) fn failed(failure: &CliError) {
    let outcome = RunResult {
        exit_code: failure.exit().code(),
        report: None,
        attempts: &[],
        review: None,
        run: None,
        error: Some(failure),
    };
    // A caller that does not read this reads the line on standard error.
    let _ = writeln!(std::io::stdout().lock(), "{}", result(&outcome));
}

fn result(outcome: &RunResult<'_>) -> Value {
    json!({
        "type": "result",
        "version": VERSION,
        "exit_code": outcome.exit_code,
        "answer": outcome.report.and_then(answer),
        "report": outcome.report,
        "attempts": outcome.attempts,
        "review": outcome.review,
        "run": outcome.run.map(Path::to_string_lossy),
        "error": outcome.error.map(|failure| failure.to_json()["error"].take()),
    })
}

fn answer(report: &RunReport) -> Option<&str> {
    match &report.end {
        forge_runtime::RunOutcome::Answered { answer } => Some(answer),
        _ => None,
    }
}

/// Each line about a worker begins with which run of it this is.
fn worker_line(kind: &str, caller: &Caller) -> Value {
    json!({"type": kind, "worker_run": caller.run()})
}

fn text_line(caller: &Caller, text: &str) -> Value {
    json!({"type": "text", "worker_run": caller.run(), "text": text})
}

/// The kind of a line, and its text.
type LineContent = (&'static str, Value);

fn streamed(event: &ModelEvent) -> Option<LineContent> {
    Some(match event {
        ModelEvent::Text(text) => ("text", json!({"text": text})),
        ModelEvent::Thinking(block) => ("thinking", json!({"text": block.text})),
        ModelEvent::Retry(retry) => ("retry", json!(retry)),
        _ => return None,
    })
}

fn call_ended(result: &ToolResult) -> LineContent {
    let more = json!({
        "id": result.id,
        "tool": result.tool,
        "ok": !result.is_error,
        "content": result.content,
        "code": result.detail["error"]["code"].as_str(),
    });
    ("call_ended", more)
}

fn said(message: &Message) -> Option<LineContent> {
    match message {
        Message::Input { text } => Some(("input", json!({"text": text}))),
        Message::Model { text, calls, .. } => {
            let calls: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
            Some(("message", json!({"text": text, "calls": calls})))
        }
        Message::ToolResult(_) => None,
    }
}

fn line(event: RunEvent<'_>) -> Option<Value> {
    let (kind, more) = match event {
        RunEvent::Started { caller, .. } => {
            let above = caller.runs().len().checked_sub(2);
            let more = json!({
                "called_by": above.and_then(|above| caller.runs().get(above)),
                "worker": caller.worker(),
                "workers": caller.chain(),
            });
            ("worker_started", more)
        }
        RunEvent::TurnStarted { turn, model, .. } => {
            ("turn_started", json!({"turn": turn, "model": model}))
        }
        RunEvent::Streamed { event, .. } => streamed(event)?,
        RunEvent::Used {
            usage,
            cost_nano_usd,
            ..
        } => {
            let usage = json!({
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cache_read_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            });
            let more = json!({"usage": usage, "cost_nano_usd": cost_nano_usd});
            ("turn_ended", more)
        }
        RunEvent::CallStarted { call, .. } => {
            let more = json!({"id": call.id, "tool": call.tool, "arguments": call.arguments});
            ("call_started", more)
        }
        RunEvent::CallEnded { result, .. } => call_ended(result),
        RunEvent::Said { message, .. } => said(message)?,
        RunEvent::ContextTrimmed { calls, tokens, .. } => (
            "results_left_out",
            json!({"calls": calls, "tokens": tokens}),
        ),
        RunEvent::Ended { end, .. } => ("worker_ended", json!({"end": end})),
        // The system prompt is for the transcript.
        RunEvent::Prepared { .. } => return None,
        RunEvent::Warning { text } => ("warning", json!({"text": text})),
    };
    let mut line = match event.caller() {
        Some(caller) => worker_line(kind, caller),
        None => json!({"type": kind}),
    };
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more);
    }
    Some(line)
}
