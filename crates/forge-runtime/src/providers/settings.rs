//! The values that a provider is configured with, and the reasons to refuse them.

use crate::model::Wire;

/// Limits on the size and the duration of an answer.
///
/// ```
/// let bounds = forge_runtime::ResponseLimits { total_ms: 60_000, ..Default::default() };
/// assert!(bounds.idle_ms >= bounds.connect_ms);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Until the connection is established.
    pub connect_ms: u64,
    /// Without a single byte.
    pub idle_ms: u64,
    /// With signs of life, but without content.
    pub progress_ms: u64,
    /// Of a whole turn.
    pub total_ms: u64,
    /// Of a whole answer, as it comes over the wire.
    pub answer_bytes: usize,
    /// Of one event in it, and of an answer in one piece; on the wire of OpenAI Responses, whose
    /// last event repeats the whole answer, four times that.
    pub event_bytes: usize,
}

impl ResponseLimits {
    /// Returns how long one event may be, or an answer in one piece.
    pub(super) fn event_limit(&self, wire: Wire) -> usize {
        let most = match wire {
            Wire::Anthropic | Wire::OpenAiChat => self.event_bytes,
            Wire::OpenAiResponses => self.event_bytes.saturating_mul(4),
        };
        most.min(self.answer_bytes)
    }
}

impl Default for ResponseLimits {
    fn default() -> Self {
        ResponseLimits {
            connect_ms: 30_000,
            // Thinking models send no bytes for minutes.
            idle_ms: 300_000,
            progress_ms: 600_000,
            total_ms: 3_600_000,
            // Each of many thousand words comes with hundreds of bytes around it.
            answer_bytes: 64 * 1024 * 1024,
            // Parsed data can take fifty times its bytes; on the wire of Responses, whose events
            // are parsed directly, less than that.
            event_bytes: 4 * 1024 * 1024,
        }
    }
}

/// Why a provider cannot be used as it was configured.
///
/// ```
/// use forge_runtime::{ProviderEndpoint, ProviderError, Wire};
/// let error = ProviderEndpoint::new("mine", Wire::OpenAiChat, "ftp://example.com", 4_096).unwrap_err();
/// assert!(matches!(error, ProviderError::NotHttp(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// No URL.
    #[error("the base URL cannot be read: {0}")]
    NotAUrl(String),
    /// A URL of another kind.
    #[error("the base URL is neither http nor https, but {0}")]
    NotHttp(String),
    /// A password in the URL; keys have their own setting, which is never shown.
    #[error("the base URL holds a user or a password")]
    HoldsPassword,
    /// A variable of the environment that names a proxy, and cannot be used.
    #[error("the proxy of the variable {variable} cannot be used: {why}")]
    Proxy {
        /// The variable.
        variable: &'static str,
        /// The problem; never its value, which may contain a password.
        why: String,
    },
    /// The client could not be made, for want of the system's certificates say.
    #[error("no connection can be made: {0}")]
    Client(String),
}
