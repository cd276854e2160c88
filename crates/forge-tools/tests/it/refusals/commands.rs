//! What becomes of commands that cannot be run.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use forge_tools::{
    ApprovalAnswer, NoApprover, Processes, ProgramList, Toolbox, ToolboxBuilder, Verdict, tools,
};
use os_sandbox::{Access, HostSpec, Plan, Policy, Requirement, Support};
use serde_json::{Value, json};

use super::{Page, TOO_MANY_CALLS};
use crate::place;
use crate::support::{Always, Counting, call};

fn policy(dir: &Path) -> Policy {
    let access = Access::READ | Access::WRITE | Access::EXECUTE;
    Policy::builder()
        .mount(dir, "/out", access)
        .build()
        .unwrap()
}

fn confined(dir: &Path) -> Processes {
    let plan = Plan::new(&policy(dir), &Support::detect(), Requirement::Enforce).unwrap();
    place::processes(plan)
        .notes(vec!["/out".into()], false)
        .default_timeout(Duration::from_secs(600))
}

type Wrong = fn(ToolboxBuilder) -> ToolboxBuilder;

pub(super) fn rows(page: &mut Page) {
    page.heading("shell");
    let run = |command: &str| json!({"command": command});
    for (label, arguments, wrong) in [
        ("no such program", run("no-such-program x"), allow as Wrong),
        ("not executable", run("/work/out/plain"), allow),
        ("a quote that is open", run("echo 'x"), allow),
        ("nothing", run(" "), allow),
        (
            "too slow",
            json!({"command": "sleep 60", "timeout_s": 1}),
            allow,
        ),
        ("arguments", json!({"cmd": "x", "timeout_s": "9"}), allow),
        ("no arguments", Value::Null, allow),
        ("misspelt", json!({"command": "ls"}), allow),
        ("blocked", run("ls"), |it| it.gate(Always(Verdict::Block))),
        ("denied", run("ls"), |it| {
            let answer = ApprovalAnswer::Deny {
                by: "a person".into(),
                reason: None,
            };
            it.gate(Always(Verdict::Ask))
                .approver(Counting::new(answer))
        }),
        ("nobody there", run("ls"), |it| {
            it.gate(Always(Verdict::Ask))
                .approver(NoApprover::because("this is a test"))
        }),
        (TOO_MANY_CALLS, run("ls"), allow),
        ("as it should be", run("true"), allow),
    ] {
        let tool = if label == "misspelt" { "shel" } else { "shell" };
        one(page, tool, label, &arguments, |dir| {
            wrong(Toolbox::builder().processes(confined(dir)))
        });
    }
    let only = |allow: &[&str], deny: &[&str]| ProgramList {
        allow: Some(allow.iter().map(|name| (*name).to_owned()).collect()),
        deny: deny.iter().map(|name| (*name).to_owned()).collect(),
        ..ProgramList::default()
    };
    for (label, list) in [
        ("not on the list", only(&["true"], &[])),
        ("on the other list", only(&["ls"], &["ls"])),
    ] {
        one(page, "shell", label, &run("ls"), |dir| {
            allow(Toolbox::builder().processes(confined(dir).programs(vec![list.clone()])))
        });
    }
    one(page, "shell", "no way to run anything", &run("ls"), |_| {
        allow(Toolbox::builder().boxed_tool(tools::shell()))
    });
    one(
        page,
        "shell",
        "isolation that is not there",
        &run("true"),
        |dir| allow(Toolbox::builder().processes(pretended(dir))),
    );
}

fn allow(builder: ToolboxBuilder) -> ToolboxBuilder {
    builder.gate(Always(Verdict::Allow))
}

/// A plan for a host that can do what this one cannot: no program of that mechanism is here.
fn pretended(dir: &Path) -> Processes {
    let support = Support::assume(HostSpec {
        seatbelt: true,
        ..HostSpec::default()
    });
    Processes::new(Plan::new(&policy(dir), &support, Requirement::BestEffort).unwrap())
}

fn one(
    page: &mut Page,
    tool: &str,
    label: &str,
    arguments: &Value,
    builder: impl Fn(&Path) -> ToolboxBuilder,
) {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let toolbox = builder(dir.path()).build().unwrap();
    if label == TOO_MANY_CALLS {
        toolbox.begin_turn_of(0);
    }
    let result = call(&toolbox, tool, arguments.clone());
    page.row(dir.path().to_str().unwrap(), label, arguments, &result);
}
