//! Commands, their streams, and how many at once.

use std::time::Duration;

use forge_node::{CommandEvent, NodeClient, NodeCommandRunner, PathMapping, Setup};
use forge_tools::{
    CallRequest, CommandSpec, ExitReport, FailureCode, Processes, ProgramList, Toolbox, Verdict,
};
use os_sandbox::{Exit, Requirement, Stream};
use serde_json::json;

use super::{data, node, policy, within};
use crate::place::node::connect;
use crate::support::{Always, call};

fn sh(script: &str) -> CommandSpec {
    CommandSpec::new("sh", ["-c", script])
}

/// What a command printed on one stream, and its end.
async fn whole(
    node: &NodeClient,
    start: CommandSpec,
    input: Option<&[u8]>,
) -> (Vec<u8>, ExitReport) {
    let mut command = node.start(start, input.is_some()).await.unwrap();
    let mut printed = Vec::new();
    let mut input = input.unwrap_or_default();
    loop {
        // As much as there is room for at once, and then what came of it.
        if !input.is_empty() {
            let (now, later) = input.split_at(input.len().min(65_536));
            command.write(now).await;
            input = later;
            if input.is_empty() {
                command.close();
            }
            continue;
        }
        match command.next().await.unwrap() {
            CommandEvent::Some(Stream::Stdout, bytes) => printed.extend_from_slice(&bytes),
            CommandEvent::Some(Stream::Stderr, _) => {}
            CommandEvent::Ended(ended) => return (printed, ended),
        }
    }
}

#[test]
fn a_command_reads_what_is_written_to_it() {
    let (host, files) = data();
    let node = node(&host, &files);
    // Less than what both ways and the pipes hold: nobody reads until all is written.
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let (printed, ended) = within(whole(&node, CommandSpec::new("cat", ["-"]), Some(&bytes)));
    assert_eq!(ended.exit, Exit::Code(0));
    assert!(printed == bytes, "{} bytes came back", printed.len());
    // What a command does not read is thrown away, and holds nothing up.
    let (_, ended) = within(whole(&node, sh("exit 3"), Some(&vec![b'x'; 2_000_000])));
    assert_eq!(ended.exit, Exit::Code(3));
}

#[test]
fn what_nobody_reads_waits_where_it_is() {
    let (host, files) = data();
    let node = node(&host, &files);
    within(async {
        let unread = node
            .start(CommandSpec::new("yes", ["no"]), false)
            .await
            .unwrap();
        let mut last = 0;
        // Until nothing more comes.
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            // Others go on meanwhile.
            let sent = node.stats().await.unwrap().bytes_out;
            if sent < last + 10_000 {
                break;
            }
            last = sent;
        }
        assert!(last < 600_000, "{last} bytes are on their way");
        unread.kill();
    });
}

#[test]
fn only_the_end_can_be_sent_as_a_signal() {
    let (host, files) = data();
    let node = node(&host, &files);
    within(async {
        let mut command = node
            .start(CommandSpec::new("sleep", ["600"]), false)
            .await
            .unwrap();
        assert_eq!(command.signal(15).unwrap_err().code, FailureCode::Limit);
        command.signal(9).unwrap();
        let ended = command.next().await.unwrap();
        assert!(matches!(
            ended,
            CommandEvent::Ended(ExitReport {
                exit: Exit::Signal(9),
                ..
            })
        ));
        // One that is given up is ended too, and its place is free again.
        drop(
            node.start(CommandSpec::new("sleep", ["600"]), false)
                .await
                .unwrap(),
        );
        while node.stats().await.unwrap().in_flight > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

/// More calls than there is room for wait for it.
#[test]
fn many_calls_at_once() {
    let (host, files) = data();
    let node = node(&host, &files);
    let toolbox = Toolbox::builder()
        .files(files)
        .runner(forge_node::NodeRunner::new(node))
        .build()
        .unwrap();
    within(async {
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..300 {
            let toolbox = toolbox.clone();
            calls.spawn(async move {
                let args =
                    json!({"path": format!("/data/{}.md", n % 50), "content": "x".repeat(n)});
                toolbox.call(CallRequest::new("write_file", args)).await
            });
        }
        while let Some(result) = calls.join_next().await {
            let result = result.unwrap();
            assert!(result.ok, "{}", result.content);
        }
    });
    assert_eq!(std::fs::read_dir(host.path()).unwrap().count(), 51);
}

/// What is longer than a frame comes in parts, both ways.
#[test]
fn long_arguments_and_long_answers() {
    let (host, files) = data();
    let node = node(&host, &files);
    let toolbox = Toolbox::builder()
        .files(files)
        .max_result_chars(20_000_000)
        .runner(forge_node::NodeRunner::new(node))
        .build()
        .unwrap();
    let text = "0123456789abcde\n".repeat(200_000);
    let written = call(
        &toolbox,
        "write_file",
        json!({"path": "/data/long.md", "content": text}),
    );
    assert!(written.ok, "{}", written.content);
    let length = std::fs::metadata(host.path().join("long.md"))
        .unwrap()
        .len();
    assert_eq!(length, 3_200_000);
    // Six bytes each on the way.
    let signs = "\u{1}".repeat(200_000);
    std::fs::write(host.path().join("signs.md"), &signs).unwrap();
    let read = call(&toolbox, "read_file", json!({"path": "/data/signs.md"}));
    assert!(read.content == signs, "{:.200}", read.content);
}

/// What is a program there may be another one here, so it is looked at where it runs.
#[test]
fn lists_of_programs_hold_where_the_command_runs() {
    let (host, files) = data();
    let policy = policy(&host).build().unwrap();
    let deny = ProgramList {
        deny: vec!["rm".to_owned()],
        ..ProgramList::default()
    };
    let setup = Setup::new().files(&files, &PathMapping::Same).unwrap();
    let setup = setup.commands(&policy, Requirement::Enforce, &PathMapping::Same);
    let node = connect(setup.unwrap().programs(&[deny]));
    // Nobody has told the broker.
    let toolbox = Toolbox::builder()
        .processes(Processes::started_by(NodeCommandRunner::new(node), policy))
        .gate(Always(Verdict::Allow))
        .build()
        .unwrap();
    for (command, code) in [
        ("cat data/a.md", None),
        ("rm data/a.md", Some(FailureCode::Blocked)),
        ("env rm data/a.md", Some(FailureCode::Blocked)),
    ] {
        let result = call(&toolbox, "shell", json!({"command": command}));
        assert_eq!(result.code, code, "{command}: {}", result.content);
    }
    assert!(host.path().join("a.md").exists());
}
