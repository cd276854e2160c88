//! Results that are too long: both ends are shown, and the rest is read by a handle.

use std::sync::Arc;

use forge_tools::{
    CallFailure, FailureCode, Intent, Invocation, ReadOnlyContext, Reply, ReplyFuture, Spec, Tool,
    ToolContext, Toolbox,
};
use serde_json::json;

use crate::support::{World, call};

forge_tools::arguments! {
/// Says a lot, and fails with as much if asked to.
    struct Talks {
        fails: bool = "Whether it fails.";
    }
}

impl Talks {
    fn tool() -> Box<dyn Tool> {
        Spec::looks("talks", "Says a lot.").tool::<Talks>()
    }

    fn said() -> String {
        (0..1000).map(|n| format!("line {n}\n")).collect()
    }
}

impl Invocation for Talks {
    fn intents(&self, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        Ok(Vec::new())
    }
    fn run(self: Arc<Self>, _: ToolContext) -> ReplyFuture {
        Box::pin(async move {
            let facts = json!({ "said": Talks::said() });
            if self.fails {
                Err(CallFailure::new(FailureCode::WorkerFailed, Talks::said()).structured(facts))
            } else {
                Ok(Reply::text(Talks::said()).structured(facts))
            }
        })
    }
}

fn talks() -> Toolbox {
    let builder = Toolbox::builder().boxed_tool(Talks::tool());
    builder.max_result_chars(1000).build().unwrap()
}

/// Everything that a handle stands for, read page by page.
fn whole(toolbox: &Toolbox, id: &str) -> String {
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let page = call(
            toolbox,
            "read_output",
            json!({"output_id": id, "offset": offset, "max_chars": 700}),
        );
        assert!(page.ok && page.cut.is_none(), "{}", page.content);
        match page.content.split_once("\n[cut here: ") {
            Some((part, note)) => {
                text.push_str(part);
                let next = note.rsplit(' ').next().unwrap().trim_end_matches(']');
                offset = next.parse().unwrap();
            }
            None => {
                text.push_str(&page.content);
                return text;
            }
        }
    }
}

#[test]
fn what_is_not_shown_is_read_by_its_handle() {
    for fails in [false, true] {
        let toolbox = talks();
        let result = call(&toolbox, "talks", json!({"fails": fails}));
        assert_eq!(result.ok, !fails);
        let cut = result.cut.clone().unwrap();
        let id = cut.output_id.unwrap();
        assert_eq!(cut.total_bytes, Talks::said().len());
        assert!(result.content.len() <= 1000);
        assert!(result.content.starts_with("line 0\n"));
        assert!(result.content.contains(&id));
        // Text and structure say the same.
        let facts = result.structured.clone().unwrap();
        assert_eq!(facts["truncated"], json!(true));
        assert_eq!(facts["output_id"], json!(id));
        assert_eq!(facts["total_bytes"], json!(Talks::said().len()));
        assert!(facts["said"].as_str().unwrap().starts_with("line 0\n"));
        assert!(facts["said"].as_str().unwrap().ends_with("line 999\n"));
        assert_eq!(result.to_json()["cut"]["output_id"], json!(id));
        assert_eq!(whole(&toolbox, &id), Talks::said());
        // A handle is of one toolbox.
        let other = call(&talks(), "read_output", json!({"output_id": id}));
        assert_eq!(other.code, Some(FailureCode::UnknownOutput));
    }
}

#[test]
fn a_handle_outlives_a_change_of_the_configuration() {
    let (before, after) = (talks(), talks());
    let cut = |toolbox: &Toolbox| call(toolbox, "talks", json!({})).cut.unwrap();
    let early = cut(&before).output_id.unwrap();
    after.follow(&before);
    // Of a call that was under way meanwhile.
    let late = cut(&before).output_id.unwrap();
    for id in [early, late] {
        assert_eq!(whole(&after, &id), Talks::said());
    }
}

#[test]
fn a_handle_that_is_unknown_says_what_to_do() {
    let result = call(&talks(), "read_output", json!({"output_id": "x\u{1b}[2J"}));
    insta::assert_snapshot!(result.content, @r#"
    There is no kept result `x\x1b[2J`, or no longer.
    A result is kept for an hour, and for the worker that got it. Make the call again, or ask for less at once.
    "#);
}

#[test]
fn a_result_at_the_limit_is_not_touched() {
    let world = World::new();
    let toolbox = world.builder().max_result_chars(800).build().unwrap();
    for (length, cut) in [(800, false), (801, true)] {
        let text = "ä".repeat(length);
        std::fs::write(world.host.path().join("data/long.md"), &text).unwrap();
        let result = call(&toolbox, "read_file", json!({"path": "/data/long.md"}));
        assert_eq!(result.cut.is_some(), cut, "{length}");
        assert_eq!(result.content == text, !cut, "{length}");
    }
}

/// A worker without the tool is not told of a handle.
#[test]
fn no_handle_without_the_tool_that_reads_it() {
    struct NotThat;
    impl forge_tools::Gate for NotThat {
        fn offers(&self, tool: &str) -> bool {
            tool != "read_output"
        }
        fn judge(&self, request: &forge_tools::GateRequest<'_>) -> forge_tools::Judgement {
            forge_tools::SafeDefaults.judge(request)
        }
    }
    let builder = Toolbox::builder().boxed_tool(Talks::tool()).gate(NotThat);
    let toolbox = builder.max_result_chars(1000).build().unwrap();
    let result = call(&toolbox, "talks", json!({}));
    assert_eq!(result.cut.unwrap().output_id, None);
    assert!(!result.content.contains("output_id"));
    assert!(result.content.contains("[cut here: "));
}
