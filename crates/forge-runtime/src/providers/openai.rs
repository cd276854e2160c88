//! Parts that both wires of OpenAI share.

use serde::Deserialize;

use super::token_count::{OptionalCounts, TokenCount};

/// A call of which more may come.
#[derive(Debug, Default)]
pub(super) struct PartialCall {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: String,
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
