//! Writes a transcript during a run. Each line is one write, so a killed program leaves complete
//! lines and at most one torn line.
//!
//! An event that cannot be recorded must not happen either: a run resumed without it would repeat
//! it. So after the first line that could not be written no further one is, and
//! [`TranscriptRecorder`] rejects all further calls.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_tools::{CallRecord, Caller, DecisionEntry, Recorder, Redactor};
use serde_json::Value;

use super::entry::{
    MAX_BYTES, MAX_LINE_BYTES, MAX_LINES, ResumeRecord, TranscriptEntry, TranscriptHeader,
    TranscriptLine,
};
use super::read::Transcript;
use crate::model::{Message, ModelEvent, ToolResult};
use crate::report::{Observer, RunEvent};

/// Deepest level of arrays and objects that is recorded of a model's output; JSON parsers accept
/// 128.
const MAX_DEPTH: usize = 96;
/// Replaces deeper values.
const TOO_DEEP: &str = "(too deep to be kept)";

/// Writes the transcript of one run. It is an [`Observer`], and redacts all events before writing
/// them.
///
/// ```
/// use std::sync::Arc;
/// use forge_runtime::transcript::TranscriptWriter;
/// use forge_runtime::{Observer as _, RunEvent, ElapsedTime};
///
/// let writer = TranscriptWriter::new(Vec::new(), Arc::default());
/// let caller = forge_tools::Caller::new("main").numbered(1);
/// writer.observe(RunEvent::TurnStarted { caller: &caller, turn: 1, model: "p:m", time: ElapsedTime::default() });
/// assert!(writer.failure().is_none());
/// let text = String::from_utf8(writer.into_inner()).unwrap();
/// assert!(text.contains("\"kind\":\"turn\",\"run\":1,"), "{text}");
/// ```
#[derive(Debug)]
#[must_use]
pub struct TranscriptWriter<W> {
    redactor: Arc<Redactor>,
    state: Mutex<WriterState<W>>,
}

#[derive(Debug)]
struct WriterState<W> {
    out: W,
    lines: u64,
    bytes: u64,
    /// Results that are recorded and that the model has not got yet, by run and id.
    came: BTreeMap<(u64, String), ToolResult>,
    failed: Option<(ErrorKind, String)>,
}

impl<W: Write> TranscriptWriter<W> {
    /// Writes to `out`, which passes on each write as it comes.
    pub fn new(out: W, redactor: Arc<Redactor>) -> Self {
        TranscriptWriter {
            redactor,
            state: Mutex::new(WriterState {
                out,
                lines: 0,
                bytes: 0,
                came: BTreeMap::new(),
                failed: None,
            }),
        }
    }

    /// Continues after the lines of `transcript`.
    pub fn behind(mut self, transcript: &Transcript) -> Self {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.lines = transcript.lines;
        state.bytes = transcript.sound_bytes;
        self
    }

    /// Writes the header, the first line.
    ///
    /// # Errors
    ///
    /// It could not be written.
    pub fn begin(&self, begin: TranscriptHeader) -> std::io::Result<()> {
        self.add(TranscriptEntry::Begin(Box::new(begin)))
    }

    /// Writes that another program resumes the run.
    ///
    /// # Errors
    ///
    /// It could not be written.
    pub fn resumed(&self, resumed: ResumeRecord) -> std::io::Result<()> {
        self.add(TranscriptEntry::Resumed(Box::new(resumed)))
    }

    /// Adds a line.
    ///
    /// # Errors
    ///
    /// It could not be written, or one before it could not.
    pub fn add(&self, entry: TranscriptEntry) -> std::io::Result<()> {
        let line = self.line(entry);
        self.lock().write(line)
    }

    /// Returns the error that stopped the recording; `None` if everything was recorded.
    pub fn failure(&self) -> Option<Error> {
        self.lock().failure()
    }

    /// Returns the output.
    pub fn into_inner(self) -> W {
        let state = self.state.into_inner();
        state.unwrap_or_else(PoisonError::into_inner).out
    }

    fn lock(&self) -> MutexGuard<'_, WriterState<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the line as it is written: redacted, of limited depth, with a newline.
    fn line(&self, mut entry: TranscriptEntry) -> std::io::Result<Vec<u8>> {
        if let TranscriptEntry::Said { message, .. } = &mut entry {
            self.unseal(message);
        }
        let at_ms = forge_tools::now_ms();
        let mut value = serde_json::to_value(TranscriptLine { at_ms, entry })?;
        cut_below(&mut value, MAX_DEPTH);
        let kind = value["kind"].clone();
        self.redactor.redact_json(&mut value);
        value["kind"] = kind;
        let mut line = serde_json::to_vec(&value)?;
        line.push(b'\n');
        Ok(line)
    }

    /// A provider's seal over a thought covers its exact words.
    fn unseal(&self, message: &mut Message) {
        if let Message::Model { thinking, .. } = message {
            for block in thinking {
                if self.redactor.redact(&block.text) != block.text {
                    block.signature = None;
                }
            }
        }
    }

    fn said(&self, run: u64, message: &Message) {
        if let Message::ToolResult(result) = message {
            let mut state = self.lock();
            let known = state.came.remove(&(run, result.id.clone()));
            drop(state);
            if known.as_ref() == Some(result) {
                let id = result.id.clone();
                self.keep(TranscriptEntry::ResultSent { run, id });
                return;
            }
        }
        let message = message.clone();
        self.keep(TranscriptEntry::Said { run, message });
    }

    fn came(&self, run: u64, result: &ToolResult) {
        self.keep(TranscriptEntry::CallEnded {
            run,
            result: result.clone(),
        });
        let key = (run, result.id.clone());
        self.lock().came.insert(key, result.clone());
    }

    /// An error is not reported here: [`TranscriptWriter::failure`] returns it.
    fn keep(&self, entry: TranscriptEntry) {
        let _ = self.add(entry);
    }
}

impl<W: Write> WriterState<W> {
    fn write(&mut self, line: std::io::Result<Vec<u8>>) -> std::io::Result<()> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let written = line.and_then(|line| {
            let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
            self.bytes = self.bytes.saturating_add(length);
            if line.len() > MAX_LINE_BYTES || self.lines >= MAX_LINES || self.bytes > MAX_BYTES {
                return Err(Error::new(
                    ErrorKind::FileTooLarge,
                    "the transcript would be longer than any that is read",
                ));
            }
            self.out.write_all(&line)?;
            self.out.flush()
        });
        if let Err(error) = &written {
            self.failed = Some((error.kind(), error.to_string()));
        }
        self.lines += 1;
        written
    }

    fn failure(&self) -> Option<Error> {
        let (kind, text) = self.failed.as_ref()?;
        Some(Error::new(*kind, text.clone()))
    }
}

impl<W: Write + Send + 'static> Observer for TranscriptWriter<W> {
    fn observe(&self, event: RunEvent<'_>) {
        let Some(caller) = event.caller() else {
            return;
        };
        let run = caller.run();
        self.keep(match event {
            RunEvent::Started { .. } => TranscriptEntry::Started {
                run,
                above: above(caller),
                workers: caller.chain().to_vec(),
            },
            RunEvent::Prepared {
                model,
                instructions,
                tools,
                ..
            } => TranscriptEntry::Prepared {
                run,
                model: model.to_owned(),
                instructions: instructions.to_owned(),
                tools: tools.to_vec(),
            },
            RunEvent::TurnStarted { turn, time, .. } => TranscriptEntry::Turn { run, turn, time },
            RunEvent::Streamed { event, .. } => match event {
                ModelEvent::Retry(retry) => {
                    let retry = retry.clone();
                    TranscriptEntry::Retried { run, retry }
                }
                // Of the other events the whole follows, as `Used` and `Said`.
                _ => return,
            },
            RunEvent::Used {
                usage,
                cost_nano_usd,
                ..
            } => TranscriptEntry::Used {
                run,
                usage,
                cost_nano_usd,
            },
            RunEvent::CallStarted { call, .. } => {
                let id = call.id.clone();
                TranscriptEntry::Call { run, id }
            }
            RunEvent::CallEnded { result, .. } => return self.came(run, result),
            RunEvent::Said { message, .. } => return self.said(run, message),
            RunEvent::Ended { end, time, .. } => {
                let end = end.clone();
                TranscriptEntry::Ended { run, end, time }
            }
            RunEvent::ContextTrimmed { calls, tokens, .. } => {
                let calls = calls.to_vec();
                TranscriptEntry::ContextTrimmed { run, calls, tokens }
            }
            RunEvent::Warning { .. } => return,
        });
    }
}

fn above(caller: &Caller) -> Option<u64> {
    let (_, before) = caller.runs().split_last()?;
    before.last().copied()
}

/// A recorder that also fails if the transcript cannot be written: the call is then not made, or
/// its result is withheld.
///
/// ```
/// use std::sync::Arc;
/// use forge_runtime::transcript::{TranscriptRecorder, TranscriptWriter};
/// use forge_tools::MemoryRecorder;
///
/// let transcript = Arc::new(TranscriptWriter::new(Vec::new(), Arc::default()));
/// let recorder = TranscriptRecorder::new(Arc::new(MemoryRecorder::default()), transcript);
/// # let _ = recorder;
/// ```
pub struct TranscriptRecorder<W> {
    inner: Arc<dyn Recorder>,
    transcript: Arc<TranscriptWriter<W>>,
}

impl<W: Write + Send + 'static> TranscriptRecorder<W> {
    /// Records in `inner`, as long as `transcript` can be written.
    pub fn new(inner: Arc<dyn Recorder>, transcript: Arc<TranscriptWriter<W>>) -> Self {
        TranscriptRecorder { inner, transcript }
    }

    fn kept(&self) -> std::io::Result<()> {
        match self.transcript.failure() {
            None => Ok(()),
            Some(error) => Err(Error::new(
                error.kind(),
                format!("the transcript cannot be kept: {error}"),
            )),
        }
    }
}

impl<W: Write + Send + 'static> Recorder for TranscriptRecorder<W> {
    fn decided(&self, asked: &DecisionEntry<'_>) -> std::io::Result<Option<u64>> {
        self.kept()?;
        self.inner.decided(asked)
    }

    fn record(&self, record: &CallRecord) -> std::io::Result<()> {
        // The effect of the call is in the inner record, independent of the transcript.
        self.inner.record(record)?;
        self.kept()
    }
}

/// Puts a note in the place of arrays and objects below so many levels.
fn cut_below(value: &mut Value, levels: usize) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        Value::Array(_) | Value::Object(_) if levels == 0 => *value = TOO_DEEP.into(),
        Value::Array(items) => {
            for item in items {
                cut_below(item, levels - 1);
            }
        }
        Value::Object(fields) => {
            for field in fields.values_mut() {
                cut_below(field, levels - 1);
            }
        }
    }
}
