//! A played turn as a model's events: in the steps in which the vendor's wire would send it, with as
//! much as that wire carries, and with the scripted faults.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::file::{FailScript, StreamScript};
use crate::model::{ModelError, ModelEvent, StopReason, Thinking, ToolCall, Usage, Wire};
use crate::shortened::shortened;

/// Pieces that one text is cut into at most, however long it is.
const MAX_PIECES: usize = 4;

/// Longest text of a scripted failure, in characters.
const MAX_FAILURE_CHARS: usize = 1_000;

/// A turn as it was played. Public for the servers that tests play it over.
#[doc(hidden)]
#[derive(Debug, Clone)]
#[must_use]
pub struct PlayedTurn {
    pub thinking: Vec<Thinking>,
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub usage: Usage,
    pub stop: StopReason,
    pub fail: Option<FailScript>,
    pub stream: StreamScript,
}

impl PlayedTurn {
    /// Sends the events of attempt number `attempt`, from 0. The error is the fault of this attempt.
    pub(super) async fn send(
        self,
        wire: Wire,
        attempt: u32,
        events: &mpsc::Sender<ModelEvent>,
    ) -> Result<(), ModelError> {
        let failing = self.fail.as_ref().map_or(0, |fail| fail.times);
        if let Some(fail) = &self.fail
            && attempt < failing
        {
            return Err(fail.error());
        }
        let stream = self.stream.clone();
        let turn = self.carried(wire);
        let steps = turn.steps(wire);
        let total = steps.len();
        let fault = match attempt - failing < stream.times {
            true => stream.fault(total),
            false => None,
        };
        let sent = fault.as_ref().map_or(total, |(sent, _)| *sent);
        for step in steps.into_iter().take(sent) {
            stream.pause().await;
            for event in step {
                if events.send(event).await.is_err() {
                    return Ok(());
                }
            }
        }
        let Some((_, error)) = fault else {
            return Ok(());
        };
        stream.pause().await;
        // Usage before a failure is billed nevertheless.
        let usage = turn.usage_after(sent, total, wire);
        if usage != Usage::default() {
            let _gone = events.send(ModelEvent::Usage(usage)).await;
        }
        Err(error)
    }

    /// Anthropic seals every block of thinking.
    #[doc(hidden)]
    pub fn sealed(mut self, wire: Wire) -> Self {
        if wire == Wire::Anthropic {
            for block in &mut self.thinking {
                let seal = seal(&block.text);
                block.signature.get_or_insert(seal);
            }
        }
        self
    }

    /// Returns the part of the turn that `wire` carries.
    fn carried(self, wire: Wire) -> Self {
        let mut turn = self.sealed(wire);
        if wire == Wire::OpenAiChat {
            let text = turn.thinking.iter().map(|block| block.text.as_str());
            turn.thinking = vec![Thinking {
                text: text.collect(),
                signature: None,
            }];
        }
        if wire != Wire::Anthropic {
            turn.usage.cache_write_tokens = 0;
        }
        turn.thinking
            .retain(|block| !block.text.is_empty() || block.signature.is_some());
        turn
    }

    /// Returns the events of each step in which `wire` sends the turn. `stream` counts these steps.
    fn steps(&self, wire: Wire) -> Vec<Vec<ModelEvent>> {
        // Steps beside the pieces of texts: at the start, around a block of thinking with text and
        // one without, before and after the text, around a call, before the last step.
        let [start, thought, empty_thought, before, after, call, end] = match wire {
            Wire::Anthropic => [2, 3, 3, 1, 1, 2, 1],
            Wire::OpenAiChat => [1, 0, 0, 0, 0, 1, 2],
            Wire::OpenAiResponses => [2, 5, 2, 2, 3, 3, 0],
        };
        let silent = |count: usize| vec![vec![ModelEvent::Heartbeat]; count];
        let mut steps = silent(start);
        for block in &self.thinking {
            steps.extend(silent(match text_pieces(&block.text).len() {
                0 => empty_thought,
                count => thought + count,
            }));
            if let Some(last) = steps.last_mut() {
                *last = vec![ModelEvent::Thinking(block.clone())];
            }
        }
        if !self.text.is_empty() {
            steps.extend(silent(before));
            let text = text_pieces(&self.text).into_iter();
            steps.extend(text.map(|piece| vec![ModelEvent::Text(piece.to_owned())]));
            steps.extend(silent(after));
        }
        for made in &self.calls {
            steps.extend(silent(
                call + text_pieces(&made.arguments.to_string()).len(),
            ));
        }
        steps.extend(silent(end));
        let calls = self.calls.iter().map(|call| ToolCall {
            arguments: received_arguments(&call.arguments),
            ..call.clone()
        });
        let mut last: Vec<ModelEvent> = calls.map(ModelEvent::Call).collect();
        if self.usage != Usage::default() {
            last.push(ModelEvent::Usage(self.usage));
        }
        last.push(ModelEvent::End(self.stop));
        steps.push(last);
        steps
    }

    /// Returns the usage that `wire` has reported after `sent` of `total` steps.
    fn usage_after(&self, sent: usize, total: usize, wire: Wire) -> Usage {
        match wire {
            Wire::Anthropic | Wire::OpenAiChat if sent + 1 >= total => self.usage,
            // Its first event counts the input.
            Wire::Anthropic if sent > 0 => Usage {
                output_tokens: self.usage.output_tokens.min(1),
                ..self.usage
            },
            Wire::Anthropic | Wire::OpenAiChat | Wire::OpenAiResponses => Usage::default(),
        }
    }
}

impl StreamScript {
    /// Returns the number of steps, out of `total`, before the first fault, and the fault.
    fn fault(&self, total: usize) -> Option<(usize, ModelError)> {
        let half = total / 2;
        let in_stream = self.in_stream_error.as_deref().map(|message| {
            let error = ModelError::Busy {
                status: None,
                message: failure_text(message),
                retry_after_ms: None,
            };
            (half, error)
        });
        let malformed = self.malformed.filter(|nth| *nth <= total).map(|nth| {
            // The words of the parser that reads half an event.
            let reason =
                "it is not of the protocol: EOF while parsing a string at line 1 column 36";
            (
                nth.saturating_sub(1),
                ModelError::Malformed(reason.to_owned()),
            )
        });
        // The last step says that the turn is over.
        let last = in_stream.as_ref().map_or(total - 1, |_| half);
        let cut = self.cut_after.map(|sent| (sent.min(last), ModelError::Cut));
        [cut, malformed, in_stream]
            .into_iter()
            .flatten()
            .min_by_key(|(sent, _)| *sent)
    }

    async fn pause(&self) {
        if self.slow_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.slow_ms)).await;
        }
    }
}

impl FailScript {
    fn error(&self) -> ModelError {
        let (status, message) = (Some(self.status), failure_text(&self.message));
        match self.status {
            401 | 403 => ModelError::Credentials(format!(
                "the provider refused the key ({}): {message}",
                self.status
            )),
            408 | 429 | 500.. => ModelError::Busy {
                status,
                message,
                retry_after_ms: self
                    .retry_after_s
                    .map(|s| u64::from(s).saturating_mul(1_000)),
            },
            _ => ModelError::Rejected { status, message },
        }
    }
}

/// Arguments travel as a text, and only an object is parsed.
fn received_arguments(sent: &Value) -> Value {
    match sent {
        Value::Null => json!({}),
        Value::Object(_) => sent.clone(),
        other => Value::String(other.to_string()),
    }
}

/// The provider's words, as long as people read.
fn failure_text(message: &str) -> String {
    match message.trim() {
        "" => "it gives no reason".to_owned(),
        text => shortened(text, MAX_FAILURE_CHARS),
    }
}

/// Returns a seal that depends on the text, like a real one; it protects nothing.
fn seal(text: &str) -> String {
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("playbook-{sum:016x}")
}

/// Splits `text` into several non-empty pieces.
#[doc(hidden)]
pub fn text_pieces(text: &str) -> Vec<&str> {
    let length = text.len().div_ceil(MAX_PIECES).max(1);
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(length));
        found.push(piece);
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        for text in ["", "a", "ab", "héllo wörld", "👩‍👩‍👧‍👦", "日本語のテキスト"]
        {
            let cut = text_pieces(text);
            assert_eq!(cut.concat(), text);
            assert!(cut.len() <= MAX_PIECES && cut.iter().all(|piece| !piece.is_empty()));
        }
    }
}
