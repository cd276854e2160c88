//! Playbooks over the wires of the vendors: what goes in at the server comes out of the client.

use std::sync::Arc;

use forge_runtime::{
    Message, Model, ModelError, ModelEvent, ModelFailure, ModelRequest, Playbook, RunOutcome,
    RunReport, ScriptedModel, StopReason, Thinking, ToolCall, ToolDescription, ToolResult, Usage,
    Wire,
};
use mock_provider::MockModel;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{CONFIG, World};

const WIRES: [Wire; 3] = [Wire::Anthropic, Wire::OpenAiChat, Wire::OpenAiResponses];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn playbook(text: &str, wire: Wire) -> Playbook {
    let playbook = Playbook::parse(text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    playbook.over(wire)
}

fn wired(text: &str, wire: Wire) -> MockModel {
    MockModel::new("test", playbook(text, wire)).unwrap()
}

/// Plays the playbook in process.
fn direct(text: &str, wire: Wire) -> ScriptedModel {
    ScriptedModel::new("test", playbook(text, wire))
}

/// A run of `main` over `wire`, and what its tools came to.
fn over(text: &str, wire: Wire, stream: bool) -> (RunReport, String) {
    let world = world();
    let report = world.run_with(wired(text, wire).stream(stream));
    (report, world.results())
}

fn world() -> World {
    let world = World::new(
        CONFIG,
        &[
            ("main", "workers: [child]\n"),
            ("child", "sandbox: { zones: [{ name: data, mode: ro }] }\n"),
        ],
    );
    std::fs::create_dir(world.dir.path().join("data")).unwrap();
    std::fs::create_dir(world.dir.path().join("workspace")).unwrap();
    std::fs::write(world.dir.path().join("data/a.txt"), "héllo\n").unwrap();
    std::fs::write(world.dir.path().join("data/b.txt"), "wörld 👩‍👩‍👧‍👦\n").unwrap();
    world
}

const EVERYTHING: &str = r#"
version: 1
workers:
  main:
    - thinking: What is there?
      say: I look.
      expect:
        - { that: "'read_file' in request.tools | map(attribute='name')", else: no tool to read with }
        - { that: "request.instructions == 'Go.\n'", else: "not my instructions: {{ request.instructions }}" }
        - { that: "request.messages | length == 1", else: more than the input }
      calls:
        - { tool: list_files, args: { path: /data }, as: listing }
        - { tool: read_file, args: { path: /etc/passwd }, attempt: read /etc/passwd }
      usage: { input_tokens: 1000, output_tokens: 50, cache_read_tokens: 600, cache_write_tokens: 100 }
    - thinking: [{ text: Both., signature: seal-1 }, { text: "At once.", signature: seal-2 }]
      calls:
        - tool: read_file
          for_each: "results.listing.structured.entries | map(attribute='name')"
          args: { path: "/data/{{ item }}" }
          as: files
        - { tool: child, args: { input: "{{ results.listing.structured.entries | length }} files" }, as: child }
      usage: { input_tokens: 1200, output_tokens: 60, cache_read_tokens: 900 }
    - expect:
        - { that: "'child says 2 files' in request.last_result", else: "the child said {{ request.last_result }}" }
        - { that: "request.messages | length == 8", else: "{{ request.messages | length }} messages" }
      say: "{{ results.files[0].content }}{{ results.files[1].content }}{{ results.child.structured.answer }}"
      usage: { input_tokens: 1300, output_tokens: 20 }
  child:
    - calls: [{ tool: file_exists, args: { path: /data/a.txt } }]
    - say: child says {{ input }}
"#;

#[test]
fn a_run_is_the_same_on_every_wire_and_without_one() {
    let world_of_one = world();
    let report = world_of_one.run_with(direct(EVERYTHING, Wire::default()));
    let expected = (json!(report), world_of_one.results());
    let answer = "héllo\nwörld 👩‍👩‍👧‍👦\nchild says 2 files".to_owned();
    assert_eq!(report.end, RunOutcome::Answered { answer });
    assert_eq!(report.tokens, 3_630);
    for wire in WIRES {
        let world = world();
        let report = world.run_with(direct(EVERYTHING, wire));
        assert_eq!((json!(report), world.results()), expected, "{wire:?}");
        for stream in [true, false] {
            let (report, results) = over(EVERYTHING, wire, stream);
            assert_eq!((json!(report), results), expected, "{wire:?} {stream}");
        }
    }
}

#[test]
fn what_fails_and_passes_is_tried_again_and_the_rest_is_told() {
    let turns = |first: &str| {
        format!(
            "version: 1\nworkers: {{main: [{{calls: [{{tool: read_file, args: {{path: /etc/passwd}}, \
             attempt: once}}]}}, {{say: some more words, {first}}}]}}"
        )
    };
    let answered = || RunOutcome::Answered {
        answer: "some more words".to_owned(),
    };
    let failed = |cause, reason: &str| RunOutcome::ModelFailed {
        cause,
        reason: reason.to_owned(),
    };
    let rows = [
        ("fail: {status: 500}", answered()),
        ("fail: {status: 529, times: 3}", answered()),
        ("fail: {status: 408, retry_after_s: 0}", answered()),
        ("stream: {cut_after: 0}", answered()),
        ("stream: {cut_after: 1}", answered()),
        ("stream: {cut_after: 4, times: 2}", answered()),
        ("stream: {cut_after: 1000}", answered()),
        ("stream: {in_stream_error: overloaded}", answered()),
        ("fail: {status: 503}, stream: {cut_after: 2}", answered()),
        ("stream: {slow_ms: 1, chunk_bytes: 7}", answered()),
        (
            "fail: {status: 429, retry_after_s: 100000, message: come back tomorrow}",
            failed(
                ModelFailure::Unreachable,
                "the provider is busy (429): come back tomorrow",
            ),
        ),
        (
            "fail: {status: 401, message: who are you}",
            failed(
                ModelFailure::Credentials,
                "the provider refused the key (401): who are you",
            ),
        ),
        (
            "fail: {status: 400, message: too long}",
            failed(
                ModelFailure::Rejected,
                "the provider refused the request (400): too long",
            ),
        ),
        (
            "stop: refused",
            RunOutcome::Refused {
                text: "some more words".to_owned(),
            },
        ),
        ("stop: out_of_tokens, say: ''", RunOutcome::MaxTokens),
        ("stop: unknown", answered()),
        (
            "expect: [{that: 'false', else: 'not {{ 1 + 1 }}'}]",
            failed(
                ModelFailure::Playbook,
                "an expectation failed: not 2 (worker `main`, turn 2: false)",
            ),
        ),
        (
            "set: [{name: x, value: nothing.here}]",
            failed(
                ModelFailure::Playbook,
                "the playbook cannot go on: worker `main`, turn 2: undefined value",
            ),
        ),
    ];
    for (first, expected) in rows {
        let text = turns(first).replace(
            "say: some more words, stop: out_of_tokens, ",
            "stop: out_of_tokens, ",
        );
        let ends = WIRES.into_iter().flat_map(|wire| {
            let (over, inside) = (wired(&text, wire), direct(&text, wire));
            [
                (wire, over.attempts(), world().run_with(over).end),
                (wire, inside.attempts(), world().run_with(inside).end),
            ]
        });
        for (wire, attempts, end) in ends {
            match (&end, &expected) {
                (
                    RunOutcome::ModelFailed { reason, cause },
                    RunOutcome::ModelFailed {
                        reason: begins,
                        cause: kind,
                    },
                ) => assert!(
                    cause == kind && reason.starts_with(begins),
                    "{first} {wire:?}: {end:?}"
                ),
                _ => assert_eq!(end, expected, "{first} {wire:?}"),
            }
            // However often a turn is sent, it is played once.
            assert_eq!(attempts.list().len(), 1, "{first} {wire:?}");
        }
    }
}

#[test]
fn an_event_that_is_no_json_is_no_answer() {
    for wire in WIRES {
        for event in [1, 2, 3] {
            let text = format!(
                "version: 1\nworkers: {{main: [{{say: words, stream: {{malformed: {event}, times: 9}}}}]}}"
            );
            let (report, _) = over(&text, wire, true);
            let RunOutcome::ModelFailed { cause, .. } = &report.end else {
                panic!("{wire:?} {event}: {:?}", report.end);
            };
            assert_eq!(*cause, ModelFailure::Rejected, "{wire:?} {event}");
        }
    }
}

/// The events of a turn that a person can tell from each other.
async fn told(model: &dyn Model) -> Vec<String> {
    let mut events = model.turn(request(vec![Message::Input { text: "go".into() }]));
    let mut told = Vec::new();
    while let Some(event) = events.recv().await {
        match event {
            // In process, a block of thinking is complete a step earlier on one of the wires.
            ModelEvent::Heartbeat | ModelEvent::Thinking(_) => {}
            ModelEvent::Retry(retry) => told.push(format!("{}: {}", retry.attempt, retry.reason)),
            other => told.push(format!("{other:?}")),
        }
    }
    told
}

#[test]
fn faults_are_the_same_over_the_wire_and_in_process() {
    let counted = |key: &str| {
        let numbers = [1, 2, 3, 5, 8, 13, 21, 34, 1_000];
        numbers.map(|number| format!("stream: {{ slow_ms: 1, {key}: {number} }}"))
    };
    let mut faults = vec![
        "stream: { slow_ms: 1, cut_after: 0 }".to_owned(),
        "stream: { slow_ms: 1, in_stream_error: overloaded }".to_owned(),
        "stream: { slow_ms: 1, in_stream_error: overloaded, malformed: 2, times: 9 }".to_owned(),
        "stream: { slow_ms: 1, in_stream_error: overloaded, cut_after: 100, times: 2 }".to_owned(),
        "stream: { slow_ms: 1, malformed: 4, cut_after: 3 }".to_owned(),
        "fail: { status: 503, times: 2, message: later }, stream: { slow_ms: 1, cut_after: 4 }"
            .to_owned(),
        format!(
            "fail: {{ status: 413, message: '{}' }}",
            "long ".repeat(500)
        ),
        "fail: { status: 403, message: ' no ' }".to_owned(),
        "fail: { status: 429, message: x, retry_after_s: 9999 }".to_owned(),
    ];
    faults.extend(counted("cut_after"));
    faults.extend(counted("malformed"));
    for fault in faults {
        let text = format!(
            "version: 1\nworkers: {{main: [{{thinking: hm, say: some more words, calls: [{{tool: a, \
             args: [1]}}, {{tool: b, args: {{path: /a}}}}], usage: {{input_tokens: 90, \
             output_tokens: 7, cache_read_tokens: 5, cache_write_tokens: 3}}, {fault}}}]}}"
        );
        for wire in WIRES {
            let (over, inside) = (wired(&text, wire), direct(&text, wire));
            let (over, inside) =
                runtime().block_on(async { tokio::join!(told(&over), told(&inside)) });
            assert_eq!(inside, over, "{fault} {wire:?}");
        }
    }
}

fn request(messages: Vec<Message>) -> Arc<ModelRequest> {
    Arc::new(ModelRequest {
        worker: "main".into(),
        instructions: "Do it.".into(),
        tools: vec![ToolDescription {
            name: "read_file".into(),
            description: "Reads.".into(),
            input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        }],
        messages,
    })
}

/// A turn, put together again.
#[derive(Debug, Default, PartialEq)]
struct Came {
    text: String,
    thinking: Vec<Thinking>,
    calls: Vec<ToolCall>,
    usage: Usage,
    stop: Option<StopReason>,
    failed: Option<ModelError>,
}

async fn turn(model: &dyn Model, request: Arc<ModelRequest>) -> Came {
    let mut came = Came::default();
    let mut events = model.turn(request);
    while let Some(event) = events.recv().await {
        assert!(came.stop.is_none(), "{event:?} after the end");
        match event {
            ModelEvent::Text(more) => {
                assert!(!more.is_empty());
                came.text.push_str(&more);
            }
            ModelEvent::Thinking(block) => came.thinking.push(block),
            ModelEvent::Call(call) => came.calls.push(call),
            ModelEvent::Usage(more) => came.usage = came.usage.saturating_add(more),
            ModelEvent::End(stop) => came.stop = Some(stop),
            ModelEvent::Failed(error) => came.failed = Some(error),
            ModelEvent::Heartbeat => {}
            ModelEvent::Retry(retry) => panic!("{retry:?}"),
        }
    }
    came
}

/// Texts in which letters of every width stand beside each other.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "\\PC{0,40}",
        1 => Just(String::new()),
        1 => Just("data: x\n\nevent: y\r\n{{ no }} {% template %}\u{0}\u{7f}\u{2028}👩‍👩‍👧‍👦\"\\".to_owned()),
        1 => "[a-zé日👍\\n\\r\\t ]{0,400}",
    ]
}

fn any_json(depth: u32) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(depth, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z é{]{0,8}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

#[derive(Debug, Clone)]
struct AnyTurn {
    text: String,
    thinking: Vec<(String, Option<String>)>,
    calls: Vec<(String, Value)>,
    stop: StopReason,
    usage: Usage,
    chunk_bytes: usize,
}

fn any_turn() -> impl Strategy<Value = AnyTurn> {
    let thought = ("[a-zé日 ]{1,60}", prop::option::of("[A-Za-z0-9+/=]{1,30}"));
    let arguments = prop::collection::btree_map("[a-z_]{1,6}", any_json(3), 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()));
    // A model may call whatever it likes.
    let name = prop_oneof![
        3 => "[a-z_]{1,12}",
        1 => any_text(),
        1 => "[a-zA-Z0-9_-]{60,140}",
        1 => "[a-z:\u{0}\u{1b}é日👍]{1,300}",
    ];
    let call = (name, arguments);
    let stop = prop_oneof![
        4 => Just(StopReason::Done),
        1 => Just(StopReason::MaxTokens),
        1 => Just(StopReason::Refused),
        1 => Just(StopReason::Unknown),
    ];
    let usage = (0..1_000_u64, 0..1_000_u64, 0..1_000_u64, 0..1_000_u64);
    (
        any_text(),
        prop::collection::vec(thought, 0..3),
        prop::collection::vec(call, 0..4),
        stop,
        usage,
        1..40_usize,
    )
        .prop_map(
            |(text, thinking, calls, stop, (plain, out, read, write), chunk_bytes)| AnyTurn {
                text,
                thinking,
                calls,
                stop,
                usage: Usage {
                    input_tokens: plain + read + write,
                    output_tokens: out,
                    cache_read_tokens: read,
                    cache_write_tokens: write,
                },
                chunk_bytes,
            },
        )
}

fn playbook_of(turns: &[AnyTurn]) -> String {
    let turns: Vec<Value> = turns
        .iter()
        .map(|turn| {
            let thinking = turn.thinking.iter().map(|(text, seal)| match seal {
                Some(seal) => json!({"text": text, "signature": seal}),
                None => json!({"text": text}),
            });
            let calls = turn
                .calls
                .iter()
                .map(|(tool, args)| json!({"tool": tool, "args": args}));
            json!({
                "verbatim": true,
                "say": turn.text,
                "thinking": thinking.collect::<Vec<_>>(),
                "calls": calls.collect::<Vec<_>>(),
                "stop": turn.stop,
                "usage": turn.usage,
                "stream": {"chunk_bytes": turn.chunk_bytes},
            })
        })
        .collect();
    // JSON that is YAML as well: nothing but ASCII.
    let text = json!({"version": 1, "workers": {"main": turns}}).to_string();
    let mut ascii = String::new();
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte @ b' '..=b'~') => ascii.push(char::from(byte)),
            _ => ascii.push_str(&format!("\\u{unit:04x}")),
        }
    }
    ascii
}

/// What the wire can carry of a turn.
fn carried(turn: &AnyTurn, number: usize, wire: Wire, came: &Came) -> Came {
    let blocks = turn.thinking.iter();
    let thinking = match wire {
        // Every block has a seal, if only one that the server made up.
        Wire::Anthropic => blocks
            .zip(&came.thinking)
            .map(|((text, seal), came)| Thinking {
                text: text.clone(),
                signature: seal.clone().or_else(|| came.signature.clone()),
            })
            .collect(),
        // One text, and no seal.
        Wire::OpenAiChat => {
            let text: String = blocks.map(|(text, _)| text.as_str()).collect();
            match text.is_empty() {
                true => vec![],
                false => vec![Thinking {
                    text,
                    signature: None,
                }],
            }
        }
        Wire::OpenAiResponses => blocks
            .map(|(text, seal)| Thinking {
                text: text.clone(),
                signature: seal.clone(),
            })
            .collect(),
    };
    let calls = turn
        .calls
        .iter()
        .enumerate()
        .map(|(index, (tool, args))| ToolCall {
            id: format!("call_{number}_{index}_{index}"),
            tool: tool.clone(),
            arguments: args.clone(),
        });
    let mut usage = turn.usage;
    if wire != Wire::Anthropic {
        // Nothing is said of what was written into a cache.
        usage.cache_write_tokens = 0;
    }
    Came {
        text: turn.text.clone(),
        thinking,
        calls: calls.collect(),
        usage,
        stop: Some(turn.stop),
        failed: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: test_sample::count("providers: turns", 16, 48), ..ProptestConfig::default() })]

    /// Turns after turns, each with the results of the ones before it, and the conversation
    /// goes back as it came: the server holds it against what was sent.
    #[test]
    fn any_turns_come_out_as_they_went_in(
        turns in prop::collection::vec(any_turn(), 1..4),
        results in prop::collection::vec((any_text(), any::<bool>()), 4),
    ) {
        let text = playbook_of(&turns);
        for wire in WIRES {
            for stream in [true, false] {
                let model = wired(&text, wire).stream(stream);
                runtime().block_on(async {
                    let mut talk = vec![Message::Input { text: "go".into() }];
                    for (index, expected) in turns.iter().enumerate() {
                        let came = turn(&model, request(talk.clone())).await;
                        let expected = carried(expected, index + 1, wire, &came);
                        prop_assert_eq!(&came, &expected, "{:?} {}", wire, stream);
                        let inside = turn(&direct(&text, wire), request(talk.clone())).await;
                        prop_assert_eq!(&came, &inside, "{:?} {}", wire, stream);
                        let calls = came.calls.clone();
                        talk.push(Message::Model {
                            text: came.text,
                            thinking: came.thinking,
                            calls: came.calls,
                        });
                        for (call, (content, is_error)) in calls.iter().zip(results.iter().cycle()) {
                            talk.push(Message::ToolResult(ToolResult {
                                id: call.id.clone(),
                                tool: call.tool.clone(),
                                content: content.clone(),
                                is_error: *is_error,
                                detail: Value::Null,
                            }));
                        }
                        if calls.is_empty() {
                            talk.push(Message::Input { text: "and?".into() });
                        }
                    }
                    Ok(())
                })?;
            }
        }
    }
}

#[test]
fn unicode_survives_a_cut_at_every_byte() {
    let text = "é日👍\u{10ffff} \u{2028}";
    for wire in WIRES {
        for chunk_bytes in 1..8 {
            let turns = [AnyTurn {
                text: text.to_owned(),
                thinking: vec![],
                calls: vec![("t".into(), json!({ text: text }))],
                stop: StopReason::Done,
                usage: Usage::default(),
                chunk_bytes,
            }];
            let model = wired(&playbook_of(&turns), wire);
            let talk = vec![Message::Input { text: text.into() }];
            let came = runtime().block_on(turn(&model, request(talk)));
            assert_eq!(
                came,
                carried(&turns[0], 1, wire, &came),
                "{wire:?} {chunk_bytes}"
            );
        }
    }
}

#[test]
fn a_turn_that_nobody_waits_for_is_given_up() {
    let text = "version: 1\nworkers: {main: [{say: a long story, stream: {slow_ms: 60000}}]}";
    for wire in WIRES {
        let models: [Box<dyn Model>; 2] =
            [Box::new(wired(text, wire)), Box::new(direct(text, wire))];
        for model in models {
            runtime().block_on(async {
                let mut events = model.turn(request(vec![Message::Input { text: "go".into() }]));
                let waited = std::time::Duration::from_millis(200);
                assert!(tokio::time::timeout(waited, events.recv()).await.is_err());
                drop(events);
            });
        }
    }
}

#[test]
fn cases_are_told_apart_by_what_was_asked() {
    let text = "
version: 1
workers:
  main:
    - calls:
        - { tool: child, args: { input: one }, as: one }
        - { tool: child, args: { input: three }, as: three }
        - { tool: child, args: { input: five }, as: five }
    - say: '{{ results.one.structured.answer }} {{ results.three.structured.answer }} {{ results.five.structured.answer }}'
  child: [{ say: something else }]
cases:
  child:
    - input: one
      turns: [{ say: first }]
    - when: \"input | length == 5 and 'file_exists' in request.tools | map(attribute='name')\"
      turns: [{ say: long }]
";
    for wire in WIRES {
        let (report, _) = over(text, wire, true);
        let answer = "first long something else".to_owned();
        assert_eq!(report.end, RunOutcome::Answered { answer }, "{wire:?}");
    }
}
