//! A child never gets more than its parent, and what would is not started.

use forge_runtime::RunOutcome;
use sandbox_config::MountSource;

use crate::support::{CONFIG, World};

const DATA_RO: &str = "sandbox: {zones: [{name: data, mode: ro}]}\n";
const BOTH: &str = "sandbox: {zones: [{name: data, mode: ro}, {name: workspace}]}\n";

fn calls(worker: &str) -> String {
    format!(
        "version: 1
workers:
  main:
    - calls: [{{tool: {worker}, args: {{input: x}}}}]
    - say: done
  {worker}:
    - calls:
        - {{tool: list_files, args: {{path: /}}}}
        - {{tool: write_file, args: {{path: /workspace/a, content: x}}}}
    - say: finished
"
    )
}

#[test]
fn a_child_gets_what_it_declares() {
    let world = World::new(
        CONFIG,
        &[
            ("main", &format!("{BOTH}workers: [child]\n")),
            ("child", DATA_RO),
        ],
    );
    let report = world.run(&calls("child"));
    assert!(report.end.is_answer(), "{:?}", report.end);
    assert_eq!(world.started(), ["main", "main > child"]);
    insta::assert_snapshot!(world.results(), @r"
    ✓ list_files: data/
    ✗ write_file: Cannot access '/workspace/a': path is outside sandbox.
    Readable paths: /data
    ✓ child: finished
    ");
}

#[test]
fn without_a_declaration_there_are_no_file_tools() {
    let world = World::new(
        CONFIG,
        &[("main", &format!("{BOTH}workers: [pure]\n")), ("pure", "")],
    );
    world.run(&calls("pure"));
    assert!(
        world
            .results()
            .starts_with("✗ list_files: There is no tool named `list_files`.")
    );
}

#[test]
fn escalation_starts_nothing() {
    for (main, child, text) in [
        (
            DATA_RO,
            "sandbox: {zones: [{name: data, mode: rw}]}\n",
            "Child requests 'rw' on 'data' but parent only has 'ro'",
        ),
        (
            DATA_RO,
            BOTH,
            "Child requests 'workspace' but parent doesn't have it",
        ),
        (
            "sandbox: none\n",
            DATA_RO,
            "Child requests 'data' but parent doesn't have it",
        ),
    ] {
        let config = CONFIG.replace("path: ./data, mode: ro", "path: ./data");
        let world = World::new(
            &config,
            &[
                ("main", &format!("{main}workers: [child]\n")),
                ("child", child),
            ],
        );
        let report = world.run(&calls("child"));
        assert!(report.end.is_answer(), "{:?}", report.end);
        assert_eq!(world.started(), ["main"]);
        assert_eq!(report.turns, 2, "the child's model was asked");
        let results = world.results();
        assert!(results.contains(text), "{results}");
        assert!(!results.to_lowercase().contains("zone"), "{results}");
    }
}

#[test]
fn what_is_held_and_not_used_can_be_passed_on() {
    let world = World::new(
        CONFIG,
        &[
            (
                "main",
                "sandbox: {zones: [{name: data, mode: ro, use: false}]}\nworkers: [child]\n",
            ),
            ("child", DATA_RO),
        ],
    );
    world.run(
        "version: 1
workers:
  main:
    - calls:
        - {tool: read_file, args: {path: /data/a}}
        - {tool: child, args: {input: x}}
    - say: done
  child:
    - calls: [{tool: list_files, args: {path: /}}]
    - say: finished
",
    );
    insta::assert_snapshot!(world.results(), @r"
    ✗ read_file: There is no tool named `read_file`.
    Available tools: read_output, call_worker, child
    ✓ list_files: data/
    ✓ child: finished
    ");
}

#[test]
fn depth_cycles_and_strangers() {
    let config = format!("{CONFIG}delegation: {{max_depth: 2}}\n");
    let everybody = "workers: ['*']\n";
    let world = World::new(
        &config,
        &[
            ("main", "workers: [a]\n"),
            ("a", everybody),
            ("b", everybody),
            ("c", everybody),
        ],
    );
    let report = world.run(
        "version: 1
workers:
  main:
    - calls:
        - {tool: call_worker, args: {worker: b, input: x}}
        - {tool: call_worker, args: {worker: \"x\\e[2J\", input: x}}
        - {tool: a, args: {input: x}}
    - say: done
  a:
    - calls:
        - {tool: call_worker, args: {worker: main, input: x}}
        - {tool: call_worker, args: {worker: a, input: x}}
        - {tool: b, args: {input: x}}
    - say: a done
",
    );
    assert_eq!(
        report.end,
        RunOutcome::Answered {
            answer: "done".into()
        }
    );
    assert_eq!(world.started(), ["main", "main > a"]);
    insta::assert_snapshot!(world.results_of("main"), @r"
    ✗ call_worker: Cannot call worker 'b': it is not among yours.
    Workers you may call: a
    ✗ call_worker: Cannot call worker 'x\x1b[2J': it is not among yours.
    Workers you may call: a
    ✓ a: a done
    ");
    insta::assert_snapshot!(world.results_of("main > a"), @r"
    ✗ call_worker: Cannot call worker 'main': it is already at work above you (main > a).
    ✗ call_worker: Cannot call worker 'a': it is already at work above you (main > a).
    ✗ b: Cannot call worker 'b': that would be deeper than this project's limit of 2 (main > a > b).
    ");
}

#[test]
fn a_failing_child_is_a_result_for_its_caller() {
    let world = World::new(
        CONFIG,
        &[
            ("main", "workers: [child]\n"),
            ("child", "limits: {max_turns: 1}\n"),
        ],
    );
    let report = world.run(
        "version: 1
workers:
  main:
    - calls: [{tool: child, args: {input: x}}]
    - say: went on
  child:
    - calls: [{tool: nothing}]
    - say: never reached
",
    );
    assert_eq!(
        report.end,
        RunOutcome::Answered {
            answer: "went on".into()
        }
    );
    assert!(
        world
            .results()
            .ends_with("✗ child: Worker 'child' did not finish: the limit of 1 turn was reached"),
        "{}",
        world.results()
    );
}

#[test]
fn results_keep_the_order_of_the_calls() {
    let world = World::new(CONFIG, &[("main", BOTH)]);
    std::fs::create_dir(world.dir.path().join("data")).unwrap();
    for n in 0..30 {
        std::fs::write(world.dir.path().join(format!("data/{n}")), n.to_string()).unwrap();
    }
    let report = world.run(
        "version: 1
workers:
  main:
    - calls: [{tool: read_file, for_each: 'range(30)', args: {path: '/data/{{ item }}'}, as: all}]
    - say: '{{ results.all | map(attribute=\"content\") | join(\" \") }}'
",
    );
    let expected: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    assert_eq!(
        report.end,
        RunOutcome::Answered {
            answer: expected.join(" ")
        }
    );
}

#[test]
fn a_child_with_a_sandbox_of_its_own_says_so() {
    let run = |policy: &str| {
        let world = World::new(
            &format!(
                "sandbox:\n  paths:\n    data: {{ root: ./data, mode: rw }}\n    out: {{ root: ./out }}\n\
                 delegation: {{ child_sandbox_policy: {policy} }}\n"
            ),
            &[
                (
                    "main",
                    "sandbox: {zones: [{name: out, mode: ro}]}\nworkers: [child]\n",
                ),
                ("child", DATA_RO),
            ],
        );
        world.run(&calls("child"));
        let drawn_from = world.log.drawn_from.lock().unwrap().clone();
        (world.results(), drawn_from)
    };
    let (results, drawn_from) = run("own");
    assert_eq!(drawn_from, [MountSource::Project, MountSource::Project]);
    assert!(results.starts_with("✓ list_files: data/"), "{results}");
    // Held by the project, and not by the caller.
    let (results, drawn_from) = run("intersect");
    assert_eq!(drawn_from, [MountSource::Project]);
    assert!(results.contains("Child requests 'data'"), "{results}");
}

#[test]
fn a_subtree_is_passed_on_and_not_climbed_out_of() {
    let world = World::new(
        "sandbox: {root: .}\n",
        &[
            (
                "main",
                "sandbox: {restrict: /src, use: false}\nworkers: [reader, climber]\n",
            ),
            ("reader", "sandbox: {restrict: /src/lib, readonly: true}\n"),
            ("climber", "sandbox: {restrict: /docs}\n"),
        ],
    );
    for dir in ["src/lib", "docs"] {
        std::fs::create_dir_all(world.dir.path().join(dir)).unwrap();
    }
    world.run(
        "version: 1
workers:
  main:
    - calls:
        - {tool: list_files, args: {path: /}}
        - {tool: reader, args: {input: x}}
        - {tool: climber, args: {input: x}}
    - say: done
  reader:
    - calls:
        - {tool: list_files, args: {path: /}}
        - {tool: write_file, args: {path: /src/lib/a, content: x}}
    - say: finished
",
    );
    insta::assert_snapshot!(world.results(), @r#"
    ✗ list_files: There is no tool named `list_files`.
    Available tools: read_output, call_worker, climber, reader
    ✓ list_files: src/
    ✗ write_file: Cannot write to '/src/lib/a': path is read-only.
    Writable paths: none
    ✓ reader: finished
    ✗ climber: Cannot call worker 'climber': Child requests '/docs' but parent doesn't have it
    Available: /src
    The worker was not started. Do the work with what you hold, or leave it out.
    "#);
}

#[test]
fn a_worker_is_not_started_on_a_model_that_it_does_not_name() {
    for (models, started) in [("['scripted:*']", true), ("['anthropic:*']", false)] {
        let child = format!("sandbox: none\ncompatible_models: {models}\n");
        let world = World::new(CONFIG, &[("main", "workers: [child]\n"), ("child", &child)]);
        let report = world.run(
            "version: 1
workers:
  main:
    - calls: [{tool: child, args: {input: x}}]
    - say: done
  child:
    - say: finished
",
        );
        assert!(report.end.is_answer());
        assert_eq!(world.started().len(), if started { 2 } else { 1 });
        if !started {
            assert_eq!(
                world.results(),
                "✗ child: Cannot call worker 'child': it does not run on the model `scripted:test`."
            );
        }
    }
    let world = World::new(CONFIG, &[("main", "compatible_models: ['anthropic:*']\n")]);
    let report = world.run("version: 1\nworkers: {main: [{say: hi}]}\n");
    assert_eq!(
        report.end,
        RunOutcome::WrongModel {
            model: "scripted:test".into()
        }
    );
    assert_eq!(report.turns, 0, "the model was asked");
}

#[test]
fn who_is_called_is_told_what_to_do_or_says_that_it_needs_not() {
    let world = World::new(
        CONFIG,
        &[
            ("main", "workers: [told, free]\n"),
            ("told", ""),
            ("free", "allow_empty_input: true\n"),
        ],
    );
    world.run(
        "version: 1
workers:
  main:
    - calls:
        - {tool: told, args: {input: ' '}}
        - {tool: told}
        - {tool: call_worker, args: {worker: told}}
        - {tool: free}
        - {tool: call_worker, args: {worker: free}}
    - say: done
  free:
    - say: did it
",
    );
    insta::assert_snapshot!(world.results(), @r#"
    ✗ told: Cannot call worker 'told': `input` is empty.
    Say in `input` what the worker is to do.
    ✗ told: Cannot call told: `input` is missing.
    ✗ call_worker: Cannot call worker 'told': `input` is empty.
    Say in `input` what the worker is to do.
    ✓ free: did it
    ✓ call_worker: did it
    "#);
}
