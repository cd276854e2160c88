//! What a config file may cost. Every text here is read in a child process whose memory and
//! processor time have a hard end, so that a text that blows up fails its row and nothing else.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use sandbox_config::{Sources, load};

use crate::support::{CONFIG, Scratch};

/// Address space of the child, the test binary and its stacks included.
const MEMORY_KIB: u64 = 2 * 1024 * 1024;
/// What it may have touched at most: a few hundred times the largest file.
const PEAK_KIB: u64 = 256 * 1024;
/// What it may say at most, as text and as JSON.
const SAID_BYTES: usize = 1024 * 1024;
/// Processor time, not time on the wall: a busy machine must not fail a test.
const PROCESSOR_S: u64 = 60;

const CHILD: &str = "FORGE_TEST_BOUNDS_DIR";

/// No test of its own: what the child does when it is told a directory.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let said = match load(&Sources::new(&dir)) {
        Ok(project) => project.check(),
        Err(mistakes) => mistakes.iter().cloned().collect(),
    };
    let bytes: usize = said
        .iter()
        .map(|one| one.to_string().len() + one.to_json().to_string().len())
        .sum();
    let codes: BTreeSet<&str> = said
        .iter()
        .filter(|one| one.is_error())
        .map(|one| one.code().as_str())
        .collect();
    let codes: Vec<&str> = codes.into_iter().collect();
    println!("\nRESULT {} {bytes} {}", peak_kib(), codes.join(" "));
}

/// The most memory that this process ever had.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.unwrap().parse().unwrap()
}

fn check(what: &str, dir: &Path, expected: &[&str]) {
    let limits = format!("ulimit -v {MEMORY_KIB}; ulimit -t {PROCESSOR_S}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &limits])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "bounds::child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    let result = said.lines().find_map(|line| line.strip_prefix("RESULT "));
    let result = result.unwrap_or_else(|| panic!("{what}: {}\n{complaint}", output.status));
    let mut words = result.split_whitespace();
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (peak, bytes) = (number(), number());
    assert!(peak <= PEAK_KIB, "{what}: {peak} KiB");
    assert!(bytes <= SAID_BYTES as u64, "{what}: {bytes} bytes are said");
    assert_eq!(words.collect::<Vec<_>>(), expected, "{what}");
}

fn config(what: &str, text: impl AsRef<[u8]>, expected: &[&str]) {
    let scratch = Scratch::new().file(CONFIG, text);
    check(what, &scratch.path(), expected);
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

fn zones(count: usize) -> String {
    let zones = lines(count, |i| format!("    z{i}: {{ path: ./z{i} }}\n"));
    format!("sandbox:\n  zones:\n{zones}")
}

#[test]
fn files_that_are_too_large() {
    // A hole costs no disk, and is read like any other file.
    let scratch = Scratch::new().file(CONFIG, "");
    let file = std::fs::File::options()
        .write(true)
        .open(scratch.path().join(CONFIG))
        .unwrap();
    file.set_len(100 * 1024 * 1024).unwrap();
    check("100 MB", &scratch.path(), &["config.too_large"]);
    let scratch = Scratch::new().file("workers/w.worker", "---\n---\nx");
    let file = std::fs::File::options()
        .write(true)
        .open(scratch.path().join("workers/w.worker"))
        .unwrap();
    file.set_len(100 * 1024 * 1024).unwrap();
    check("a worker of 100 MB", &scratch.path(), &["config.too_large"]);
}

#[test]
fn bombs() {
    let mut levels = String::from("x-0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..9 {
        let before = format!("*a{}", i - 1);
        levels += &format!("x-{i}: &a{i} [{}]\n", [before.as_str(); 10].join(", "));
    }
    config("aliases of aliases", levels, &["config.too_complex"]);
    let long = "x".repeat(400_000);
    config(
        "aliases of a long text",
        format!(
            "x-a: &a {long}\nx-b: &b {long}\nx-c: [{}{}]\n",
            "*a, ".repeat(999),
            "*b, ".repeat(999)
        ),
        &["config.too_complex"],
    );
    config(
        "an anchor inside of itself",
        "x-a: &a [*a]\n",
        &["config.syntax"],
    );
    config("flow depth", "[".repeat(1_000_000), &["config.too_complex"]);
    config(
        "flow mappings",
        "{a: ".repeat(250_000),
        &["config.too_complex"],
    );
    config(
        "block depth",
        lines(1_000, |i| format!("{}a:\n", " ".repeat(i))),
        &["config.too_complex"],
    );
    config("dashes", "- ".repeat(500_000), &["config.too_complex"]);
    config(
        "anchors",
        lines(50_000, |i| format!("x-{i}: &a{i} 1\n")),
        &["config.too_complex"],
    );
}

#[test]
fn long_lines_and_many_lines() {
    config(
        "one line of keys",
        format!("x-a: {{ {} }}\n", lines(60_000, |i| format!("k{i}: {i}, "))),
        &[],
    );
    config(
        "one line of mistakes",
        format!("{{ {} }}\n", lines(60_000, |i| format!("k{i}: {i}, "))),
        &["config.too_complex", "config.unknown_key"],
    );
    config(
        "lines of mistakes",
        lines(60_000, |i| format!("k{i}: {i}\n")),
        &["config.too_complex", "config.unknown_key"],
    );
    config(
        "a long key",
        format!("{}: 1\n", "k".repeat(1_000_000)),
        &["config.syntax"],
    );
    config(
        "a long word",
        format!("sandbox: {{ mode: {} }}\n", "k".repeat(1_000_000)),
        &["config.bad_value"],
    );
    config(
        "a long path",
        format!(
            "sandbox: {{ mode: direct, zones: {{ a: {{ path: \"{}\" }} }} }}\n",
            "a/".repeat(500_000)
        ),
        &["config.host_path"],
    );
    config("NULs", "\0".repeat(1_000_000), &["config.syntax"]);
    config("quotes", "\"".repeat(1_000_000), &["config.syntax"]);
}

#[test]
fn long_lists() {
    config("zones", zones(10_000), &[]);
    config(
        "protected names",
        format!(
            "sandbox: {{ protect: [{}] }}\n",
            lines(100_000, |i| format!("p{i}, "))
        ),
        &["config.too_complex"],
    );
    config(
        "suffixes",
        format!(
            "sandbox: {{ zones: {{ a: {{ path: a, suffixes: [{}] }} }} }}\n",
            lines(100_000, |i| format!(".p{i}, "))
        ),
        &["config.too_complex"],
    );
    config(
        "rules",
        format!(
            "shell:\n  rules:\n{}",
            lines(20_000, |i| format!(
                "    - {{ pattern: a{i}, approval: ask }}\n"
            ))
        ),
        &["config.too_complex"],
    );
    config(
        "one zone again and again",
        format!(
            "sandbox:\n  zones:\n{}",
            lines(20_000, |_| "    a: { path: a }\n".into())
        ),
        &["config.duplicate_key", "config.too_complex"],
    );
}

#[test]
fn a_worker_and_ten_thousand_zones() {
    let worker = |letter: char, count| {
        let wanted = lines(count, |i| format!("    - {{ name: {letter}{i} }}\n"));
        Scratch::with_config(&zones(10_000)).file(
            "workers/w.worker",
            format!("---\nsandbox:\n  zones:\n{wanted}---\nx"),
        )
    };
    let known = worker('z', 10_000);
    check("known", &known.path(), &[]);
    let unknown = worker('y', 20_000);
    check(
        "unknown",
        &unknown.path(),
        &["config.too_complex", "config.unknown_zone"],
    );
}
