//! Trimming of the context: when a conversation approaches the limit, the results of the oldest
//! calls are each replaced by one line. Nothing is summarised, no result that the model has not
//! seen is touched, and equal conversations are trimmed equally.
//!
//! The size of a conversation is the usage of the last turn as reported by the provider, plus one
//! token per four bytes added since; without a report all bytes are counted. That estimate is low
//! rather than high, so no result is removed that would fit.

use super::turn::size;
use crate::model::{Message, ModelRequest, Usage};
use crate::report::RunOutcome;

/// A shorter result stays: replacing it by a line would save nothing.
const WORTH_IT: usize = 256;
const BYTES_A_TOKEN: u64 = 4;
/// Most bytes of one conversation, independent of the limits of its model or provider: it is in
/// memory, and no model reads as much.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Checks that a conversation is not longer than any may be.
pub(super) fn is_too_long(said: usize) -> Result<(), RunOutcome> {
    match said > MOST_BYTES {
        true => Err(RunOutcome::ContextFull {
            tokens: tokens_of(MOST_BYTES),
        }),
        false => Ok(()),
    }
}

/// The results that were trimmed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TrimmedResults {
    /// The calls of these results.
    pub(super) calls: Vec<String>,
    /// Tokens before the trim.
    pub(super) tokens: u64,
}

/// Makes the conversation fit into `limit` tokens before the next turn; trims from four fifths of
/// it down to three fifths. `last` is the usage of the last turn.
///
/// # Errors
///
/// If it does not fit, even after trimming.
pub(super) fn trim_context(
    request: &mut ModelRequest,
    limit: u64,
    last: Usage,
) -> Result<Option<TrimmedResults>, RunOutcome> {
    let newest = request
        .messages
        .iter()
        .rposition(|message| matches!(message, Message::Model { .. }))
        .unwrap_or(0);
    let tokens = match last.total() {
        0 => tokens_of(whole(request)),
        said => {
            let since = request.messages.iter().skip(newest + 1).map(bytes).sum();
            said.saturating_add(tokens_of(since))
        }
    };
    if tokens < limit / 5 * 4 {
        return Ok(None);
    }
    let enough = limit / 5 * 3;
    let mut now = tokens;
    let mut calls = Vec::new();
    for message in request.messages.iter_mut().take(newest) {
        if now <= enough {
            break;
        }
        let Message::ToolResult(result) = message else {
            continue;
        };
        if result.content.len() < WORTH_IT {
            continue;
        }
        let stub = format!(
            "[What {} gave is left out to save room: {} bytes. Look again if you need it.]",
            result.tool,
            result.content.len()
        );
        let saved = result.content.len().saturating_sub(stub.len());
        now = now.saturating_sub(tokens_of(saved));
        result.content = stub;
        calls.push(result.id.clone());
    }
    if now >= limit {
        return Err(RunOutcome::ContextFull { tokens: limit });
    }
    Ok((!calls.is_empty()).then_some(TrimmedResults { calls, tokens }))
}

fn tokens_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX) / BYTES_A_TOKEN
}

fn whole(request: &ModelRequest) -> usize {
    let tools = request
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + size(&tool.input_schema));
    request.instructions.len()
        + tools.sum::<usize>()
        + request.messages.iter().map(bytes).sum::<usize>()
}

/// Returns the size of the parts of a message that a provider is sent.
pub(super) fn bytes(message: &Message) -> usize {
    match message {
        Message::Input { text } => text.len(),
        Message::Model {
            text,
            thinking,
            calls,
        } => {
            let thoughts = thinking.iter().map(|block| block.text.len());
            let calls = calls
                .iter()
                .map(|call| call.tool.len() + size(&call.arguments));
            text.len() + thoughts.sum::<usize>() + calls.sum::<usize>()
        }
        Message::ToolResult(result) => result.content.len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::model::{ToolCall, ToolResult};

    /// One turn for each, with calls whose results have so many bytes.
    fn conversation(turns: &[Vec<usize>]) -> ModelRequest {
        let mut messages = vec![Message::Input { text: "go".into() }];
        for (turn, results) in turns.iter().enumerate() {
            let id = |index: usize| format!("{turn}.{index}");
            messages.push(Message::Model {
                text: String::new(),
                thinking: Vec::new(),
                calls: (0..results.len())
                    .map(|index| ToolCall {
                        id: id(index),
                        tool: "read_file".into(),
                        arguments: Value::Null,
                    })
                    .collect(),
            });
            for (index, bytes) in results.iter().enumerate() {
                messages.push(Message::ToolResult(ToolResult {
                    id: id(index),
                    tool: "read_file".into(),
                    content: "x".repeat(*bytes),
                    is_error: false,
                    detail: Value::Null,
                }));
            }
        }
        ModelRequest {
            worker: "main".into(),
            instructions: String::new(),
            tools: Vec::new(),
            messages,
        }
    }

    fn used(tokens: u64) -> Usage {
        Usage {
            input_tokens: tokens,
            ..Usage::default()
        }
    }

    #[test]
    fn the_oldest_results_go_first_and_the_newest_stay() {
        let mut request = conversation(&[vec![4_000, 100], vec![4_000], vec![400]]);
        let trimmed = trim_context(&mut request, 3_000, used(2_300))
            .unwrap()
            .unwrap();
        // 2 300 and 100 that it has not seen yet; 1 000 of them are the first result.
        assert_eq!(trimmed.tokens, 2_400);
        assert_eq!(trimmed.calls, ["0.0"]);
        let Message::ToolResult(first) = &request.messages[2] else {
            panic!("{:?}", request.messages);
        };
        assert_eq!(
            first.content,
            "[What read_file gave is left out to save room: 4000 bytes. Look again if you need it.]"
        );
    }

    #[test]
    fn what_does_not_fit_at_all_ends_it() {
        let mut request = conversation(&[vec![4_000], vec![40_000]]);
        let full = Err(RunOutcome::ContextFull { tokens: 3_000 });
        assert_eq!(trim_context(&mut request, 3_000, used(1_100)), full);
        // Nobody said how long it is.
        let mut request = conversation(&[vec![40_000]]);
        assert_eq!(trim_context(&mut request, 3_000, Usage::default()), full);
        let mut request = conversation(&[vec![4_000]]);
        assert_eq!(
            trim_context(&mut request, 3_000, Usage::default()),
            Ok(None)
        );
    }

    proptest! {
        #[test]
        fn messages_stay_well_formed(
            turns in proptest::collection::vec(
                proptest::collection::vec(0usize..6_000, 0..4), 0..8),
            limit in 10u64..20_000,
            last in 0u64..20_000,
        ) {
            let before = conversation(&turns);
            let mut after = before.clone();
            let outcome = trim_context(&mut after, limit, used(last));
            let mut again = before.clone();
            prop_assert_eq!(&trim_context(&mut again, limit, used(last)), &outcome);
            prop_assert_eq!(&again, &after);
            prop_assert_eq!(before.messages.len(), after.messages.len());
            let mut changed = Vec::new();
            for (was, is) in before.messages.iter().zip(&after.messages) {
                match (was, is) {
                    (Message::ToolResult(was), Message::ToolResult(is)) => {
                        prop_assert_eq!(&was.id, &is.id);
                        if was.content != is.content {
                            prop_assert!(is.content.len() < was.content.len());
                            prop_assert!(!is.content.contains('\n'));
                            changed.push(is.id.clone());
                        }
                    }
                    (was, is) => prop_assert_eq!(was, is),
                }
            }
            if let Ok(trimmed) = outcome {
                let told = trimmed.map(|trimmed| trimmed.calls).unwrap_or_default();
                prop_assert_eq!(told, changed.clone());
            }
            // What the model has not seen yet is whole.
            let newest = turns.len().saturating_sub(1);
            let begins = format!("{newest}.");
            prop_assert!(changed.iter().all(|id| !id.starts_with(&begins)));
        }
    }
}
