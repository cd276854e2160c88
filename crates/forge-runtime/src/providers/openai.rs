//! What both wires of OpenAI have in common.

use serde::Deserialize;

/// A call of which more may come.
#[derive(Debug, Default)]
pub(super) struct PartialCall {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: String,
}

/// What tokens that were read came from.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Details {
    cached_tokens: Option<u64>,
}

impl Details {
    /// How many came from the cache; who does not say took none.
    pub(super) fn cached(details: Option<&Self>) -> u64 {
        details
            .and_then(|details| details.cached_tokens)
            .unwrap_or(0)
    }
}
