//! The state of a run as a viewer sees it: active workers, their activities, and the lines about
//! finished work. A pure value that consumes events, without a terminal or a clock.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_runtime::{Message, ModelEvent, RunEvent, ToolCall, ToolResult, Usage};
use forge_tools::{Caller, Redactor};
use sandbox_config::MountSource;

use super::words;

/// Results of one turn that are shown one by one; the rest is a count.
const MAX_SHOWN_RESULTS: usize = 8;
/// Bound on the text of an unfinished turn, in bytes.
const MAX_TAIL_BYTES: usize = 32 * 1024;

/// A line about finished work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ViewLine {
    /// The numbers of the worker run and of its callers.
    pub(super) runs: Vec<u64>,
    /// The name of the worker, repeated where workers alternate.
    pub(super) label: String,
    pub(super) said: LineKind,
}

/// The kind of a line. Every kind but a text is one line, and clean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LineKind {
    /// A worker began; with a note.
    Worker(&'static str),
    /// A model's words, as they came.
    Text(String),
    /// A model's thoughts, as they came.
    Thought(String),
    /// A call begins.
    Call(String),
    /// A call went well.
    Done(String),
    /// A call did not.
    Failed(String),
    /// Something that goes on all the same.
    Warning(String),
    /// The end of a worker without an answer.
    Ended(String),
    /// Numbers.
    Note(String),
    /// A line of another part of forge, already clean.
    Other(String),
}

/// A worker that is at work.
#[derive(Debug)]
pub(super) struct ActiveWorker {
    pub(super) runs: Vec<u64>,
    pub(super) label: String,
    pub(super) doing: Activity,
    /// The end of the model's text, until its turn is over.
    pub(super) tail: String,
    pub(super) calls: Vec<ActiveCall>,
    /// Results of this turn.
    results: usize,
    /// Usage of the last turn.
    used: Option<String>,
    /// Words that may turn out to be the answer.
    last_words: Option<String>,
}

/// The activity of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Activity {
    /// Nothing yet.
    Beginning,
    /// Its model was asked, and has not said anything.
    Asking { since: Instant },
    /// Its model is at work, and shows nothing of it.
    Thinking { since: Instant },
    /// Its model speaks.
    Speaking,
    /// Its model is asked again then.
    Waiting { until: Instant, why: String },
    /// Calls are made.
    Calling,
}

/// A call that goes on.
#[derive(Debug)]
pub(super) struct ActiveCall {
    id: String,
    /// In one line.
    pub(super) what: String,
    pub(super) since: Instant,
}

/// The level of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DetailLevel {
    /// Calls as they begin, thoughts, numbers, every result.
    pub(super) more: bool,
    /// Include the entry worker's answer, if it is not visible elsewhere.
    pub(super) answer: bool,
}

/// Formats lines, with secrets removed.
#[derive(Debug, Clone)]
struct LineWriter {
    wanted: DetailLevel,
    /// Removes secrets before a text is shortened.
    redactor: Arc<Redactor>,
}

impl LineWriter {
    fn call(&self, call: &ToolCall) -> ToolCall {
        let mut call = call.clone();
        call.tool = self.text(&call.tool).into_owned();
        self.redactor.redact_json(&mut call.arguments);
        call
    }

    fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redactor.redact(text)
    }
}

/// The run.
#[derive(Debug)]
pub(super) struct RunView {
    telling: LineWriter,
    pub(super) began: Instant,
    at_work: BTreeMap<u64, ActiveWorker>,
    /// Number of runs for each name of a worker.
    names: BTreeMap<String, u64>,
    pub(super) turns: u64,
    pub(super) calls: u64,
    pub(super) tokens: u64,
    /// `None` if the cost is unknown.
    pub(super) cost_nano_usd: Option<u64>,
}

impl RunView {
    pub(super) fn new(wanted: DetailLevel, redactor: Arc<Redactor>, now: Instant) -> Self {
        RunView {
            telling: LineWriter { wanted, redactor },
            began: now,
            at_work: BTreeMap::new(),
            names: BTreeMap::new(),
            turns: 0,
            calls: 0,
            tokens: 0,
            cost_nano_usd: None,
        }
    }

    /// Redacts a partial text, and holds back a suffix that further input could complete into a
    /// secret.
    pub(super) fn redacted<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let begun = self.telling.redactor.partial_match_len(text);
        self.telling.text(&text[..text.len() - begun])
    }

    /// Returns the active workers, callers before called workers.
    pub(super) fn at_work(&self) -> Vec<&ActiveWorker> {
        let mut all: Vec<&ActiveWorker> = self.at_work.values().collect();
        all.sort_by(|a, b| a.runs.cmp(&b.runs));
        all
    }

    /// Consumes an event, and returns the lines about it.
    pub(super) fn on_event(&mut self, event: RunEvent<'_>, now: Instant) -> Vec<ViewLine> {
        match event {
            RunEvent::Started { caller, drawn_from } => self.start_worker(caller, drawn_from),
            RunEvent::TurnStarted { caller, .. } => {
                self.turns += 1;
                self.of(caller.run(), |worker, _| {
                    worker.doing = Activity::Asking { since: now };
                    worker.tail.clear();
                    worker.results = 0;
                    // They were not the answer after all.
                    worker
                        .last_words
                        .take()
                        .map(LineKind::Text)
                        .into_iter()
                        .collect()
                })
            }
            RunEvent::Streamed { caller, event } => self.of(caller.run(), |worker, telling| {
                worker.on_text(event, now, telling)
            }),
            RunEvent::Used {
                caller,
                usage,
                cost_nano_usd,
            } => self.end_turn(caller, usage, cost_nano_usd),
            RunEvent::CallStarted { caller, call } => self.start_call(caller, call, now),
            RunEvent::CallEnded { caller, result } => self.of(caller.run(), |worker, telling| {
                worker.on_result(result, telling)
            }),
            RunEvent::Said { caller, message } => match message {
                Message::Input { .. } | Message::ToolResult(_) => Vec::new(),
                Message::Model { text, calls, .. } => {
                    let is_entry = caller.chain().len() == 1;
                    self.of(caller.run(), |worker, telling| {
                        worker.on_turn(&telling.text(text), calls, is_entry, telling.wanted)
                    })
                }
            },
            RunEvent::ContextTrimmed { caller, calls, .. } => {
                let count = u64::try_from(calls.len()).unwrap_or(u64::MAX);
                let text = format!(
                    "the context is nearly full: {} left out",
                    words::count(count, "old result")
                );
                self.of(caller.run(), |_, _| vec![LineKind::Warning(text)])
            }
            RunEvent::Ended { caller, end, .. } => {
                self.end_worker(caller.run(), end, end.is_answer())
            }
            RunEvent::Prepared { .. } => Vec::new(),
            RunEvent::Warning { text } => vec![ViewLine {
                runs: Vec::new(),
                label: String::new(),
                said: LineKind::Warning(crate::output::escape::escape(&self.telling.text(text))),
            }],
        }
    }

    fn start_worker(&mut self, caller: &Caller, drawn_from: MountSource) -> Vec<ViewLine> {
        let seen = self.names.entry(caller.worker().to_owned()).or_default();
        *seen += 1;
        let name = words::cut(caller.worker());
        let label = match *seen {
            1 => name,
            again => format!("{name} #{again}"),
        };
        let worker = ActiveWorker {
            runs: caller.runs().to_vec(),
            label,
            doing: Activity::Beginning,
            tail: String::new(),
            calls: Vec::new(),
            results: 0,
            used: None,
            last_words: None,
        };
        let note = match drawn_from {
            MountSource::Project if caller.chain().len() > 1 => {
                "directories: its own, met with the project"
            }
            MountSource::Project | MountSource::Caller => "",
        };
        let line = worker.line(LineKind::Worker(note));
        self.at_work.insert(caller.run(), worker);
        vec![line]
    }

    fn end_turn(
        &mut self,
        caller: &Caller,
        usage: Usage,
        cost_nano_usd: Option<u64>,
    ) -> Vec<ViewLine> {
        self.tokens = self.tokens.saturating_add(usage.total());
        if let Some(cost) = cost_nano_usd {
            self.cost_nano_usd = Some(self.cost_nano_usd.unwrap_or(0).saturating_add(cost));
        }
        self.of(caller.run(), |worker, telling| {
            worker.doing = Activity::Calling;
            worker.used = (telling.wanted.more && usage.total() > 0).then(|| used(usage));
            Vec::new()
        })
    }

    fn start_call(&mut self, caller: &Caller, call: &ToolCall, now: Instant) -> Vec<ViewLine> {
        self.calls += 1;
        self.of(caller.run(), |worker, telling| {
            let call = telling.call(call);
            worker.doing = Activity::Calling;
            worker.calls.push(ActiveCall {
                id: call.id.clone(),
                what: words::call(&call),
                since: now,
            });
            match telling.wanted.more {
                true => vec![LineKind::Call(words::call_whole(&call))],
                false => Vec::new(),
            }
        })
    }

    fn end_worker(&mut self, run: u64, end: &impl Display, is_answer: bool) -> Vec<ViewLine> {
        let Some(mut worker) = self.at_work.remove(&run) else {
            return Vec::new();
        };
        let mut said = Vec::new();
        let last = worker.last_words.take();
        if let Some(text) = last.filter(|_| !is_answer || self.telling.wanted.answer) {
            said.push(LineKind::Text(text));
        }
        if !is_answer {
            let how = words::cut(&self.telling.text(&end.to_string()));
            said.push(LineKind::Ended(format!("{} ended: {how}", worker.label)));
        }
        said.into_iter().map(|said| worker.line(said)).collect()
    }

    fn of(
        &mut self,
        run: u64,
        takes: impl FnOnce(&mut ActiveWorker, &LineWriter) -> Vec<LineKind>,
    ) -> Vec<ViewLine> {
        let Some(worker) = self.at_work.get_mut(&run) else {
            return Vec::new();
        };
        let said = takes(worker, &self.telling);
        said.into_iter().map(|said| worker.line(said)).collect()
    }
}

impl ActiveWorker {
    fn line(&self, said: LineKind) -> ViewLine {
        ViewLine {
            runs: self.runs.clone(),
            label: self.label.clone(),
            said,
        }
    }

    /// A piece of a turn.
    fn on_text(&mut self, event: &ModelEvent, now: Instant, telling: &LineWriter) -> Vec<LineKind> {
        match event {
            ModelEvent::Text(text) => {
                self.doing = Activity::Speaking;
                self.tail.push_str(text);
                if self.tail.len() > 2 * MAX_TAIL_BYTES {
                    let start = self
                        .tail
                        .ceil_char_boundary(self.tail.len() - MAX_TAIL_BYTES);
                    self.tail.drain(..start);
                }
                Vec::new()
            }
            ModelEvent::Thinking(block) => {
                self.thinks(now);
                match telling.wanted.more && !block.text.trim().is_empty() {
                    true => vec![LineKind::Thought(telling.text(&block.text).into_owned())],
                    false => Vec::new(),
                }
            }
            ModelEvent::Heartbeat => {
                self.thinks(now);
                Vec::new()
            }
            ModelEvent::Retry(retry) => {
                self.tail.clear();
                let why = words::retry(&telling.text(&retry.reason));
                let wait = Duration::from_millis(retry.wait_ms);
                let line = format!("{why}, again in {}", words::until(wait));
                // Longer than a clock can say is as good as a day.
                let day = Duration::from_secs(24 * 3600);
                self.doing = Activity::Waiting {
                    until: now + wait.min(day),
                    why,
                };
                vec![LineKind::Warning(line)]
            }
            ModelEvent::Call(_)
            | ModelEvent::Usage(_)
            | ModelEvent::End(_)
            | ModelEvent::Failed(_) => Vec::new(),
        }
    }

    fn thinks(&mut self, now: Instant) {
        match &self.doing {
            Activity::Asking { since } => self.doing = Activity::Thinking { since: *since },
            Activity::Beginning | Activity::Waiting { .. } | Activity::Calling => {
                self.doing = Activity::Thinking { since: now };
            }
            Activity::Thinking { .. } | Activity::Speaking => {}
        }
    }

    /// A whole turn.
    fn on_turn(
        &mut self,
        text: &str,
        calls: &[ToolCall],
        is_entry: bool,
        wanted: DetailLevel,
    ) -> Vec<LineKind> {
        self.tail.clear();
        self.doing = Activity::Calling;
        let mut said = Vec::new();
        if !text.trim().is_empty() {
            if calls.is_empty() && is_entry {
                self.last_words = Some(text.to_owned());
            } else {
                said.push(LineKind::Text(text.to_owned()));
            }
        }
        said.extend(self.used.take().map(LineKind::Note));
        if calls.len() > MAX_SHOWN_RESULTS && !wanted.more {
            said.push(LineKind::Note(format!(
                "{} calls, {MAX_SHOWN_RESULTS} of them shown",
                calls.len()
            )));
        }
        said
    }

    /// The result of a call.
    fn on_result(&mut self, result: &ToolResult, telling: &LineWriter) -> Vec<LineKind> {
        let found = self.calls.iter().position(|call| call.id == result.id);
        let what = match found {
            Some(index) => self.calls.remove(index).what,
            None => words::cut(&telling.text(&result.tool)),
        };
        self.results += 1;
        if self.results > MAX_SHOWN_RESULTS && !telling.wanted.more {
            return Vec::new();
        }
        // The toolbox has redacted its results; other ends of a call have foreign text, too.
        let outcome = words::outcome(&telling.text(&result.content), result.is_error);
        let code = exit_code(result).filter(|code| *code != 0);
        let code = code.map(|code| format!("exit code {code}"));
        let failed = result.is_error || code.is_some();
        let about: Vec<String> = code
            .into_iter()
            .chain((!outcome.is_empty()).then_some(outcome))
            .collect();
        let line = match about.is_empty() {
            true => what,
            false => format!("{what}: {}", about.join(", ")),
        };
        vec![match failed {
            true => LineKind::Failed(line),
            false => LineKind::Done(line),
        }]
    }
}

/// Returns the exit code of the command that a call ran.
fn exit_code(result: &ToolResult) -> Option<i64> {
    result.detail.pointer("/structured/exit_code")?.as_i64()
}

/// Describes the usage of a turn.
fn used(usage: Usage) -> String {
    let mut text = format!(
        "{} in, {} out",
        words::tokens(usage.input_tokens),
        words::tokens(usage.output_tokens)
    );
    if usage.cache_read_tokens > 0 {
        text.push_str(&format!(
            ", {} of them cached",
            words::tokens(usage.cache_read_tokens)
        ));
    }
    text
}
