//! No part of a secret reaches a model or a record, wherever a tool cuts a text: in a range, in the
//! excerpt of a line, between two lines, around an edit, and in the output of a command.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_tools::{MemoryRecorder, Redactor, Toolbox};
use serde_json::{Value, json};

use crate::place::{everywhere, is_elsewhere, with_files};
use crate::support::{call, recorder};

/// A part of this many bytes is too much.
const PART: usize = 6;

/// The secrets of the table: what it is, and the whole. The first two are known by value, the rest
/// by shape. Put together here, so that a scanner does not take this file for a leak.
fn secrets() -> Vec<(&'static str, String)> {
    let body = |seed: usize| -> String {
        let letters = b"QWERTYUIOPASDFGHJKLZXCVBNMqwertyuiopasdfghjklzxcvbnm";
        let letter = |n: usize| char::from(letters[(n * n * 7 + n * seed + seed) % letters.len()]);
        (0..64).map(letter).collect()
    };
    let lines: Vec<String> = (3..40).map(body).collect();
    let all = vec![
        ("value", "hunter2-Zx81-Vq94-Lm".to_owned()),
        (
            "lines",
            "first-Kq71-line\nsecond-Wv82-line\nthird-Jx93-line".to_owned(),
        ),
        (
            "shape",
            format!("ghp_{}7{}", &body(5)[..20], &body(11)[..15]),
        ),
        (
            "block",
            format!(
                "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
                lines.join("\n")
            ),
        ),
    ];
    // Values do not leave the process that judges, which sees them in a range only if whole.
    let known_there = if is_elsewhere() { 2 } else { 0 };
    all.into_iter().skip(known_there).collect()
}

fn redactor() -> Arc<Redactor> {
    let named = secrets()
        .into_iter()
        .filter(|(name, _)| ["value", "lines"].contains(name));
    Arc::new(Redactor::new(
        named.map(|(name, value)| (format!("{name}_TOKEN"), value)),
    ))
}

struct Scene {
    host: tempfile::TempDir,
    toolbox: Toolbox,
    records: Arc<MemoryRecorder>,
    /// The calls that showed a part, each with the first part.
    shown: RefCell<BTreeMap<String, String>>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.shown.borrow().is_empty(), "{:#?}", self.shown.borrow());
        }
    }
}

fn scene() -> Scene {
    let host = tempfile::tempdir().unwrap();
    let target = SandboxPath::parse("/out").unwrap();
    let authority = cap_std::ambient_authority();
    let mount = Mount::open_ambient(target, host.path(), Mode::ReadWrite, authority).unwrap();
    let records = recorder();
    let files = FileSandbox::new(vec![mount]).unwrap();
    let toolbox = with_files(Toolbox::builder(), files)
        .shared_redactor(redactor())
        .shared_recorder(records.clone())
        .build()
        .unwrap();
    Scene {
        host,
        toolbox,
        records,
        shown: RefCell::default(),
    }
}

/// Returns a part of the secret that a text shows. The lines around a block are not secret.
fn part_of<'s>(secret: &'s str, text: &str) -> Option<&'s str> {
    let is_secret = |part: &&str| !"-----BEGIN RSA PRIVATE KEY-----END".contains(*part);
    let parts = (0..=secret.len() - PART).map(|at| &secret[at..at + PART]);
    parts
        .filter(|part| !part.contains('\n'))
        .filter(is_secret)
        .find(|part| text.contains(part))
}

impl Scene {
    fn check(&self, what: &str, secret: &str, tool: &str, arguments: &Value) {
        let result = call(&self.toolbox, tool, arguments.clone());
        let record = serde_json::to_string(self.records.records().last().unwrap()).unwrap();
        let said = format!("{}\n{}\n{record}", result.content, result.to_json());
        // A multi-line text has other line ends in JSON.
        if let Some(part) = part_of(secret, &said) {
            let keys: Vec<&str> = arguments
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            let call = format!("{what}: {tool} {}", keys.join(" "));
            let first = format!("{arguments} shows `{part}`");
            self.shown.borrow_mut().entry(call).or_insert(first);
        }
    }
}

/// Where the secret is: what it is, the text before, and the text behind.
fn surroundings() -> Vec<(&'static str, String, String)> {
    let filler = |bytes: usize| ". ".repeat(bytes / 2);
    let lines = |count: usize| "some words in a line\n".repeat(count);
    vec![
        ("short lines", lines(4), format!("\n{}", lines(4))),
        ("one long line", filler(3_000), filler(3_000)),
        (
            "far in a large file",
            lines(4_000),
            format!("\n{}", lines(4_000)),
        ),
        (
            "over a piece of a search",
            lines((1 << 20) / 21),
            format!("\n{}", lines(4_000)),
        ),
    ]
}

/// The ranges of a file of these sizes that begin or end within the secret.
fn ranges(before: usize, secret: &str, before_lines: usize, behind_lines: usize) -> Vec<Value> {
    let step = (secret.len() / 3).max(1);
    let mut ranges = Vec::new();
    for at in (1..secret.len()).step_by(step) {
        let cut = before + at;
        let from = before.saturating_sub(20);
        ranges.push(json!({"offset": cut}));
        ranges.push(json!({"offset": cut, "byte": cut}));
        ranges.push(json!({"offset": cut, "max_chars": 15}));
        ranges.push(json!({"offset": from, "max_chars": cut - from}));
        ranges.push(json!({"tail": 1_000_000, "max_chars": secret.len() - at + 30}));
    }
    let lines = secret.lines().count();
    for line in (1..=lines).step_by(lines.div_ceil(3)) {
        let at = before_lines + line;
        ranges.push(json!({"line": at, "lines": 1}));
        ranges.push(json!({"line": at}));
        ranges.push(json!({"line": before_lines.max(1), "lines": line}));
        ranges.push(json!({"tail": behind_lines + line}));
    }
    ranges
}

#[test]
fn no_cut_of_a_file_shows_a_part() {
    everywhere(no_cut_of_a_file_shows_a_part_here);
}

fn no_cut_of_a_file_shows_a_part_here() {
    let scene = scene();
    for (name, secret) in secrets() {
        for (place, before, behind) in surroundings() {
            let what = format!("{name} in {place}");
            let text = format!("{before}{secret}{behind}");
            std::fs::write(scene.host.path().join("a.txt"), &text).unwrap();
            let before_lines = before.matches('\n').count();
            let behind_lines = behind.matches('\n').count();
            let ranges = match text.len() > 1 << 20 {
                true => Vec::new(),
                false => ranges(before.len(), &secret, before_lines, behind_lines),
            };
            for mut range in ranges {
                range["path"] = "/out/a.txt".into();
                scene.check(&what, &secret, "read_file", &range);
            }
            // Matches in the secret, and around it.
            let patterns = [
                regex_of(&secret[secret.len() / 2..][..8]),
                format!("\\. {}", regex_of(&secret[..6])),
                "some words|line|[A-Z]{40}".to_owned(),
            ];
            for (pattern, path) in patterns.into_iter().zip(["/out", "/out/a.txt", "/out"]) {
                let arguments = json!({"path": path, "pattern": pattern, "max_results": 1000});
                scene.check(&what, &secret, "search_files", &arguments);
            }
        }
    }
}

/// The last line of a text as an expression that does not show it.
fn regex_of(text: &str) -> String {
    let line = text.lines().next_back().unwrap_or_default();
    line.chars()
        .map(|c| format!("[{c}]").replace("[-]", "-"))
        .collect()
}

#[test]
fn no_cut_of_another_encoding_shows_a_part() {
    everywhere(no_cut_of_another_encoding_shows_a_part_here);
}

fn no_cut_of_another_encoding_shows_a_part_here() {
    let scene = scene();
    for (name, secret) in secrets() {
        let before = "words\n".repeat(40);
        let text = format!("{before}{}{secret}{}\n", ". ".repeat(400), ". ".repeat(400));
        let wide: Vec<u8> = [0xfeff]
            .into_iter()
            .chain(text.encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        std::fs::write(scene.host.path().join("a.txt"), wide).unwrap();
        for mut range in ranges(before.len() + 800, &secret, 40, 1) {
            range["path"] = "/out/a.txt".into();
            scene.check(name, &secret, "read_file", &range);
        }
        for pattern in ["\\. .", "[A-Z]{40}", "line"] {
            let arguments = json!({"path": "/out/a.txt", "pattern": pattern});
            scene.check(name, &secret, "search_files", &arguments);
        }
    }
}

#[test]
fn an_edit_beside_a_secret_shows_no_part() {
    everywhere(an_edit_beside_a_secret_shows_no_part_here);
}

fn an_edit_beside_a_secret_shows_no_part_here() {
    let scene = scene();
    for (name, secret) in secrets() {
        for (before, behind) in [("", ""), ("one\ntwo\n", "\nthree\nfour\n"), ("x ", " y")] {
            let text = format!("head\n{before}{secret}{behind}\nend of it\nend\n");
            for (old, new) in [
                ("head", "HEAD"),
                ("end of it", "END"),
                ("end", "END"),
                ("eend", "x"),
                ("two", "2"),
            ] {
                std::fs::write(scene.host.path().join("a.txt"), &text).unwrap();
                let arguments = json!({"path": "/out/a.txt", "old_text": old, "new_text": new});
                scene.check(name, &secret, "edit_file", &arguments);
            }
        }
    }
}
