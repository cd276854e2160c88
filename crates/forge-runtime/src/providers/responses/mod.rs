//! OpenAI Responses: `POST /v1/responses`. Nothing is stored there: every request carries the
//! whole conversation, thinking included, sealed by the provider.

mod answer;
mod ask;

pub(super) use answer::{Answer, whole};
pub(super) use ask::{SealedThinking, ask};
