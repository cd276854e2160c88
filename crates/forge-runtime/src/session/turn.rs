//! Receives one turn of a model to its end. A turn that was cut yields no content, and the size of
//! a turn is bounded.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::budget::WorkerBudget;
use crate::model::{ModelError, ModelEvent, StopReason, Thinking, TokenPrices, ToolCall, Usage};

/// Most bytes of a turn: its text, its thinking, its calls.
const MAX_TURN_BYTES: usize = 32 * 1024 * 1024;
/// Most calls that a turn may hold at all; how many are made is another question.
const MAX_CALLS_HELD: usize = 100_000;

/// A whole turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ReceivedTurn {
    pub(super) text: String,
    pub(super) thinking: Vec<Thinking>,
    pub(super) calls: Vec<ToolCall>,
    bytes: usize,
}

impl ReceivedTurn {
    fn add(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes > MAX_TURN_BYTES || self.calls.len() > MAX_CALLS_HELD {
            true => Err(ModelError::Malformed(format!(
                "a turn of more than {MAX_TURN_BYTES} bytes or {MAX_CALLS_HELD} calls"
            ))),
            false => Ok(()),
        }
    }
}

/// Receives a turn and passes each event to `watch`. Usage is drawn from `budget` at once and added
/// to `used`, also if the turn fails later. While the model waits for a retry, the clock is
/// stopped.
pub(super) async fn receive(
    mut events: mpsc::Receiver<ModelEvent>,
    budget: &Arc<WorkerBudget>,
    prices: Option<TokenPrices>,
    used: &mut Usage,
    mut watch: impl FnMut(&ModelEvent),
) -> Result<(ReceivedTurn, StopReason), ModelError> {
    let mut turn = ReceivedTurn::default();
    let mut waiting = None;
    loop {
        let event = match &waiting {
            None => events.recv().await,
            Some((_, until)) => tokio::select! {
                event = events.recv() => event,
                () = tokio::time::sleep_until(*until) => {
                    waiting = None;
                    continue;
                }
            },
        };
        waiting = None;
        let Some(event) = event else {
            return Err(ModelError::Cut);
        };
        watch(&event);
        match event {
            ModelEvent::Text(more) => {
                turn.add(more.len())?;
                turn.text.push_str(&more);
            }
            ModelEvent::Thinking(block) => {
                turn.add(block.text.len() + block.signature.as_ref().map_or(0, String::len))?;
                turn.thinking.push(block);
            }
            ModelEvent::Call(call) => {
                turn.add(call.id.len() + call.tool.len() + size(&call.arguments))?;
                turn.calls.push(call);
            }
            ModelEvent::Heartbeat => {}
            ModelEvent::Retry(retry) => {
                turn = ReceivedTurn::default();
                let wait = Duration::from_millis(retry.wait_ms).min(LONGEST_WAIT);
                waiting = Some((budget.pause_clock(), Instant::now() + wait));
            }
            ModelEvent::Usage(more) => {
                *used = used.saturating_add(more);
                budget.spend(more, prices.map_or(0, |prices| more.cost(prices)));
            }
            ModelEvent::End(stop) => return Ok((turn, stop)),
            ModelEvent::Failed(error) => return Err(error),
        }
    }
}

/// No provider is waited for longer than this at a time.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// About how many bytes a value takes.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 8,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 8,
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len() + 8 + size(value))
            .sum::<usize>(),
    }
}
