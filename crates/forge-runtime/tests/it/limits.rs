//! What ends a worker: tokens, time, going round in circles, workers started.

use std::sync::Arc;

use forge_runtime::{Model, ModelEvent, ModelRequest, RunOutcome, Usage};
use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, BoxFuture};
use serde_json::json;
use tokio::sync::mpsc;

use crate::listed::{Listed, call, calls};
use crate::support::{CONFIG, World};

/// Never says anything.
struct Silent;

impl Model for Silent {
    fn name(&self) -> String {
        "silent".into()
    }

    fn turn(&self, _: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        let (events, turn) = mpsc::channel(1);
        tokio::spawn(async move { events.closed().await });
        turn
    }
}

/// Never answers.
struct Absent;

impl Approver for Absent {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::pending())
    }
}

const ASKS: &str = "version: 1
workers:
  main:
    - calls: [{tool: write_file, args: {path: /data/a, content: x}}]
    - say: done
";

/// A zone whose writes are asked about.
const ASKED: &str = "sandbox: {zones: {data: {path: ./data}}}\n";

#[test]
fn time_runs_out_and_names_its_limit() {
    let world = World::new(ASKED, &[("main", "limits: {max_wall_s: 1}\n")]);
    let end = world.run_with(Silent).end;
    assert_eq!(end, RunOutcome::WallLimit { seconds: 1 });
    assert_eq!(end.limit_key(), Some("limits.max_wall_s"));

    let world = World::new(ASKED, &[("main", "limits: {max_working_s: 1}\n")]);
    let end = world.run_with(Silent).end;
    assert_eq!(end, RunOutcome::WorkingLimit { seconds: 1 });
    assert_eq!(end.limit_key(), Some("limits.max_working_s"));
}

#[test]
fn waiting_for_a_person_is_no_work() {
    let mut world = World::new(
        ASKED,
        &[("main", "limits: {max_working_s: 1, max_wall_s: 2}\n")],
    );
    world.approver = Arc::new(Absent);
    assert_eq!(world.run(ASKS).end, RunOutcome::WallLimit { seconds: 2 });
}

#[test]
fn a_called_worker_has_its_own_time() {
    let world = World::new(
        ASKED,
        &[
            ("main", "sandbox: inherit\nworkers: [child]\n"),
            ("child", "sandbox: inherit\nlimits: {max_wall_s: 1}\n"),
        ],
    );
    let mut world = world;
    world.approver = Arc::new(Absent);
    let report = world.run(
        "version: 1
workers:
  main:
    - calls: [{tool: child, args: {input: x}}]
    - say: went on
  child:
    - calls: [{tool: write_file, args: {path: /data/a, content: x}}]
    - say: never
",
    );
    assert!(report.end.is_answer(), "{:?}", report.end);
    assert_eq!(
        world.results(),
        "✗ write_file: Not finished: the limit of 1 s was reached.\n\
         ✗ child: Worker 'child' did not finish: the limit of 1 s was reached"
    );
}

/// `main` uses 60 tokens, calls `child`, which uses 60 a turn.
fn spending(main: &str, child: &str) -> (World, forge_runtime::RunReport) {
    let world = World::new(
        CONFIG,
        &[
            ("main", &format!("workers: [child]\n{main}")),
            ("child", child),
        ],
    );
    let report = world.run(
        "version: 1
workers:
  main:
    - usage: {input_tokens: 50, output_tokens: 10}
      calls: [{tool: child, args: {input: x}}]
    - say: went on
      usage: {output_tokens: 5}
  child:
    - usage: {input_tokens: 50, output_tokens: 10}
      calls: [{tool: nothing}]
    - say: finished
",
    );
    (world, report)
}

#[test]
fn tokens_are_drawn_from_what_is_left_above() {
    let (_, report) = spending("", "");
    assert!(report.end.is_answer());
    assert_eq!(report.tokens, 125);

    // The child's own limit ends the child, and its caller goes on.
    let (world, report) = spending("", "limits: {max_tokens: 60}\n");
    assert!(report.end.is_answer(), "{:?}", report.end);
    assert!(
        world
            .results()
            .ends_with("did not finish: the limit of 60 tokens was reached"),
        "{}",
        world.results()
    );

    // The caller's limit holds for both together: nothing more is called, and nobody is
    // asked for another turn.
    let (world, report) = spending("limits: {max_tokens: 100}\n", "");
    assert_eq!(world.started(), ["main", "main > child"]);
    assert_eq!(
        world.results(),
        "✗ nothing: Not finished: the limit of 100 tokens was reached.\n\
         ✗ child: Worker 'child' did not finish: the limit of 100 tokens was reached"
    );
    assert_eq!(report.end, RunOutcome::TokenLimit { tokens: 100 });
    assert_eq!(report.turns, 2);

    let (world, report) = spending("limits: {max_tokens: 60}\n", "");
    assert_eq!(report.end, RunOutcome::TokenLimit { tokens: 60 });
    assert_eq!(world.started(), ["main"], "the call was made");
}

#[test]
fn going_round_in_circles_earns_a_hint_and_then_the_end() {
    let same = "    - calls: [{tool: nothing}]\n";
    let run = |limits: &str, turns: usize| {
        let world = World::new(CONFIG, &[("main", limits)]);
        let playbook = format!(
            "version: 1\nworkers:\n  main:\n{}    - say: done\n",
            same.repeat(turns)
        );
        let end = world.run(&playbook).end;
        (end, world.results().matches("same result again").count())
    };
    for (limits, turns, stopped, hints) in [
        ("", 2, None, 0),
        ("", 5, None, 1),
        ("", 6, Some(6), 1),
        ("limits: {repeat_calls: 1}\n", 1, None, 1),
        ("limits: {repeat_calls: 1}\n", 2, Some(2), 1),
    ] {
        let (end, hinted) = run(limits, turns);
        match stopped {
            Some(calls) => assert_eq!(end, RunOutcome::Repeated { calls }, "{limits} {turns}"),
            None => assert!(end.is_answer(), "{limits} {turns}: {end:?}"),
        }
        assert_eq!(hinted, hints, "{limits} {turns}");
    }
}

#[test]
fn another_result_is_another_call() {
    let world = World::new(CONFIG, &[("main", "")]);
    let turn = "    - calls: [{tool: nothing}, {tool: nobody}]\n";
    let playbook = format!(
        "version: 1\nworkers:\n  main:\n{}    - say: done\n",
        turn.repeat(8)
    );
    assert!(world.run(&playbook).end.is_answer());
    assert!(!world.results().contains("same result"));
}

#[test]
fn a_worker_starts_so_many_others() {
    let config = format!("{CONFIG}delegation: {{max_children: 2}}\n");
    let world = World::new(&config, &[("main", "workers: [child]\n"), ("child", "")]);
    world.run(
        "version: 1
workers:
  main:
    - calls: [{tool: child, for_each: 'range(3)', args: {input: 'x{{ item }}'}}]
    - say: done
  child:
    - say: finished
",
    );
    assert_eq!(world.started(), ["main", "main > child", "main > child"]);
    assert!(
        world.results().ends_with(
            "✗ child: Cannot call worker 'child': you have called 2 workers, this project's limit."
        ),
        "{}",
        world.results()
    );
}

/// A provider that says nothing of tokens, or too little, does not fill the memory.
#[test]
fn a_conversation_ends_before_the_memory_does() {
    let world = World::new(ASKED, &[("main", "limits: {repeat_calls: null}\n")]);
    let turn = |n: usize| {
        let much = json!({"path": format!("{n}{}", "x".repeat(20 << 20))});
        let usage = Usage {
            output_tokens: 1,
            ..Usage::default()
        };
        [
            vec![ModelEvent::Usage(usage)],
            calls([call("", "file_exists", much)]),
        ]
        .concat()
    };
    let model = Listed::new((0..9).map(turn));
    let end = world.run_with(model.clone()).end;
    assert!(matches!(end, RunOutcome::ContextFull { .. }), "{end}");
    assert_eq!(model.turns_taken(), 4);
}
