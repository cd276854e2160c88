//! The audit: requests, decisions with their reasons, and results, in a log of which every line
//! holds the hash of the line before it.
//!
//! The executor talks to a [`Recorder`]. [`AuditLog`] is the one that writes files; [`Verifier`]
//! tells if such files are still as written. The format is described field by field in
//! `docs/audit.md`.

mod line;
mod log;
mod read;
mod record;
mod reserve;
mod shorten;
mod verify;

/// The JSON Schema (draft 2020-12) of one line of the log.
///
/// ```
/// let schema: serde_json::Value = serde_json::from_str(forge_tools::audit::SCHEMA).unwrap();
/// assert_eq!(schema["$defs"]["begin"]["properties"]["format"]["const"], 1);
/// ```
pub const SCHEMA: &str = include_str!("schema.json");

pub use line::{MAX_LINE_BYTES, segment_name};
pub use log::{AuditLog, CallCounts, LogOptions, LogSeal};
pub use read::{LineReader, RawLine};
pub use record::{
    CallRecord, DecisionEntry, DecisionRecord, EventKind, MemoryRecorder, NoRecord, PolicyEvent,
    Recorder,
};
pub use verify::{Integrity, LogDefect, LogPosition, VerificationReport, Verifier, verify};
