//! `forge explain`: as rows of subject, decision and the rule that decides.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::World;

const FILE: &str = "golem-forge.config.yaml";

const PROJECT: &str = "\
sandbox:
  zones:
    data: { path: data, mode: ro }
    ws: { path: ws, suffixes: [.md], approval: { write: preApproved, delete: blocked } }
    cache: { path: cache }
network: { allow: ['example.com', '*.rust-lang.org:443'] }
approval: { require_user_permission: { read_file: true } }
shell:
  rules:
    - { pattern: 'git push *', approval: blocked, why: A person pushes. }
    - { pattern: 'git *', approval: ask }
  default: blocked
";

fn world() -> World {
    let worker = |name: &str, keys: &str| {
        format!("---\nname: {name}\ndescription: does things\n{keys}---\nGo.\n")
    };
    World::new(&[
        (FILE, PROJECT),
        ("workers/main.worker", &worker("main", "workers: [fmt]\n")),
        (
            "workers/fmt.worker",
            &worker(
                "fmt",
                "sandbox: { zones: [{ name: ws, mode: ro }, { name: cache, use: false }] }\nshell:\n  rules:\n    - { pattern: 'git log *', approval: blocked }\n",
            ),
        ),
    ])
}

/// `decision at origin`, by the JSON that programs read.
fn explained(world: &World, args: &[&str]) -> String {
    let mut all = vec!["--trust", "--json", "explain"];
    all.extend(args);
    let ran = world.forge(&all);
    ran.code(0);
    assert_eq!(ran.stdout.lines().count(), 1);
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    format!(
        "{} at {}",
        object["decision"].as_str().unwrap(),
        object["rule"]["origin"].as_str().unwrap_or("-")
    )
}

/// The last row of the table is the decision, also where no rule of a link decides.
#[test]
fn the_table_has_the_row_that_decides() {
    let config =
        "sandbox: { root: . }\napproval: { require_user_permission: { read_file: true } }\n";
    let world = World::new(&[(FILE, config), ("a.md", "")]);
    for (args, decision) in [
        (&["/a.md", "--write"][..], "allow"),
        (&["/a.md"], "ask"),
        (&["/.env", "--write"], "block"),
        (&["/etc/passwd"], "outside"),
    ] {
        let mut all = vec!["explain"];
        all.extend(args);
        let text = world.forge(&all).code(0).stdout.clone();
        let head = text.lines().next().unwrap();
        assert!(head.ends_with(&format!(": {decision}")), "{text}");
        let table = text.split("from the project down\n").nth(1).unwrap();
        let last = table
            .lines()
            .take_while(|line| !line.is_empty())
            .last()
            .unwrap();
        assert!(
            last.contains(&format!("  {decision}  ")),
            "{args:?}:\n{text}"
        );
    }
}

#[test]
fn the_decision_and_where_it_is_made() {
    let world = world();
    for (args, expected) in [
        // Paths: the mount, what it takes, who may.
        (
            &["/cache/x", "--write"][..],
            "ask at golem-forge.config.yaml:5:5",
        ),
        (
            &["/ws/a.md", "--write"],
            "allow at golem-forge.config.yaml:4:5",
        ),
        (
            &["/ws/a.md", "--delete"],
            "block at golem-forge.config.yaml:4:5",
        ),
        (
            &["/ws/a.txt", "--write"],
            "block at golem-forge.config.yaml:4:5",
        ),
        (
            &["/data/x", "--write"],
            "block at golem-forge.config.yaml:3:31",
        ),
        (&["/data/x"], "ask at golem-forge.config.yaml:7:40"),
        (
            &["data/../ws/a.md", "--write"],
            "allow at golem-forge.config.yaml:4:5",
        ),
        // What nobody holds.
        (&["/etc/passwd"], "outside at -"),
        (&["/ws/../etc/x", "--write"], "outside at -"),
        (&["/"], "allow at -"),
        // Names, whatever the mount says.
        (&["/data/.env"], "block at -"),
        (&["/cache/.git/hooks/x", "--write"], "block at -"),
        // A worker that is called holds less, and its own file says so.
        (
            &["--as", "main>fmt", "/ws/a.md", "--write"],
            "block at workers/fmt.worker:4:38",
        ),
        (
            &["--as", "main > fmt", "/cache/x"],
            "block at workers/fmt.worker:4:1",
        ),
        (
            &["--as", "main>fmt", "/data/x"],
            "outside at workers/fmt.worker:4:1",
        ),
        (
            &["--worker", "fmt", "/ws/a.md", "--write"],
            "block at workers/fmt.worker:4:38",
        ),
        // Hosts.
        (
            &["host:example.com"],
            "allow at golem-forge.config.yaml:6:20",
        ),
        (&["example.com:80"], "allow at golem-forge.config.yaml:6:20"),
        (
            &["docs.rust-lang.org:80"],
            "block at golem-forge.config.yaml:6:10",
        ),
        (
            &["docs.rust-lang.org"],
            "allow at golem-forge.config.yaml:6:35",
        ),
        (
            &["host:evil.example"],
            "block at golem-forge.config.yaml:6:10",
        ),
        (
            &["--as", "main>fmt", "host:example.com"],
            "block at workers/fmt.worker:1:1",
        ),
        // Tools.
        (&["write_file"], "allow at -"),
        (&["read_file"], "ask at golem-forge.config.yaml:7:40"),
        (&["shell"], "allow at -"),
        // Commands: a rule, the default, a line of several.
        (
            &["--", "git", "push", "origin"],
            "block at golem-forge.config.yaml:10:18",
        ),
        (
            &["--", "git", "log"],
            "ask at golem-forge.config.yaml:11:18",
        ),
        (&["--", "curl", "x"], "block at golem-forge.config.yaml:8:1"),
        (
            &["--", "git log | curl x"],
            "block at golem-forge.config.yaml:8:1",
        ),
        (
            &["--", "git", "log | curl"],
            "ask at golem-forge.config.yaml:11:18",
        ),
        (
            &["--as", "main>fmt", "--", "git", "log"],
            "block at workers/fmt.worker:7:18",
        ),
    ] {
        assert_eq!(explained(&world, args), expected, "{args:?}");
    }
    // Nothing was run and nothing was made.
    assert!(!world.project().join(".sandbox").exists());
}

#[test]
fn what_cannot_be_explained_is_a_usage_mistake() {
    let world = world();
    for (args, says) in [
        (&[][..], "required"),
        (&["frobnicate"], "not a sandbox path, host, tool or worker"),
        (&["host:"], "not a host"),
        (&["--as", "main>nobody", "/ws"], "unknown worker `nobody`"),
        (&["--as", "fmt>main", "/ws"], "may not call 'main'"),
        (&["--as", "main>main", "/ws"], "at work above itself"),
        (&["--write", "--delete", "/ws"], "cannot be used with"),
        (&["/ws", "--", "ls"], "cannot be used with"),
    ] {
        let mut all = vec!["--trust", "explain"];
        all.extend(args);
        world.forge(&all).code(2).says(&[says]);
    }
}

#[test]
fn people_see_the_whole_way_down() {
    let ran = world().forge(&[
        "--trust", "explain", "-v", "--as", "main>fmt", "/ws/a.md", "--write",
    ]);
    ran.code(0);
    insta::assert_snapshot!(ran.stdout, @r#"
    write /ws/a.md for main > fmt: block
      fmt: Zone 'ws' is read-only for this worker  (workers/fmt.worker:4:38)

    from the project down
      the project  allow  write in /ws is `preApproved`           golem-forge.config.yaml:4:5
      main         allow  write in /ws is `preApproved`           golem-forge.config.yaml:4:5
      fmt          block  Zone 'ws' is read-only for this worker  workers/fmt.worker:4:38      narrower: no data, ws rw → ro, cache not used, network off, 1 shell rule of its own

    held to
      file rules  files with further names: read only
    "#);
    let ran = world().forge(&["--trust", "explain", "--", "git", "push"]);
    let first: Vec<&str> = ran.stdout.lines().take(3).collect();
    insta::assert_snapshot!(first.join("\n"), @r#"
    run git push for main: block
      the project: git push *: blocked  (golem-forge.config.yaml:10:18)
      A person pushes.
    "#);
}

/// What decides about a call is what explains it.
#[test]
fn the_tools_decide_as_explained() {
    let world = world();
    // A list of hosts is not enforced on every machine, and this is about files.
    let lines = PROJECT.lines().filter(|line| !line.starts_with("network"));
    world.write(FILE, &lines.collect::<Vec<_>>().join("\n"));
    for (path, tool, arguments, code) in [
        (
            "/ws/a.md",
            "write_file",
            r#"{"path":"/ws/a.md","content":"x"}"#,
            0,
        ),
        (
            "/ws/a.txt",
            "write_file",
            r#"{"path":"/ws/a.txt","content":"x"}"#,
            1,
        ),
        (
            "/cache/x",
            "write_file",
            r#"{"path":"/cache/x","content":"x"}"#,
            3,
        ),
        (
            "/data/x",
            "write_file",
            r#"{"path":"/data/x","content":"x"}"#,
            1,
        ),
        (
            "/cache/.envrc",
            "write_file",
            r#"{"path":"/cache/.envrc","content":"x"}"#,
            1,
        ),
    ] {
        let decision = explained(&world, &[path, "--write"]);
        let expected = match decision.split(' ').next().unwrap() {
            "allow" => 0,
            "ask" => 3,
            _ => 1,
        };
        assert_eq!(expected, code, "{path}: {decision}");
        let call = ["--trust", "tools", "call", tool, arguments];
        world.forge(&call).code(code);
    }
}

fn explained_json(world: &World, args: &[&str]) -> Value {
    let ran = world.forge(args);
    serde_json::from_str(&ran.code(0).stdout).unwrap()
}

#[test]
fn a_file_that_exists_is_no_host() {
    let world = World::new(&[
        ("forge.yaml", "sandbox: { root: . }\n"),
        ("package.json", ""),
        ("sub/a.txt", ""),
    ]);
    for (args, expected) in [
        (&["explain", "package.json"][..], "read /package.json"),
        (&["explain", "./sub/a.txt"], "read /sub/a.txt"),
        (&["-C", "sub", "explain", "a.txt"], "read /sub/a.txt"),
        (
            &["explain", "host:package.json"],
            "connect to package.json:443",
        ),
        (&["explain", "other.json"], "connect to other.json:443"),
    ] {
        let all = [&["--trust", "--json"], args].concat();
        let object = explained_json(&world, &all);
        assert_eq!(object["subject"]["text"], expected, "{args:?}");
    }
}

#[test]
fn the_name_that_fits_best_is_named() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    for name in [".git/config", ".git/hooks", ".gitmodules", ".mcp.json"] {
        let path = format!("/{name}");
        let args = ["--trust", "--json", "explain", &path, "--write"];
        let why = explained_json(&world, &args)["rule"]["why"].to_string();
        assert!(why.contains(&format!("`{name}`")), "{name}: {why}");
    }
}

/// Workers and typed commands hold different directories there.
#[test]
fn without_a_project_file_both_answers_are_given() {
    let world = World::new(&[("e.txt", "")]);
    let object = explained_json(&world, &["--trust", "--json", "explain", "./e.txt"]);
    assert_eq!(object["decision"], "outside");
    assert_eq!(object["exec"]["decision"], "allow");
    let ran = world.forge(&["--trust", "explain", "e.txt"]);
    assert!(
        ran.stdout.contains("for commands of `forge exec`"),
        "{}",
        ran.stdout
    );
    let ran = world.forge(&["--trust", "explain", "--", "ls"]);
    assert!(
        ran.stdout.contains("`forge exec` needs no rule"),
        "{}",
        ran.stdout
    );
    let ran = world.forge(&["--trust", "check"]);
    assert!(
        ran.stdout.contains("`forge exec` has the"),
        "{}",
        ran.stdout
    );
}

/// The person's own file is a ceiling of its own, between the project and the workers.
#[test]
fn the_own_file_is_a_ceiling_of_its_own() {
    let world = world();
    let own = world.outside().join("home/.config/forge");
    std::fs::create_dir_all(&own).unwrap();
    let rules = "shell:\n  rules:\n    - { pattern: 'git log *', approval: blocked }\n";
    std::fs::write(own.join("config.yaml"), rules).unwrap();
    let ran = world.forge(&["--trust", "--json", "explain", "--", "git", "log"]);
    ran.code(0);
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(object["decision"], "block");
    let said: Vec<_> = object["chain"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            format!(
                "{} {}",
                one["layer"].as_str().unwrap(),
                one["says"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(said, ["project ask", "user block", "worker block"]);
    assert_eq!(object["rule"]["text"], "your own file: git log *: blocked");
    assert!(
        object["rule"]["origin"]
            .as_str()
            .unwrap()
            .contains("config.yaml:3:18")
    );
}

/// A fact about this host stands beside the answer, for people and for programs.
#[test]
fn what_the_rules_cannot_know_is_noted() {
    let world = world();
    world.write(".sandbox/data/there", "x");
    let refused = "every command is refused: nothing here holds a command to the hosts";
    let doctor: Value = serde_json::from_str(&world.forge(&["--json", "doctor"]).stdout).unwrap();
    let by_proxy = "without namespaces only programs that use the proxy variables reach";
    let of_mechanism = match (
        doctor["sandbox"]["named_hosts"] == true,
        doctor["sandbox"]["backend"] != "landlock",
    ) {
        (false, _) => Some(refused),
        (true, false) => Some(by_proxy),
        (true, true) => None,
    };
    let of_host = |note: &'static str| match of_mechanism {
        Some(told) => Some(told),
        None => Some(note),
    };
    let of_command = of_mechanism;
    let held = "commands reach the named hosts only";
    let absent = "nothing is at this path now: the answer is about its name";
    for (args, note) in [
        (&["/data/there"][..], None),
        (&["/data/missing"], Some(absent)),
        (&["/ws/missing/a.md", "--delete"], Some(absent)),
        // A write makes a file.
        (&["/ws/new.md", "--write"], None),
        (&["/etc/passwd"], None),
        (&["host:example.com"], of_host(held)),
        (
            &["host:example.com:8080"],
            of_host("only programs that use the proxy variables reach port 8080"),
        ),
        (
            &["host:example.org"],
            match of_mechanism {
                Some(told) if told == refused => Some(refused),
                _ => Some("a command that reaches for it asks a person who can answer"),
            },
        ),
        (
            &["host:192.0.2.1"],
            of_mechanism.filter(|told| *told == refused),
        ),
        (&["--", "git", "log"], of_command),
        (&["read_file"], None),
    ] {
        let ran = world.forge(&[&["--trust", "--json", "explain"], args].concat());
        ran.code(0);
        let object: Value = serde_json::from_str(&ran.stdout).unwrap();
        let said = object["note"].as_str();
        match note {
            Some(note) => assert!(
                said.is_some_and(|said| said.starts_with(note)),
                "{args:?}: {said:?}"
            ),
            None => assert_eq!(said, None, "{args:?}"),
        }
        let text = world
            .forge(&[&["--trust", "explain"], args].concat())
            .stdout;
        assert_eq!(
            note.is_some(),
            said.is_some_and(|said| text.contains(said)),
            "{text}"
        );
    }
    let checked = world.forge(&["--trust", "check"]);
    assert_eq!(
        checked.stderr.contains(of_mechanism.unwrap_or(refused)),
        of_mechanism.is_some(),
        "{}",
        checked.stderr
    );
}

/// A URL is about its host, and a path that reads like an address says so.
#[test]
fn a_url_is_about_its_host() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n"), ("a.b/c", "")]);
    for (word, about) in [
        ("https://example.com/x?q=1#f", "connect to example.com:443"),
        ("http://localhost:3000/", "connect to localhost:3000"),
        ("http://user:key@example.com", "connect to example.com:80"),
        ("wss://EXAMPLE.com", "connect to example.com:443"),
        (
            "ssh://git@example.com/octo/repo",
            "connect to example.com:22",
        ),
        ("https://[::1]:8443/", "connect to ::1:8443"),
    ] {
        let text = world.forge(&["explain", word]).code(0).stdout.clone();
        assert!(text.starts_with(about), "{word}: {text}");
        assert!(text.contains("of a URL the host"), "{word}: {text}");
    }
    for (word, is_noted) in [
        ("example.com/octo/repo", true),
        ("a.b/c", false),
        ("src/main.rs", false),
        ("./example.com/x", false),
    ] {
        let text = world.forge(&["explain", word]).code(0).stdout.clone();
        assert_eq!(
            text.contains("host:example.com"),
            is_noted,
            "{word}: {text}"
        );
    }
    for no_host in ["file:///etc/passwd", "https://", "mailto://x"] {
        let ran = world.forge(&["explain", no_host]);
        ran.code(2).says(&["is not a URL of a host"]);
    }
    for one_slash in ["htps:/x", "https:/example.com/x"] {
        let ran = world.forge(&["explain", one_slash]);
        ran.code(2).says(&["a URL has two slashes", "./"]);
    }
}

/// Workers can hold less than the project, which alone holds what a person types.
#[test]
fn typed_commands_are_told_apart_from_calls_of_workers() {
    let world = World::new(&[
        (
            "forge.yaml",
            "sandbox: { root: . }\nnetwork: { allow: [example.com] }\n\
             shell: { rules: [{ pattern: 'git *', approval: preApproved }], default: blocked }\n",
        ),
        (
            "workers/main.worker",
            "---\nname: main\ndescription: does things\nnetwork: false\nshell: {}\n---\nGo.\n",
        ),
    ]);
    for (words, is_noted) in [
        (&["host:example.com"][..], true),
        (&["host:example.org"], false),
        (&["--", "ls"], true),
        (&["--", "git", "log"], false),
    ] {
        let ran = world.forge(&[&["--trust", "explain"], words].concat());
        let text = &ran.code(0).stdout;
        assert_eq!(
            text.contains("you type after"),
            is_noted,
            "{words:?}: {text}"
        );
    }
}

/// What is not a host is not answered as one.
#[test]
fn what_is_no_host_is_refused() {
    let world = world();
    for no_host in [
        ".",
        "..",
        "a.b:1:2",
        "a..b",
        ".a",
        "a.b:",
        ":80",
        "a.b:x",
        "a.b:70000",
        "a.b]:1",
        "host:.",
        "host:a:1:2",
        "host:[a.b]",
        "host:[::1",
        "host:",
        "host:a b",
    ] {
        let ran = world.forge(&["--trust", "explain", no_host]);
        assert_eq!(ran.code, 2, "{no_host}: {}", ran.stdout);
        assert_eq!(ran.stdout, "", "{no_host}");
    }
    for host in [
        "a.b",
        "a.b.:1",
        "localhost",
        "::1",
        "[::1]:80",
        "host:x",
        "1.2.3.4:80",
    ] {
        world.forge(&["--trust", "explain", host]).code(0);
    }
}

/// `forge explain … | head`: a reader that is gone is no failure to speak of.
#[test]
fn a_reader_that_is_gone_is_told_nothing() {
    let world = world();
    for args in [
        &["explain", "shell"][..],
        &["check"],
        &["help", "errors"],
        &["config", "show"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = world.command(crate::support::forge_program(), args);
        let output = command.arg("--quiet").stdout(writer).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
        assert_eq!(output.status.code(), Some(141), "{args:?}");
    }
}

/// `shell.allow` and `shell.deny` are asked as the tool asks them, whatever rules say.
#[test]
fn programs_are_explained_as_the_tool_meets_them() {
    let world = World::new(&[
        (
            FILE,
            "shell:\n  rules: [{ pattern: 'ls *', approval: ask }]\n  default: ask\n  deny: [rm, /usr/bin/env]\n",
        ),
        (
            "workers/main.worker",
            "---\ndescription: does things\nworkers: [less]\nsandbox: inherit\nshell: {}\n---\nGo.\n",
        ),
        (
            "workers/less.worker",
            "---\ndescription: does less\nshell: { allow: [ls] }\n---\nGo.\n",
        ),
    ]);
    let denied = "block at golem-forge.config.yaml:4:3";
    for (args, expected) in [
        (
            &["--", "ls", "-l"][..],
            "ask at golem-forge.config.yaml:2:22",
        ),
        (&["--", "rm", "-r", "x"], denied),
        (&["--", "/bin/rm x"], denied),
        (&["--", "env ls"], denied),
        (&["--", "ls | rm x"], denied),
        // What cannot be told is refused, as the tool refuses it.
        (&["--", "ls $(rm x)"], denied),
        (&["--", "echo x"], "ask at golem-forge.config.yaml:1:1"),
        // A worker below may have a list of its own.
        (
            &["--as", "main>less", "--", "echo x"],
            "block at workers/less.worker:3:10",
        ),
        (&["--as", "main>less", "--", "rm x"], denied),
        (
            &["--as", "main>less", "--", "ls x"],
            "ask at golem-forge.config.yaml:2:22",
        ),
    ] {
        assert_eq!(explained(&world, args), expected, "{args:?}");
    }
    let ran = world.forge(&["explain", "-v", "--as", "main>less", "--", "echo x"]);
    let text = ran.code(0).stdout.split("\nenforced").next().unwrap();
    insta::assert_snapshot!(text, @r#"
    run echo x for main > less: block
      less: `echo`: it is not among the programs that may run here  (workers/less.worker:3:10)
      Allowed programs: ls
      this is about calls of workers; a command that you type after `forge exec` needs no rule

    from the project down
      the project  ask    default: ask                                            golem-forge.config.yaml:1:1
      main         ask    default: ask                                            golem-forge.config.yaml:1:1
      less         block  `echo`: it is not among the programs that may run here  workers/less.worker:3:10     narrower: no cache, no workspace

    held to
      network       off (`network.allow` names hosts)
      unix sockets  closed
      environment   forge's own variables only
      git           repositories are files like others; git may add remotes, branches and modules
      survivors     ended with their command
      required      nothing; without an OS sandbox a person is asked about each command of a worker
      runner        prefer_local
      limits        timeout_s_default 30, timeout_s_max 300, max_stdout_kb 256, max_stderr_kb 64, max_file_write_mb 10, max_turns 50, max_tool_calls 20000, max_tokens 500000, max_wall_s 1800, repeat_calls 3
    "#);
    let check = world.forge(&["check"]);
    check.code(0);
    let shown = check.stdout.lines().find(|line| line.contains("shell"));
    insta::assert_snapshot!(shown.unwrap().trim(), @"network off · shell 1 rule, never rm /usr/bin/env · approval mode tool · delegation up to 5 deep");
}

/// The same line is called, through the tool itself.
#[test]
fn what_is_explained_is_what_is_met() {
    let world = World::new(&[(FILE, "shell: { default: ask, deny: [rm] }\n")]);
    for (command, met) in [("rm x", "denied here"), ("echo x", "needs")] {
        let arguments = format!("{{\"command\": \"{command}\"}}");
        let ran = world.forge(&["tools", "call", "shell", &arguments, "--json"]);
        let explained = world.forge(&["explain", "--", command]);
        assert_eq!(
            explained.stdout.contains("denied here"),
            ran.stdout.contains("denied here"),
            "{command}"
        );
        assert!(ran.stdout.contains(met), "{command}: {}", ran.stdout);
    }
}

/// Names, tools, risks and modes: whoever decides is named with file and line, the person's own
/// file included.
#[test]
fn what_decides_is_named_with_its_line() {
    let world = World::new(&[(
        FILE,
        "\
sandbox:
  protect:
    - notes.md
    - ledger/*.csv
  hide: [secret, diary/]
  zones:
    ws: { path: ws, approval: { write: preApproved } }
approval:
  require_user_permission: { write_file: true }
  require_user_permission_by_risk: { writes_workspace: false }
",
    )]);
    for (args, expected) in [
        (
            &["/ws/notes.md", "--write"][..],
            "block at golem-forge.config.yaml:3:7",
        ),
        (
            &["/ws/a/notes.md", "--delete"],
            "block at golem-forge.config.yaml:3:7",
        ),
        (
            &["/ws/ledger/a.csv", "--write"],
            "block at golem-forge.config.yaml:4:7",
        ),
        (&["/ws/secret"], "block at golem-forge.config.yaml:5:10"),
        (
            &["/ws/diary/today"],
            "block at golem-forge.config.yaml:5:18",
        ),
        // Built in.
        (&["/ws/.git/hooks/x", "--write"], "block at -"),
        (&["/ws/key.pem"], "block at -"),
        // The tool, the risk.
        (&["/ws/a", "--write"], "ask at golem-forge.config.yaml:9:30"),
        (&["write_file"], "ask at golem-forge.config.yaml:9:30"),
        (&["edit_file"], "allow at -"),
    ] {
        assert_eq!(explained(&world, args), expected, "{args:?}");
    }
    let ran = world.forge(&["explain", "/ws/.env"]);
    insta::assert_snapshot!(ran.code(0).stdout.lines().take(3).collect::<Vec<_>>().join("\n"), @r#"
    read /ws/.env for the project: block
      the name is hidden (`sandbox.hide`): it is shown as absent
      the name is `.env*`, which is built in; to show it: `sandbox.show`
    "#);
    let ran = world.forge(&["explain", "/ws/notes.md", "--write"]);
    insta::assert_snapshot!(ran.code(0).stdout.lines().take(3).collect::<Vec<_>>().join("\n"), @r#"
    write /ws/notes.md for the project: block
      Cannot write to '/ws/notes.md': path is read-only, because 'notes.md' is a protected name.  (golem-forge.config.yaml:3:7)
      the name is `notes.md` of `sandbox.protect`
    "#);

    let own = world.outside().join("home/.config/forge");
    std::fs::create_dir_all(&own).unwrap();
    let limits = "approval:\n  require_user_permission: { read_file: true }\n";
    std::fs::write(own.join("config.yaml"), limits).unwrap();
    let said = explained(&world, &["/ws/a"]);
    assert!(
        said.starts_with("ask at ") && said.ends_with("config.yaml:2:30"),
        "{said}"
    );
    std::fs::write(own.join("config.yaml"), "approval:\n  mode: manual\n").unwrap();
    let said = explained(&world, &["edit_file"]);
    assert!(
        said.starts_with("ask at ") && said.ends_with("config.yaml:2:9"),
        "{said}"
    );
}

/// Each option of `forge exec` about rights is one of `forge explain` too.
#[test]
fn options_about_rights_are_those_of_exec() {
    // The place and the way of the run, and reports. A host that `--ask-hosts` asks about is told by
    // a note, and `--parent-proxy` changes the way to named hosts.
    const NO_RIGHTS: [&str; 12] = [
        "--ask-hosts",
        "--env",
        "--fail-on-quarantine",
        "--full",
        "--mechanism",
        "--no-os-sandbox",
        "--parent-proxy",
        "--receipt",
        "--review",
        "--runner",
        "--timeout",
        "--trace",
    ];
    let world = World::new(&[]);
    let options = |command: &str| -> Vec<String> {
        let help = world.forge(&[command, "--help"]).code(0).stdout.clone();
        let lines = help.lines().map(str::trim_start);
        let lines = lines.filter(|line| line.starts_with('-'));
        let words = lines.filter_map(|line| line.split(' ').find(|word| word.starts_with("--")));
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
        words
            .map(|word| word.split(is_end).next().unwrap().to_owned())
            .collect()
    };
    let explained = options("explain");
    let (known, unknown): (Vec<_>, Vec<_>) = options("exec")
        .into_iter()
        .partition(|option| explained.contains(option));
    assert!(
        known.iter().any(|option| option == "--host-group"),
        "{known:?}"
    );
    assert_eq!(
        unknown.iter().collect::<BTreeSet<_>>().len(),
        NO_RIGHTS.len(),
        "{unknown:?}"
    );
    for option in unknown {
        assert!(
            NO_RIGHTS.contains(&option.as_str()),
            "{option} is not one of `forge explain`"
        );
    }
}

/// A key is not taken for a host, and a wrong port is named.
#[test]
fn a_key_is_not_a_host_and_a_wrong_port_is_named() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n")]);
    for (subject, says) in [
        ("sandbox.root", "forge config get sandbox.root"),
        ("network.allow", "is a key of the configuration"),
        ("host:example.com:99999", "`99999` is not a port"),
        ("host:a b", "`a b` is not a host"),
    ] {
        world.forge(&["explain", subject]).code(2).says(&[says]);
    }
    world.forge(&["explain", "host:sandbox.root"]).code(0);
}

/// A path inside that is one of this host's, too, is told apart.
#[test]
fn a_path_of_this_host_is_told_apart() {
    let world = World::new(&[("forge.yaml", "sandbox: { root: . }\n"), ("a.txt", "")]);
    let file = world.project().canonicalize().unwrap().join("a.txt");
    let file = file.display().to_string();
    let new = file.replace("a.txt", "new/b.txt");
    for (words, about, says) in [
        (
            &["/etc/passwd"][..],
            "read /etc/passwd for",
            "a path of this host, in no directory of the project\n  the path /etc/passwd inside is free\n",
        ),
        (&[&*file], "read /a.txt for", "is /a.txt inside\n"),
        (
            &[&*new, "--write"],
            "write /new/b.txt for",
            "is /new/b.txt inside\n",
        ),
        (
            &["/missing"],
            "read /missing for",
            "the answer is about its name\n",
        ),
        // This host has an /etc.
        (
            &["./etc"],
            "read /etc for",
            "the answer is about its name\n",
        ),
    ] {
        let ran = world.forge(&[&["explain"], words].concat());
        let text = &ran.code(0).stdout;
        assert!(text.starts_with(about) && text.contains(says), "{text}");
    }
    let ran = world.forge(&["explain", "npm", "test"]);
    ran.code(2).says(&["hint: a command comes after `--`"]);
}

/// A pattern that begins above a mount counts in it, as for the tools.
#[test]
fn a_path_of_the_project_is_protected_in_its_mount() {
    let config = "sandbox: { mode: direct, protect: [src/a.py], hide: [src/b.py], zones: { \
                  src: { path: ./src, approval: { write: preApproved } } } }\n";
    let files = [("forge.yaml", config), ("src/a.py", "a"), ("src/b.py", "b")];
    let world = World::new(&files);
    let explain = |path: &str| explained(&world, &[path, "--write"]);
    assert_eq!(explain("/src/a.py"), "block at forge.yaml:1:36");
    assert_eq!(explain("/src/b.py"), "block at forge.yaml:1:54");
    assert!(explain("/src/c.py").starts_with("allow"));
    let write = |path: &str| {
        let path = format!("path={path}");
        let ran = world.forge(&["tools", "call", "write_file", &path, "content=x"]);
        (ran.code, ran.stdout + &ran.stderr)
    };
    let (code, told) = write("/src/a.py");
    assert!(
        code == 1 && told.contains("'/src/a.py' is a protected name"),
        "{told}"
    );
    assert_eq!(write("/src/c.py").0, 0);
}

/// A list of one's own file is not shown as a network that is off.
#[test]
fn a_list_of_the_own_file_is_told_as_one() {
    for (own, project, says) in [
        (
            "network: { allow: [example.org] }\n",
            "network: { allow: [example.com] }\n",
            "your own file: `network.allow` names no host of the project",
        ),
        (
            "network: false\n",
            "network: { allow: [example.com] }\n",
            "your own file: network: false",
        ),
        (
            "model: a:b\n",
            "network: { allow: [example.com], deny: [example.com] }\n",
            "the project: `network` allows no host",
        ),
    ] {
        let world = World::new(&[("forge.yaml", project)]);
        let dir = world.outside().join("home/.config/forge");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("config.yaml"), own).unwrap();
        let ran = world.forge(&["--trust", "explain", "host:example.com"]);
        assert!(ran.code(0).stdout.contains(says), "{}", ran.stdout);
        assert!(!ran.stderr.contains("allows no host`"), "{}", ran.stderr);
        let shown = world
            .forge(&["--trust", "config", "show", "--origin"])
            .stdout;
        let is_off = shown.contains("network: false");
        assert_eq!(is_off, own.contains("network: false"), "{shown}");
    }
}

/// A run whose calls were stopped by rules names them, and not the sandbox.
#[test]
fn a_run_whose_calls_were_stopped_says_so() {
    let playbook = "version: 1\nworkers:\n  main:\n    - calls:\n        \
                    - { tool: shell, args: { command: ls } }\n        \
                    - { tool: shell, args: { command: pwd } }\n    - say: done\n";
    let rules = "sandbox: { root: . }\nmodel: scripted:play.yaml\n\
                 shell: { rules: [{ pattern: '*', approval: blocked }] }\n";
    let world = World::new(&[
        ("forge.yaml", rules),
        ("play.yaml", playbook),
        (
            "workers/main.worker",
            "---\nname: main\nsandbox: inherit\nshell: {}\n---\nGo.\n",
        ),
    ]);
    world.forge(&["--trust", "run"]).code(0);
    let ran = world.forge(&["explain", "--from-run", "last"]);
    assert_eq!(
        ran.code(0).stdout,
        "no command was refused by the sandbox; 2 calls were stopped by rules: \
         forge log show last --denied\n"
    );
    let shown = world.forge(&["log", "show", "last", "--denied"]);
    assert!(shown.code(0).stdout.contains("shell"), "{}", shown.stdout);
}
