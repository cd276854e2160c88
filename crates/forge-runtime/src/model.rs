//! The loop's view of a model, in types of our own. A transcript stores them as well, so that no
//! provider's wire format leaks into either.

use std::sync::Arc;

pub use sandbox_config::{TokenPrices, Wire};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

/// One entry of a conversation.
///
/// ```
/// use forge_runtime::Message;
/// let message = Message::Input { text: "audit this".into() };
/// assert_eq!(serde_json::to_value(&message).unwrap()["role"], "input");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// The input of the worker.
    Input {
        /// The text.
        text: String,
    },
    /// One turn of the model.
    Model {
        /// Its text; may be empty.
        text: String,
        /// Its thinking, as far as its provider shows it and wants it back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        thinking: Vec<Thinking>,
        /// The calls it made.
        calls: Vec<ToolCall>,
    },
    /// The result of one call.
    ToolResult(ToolResult),
}

/// One block of a model's thinking. Providers that sign their blocks refuse a turn without them, so
/// a block is stored unchanged.
///
/// ```
/// let block = forge_runtime::Thinking { text: "first the lock file".into(), signature: None };
/// assert_eq!(serde_json::to_value(&block).unwrap()["text"], "first the lock file");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinking {
    /// The thinking; empty if the provider hides it.
    pub text: String,
    /// The provider's seal on the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// A call that a model made.
///
/// ```
/// let call = forge_runtime::ToolCall {
///     id: "c1".into(), tool: "read_file".into(), arguments: serde_json::json!({"path": "/a"}),
/// };
/// assert_eq!(call.tool, "read_file");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Ties the result to the call.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: Value,
}

/// The result of a call, as it goes back to the model.
///
/// ```
/// fn text(result: &forge_runtime::ToolResult) -> &str {
///     &result.content
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The text for the model.
    pub content: String,
    /// `true` if the call failed.
    pub is_error: bool,
    /// The whole result for programs (`forge tools call --json` prints it as well); it is not sent
    /// to a provider.
    pub detail: Value,
}

/// A tool as described to a model.
///
/// ```
/// fn name(tool: &forge_runtime::ToolDescription) -> &str {
///     &tool.name
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDescription {
    /// Its name.
    pub name: String,
    /// Its effect.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
}

/// The input of a model's next turn.
///
/// ```
/// let request = forge_runtime::ModelRequest {
///     worker: "main".into(), instructions: String::new(), tools: vec![], messages: vec![],
/// };
/// assert_eq!(request.turns_so_far(), 0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The running worker.
    pub worker: String,
    /// Its instructions (the system text).
    pub instructions: String,
    /// Its tools, in a fixed order.
    pub tools: Vec<ToolDescription>,
    /// The conversation so far.
    pub messages: Vec<Message>,
}

impl ModelRequest {
    /// Returns the number of the model's turns in this conversation.
    pub fn turns_so_far(&self) -> usize {
        self.messages
            .iter()
            .filter(|message| matches!(message, Message::Model { .. }))
            .count()
    }
}

/// An event of a turn. A turn ends with [`ModelEvent::End`] or [`ModelEvent::Failed`]; a stream
/// that stops without either was cut, and none of its calls is executed.
///
/// ```
/// let event = forge_runtime::ModelEvent::Text("hello".into());
/// assert!(matches!(event, forge_runtime::ModelEvent::Text(_)));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// A whole block of thinking.
    Thinking(Thinking),
    /// A whole call.
    Call(ToolCall),
    /// The model is working without output: a heartbeat, or a part of an item that is only passed
    /// on complete.
    Heartbeat,
    /// The turn starts again: its events so far are void.
    Retry(Retry),
    /// Usage of the turn; several add up. A limit on tokens counts the reported usage.
    Usage(Usage),
    /// The turn is complete.
    End(StopReason),
    /// The turn failed.
    Failed(ModelError),
}

/// A turn that failed in a way that passes, and is tried again.
///
/// ```
/// let retry = forge_runtime::Retry { attempt: 2, wait_ms: 1_500, reason: "429".into() };
/// assert_eq!(retry.attempt, 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The number of the next attempt; the first one was 1.
    pub attempt: u32,
    /// The pause before it.
    pub wait_ms: u64,
    /// Why the one before failed.
    pub reason: String,
}

/// Tokens that a turn used.
///
/// ```
/// use forge_runtime::Usage;
/// let usage = Usage { input_tokens: 900, output_tokens: 100, ..Usage::default() };
/// assert_eq!(usage.total(), 1_000);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[must_use]
pub struct Usage {
    /// Read by the model, those of a cache included.
    pub input_tokens: u64,
    /// Written by it, thinking included.
    pub output_tokens: u64,
    /// Of those it read: taken from the provider's cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// Of those it read: written into the provider's cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl Usage {
    /// Both together.
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// This and another one.
    pub fn saturating_add(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_tokens: self
                .cache_read_tokens
                .saturating_add(other.cache_read_tokens),
            cache_write_tokens: self
                .cache_write_tokens
                .saturating_add(other.cache_write_tokens),
        }
    }

    /// Returns the cost, in billionths of a US dollar.
    ///
    /// ```
    /// use forge_runtime::{TokenPrices, Usage};
    /// // 3 and 15 dollars for a million.
    /// let prices = TokenPrices { input: 3_000, output: 15_000, ..TokenPrices::default() };
    /// let usage = Usage { input_tokens: 1_000, output_tokens: 100, ..Usage::default() };
    /// assert_eq!(usage.cost(prices), 4_500_000);
    /// ```
    pub fn cost(self, prices: TokenPrices) -> u64 {
        let plain = (self.input_tokens)
            .saturating_sub(self.cache_read_tokens)
            .saturating_sub(self.cache_write_tokens);
        let cache_read = prices.cache_read.unwrap_or(prices.input);
        let cache_write = prices.cache_write.unwrap_or(prices.input);
        [
            (plain, prices.input),
            (self.cache_read_tokens, cache_read),
            (self.cache_write_tokens, cache_write),
            (self.output_tokens, prices.output),
        ]
        .into_iter()
        .fold(0, |sum, (tokens, price)| {
            u64::saturating_add(sum, tokens.saturating_mul(price))
        })
    }
}

/// Why a model stopped.
///
/// ```
/// assert_ne!(forge_runtime::StopReason::Done, forge_runtime::StopReason::MaxTokens);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It has finished its answer, or waits for the results of its calls.
    #[default]
    Done,
    /// It ran out of output tokens; a call cut in half is not executed.
    #[serde(rename = "out_of_tokens")]
    MaxTokens,
    /// It refused, or a filter of its provider stopped it.
    Refused,
    /// A reason that forge does not know; treated as `Done`, with a warning.
    Unknown,
}

/// Why a turn failed.
///
/// ```
/// let error = forge_runtime::ModelError::Expectation("no licence was found".into());
/// assert_eq!(error.to_string(), "an expectation failed: no licence was found");
/// assert!(!error.is_transient());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A playbook's expectation was not met.
    #[error("an expectation failed: {0}")]
    Expectation(String),
    /// A playbook has no turn for this point of the conversation, or a template of
    /// it could not be rendered.
    #[error("the playbook cannot go on: {0}")]
    Playbook(String),
    /// The stream ended in the middle of a turn.
    #[error("the model's answer broke off")]
    Cut,
    /// The key is missing, or the provider does not take it.
    #[error("{0}")]
    Credentials(String),
    /// The provider rejects the request; a retry would not help.
    #[error("the provider refused the request{}: {message}", shown(*.status))]
    Rejected {
        /// The HTTP status, if it came as one.
        status: Option<u16>,
        /// The provider's words.
        message: String,
    },
    /// The provider cannot take the request now.
    #[error("the provider {}{}: {message}", refusal(*.status), shown(*.status))]
    Busy {
        /// The HTTP status, if it came as one.
        status: Option<u16>,
        /// The provider's words.
        message: String,
        /// The requested pause.
        retry_after_ms: Option<u64>,
    },
    /// No connection, or one that ended before an answer.
    #[error("the provider cannot be reached: {0}")]
    Unreachable(String),
    /// The connection is impossible, also for a retry: the certificate is not trusted, say.
    #[error("no connection to the provider is possible: {0}")]
    NoConnection(String),
    /// The answer is not of the protocol, or larger than any answer.
    #[error("the provider's answer cannot be read: {0}")]
    Malformed(String),
}

impl ModelError {
    /// Returns `true` if a retry of the request may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            ModelError::Cut | ModelError::Busy { .. } | ModelError::Unreachable(_) => true,
            ModelError::Expectation(_)
            | ModelError::Playbook(_)
            | ModelError::Credentials(_)
            | ModelError::Rejected { .. }
            | ModelError::NoConnection(_)
            | ModelError::Malformed(_) => false,
        }
    }
}

fn refusal(status: Option<u16>) -> &'static str {
    match status {
        // 529 is Anthropic's.
        None | Some(408 | 429 | 503 | 529) => "is busy",
        Some(_) => "failed",
    }
}

fn shown(status: Option<u16>) -> String {
    status.map_or_else(String::new, |status| format!(" ({status})"))
}

/// A model.
///
/// ```
/// use std::sync::Arc;
/// use forge_runtime::{ModelEvent, Model, ModelRequest, StopReason};
/// use tokio::sync::mpsc;
///
/// struct Echo;
/// impl Model for Echo {
///     fn name(&self) -> String {
///         "echo".into()
///     }
///     fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
///         let (events, turn) = mpsc::channel(2);
///         let _ = events.try_send(ModelEvent::Text(request.worker.clone()));
///         let _ = events.try_send(ModelEvent::End(StopReason::Done));
///         turn
///     }
/// }
/// ```
pub trait Model: Send + Sync + 'static {
    /// `provider:model`, for records.
    fn name(&self) -> String;

    /// Starts the next turn. Dropping the receiver cancels it.
    fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent>;

    /// Returns its prices; `None` if unknown.
    fn prices(&self) -> Option<TokenPrices> {
        None
    }

    /// Returns the limit on tokens of a conversation; `None` if unknown.
    fn context_tokens(&self) -> Option<u64> {
        None
    }
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        (**self).turn(request)
    }

    fn prices(&self) -> Option<TokenPrices> {
        (**self).prices()
    }

    fn context_tokens(&self) -> Option<u64> {
        (**self).context_tokens()
    }
}
