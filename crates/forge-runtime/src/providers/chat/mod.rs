//! OpenAI Chat Completions, as many speak it: `POST /v1/chat/completions`.

mod answer;
mod ask;

pub(super) use answer::{Answer, whole};
pub(super) use ask::{LimitName, ask};
