//! Parts that both wires of OpenAI share.

use serde::Deserialize;

use super::token_count::{OptionalCounts, TokenCount};
use super::turn_reader::arguments;
use crate::model::ToolCall;

/// A call of which more may come.
#[derive(Debug, Default)]
pub(super) struct PartialCall {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: String,
}

/// Returns the calls of an ended turn. One without an ID gets a number as its ID.
pub(super) fn completed(
    calls: impl IntoIterator<Item = PartialCall>,
) -> impl Iterator<Item = ToolCall> {
    let calls = calls.into_iter().enumerate();
    calls.map(|(nth, call)| ToolCall {
        id: match call.id.is_empty() {
            true => format!("call_{nth}"),
            false => call.id,
        },
        tool: call.tool,
        arguments: arguments(&call.arguments),
    })
}

/// Details of the input tokens.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InputTokenDetails {
    cached_tokens: TokenCount,
}

impl InputTokenDetails {
    /// Returns the number of cached tokens; zero if not reported.
    pub(super) fn cached(details: &OptionalCounts<Self>) -> u64 {
        let details = details.0.as_ref();
        details.map_or(0, |details| details.cached_tokens.or_zero())
    }
}
