//! Turns as lines of JSON, which is how the fixtures say them.

use std::sync::Arc;

use forge_runtime::{Message, Model, ModelError, ModelEvent, ModelRequest};
use serde_json::{Value, json};

/// A request that says hello.
pub(crate) fn hello() -> Arc<ModelRequest> {
    Arc::new(ModelRequest {
        worker: "main".into(),
        instructions: "Be brief.".into(),
        tools: vec![],
        messages: vec![Message::Input {
            text: "Hello?".into(),
        }],
    })
}

/// Everything that comes of a turn.
pub(crate) async fn turn(model: &dyn Model, request: Arc<ModelRequest>) -> Vec<ModelEvent> {
    let mut turn = model.turn(request);
    let mut events = Vec::new();
    while let Some(event) = turn.recv().await {
        events.push(event);
    }
    events
}

/// One line for each event; text in one, and heartbeats in none.
pub(crate) fn lines(events: &[ModelEvent]) -> Vec<Value> {
    let mut lines: Vec<Value> = Vec::new();
    for event in events {
        let line = match event {
            ModelEvent::Text(more) => {
                if let Some(Value::String(text)) =
                    lines.last_mut().and_then(|line| line.get_mut("text"))
                {
                    text.push_str(more);
                    continue;
                }
                json!({"text": more})
            }
            ModelEvent::Thinking(block) => json!({"thinking": block}),
            ModelEvent::Call(call) => json!({"call": call}),
            ModelEvent::Heartbeat => continue,
            ModelEvent::Retry(retry) => json!({"again": retry}),
            ModelEvent::Usage(usage) => json!({"usage": usage}),
            ModelEvent::End(stop) => json!({"end": stop}),
            ModelEvent::Failed(error) => json!({"failed": failure(error)}),
        };
        lines.push(line);
    }
    lines
}

fn failure(error: &ModelError) -> Value {
    let (kind, status, message, after) = match error {
        ModelError::Expectation(text) => ("expectation", None, text.clone(), None),
        ModelError::Playbook(text) => ("playbook", None, text.clone(), None),
        ModelError::Cut => ("cut", None, error.to_string(), None),
        ModelError::Credentials(text) => ("credentials", None, text.clone(), None),
        ModelError::Rejected { status, message } => ("rejected", *status, message.clone(), None),
        ModelError::Busy {
            status,
            message,
            retry_after_ms,
        } => ("busy", *status, message.clone(), *retry_after_ms),
        ModelError::Unreachable(text) => ("unreachable", None, text.clone(), None),
        ModelError::NoConnection(text) => ("no_connection", None, text.clone(), None),
        ModelError::Malformed(text) => ("malformed", None, text.clone(), None),
    };
    let mut failure = json!({"kind": kind, "message": message});
    if let Some(status) = status {
        failure["status"] = status.into();
    }
    if let Some(after) = after {
        failure["retry_after_ms"] = after.into();
    }
    failure
}

/// Whether a turn came out as expected; of a failure's words, those that are expected.
pub(crate) fn fits(found: &[Value], expected: &[Value]) -> bool {
    let fits = |(found, expected): (&Value, &Value)| match (
        found.pointer("/failed/message").and_then(Value::as_str),
        expected.pointer("/failed/message").and_then(Value::as_str),
    ) {
        (Some(message), Some(words)) => {
            let mut same = found.clone();
            same["failed"]["message"] = words.into();
            message.contains(words) && same == *expected
        }
        _ => found == expected,
    };
    found.len() == expected.len() && found.iter().zip(expected).all(fits)
}
