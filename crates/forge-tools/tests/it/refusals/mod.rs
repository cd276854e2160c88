//! Every tool in every way that a call can fail, as one page that a person can read: code, words,
//! hint and path as a model gets them, from real calls over real directories.
//!
//! Each row has a world of its own, so no row depends on another.

mod commands;
mod executor;
mod files;
mod world;

use std::collections::BTreeSet;

use file_sandbox::ErrorKind as File;
use forge_tools::{CallResult, FailureCode};
use serde_json::Value;

use crate::place::everywhere;

/// The case in a turn without calls.
const TOO_MANY_CALLS: &str = "too many calls";

/// Every code that a call of these tools can end with.
const CODES: [FailureCode; 31] = [
    FailureCode::UnknownTool,
    FailureCode::InvalidArguments,
    FailureCode::NoFiles,
    FailureCode::NoCommands,
    FailureCode::File(File::NotFound),
    FailureCode::File(File::InvalidPath),
    FailureCode::File(File::OutsideSandbox),
    FailureCode::File(File::ReadOnly),
    FailureCode::File(File::SuffixNotAllowed),
    FailureCode::File(File::TooLarge),
    FailureCode::File(File::NotAFile),
    FailureCode::File(File::NotText),
    FailureCode::File(File::Escape),
    FailureCode::File(File::Exists),
    FailureCode::File(File::Loop),
    FailureCode::File(File::NameTooLong),
    FailureCode::File(File::Stale),
    FailureCode::File(File::NoMatch),
    FailureCode::File(File::NotUnique),
    FailureCode::File(File::Quota),
    FailureCode::Blocked,
    FailureCode::Denied,
    FailureCode::ApprovalRequired,
    FailureCode::CommandSyntax,
    FailureCode::CommandNotFound,
    FailureCode::CommandNotExecutable,
    FailureCode::TimeLimit,
    FailureCode::IsolationUnavailable,
    FailureCode::UnknownOutput,
    FailureCode::Limit,
    FailureCode::Internal,
];

/// Why a code is on no page.
fn elsewhere(code: FailureCode) -> Option<&'static str> {
    match code {
        FailureCode::Escalation
        | FailureCode::WorkerFailed
        | FailureCode::File(File::PermissionEscalation) => {
            Some("only calling a worker ends so: forge-runtime")
        }
        FailureCode::Cancelled => Some("nobody waits for it"),
        FailureCode::Git => Some("repositories: the suite of git"),
        FailureCode::IsolationEnded => Some("only a place elsewhere ends"),
        FailureCode::File(File::Io) => {
            Some("a fault of the system: file-sandbox has tests that plant them")
        }
        FailureCode::File(
            File::NotFound
            | File::InvalidPath
            | File::OutsideSandbox
            | File::ReadOnly
            | File::SuffixNotAllowed
            | File::TooLarge
            | File::NotAFile
            | File::NotText
            | File::Escape
            | File::Exists
            | File::Loop
            | File::NameTooLong
            | File::Stale
            | File::NoMatch
            | File::NotUnique
            | File::Quota,
        )
        | FailureCode::UnknownTool
        | FailureCode::InvalidArguments
        | FailureCode::NoFiles
        | FailureCode::NoCommands
        | FailureCode::Blocked
        | FailureCode::Denied
        | FailureCode::ApprovalRequired
        | FailureCode::CommandSyntax
        | FailureCode::CommandNotFound
        | FailureCode::CommandNotExecutable
        | FailureCode::TimeLimit
        | FailureCode::IsolationUnavailable
        | FailureCode::UnknownOutput
        | FailureCode::Limit
        | FailureCode::Internal => None,
        FailureCode::File(_) => Some("a kind that this page does not know"),
    }
}

/// The pages, and every code that was met on one.
#[derive(Default)]
struct Page {
    text: String,
    met: BTreeSet<String>,
}

impl Page {
    fn heading(&mut self, text: &str) {
        self.text.push_str(&format!("\n## {text}\n"));
    }

    /// One call and what came of it; `host` is what no model may read.
    fn row(&mut self, host: &str, label: &str, arguments: &Value, result: &CallResult) {
        check(host, arguments, result);
        let Some(error) = &result.error else {
            self.text.push_str(&format!("{label}: ok\n"));
            return;
        };
        self.met.insert(error.code.clone());
        self.text.push_str(&format!("{label}: {}\n", error.code));
        for line in error.message.lines() {
            self.text.push_str(&format!("    {}\n", short(line)));
        }
        for line in error.hint.iter().flat_map(|hint| hint.lines()) {
            self.text.push_str(&format!("  > {line}\n"));
        }
        if let Some(path) = &error.path {
            self.text
                .push_str(&format!("  @ {}\n", path.escape_debug()));
        }
        if let Some(Value::Object(facts)) = &result.structured {
            let names: Vec<&str> = facts.keys().map(String::as_str).collect();
            self.text.push_str(&format!("  + {}\n", names.join(", ")));
        }
    }
}

/// Enough of it for a person.
fn short(line: &str) -> String {
    const SHOWN: usize = 200;
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}[…]", &line[..end]),
        None => line.to_owned(),
    }
}

/// What holds of every answer, whatever it says.
fn check(host: &str, arguments: &Value, result: &CallResult) {
    let about = format!("{} {arguments}: {}", result.tool, result.content);
    let asked = arguments.to_string();
    let said = format!(
        "{} {:?} {:?}",
        result.content, result.structured, result.error
    );
    assert!(!said.contains(host), "a place of the host: {about}");
    assert!(
        asked.contains("zone") || !said.to_lowercase().contains("zone"),
        "the word that models must not see: {about}"
    );
    assert!(
        result.content.chars().all(|c| c == '\n' || !c.is_control()),
        "a control character: {about:?}"
    );
    let Some(error) = &result.error else {
        assert!(result.ok, "{about}");
        return;
    };
    // The text says what the fields say, and no more.
    let text = match &error.hint {
        Some(hint) => format!("{}\n{hint}", error.message),
        None => error.message.clone(),
    };
    assert_eq!(result.content, text, "{about}");
    assert!(
        !result.ok && result.code.is_some_and(|code| code.as_str() == error.code),
        "{about}"
    );
    // What a command had printed comes after the sentence.
    let ran = result.code == Some(FailureCode::TimeLimit);
    assert!(ran || !error.message.contains('\n'), "{about}");
    assert!(!error.message.is_empty(), "{about}");
    if let Some(path) = &error.path {
        assert!(
            asked.contains(&Value::from(path.as_str()).to_string()),
            "not as it was asked: {about}"
        );
    }
}

#[test]
fn every_tool_and_every_refusal() {
    everywhere(every_tool_and_every_refusal_here);
}

fn every_tool_and_every_refusal_here() {
    let mut page = Page::default();
    files::rows(&mut page);
    insta::assert_snapshot!("files", page.text);
    let mut met = std::mem::take(&mut page.met);

    let mut page = Page::default();
    executor::rows(&mut page);
    insta::assert_snapshot!("executor", page.text);
    met.append(&mut page.met);

    let mut page = Page::default();
    commands::rows(&mut page);
    insta::assert_snapshot!("commands", page.text);
    met.append(&mut page.met);

    for code in CODES {
        assert_eq!(elsewhere(code), None, "{code:?}");
        assert!(met.remove(code.as_str()), "no call ended with {code:?}");
    }
    assert_eq!(met, BTreeSet::new(), "codes that are not on the list");
}
