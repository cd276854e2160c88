//! What is tried again and when, on a clock of the test's own; and once over a socket.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forge_runtime::{
    Model, ModelError, ModelEvent, ModelRequest, ProviderEndpoint, RetryingModel, StopReason,
    ToolCall, Usage, Wire,
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::events::{hello, lines, turn};
use crate::fixture::{Fixture, Framing};
use crate::server::{Reply, Server};

/// Says one of these each turn; the last one again and again.
struct Said {
    turns: Mutex<VecDeque<Vec<ModelEvent>>>,
    asked: Mutex<Vec<Instant>>,
}

impl Said {
    fn new(turns: Vec<Vec<ModelEvent>>) -> Arc<Self> {
        Arc::new(Said {
            turns: Mutex::new(turns.into()),
            asked: Mutex::default(),
        })
    }
}

impl Model for Said {
    fn name(&self) -> String {
        "test:said".into()
    }

    fn turn(&self, _request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        self.asked.lock().unwrap().push(Instant::now());
        let mut turns = self.turns.lock().unwrap();
        let said = match turns.len() {
            1 => turns[0].clone(),
            _ => turns.pop_front().unwrap(),
        };
        let (events, turn) = mpsc::channel(said.len().max(1));
        for event in said {
            events.try_send(event).unwrap();
        }
        turn
    }
}

fn busy(status: u16, retry_after_ms: Option<u64>) -> ModelError {
    ModelError::Busy {
        status: Some(status),
        message: "later".into(),
        retry_after_ms,
    }
}

fn done() -> Vec<ModelEvent> {
    vec![
        ModelEvent::Text("here".into()),
        ModelEvent::End(StopReason::Done),
    ]
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_tried_again() {
    let call = ToolCall {
        id: "a".into(),
        tool: "x".into(),
        arguments: json!({}),
    };
    let rows = [
        (vec![ModelEvent::Failed(busy(408, None))], true),
        (vec![ModelEvent::Failed(busy(429, None))], true),
        (vec![ModelEvent::Failed(busy(500, None))], true),
        (vec![ModelEvent::Failed(busy(529, None))], true),
        (
            vec![ModelEvent::Failed(ModelError::Unreachable("nobody".into()))],
            true,
        ),
        (vec![ModelEvent::Failed(ModelError::Cut)], true),
        // Cut off without a word, in the middle of a call that was whole.
        (
            vec![ModelEvent::Text("a".into()), ModelEvent::Call(call)],
            true,
        ),
        (
            vec![ModelEvent::Failed(ModelError::Credentials("no".into()))],
            false,
        ),
        (
            vec![ModelEvent::Failed(ModelError::Malformed("what".into()))],
            false,
        ),
        (
            vec![ModelEvent::Failed(ModelError::Rejected {
                status: Some(400),
                message: "no".into(),
            })],
            false,
        ),
    ];
    for (first, again) in rows {
        let model = Said::new(vec![first.clone(), done()]);
        let found = turn(&RetryingModel::new(model.clone(), 120_000), hello()).await;
        assert_eq!(
            model.asked.lock().unwrap().len(),
            if again { 2 } else { 1 },
            "{first:?}"
        );
        let announced = found
            .iter()
            .any(|event| matches!(event, ModelEvent::Retry(_)));
        assert_eq!(announced, again, "{first:?}");
        let expected = match again {
            true => Some(&ModelEvent::End(StopReason::Done)),
            false => first.last(),
        };
        assert_eq!(found.last(), expected);
    }
}

/// Pauses are random, grow, and end with the limit; every one is announced as it is.
#[tokio::test(start_paused = true)]
async fn pauses() {
    for _once in 0..20 {
        let model = Said::new(vec![vec![ModelEvent::Failed(busy(503, None))]]);
        let began = Instant::now();
        let found = turn(&RetryingModel::new(model.clone(), 120_000), hello()).await;
        let asked = model.asked.lock().unwrap().clone();
        assert!(
            began.elapsed() <= Duration::from_millis(120_500),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(found.last(), Some(&ModelEvent::Failed(busy(503, None))));
        let mut most = 1_000;
        for (nth, event) in found[..found.len() - 1].iter().enumerate() {
            let ModelEvent::Retry(retry) = event else {
                panic!("{event:?}");
            };
            let fits = retry.wait_ms >= most / 2 && retry.wait_ms <= most;
            assert!(fits, "{retry:?}");
            assert_eq!(retry.attempt as usize, nth + 2);
            assert_eq!(retry.reason, "the provider is busy (503): later");
            let waited = asked[nth + 1] - asked[nth];
            let said = Duration::from_millis(retry.wait_ms);
            assert!(
                waited >= said && waited <= said + Duration::from_millis(5),
                "{waited:?}"
            );
            most = (most * 2).min(30_000);
        }
        assert_eq!(found.len(), asked.len());
        assert!(asked.len() >= 4, "{}", asked.len());
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_provider_asks_for() {
    let model = Said::new(vec![
        vec![ModelEvent::Failed(busy(429, Some(42_000)))],
        done(),
    ]);
    let found = turn(&RetryingModel::new(model.clone(), 120_000), hello()).await;
    assert_eq!(
        lines(&found),
        [
            json!({"again": {"attempt": 2, "wait_ms": 42_000,
                "reason": "the provider is busy (429): later"}}),
            json!({"text": "here"}),
            json!({"end": "done"}),
        ]
    );
    // Longer than anybody wants to wait: said at once.
    let began = Instant::now();
    let error = busy(429, Some(121_000));
    let model = Said::new(vec![vec![ModelEvent::Failed(error.clone())], done()]);
    let found = turn(&RetryingModel::new(model, 120_000), hello()).await;
    assert_eq!(found, [ModelEvent::Failed(error)]);
    assert_eq!(began.elapsed(), Duration::ZERO);
    // And no pause at all.
    let model = Said::new(vec![vec![ModelEvent::Failed(busy(503, Some(0)))], done()]);
    let found = turn(&RetryingModel::new(model, 0), hello()).await;
    assert_eq!(found, [ModelEvent::Failed(busy(503, Some(0)))]);
}

/// No provider makes us come back at once, again and again.
#[tokio::test(start_paused = true)]
async fn no_pause_at_all_is_not_for_the_provider_to_say() {
    let model = Said::new(vec![vec![ModelEvent::Failed(busy(429, Some(0)))]]);
    let found = turn(&RetryingModel::new(model.clone(), 120_000), hello()).await;
    assert_eq!(found.last(), Some(&ModelEvent::Failed(busy(429, Some(0)))));
    let asked = model.asked.lock().unwrap().clone();
    assert!((4..=13).contains(&asked.len()), "{}", asked.len());
    assert!(asked[1] - asked[0] >= Duration::from_millis(500));
    // With a limit that is none and pauses that are next to nothing, there is still an end.
    let model = Said::new(vec![vec![ModelEvent::Failed(busy(429, Some(0)))]]);
    let patient = RetryingModel::new(model.clone(), u64::MAX);
    turn(&patient, hello()).await;
    assert_eq!(model.asked.lock().unwrap().len(), 100);
}

/// Tokens of an attempt that failed are used all the same.
#[tokio::test(start_paused = true)]
async fn tokens_count_every_time() {
    let used = Usage {
        input_tokens: 7,
        ..Usage::default()
    };
    let failed = vec![ModelEvent::Usage(used), ModelEvent::Failed(ModelError::Cut)];
    let model = Said::new(vec![failed, done()]);
    let found = turn(&RetryingModel::new(model, 120_000), hello()).await;
    assert_eq!(found[0], ModelEvent::Usage(used));
    assert_eq!(found.last(), Some(&ModelEvent::End(StopReason::Done)));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_any_more() {
    let model = Said::new(vec![
        vec![ModelEvent::Failed(busy(429, Some(60_000)))],
        done(),
    ]);
    let mut turn = RetryingModel::new(model.clone(), 120_000).turn(hello());
    assert!(matches!(turn.recv().await, Some(ModelEvent::Retry(_))));
    drop(turn);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(model.asked.lock().unwrap().len(), 1);
}

/// The real client: a busy server, a stream that breaks off in a call, then an answer.
#[tokio::test]
async fn over_a_socket() {
    for wire in Wire::ALL {
        let busy = Fixture::named(&format!("{wire}/529")).response(Framing::Length);
        let calls = Fixture::named(&format!("{wire}/parallel-calls"));
        let whole = calls.response(Framing::Close);
        let replies = vec![
            Reply::new(busy),
            Reply::new(&whole[..whole.len() * 2 / 3]),
            Reply::new(whole.as_slice()),
        ];
        let server = Server::start(replies).await;
        let provider = ProviderEndpoint::new("test", wire, &server.url, 64).unwrap();
        let model = Arc::new(provider.model("m").unwrap());
        let retrying = RetryingModel::new(model, 60_000).first_pause_ms(20);
        let found = turn(&retrying, hello()).await;
        let last = found
            .iter()
            .rposition(|event| matches!(event, ModelEvent::Retry(_)))
            .unwrap();
        assert_eq!(lines(&found[last + 1..]), calls.expected, "{wire}");
        let calls_before = found[..last]
            .iter()
            .any(|event| matches!(event, ModelEvent::Call(_)));
        assert!(!calls_before, "{wire}");
        assert_eq!(server.seen().len(), 3, "{wire}");
    }
}
