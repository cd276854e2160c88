//! The transcript of a run: all input and output of its models, one JSON object a line, readable
//! for a person, and sufficient for a later program to resume the run.
//!
//! `entry` is the format, `fingerprint` the configuration that a run depends on (its model, the
//! grants and files of its workers), `write` writes a transcript during a run, `read` parses one
//! without trusting it, `history` finds the point from which a run can be resumed. The format is
//! described in `docs/runs.md`.

mod entry;
mod fingerprint;
mod history;
mod read;
mod write;

/// The JSON Schema (draft 2020-12) of one line of a transcript.
///
/// ```
/// let schema: serde_json::Value =
///     serde_json::from_str(forge_runtime::transcript::SCHEMA).unwrap();
/// assert_eq!(schema["$defs"]["begin"]["properties"]["format"]["const"], 1);
/// ```
pub const SCHEMA: &str = include_str!("schema.json");

pub use entry::{
    AttachedFile, FORMAT, MAX_BYTES, MAX_LINE_BYTES, MAX_LINES, ResumeRecord, TranscriptEntry,
    TranscriptHeader, TranscriptLine,
};
pub use fingerprint::{FingerprintChange, RunFingerprint, WorkerFingerprint};
pub use history::{History, InterruptedCall, NotResumable};
pub use read::{Transcript, TranscriptError, TranscriptProblem, WorkerRun, read};
pub use write::{TranscriptRecorder, TranscriptWriter};
