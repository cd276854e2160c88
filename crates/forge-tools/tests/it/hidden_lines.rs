//! Nothing that looks like a secret hides a line from the person who agrees to it: each line of a
//! new text is in the question, or the question is refused.

use std::sync::Arc;

use file_sandbox::cap_std;
use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_tools::{CallRecord, Redactor, Toolbox, ToolboxBuilder, Verdict};
use serde_json::{Value, json};

use crate::agreed::Reader;
use crate::place::{everywhere, with_files};
use crate::support::{Always, call, recorder};

const EVIL: &str = "touch /work-dir/pwned";

/// Base64 of a key, in lines; put together here, so that no scanner takes this file for a leak.
fn body(lines: usize) -> String {
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n".repeat(lines)
}

/// Texts with a line that a look for secrets could take for a part of one.
pub(crate) fn texts() -> Vec<(&'static str, String)> {
    let block = |between: &str| {
        let lines = body(2);
        format!("#-----BEGIN PRIVATE KEY-----\n{lines}{between}\n{lines}#-----END PRIVATE KEY-----")
    };
    let label = |label: &str| format!("#-----BEGIN {label}-----\n{}", body(3));
    vec![
        ("between lines of a key", block(EVIL)),
        (
            "a call between lines of a key",
            block("import os; os.system('evil')"),
        ),
        ("a word between lines of a key", block("reboot")),
        (
            "in front of the lines",
            format!("#-----BEGIN RSA PRIVATE KEY-----\n{EVIL}\n{}", body(3)),
        ),
        (
            "behind the last line",
            format!(
                "{}{EVIL}\n#-----END RSA PRIVATE KEY-----",
                label("RSA PRIVATE KEY")
            ),
        ),
        (
            "a header",
            format!(
                "#-----BEGIN PRIVATE KEY-----\nComment: $({EVIL})\n{}",
                body(3)
            ),
        ),
        ("in the label", label(&format!("\n{EVIL}\nPRIVATE KEY"))),
        (
            "in the last label",
            format!("{}#-----END \n{EVIL}\n-----", label("PRIVATE KEY")),
        ),
        (
            "in one line",
            format!(
                "#-----BEGIN PRIVATE KEY----- {};{EVIL};{}",
                &body(1)[..32],
                &body(1)[..32]
            ),
        ),
        (
            "a key of a shape",
            format!("x={}{}", "ghp_", "A1b2".repeat(10)),
        ),
        ("a whole block", block(&body(1)[..32])),
        (
            "a header of a request",
            "curl -H Authorization:Bearer /tmp/evil/cmd-0123456789 x".replace("n:B", "n: B"),
        ),
        (
            "an assigned password",
            "password=/tmp/Evil1/run$x".to_owned(),
        ),
        (
            "an assigned secret",
            "CLIENT_SECRET=/tmp/Evil1/x9Kq3LmZ8vB2".to_owned(),
        ),
        (
            "a password in a URL",
            "curl https://user:rm0Evil1Word9x@host/".to_owned(),
        ),
        (
            "a token in three parts",
            format!("eyJ{0}.eyJ{0}.{0}", "aB3dE6gH9"),
        ),
    ]
}

/// The lines of `text` that `question` has not in full.
fn missing(question: &str, text: &str) -> Vec<String> {
    let shown = question.replace("\\\\", "\\");
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .filter(|line| !shown.contains(line))
        .map(str::to_owned)
        .collect()
}

/// Asks about each call in `/out`.
fn builder(host: &tempfile::TempDir) -> ToolboxBuilder {
    let target = SandboxPath::parse("/out").unwrap();
    let authority = cap_std::ambient_authority();
    let mount = Mount::open_ambient(target, host.path(), Mode::ReadWrite, authority).unwrap();
    let files = FileSandbox::new(vec![mount]).unwrap();
    with_files(Toolbox::builder(), files).gate(Always(Verdict::Ask))
}

/// Agrees to a call and returns the question, `None` if it was refused.
fn asked(toolbox: &Toolbox, reader: &Reader, tool: &str, arguments: Value) -> Option<String> {
    let result = call(toolbox, tool, arguments);
    let shown = reader.shown().pop();
    let code = result.error.map_or("ok".to_owned(), |error| error.code);
    let is_refused = shown.is_none() && code == "APPROVAL_REQUIRED";
    assert!(is_refused || code == "ok", "{tool}: {}", result.content);
    shown
}

/// Each way to put `text` into a file: the tool, the file before, and the arguments.
fn calls(text: &str) -> Vec<(&'static str, Option<String>, Value)> {
    let (first, second) = text.split_at(text.len() / 2);
    let write = |content: &str| json!({"path": "/out/a.md", "content": content});
    let edit = |old: &str, new| json!({"path": "/out/a.md", "old_text": old, "new_text": new});
    let whole = format!("a\n{text}\nb\n");
    vec![
        ("write_file", None, write(&whole)),
        ("write_file", Some("a\nb\n".to_owned()), write(&whole)),
        ("append_file", Some("a\n".to_owned()), write(text)),
        ("append_file", Some("a\r\n".to_owned()), write(text)),
        ("append_file", Some(first.to_owned()), write(second)),
        ("edit_file", Some("a\nb\nc\n".to_owned()), edit("b", text)),
        (
            "edit_file",
            Some("a\r\nb\r\nc\r\n".to_owned()),
            edit("b", text),
        ),
        (
            "edit_file",
            Some(format!("a\n{first}%%\n")),
            edit("%%", second),
        ),
    ]
}

#[test]
fn each_line_of_a_new_text_is_shown() {
    everywhere(each_line_of_a_new_text_is_shown_here);
}

fn each_line_of_a_new_text_is_shown_here() {
    let mut hidden = Vec::new();
    for (what, text) in texts() {
        for (tool, old, arguments) in calls(&text) {
            let (reader, records) = (Reader::new(false, |_| {}), recorder());
            let host = tempfile::tempdir().unwrap();
            if let Some(old) = &old {
                std::fs::write(host.path().join("a.md"), old).unwrap();
            }
            let builder = builder(&host).shared_recorder(records.clone());
            let toolbox = builder.approver(reader.clone()).build().unwrap();
            let Some(question) = asked(&toolbox, &reader, tool, arguments.clone()) else {
                continue;
            };
            let new = ["content", "new_text"].map(|name| arguments[name].as_str());
            let new = new.into_iter().flatten().collect::<String>();
            let lines = missing(&question, &new);
            if !lines.is_empty() {
                hidden.push(format!("{what}, {tool} of {old:?}: {lines:?}\n{question}"));
            }
            check_record(what, &text, &records.records());
        }
    }
    assert!(hidden.is_empty(), "{}", hidden.join("\n"));
}

/// The record keeps no secret for that.
fn check_record(what: &str, text: &str, records: &[CallRecord]) {
    let record = serde_json::to_string(records.last().unwrap()).unwrap();
    let redactor = Redactor::default();
    if redactor.redact(text) != text {
        assert_eq!(redactor.redact(&record), record, "{what}");
    }
}

/// A secret of the file, and one that stands behind a placeholder, stay hidden beside it.
#[test]
fn what_the_model_did_not_write_stays_hidden() {
    let (old, known) = ("hunter2-but-longer", "tr0ub4dor-and-3");
    let key = format!(
        "-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----\n",
        body(3)
    );
    let redactor = Arc::new(Redactor::new([
        ("OLD_PASSWORD", old),
        ("KNOWN_PASSWORD", known),
    ]));
    let placeholder = redactor.redact(known).into_owned();
    let written = "CLIENT_SECRET=x9Kq3LmZ8vB2x9Kq3LmZ";
    let edit =
        |old: &str, new: &str| json!({"path": "/out/a.md", "old_text": old, "new_text": new});
    for (tool, arguments) in [
        (
            "write_file",
            json!({"path": "/out/a.md", "content": format!("{placeholder}\n{written}\n")}),
        ),
        (
            "append_file",
            json!({"path": "/out/a.md", "content": format!("{placeholder}\n{written}\n")}),
        ),
        (
            "edit_file",
            edit(
                "p=",
                &format!("{written}\n{placeholder}={placeholder}/evil"),
            ),
        ),
        (
            "edit_file",
            edit("\nend", &format!("/evil\n{placeholder}/evil\n{written}\n")),
        ),
    ] {
        let host = tempfile::tempdir().unwrap();
        let text = format!("{key}p={old}\nend\n{key}");
        std::fs::write(host.path().join("a.md"), text).unwrap();
        let reader = Reader::new(false, |_| {});
        let builder = builder(&host).shared_redactor(redactor.clone());
        let toolbox = builder.approver(reader.clone()).build().unwrap();
        let question = asked(&toolbox, &reader, tool, arguments).unwrap();
        for secret in [old, known, &body(1)[..32]] {
            assert!(!question.contains(secret), "{tool}: {secret}: {question}");
        }
        assert!(question.contains(written), "{tool}: {question}");
        assert!(question.contains(&placeholder), "{tool}: {question}");
    }
}

/// A question has the whole command wherever it shows it.
#[cfg(target_os = "linux")]
#[test]
fn each_line_of_a_command_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    for (what, text) in texts() {
        let reader = Reader::new(false, |_| {});
        let toolbox = Toolbox::builder()
            .processes(crate::commands::processes(dir.path()))
            .gate(Always(Verdict::Ask))
            .approver(reader.clone())
            .build()
            .unwrap();
        let command = format!("true '\n{}\n'", text.replace('\'', "\""));
        let question = asked(&toolbox, &reader, "shell", json!({ "command": command }));
        let question = question.unwrap();
        let (arguments, would) = question.split_once("would ").unwrap();
        for part in [arguments, would] {
            assert_eq!(
                missing(part, &command),
                Vec::<String>::new(),
                "{what}: {question}"
            );
        }
    }
}
