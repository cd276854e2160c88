//! The record of a call: the request, the decision and its reasons, the approver, the runner, the
//! confinement.

use std::sync::{Mutex, PoisonError};

use sandbox_names::hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::change::Artifact;
use crate::gate::{Verdict, VerdictReason};
use crate::time::now_ms;

/// The decision about a call.
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
    pub reasons: Vec<VerdictReason>,
    /// Which runner was chosen, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    /// The answer to an *ask*: `allowed`, `denied`, `unanswered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<&'static str>,
    /// The person or rule that answered, or the reason why the question stayed unanswered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl DecisionRecord {
    /// A decision without a question, or none.
    pub fn new(verdict: Option<Verdict>, reasons: Vec<VerdictReason>) -> Self {
        DecisionRecord {
            verdict,
            reasons,
            runner: None,
            answer: None,
            by: None,
        }
    }

    /// The call failed before a decision.
    pub fn not_reached(why: impl Into<String>) -> Self {
        DecisionRecord::new(None, vec![VerdictReason::new(why)])
    }
}

/// A requested call with its decision, before anything is done.
///
/// ```
/// fn tool<'a>(asked: &forge_tools::DecisionEntry<'a>) -> &'a str {
///     asked.tool
/// }
/// ```
#[derive(Debug, Clone, Copy, Serialize)]
pub struct DecisionEntry<'a> {
    /// Milliseconds since 1970, when the call arrived.
    pub at_ms: u64,
    /// The workers from the entry down.
    pub workers: &'a [String],
    /// The tool.
    pub tool: &'a str,
    /// Its arguments as accepted (or as they came, if they were not).
    pub arguments: &'a Value,
    /// Its intents.
    pub intents: &'a [String],
    /// Its decision.
    pub decision: &'a DecisionRecord,
}

/// Something that a policy did to a call, beside the verdict on it.
///
/// ```
/// use forge_tools::{EventKind, PolicyEvent};
/// let event = PolicyEvent::new(EventKind::Exceeded, "its whole time");
/// assert_eq!(serde_json::json!(event)["event"], "exceeded");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyEvent {
    /// The kind of event.
    pub event: EventKind,
    /// The object of the event, in words.
    pub detail: String,
}

impl PolicyEvent {
    /// An event of a kind.
    pub fn new(event: EventKind, detail: impl Into<String>) -> Self {
        PolicyEvent {
            event,
            detail: detail.into(),
        }
    }
}

/// The kinds of [`PolicyEvent`].
///
/// ```
/// assert_eq!(serde_json::json!(forge_tools::EventKind::Refused), "refused");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The call was stopped by a rule, by a person, or because a person could not be asked.
    Denied,
    /// The worker is not able to do it: outside its mounts, read-only, no such capability.
    Refused,
    /// A limit ended it, or was run into.
    Exceeded,
    /// A file with a protected name was taken away from where a command had put it.
    Quarantined,
    /// Changes of a command in its directories are missing from the artifacts, at least in part.
    Untracked,
}

/// Everything that is kept of one call, once it is over.
///
/// ```
/// fn tool(record: &forge_tools::CallRecord) -> &str {
///     &record.tool
/// }
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct CallRecord {
    /// The number that the recorder gave the decision; `None` if it gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// Milliseconds since 1970, when the call arrived.
    pub at_ms: u64,
    /// The workers from the entry down.
    pub workers: Vec<String>,
    /// The tool.
    pub tool: String,
    /// Its arguments as accepted (or as they came, if they were not).
    pub arguments: Value,
    /// Its intents.
    pub intents: Vec<String>,
    /// Its decision.
    pub decision: DecisionRecord,
    /// Where it ran.
    pub runner: &'static str,
    /// `true` if it succeeded.
    pub ok: bool,
    /// The failure's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The exit code of the command that it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Bytes of text given back.
    pub content_bytes: usize,
    /// SHA-256 of that text.
    pub content_sha256: String,
    /// From the call to the result, in microseconds.
    pub duration_us: u64,
    /// Its confinement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<Value>,
    /// The files that it left behind or took away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The events of policies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<PolicyEvent>,
}

impl CallRecord {
    /// Returns the record of an act of forge itself, from now on. Its result is empty, and it succeeded;
    /// the caller sets the fields that differ.
    pub fn of_act(
        name: &str,
        arguments: Value,
        intents: Vec<String>,
        decision: DecisionRecord,
    ) -> CallRecord {
        CallRecord {
            call: None,
            at_ms: now_ms(),
            workers: Vec::new(),
            tool: name.to_owned(),
            arguments,
            intents,
            decision,
            runner: "none",
            ok: true,
            code: None,
            exit_code: None,
            content_bytes: 0,
            content_sha256: hex(Sha256::digest([])),
            duration_us: 0,
            enforcement: None,
            artifacts: Vec::new(),
            events: Vec::new(),
        }
    }

    /// `true` if the call or its command failed.
    pub fn is_failed(&self) -> bool {
        !self.ok || self.exit_code.is_some_and(|code| code != 0)
    }

    /// `true` if the call was stopped by a rule, by a person, or because a person could not be
    /// asked.
    pub fn is_denied(&self) -> bool {
        self.events
            .iter()
            .any(|event| event.event == EventKind::Denied)
    }

    /// The part that is known before anything is done.
    pub fn asked(&self) -> DecisionEntry<'_> {
        DecisionEntry {
            at_ms: self.at_ms,
            workers: &self.workers,
            tool: &self.tool,
            arguments: &self.arguments,
            intents: &self.intents,
            decision: &self.decision,
        }
    }
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
    /// Records a decision, before anything is done: after a kill between the two it is the only
    /// trace. Returns the number that ties it to the record that follows ([`CallRecord::call`]).
    ///
    /// # Errors
    ///
    /// It could not be kept. Nothing is done then.
    fn decided(&self, _: &DecisionEntry<'_>) -> std::io::Result<Option<u64>> {
        Ok(None)
    }

    /// Keeps the record of a call that is over.
    ///
    /// # Errors
    ///
    /// The record could not be written. The executor then answers the call with a failure: a call
    /// that cannot be recorded is not made silently.
    fn record(&self, record: &CallRecord) -> std::io::Result<()>;
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
    fn record(&self, _: &CallRecord) -> std::io::Result<()> {
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
    records: Mutex<Vec<CallRecord>>,
}

impl MemoryRecorder {
    /// The records so far, oldest first.
    pub fn records(&self) -> Vec<CallRecord> {
        self.records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Recorder for MemoryRecorder {
    fn record(&self, record: &CallRecord) -> std::io::Result<()> {
        self.records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(record.clone());
        Ok(())
    }
}
