//! Exit codes, standard output, and what is said about mistakes.

use crate::support::{PROJECT, World};

const FILE: &str = "golem-forge.config.yaml";

#[test]
fn a_missing_file_names_its_neighbours_and_exits_1() {
    let world = World::new(&[]);
    // No project file: the default directories are made.
    world
        .forge(&[
            "tools",
            "call",
            "write_file",
            r#"{"path":"/workspace/notes.md","content":"x"}"#,
            "--yes",
        ])
        .code(0);
    let ran = world.forge(&[
        "tools",
        "call",
        "read_file",
        r#"{"path":"/workspace/note.md"}"#,
    ]);
    ran.code(1);
    assert_eq!(ran.stdout, "");
    insta::assert_snapshot!(ran.stderr, @r"
    File not found: /workspace/note.md
    Nearest existing names: /workspace/notes.md
    ");
}

#[test]
fn what_widens_and_was_not_agreed_to_asks() {
    let world = World::new(&[(FILE, PROJECT)]);
    let call = ["tools", "call", "shell", r#"{"command":"echo hello"}"#];
    world.forge(&call).code(3).says(&[
        "warning[config.untrusted]",
        "golem-forge.config.yaml:10:",
        "you have not agreed",
    ]);
}

#[test]
fn a_refusal_as_json_is_one_object() {
    let world = World::new(&[(FILE, PROJECT)]);
    let ran = world.forge(&["tools", "call", "shell", r#"{"command":"rm x"}"#, "--json"]);
    ran.code(1);
    let mut object: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        object["decision"]["reasons"][0]["origin"],
        "golem-forge.config.yaml:12:18"
    );
    object["decision"] = "checked above".into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&object).unwrap(), @r#"
    {
      "ok": false,
      "tool": "shell",
      "content": "shell is blocked here: `rm` matches the rule `rm *`.\nUse delete_file. Asking again does not change it.",
      "structured": null,
      "runner": "none",
      "decision": "checked above",
      "error": {
        "code": "BLOCKED",
        "message": "shell is blocked here: `rm` matches the rule `rm *`.",
        "hint": "Use delete_file. Asking again does not change it."
      }
    }
    "#);
}

#[test]
fn a_mistake_in_the_project_file_stops_everything() {
    let world = World::new(&[(FILE, &PROJECT.replace("zones:", "zonse:"))]);
    for args in [
        &["check"][..],
        &["run"],
        &["tools", "list"],
        &["tools", "call", "list_files"],
    ] {
        let ran = world.forge(args);
        ran.code(2).says(&[
            "golem-forge.config.yaml:3:3",
            "^^^^^",
            "did you mean `zones`?",
        ]);
        assert_eq!(ran.stdout, "");
    }
    // For `exec`, whatever stops forge before the command is 125.
    world.forge(&["exec", "--", "true"]).code(125);
    assert!(!world.project().join("workspace").exists());

    let ran = world.forge(&["check", "--json"]);
    let last = ran.stderr.lines().last().unwrap();
    let object: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(object["error"]["line"], 3);
    assert_eq!(object["error"]["column"], 3);
}

#[test]
fn usage_mistakes_exit_2() {
    let world = World::new(&[(FILE, PROJECT)]);
    for args in [
        &["frobnicate"][..],
        &["image"],
        &["-c", "novalue", "check"],
        &["run", "nobody"],
        &["run", "--model", "gpt-9"],
        &["run"],
    ] {
        world.forge(args).code(2);
    }
    // Which `exec` must not mix up with its command's own.
    for options in [
        &[][..],
        &["--frobnicate"],
        &["--timeout", "0"],
        &["--trace=off", "--full"],
        &["--output", "stream-json"],
    ] {
        let args = [&["exec"], options, &["--", "true"]].concat();
        let args = match options {
            [] => &args[..1],
            _ => &args[..],
        };
        world.forge(args).code(125);
    }
}

/// Without an OS sandbox nothing would carry them out.
/// Every group of commands alone: it lists what it has, or prints its help as a mistake does.
/// A value that does not fit is refused in words of the command line, not of the parser.
#[test]
fn values_that_do_not_fit_are_told_in_plain_words() {
    let world = World::new(&[]);
    for (args, says) in [
        (
            &["exec", "--timeout", "1s", "--", "true"][..],
            "'1s' for '--timeout <SECONDS>': not a whole number",
        ),
        (&["log", "list", "--limit", "x"], "not a whole number"),
        (&["log", "list", "--limit", ""], "not a whole number"),
        (
            &["log", "list", "--limit", "99999999999999999999999"],
            "the number is too large",
        ),
        (
            &["run", "--review=copy", "x"],
            "unexpected value 'copy' for '--review': it takes no value",
        ),
    ] {
        for json in [false, true] {
            let flags: &[&str] = if json { &["--json"] } else { &[] };
            let ran = world.forge(&[flags, args].concat());
            assert!(matches!(ran.code, 2 | 125), "{args:?}: {ran:?}");
            ran.says(&[says]);
            assert!(!ran.stderr.contains("invalid digit"), "{args:?}: {ran:?}");
        }
    }
}

#[test]
fn a_group_alone_lists_what_it_has() {
    const LISTS: [&str; 9] = [
        "config",
        "log",
        "preset",
        "preset home",
        "quarantine",
        "review",
        "stage",
        "tools",
        "worker",
    ];
    // `forge mcp` serves.
    const OTHERS: [&str; 4] = ["", "image", "mcp", "node"];
    let world = World::new(&[]);
    let below = |group: &str| -> Vec<String> {
        let words: Vec<&str> = group.split_whitespace().chain(["--help"]).collect();
        let help = world.forge(&words).code(0).stdout.clone();
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let names = lines.take_while(|line| line.starts_with("  "));
        let names = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let names = names.filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    let mut groups: Vec<String> = vec![String::new(), "node".to_owned()];
    let mut next = 0;
    while let Some(group) = groups.get(next).cloned() {
        let named = |name: &String| format!("{group} {name}").trim().to_owned();
        let names = below(&group);
        let inner = names.iter().map(named).filter(|one| !below(one).is_empty());
        groups.extend(inner.collect::<Vec<_>>());
        next += 1;
    }
    groups.sort();
    let mut known: Vec<&str> = LISTS.iter().chain(&OTHERS).copied().collect();
    known.sort_unstable();
    assert_eq!(groups, known);
    for group in groups.iter().filter(|group| *group != "mcp") {
        let words: Vec<&str> = group.split_whitespace().collect();
        let ran = world.forge(&words);
        let is_list = LISTS.contains(&group.as_str());
        assert_eq!(
            ran.code,
            if is_list { 0 } else { 2 },
            "{group}: {}",
            ran.stderr
        );
        assert!(is_list || ran.stdout.is_empty(), "{group}: {}", ran.stdout);
        assert_eq!(
            ran.stderr.contains("Usage: forge"),
            !is_list,
            "{group}: {}",
            ran.stderr
        );
    }
}

/// The directories of mounts are made for a call, and stay only if it was carried out.
#[test]
fn a_call_that_fails_makes_nothing() {
    let write = ["write_file", "path=/workspace/a/b", "content=x"];
    for (config, call, code) in [
        ("", &["nope"][..], 2),
        ("", &write, 3),
        ("", &["read_file", "path=/workspace/a"], 1),
        ("", &["read_file", "pth=/workspace/a"], 2),
        (
            "sandbox: { mode: direct, zones: { workspace: { path: w/x } } }",
            &write,
            3,
        ),
        (
            "",
            &["write_file", "path=/workspace/a", "content=x", "--yes"],
            0,
        ),
    ] {
        let world = World::new(&[]);
        if !config.is_empty() {
            world.write(FILE, config);
        }
        let before = std::fs::read_dir(world.project()).unwrap().count();
        world.forge(&[&["tools", "call"], call].concat()).code(code);
        let after = std::fs::read_dir(world.project()).unwrap().count();
        assert_eq!(after - before, usize::from(code == 0), "{config} {call:?}");
    }
}

#[test]
fn no_option_is_ignored_without_an_os_sandbox() {
    let world = World::new(&[(FILE, PROJECT)]);
    for option in [
        "--ask-hosts",
        "--fail-on-quarantine",
        "--host=example.com",
        "--host-group=telemetry",
        "--mechanism=landlock",
        "--parent-proxy",
        "--preset=node",
        "--read-only",
        "--review",
        "--share",
        "--trace",
        "--worker=main",
    ] {
        let ran = world.forge(&["exec", "--no-os-sandbox", option, "--", "touch", "made"]);
        ran.code(125).says(&["cannot be used with"]);
        assert!(!world.project().join("made").exists(), "{option}");
    }
}

#[test]
fn a_project_names_no_playbook_outside_itself() {
    let world = World::new(&[("workers/main.worker", "---\nname: main\n---\nGo.\n")]);
    let playbook = "version: 1\nworkers: {main: [{say: hello}]}\n";
    std::fs::write(world.outside().join("outside.yaml"), playbook).unwrap();
    world.write("inside.yaml", playbook);
    for (model, code) in [("inside.yaml", 0), ("../outside.yaml", 2), ("/dev/null", 2)] {
        world.write(FILE, &format!("{PROJECT}model: scripted:{model}\n"));
        world.forge(&["run"]).code(code);
    }
    // A person may.
    world
        .forge(&["run", "--model", "scripted:../outside.yaml"])
        .code(0);
}

#[test]
fn tools_list_is_what_a_model_sees() {
    let world = World::new(&[
        (FILE, PROJECT),
        (
            "workers/pure.worker",
            "---\nname: pure\ndescription: thinks\n---\nThink.\n",
        ),
        (
            "workers/reader.worker",
            "---\nname: reader\nsandbox: {zones: [{name: data, mode: ro}]}\ntools: [read_file]\n---\nRead.\n",
        ),
    ]);
    let names = |args: &[&str]| -> Vec<String> {
        let mut all = vec!["tools", "list", "--json"];
        all.extend(args);
        let ran = world.forge(&all);
        ran.code(0);
        let object: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        object["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    // Without an entry worker the tools are the project's.
    assert_eq!(
        names(&[]),
        [
            "read_file",
            "write_file",
            "append_file",
            "edit_file",
            "list_files",
            "search_files",
            "delete_file",
            "move_file",
            "copy_file",
            "create_dir",
            "file_exists",
            "file_info",
            "hash_file",
            "read_output",
            "shell"
        ]
    );
    assert_eq!(names(&["--worker", "reader"]), ["read_file"]);
    let text = world.forge(&["tools", "list"]).stdout;
    assert!(!text.contains("zone"));
}

#[test]
fn check_shows_the_table_and_finds_what_cannot_work() {
    let world = World::new(&[
        (FILE, PROJECT),
        (
            "workers/main.worker",
            "---\nname: main\nsandbox: {zones: [{name: data, mode: ro}]}\nworkers: [writer]\n---\nGo.\n",
        ),
        (
            "workers/writer.worker",
            "---\nname: writer\ndescription: writes\nsandbox: {zones: [{name: workspace, mode: rw}]}\n---\nWrite.\n",
        ),
    ]);
    let ran = world.forge(&["check"]);
    ran.code(1).says(&[
        "'main' may call 'writer', which asks for more",
        "Child requests zone 'workspace' but parent doesn't have it",
    ]);
    assert!(ran.stdout.contains("/data"), "{}", ran.stdout);
    // Nothing was run and nothing was made.
    assert!(!world.project().join("workspace").exists());
}

#[test]
fn arguments_of_a_call_are_pairs_or_an_object() {
    let world = World::new(&[
        ("forge.yaml", "sandbox: { root: . }\n"),
        ("a.md", "a\nb\nc\n"),
    ]);
    let call = |words: &[&str]| world.forge(&[&["--trust", "tools", "call"], words].concat());
    let by_pairs = call(&["read_file", "path=/a.md", "line=2", "lines=1"]);
    let by_object = call(&["read_file", r#"{"path":"/a.md","line":2,"lines":1}"#]);
    assert!(
        by_pairs.code(0).stdout.starts_with("b\n"),
        "{}",
        by_pairs.stdout
    );
    assert_eq!(by_pairs.stdout, by_object.stdout);
    // A text stays one, whatever it looks like.
    call(&["--yes", "write_file", "path=/n.txt", "content=7"]).code(0);
    assert_eq!(
        std::fs::read_to_string(world.project().join("n.txt")).unwrap(),
        "7"
    );
    for (words, says) in [
        (&["read_file", "/a.md"][..], "not JSON"),
        (
            &["read_file", "path=/a.md", "x"],
            "invalid argument `x` of read_file",
        ),
        (
            &["read_file", "path=/a.md", "path=/b"],
            "`path` is given twice",
        ),
        (&["read_file", "pth=/a.md"], "did you mean `path`?"),
    ] {
        call(words).code(2).says(&[says]);
    }
}

#[test]
fn doctor_says_what_holds_here() {
    let world = World::new(&[]);
    let ran = world.forge(&["doctor", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let enforceable = object["sandbox"]["enforceable"].as_bool().unwrap();
    ran.code(if enforceable { 0 } else { 1 });
}

#[test]
fn doctor_proves_what_it_says() {
    let world = World::new(&[(FILE, PROJECT)]);
    let has = |object: &serde_json::Value| {
        let enforceable = object["sandbox"]["enforceable"].as_bool().unwrap();
        if enforceable { 0 } else { 6 }
    };
    let ran = world.forge(&["doctor", "--prove", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    ran.code(has(&object));
    let proofs = object["sandbox"]["proofs"].as_array().unwrap();
    for proof in proofs.iter().filter(|proof| proof.get("refused").is_none()) {
        assert_eq!(proof["holds"], true, "{proof}");
        // The project's own mounts are what was tried.
        let checks = proof["proof"]["checks"].as_array().unwrap();
        for name in ["write in a read-only mount", "write in a writable mount"] {
            let check = checks.iter().find(|check| check["name"] == name);
            assert_eq!(check.unwrap()["ok"], true, "{name}");
        }
    }
    let left = std::fs::read_dir(world.project().join("workspace")).unwrap();
    assert_eq!(left.count(), 0, "something was left in a mount");

    // A line each without -v.
    let ran = world.forge(&["doctor", "--prove"]);
    ran.code(has(&object));
    assert!(
        !ran.stdout.contains("read a file outside"),
        "{}",
        ran.stdout
    );
    let ran = world.forge(&["doctor", "--prove", "-v"]);
    ran.code(has(&object));
    let lines = ran.stdout.matches("read a file outside").count();
    let proved = proofs.iter().filter(|proof| proof.get("proof").is_some());
    assert_eq!(lines, proved.count(), "{}", ran.stdout);
}

#[test]
fn doctor_proves_a_directory_without_a_project() {
    let world = World::new(&[("file", "content")]);
    let enforceable = world.forge(&["doctor"]).code == 0;
    let code = if enforceable { 0 } else { 6 };
    world.forge(&["doctor", "--prove"]).code(code);
    let left = std::fs::read_dir(world.project()).unwrap();
    assert_eq!(left.count(), 1, "something was left in the directory");
}

#[test]
fn secrets_of_the_environment_are_not_shown_and_come_back_in_files() {
    let world = World::new(&[]);
    let forge = |args: &[&str]| {
        let mut command = world.command(crate::support::forge_program(), args);
        command.env("DEPLOY_TOKEN", "abracadabra-1");
        crate::support::ran(command.output().unwrap())
    };
    // Where the default zones are.
    let directory = world.project().join(".sandbox/workspace");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("env.md"), "t=abracadabra-1\n").unwrap();
    let read = forge(&[
        "tools",
        "call",
        "read_file",
        r#"{"path":"/workspace/env.md"}"#,
    ]);
    read.code(0);
    assert!(
        read.stdout.starts_with("t=[redacted: DEPLOY_TOKEN "),
        "{}",
        read.stdout
    );
    // Of another process, so nobody knows what it stood for.
    let arguments = serde_json::json!({"path": "/workspace/env.md", "content": read.stdout});
    let written = forge(&[
        "tools",
        "call",
        "write_file",
        &arguments.to_string(),
        "--yes",
    ]);
    written.code(2);
    assert_eq!(
        std::fs::read_to_string(directory.join("env.md")).unwrap(),
        "t=abracadabra-1\n"
    );
}

/// A refused combination is not shown as the usage.
#[test]
fn a_conflict_shows_no_usage() {
    let world = World::new(&[]);
    for words in [
        &["allow", "--last", "x"][..],
        &["approve", "--watch", "1"],
        &["quarantine", "restore", "--all", "x"],
        &["review", "discard", "--all", "x"],
        &["preset", "home", "remove", "--all", "x"],
        &["run", "--resume", "x", "--review"],
    ] {
        let ran = world.forge(words);
        ran.code(2).says(&["cannot be used with", "try '--help'"]);
        assert!(!ran.stderr.contains("Usage:"), "{words:?}: {}", ran.stderr);
    }
}

/// The program is at a random address, and the table that leads to functions of other libraries is
/// read-only once the loader has filled it: `.cargo/config.toml` replaces rustc's own arguments.
#[test]
#[cfg(target_os = "linux")]
fn the_program_is_hardened() {
    let program = env!("CARGO_BIN_EXE_forge");
    let read = std::process::Command::new("readelf")
        .args(["--wide", "--program-headers", "--dynamic", program])
        .output()
        .expect("readelf comes with the linker");
    let text = String::from_utf8_lossy(&read.stdout);
    for part in ["Position-Independent", "GNU_RELRO", "BIND_NOW"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
    assert!(
        text.lines()
            .any(|line| line.contains("GNU_STACK") && line.contains(" RW ")),
        "{text}"
    );
}
