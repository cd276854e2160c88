//! The providers that need no key in any file. Their prices are not built in: a price that has
//! changed since would make a limit on money a promise that is not kept.

use std::collections::BTreeMap;

use crate::provider::{ApiKey, ModelProperties, ProviderSettings, Wire};
use crate::syntax::text::ConfigOrigin;

/// Default number of seconds of trying again.
pub(super) const RETRY_S: u64 = 120;

/// Name, wire, address and variable with the key. A new provider on a wire that is known is a new
/// row; `docs/models.md`, `docs/configuration.md` and the key `providers` list the names.
const PROVIDERS: &[(&str, Wire, &str, Option<&str>)] = &[
    (
        "anthropic",
        Wire::Anthropic,
        "https://api.anthropic.com/v1",
        Some("ANTHROPIC_API_KEY"),
    ),
    (
        "openai",
        Wire::OpenAiResponses,
        "https://api.openai.com/v1",
        Some("OPENAI_API_KEY"),
    ),
    (
        "ollama",
        Wire::OpenAiChat,
        "http://127.0.0.1:11434/v1",
        None,
    ),
];

/// Returns all of them.
pub(super) fn all() -> impl Iterator<Item = ProviderSettings> {
    PROVIDERS
        .iter()
        .map(|(name, wire, base_url, key)| ProviderSettings {
            name: (*name).to_owned(),
            wire: *wire,
            base_url: (*base_url).to_owned(),
            key: key.map_or(ApiKey::None, |name| ApiKey::Variable(name.to_owned())),
            stream: true,
            retry_s: RETRY_S,
            properties: ModelProperties::default(),
            models: BTreeMap::new(),
            origin: ConfigOrigin::built_in(),
        })
}
