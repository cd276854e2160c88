//! The providers that need no key in any file. Their prices are not built in: a price that has
//! changed since would make a limit on money a promise that is not kept.

use std::collections::BTreeMap;

use crate::provider::{ApiKey, ModelProperties, ProviderSettings, Wire};
use crate::syntax::text::ConfigOrigin;

/// Default number of seconds of trying again.
pub(super) const RETRY_S: u64 = 120;

/// All of them.
pub(super) fn all() -> [ProviderSettings; 3] {
    [
        provider(
            "anthropic",
            Wire::Anthropic,
            "https://api.anthropic.com/v1",
            ApiKey::Variable("ANTHROPIC_API_KEY".to_owned()),
        ),
        provider(
            "openai",
            Wire::OpenAiResponses,
            "https://api.openai.com/v1",
            ApiKey::Variable("OPENAI_API_KEY".to_owned()),
        ),
        provider(
            "ollama",
            Wire::OpenAiChat,
            "http://127.0.0.1:11434/v1",
            ApiKey::None,
        ),
    ]
}

fn provider(name: &str, wire: Wire, base_url: &str, key: ApiKey) -> ProviderSettings {
    ProviderSettings {
        name: name.to_owned(),
        wire,
        base_url: base_url.to_owned(),
        key,
        stream: true,
        retry_s: RETRY_S,
        properties: ModelProperties::default(),
        models: BTreeMap::new(),
        origin: ConfigOrigin::built_in(),
    }
}
