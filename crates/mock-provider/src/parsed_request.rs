//! A vendor's request, read back into our own words.

use forge_runtime::{Message, Thinking, ToolCall, ToolDescription, ToolResult};
use serde_json::Value;

/// The content of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ParsedRequest {
    pub(super) model: String,
    /// `true` if the answer is to be streamed.
    pub(super) stream: bool,
    /// `true` if the stream ends with the usage.
    pub(super) usage_in_stream: bool,
    pub(super) instructions: String,
    pub(super) tools: Vec<ToolDescription>,
    /// Results have no `detail` here: no wire carries it.
    pub(super) messages: Vec<Message>,
}

/// The tools that a request offers: each in `of` its entry, its schema under `schema`.
pub(super) fn tools(
    body: &Value,
    of: impl Fn(&Value) -> &Value,
    schema: &str,
) -> Vec<ToolDescription> {
    let entries = body["tools"].as_array().into_iter().flatten();
    entries
        .map(of)
        .map(|tool| ToolDescription {
            name: text_at(tool, "name"),
            description: text_at(tool, "description"),
            input_schema: tool[schema].clone(),
        })
        .collect()
}

/// Builds a conversation from entries: consecutive entries of the model form one turn.
#[derive(Debug, Default)]
pub(super) struct ConversationBuilder {
    messages: Vec<Message>,
    open: bool,
}

impl ConversationBuilder {
    pub(super) fn input(&mut self, text: String) {
        self.open = false;
        self.messages.push(Message::Input { text });
    }

    pub(super) fn result(&mut self, id: String, content: String, is_error: bool) {
        self.open = false;
        let named = self
            .messages
            .iter()
            .rev()
            .find_map(|message| match message {
                Message::Model { calls, .. } => calls.iter().find(|call| call.id == id),
                Message::Input { .. } | Message::ToolResult(_) => None,
            });
        let tool = named.map(|call| call.tool.clone()).unwrap_or_default();
        self.messages.push(Message::ToolResult(ToolResult {
            id,
            tool,
            content,
            is_error,
            detail: Value::Null,
        }));
    }

    /// A message of the model's begins: a turn of its own, where the wire says so.
    pub(super) fn turn(&mut self) {
        self.open = false;
        self.said();
    }

    pub(super) fn text(&mut self, more: &str) {
        if let Message::Model { text, .. } = self.said() {
            text.push_str(more);
        }
    }

    pub(super) fn thinking(&mut self, block: Thinking) {
        if let Message::Model { thinking, .. } = self.said() {
            thinking.push(block);
        }
    }

    pub(super) fn call(&mut self, call: ToolCall) {
        if let Message::Model { calls, .. } = self.said() {
            calls.push(call);
        }
    }

    pub(super) fn done(self) -> Vec<Message> {
        self.messages
    }

    fn said(&mut self) -> &mut Message {
        if !self.open {
            self.open = true;
            self.messages.push(Message::Model {
                text: String::new(),
                thinking: Vec::new(),
                calls: Vec::new(),
            });
        }
        let last = self.messages.len() - 1;
        &mut self.messages[last]
    }
}

/// Returns the text of a member, or an empty text.
pub(super) fn text_at(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// A text that is one, or a list of parts with texts in them.
pub(super) fn joined(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str().or_else(|| part["refusal"].as_str()))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

/// Parses arguments that travel as a text. Text that is not JSON stays text.
pub(super) fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
