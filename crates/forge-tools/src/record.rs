//! What is kept of every call: what was asked, what was decided and why, who
//! agreed, where it ran, what confined it.

use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::change::Artifact;
use crate::gate::{Reason, Verdict};

/// What was decided about a call.
///
/// ```
/// let none = forge_tools::DecisionRecord::not_reached("no such tool");
/// assert_eq!(none.reasons[0].text, "no such tool");
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct DecisionRecord {
    /// `allow`, `ask` or `block`; absent if the call failed before anyone decided.
    pub verdict: Option<Verdict>,
    /// Why, the deciding reason first; never empty.
    pub reasons: Vec<Reason>,
    /// Which runner was chosen, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    /// What an *ask* was answered with: `allowed`, `denied`, `unanswered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<&'static str>,
    /// Who answered, or why nobody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl DecisionRecord {
    /// The call failed before a decision.
    pub fn not_reached(why: impl Into<String>) -> Self {
        DecisionRecord {
            verdict: None,
            reasons: vec![Reason::new(why)],
            runner: None,
            answer: None,
            by: None,
        }
    }
}

/// One line of the audit log.
///
/// ```
/// fn tool(record: &forge_tools::Record) -> &str {
///     &record.tool
/// }
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// Milliseconds since 1970, when the call arrived.
    pub at_ms: u64,
    /// The workers from the entry down.
    pub workers: Vec<String>,
    /// The tool.
    pub tool: String,
    /// Its arguments as accepted (or as they came, if they were not).
    pub arguments: Value,
    /// What it would touch.
    pub intents: Vec<String>,
    /// What was decided.
    pub decision: DecisionRecord,
    /// Where it ran.
    pub runner: &'static str,
    /// Whether it did what it was asked.
    pub ok: bool,
    /// The failure's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Bytes of text given back.
    pub content_bytes: usize,
    /// SHA-256 of that text.
    pub content_sha256: String,
    /// From the call to the result, in microseconds.
    pub duration_us: u64,
    /// What confined it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<Value>,
    /// The files that it left behind or took away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}

/// Keeps records.
///
/// ```
/// use forge_tools::{MemoryRecorder, Recorder};
/// let recorder = MemoryRecorder::default();
/// assert!(recorder.records().is_empty());
/// # let _: &dyn Recorder = &recorder;
/// ```
pub trait Recorder: Send + Sync + 'static {
    /// Keeps one record.
    ///
    /// # Errors
    ///
    /// It could not be kept. The executor then answers the call with a failure:
    /// what cannot be recorded is not done silently.
    fn record(&self, record: &Record) -> std::io::Result<()>;
}

/// Keeps nothing; for programs that record elsewhere.
///
/// ```
/// # let _: &dyn forge_tools::Recorder = &
/// forge_tools::NoRecord;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRecord;

impl Recorder for NoRecord {
    fn record(&self, _: &Record) -> std::io::Result<()> {
        Ok(())
    }
}

/// Keeps records in memory, without bound: for tests and short runs.
///
/// ```
/// let recorder = forge_tools::MemoryRecorder::default();
/// assert_eq!(recorder.records().len(), 0);
/// ```
#[derive(Debug, Default)]
pub struct MemoryRecorder {
    records: Mutex<Vec<Record>>,
}

impl MemoryRecorder {
    /// What was kept so far, oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Recorder for MemoryRecorder {
    fn record(&self, record: &Record) -> std::io::Result<()> {
        self.records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(record.clone());
        Ok(())
    }
}

/// The audit log: JSON Lines, one write a record, so that a kill between two calls
/// leaves whole lines only.
///
/// The caller opens the file (append, mode 0600); this type never sees a path.
///
/// ```
/// use forge_tools::{AuditLog, Recorder};
/// let log = AuditLog::new(tempfile::tempfile().unwrap());
/// # let _: &dyn Recorder = &log;
/// ```
#[derive(Debug)]
pub struct AuditLog {
    file: Mutex<File>,
}

impl AuditLog {
    /// A log that appends to `file`.
    pub fn new(file: File) -> Self {
        AuditLog {
            file: Mutex::new(file),
        }
    }

    /// Brings everything written so far to the disk.
    ///
    /// # Errors
    ///
    /// As `fsync(2)`.
    pub fn sync(&self) -> std::io::Result<()> {
        self.file
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .sync_data()
    }
}

impl Recorder for AuditLog {
    fn record(&self, record: &Record) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(record).map_err(std::io::Error::other)?;
        line.push(b'\n');
        self.file
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_all(&line)
    }
}
