//! Compares the received request with the sent one.
//!
//! Real runs trust the client to lose no part of a conversation. Here both ends are known, so every
//! request of every playbook run is compared.

use std::borrow::Cow;
use std::fmt;

use forge_runtime::{Message, ModelRequest, Wire};

use super::parsed_request::ParsedRequest;

/// Returns the first difference.
pub(super) fn diff(sent: &ModelRequest, parsed: &ParsedRequest, wire: Wire) -> Option<String> {
    if worded(&sent.instructions) != worded(&parsed.instructions) {
        return Some("its instructions are not the worker's".to_owned());
    }
    if sent.tools != parsed.tools {
        return Some("its tools are not the worker's".to_owned());
    }
    let (sent, arrived) = (
        entries(&sent.messages, wire),
        entries(&parsed.messages, wire),
    );
    for index in 0..sent.len().max(arrived.len()) {
        match (sent.get(index), arrived.get(index)) {
            (Some(sent), Some(arrived)) if sent == arrived => {}
            (Some(sent), Some(arrived)) => {
                return Some(format!(
                    "entry {index} was sent as {sent}, and came as {arrived}"
                ));
            }
            (Some(sent), None) => return Some(format!("entry {index}, {sent}, is missing")),
            (None, Some(arrived)) => return Some(format!("entry {index}, {arrived}, is extra")),
            (None, None) => {}
        }
    }
    None
}

/// Replaces an empty input, which this wire refuses.
const NO_INPUT: &str = "(no input)";

/// Returns the text, or an empty text if it is blank: blanks alone are sent as an empty text.
fn worded(text: &str) -> &str {
    if text.trim().is_empty() { "" } else { text }
}

/// Returns a call's name as the wire carries it: an unsupported name is marked and written in
/// permitted letters. Received names pass unchanged, since the schema has checked them.
fn called(name: &str, wire: Wire) -> Cow<'_, str> {
    let longest = match wire {
        Wire::Anthropic => 128,
        Wire::OpenAiChat | Wire::OpenAiResponses => 64,
    };
    let is_strange =
        |letter: char| !matches!(letter, 'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-');
    if !name.is_empty() && name.len() <= longest && !name.contains(is_strange) {
        return Cow::Borrowed(name);
    }
    let mut written = format!("x_{}", name.replace(is_strange, "_"));
    written.truncate(longest);
    Cow::Owned(written)
}

/// The parts of a conversation that every wire carries.
#[derive(PartialEq)]
enum DiffEntry<'a> {
    Input(&'a str),
    Thinking(&'a str, &'a str),
    Text(&'a str),
    Call(&'a str, Cow<'a, str>),
    Result(&'a str, &'a str),
}

impl fmt::Display for DiffEntry<'_> {
    /// Writes the kind; not the text, which may be long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiffEntry::Input(text) => write!(f, "an input of {} bytes", text.len()),
            DiffEntry::Thinking(text, _) => write!(f, "thinking of {} bytes", text.len()),
            DiffEntry::Text(text) => write!(f, "a text of {} bytes", text.len()),
            DiffEntry::Call(id, tool) => write!(f, "the call {id:?} of {tool:?}"),
            DiffEntry::Result(id, text) => write!(f, "a result of {id:?} of {} bytes", text.len()),
        }
    }
}

fn entries(messages: &[Message], wire: Wire) -> Vec<DiffEntry<'_>> {
    let mut found = Vec::new();
    for message in messages {
        match message {
            Message::Input { text } => found.push(DiffEntry::Input(match (wire, worded(text)) {
                (Wire::Anthropic, "") => NO_INPUT,
                (_, text) => text,
            })),
            Message::ToolResult(result) => {
                found.push(DiffEntry::Result(&result.id, &result.content))
            }
            Message::Model {
                text,
                thinking,
                calls,
            } => {
                for block in thinking {
                    // Only here are blocks taken back as they were given, and only signed ones.
                    if let (Wire::Anthropic, Some(seal)) = (wire, &block.signature) {
                        found.push(DiffEntry::Thinking(&block.text, seal));
                    }
                }
                if !text.trim().is_empty() {
                    found.push(DiffEntry::Text(text));
                }
                // Without arguments: a number has more than one spelling.
                found.extend(
                    calls
                        .iter()
                        .map(|call| DiffEntry::Call(&call.id, called(&call.tool, wire))),
                );
            }
        }
    }
    found
}
