//! OpenAI Chat Completions, as many speak it: `POST /v1/chat/completions`.

mod request;
mod response;

pub(super) use request::{LimitName, ask};
pub(super) use response::{ChatParser, whole};
