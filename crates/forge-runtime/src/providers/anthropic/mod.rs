//! Anthropic Messages: `POST /v1/messages`.

mod request;
mod response;

pub(super) use request::ask;
pub(super) use response::{AnthropicParser, whole};

/// Prefix of the signature of a block that only consists of its seal (`redacted_thinking`). Real
/// signatures are base64 and contain no colon.
const REDACTED: &str = "redacted:";
