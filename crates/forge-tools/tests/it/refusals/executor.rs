//! What the executor refuses, whatever the tool.

use std::time::Duration;

use forge_tools::{
    ApprovalAnswer, CallRecord, CallRequest, NoApprover, Recorder, Toolbox, ToolboxBuilder,
    Verdict, tools,
};
use serde_json::{Value, json};

use super::world::World;
use super::{Page, TOO_MANY_CALLS};
use crate::support::{Always, Counting, call};

/// A call of each tool that nothing is wrong with.
fn good() -> Vec<(&'static str, Value)> {
    let kept = "/out/kept.md";
    vec![
        ("read_file", json!({"path": kept})),
        ("write_file", json!({"path": "/out/a.md", "content": "x"})),
        ("append_file", json!({"path": kept, "content": "x"})),
        (
            "edit_file",
            json!({"path": kept, "old_text": "two", "new_text": "2"}),
        ),
        ("list_files", json!({"path": "/out"})),
        ("search_files", json!({"pattern": "one"})),
        ("delete_file", json!({"path": kept})),
        ("move_file", json!({"from": kept, "to": "/out/a.md"})),
        ("copy_file", json!({"from": kept, "to": "/out/a.md"})),
        ("create_dir", json!({"path": "/out/new"})),
        ("file_exists", json!({"path": kept})),
        ("file_info", json!({"path": kept})),
        ("hash_file", json!({"path": kept})),
        ("read_output", json!({"output_id": "0".repeat(32)})),
    ]
}

struct Full;

impl Recorder for Full {
    fn record(&self, _: &CallRecord) -> std::io::Result<()> {
        Err(std::io::ErrorKind::StorageFull.into())
    }
}

type Wrong = fn(ToolboxBuilder) -> ToolboxBuilder;

fn deny() -> ApprovalAnswer {
    ApprovalAnswer::Deny {
        by: "a person".into(),
        reason: Some("use drafts \u{1b}[2J".into()),
    }
}

fn later() -> ApprovalAnswer {
    ApprovalAnswer::Pending {
        reason: "nobody has answered yet".into(),
        hint: "Repeat it later.".into(),
    }
}

pub(super) fn rows(page: &mut Page) {
    let ways: [(&str, Wrong); 6] = [
        ("blocked", |it| it.gate(Always(Verdict::Block))),
        ("denied", |it| {
            it.gate(Always(Verdict::Ask))
                .approver(Counting::new(deny()))
        }),
        ("nobody there", |it| {
            it.gate(Always(Verdict::Ask))
                .approver(NoApprover::because("this is a test"))
        }),
        ("later", |it| {
            it.gate(Always(Verdict::Ask))
                .approver(Counting::new(later()))
        }),
        (TOO_MANY_CALLS, |it| it),
        ("no record", |it| it.recorder(Full)),
    ];
    for (tool, arguments) in good() {
        page.heading(tool);
        for (label, wrong) in ways {
            one(page, tool, label, &arguments, wrong);
        }
        too_slow(page, tool, &arguments);
        let mut none = json!({"pth": "/out", "X\u{1b}": 1});
        one(page, tool, "arguments", &none, |it| it);
        none = json!([7]);
        one(page, tool, "no arguments", &none, |it| it);
        one(page, &tool[1..], "misspelt", &arguments, |it| it);
        one(page, tool, "as it should be", &arguments, |it| it);
    }
    bare(page);
}

fn one(page: &mut Page, tool: &str, label: &str, arguments: &Value, wrong: Wrong) {
    let world = World::new();
    let toolbox = wrong(world.builder()).build().unwrap();
    if label == TOO_MANY_CALLS {
        toolbox.begin_turn_of(0);
    }
    let result = call(&toolbox, tool, arguments.clone());
    page.row(world.host(), label, arguments, &result);
}

/// Every thread that could look at the files is busy with something else.
fn too_slow(page: &mut Page, tool: &str, arguments: &Value) {
    let world = World::new();
    let toolbox = world
        .builder()
        .timeout(Duration::from_millis(5))
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let (open, door) = std::sync::mpsc::channel::<()>();
    let result = runtime.block_on(async {
        tokio::task::spawn_blocking(move || door.recv());
        toolbox
            .call(CallRequest::new(tool, arguments.clone()))
            .await
    });
    drop(open);
    page.row(world.host(), "too slow", arguments, &result);
}

/// The tools of a worker that holds nothing.
fn bare(page: &mut Page) {
    page.heading("without files");
    let tools = tools::file_tools().into_iter();
    let toolbox = tools.fold(Toolbox::builder(), ToolboxBuilder::boxed_tool);
    let toolbox = toolbox.build().unwrap();
    for (tool, arguments) in good() {
        let result = call(&toolbox, tool, arguments.clone());
        page.row("/no/such/place", tool, &arguments, &result);
    }
    let nothing = Toolbox::builder().build().unwrap();
    let result = call(&nothing, "read_file", json!({}));
    page.row("/no/such/place", "no tools at all", &json!({}), &result);
}
