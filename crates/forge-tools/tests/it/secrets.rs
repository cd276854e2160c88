//! Secrets: a model sees placeholders, files keep what they hold, nothing is written down.

use std::sync::Arc;

use forge_tools::{
    ApprovalAnswer, ApprovalRequest, Approver, BoxFuture, CallFailure, CallRecord, CallRequest,
    CallResult, CommandLine, Intent, Invocation, ReadOnlyContext, Redactor, Reply, ReplyFuture,
    ToolContext, Toolbox, TypedTool, Verdict,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::place::everywhere;
use crate::support::{Always, World, block_on, call, recorder};

const SECRET: &str = "hunter2-but-longer";

fn redactor() -> Arc<Redactor> {
    Arc::new(Redactor::new([("DEPLOY_PASSWORD", SECRET)]))
}

/// A world whose `/out` takes files of any size, with one that holds a secret twice.
fn world() -> (World, Toolbox, Arc<forge_tools::MemoryRecorder>) {
    let world = World::new();
    std::fs::write(world.host.path().join("out/a.md"), text()).unwrap();
    let records = recorder();
    let toolbox = world
        .builder()
        .shared_redactor(redactor())
        .shared_recorder(records.clone())
        .build()
        .unwrap();
    (world, toolbox, records)
}

fn text() -> String {
    format!("p={SECRET}\nq={}\n", &SECRET[..7])
}

fn on_disk(world: &World, name: &str) -> String {
    std::fs::read_to_string(world.host.path().join("out").join(name)).unwrap()
}

fn says_nothing(result: &CallResult, records: &[CallRecord]) {
    let record = serde_json::to_string(records.last().unwrap()).unwrap();
    for text in [result.to_json().to_string(), result.content.clone(), record] {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn what_was_read_is_written_back_byte_for_byte() {
    everywhere(what_was_read_is_written_back_byte_for_byte_here);
}

fn what_was_read_is_written_back_byte_for_byte_here() {
    let (world, toolbox, records) = world();
    let read = call(&toolbox, "read_file", json!({"path": "/out/a.md"}));
    says_nothing(&read, &records.records());
    let placeholder = read
        .content
        .lines()
        .next()
        .unwrap()
        .strip_prefix("p=")
        .unwrap();
    assert!(placeholder.starts_with("[redacted: DEPLOY_PASSWORD "));

    for (tool, arguments, name, after) in [
        (
            "write_file",
            json!({"path": "/out/b.md", "content": read.content}),
            "b.md",
            text(),
        ),
        (
            "append_file",
            json!({"path": "/out/c.md", "content": placeholder}),
            "c.md",
            SECRET.to_owned(),
        ),
        (
            "edit_file",
            json!({"path": "/out/a.md", "old_text": format!("p={placeholder}\nq"),
                   "new_text": format!("q={placeholder}\np")}),
            "a.md",
            format!("q={SECRET}\np={}\n", &SECRET[..7]),
        ),
    ] {
        let result = call(&toolbox, tool, arguments);
        assert!(result.ok, "{tool}: {}", result.content);
        says_nothing(&result, &records.records());
        assert_eq!(on_disk(&world, name), after, "{tool}");
    }
}

#[test]
fn a_placeholder_of_nobody_is_refused_and_nothing_is_written() {
    everywhere(a_placeholder_of_nobody_is_refused_and_nothing_is_written_here);
}

fn a_placeholder_of_nobody_is_refused_and_nothing_is_written_here() {
    let (world, toolbox, _) = world();
    let content = "p=[redacted: DEPLOY_PASSWORD 0123456789abcdef]\n";
    let result = call(
        &toolbox,
        "write_file",
        json!({"path": "/out/a.md", "content": content}),
    );
    insta::assert_snapshot!(result.content, @r#"
    Cannot call write_file: `[redacted: DEPLOY_PASSWORD 0123456789abcdef]` stands for no known value.
    It stands for a secret that is not shown. Take it as a result of this run shows it: read the file again.
    "#);
    assert_eq!(on_disk(&world, "a.md"), text());
}

#[test]
fn a_person_sees_placeholders_and_no_secret() {
    struct Looks(std::sync::Mutex<String>);
    impl Approver for Looks {
        fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
            *self.0.lock().unwrap() = request.preview();
            Box::pin(async {
                ApprovalAnswer::Deny {
                    by: SECRET.into(),
                    reason: Some(SECRET.into()),
                }
            })
        }
    }
    let (world, _, records) = world();
    let looks = Arc::new(Looks(std::sync::Mutex::default()));
    let toolbox = world
        .builder()
        .shared_redactor(redactor())
        .shared_recorder(records.clone())
        .gate(Always(Verdict::Ask))
        .shared_approver(looks.clone())
        .build()
        .unwrap();
    let result = call(
        &toolbox,
        "edit_file",
        json!({"path": "/out/a.md", "old_text": "q=", "new_text": "r="}),
    );
    let shown = looks.0.lock().unwrap().clone();
    assert!(shown.contains(" p=[redacted: DEPLOY_PASSWORD "), "{shown}");
    assert!(!shown.contains(SECRET));
    // Not even if the person types it.
    assert_eq!(result.error.as_ref().unwrap().code, "DENIED");
    says_nothing(&result, &records.records());
}

#[test]
fn a_command_is_not_given_a_placeholder() {
    // Without a way to run commands there is no such tool; the rule is the executor's.
    forge_tools::arguments! {
        struct Runs {
            command: String = "The line.";
        }
    }
    impl Invocation for Runs {
        fn intents(&self, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
            let line = CommandLine::parse(&self.command).unwrap();
            Ok(vec![Intent::Execute(line)])
        }
        fn run(self: Arc<Self>, _: ToolContext) -> ReplyFuture {
            Box::pin(async { Ok(Reply::text("ran")) })
        }
    }
    let spec = forge_tools::Spec::looks("runs", "Runs.").arguments::<Runs>();
    let redactor = redactor();
    let toolbox = Toolbox::builder()
        .shared_redactor(redactor.clone())
        .boxed_tool(TypedTool::<Runs>::boxed(spec))
        .build()
        .unwrap();
    let placeholder = redactor.redact(SECRET).into_owned();
    let ran = call(&toolbox, "runs", json!({"command": "echo [redacted: x]"}));
    assert!(ran.ok, "what only looks alike is text");
    let result = call(
        &toolbox,
        "runs",
        json!({"command": format!("echo '{placeholder}' > .env")}),
    );
    assert_eq!(result.error.unwrap().code, "INVALID_ARGUMENTS");
    assert!(result.content.contains(&placeholder));
}

/// Some value with the secret in places.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(SECRET)),
        Just(json!(format!("/out/{SECRET}.md"))),
        Just(json!(format!("x{SECRET}{SECRET}y"))),
        Just(json!("/out/a.md")),
        Just(json!("/data/readme.md")),
        Just(json!("^p")),
        any::<i64>().prop_map(|n| json!(n)),
        any::<bool>().prop_map(|b| json!(b)),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec(inner, 1..2)
                .prop_map(|values| json!({ SECRET: values[0].clone() })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever is called with whatever, no result and no record holds the secret.
    #[test]
    fn no_secret_in_any_result_or_record(
        calls in prop::collection::vec(
            (
                prop::sample::select(vec![
                    "read_file", "write_file", "append_file", "edit_file", "list_files",
                    "search_files", "delete_file", "move_file", "copy_file", "create_dir",
                    "file_exists", "file_info", "hash_file", "read_output", SECRET,
                ]),
                prop::collection::vec(
                    (
                        prop::sample::select(vec![
                            "path", "content", "old_text", "new_text", "pattern", "glob", "from",
                            "to", "source", "destination", "if_match", "output_id", SECRET,
                        ]),
                        values(),
                    ),
                    0..4,
                ),
            ),
            20,
        ),
    ) {
        let (_world, toolbox, records) = world();
        block_on(async {
            for (tool, arguments) in calls {
                let arguments: serde_json::Map<String, Value> = arguments
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect();
                let result = toolbox.call(CallRequest::new(tool, Value::Object(arguments))).await;
                says_nothing(&result, &records.records());
            }
        });
    }
}
