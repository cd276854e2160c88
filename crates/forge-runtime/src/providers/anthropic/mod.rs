//! Anthropic Messages: `POST /v1/messages`.

mod request;
mod response;

pub(super) use request::ask;
pub(super) use response::{AnthropicParser, whole};

/// Begins the signature of a block that is nothing but its seal (`redacted_thinking`). No
/// signature has a colon, they are base64.
const REDACTED: &str = "redacted:";
