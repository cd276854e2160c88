//! The transcript of a run: everything that its models saw and said, one JSON object a line, so
//! that a person can read it and a later program go on from it.
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
