//! What the loop needs of a model, in types of our own: these are also what a
//! transcript stores, so that no provider's wire format leaks into either.

use std::sync::Arc;

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
    /// What the worker was asked.
    Input {
        /// The text.
        text: String,
    },
    /// What the model said in one turn.
    Model {
        /// Its text; may be empty.
        text: String,
        /// The calls it made.
        calls: Vec<ToolCall>,
    },
    /// What one call came to.
    ToolResult(ToolResult),
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
    /// What the model reads.
    pub content: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// The whole result for programs (`forge tools call --json` prints the same);
    /// no provider is sent this.
    pub detail: Value,
}

/// A tool as a model is told of it.
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
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
}

/// Everything a model needs for its next turn.
///
/// ```
/// let request = forge_runtime::Request {
///     worker: "main".into(), instructions: String::new(), tools: vec![], messages: vec![],
/// };
/// assert_eq!(request.turns_so_far(), 0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Which worker is running.
    pub worker: String,
    /// Its instructions (the system text).
    pub instructions: String,
    /// What it may call, in a fixed order.
    pub tools: Vec<ToolDescription>,
    /// The conversation so far.
    pub messages: Vec<Message>,
}

impl Request {
    /// How many turns the model has had in this conversation.
    pub fn turns_so_far(&self) -> usize {
        self.messages
            .iter()
            .filter(|message| matches!(message, Message::Model { .. }))
            .count()
    }
}

/// A piece of a turn. A turn is over at [`Event::End`] or [`Event::Failed`]; a
/// stream that stops without either was cut, and nothing of it is executed.
///
/// ```
/// let event = forge_runtime::Event::Text("hello".into());
/// assert!(matches!(event, forge_runtime::Event::Text(_)));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// More text.
    Text(String),
    /// A whole call.
    Call(ToolCall),
    /// What the turn used; several add up. A limit on tokens counts what is reported.
    Usage(Usage),
    /// The turn is complete.
    End(Stop),
    /// The turn failed.
    Failed(ModelError),
}

/// Tokens that a turn used.
///
/// ```
/// let usage = forge_runtime::Usage { input_tokens: 900, output_tokens: 100 };
/// assert_eq!(usage.total(), 1_000);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// Read by the model.
    pub input_tokens: u64,
    /// Written by it.
    pub output_tokens: u64,
}

impl Usage {
    /// Both together.
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// This and another one.
    #[must_use]
    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }
}

/// Why a model stopped.
///
/// ```
/// assert_ne!(forge_runtime::Stop::Done, forge_runtime::Stop::OutOfTokens);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It had nothing more to say, or waits for the results of its calls.
    Done,
    /// It ran out of output tokens; a call cut in half is not executed.
    OutOfTokens,
    /// It refused.
    Refused,
}

/// Why a turn failed.
///
/// ```
/// let error = forge_runtime::ModelError::Expectation("no licence was found".into());
/// assert_eq!(error.to_string(), "an expectation failed: no licence was found");
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
}

/// A model.
///
/// ```
/// use std::sync::Arc;
/// use forge_runtime::{Event, Model, Request, Stop};
/// use tokio::sync::mpsc;
///
/// struct Echo;
/// impl Model for Echo {
///     fn name(&self) -> String {
///         "echo".into()
///     }
///     fn turn(&self, request: Arc<Request>) -> mpsc::Receiver<Event> {
///         let (events, turn) = mpsc::channel(2);
///         let _ = events.try_send(Event::Text(request.worker.clone()));
///         let _ = events.try_send(Event::End(Stop::Done));
///         turn
///     }
/// }
/// ```
pub trait Model: Send + Sync + 'static {
    /// `provider:model`, for records.
    fn name(&self) -> String;

    /// Starts the next turn. Dropping the receiver cancels it.
    fn turn(&self, request: Arc<Request>) -> mpsc::Receiver<Event>;
}

/// A whole turn, collected.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) usage: Usage,
    pub(crate) stop: Stop,
}

/// Collects a turn to its end; nothing of a turn that was cut comes out.
pub(crate) async fn collect(mut events: mpsc::Receiver<Event>) -> Result<Turn, ModelError> {
    let mut text = String::new();
    let mut calls = Vec::new();
    let mut usage = Usage::default();
    while let Some(event) = events.recv().await {
        match event {
            Event::Text(more) => text.push_str(&more),
            Event::Call(call) => calls.push(call),
            Event::Usage(more) => usage = usage.plus(more),
            Event::End(stop) => {
                return Ok(Turn {
                    text,
                    calls,
                    usage,
                    stop,
                });
            }
            Event::Failed(error) => return Err(error),
        }
    }
    Err(ModelError::Cut)
}
