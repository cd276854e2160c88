//! Lines at the end of `forge exec` about refused attempts.

use super::exec::mechanisms;
use crate::support::World;

/// Returns the lines of forge about refusals, without the command's own.
fn told(stderr: &str) -> Vec<&str> {
    let lines = stderr.lines();
    lines
        .filter(|line| line.starts_with("refused: ") || line.starts_with("hint: "))
        .collect()
}

#[test]
fn a_failed_command_ends_with_its_refusals() {
    let world = World::new(&[("a.txt", "alpha\n")]);
    let project = world.project().display().to_string();
    let write = "hint: to let it write there: a mount of that directory in `sandbox.mounts`";
    let outside = format!("refused: create /etc/made (outside; writable: {project})");
    let read_only = format!("refused: write {project}/a.txt ({project} is read-only)");
    for mechanism in mechanisms(&world) {
        let rows: [(&[&str], &str, &[&str]); 4] = [
            (&[], "touch /etc/made", &[&outside, write]),
            (
                &["--read-only"],
                "echo x >> a.txt",
                &[&read_only, "hint: leave out --read-only"],
            ),
            (&[], "touch /etc/made; echo made > b.txt", &[]),
            (&["--quiet"], "touch /etc/made", &[]),
        ];
        for (flags, line, wanted) in rows {
            let command = ["--mechanism", mechanism, "--", "sh", "-c", line];
            let arguments = [&["exec"], flags, &command].concat();
            let ran = world.forge(&arguments);
            assert_eq!(
                told(&ran.stderr),
                wanted,
                "{mechanism}: {line}: {}",
                ran.stderr
            );
        }
    }
}

#[test]
fn a_trace_lists_everything_whatever_came_of_the_command() {
    let world = World::new(&[]);
    let touched = "refused: create /etc/made (outside), to touch";
    let many = "i=0; while [ $i -lt 9 ]; do mkdir /usr/made$i 2>&-; i=$((i+1)); done; true";
    for mechanism in mechanisms(&world) {
        for (line, lines, first) in [
            ("touch /etc/made 2>&-; true", 1, touched),
            (many, 9, "refused: create /usr/made0 (outside), to mkdir"),
            (
                "true",
                1,
                "refused: nothing that would have changed something",
            ),
        ] {
            let command = [
                "exec",
                "--trace",
                "--mechanism",
                mechanism,
                "--",
                "sh",
                "-c",
                line,
            ];
            let ran = world.forge(&command);
            ran.code(0);
            let refused = told(&ran.stderr).into_iter();
            let refused: Vec<&str> = refused.filter(|line| line.starts_with("refused")).collect();
            assert_eq!(refused.len(), lines, "{mechanism}: {line}: {}", ran.stderr);
            assert_eq!(refused[0], first, "{mechanism}: {line}");
        }
    }
}

#[test]
fn without_a_trace_nothing_is_observed() {
    let world = World::new(&[]);
    for mechanism in mechanisms(&world) {
        let line = ["--", "touch", "/etc/made"];
        let flags = ["exec", "--trace=off", "--json", "--mechanism", mechanism];
        let ran = world.forge(&[&flags[..], &line].concat());
        let object: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let receipt = &object["enforcement"];
        assert_eq!(
            receipt["reports_denials"], false,
            "{mechanism}: {}",
            ran.stdout
        );
        assert!(
            receipt.get("denials").is_none(),
            "{mechanism}: {}",
            ran.stdout
        );
    }
}

#[test]
fn the_receipt_lists_them_whatever_came_of_the_command() {
    let world = World::new(&[("a.txt", "alpha\n")]);
    for mechanism in mechanisms(&world) {
        let line = ["--", "sh", "-c", "touch /etc/made; true"];
        let arguments = [&["exec", "--json", "--mechanism", mechanism][..], &line].concat();
        let ran = world.forge(&arguments);
        ran.code(0);
        let object: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let wanted = serde_json::json!([{
            "operation": "create",
            "object": "/etc/made",
            "reason": "outside",
            "program": "touch",
        }]);
        assert_eq!(object["enforcement"]["denials"], wanted, "{}", ran.stdout);
    }
}

/// Without a network namespace the socket is refused and not the connect.
#[test]
fn a_refused_socket_is_named_with_its_key() {
    let world = World::new(&[]);
    let script = "import socket; socket.socket(socket.AF_UNIX)";
    let command = ["python3", "-c", script];
    let arguments = [&["exec", "--mechanism", "landlock", "--"][..], &command].concat();
    let ran = world.forge(&arguments);
    if ran.stderr.contains("mechanism") && !mechanisms(&world).contains(&"landlock") {
        eprintln!("skipped: this host has no Landlock");
        return;
    }
    let wanted = [
        "refused: make a local socket (local sockets are closed)",
        "hint: to let it use local sockets: for once, -c sandbox.unix_sockets=open",
    ];
    assert_eq!(told(&ran.stderr), wanted, "{}", ran.stderr);
}

/// A full trace lists what was touched and what was refused, reads too, and proposes the directory
/// that is missing and nothing wider.
#[test]
fn a_full_trace_proposes_the_smallest_grants() {
    let world = World::new(&[("a.txt", "alpha\n")]);
    let other = world.outside().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("data.txt"), "text").unwrap();
    let top = world.project();
    let (project, other) = (top.display(), other.display());
    let line = format!("cat a.txt {other}/data.txt; echo made > b.txt; true");
    for mechanism in mechanisms(&world) {
        let why = match mechanism {
            "landlock" => "outside",
            _ => "no mount shows it",
        };
        let refused = format!("refused: read {other}/data.txt ({why})");
        let grant = format!(
            "grant: `sandbox.mounts`: {{ source: \"{other}\", target: \"/other\", readonly: true }}"
        );
        let ran = world.forge(&[
            "exec",
            "--trace=full",
            "--mechanism",
            mechanism,
            "--",
            "sh",
            "-c",
            &line,
        ]);
        ran.code(0).says(&[
            &format!("touched: read 1 in {project}"),
            &format!("touched: written 1 in {project}"),
            &format!("{refused}, to cat"),
            &grant,
        ]);
        let again = world.forge(&["explain", "--from-run", "last"]);
        again.code(0);
        assert_eq!(again.stdout, format!("{refused}\n{grant}\n"));
    }
}

#[test]
fn a_trace_is_off_or_full() {
    let world = World::new(&[]);
    let ran = world.forge(&["exec", "--trace=off", "--full", "--", "touch", "made"]);
    ran.code(125).says(&["`--trace=off` reports nothing"]);
    assert!(!world.project().join("made").exists());
}
