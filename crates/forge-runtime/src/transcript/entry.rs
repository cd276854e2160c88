//! The lines of a transcript.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::fingerprint::RunFingerprint;
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

/// One line: an event and its time.
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
    /// The event.
    #[serde(flatten)]
    pub entry: TranscriptEntry,
}

/// The content of a line. Worker runs are identified by their number: the entry worker's is 1.
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
    /// Another program resumes the run.
    #[serde(rename = "gone_on")]
    Resumed(Box<ResumeRecord>),
    /// A worker begins.
    Started {
        /// The number of its run.
        run: u64,
        /// The run of the calling worker; `None` for the entry worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        above: Option<u64>,
        /// From the entry worker down to this one.
        workers: Vec<String>,
    },
    /// A worker has its model and its tools.
    Prepared {
        /// The run.
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
        /// Its run.
        run: u64,
        /// The worker's first one is 1.
        turn: u64,
        /// The worker's time so far.
        #[serde(default)]
        time: ElapsedTime,
    },
    /// A turn failed in a way that passes, and is tried again.
    Retried {
        /// Its run.
        run: u64,
        /// The error, and the time of the retry.
        retry: Retry,
    },
    /// A turn is over, and used this.
    Used {
        /// Its run.
        run: u64,
        /// Tokens.
        usage: Usage,
        /// Billionths of a US dollar; `None` if no prices are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_nano_usd: Option<u64>,
    },
    /// Another entry of a worker's conversation.
    Said {
        /// Its run.
        run: u64,
        /// The entry.
        message: Message,
    },
    /// A call begins. Written before its execution.
    Call {
        /// The calling run.
        run: u64,
        /// The id that the model gave it.
        id: String,
    },
    /// A call has ended; the model has not got its result yet.
    #[serde(rename = "came")]
    CallEnded {
        /// The calling run.
        run: u64,
        /// The result for the model.
        result: ToolResult,
    },
    /// The model gets the result of a call: the one recorded in `came`.
    #[serde(rename = "told")]
    ResultSent {
        /// The run of the conversation.
        run: u64,
        /// The call.
        id: String,
    },
    /// The oldest results are left out of all later requests.
    #[serde(rename = "left_out")]
    ContextTrimmed {
        /// Its run.
        run: u64,
        /// The calls whose results were removed.
        calls: Vec<String>,
        /// Approximate tokens of the conversation before.
        tokens: u64,
    },
    /// A worker ended.
    Ended {
        /// The run.
        run: u64,
        /// How.
        end: RunOutcome,
        /// The worker's time.
        #[serde(default)]
        time: ElapsedTime,
    },
}

/// The header of a transcript.
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
    /// The model as it was named on the command line; `None` if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_flag: Option<String>,
    /// The input of the entry worker, including the list of attached files.
    pub input: String,
    /// The files that were attached, in order: copies of them lie beside the transcript.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<AttachedFile>,
    /// JSON Schema of its answer in this run, in place of the worker's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// The configuration that the run depends on.
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
    /// Size of the copy.
    pub bytes: u64,
    /// SHA-256 (hex) of the copy.
    pub sha256: String,
}

impl AttachedFile {
    /// Describes an attachment.
    pub fn of(kept: &Attachment) -> AttachedFile {
        AttachedFile {
            name: kept.name().to_owned(),
            bytes: u64::try_from(kept.bytes().len()).unwrap_or(u64::MAX),
            sha256: sandbox_names::hex(Sha256::digest(kept.bytes())),
        }
    }
}

/// A program that resumes a run.
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
    /// The model as it was named on the command line; `None` if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_flag: Option<String>,
    /// The configuration that the run depends on from here on.
    pub basis: RunFingerprint,
    /// JSON Schema of the answer from here on; `None` if unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
    /// Changes of the configuration that a person accepted, one an element.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<String>,
    /// The calls whose results were not recorded: the model is told that they were interrupted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<String>,
}
