//! Anthropic Messages: `POST /v1/messages`.

mod answer;
mod ask;

pub(super) use answer::{Answer, whole};
pub(super) use ask::ask;

/// Begins the signature of a block that is nothing but its seal (`redacted_thinking`). No
/// signature has a colon, they are base64.
const REDACTED: &str = "redacted:";
