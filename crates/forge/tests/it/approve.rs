//! Approvals from another terminal, and on one.

#[cfg(target_os = "linux")]
use std::io::Read as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
#[cfg(target_os = "linux")]
use std::process::{ChildStdin, ChildStdout};

use serde_json::{Value, json};

use crate::protocol::Protocol;
use crate::support::{Ran, World, forge_program, ran};

const FILE: &str = "golem-forge.config.yaml";

/// Writing is asked about.
const ASKS: &str = "sandbox: { mode: direct, zones: { out: { path: ./out } } }\n";

fn asking() -> World {
    World::new(&[(FILE, ASKS)])
}

impl World {
    /// A call that has to be asked about, under way.
    fn begin(&self, flags: &[&str]) -> Child {
        let arguments = r#"{"path": "/out/a.md", "content": "hello\n"}"#;
        let mut args = vec!["tools", "call", "write_file", arguments];
        args.extend(flags);
        self.command(forge_program(), &args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Waits for a request.
    fn pending(&self) -> Value {
        loop {
            let listed = self.forge(&["approve", "--json"]);
            listed.code(0);
            let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
            if let Some(first) = listed["pending"].get(0) {
                return first.clone();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    fn written(&self) -> bool {
        self.project().join("out/a.md").exists()
    }
}

fn end(child: Child) -> Ran {
    ran(child.wait_with_output().unwrap())
}

#[test]
fn a_request_is_listed_shown_and_answered_from_another_terminal() {
    let world = asking();
    let listed = world.forge(&["approve"]);
    assert_eq!(listed.stdout, "nothing waits for approval\n");

    let call = world.begin(&["--approver", "queue"]);
    let pid = call.id();
    let request = world.pending();
    let id = request["id"].as_str().unwrap();
    assert_eq!(
        (&request["tool"], &request["pid"]),
        (&json!("write_file"), &json!(pid))
    );
    let text = request["text"].as_str().unwrap();
    for part in [
        "path = /out/a.md",
        "content = (shown below)",
        "+hello",
        "this run  write_file with exactly these arguments and this difference (write /out/a.md)",
        "write /out/a.md",
    ] {
        assert!(text.contains(part), "no {part:?}:\n{text}");
    }
    // By the beginning of its ID it is shown, not agreed to.
    let shown = world.forge(&["approve", &id[..8]]);
    shown.code(0);
    assert!(shown.stdout.contains(text.trim_end()), "{}", shown.stdout);
    world
        .forge(&["approve", &id[..8], "--allow"])
        .code(2)
        .says(&["is not a whole ID"]);
    assert!(!world.written());

    let answered = world.forge(&["approve", id, "--allow"]);
    answered
        .code(0)
        .says(&["content = (shown below)", "answered: allow_once"]);
    end(call).code(0);
    assert!(world.written());
    world.forge(&["approve", id, "--allow"]).code(1);
    let runs = std::fs::read_dir(world.outside().join("state/runs")).unwrap();
    let audit: String = runs
        .map(|run| std::fs::read_to_string(run.unwrap().path().join("audit.jsonl")).unwrap())
        .collect();
    assert!(audit.contains("forge approve (uid "), "{audit}");
}

/// Whoever answers need not trust what whoever asks was told to trust, nor be able to load it.
#[test]
fn a_request_is_answered_in_a_project_that_does_not_load() {
    for broken in [
        "sandbox: { mode: direct, zones: { out: { path: ../out } } }\n",
        "nonsense: {",
    ] {
        let world = asking();
        let call = world.begin(&["--approver", "queue"]);
        let request = world.pending();
        world.write(FILE, broken);
        world.forge(&["tools", "list"]).code(2);
        let id = request["id"].as_str().unwrap();
        let sub = world.project().join("sub/dir");
        std::fs::create_dir_all(&sub).unwrap();
        let from = sub.to_str().unwrap();
        let listed = world.forge(&["-C", from, "approve"]);
        assert!(
            listed.stdout.contains(id),
            "{}{}",
            listed.stdout,
            listed.stderr
        );
        world
            .forge(&["-C", from, "approve", id, "--allow"])
            .code(0)
            .says(&["answered: allow_once"]);
        end(call).code(0);
        assert!(world.written());
    }
}

#[test]
fn a_no_reaches_the_model_with_its_reason() {
    let world = asking();
    let call = world.begin(&["--approver", "queue"]);
    let request = world.pending();
    let id = &request["id"].as_str().unwrap()[..12];
    world
        .forge(&["approve", id, "--deny", "--reason", "use drafts \u{1b}[2J"])
        .code(0);
    end(call).code(1).says(&[r"use drafts \x1b[2J"]);
    assert!(!world.written());
}

#[test]
fn without_a_terminal_only_a_watcher_is_asked() {
    let world = asking();
    end(world.begin(&[]))
        .code(3)
        .says(&["there is no terminal", "forge approve --watch"]);

    let mut watcher = world
        .command(forge_program(), &["approve", "--watch", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(watcher.stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let call = world.begin(&[]);
    let mut line = String::new();
    BufReader::new(watcher.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let request: Value = serde_json::from_str(&line).unwrap();
    let id = request["id"].as_str().unwrap();
    world.forge(&["approve", id, "--allow", "--json"]).code(0);
    end(call).code(0);
    assert!(world.written());
    // Nobody is asked where the person said so.
    end(world.begin(&["--no-input"]))
        .code(3)
        .says(&["--no-input was given"]);
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    end(world.begin(&[])).code(3);
}

#[test]
fn a_process_that_is_killed_takes_its_requests_along() {
    let world = asking();
    let mut call = world.begin(&["--approver", "queue"]);
    let request = world.pending();
    call.kill().unwrap();
    call.wait().unwrap();
    let id = request["id"].as_str().unwrap();
    world
        .forge(&["approve", id, "--allow", "--json"])
        .code(1)
        .says(&["approve.unknown"]);
    let left: Vec<_> = std::fs::read_dir(world.outside().join("state/approvals"))
        .unwrap()
        .flat_map(|dir| std::fs::read_dir(dir.unwrap().path()).unwrap())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn other_projects_and_other_directories_are_not_seen() {
    let world = asking();
    let mut call = world.begin(&["--approver", "queue"]);
    world.pending();
    let listed = world.forge(&["-C", "..", "approve", "--json"]);
    assert_eq!(listed.stdout, "{\"pending\":[]}\n");

    // A directory that became open to others is not looked into.
    let approvals = world.outside().join("state/approvals");
    std::fs::set_permissions(
        &approvals,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let listed = world.forge(&["approve"]);
    listed.code(0).says(&["is open to others"]);
    assert_eq!(listed.stdout, "nothing waits for approval\n");
    call.kill().unwrap();
    call.wait().unwrap();
}

#[test]
fn a_call_of_an_mcp_client_goes_ahead_when_it_is_repeated() {
    let world = asking();
    let mut server = world
        .command(forge_program(), &["mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut protocol = Protocol::default();
    let mut next = 0;
    let mut ask = |method: &str, params: Value| -> Value {
        next += 1;
        let message = json!({"jsonrpc": "2.0", "id": next, "method": method, "params": params});
        protocol.sent(&message);
        writeln!(input, "{message}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let answer = serde_json::from_str(&line).unwrap();
        assert_eq!(protocol.received(&answer), [""; 0], "{answer}");
        answer
    };
    ask(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {},
               "clientInfo": {"name": "test", "version": "1"}}),
    );
    let mut call = |content: &str| {
        ask(
            "tools/call",
            json!({"name": "write_file",
                   "arguments": {"path": "/out/a.md", "content": content}}),
        )["result"]
            .clone()
    };
    let refused = call("one");
    assert_eq!(refused["isError"], true, "{refused}");
    let text = refused["content"][0]["text"].as_str().unwrap();
    let request = world.pending();
    let id = request["id"].as_str().unwrap();
    assert!(text.contains(&format!("`forge approve {id}`")), "{text}");
    assert!(!text.contains("zone"), "{text}");
    world
        .forge(&["approve", id, "--allow"])
        .code(0)
        .says(&["is kept"]);

    assert_eq!(call("two")["isError"], true);
    assert_ne!(call("one")["isError"], true);
    assert!(world.written());
    assert_eq!(call("one")["isError"], true);
    drop(input);
    server.wait().unwrap();
}

/// A terminal of the test's own, by util-linux's `script`.
#[cfg(target_os = "linux")]
struct Screen {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    shown: String,
}

#[cfg(target_os = "linux")]
impl Screen {
    /// None: there is no `script` here.
    fn start(world: &World, rows: u8, args: &[&str]) -> Option<Self> {
        let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
        let command = format!(
            "stty rows {rows} cols 60; exec {} {}",
            forge_program().display(),
            quoted.join(" ")
        );
        let mut script = world.command("script".as_ref(), &["-qec", &command, "/dev/null"]);
        let started = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.ok()?;
        Some(Screen {
            input: child.stdin.take().unwrap(),
            output: child.stdout.take().unwrap(),
            child,
            shown: String::new(),
        })
    }

    /// Reads until one of these is shown, and says which.
    fn until<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        let mut came = Vec::new();
        let found = loop {
            let shown = String::from_utf8_lossy(&came);
            if let Some(found) = texts.iter().find(|text| shown.contains(**text)) {
                break *found;
            }
            let mut some = [0; 4096];
            let n = self.output.read(&mut some).unwrap();
            assert_ne!(
                n,
                0,
                "ended before {texts:?}:\n{}",
                String::from_utf8_lossy(&came)
            );
            came.extend_from_slice(&some[..n]);
        };
        self.shown.push_str(std::str::from_utf8(&came).unwrap());
        found
    }

    fn type_line(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The exit code, and everything that was shown.
    fn end(mut self) -> (i32, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        drop(self.input);
        let code = self.child.wait().unwrap().code().unwrap();
        (code, self.shown + &rest)
    }
}

/// What came moved nothing on the screen: it printed, went to the next line, changed a colour.
#[cfg(target_os = "linux")]
fn check_screen(shown: &str) {
    let mut rest = shown;
    while let Some(at) = rest.find(|c: char| c.is_control()) {
        let c = rest[at..].chars().next().unwrap();
        rest = &rest[at + c.len_utf8()..];
        if c == '\u{1b}' {
            let end = rest.find('m').unwrap();
            let ours = rest[..end].strip_prefix('[');
            assert!(ours.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit())));
        } else {
            let bell = c == '\u{7}' && rest.starts_with("\r\n");
            assert!(bell || matches!(c, '\r' | '\n'), "{c:?} in {shown:?}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_watcher_at_a_terminal_is_asked_about_each_request() {
    let world = asking();
    let Some(mut screen) = Screen::start(&world, 40, &["approve", "--watch"]) else {
        eprintln!("skipped: no `script`");
        return;
    };
    screen.until(&["waiting for requests"]);
    for (answer, written) in [("n", false), ("y", true)] {
        let call = world.begin(&[]);
        screen.until(&["[?] >"]);
        screen.type_line(answer);
        screen.until(&["answered: "]);
        end(call).code(i32::from(!written));
        assert_eq!(world.written(), written);
    }
    check_screen(&screen.shown);
    assert!(screen.shown.contains("process   "), "{}", screen.shown);
    // End of input at the next question: nothing is agreed to, and the watcher goes.
    let call = world.begin(&["--approver", "queue", "-c", "approval.timeout_s=10"]);
    screen.until(&["[?] >"]);
    screen.input.write_all(b"\x04").unwrap();
    assert_eq!(screen.end().0, 0);
    end(call)
        .code(3)
        .says(&["nobody answered within 10 seconds"]);
}

#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_a_long_request_is_paged_and_answered_at_its_end_only() {
    let lines: String = (1..=40).map(|n| format!("line {n}\\u001b[2J\\n")).collect();
    let arguments = format!(r#"{{"path": "/out/a.md", "content": "{lines}"}}"#);
    let args = ["tools", "call", "write_file", &arguments];
    for (answer, code) in [("y", 0), ("", 1), ("nonsense", 1), ("n use drafts", 1)] {
        let world = asking();
        let Some(mut screen) = Screen::start(&world, 20, &args) else {
            eprintln!("skipped: no `script`");
            return;
        };
        // Every page but the last is turned, by a yes as well: it is no answer yet.
        let mut pages = 0;
        while screen.until(&["says no --", "[?] >"]) == "says no --" {
            screen.type_line("y");
            pages += 1;
        }
        assert!(pages > 1 && !world.written(), "{pages}");
        screen.type_line(answer);
        let (ended, shown) = screen.end();
        check_screen(&shown);
        // What a yes for the whole run would be for, as far as it stands in the first row.
        let scope = "this run  write_file with exactly these arguments and";
        assert!(shown.contains(scope), "{shown}");
        assert_eq!(
            (ended, world.written()),
            (code, code == 0),
            "{answer}: {shown}"
        );
        assert_eq!(
            shown.contains(": use drafts"),
            answer.starts_with("n "),
            "{shown}"
        );
    }
}

#[test]
fn nobody_is_asked_about_what_cannot_be_done() {
    let world = asking();
    world.write("out/.git/hooks/pre-commit", "#!/bin/sh\n");
    world.write("out/below/.vscode/settings.json", "{}\n");
    world.write("out/plain/a.md", "a\n");
    let call = |tool: &str, arguments: Value| {
        world.forge(&["tools", "call", tool, &arguments.to_string()])
    };
    let gone = |path: &str| call("delete_file", json!({ "path": path, "recursive": true }));
    for (path, why) in [
        ("/out", "it is a root of the sandbox"),
        ("/out/.git", "it holds a protected name"),
        ("/out/below", "it holds a protected name"),
        ("/out/below/.vscode", "is a protected name"),
        ("/out/missing", "File not found: /out/missing"),
    ] {
        gone(path).code(1).says(&[why]);
    }
    let hook = json!({ "path": "/out/.git/hooks/post-commit", "content": "x" });
    call("write_file", hook)
        .code(1)
        .says(&["is a protected name"]);
    world.write("out/twice.md", "one\none\n");
    std::fs::write(world.project().join("out/bytes"), b"\xff\xfe\x00").expect("a file");
    let other = "0".repeat(64);
    for (tool, arguments, why) in [
        (
            "edit_file",
            json!({ "path": "/out/plain/a.md", "old_text": "b", "new_text": "c" }),
            "not found",
        ),
        (
            "edit_file",
            json!({ "path": "/out/twice.md", "old_text": "one", "new_text": "c" }),
            "found 2 times",
        ),
        (
            "edit_file",
            json!({ "path": "/out/plain/a.md", "old_text": "a", "new_text": "c", "if_match": other }),
            "Read it again",
        ),
        (
            "write_file",
            json!({ "path": "/out/plain/a.md", "content": "x", "create_new": true }),
            "Leave out create_new",
        ),
        (
            "write_file",
            json!({ "path": "/out/plain/a.md", "content": "x", "if_match": other }),
            "Read it again",
        ),
        (
            "write_file",
            json!({ "path": "/out/plain", "content": "x" }),
            "is a directory",
        ),
        (
            "append_file",
            json!({ "path": "/out/bytes", "content": "x" }),
            "text",
        ),
        (
            "copy_file",
            json!({ "from": "/out/plain/a.md", "to": "/out/twice.md" }),
            "already exists",
        ),
        (
            "move_file",
            json!({ "from": "/out/missing", "to": "/out/new.md" }),
            "File not found",
        ),
    ] {
        call(tool, arguments).code(1).says(&[why]);
    }
    let plain = std::fs::read_to_string(world.project().join("out/plain/a.md")).expect("a file");
    assert_eq!(plain, "a\n");
    // What can be done is asked about.
    gone("/out/plain")
        .code(3)
        .says(&["needs a person's approval"]);
    assert!(world.project().join("out/plain/a.md").exists());
}
