//! A configured provider: plain values, checked once.

use std::sync::{Arc, OnceLock};

use reqwest::Url;

use super::key::ProviderKey;
use super::settings::{ProviderError, ResponseLimits};
use crate::model::{TokenPrices, Wire};

/// An endpoint with models, and their known properties.
///
/// ```
/// use forge_runtime::{Model as _, TokenPrices, ProviderEndpoint, Wire};
/// let local = ProviderEndpoint::new("local", Wire::OpenAiChat, "http://127.0.0.1:8080/v1", 4_096)
///     .unwrap()
///     .context_tokens(32_768)
///     .stream(false);
/// let model = local.model("qwen3").unwrap();
/// assert_eq!(model.name(), "local:qwen3");
/// assert_eq!(model.context_tokens(), Some(32_768));
/// ```
#[derive(Debug, Clone)]
pub struct ProviderEndpoint {
    pub(super) name: String,
    pub(super) wire: Wire,
    pub(super) url: Url,
    pub(super) key: Option<ProviderKey>,
    pub(super) max_tokens: u64,
    pub(super) context_tokens: Option<u64>,
    pub(super) prices: Option<TokenPrices>,
    pub(super) stream: bool,
    pub(super) bounds: ResponseLimits,
    /// One for all models of the provider: its connections are used again.
    pub(super) client: Arc<OnceLock<reqwest::Client>>,
}

impl ProviderEndpoint {
    /// A provider of this name that speaks `wire` below `base_url`, and writes no more than
    /// `max_tokens` in one turn.
    ///
    /// # Errors
    ///
    /// If `base_url` is not an http or https URL, or contains a password.
    pub fn new(
        name: impl Into<String>,
        wire: Wire,
        base_url: &str,
        max_tokens: u64,
    ) -> Result<Self, ProviderError> {
        Ok(ProviderEndpoint {
            name: name.into(),
            wire,
            url: address(wire, base_url)?,
            key: None,
            max_tokens,
            context_tokens: None,
            prices: None,
            stream: true,
            bounds: ResponseLimits::default(),
            client: Arc::default(),
        })
    }

    sandbox_names::setters! {
        /// Sets the key of every request.
        key(key: ProviderKey) = Some(key);
        /// Sets the limit on tokens of a conversation.
        context_tokens(tokens: u64) = Some(tokens);
        /// Sets the prices of tokens.
        prices(prices: TokenPrices) = Some(prices);
        /// Sets whether answers are streamed, which is the default. Some local servers only make proper
        /// calls in one piece.
        stream(stream: bool) = stream;
        /// Other bounds.
        bounds(bounds: ResponseLimits) = bounds;
    }
}

/// Returns the URL of requests.
fn address(wire: Wire, base_url: &str) -> Result<Url, ProviderError> {
    let mut url =
        Url::parse(base_url).map_err(|error| ProviderError::NotAUrl(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ProviderError::NotHttp(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ProviderError::HoldsPassword);
    }
    let base = url.path().trim_end_matches('/').to_owned();
    let call = match wire {
        Wire::Anthropic => "messages",
        Wire::OpenAiChat => "chat/completions",
        Wire::OpenAiResponses => "responses",
    };
    url.set_path(&format!("{base}/{call}"));
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let rows = [
            (
                Wire::Anthropic,
                "https://api.anthropic.com/v1",
                "https://api.anthropic.com/v1/messages",
            ),
            (
                Wire::Anthropic,
                "https://api.anthropic.com/v1/",
                "https://api.anthropic.com/v1/messages",
            ),
            (
                Wire::Anthropic,
                "http://127.0.0.1:1/proxy",
                "http://127.0.0.1:1/proxy/messages",
            ),
            (
                Wire::OpenAiChat,
                "https://api.openai.com/v1",
                "https://api.openai.com/v1/chat/completions",
            ),
            (
                Wire::OpenAiChat,
                "http://[::1]:8080/v1?version=2#x",
                "http://[::1]:8080/v1/chat/completions?version=2",
            ),
            (
                Wire::OpenAiResponses,
                "https://api.openai.com/v1//",
                "https://api.openai.com/v1/responses",
            ),
        ];
        for (wire, base, url) in rows {
            assert_eq!(
                address(wire, base).as_ref().map(Url::as_str),
                Ok(url),
                "{base}"
            );
        }
        let refused = |base| address(Wire::OpenAiChat, base);
        assert!(matches!(
            refused("localhost:8080"),
            Err(ProviderError::NotHttp(_))
        ));
        assert!(matches!(refused("//host"), Err(ProviderError::NotAUrl(_))));
        assert_eq!(
            refused("https://a:b@host/"),
            Err(ProviderError::HoldsPassword)
        );
        assert_eq!(
            refused("https://a@host/"),
            Err(ProviderError::HoldsPassword)
        );
    }
}
