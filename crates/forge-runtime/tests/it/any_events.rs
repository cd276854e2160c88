//! Whatever a model says: each call has one result, nothing is made after the run was
//! stopped, and no budget is overrun by more than a turn of each who draws from it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use forge_runtime::{
    Message, Model, ModelError, ModelEvent, ModelRequest, Observer, Retry, RunEvent, RunOutcome,
    Session, StopReason, Thinking, ToolCall, Usage,
};
use proptest::prelude::*;
use sandbox_config::{Sources, TrustedSettings, load};
use serde_json::json;
use tokio::sync::mpsc;

/// What one turn of any worker says; `Stops` is somebody stopping the run in the middle.
#[derive(Debug, Clone)]
enum Said {
    Event(ModelEvent),
    Stops,
}

const MAX_USE: u64 = 40;

fn said() -> impl Strategy<Value = Said> {
    let id = prop_oneof![Just(""), Just("a"), Just("b"), Just("call_1_0")];
    let tool = prop_oneof![
        3 => Just(("write_file", json!({"path": "/workspace/x", "content": "x"}))),
        2 => Just(("file_exists", json!({"path": "/workspace/x"}))),
        2 => Just(("list_files", json!({"path": "/"}))),
        2 => Just(("child", json!({"input": "x"}))),
        1 => Just(("call_worker", json!({"worker": "main", "input": "x"}))),
        1 => Just(("nothing", json!({}))),
        1 => Just(("write_file", json!("no object"))),
        1 => Just(("delete_file", json!({"path": "/workspace/x"}))),
    ];
    let call = (id, tool).prop_map(|(id, (tool, arguments))| {
        ModelEvent::Call(ToolCall {
            id: id.into(),
            tool: tool.into(),
            arguments,
        })
    });
    let stop = prop_oneof![
        6 => Just(StopReason::Done),
        1 => Just(StopReason::MaxTokens),
        1 => Just(StopReason::Refused),
        1 => Just(StopReason::Unknown),
    ];
    let event = prop_oneof![
        8 => call,
        2 => "[a-z]{0,5}".prop_map(ModelEvent::Text),
        1 => Just(ModelEvent::Thinking(Thinking { text: "hm".into(), signature: None })),
        1 => Just(ModelEvent::Heartbeat),
        1 => Just(ModelEvent::Retry(Retry { attempt: 2, wait_ms: 0, reason: "busy".into() })),
        2 => (0..MAX_USE).prop_map(|input_tokens| {
            ModelEvent::Usage(Usage { input_tokens, ..Usage::default() })
        }),
        3 => stop.prop_map(ModelEvent::End),
        1 => Just(ModelEvent::Failed(ModelError::Malformed("no".into()))),
    ];
    prop_oneof![40 => event.prop_map(Said::Event), 1 => Just(Said::Stops)]
}

/// Says the next turn of the list, whoever asks.
struct Any {
    turns: Mutex<Vec<Vec<Said>>>,
    session: Arc<Mutex<Option<Session>>>,
    heard: Arc<Heard>,
}

impl Model for Any {
    fn name(&self) -> String {
        "any:test".into()
    }

    fn turn(&self, _: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        let turn = self.turns.lock().unwrap().pop();
        let turn = turn.unwrap_or_else(|| vec![Said::Event(ModelEvent::End(StopReason::Done))]);
        let (events, receiver) = mpsc::channel(1);
        let (session, heard) = (Arc::clone(&self.session), Arc::clone(&self.heard));
        tokio::spawn(async move {
            for said in turn {
                match said {
                    Said::Event(event) => {
                        if events.send(event).await.is_err() {
                            return;
                        }
                    }
                    Said::Stops => {
                        if let Some(session) = &*session.lock().unwrap() {
                            session.cancel();
                        }
                        heard.0.lock().unwrap().stopped = true;
                    }
                }
            }
        });
        receiver
    }
}

#[derive(Default)]
struct Heard(Mutex<Told>);

#[derive(Default)]
struct Told {
    /// Of each run of a worker: calls without a result.
    open: HashMap<Vec<u64>, Vec<String>>,
    ids: HashMap<Vec<u64>, Vec<String>>,
    live: Vec<Vec<u64>>,
    turns: HashMap<Vec<u64>, u64>,
    most_at_once: u64,
    begun: u64,
    stopped: bool,
    /// What must not be.
    wrong: Vec<String>,
}

impl Observer for Heard {
    fn observe(&self, event: RunEvent<'_>) {
        let told = &mut *self.0.lock().unwrap();
        match event {
            RunEvent::Started { caller, .. } => told.live.push(caller.runs().to_vec()),
            RunEvent::TurnStarted { caller, turn, .. } => {
                let turns = told.turns.entry(caller.runs().to_vec()).or_default();
                *turns += 1;
                if *turns != turn {
                    told.wrong.push(format!("turn {turn} is the {turns}th"));
                }
                told.most_at_once = told.most_at_once.max(told.live.len() as u64);
            }
            RunEvent::Said { caller, message } => {
                let run = caller.runs().to_vec();
                let open = told.open.entry(run.clone()).or_default();
                match message {
                    Message::Input { .. } => {}
                    Message::Model { calls, .. } => {
                        if !open.is_empty() {
                            told.wrong
                                .push(format!("another turn, and no result for {open:?}"));
                        }
                        let ids = told.ids.entry(run).or_default();
                        for call in calls {
                            if call.id.is_empty() || ids.contains(&call.id) {
                                told.wrong.push(format!("another call `{}`", call.id));
                            }
                            ids.push(call.id.clone());
                            open.push(call.id.clone());
                        }
                    }
                    Message::ToolResult(result) => {
                        if open.first() == Some(&result.id) {
                            open.remove(0);
                        } else {
                            told.wrong
                                .push(format!("{} answers none of {open:?}", result.id));
                        }
                    }
                }
            }
            RunEvent::Ended { caller, .. } => {
                let run = caller.runs().to_vec();
                if let Some(open) = told.open.get(&run).filter(|open| !open.is_empty()) {
                    told.wrong
                        .push(format!("{caller} ended, and no result for {open:?}"));
                }
                match told.live.iter().position(|live| *live == run) {
                    Some(at) => drop(told.live.remove(at)),
                    None => told.wrong.push(format!("{caller} ended twice")),
                }
            }
            RunEvent::CallStarted { call, .. } if told.stopped => {
                let made = format!("{} was made after the run was stopped", call.tool);
                told.wrong.push(made);
            }
            RunEvent::CallStarted { .. } => told.begun += 1,
            RunEvent::Streamed { .. }
            | RunEvent::Prepared { .. }
            | RunEvent::Used { .. }
            | RunEvent::CallEnded { .. }
            | RunEvent::ContextTrimmed { .. }
            | RunEvent::Warning { .. } => {}
        }
    }
}

const CONFIG: &str = "\
sandbox:
  mode: direct
  zones:
    workspace: { path: ./workspace, approval: { write: preApproved, delete: ask } }
delegation: { max_depth: 3, max_children: 3 }
limits: { max_turns: 4, max_tokens: TOKENS, max_tool_calls: 12 }
";

fn check(turns: Vec<Vec<Said>>, max_tokens: u64) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("workers")).unwrap();
    let config = CONFIG.replace("TOKENS", &max_tokens.to_string());
    std::fs::write(dir.path().join("golem-forge.config.yaml"), config).unwrap();
    for name in ["main", "child"] {
        let text = format!(
            "---\nname: {name}\ndescription: d\nsandbox: inherit\nworkers: ['*']\n---\nGo.\n"
        );
        std::fs::write(dir.path().join(format!("workers/{name}.worker")), text).unwrap();
    }
    let mut sources = Sources::new(dir.path());
    sources.trust = TrustedSettings::Given;
    let project = load(&sources).unwrap();
    let worker = project.worker("main").unwrap();
    let heard = Arc::new(Heard::default());
    let slot = Arc::new(Mutex::new(None));
    let model = Any {
        turns: Mutex::new(turns.clone()),
        session: Arc::clone(&slot),
        heard: Arc::clone(&heard),
    };
    let session = Session::builder(model)
        .workers(project.workers().unwrap())
        .max_depth(project.max_depth())
        .max_children(project.max_children())
        .observer(Arc::clone(&heard) as Arc<dyn Observer>)
        .build();
    *slot.lock().unwrap() = Some(session.clone());
    let report = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(session.run(&worker, project.entry_grant(&worker).unwrap(), "go"));
    *slot.lock().unwrap() = None;
    let told = heard.0.lock().unwrap();
    prop_assert_eq!(&told.wrong, &Vec::<String>::new());
    prop_assert!(told.live.is_empty(), "{:?} go on", told.live);
    prop_assert!(
        !told.stopped || matches!(report.end, RunOutcome::Cancelled),
        "{:?}",
        report.end
    );
    // A turn says so much at most; each worker at work may have one on its way.
    let largest = turns
        .iter()
        .map(|turn| {
            let used = |said: &Said| match said {
                Said::Event(ModelEvent::Usage(usage)) => usage.total(),
                Said::Event(_) | Said::Stops => 0,
            };
            turn.iter().map(used).sum::<u64>()
        })
        .max()
        .unwrap_or(0);
    let most = max_tokens + largest * told.most_at_once;
    prop_assert!(report.tokens <= most, "{} of {max_tokens}", report.tokens);
    // All that were said are in the report, also those that the limit kept from being made.
    let said: usize = told.ids.values().map(Vec::len).sum();
    prop_assert_eq!(report.calls, said as u64);
    prop_assert!(told.begun <= 12);
    prop_assert!(told.turns.values().all(|turns| *turns <= 4));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_sequence_of_events(
        turns in proptest::collection::vec(proptest::collection::vec(said(), 0..9), 0..10),
        max_tokens in 20u64..400,
    ) {
        check(turns, max_tokens)?;
    }
}
