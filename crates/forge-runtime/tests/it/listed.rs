//! A model of lists: each turn is a list of events, said as they stand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use forge_runtime::{Model, ModelEvent, ModelRequest, StopReason, TokenPrices, ToolCall, Usage};
use serde_json::Value;
use tokio::sync::mpsc;

/// Plays `turns` for one worker after the other, whoever asks; then says "done".
#[derive(Clone, Default)]
pub(crate) struct Listed {
    pub(crate) turns: Arc<Mutex<VecDeque<Vec<ModelEvent>>>>,
    pub(crate) asked: Arc<Mutex<Vec<Arc<ModelRequest>>>>,
    pub(crate) prices: Option<TokenPrices>,
    pub(crate) context_tokens: Option<u64>,
}

impl Listed {
    pub(crate) fn new(turns: impl IntoIterator<Item = Vec<ModelEvent>>) -> Self {
        Listed {
            turns: Arc::new(Mutex::new(turns.into_iter().collect())),
            ..Listed::default()
        }
    }

    /// What was sent with the last turn.
    pub(crate) fn last_request(&self) -> Arc<ModelRequest> {
        self.asked.lock().unwrap().last().unwrap().clone()
    }

    pub(crate) fn turns_taken(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Model for Listed {
    fn name(&self) -> String {
        "listed:test".into()
    }

    fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        self.asked.lock().unwrap().push(request);
        let turn = self.turns.lock().unwrap().pop_front();
        let turn = turn.unwrap_or_else(|| said("done"));
        let (events, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            for event in turn {
                if events.send(event).await.is_err() {
                    return;
                }
            }
        });
        receiver
    }

    fn prices(&self) -> Option<TokenPrices> {
        self.prices
    }

    fn context_tokens(&self) -> Option<u64> {
        self.context_tokens
    }
}

pub(crate) fn call(id: &str, tool: &str, arguments: Value) -> ModelEvent {
    ModelEvent::Call(ToolCall {
        id: id.into(),
        tool: tool.into(),
        arguments,
    })
}

pub(crate) fn said(text: &str) -> Vec<ModelEvent> {
    vec![
        ModelEvent::Text(text.into()),
        ModelEvent::End(StopReason::Done),
    ]
}

/// A turn that calls, and what it used.
pub(crate) fn calls(calls: impl IntoIterator<Item = ModelEvent>) -> Vec<ModelEvent> {
    let mut turn: Vec<ModelEvent> = calls.into_iter().collect();
    turn.push(ModelEvent::End(StopReason::Done));
    turn
}

pub(crate) fn used(tokens: u64) -> ModelEvent {
    ModelEvent::Usage(Usage {
        input_tokens: tokens,
        ..Usage::default()
    })
}
