//! Models behind HTTP, on three wires: Anthropic Messages, OpenAI-compatible Chat Completions
//! and OpenAI Responses.
//!
//! The wire, the endpoint, the key and the length of an answer are always set by the configuration
//! of a [`ProviderEndpoint`]; a model's name implies nothing. The bytes of a wire become our own
//! [`ModelEvent`](crate::ModelEvent)s as they arrive; each wire is a pure pair, a request made from
//! a conversation (`request`) and events read from an answer (`response`), with one transport
//! around them ([`HttpModel`]).
//!
//! All data from a server are bounded ([`ResponseLimits`]), and no call is passed on before the
//! server has ended the turn.

mod anthropic;
mod body;
mod bounded_list;
mod chat;
mod http;
mod http_model;
mod key;
mod openai;
mod provider;
mod provider_error;
mod responses;
mod settings;
mod sse;
mod token_count;
mod turn_reader;

use crate::model::Wire;

pub use http_model::HttpModel;
pub use key::{ProviderKey, ProviderKeyError};
pub use provider::ProviderEndpoint;
pub use settings::{ProviderError, ResponseLimits};

/// Reads `bytes` as the streamed body of an answer on `wire`, in pieces of these lengths (the
/// last one again and again): for fuzzing, and for tests of recorded answers without a server.
#[doc(hidden)]
pub fn read_stream(wire: Wire, bytes: &[u8], pieces: &[usize]) -> Vec<crate::ModelEvent> {
    let mut reader = turn_reader::TurnReader::new(wire, &ResponseLimits::default());
    let mut events = Vec::new();
    let mut rest = bytes;
    let mut pieces = pieces.iter().copied();
    let mut length = usize::MAX;
    let outcome = loop {
        if rest.is_empty() {
            break reader.close(&mut events);
        }
        length = pieces.next().unwrap_or(length).max(1);
        let (piece, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        match reader.feed(piece, &mut events) {
            Ok(step) if step.is_over() => break Ok(()),
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    if let Err(error) = outcome {
        events.extend(reader.used().map(crate::ModelEvent::Usage));
        events.push(crate::ModelEvent::Failed(error));
    }
    events
}

/// Reads `bytes` as an answer that came in one piece.
#[doc(hidden)]
pub fn read_whole(wire: Wire, bytes: &[u8]) -> Vec<crate::ModelEvent> {
    let mut events = Vec::new();
    if let Err(error) = turn_reader::whole(wire, bytes, &mut events) {
        events.push(crate::ModelEvent::Failed(error));
    }
    events
}
