//! The messages on a queue's socket: one line of JSON for the request, one for the response. Lines
//! are bounded, since the peer may be any program.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
};

/// Longest request, in bytes.
pub(super) const MAX_REQUEST_BYTES: u64 = 16 * 1024;

/// Longest response, in bytes: the longest text with each character escaped, and some more.
pub(super) const MAX_RESPONSE_BYTES: u64 = 8 * 1024 * 1024;

/// A request of an approver.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum QueueRequest {
    /// Lists the open requests.
    List,
    /// One request, whole.
    Show {
        /// The ID of the request.
        id: String,
    },
    /// An answer to one request.
    Answer {
        /// The ID of the request.
        id: String,
        /// Yes or no.
        said: ApprovalDecision,
        /// The reason of a refusal, in the person's words.
        reason: Option<String>,
        /// The terminal that it was typed on.
        tty: Option<String>,
    },
}

sandbox_names::word_enum! {
    /// An answer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum ApprovalDecision {
        /// Yes, this call.
        AllowOnce = "allow_once",
        /// Yes, and the same call again until the process ends.
        AllowRun = "allow_run",
        /// No.
        Deny = "deny",
    }
    /// The word for programs.
    pub(crate) fn as_str
}

/// A response of a queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum QueueResponse {
    /// The open requests.
    Open {
        /// Oldest first.
        requests: Vec<QuestionSummary>,
    },
    /// One request.
    Request {
        /// In short.
        request: QuestionSummary,
        /// Exactly the text to show to the person.
        text: String,
    },
    /// The answer was taken.
    Taken,
    /// Another approver was faster.
    Already {
        /// Its identity and its answer.
        how: String,
    },
    /// The request is unknown or closed.
    Unknown,
    /// It could not be understood.
    Unreadable {
        /// Why.
        why: String,
    },
}

/// One open request in short: to choose by, not to agree to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuestionSummary {
    /// Its name; holds a digest of its text.
    pub(crate) id: String,
    /// Milliseconds since 1970, when it was asked.
    pub(crate) at_ms: u64,
    /// The worker that makes the call.
    pub(crate) worker: String,
    /// The tool.
    pub(crate) tool: String,
    /// The effect of the call, shortened.
    pub(crate) what: String,
    /// `true` if the call waits for the answer.
    pub(crate) waiting: bool,
    /// Seconds in which it can still be answered.
    pub(crate) left_s: u64,
    /// The rules with which it would not have been asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rules_to_allow: Vec<String>,
    /// The host of a question about a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
}

/// Reads one line of at most `max_bytes`.
pub(super) async fn read<T: DeserializeOwned>(
    stream: impl AsyncRead + Unpin,
    max_bytes: u64,
) -> std::io::Result<T> {
    let invalid = |why: String| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    let mut line = Vec::new();
    let mut bounded = tokio::io::BufReader::new(stream.take(max_bytes + 1));
    bounded.read_until(b'\n', &mut line).await?;
    if u64::try_from(line.len()).unwrap_or(u64::MAX) > max_bytes {
        return Err(invalid(format!("a line is longer than {max_bytes} bytes")));
    }
    if line.last() != Some(&b'\n') {
        return Err(invalid("the line has no end".to_owned()));
    }
    serde_json::from_slice(&line).map_err(|_| invalid("the line is not a message".to_owned()))
}

/// Writes one line.
pub(super) async fn write(
    mut stream: impl AsyncWrite + Unpin,
    message: &impl Serialize,
) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.shutdown().await
}
