//! Parses a transcript. Any program with the person's rights may have edited the file, so its
//! content is not trusted: every line has to follow from those before it, and a violation is an
//! error with its line.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, Read as _};

use super::entry::{
    FORMAT, MAX_BYTES, MAX_LINE_BYTES, MAX_LINES, ResumeRecord, TranscriptEntry, TranscriptHeader,
    TranscriptLine,
};
use crate::model::{Message, Retry, ToolCall, ToolDescription, ToolResult, Usage};
use crate::report::{ElapsedTime, RunOutcome};

/// Most runs of workers in one run.
const MAX_RUNS: usize = 1 << 16;

/// The content of a transcript.
///
/// ```
/// use forge_runtime::transcript::read;
/// let damage = read(&b"{}\n"[..]).unwrap_err();
/// assert_eq!(damage.line, 1);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    /// The header.
    pub begin: TranscriptHeader,
    /// The programs that went on with it.
    pub resumed: Vec<ResumeRecord>,
    /// Every worker that ran, by the number of its run; the entry worker's is 1.
    pub runs: BTreeMap<u64, WorkerRun>,
    /// Number of complete lines.
    pub lines: u64,
    /// Size of those lines.
    pub sound_bytes: u64,
    /// Bytes of a line that a killed program did not finish.
    pub torn_bytes: u64,
    /// When the last whole line was written.
    pub(super) last_ms: u64,
}

/// Messages, calls and usage of one run of a worker.
///
/// ```
/// fn answered(run: &forge_runtime::transcript::WorkerRun) -> bool {
///     run.end.as_ref().is_some_and(|end| end.is_answer())
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerRun {
    /// The calling run; `None` for the entry worker.
    pub above: Option<u64>,
    /// From the entry worker down to this one.
    pub workers: Vec<String>,
    /// Its model; `None` if it was not ready yet.
    pub model: Option<String>,
    /// Its instructions.
    pub instructions: String,
    /// Its tools.
    pub tools: Vec<ToolDescription>,
    /// Its conversation.
    pub messages: Vec<Message>,
    /// Number of its turns.
    pub turns: u64,
    /// Number of its calls.
    pub calls: u64,
    /// The tokens of its turns.
    pub usage: Usage,
    /// Their cost, in billionths of a US dollar; `None` if no prices were known.
    pub cost_nano_usd: Option<u64>,
    /// The retries of its turns.
    pub retries: Vec<Retry>,
    /// Number of trims of its context.
    pub trimmed: u64,
    /// Its outcome; `None` if it did not end.
    pub end: Option<RunOutcome>,
    /// Its time at the last record.
    pub time: ElapsedTime,
    /// Time of that record; `None` if the clock was stopped since.
    timed_ms: Option<u64>,
    /// Number of its calls that began.
    pub(super) calls_begun: u64,
    /// The calls of its last turn whose results the model has not got.
    pub(super) open: VecDeque<ToolCall>,
    /// The ids of all calls of that turn.
    ids: BTreeSet<String>,
    /// Of those, the ones that began.
    pub(super) begun: BTreeSet<String>,
    /// Of those, the ones that are over.
    pub(super) came: BTreeMap<String, ToolResult>,
}

/// A defect of a transcript, with its line.
///
/// ```
/// use forge_runtime::transcript::read;
/// assert_eq!(read(&b""[..]).unwrap_err().to_string(), "line 1: it is empty");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TranscriptError {
    /// From 1.
    pub line: u64,
    /// The defect.
    pub problem: TranscriptProblem,
}

/// The kinds of defects of a transcript.
///
/// ```
/// use forge_runtime::transcript::TranscriptProblem;
/// assert_eq!(TranscriptProblem::NotTheFirst.to_string(), "it does not say which run it is of");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum TranscriptProblem {
    /// The file is empty.
    #[error("it is empty")]
    Empty,
    /// The first line is another one, or the one that comes first comes again.
    #[error("it does not say which run it is of")]
    NotTheFirst,
    /// Another format.
    #[error("it is in version {found} of the format, and this forge reads {FORMAT}")]
    Version {
        /// Its version.
        found: u64,
    },
    /// A line that is longer than any that is written.
    #[error("it is longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    /// More lines, bytes or runs of workers than any transcript has.
    #[error("there is more than any transcript holds")]
    TooMany,
    /// Not JSON, or not a line of a transcript.
    #[error("not a line of a transcript: {0}")]
    NotALine(String),
    /// A line that cannot follow those before it.
    #[error("{0}")]
    OutOfPlace(&'static str),
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
}

/// Reads a transcript. A last line without its newline was not finished by a killed program: it is
/// ignored, and its size reported.
///
/// # Errors
///
/// The first thing that is wrong with it.
pub fn read(mut input: impl BufRead) -> Result<Transcript, TranscriptError> {
    let mut reading: Option<Transcript> = None;
    let mut bytes = Vec::new();
    let mut number = 0;
    loop {
        let at = |problem| TranscriptError {
            line: number + 1,
            problem,
        };
        bytes.clear();
        let most = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
        (&mut input)
            .take(most)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| at(error.into()))?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if !bytes.ends_with(b"\n") {
            if bytes.len() >= MAX_LINE_BYTES {
                return Err(at(TranscriptProblem::TooLong));
            }
            let mut transcript = reading.ok_or_else(|| at(TranscriptProblem::Empty))?;
            transcript.torn_bytes = length;
            return Ok(transcript);
        }
        if number >= MAX_LINES {
            return Err(at(TranscriptProblem::TooMany));
        }
        let TranscriptLine { at_ms, entry } = line(&bytes).map_err(at)?;
        match &mut reading {
            None => reading = Some(Transcript::beginning(entry).map_err(at)?),
            Some(transcript) => transcript.take(at_ms, entry).map_err(at)?,
        }
        number += 1;
        if let Some(transcript) = &mut reading {
            transcript.lines = number;
            transcript.last_ms = at_ms;
            transcript.sound_bytes = transcript.sound_bytes.saturating_add(length);
            if transcript.sound_bytes > MAX_BYTES {
                let problem = TranscriptProblem::TooMany;
                let line = number;
                return Err(TranscriptError { line, problem });
            }
        }
    }
}

fn line(bytes: &[u8]) -> Result<TranscriptLine, TranscriptProblem> {
    let wrong = |error: serde_json::Error| TranscriptProblem::NotALine(error.to_string());
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(wrong)?;
    // Checked first: further mistakes of another format mean nothing.
    if value["kind"] == "begin"
        && let Some(found) = value["format"].as_u64().filter(|found| *found != FORMAT)
    {
        return Err(TranscriptProblem::Version { found });
    }
    serde_json::from_value(value).map_err(wrong)
}

impl Transcript {
    fn beginning(entry: TranscriptEntry) -> Result<Self, TranscriptProblem> {
        let TranscriptEntry::Begin(begin) = entry else {
            return Err(TranscriptProblem::NotTheFirst);
        };
        Ok(Transcript {
            begin: *begin,
            resumed: Vec::new(),
            runs: BTreeMap::new(),
            lines: 0,
            sound_bytes: 0,
            torn_bytes: 0,
            last_ms: 0,
        })
    }

    /// Returns the configuration that the run depends on since it was last resumed.
    pub fn basis(&self) -> &super::RunFingerprint {
        self.resumed
            .last()
            .map_or(&self.begin.basis, |resumed| &resumed.basis)
    }

    /// The model that was named on the command line when the run was last begun or gone on with.
    pub fn model_flag(&self) -> Option<&str> {
        match self.resumed.last() {
            Some(resumed) => resumed.model_flag.as_deref(),
            None => self.begin.model_flag.as_deref(),
        }
    }

    /// Returns the JSON Schema of the answer in this run; `None` if the worker's own applies.
    pub fn answer_schema(&self) -> Option<&serde_json::Value> {
        let mut since = self.resumed.iter().rev();
        since
            .find_map(|resumed| resumed.answer_schema.as_ref())
            .or(self.begin.answer_schema.as_ref())
    }

    /// Returns the entry worker; `None` if it was not ready yet.
    pub fn entry(&self) -> Option<&WorkerRun> {
        self.runs.get(&ENTRY)
    }

    fn take(&mut self, at_ms: u64, entry: TranscriptEntry) -> Result<(), TranscriptProblem> {
        match entry {
            TranscriptEntry::Begin(_) => return Err(TranscriptProblem::NotTheFirst),
            TranscriptEntry::Resumed(resumed) => {
                if let Some(entry) = self.runs.get_mut(&ENTRY) {
                    entry.resume(self.last_ms);
                }
                self.resumed.push(*resumed);
            }
            TranscriptEntry::Started {
                run,
                above,
                workers,
            } => self.start(run, above, workers)?,
            TranscriptEntry::Prepared {
                run,
                model,
                instructions,
                tools,
            } => {
                let run = self.run(run)?;
                run.model = Some(model);
                run.instructions = instructions;
                run.tools = tools;
            }
            TranscriptEntry::Turn { run, turn: _, time } => {
                let run = self.run(run)?;
                run.turns += 1;
                run.time = time;
                run.timed_ms = Some(at_ms);
            }
            TranscriptEntry::Retried { run, retry } => self.run(run)?.retries.push(retry),
            TranscriptEntry::Used {
                run,
                usage,
                cost_nano_usd,
            } => self.run(run)?.add_usage(usage, cost_nano_usd),
            TranscriptEntry::Said { run, message } => self.run(run)?.say(message)?,
            TranscriptEntry::Call { run, id } => self.run(run)?.begin_call(id)?,
            TranscriptEntry::CallEnded { run, result } => self.run(run)?.end_call(result)?,
            TranscriptEntry::ResultSent { run, id } => self.run(run)?.send_result(&id)?,
            TranscriptEntry::ContextTrimmed { run, .. } => self.run(run)?.trimmed += 1,
            TranscriptEntry::Ended { run, end, time } => {
                let run = self.run(run)?;
                run.end = Some(end);
                run.time = time;
                run.timed_ms = None;
            }
        }
        Ok(())
    }

    fn start(
        &mut self,
        run: u64,
        above: Option<u64>,
        workers: Vec<String>,
    ) -> Result<(), TranscriptProblem> {
        let no = TranscriptProblem::OutOfPlace;
        let expected = match above {
            None => 1,
            Some(above) => {
                let above = self.runs.get(&above);
                let above = above.ok_or(no("it was called by a worker that never ran"))?;
                above.workers.len() + 1
            }
        };
        if workers.len() != expected || above.is_none() != (run == ENTRY) {
            return Err(no("its callers are not those of its number"));
        }
        if self.runs.len() >= MAX_RUNS {
            return Err(TranscriptProblem::TooMany);
        }
        let again = run == ENTRY && !self.resumed.is_empty();
        match self.runs.get(&run) {
            Some(_) if again => {}
            Some(_) => return Err(no("there is a run of this number already")),
            None => {
                self.runs.insert(run, WorkerRun::new(above, workers));
            }
        }
        Ok(())
    }

    /// Returns a worker run that has not ended.
    fn run(&mut self, run: u64) -> Result<&mut WorkerRun, TranscriptProblem> {
        match self.runs.get_mut(&run) {
            Some(found) if found.end.is_none() => Ok(found),
            Some(_) => Err(TranscriptProblem::OutOfPlace("this worker had ended")),
            None => Err(TranscriptProblem::OutOfPlace("this worker had not begun")),
        }
    }
}

/// The number of the entry worker's run.
pub(super) const ENTRY: u64 = 1;

impl WorkerRun {
    fn new(above: Option<u64>, workers: Vec<String>) -> Self {
        WorkerRun {
            above,
            workers,
            model: None,
            instructions: String::new(),
            tools: Vec::new(),
            trimmed: 0,
            messages: Vec::new(),
            turns: 0,
            calls: 0,
            usage: Usage::default(),
            cost_nano_usd: None,
            retries: Vec::new(),
            end: None,
            time: ElapsedTime::default(),
            timed_ms: None,
            calls_begun: 0,
            open: VecDeque::new(),
            ids: BTreeSet::new(),
            begun: BTreeSet::new(),
            came: BTreeMap::new(),
        }
    }

    fn add_usage(&mut self, usage: Usage, cost_nano_usd: Option<u64>) {
        self.usage = self.usage.saturating_add(usage);
        if let Some(cost) = cost_nano_usd {
            let before = self.cost_nano_usd.unwrap_or(0);
            self.cost_nano_usd = Some(before.saturating_add(cost));
        }
    }

    /// Checks that the model made a call in its last turn.
    fn check_call(&self, id: &str) -> Result<(), TranscriptProblem> {
        let no_such = TranscriptProblem::OutOfPlace("the model made no such call");
        self.ids.contains(id).then_some(()).ok_or(no_such)
    }

    fn begin_call(&mut self, id: String) -> Result<(), TranscriptProblem> {
        self.check_call(&id)?;
        self.calls_begun += u64::from(self.begun.insert(id));
        Ok(())
    }

    fn end_call(&mut self, result: ToolResult) -> Result<(), TranscriptProblem> {
        self.check_call(&result.id)?;
        self.came.insert(result.id.clone(), result);
        Ok(())
    }

    fn send_result(&mut self, id: &str) -> Result<(), TranscriptProblem> {
        let not_over = TranscriptProblem::OutOfPlace("the call was not over");
        let result = self.came.get(id).cloned().ok_or(not_over)?;
        self.say(Message::ToolResult(result))
    }

    fn say(&mut self, message: Message) -> Result<(), TranscriptProblem> {
        let no = |why| Err(TranscriptProblem::OutOfPlace(why));
        match &message {
            Message::Model { calls, .. } => {
                if self.messages.is_empty() {
                    return no("the model speaks before it was asked anything");
                }
                if !self.open.is_empty() {
                    return no("the model speaks before its calls have their results");
                }
                self.calls += u64::try_from(calls.len()).unwrap_or(u64::MAX);
                self.open = calls.iter().cloned().collect();
                self.ids = calls.iter().map(|call| call.id.clone()).collect();
                self.begun.clear();
                self.came.clear();
            }
            Message::Input { .. } => {
                if !self.open.is_empty() {
                    return no("something is asked before all calls have their results");
                }
            }
            Message::ToolResult(result) => {
                // In the order of the calls.
                if self.open.front().is_none_or(|call| call.id != result.id) {
                    return no("the result is not that of the call whose turn it is");
                }
                self.open.pop_front();
            }
        }
        self.messages.push(message);
        Ok(())
    }

    /// Repeats the last turn for a resumed run, if that made no call. The earlier program stopped
    /// at `stopped_ms`: its time since its last turn began counts as work.
    pub(super) fn resume(&mut self, stopped_ms: u64) {
        self.end = None;
        if let Some(timed_ms) = self.timed_ms.take() {
            self.time = self.time.plus_ms(stopped_ms.saturating_sub(timed_ms));
        }
        if self.open.is_empty()
            && let Some(Message::Model { calls, .. }) = self.messages.last()
            && calls.is_empty()
        {
            self.messages.pop();
        }
    }
}
