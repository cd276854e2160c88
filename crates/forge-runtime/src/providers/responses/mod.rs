//! OpenAI Responses: `POST /v1/responses`. The server stores no conversation: every request carries
//! the whole conversation, thinking included, sealed by the provider.

mod request;
mod response;

pub(super) use request::{SealedThinking, ask};
pub(super) use response::{ResponsesParser, whole};
