//! The one road that every call walks, as a table: what each step refuses, in which
//! order, and what is kept of it.

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_tools::{ApprovalAnswer, AutoApprove, HostApprover, NoApprover, Verdict};
use serde_json::json;

use crate::place::everywhere;
use crate::support::{Always, Counting, World, call, recorder};

fn no() -> ApprovalAnswer {
    ApprovalAnswer::Deny {
        by: "a person".into(),
        reason: Some("not today".into()),
    }
}

fn yes_once() -> ApprovalAnswer {
    ApprovalAnswer::AllowOnce {
        by: "a person".into(),
    }
}

fn yes_for_run() -> ApprovalAnswer {
    ApprovalAnswer::AllowForRun {
        by: "a person".into(),
    }
}

#[test]
fn capability_before_block_before_ask() {
    everywhere(capability_before_block_before_ask_here);
}

fn capability_before_block_before_ask_here() {
    let world = World::new();
    let write = |path: &str| json!({"path": path, "content": "x"});
    // (gate, path, expected code, questions)
    for (verdict, path, code, questions) in [
        (Verdict::Allow, "/out/a.md", None, 0),
        (Verdict::Ask, "/out/a.md", Some("DENIED"), 1),
        (Verdict::Block, "/out/a.md", Some("BLOCKED"), 0),
        (Verdict::Allow, "/data/a.md", Some("READ_ONLY"), 0),
        (Verdict::Ask, "/data/a.md", Some("READ_ONLY"), 0),
        (Verdict::Block, "/data/a.md", Some("READ_ONLY"), 0),
        (Verdict::Ask, "/etc/passwd", Some("OUTSIDE_SANDBOX"), 0),
        (Verdict::Ask, "/data/out-link/x", Some("READ_ONLY"), 0),
        (Verdict::Ask, "/out/a.exe", Some("SUFFIX_NOT_ALLOWED"), 0),
    ] {
        let approver = Counting::new(no());
        let toolbox = world
            .builder()
            .gate(Always(verdict))
            .approver(approver.clone())
            .build()
            .unwrap();
        let result = call(&toolbox, "write_file", write(path));
        let got = result.error.map(|error| error.code);
        assert_eq!(got.as_deref(), code, "{verdict:?} {path}");
        // What was to be asked about is recorded so only if somebody was asked.
        let asks = result.decision.verdict == Some(Verdict::Ask);
        assert_eq!(asks, questions == 1, "{verdict:?} {path}");
        assert_eq!(approver.asked(), questions, "{verdict:?} {path}");
    }
    assert!(!world.host.path().join("data/a.md").exists());
}

#[test]
fn nothing_lifts_a_block() {
    let world = World::new();
    let toolbox = world
        .builder()
        .gate(Always(Verdict::Block))
        .approver(AutoApprove::confined())
        .build()
        .unwrap();
    std::fs::write(world.host.path().join("out/a.md"), "kept").unwrap();
    let result = call(&toolbox, "delete_file", json!({"path": "/out/a.md"}));
    insta::assert_snapshot!(result.content, @r"
    delete_file is blocked here: the test says so.
    Use another way. Asking again does not change it.
    ");
    assert!(world.host.path().join("out/a.md").exists());
}

#[test]
fn once_asks_again_and_for_the_run_does_not() {
    let world = World::new();
    for (answer, questions) in [(yes_once(), 2), (yes_for_run(), 1)] {
        let approver = Counting::new(answer);
        let toolbox = world
            .builder()
            .gate(Always(Verdict::Ask))
            .approver(approver.clone())
            .build()
            .unwrap();
        for _ in 0..2 {
            let result = call(
                &toolbox,
                "write_file",
                json!({"path": "/out/a.md", "content": "x"}),
            );
            assert!(result.ok);
        }
        assert_eq!(approver.asked(), questions);
        // Other arguments are another question.
        call(
            &toolbox,
            "write_file",
            json!({"path": "/out/b.md", "content": "x"}),
        );
        assert_eq!(approver.asked(), questions + 1);
    }
}

#[test]
fn a_question_that_stays_open_says_how_it_is_answered() {
    let world = World::new();
    let toolbox = world
        .builder()
        .gate(Always(Verdict::Ask))
        .approver(Counting::new(ApprovalAnswer::Pending {
            reason: "nobody has answered yet".into(),
            hint: "Repeat the call later.".into(),
        }))
        .build()
        .unwrap();
    let result = call(
        &toolbox,
        "write_file",
        json!({"path": "/out/a.md", "content": "x"}),
    );
    assert_eq!(result.decision.answer, Some("unanswered"));
    let error = result.error.unwrap();
    assert_eq!(error.code, "APPROVAL_REQUIRED");
    assert_eq!(error.hint.as_deref(), Some("Repeat the call later."));
    assert!(error.message.ends_with(": nobody has answered yet."));
    assert!(!world.host.path().join("out/a.md").exists());
}

#[test]
fn denied_blocked_and_unanswered_read_differently() {
    let world = World::new();
    let say = |toolbox| {
        call(
            &toolbox,
            "write_file",
            json!({"path": "/out/a.md", "content": "x"}),
        )
        .content
    };
    let asking = || world.builder().gate(Always(Verdict::Ask));
    insta::assert_snapshot!(say(asking().approver(Counting::new(no())).build().unwrap()), @r"
    This call of write_file was denied by a person: not today
    Asking again for the same is of no use. Other calls are open to you: ask what is wanted instead, or go on without it.
    ");
    let nobody = NoApprover::because("there is no terminal");
    insta::assert_snapshot!(say(asking().approver(nobody).build().unwrap()), @r"
    write_file needs a person's approval (the test says so), and nobody could be asked: there is no terminal.
    Repeating the call does not help in this run; go on without it.
    ");
    assert!(say(asking().approver(HostApprover).build().unwrap()).starts_with("Written"));
}

#[test]
fn every_call_leaves_one_record_with_a_reason() {
    everywhere(every_call_leaves_one_record_with_a_reason_here);
}

fn every_call_leaves_one_record_with_a_reason_here() {
    let world = World::new();
    let records = recorder();
    let toolbox = world
        .builder()
        .shared_recorder(records.clone())
        .caller(forge_tools::Caller::new("main").child("report"))
        .build()
        .unwrap();
    for (tool, arguments) in [
        ("read_file", json!({"path": "/data/readme.md"})),
        ("readFile", json!({"path": "/data/nope"})),
        ("write_file", json!({"path": "/out/a.md", "content": "x"})),
        ("write_file", json!({"path": "/out/a.md"})),
        ("rm", json!({})),
    ] {
        call(&toolbox, tool, arguments);
    }
    let shown: Vec<String> = records
        .records()
        .iter()
        .map(|record| {
            assert!(!record.decision.reasons.is_empty());
            assert_eq!(record.workers, ["main", "report"]);
            assert_eq!(record.content_sha256.len(), 64);
            format!(
                "{} {} {:?} {} {}",
                record.tool,
                record.ok,
                record.decision.verdict,
                record.code.as_deref().unwrap_or("-"),
                record.intents.join(",")
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    read_file true Some(Allow) - read /data/readme.md
    read_file false Some(Allow) NOT_FOUND read /data/nope
    write_file true Some(Allow) - write /out/a.md
    write_file false None INVALID_ARGUMENTS 
    rm false None UNKNOWN_TOOL 
    ");
}

#[test]
fn a_result_that_cannot_be_recorded_is_withheld() {
    struct Full;
    impl forge_tools::Recorder for Full {
        fn record(&self, _: &forge_tools::CallRecord) -> std::io::Result<()> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
    }
    let world = World::new();
    let toolbox = world.builder().recorder(Full).build().unwrap();
    let result = call(&toolbox, "read_file", json!({"path": "/data/readme.md"}));
    assert!(!result.ok);
    assert!(!result.content.contains("hello"));
}

#[test]
fn questions_of_parallel_calls_come_one_at_a_time() {
    use forge_tools::{ApprovalRequest, Approver, BoxFuture, CallRequest};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct OneAtATime {
        open: AtomicUsize,
        most: AtomicUsize,
    }
    impl Approver for OneAtATime {
        fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
            Box::pin(async {
                let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(open, Ordering::SeqCst);
                tokio::task::yield_now().await;
                self.open.fetch_sub(1, Ordering::SeqCst);
                ApprovalAnswer::AllowOnce {
                    by: "a test".into(),
                }
            })
        }
    }
    let world = World::new();
    let approver = Arc::new(OneAtATime::default());
    let toolbox = world
        .builder()
        .gate(Always(Verdict::Ask))
        .shared_approver(approver.clone())
        .build()
        .unwrap();
    crate::support::block_on(async {
        let calls = (0..20).map(|n| {
            let toolbox = toolbox.clone();
            tokio::spawn(async move {
                let arguments = json!({"path": format!("/out/{n}.md"), "content": "x"});
                toolbox
                    .call(CallRequest::new("write_file", arguments))
                    .await
                    .ok
            })
        });
        for done in calls.collect::<Vec<_>>() {
            assert!(done.await.unwrap());
        }
    });
    assert_eq!(approver.most.load(Ordering::SeqCst), 1);
}

#[test]
fn two_tools_of_one_name_are_refused() {
    let world = World::new();
    let built = world
        .builder()
        .boxed_tool(forge_tools::tools::file_tools().remove(0))
        .build();
    assert_eq!(
        built.err().unwrap().to_string(),
        "two tools answer to the name `read_file`"
    );
}

#[test]
fn one_call_writes_at_most_what_it_may() {
    everywhere(one_call_writes_at_most_what_it_may_here);
}

fn one_call_writes_at_most_what_it_may_here() {
    let world = World::new();
    let approver = Counting::new(yes_once());
    let toolbox = world
        .builder()
        .gate(Always(Verdict::Ask))
        .approver(approver.clone())
        .max_write_bytes(10)
        .build()
        .unwrap();
    for (content, code) in [("0123456789", None), ("0123456789x", Some("TOO_LARGE"))] {
        let arguments = json!({"path": "/out/a.md", "content": content});
        let result = call(&toolbox, "write_file", arguments);
        assert_eq!(result.error.map(|error| error.code).as_deref(), code);
    }
    assert_eq!(
        approver.asked(),
        1,
        "nobody is asked about what cannot be done"
    );
}

#[test]
fn what_cannot_be_shown_whole_is_not_agreed_to() {
    let world = World::new();
    let out = |name: &str| world.host.path().join("out").join(name);
    std::fs::write(out("picture.md"), [0x89, b'P', 0, 1]).unwrap();
    std::fs::write(out("a.md"), "a").unwrap();
    let long = "x".repeat(1_100_000);
    // As much as a person is shown.
    let much = "x\n".repeat(340_000);
    // (path, content, with an answer that was given beforehand, code, questions)
    for (path, content, beforehand, code, questions) in [
        ("/out/a.md", "b", false, None, 1),
        ("/out/picture.md", "b", false, Some("APPROVAL_REQUIRED"), 0),
        (
            "/free/a.md",
            long.as_str(),
            false,
            Some("APPROVAL_REQUIRED"),
            0,
        ),
        ("/free/a.md", much.as_str(), false, None, 1),
        // Nor would the mount take it, which is said first.
        ("/out/a.md", long.as_str(), false, Some("TOO_LARGE"), 0),
        ("/out/picture.md", "b", true, None, 0),
    ] {
        let counting = Counting::new(yes_once());
        let mut builder = world.builder().gate(Always(Verdict::Ask));
        if path.starts_with("/free/") {
            let root = SandboxPath::parse("/free").unwrap();
            let mount = Mount::memory(root, Mode::ReadWrite);
            builder = builder.files(FileSandbox::new(vec![mount]).unwrap());
        }
        let toolbox = if beforehand {
            builder.approver(AutoApprove::confined())
        } else {
            builder.approver(counting.clone())
        };
        let arguments = json!({"path": path, "content": content});
        let result = call(&toolbox.build().unwrap(), "write_file", arguments);
        let got = result.error.map(|error| error.code);
        assert_eq!(got.as_deref(), code, "{path}: {}", result.content);
        assert_eq!(counting.asked(), questions, "{path}");
    }
}

#[test]
fn agreed_for_the_run_is_agreed_in_every_spelling_of_a_path_and_not_in_the_next_run() {
    let world = World::new();
    let approver = Counting::new(yes_for_run());
    for run in 1..=2 {
        let toolbox = world
            .builder()
            .gate(Always(Verdict::Ask))
            .approver(approver.clone())
            .build()
            .unwrap();
        for path in ["/out/a.md", "out/a.md", "./out/x/../a.md"] {
            let result = call(
                &toolbox,
                "write_file",
                json!({"content": "x", "path": path}),
            );
            assert!(result.ok, "{}", result.content);
        }
        assert_eq!(approver.asked(), run);
    }
}

/// A text that reads like the path beside it is no other spelling of it.
#[test]
fn agreed_for_the_run_is_agreed_for_these_texts_only() {
    let world = World::new();
    let edited = world.host.path().join("out/a.md");
    let approver = Counting::new(yes_for_run());
    let toolbox = world
        .builder()
        .gate(Always(Verdict::Ask))
        .approver(approver.clone())
        .build()
        .unwrap();
    for (tool, first, second) in [
        (
            "write_file",
            json!({"path": "out/b.md", "content": "out/b.md"}),
            json!({"path": "/out/b.md", "content": "/out/b.md"}),
        ),
        (
            "edit_file",
            json!({"path": "out/a.md", "old_text": " out/a.md", "new_text": "out/a.md"}),
            json!({"path": "/out/a.md", "old_text": " out/a.md", "new_text": "/out/a.md"}),
        ),
        (
            "list_files",
            json!({"path": "out", "pattern": "out"}),
            json!({"path": "/out", "pattern": "/out"}),
        ),
    ] {
        let before = approver.asked();
        for arguments in [first, second] {
            // What cannot be done is not asked about.
            std::fs::write(&edited, "/out/a.md out/a.md").unwrap();
            call(&toolbox, tool, arguments);
        }
        assert_eq!(approver.asked(), before + 2, "{tool}");
    }
}

/// A person is told what an answer for the run is for, and no answer is for more.
#[test]
fn the_scope_names_tool_paths_and_worker() {
    use forge_tools::{ApprovalRequest, Approver, BoxFuture, Caller};
    use std::sync::{Arc, Mutex};

    #[derive(Default)]
    struct Shown(Mutex<Vec<String>>);
    impl Approver for Shown {
        fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
            let question = request.question();
            let last = question.lines().last().unwrap_or_default();
            self.0.lock().unwrap().push(last.to_owned());
            Box::pin(async { yes_for_run() })
        }
    }
    let world = World::new();
    std::fs::write(world.host.path().join("out/a.md"), "a").unwrap();
    let shown = Arc::new(Shown::default());
    let toolbox = |worker: &str| {
        world
            .builder()
            .gate(Always(Verdict::Ask))
            .caller(Caller::new("main").child(worker))
            .shared_approver(shown.clone())
            .build()
            .unwrap()
    };
    let long = format!("/out/{}.md", "x/".repeat(200));
    let (one, other) = (toolbox("one"), toolbox("two\u{1b}[2J"));
    call(
        &one,
        "copy_file",
        json!({"from": "out/a.md", "to": "/out/b.md"}),
    );
    call(&one, "delete_file", json!({"path": "/out/b.md"}));
    call(&one, "create_dir", json!({"path": long}));
    // What one worker was allowed, another one was not.
    call(&other, "delete_file", json!({"path": "/out/b.md"}));
    std::fs::write(world.host.path().join("out/b.md"), "b").unwrap();
    call(&other, "delete_file", json!({"path": "/out/b.md"}));
    insta::assert_snapshot!(shown.0.lock().unwrap().join("\n"), @r"
    this run  copy_file with exactly these arguments and this difference (read /out/a.md, write /out/b.md), for worker one
    this run  delete_file with exactly these arguments and this difference (delete /out/b.md), for worker one
    this run  create_dir with exactly these arguments (all that is shown here), for worker one
    this run  delete_file with exactly these arguments and this difference (delete /out/b.md), for worker two\x1b[2J
    ");
}
