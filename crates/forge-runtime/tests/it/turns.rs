//! One turn: what is asked when, which call has which result, and what is left of it when it
//! is cut short.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forge_runtime::{
    Message, ModelError, ModelEvent, ModelRequest, Retry, RunOutcome, StopReason, TokenPrices,
};
use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, BoxFuture};
use serde_json::json;

use crate::listed::{Listed, call, calls, said, used};
use crate::support::{CONFIG, World};

/// Writes to `free` go ahead, writes to `asked` do not.
const ASKS: &str = "\
sandbox:
  mode: direct
  zones:
    free: { path: ./free, approval: { write: preApproved } }
    asked: { path: ./asked, approval: { write: ask } }
";

/// Says yes to everything but what mentions `no`, and looks at a directory whenever it is
/// asked.
struct Looks {
    dir: PathBuf,
    saw: Mutex<Vec<String>>,
}

impl Looks {
    fn files(&self) -> String {
        let mut found = Vec::new();
        for zone in ["free", "asked"] {
            for entry in std::fs::read_dir(self.dir.join(zone)).into_iter().flatten() {
                let path = entry.unwrap().path();
                let text = std::fs::read_to_string(&path).unwrap();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                found.push(format!("{zone}/{name}={text}"));
            }
        }
        found.sort();
        found.join(" ")
    }
}

impl Approver for Looks {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let what = request.arguments["path"].as_str().unwrap_or_default();
            self.saw
                .lock()
                .unwrap()
                .push(format!("{what} with [{}]", self.files()));
            if what.contains("no") {
                return ApprovalAnswer::Deny {
                    by: "a test".into(),
                    reason: None,
                };
            }
            ApprovalAnswer::AllowOnce {
                by: "a test".into(),
            }
        })
    }
}

fn asked_about(turn: Vec<ModelEvent>) -> (World, Arc<Looks>, Listed) {
    let mut world = World::new(ASKS, &[("main", "")]);
    let looks = Arc::new(Looks {
        dir: world.dir.path().to_owned(),
        saw: Mutex::default(),
    });
    world.approver = looks.clone();
    let model = Listed::new([turn]);
    let end = world.run_with(model.clone()).end;
    assert!(end.is_answer(), "{end:?}");
    (world, looks, model)
}

#[test]
fn all_questions_of_a_turn_come_before_its_first_call() {
    let write =
        |id, path, content| call(id, "write_file", json!({"path": path, "content": content}));
    let (world, looks, _) = asked_about(calls([
        write("1", "/free/a", "1"),
        write("2", "/asked/b", "2"),
        write("3", "/asked/no", "3"),
        write("4", "/asked/c", "4"),
    ]));
    assert_eq!(
        *looks.saw.lock().unwrap(),
        ["/asked/b with []", "/asked/no with []", "/asked/c with []"]
    );
    assert_eq!(looks.files(), "asked/b=2 asked/c=4 free/a=1");
    let results = world.results();
    let marks: String = results.chars().filter(|c| ['✓', '✗'].contains(c)).collect();
    assert_eq!(marks, "✓✓✗✓", "{results}");
}

#[test]
fn a_question_that_hangs_on_an_earlier_call_waits_for_it() {
    let write = |id, content| {
        call(
            id,
            "write_file",
            json!({"path": "/asked/b", "content": content}),
        )
    };
    let edit = json!({"path": "/asked/b", "old_text": "1", "new_text": "2"});
    let (world, looks, _) = asked_about(calls([write("1", "1"), call("2", "edit_file", edit)]));
    assert_eq!(
        *looks.saw.lock().unwrap(),
        ["/asked/b with []", "/asked/b with [asked/b=1]"],
        "{}",
        world.results()
    );
    assert_eq!(looks.files(), "asked/b=2");
}

/// Every call of the conversation beside its result.
fn pairs(request: &ModelRequest) -> Vec<(String, String)> {
    let mut open: Vec<String> = Vec::new();
    let mut pairs = Vec::new();
    for message in &request.messages {
        match message {
            Message::Input { .. } => {}
            Message::Model { calls, .. } => {
                assert!(open.is_empty(), "no result for {open:?}");
                open = calls.iter().map(|call| call.id.clone()).collect();
            }
            Message::ToolResult(result) => {
                assert_eq!(open.remove(0), result.id);
                pairs.push((result.id.clone(), result.content.clone()));
            }
        }
    }
    assert!(open.is_empty(), "no result for {open:?}");
    pairs
}

#[test]
fn every_call_has_an_id_of_its_own_and_one_result() {
    let world = World::new(CONFIG, &[("main", "")]);
    let count = std::cell::Cell::new(0);
    let no = |id| {
        count.set(count.get() + 1);
        call(id, "nothing", json!({"n": count.get()}))
    };
    let model = Listed::new([
        calls([no(""), no("a"), no("a"), no("call_1_0"), no("")]),
        calls([no("a"), no("b")]),
    ]);
    assert!(world.run_with(model.clone()).end.is_answer());
    let ids: Vec<String> = pairs(&model.last_request())
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(
        ids,
        [
            "call_1_0", "a", "call_1_2", "call_1_3", "call_1_4", "call_2_0", "b"
        ]
    );
}

#[test]
fn a_turn_that_was_cut_makes_no_call() {
    let world = World::new(CONFIG, &[("main", "")]);
    let write = call(
        "1",
        "write_file",
        json!({"path": "/workspace/a", "content": "x"}),
    );
    let model = Listed::new([
        vec![write.clone(), ModelEvent::End(StopReason::MaxTokens)],
        // Void once the turn begins anew.
        vec![
            write.clone(),
            ModelEvent::Retry(Retry {
                attempt: 2,
                wait_ms: 1,
                reason: "cut".into(),
            }),
            ModelEvent::Text("again".into()),
            ModelEvent::End(StopReason::Done),
        ],
    ]);
    let end = world.run_with(model.clone()).end;
    assert_eq!(
        end,
        RunOutcome::Answered {
            answer: "again".into()
        }
    );
    assert!(
        world
            .results()
            .starts_with("✗ write_file: Your answer was cut")
    );
    assert!(!world.dir.path().join("workspace/a").exists());

    // No end: nothing of it is done.
    for turn in [
        vec![write.clone()],
        vec![
            write,
            ModelEvent::Failed(ModelError::Malformed("no".into())),
        ],
    ] {
        let world = World::new(CONFIG, &[("main", "")]);
        let end = world.run_with(Listed::new([turn])).end;
        assert!(matches!(end, RunOutcome::ModelFailed { .. }), "{end:?}");
        assert_eq!(world.results(), "");
        assert!(!world.dir.path().join("workspace/a").exists());
    }
}

#[test]
fn a_refusal_leaves_no_call_open() {
    let world = World::new(CONFIG, &[("main", "")]);
    let turn = vec![
        ModelEvent::Text("no".into()),
        call("1", "list_files", json!({"path": "/"})),
        ModelEvent::End(StopReason::Refused),
    ];
    let end = world.run_with(Listed::new([turn])).end;
    assert_eq!(end, RunOutcome::Refused { text: "no".into() });
    assert_eq!(
        world.results(),
        "✗ list_files: Not finished: the model refused: no."
    );
}

#[test]
fn more_calls_than_a_turn_may_make_are_refused_one_by_one() {
    let world = World::new(CONFIG, &[("main", "")]);
    let many = (0..10_000).map(|n| call("", "file_exists", json!({"path": format!("/data/{n}")})));
    let model = Listed::new([calls(many)]);
    assert!(world.run_with(model.clone()).end.is_answer());
    let results = pairs(&model.last_request());
    assert_eq!(results.len(), 10_000);
    let refused = |(_, text): &&(String, String)| {
        text.starts_with("This call was not made: one turn may have at most 2000 calls.")
    };
    assert_eq!(results.iter().filter(refused).count(), 8_000);
    assert!(results[..2_000].iter().all(|pair| !refused(&pair)));
    assert_eq!(world.records.records().len(), 10_000);
}

#[test]
fn the_whole_tree_makes_so_many_calls() {
    let world = World::new(
        CONFIG,
        &[
            ("main", "workers: [child]\nlimits: {max_tool_calls: 3}\n"),
            ("child", ""),
        ],
    );
    let no = |id| call(id, "nothing", json!({"id": id}));
    let model = Listed::new([
        calls([call("1", "child", json!({"input": "x"}))]),
        calls([no("2")]),
        calls([no("3"), no("4")]),
    ]);
    let report = world.run_with(model);
    assert_eq!(
        world.results(),
        "✗ nothing: There is no tool named `nothing`.\nThis worker has no tools.\n\
         ✗ nothing: Not finished: the limit of 3 tool calls was reached.\n\
         ✗ nothing: Not finished: the limit of 3 tool calls was reached.\n\
         ✗ child: Worker 'child' did not finish: the limit of 3 tool calls was reached"
    );
    // Its caller may still answer: that needs no call.
    assert!(report.end.is_answer(), "{:?}", report.end);
}

#[test]
fn money_is_drawn_from_what_is_left_above() {
    let dollars = TokenPrices {
        input: 10_000_000,
        ..TokenPrices::default()
    };
    let run = |main: &str, child: &str| {
        let world = World::new(
            CONFIG,
            &[
                ("main", &format!("workers: [child]\n{main}")),
                ("child", child),
            ],
        );
        let model = Listed {
            prices: Some(dollars),
            ..Listed::new([
                calls([used(50), call("1", "child", json!({"input": "x"}))]),
                calls([used(60), call("2", "nothing", json!({}))]),
            ])
        };
        let report = world.run_with(model.clone());
        (report, world.results(), model.turns_taken())
    };
    let (report, ..) = run("", "");
    assert_eq!(
        (report.end.is_answer(), report.cost_nano_usd),
        (true, 1_100_000_000)
    );
    let (report, results, turns) = run("limits: {max_cost_usd: 1.05}\n", "");
    let limit = RunOutcome::CostLimit {
        nano_usd: 1_050_000_000,
    };
    assert_eq!((report.end.clone(), turns), (limit, 2), "{results}");
    assert_eq!(report.end.limit_key(), Some("limits.max_cost_usd"));
    let (report, results, turns) = run("", "limits: {max_cost_usd: 0.6}\n");
    assert!(report.end.is_answer() && turns == 3, "{results}");
    assert!(
        results.ends_with("did not finish: the limit of $0.60 was reached"),
        "{results}"
    );
}

#[test]
fn without_prices_there_is_no_limit_on_money_that_holds() {
    let world = World::new(CONFIG, &[("main", "limits: {max_cost_usd: 1}\n")]);
    let model = Listed::new([]);
    let end = world.run_with(model.clone()).end;
    assert_eq!(
        end,
        RunOutcome::NoPrices {
            model: "listed:test".into()
        }
    );
    assert_eq!(model.turns_taken(), 0);

    let world = World::new(
        CONFIG,
        &[
            ("main", "workers: [child]\n"),
            ("child", "limits: {max_cost_usd: 1}\n"),
        ],
    );
    let model = Listed::new([calls([call("1", "child", json!({"input": "x"}))])]);
    assert!(world.run_with(model.clone()).end.is_answer());
    assert_eq!(world.started(), ["main"]);
    assert_eq!(model.turns_taken(), 2);
    assert_eq!(
        world.results(),
        "✗ child: Cannot call worker 'child': the cost is limited, and no prices are known for \
         the model `listed:test`."
    );
}

#[test]
fn waiting_to_try_again_is_no_work() {
    let again = |wait_ms| {
        vec![
            ModelEvent::Retry(Retry {
                attempt: 2,
                wait_ms,
                reason: "429".into(),
            }),
            ModelEvent::Heartbeat,
        ]
    };
    // Nothing follows, so that only the wait says what kind of time it is.
    let run = |wait_ms: u64, limits: &str| {
        let world = World::new(CONFIG, &[("main", &format!("limits: {{{limits}}}\n"))]);
        world.run_with(Waits(again(wait_ms)[0].clone())).end
    };
    let both = "max_working_s: 1, max_wall_s: 3";
    assert_eq!(run(60_000, both), RunOutcome::WallLimit { seconds: 3 });
    assert_eq!(run(10, both), RunOutcome::WorkingLimit { seconds: 1 });
}

/// Says one thing and no more.
struct Waits(ModelEvent);

impl forge_runtime::Model for Waits {
    fn name(&self) -> String {
        "waits:test".into()
    }

    fn turn(&self, _: Arc<ModelRequest>) -> tokio::sync::mpsc::Receiver<ModelEvent> {
        let (events, turn) = tokio::sync::mpsc::channel(1);
        let first = self.0.clone();
        tokio::spawn(async move {
            let _ = events.send(first).await;
            events.closed().await;
        });
        turn
    }
}

/// Stops the session when it is asked something, and never answers.
struct Stops(Mutex<Option<forge_runtime::Session>>, tokio::sync::Notify);

impl Approver for Stops {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            if let Some(session) = &*self.0.lock().unwrap() {
                session.cancel();
            }
            self.1.notified().await;
            std::future::pending().await
        })
    }
}

#[test]
fn a_run_that_is_stopped_leaves_no_call_without_a_result() {
    let mut world = World::new(
        ASKS,
        &[
            ("main", "sandbox: inherit\nworkers: [child]\n"),
            ("child", "sandbox: inherit\n"),
        ],
    );
    let stops = Arc::new(Stops(Mutex::default(), tokio::sync::Notify::new()));
    world.approver = stops.clone();
    let write = |id, path: &str| call(id, "write_file", json!({"path": path, "content": "x"}));
    let model = Listed::new([
        calls([
            call("1", "child", json!({"input": "x"})),
            write("2", "/free/late"),
        ]),
        calls([write("3", "/free/a"), write("4", "/asked/b")]),
    ]);
    let report = world.run_session(model, |session| {
        *stops.0.lock().unwrap() = Some(session.clone());
    });
    assert_eq!(report.end, RunOutcome::Cancelled);
    assert_eq!(
        world.results(),
        "✗ write_file: Cancelled by user.\n✗ write_file: Cancelled by user.\n\
         ✗ child: Cancelled by user.\n✗ write_file: Cancelled by user."
    );
    assert!(
        !world.dir.path().join("free/a").exists(),
        "made after it was stopped"
    );
    assert!(
        !world.dir.path().join("free/late").exists(),
        "made after it was stopped"
    );
    // The one that was asked about, and the worker that was at work.
    let records = world.records.records();
    let mut cancelled: Vec<&str> = records
        .iter()
        .filter(|record| record.code.as_deref() == Some("CANCELLED"))
        .map(|record| record.tool.as_str())
        .collect();
    cancelled.sort_unstable();
    assert_eq!(cancelled, ["child", "write_file"]);
    *stops.0.lock().unwrap() = None;
}

/// Answers only when two are waiting.
struct Together(Arc<tokio::sync::Barrier>);

impl forge_runtime::Model for Together {
    fn name(&self) -> String {
        "together:test".into()
    }

    fn turn(&self, request: Arc<ModelRequest>) -> tokio::sync::mpsc::Receiver<ModelEvent> {
        let (events, turn) = tokio::sync::mpsc::channel(4);
        let barrier = Arc::clone(&self.0);
        tokio::spawn(async move {
            let Some(Message::Input { text }) = request.messages.first() else {
                panic!("no input");
            };
            let turn = match (request.worker.as_str(), request.turns_so_far()) {
                ("main", 0) => {
                    calls(["a", "b"].map(|input| call(input, "child", json!({"input": input}))))
                }
                ("main", _) => said("done"),
                _ => {
                    barrier.wait().await;
                    if text == "a" {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    said(&format!("{text} is done"))
                }
            };
            for event in turn {
                let _ = events.send(event).await;
            }
        });
        turn
    }
}

#[test]
fn workers_called_in_one_turn_work_side_by_side() {
    let world = World::new(CONFIG, &[("main", "workers: [child]\n"), ("child", "")]);
    let together = Together(Arc::new(tokio::sync::Barrier::new(2)));
    assert!(world.run_with(together).end.is_answer());
    assert_eq!(world.results(), "✓ child: a is done\n✓ child: b is done");
}

#[test]
fn a_long_chain_of_workers_is_no_deep_stack() {
    const LONG: usize = 60;
    let names: Vec<String> = (0..LONG).map(|n| format!("w{n}")).collect();
    let mut workers = vec![("main", "workers: [w0]\n".to_owned())];
    for (n, name) in names.iter().enumerate() {
        workers.push((name, format!("workers: [w{}]\n", n + 1)));
    }
    let workers: Vec<(&str, &str)> = workers.iter().map(|(a, b)| (*a, b.as_str())).collect();
    let world = World::new(
        &format!("{CONFIG}delegation: {{max_depth: 100}}\n"),
        &workers,
    );
    let model =
        Listed::new((0..LONG).map(|n| calls([call("1", &format!("w{n}"), json!({"input": "x"}))])));
    let report = world.run_with(model);
    assert!(report.end.is_answer(), "{:?}", report.end);
    assert_eq!(world.started().len(), LONG + 1);
}
