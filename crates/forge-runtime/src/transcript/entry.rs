//! The lines of a transcript.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::fingerprint::{RunFingerprint, hex};
use crate::model::{Message, Retry, ToolDescription, ToolResult, Usage};
use crate::report::{ElapsedTime, RunOutcome};
use crate::session::Attachment;

/// The version of the format. A program that knows this one does not read any other.
pub const FORMAT: u64 = 1;
/// The longest line, its newline included.
pub const MAX_LINE_BYTES: usize = 32 << 20;
/// The most lines.
pub const MAX_LINES: u64 = 1 << 20;
/// The most bytes.
pub const MAX_BYTES: u64 = 1 << 30;

/// One line: something that happened, and when.
///
/// ```
/// use forge_runtime::transcript::TranscriptLine;
/// let line: TranscriptLine = serde_json::from_str(r#"{"at_ms":7,"kind":"turn","run":1,"turn":2}"#).unwrap();
/// assert_eq!(line.at_ms, 7);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptLine {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub entry: TranscriptEntry,
}

/// What a line says. Runs of workers are told apart by their number: the entry worker's is 1.
///
/// ```
/// use forge_runtime::transcript::TranscriptEntry;
/// let entry: TranscriptEntry = serde_json::from_str(r#"{"kind":"call","run":1,"id":"c1"}"#).unwrap();
/// assert_eq!(entry, TranscriptEntry::Call { run: 1, id: "c1".into() });
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TranscriptEntry {
    /// The first line: which run this is.
    Begin(Box<TranscriptHeader>),
    /// Another program goes on with the run.
    #[serde(rename = "gone_on")]
    Resumed(Box<ResumeRecord>),
    /// A worker begins.
    Started {
        /// The number of its run.
        run: u64,
        /// The run of the worker that called it; none: the entry worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        above: Option<u64>,
        /// From the entry worker down to this one.
        workers: Vec<String>,
    },
    /// A worker has its model and its tools.
    Prepared {
        /// Which.
        run: u64,
        /// Its model, `provider:model`.
        model: String,
        /// Its instructions, as the model is sent them.
        instructions: String,
        /// Its tools, as the model is sent them.
        tools: Vec<ToolDescription>,
    },
    /// The model is asked for its next turn.
    Turn {
        /// Whose.
        run: u64,
        /// The worker's first one is 1.
        turn: u64,
        /// How long the worker has been at it.
        #[serde(default)]
        time: ElapsedTime,
    },
    /// A turn failed in a way that passes, and is tried again.
    Retried {
        /// Whose.
        run: u64,
        /// What went wrong, and when it is tried again.
        retry: Retry,
    },
    /// A turn is over, and used this.
    Used {
        /// Whose.
        run: u64,
        /// Tokens.
        usage: Usage,
        /// Billionths of a US dollar; none: no prices are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_nano_usd: Option<u64>,
    },
    /// Another entry of a worker's conversation.
    Said {
        /// Whose.
        run: u64,
        /// The entry.
        message: Message,
    },
    /// A call begins. Written before anything of it is done.
    Call {
        /// Who makes it.
        run: u64,
        /// The id that the model gave it.
        id: String,
    },
    /// A call is over; the model has not been told of it yet.
    #[serde(rename = "came")]
    CallEnded {
        /// Who made it.
        run: u64,
        /// What the model will be told.
        result: ToolResult,
    },
    /// The model is told what a call came to: the result as it stands in `came`.
    #[serde(rename = "told")]
    ResultSent {
        /// Whose conversation.
        run: u64,
        /// The call.
        id: String,
    },
    /// The oldest results are left out of what the model is sent from now on.
    #[serde(rename = "left_out")]
    ContextTrimmed {
        /// Whose.
        run: u64,
        /// The calls whose results are left out.
        calls: Vec<String>,
        /// How many tokens the conversation had, about.
        tokens: u64,
    },
    /// A worker ended.
    Ended {
        /// Which.
        run: u64,
        /// How.
        end: RunOutcome,
        /// How long the worker was at it.
        #[serde(default)]
        time: ElapsedTime,
    },
}

/// Which run a transcript is of.
///
/// ```
/// fn name(begin: &forge_runtime::transcript::TranscriptHeader) -> &str {
///     &begin.name
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptHeader {
    /// [`FORMAT`].
    pub format: u64,
    /// The version of the program that began it.
    pub forge: String,
    /// The name of the run.
    pub name: String,
    /// The directory of the project that the worker is of.
    pub project: String,
    /// The entry worker.
    pub worker: String,
    /// Its file, if it is of no project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The model as it was named on the command line; none: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_flag: Option<String>,
    /// What the entry worker was asked, with what was said of attached files.
    pub input: String,
    /// The files that were attached, in order: copies of them lie beside the transcript.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<AttachedFile>,
    /// What its answer has to be in this run, in place of what the worker says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// What the run rests upon.
    pub basis: RunFingerprint,
}

/// A file that was attached to the input of the entry worker.
///
/// ```
/// use forge_runtime::transcript::AttachedFile;
/// let attached = AttachedFile::of(&forge_runtime::Attachment::new("a.md", b"hello".as_slice()));
/// assert_eq!((attached.name.as_str(), attached.bytes), ("a.md", 5));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedFile {
    /// Its name.
    pub name: String,
    /// How long the copy is.
    pub bytes: u64,
    /// SHA-256 (hex) of the copy.
    pub sha256: String,
}

impl AttachedFile {
    /// Of what is kept.
    pub fn of(kept: &Attachment) -> AttachedFile {
        AttachedFile {
            name: kept.name().to_owned(),
            bytes: u64::try_from(kept.bytes().len()).unwrap_or(u64::MAX),
            sha256: hex(Sha256::digest(kept.bytes())),
        }
    }
}

/// A program that goes on with a run.
///
/// ```
/// fn version(resumed: &forge_runtime::transcript::ResumeRecord) -> &str {
///     &resumed.forge
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResumeRecord {
    /// Its version.
    pub forge: String,
    /// The model as it was named on the command line; none: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_flag: Option<String>,
    /// What the run rests upon from here on.
    pub basis: RunFingerprint,
    /// What the answer has to be from here on; none: what it had to be before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// What a person agreed to, if it rested upon something else before: one change an element.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<String>,
    /// The calls whose results were not kept: the model is told that they were interrupted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<String>,
}
