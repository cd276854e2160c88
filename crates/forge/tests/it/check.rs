//! `forge check`: the table, the tree, the findings, in every format.

use serde_json::Value;

use crate::support::{Ran, World};

const FILE: &str = "golem-forge.config.yaml";

const PROJECT: &str = "\
name: demo
sandbox:
  zones:
    data: { path: data, mode: ro, suffixes: [.csv, .md], max_file_bytes: 1000 }
    ws: { path: ws, approval: { write: preApproved, delete: blocked } }
shell:
  rules:
    - { pattern: 'ls *', approval: ask }
    - { pattern: 'ls -l', approval: ask }
";

fn worker(name: &str, keys: &str) -> String {
    format!("---\nname: {name}\ndescription: does things\n{keys}---\nGo.\n")
}

fn world(config: &str, workers: &[(&str, &str)]) -> World {
    let world = World::new(&[(FILE, config)]);
    for (name, keys) in workers {
        world.write(&format!("workers/{name}.worker"), &worker(name, keys));
    }
    world
}

/// Two mistakes and two warnings, in three files.
fn faulty() -> World {
    world(
        PROJECT,
        &[
            (
                "main",
                "sandbox: { zones: [{ name: data, mode: ro }] }\nworkers: [fmt, nobody]\n",
            ),
            ("fmt", "sandbox: { zones: [{ name: ws }] }\n"),
            ("lost", ""),
        ],
    )
}

/// The test's own places cut out of a text.
fn anonymous(world: &World, text: &str) -> String {
    let project = world.project().canonicalize().unwrap();
    let text = text.replace(&project.display().to_string(), "<project>");
    // Whatever was padded for the real path.
    text.lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n")
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.stdout.lines().count(), 1, "one object: {}", ran.stdout);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn the_table_and_the_tree() {
    let world = world(
        &PROJECT.replace("    - { pattern: 'ls -l', approval: ask }\n", ""),
        &[
            ("main", "workers: [fmt]\n"),
            (
                "fmt",
                "sandbox: { zones: [{ name: ws, mode: ro }, { name: data, mode: ro, use: false }] }\nshell: {}\n",
            ),
        ],
    );
    let ran = world.forge(&["check"]);
    ran.code(0);
    assert_eq!(ran.stderr, "");
    insta::assert_snapshot!(anonymous(&world, &ran.stdout), @r#"
    no mistakes
    project demo (<project>/golem-forge.config.yaml)

    NAME PATH MODE READ WRITE DELETE FILES HOST FROM
    data /data ro preApproved - - .csv .md, up to 1000 bytes <project>/.sandbox/data golem-forge.config.yaml:4:5
    ws /ws rw preApproved preApproved blocked any <project>/.sandbox/ws golem-forge.config.yaml:5:5

    network off · shell 1 rule · approval mode tool · delegation up to 5 deep

    what commands and file tools are held to
    network off (`network.allow` names hosts)
    unix sockets closed
    environment forge's own variables only
    git repositories are files like others; git may add remotes, branches and modules
    survivors ended with their command
    required nothing; without an OS sandbox a person is asked about each command of a worker
    runner prefer_local
    limits timeout_s_default 30, timeout_s_max 300, max_stdout_kb 256, max_stderr_kb 64, max_file_write_mb 10, max_turns 50, max_tool_calls 20000, max_tokens 500000, max_wall_s 1800, repeat_calls 3
    protected 114 built-in names (`forge config show`)
    hidden .env* *.pem .ssh

    workers
    main (entry) data ro, ws rw; shell
    fmt data ro (not used), ws ro; shell narrower: data not used, ws rw → ro
    "#);
    // The same again, byte for byte.
    assert_eq!(world.forge(&["check"]).stdout, ran.stdout);
    // Nothing was run and nothing was made.
    assert!(!world.project().join(".sandbox").exists());
}

#[test]
fn every_finding_at_once() {
    let world = faulty();
    let ran = world.forge(&["check"]);
    ran.code(1);
    insta::assert_snapshot!(ran.stderr, @r#"
    warning[rule.shadowed]: `ls -l` never decides: `ls *` always does
      --> golem-forge.config.yaml:9:18
       |
     9 |     - { pattern: 'ls -l', approval: ask }
       |                  ^^^^^^^
      ::: golem-forge.config.yaml:8:18   this rule
       = help: the first match counts: put the narrower one first

    error[worker.exceeds_parent]: Child requests zone 'ws' but parent doesn't have it
      --> workers/fmt.worker:4:28
       |
     4 | sandbox: { zones: [{ name: ws }] }
       |                            ^^
      ::: workers/main.worker:5:11   'main' may call 'fmt', which asks for more
       = note: Available zones: data

    warning[worker.unreachable]: no worker calls 'lost'
      --> workers/lost.worker:1:1
       |
     1 | ---
       | ^
       = help: it runs only by `forge run lost`: name it in the `workers` of its caller

    error[worker.unknown]: 'main' may call the unknown worker 'nobody'
      --> workers/main.worker:5:16
       |
     5 | workers: [fmt, nobody]
       |                ^^^^^^
       = help: `forge worker list` shows the workers; `forge worker new` writes one
    "#);
    // Warnings are not wanted: mistakes still are.
    let quiet = world.forge(&["check", "-q"]);
    quiet.code(1);
    assert!(!quiet.stderr.contains("warning["));
    assert_eq!(quiet.stderr.matches("error[").count(), 2);
}

#[test]
fn json_is_one_object_and_the_failure_one_line() {
    let world = faulty();
    for args in [&["check", "--json"][..], &["check", "--format", "json"]] {
        let ran = world.forge(args);
        ran.code(1);
        let object = json(&ran);
        assert_eq!(object["ok"], false);
        let codes: Vec<&str> = object["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["code"].as_str().unwrap())
            .collect();
        assert_eq!(
            codes,
            [
                "rule.shadowed",
                "worker.exceeds_parent",
                "worker.unreachable",
                "worker.unknown"
            ]
        );
        assert_eq!(object["mounts"][0]["suffixes"][0], ".csv");
        assert_eq!(object["mounts"][1]["origin"]["line"], 5);
        assert_eq!(object["tree"][0]["calls"][0]["standing"], "refused");
        assert_eq!(object["tree"][0]["calls"][1]["standing"], "missing");
        let error: Value = serde_json::from_str(ran.stderr.trim()).unwrap();
        assert_eq!(error["error"]["code"], "worker.exceeds_parent");
        assert_eq!(error["error"]["file"], "workers/fmt.worker");
    }
    world
        .forge(&["check", "--json", "--format", "sarif"])
        .code(2);
}

#[test]
fn sarif_for_code_scanning() {
    let world = faulty();
    let ran = world.forge(&["check", "--format", "sarif"]);
    ran.code(1);
    assert_eq!(ran.stderr, "");
    let mut object = json(&ran);
    object["runs"][0]["tool"]["driver"]["version"] = "0".into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&object).unwrap(), @r#"
    {
      "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
      "version": "2.1.0",
      "runs": [
        {
          "tool": {
            "driver": {
              "name": "forge",
              "version": "0",
              "rules": [
                {
                  "id": "worker.unknown",
                  "shortDescription": {
                    "text": "a worker that does not exist"
                  }
                },
                {
                  "id": "worker.exceeds_parent",
                  "shortDescription": {
                    "text": "a worker asks for more than its caller holds"
                  }
                },
                {
                  "id": "worker.unreachable",
                  "shortDescription": {
                    "text": "a worker that no worker calls"
                  }
                },
                {
                  "id": "rule.shadowed",
                  "shortDescription": {
                    "text": "a rule that never decides, because others always do"
                  }
                }
              ]
            }
          },
          "columnKind": "unicodeCodePoints",
          "results": [
            {
              "ruleId": "rule.shadowed",
              "ruleIndex": 3,
              "level": "warning",
              "message": {
                "text": "`ls -l` never decides: `ls *` always does\nthe first match counts: put the narrower one first"
              },
              "locations": [
                {
                  "physicalLocation": {
                    "artifactLocation": {
                      "uri": "golem-forge.config.yaml"
                    },
                    "region": {
                      "startLine": 9,
                      "startColumn": 18
                    }
                  }
                }
              ]
            },
            {
              "ruleId": "worker.exceeds_parent",
              "ruleIndex": 1,
              "level": "error",
              "message": {
                "text": "Child requests zone 'ws' but parent doesn't have it"
              },
              "locations": [
                {
                  "physicalLocation": {
                    "artifactLocation": {
                      "uri": "workers/fmt.worker"
                    },
                    "region": {
                      "startLine": 4,
                      "startColumn": 28
                    }
                  }
                }
              ]
            },
            {
              "ruleId": "worker.unreachable",
              "ruleIndex": 2,
              "level": "warning",
              "message": {
                "text": "no worker calls 'lost'\nit runs only by `forge run lost`: name it in the `workers` of its caller"
              },
              "locations": [
                {
                  "physicalLocation": {
                    "artifactLocation": {
                      "uri": "workers/lost.worker"
                    },
                    "region": {
                      "startLine": 1,
                      "startColumn": 1
                    }
                  }
                }
              ]
            },
            {
              "ruleId": "worker.unknown",
              "ruleIndex": 0,
              "level": "error",
              "message": {
                "text": "'main' may call the unknown worker 'nobody'\n`forge worker list` shows the workers; `forge worker new` writes one"
              },
              "locations": [
                {
                  "physicalLocation": {
                    "artifactLocation": {
                      "uri": "workers/main.worker"
                    },
                    "region": {
                      "startLine": 5,
                      "startColumn": 16
                    }
                  }
                }
              ]
            }
          ]
        }
      ]
    }
    "#);
}

#[test]
fn workflow_commands_for_pull_requests() {
    let ran = faulty().forge(&["check", "--format", "github"]);
    ran.code(1);
    assert_eq!(ran.stderr, "");
    insta::assert_snapshot!(ran.stdout, @r#"
    ::warning file=golem-forge.config.yaml,line=9,col=18,title=rule.shadowed::`ls -l` never decides: `ls *` always does%0Athe first match counts: put the narrower one first
    ::error file=workers/fmt.worker,line=4,col=28,title=worker.exceeds_parent::Child requests zone 'ws' but parent doesn't have it
    ::warning file=workers/lost.worker,line=1,col=1,title=worker.unreachable::no worker calls 'lost'%0Ait runs only by `forge run lost`: name it in the `workers` of its caller
    ::error file=workers/main.worker,line=5,col=16,title=worker.unknown::'main' may call the unknown worker 'nobody'%0A`forge worker list` shows the workers; `forge worker new` writes one
    "#);
}

#[test]
fn what_does_not_load_is_reported_in_every_format() {
    // In the project file, and in a worker's.
    for (config, keys) in [
        (PROJECT.replace("zones:", "zonse:"), ""),
        (PROJECT.to_owned(), "mdoe: x\n"),
    ] {
        let world = world(&config, &[("main", keys)]);
        for (format, shown) in [
            ("text", false),
            ("json", false),
            ("sarif", true),
            ("github", true),
        ] {
            let ran = world.forge(&["check", "--format", format]);
            ran.code(2);
            assert_eq!(
                ran.stdout.contains("config.unknown_key"),
                shown,
                "{format}: {}",
                ran.stdout
            );
            if format == "json" {
                let error: Value =
                    serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
                assert_eq!(error["error"]["code"], "config.unknown_key");
            }
        }
    }
}

#[test]
fn files_restrict_what_is_reported() {
    let world = faulty();
    for (file, code, says) in [
        ("workers/fmt.worker", 1, "worker.exceeds_parent"),
        ("workers/lost.worker", 0, "worker.unreachable"),
        (FILE, 0, "rule.shadowed"),
    ] {
        let ran = world.forge(&["check", file]);
        ran.code(code).says(&[says]);
        assert_eq!(ran.stderr.matches("]: ").count(), 1, "{}", ran.stderr);
    }
    world.write("README.md", "no worker");
    for other in ["README.md", "workers", "absent.worker"] {
        world.forge(&["check", other]).code(2).says(&[other]);
    }
}

/// Whatever a file says about confinement is shown: by key, the word for people and the value for
/// programs.
#[test]
fn what_commands_and_file_tools_are_held_to_is_shown() {
    for (keys, shown, at, value) in [
        (
            "sandbox: { unix_sockets: [/run/agent.sock] }",
            "only /run/agent.sock",
            "/confinement/unix_sockets/0",
            "\"/run/agent.sock\"",
        ),
        (
            "sandbox: { zones: { d: { path: d, quota: { max_files: 7 }, hardlinks: deny } } }",
            "d: files with further names: refused, up to 7 files",
            "/mounts/0/file_rules/max_files",
            "7",
        ),
        (
            "sandbox: { zones: { d: { path: d, strict_paths: true } } }",
            "no `..`",
            "/mounts/0/file_rules/strict_paths",
            "true",
        ),
        (
            "network: { allow: [example.com] }",
            "example.com",
            "/network",
            "\"example.com\"",
        ),
        (
            "limits: { memory_mb: 64 }",
            "memory_mb 64",
            "/limits/memory_bytes",
            "67108864",
        ),
        (
            "shell: { default: ask, env: { pass: [CC], set: { CI: '1' } } }",
            "forge's own, CC, CI=1",
            "/confinement/environment/set/CI",
            "\"1\"",
        ),
        (
            "git: { mode: read_only }",
            "repositories are read only",
            "/confinement/git",
            "\"read_only\"",
        ),
        (
            "sandbox: { survivors: left }",
            "left running without namespaces; a PID namespace ends all",
            "/confinement/survivors",
            "\"left\"",
        ),
        (
            "require: guards",
            "keeps guards",
            "/confinement/require_guards",
            "true",
        ),
        (
            "execution: { mode: local_only }",
            "local_only",
            "/confinement/execution_mode",
            "\"local_only\"",
        ),
        (
            "sandbox: { protect: [notes.md] }",
            "(`forge config show`), notes.md",
            "/confinement/hide/0",
            "\".env*\"",
        ),
        (
            "sandbox: { trace: full }",
            "refused reads and executions, too, and all that a command touches",
            "/confinement/trace",
            "\"full\"",
        ),
        (
            "sandbox: { review: true }",
            "changes wait until you apply them",
            "/confinement/review",
            "true",
        ),
    ] {
        let world = World::new(&[(FILE, keys)]);
        let ran = world.forge(&["--trust", "check"]);
        let text = &ran.code(0).stdout;
        assert!(text.contains(shown), "{keys}: no {shown:?} in\n{text}");
        let json = world.forge(&["--trust", "--json", "check"]).stdout;
        let object: Value = serde_json::from_str(&json).unwrap();
        let found = object.pointer(at).map(ToString::to_string);
        assert_eq!(found.as_deref(), Some(value), "{keys}");
    }
    // And nothing of it where nobody says anything.
    let plain = World::new(&[(FILE, "name: p\n")]).forge(&["check"]).stdout;
    assert!(
        !plain.contains("file rules") && plain.contains("closed"),
        "{plain}"
    );
}

/// Who decides whether to agree sees what it would come to.
#[test]
fn what_nobody_has_agreed_to_is_shown() {
    let mount = "sandbox: { mounts: [{ source: ../other, target: /other, readonly: false }] }\n";
    let world = World::new(&[(FILE, mount)]);
    std::fs::create_dir(world.outside().join("other")).unwrap();
    let checked = world.forge(&["check"]);
    checked
        .code(2)
        .says(&["error[config.untrusted]", "forge trust"]);
    let first: Vec<&str> = checked.stdout.lines().take(3).collect();
    assert_eq!(first, ["1 error", "", "If you agree, this is in force:"]);
    assert!(
        checked
            .stdout
            .contains("what commands and file tools are held to")
    );
    world.forge(&["--trust", "check"]).code(0);
}

/// Who decides about an untrusted project sees its mistakes, too, in every format.
#[test]
fn mistakes_of_an_untrusted_project_are_shown() {
    let untrusted = "sandbox: { mounts: [{ source: ../other, target: /other }] }\n";
    for (keys, code) in [
        ("mdoe: x\nnmae: y\n", "config.unknown_key"),
        ("workers: [nobody]\n", "worker.unknown"),
    ] {
        let world = world(untrusted, &[("main", keys)]);
        std::fs::create_dir(world.outside().join("other")).unwrap();
        for (format, on_stdout) in [
            ("text", false),
            ("json", false),
            ("sarif", true),
            ("github", true),
        ] {
            let ran = world.forge(&["check", "--format", format]);
            ran.code(2);
            for code in [code, "config.untrusted"] {
                let text = if on_stdout { &ran.stdout } else { &ran.stderr };
                assert!(text.contains(code), "{keys} {format}: no {code} in\n{text}");
            }
        }
        let named = world.forge(&["check", FILE]).stderr;
        assert!(!named.contains(code), "of the named files only: {named}");
    }
}

#[test]
fn files_that_a_worker_of_the_old_form_brings_are_in_the_table() {
    let world = World::new(&[
        ("program.yaml", "name: old\n"),
        (
            "workers/main.worker",
            "---\nname: main\nsandbox:\n  paths:\n    portfolio: { root: ./portfolio, mode: rw }\n---\nWork.\n",
        ),
        ("portfolio/a.md", "a\n"),
    ]);
    let ran = world.forge(&["check"]);
    ran.code(0);
    let [says, _, row] = [
        "no files of the project; `main` has its own",
        "NAME",
        "portfolio",
    ]
    .map(|text| ran.stdout.find(text).unwrap_or(usize::MAX));
    assert!(says < row && row < usize::MAX, "{}", ran.stdout);
    assert!(!ran.stdout.contains("no files\n"), "{}", ran.stdout);
}

/// A team's file names what one of them has, so it is a warning.
#[test]
fn directories_of_programs_that_are_absent_are_told() {
    let config = "sandbox: { root: ., programs: [~/.not-there] }\n";
    let world = World::new(&[("forge.yaml", config)]);
    let told = "home/.not-there of `sandbox.programs` does not exist";
    world.forge(&["--trust", "check"]).code(0).says(&[told]);
    let there = world.outside().join("home/.not-there");
    std::fs::create_dir_all(there).unwrap();
    let ran = world.forge(&["--trust", "check"]);
    assert!(
        !ran.code(0).stderr.contains("does not exist"),
        "{}",
        ran.stderr
    );
}

/// Directories that no file names are those of workers alone.
#[test]
fn default_directories_are_told_to_be_those_of_workers() {
    let said = "`forge exec` has the working directory instead";
    for (config, says) in [
        ("network: false\n", "gives all of them the project"),
        ("sandbox: { root: . }\n", ""),
    ] {
        let ran = World::new(&[(FILE, config)]).forge(&["check"]);
        let text = ran
            .code(0)
            .stdout
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(text.contains(said), !says.is_empty(), "{text}");
        assert!(text.contains(says), "{text}");
    }
    let world = World::new(&[]);
    let home = world.outside().join("home");
    let ran = world.forge(&["-C", home.to_str().unwrap(), "check"]);
    let text = ran
        .code(0)
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        text.contains("this is your home directory") && !text.contains("forge init"),
        "{text}"
    );
}

/// A list makes nothing.
#[test]
fn a_list_of_tools_makes_no_directory() {
    let world = World::new(&[]);
    world.forge(&["tools", "list"]).code(0);
    assert_eq!(std::fs::read_dir(world.project()).unwrap().count(), 0);
}

/// A run would not begin with such a model.
#[test]
fn a_model_that_cannot_be_used_is_a_mistake() {
    for model in ["qwen3", "nobody:m"] {
        let config = format!("model: {model}\n");
        let ran = World::new(&[(FILE, &config)]).forge(&["check"]);
        ran.code(1).says(&["error[config.bad_value]"]);
        assert!(ran.stdout.starts_with("1 error\n"), "{}", ran.stdout);
    }
}

/// A word, a form or an encoding that people bring from elsewhere is answered with ours.
#[test]
fn everyday_words_and_forms_are_answered_with_ours() {
    let rule = |word: &str| {
        format!(
            "shell: {{ rules: [{{ pattern: a, approval: ask }}, {{ pattern: b, approval: {word} }}] }}\n"
        )
    };
    let zone = |what: &str| format!("sandbox: {{ zones: {{ a: {{ path: ./a, {what} }} }} }}\n");
    let mut cases: Vec<(String, Vec<&str>)> = vec![
        (rule("7"), vec!["`shell.rules[1].approval`"]),
        (
            "shell: { rules: [a, { pattern: b }] }\n".to_owned(),
            vec!["`shell.rules[0]`", "missing `shell.rules[1].approval`"],
        ),
        (
            "shell: { default: deny }\n".to_owned(),
            vec!["did you mean `blocked`?"],
        ),
        (
            "sandbox:\n  \troot: .\n  \tmode: direct\n".to_owned(),
            vec!["the indentation of this line has a tab"],
        ),
        (zone("mode: read-only"), vec!["did you mean `ro`?"]),
        (zone("mode: readwrite"), vec!["did you mean `rw`?"]),
        (
            zone("approval: { write: always }"),
            vec!["did you mean `preApproved`?"],
        ),
    ];
    for (words, ours) in [
        (
            &["allow", "allowed", "auto", "approve", "yes"][..],
            "did you mean `preApproved`?",
        ),
        (
            &["deny", "denied", "never", "block", "forbid", "reject"],
            "did you mean `blocked`?",
        ),
        (&["prompt", "confirm"], "did you mean `ask`?"),
    ] {
        cases.extend(words.iter().map(|word| (rule(word), vec![ours])));
    }
    for (config, says) in cases {
        let world = World::new(&[("forge.yaml", &config)]);
        world.forge(&["check"]).code(2).says(&says);
    }
    let world = World::new(&[]);
    for mark in [[0xff, 0xfe], [0xfe, 0xff]] {
        std::fs::write(
            world.project().join("forge.yaml"),
            [&mark[..], b"n\0a\0"].concat(),
        )
        .unwrap();
        world
            .forge(&["check"])
            .code(2)
            .says(&["it is UTF-16: save it as UTF-8"]);
    }
}

#[test]
fn a_pattern_for_a_whole_top_level_domain_is_doubted() {
    for (pattern, is_doubted) in [
        ("*.com", true),
        ("*.io:443", true),
        ("*.example.com", false),
        ("com", false),
        ("*.local", false),
        ("*.internal", false),
    ] {
        let config = format!("sandbox: {{ root: . }}\nnetwork: {{ allow: [\"{pattern}\"] }}\n");
        let world = World::new(&[("forge.yaml", &config)]);
        for args in [&["--trust", "check"][..], &["--trust", "tools", "list"]] {
            let ran = world.forge(args);
            let told = ran
                .stderr
                .contains("allows every host of a top-level domain");
            assert_eq!(told, is_doubted, "{pattern} {args:?}: {}", ran.stderr);
        }
    }
}

/// Mistakes of one file are not divided by those of another, and `-q` prints no warnings.
#[test]
fn mistakes_are_by_file_and_quiet_has_no_warnings() {
    let world = World::new(&[
        (
            "forge.yaml",
            "sandbox: { root: . }\nnetwork: { allow: [\"*.com\"] }\n",
        ),
        (
            "workers/main.worker",
            "---\nname: main\na: 1\nb: 2\nc: 3\n---\nGo.\n",
        ),
        ("workers/other.worker", "---\nname: other\nd: 4\n---\nGo.\n"),
    ]);
    let ran = world.forge(&["--trust", "check"]);
    let places = ran
        .code(2)
        .stderr
        .lines()
        .filter_map(|line| line.trim().strip_prefix("--> "));
    let files: Vec<&str> = places
        .map(|place| place.split(':').next().unwrap())
        .collect();
    let mut by_file = files.clone();
    by_file.dedup();
    assert_eq!(by_file.len(), 3, "{files:?}");
    assert_eq!(files.len(), 5, "{files:?}");
    let quiet = world.forge(&["--trust", "check", "-q"]);
    assert!(
        !quiet.code(2).stderr.contains("warning"),
        "{}",
        quiet.stderr
    );
    assert_eq!(
        quiet.stderr.matches("error[").count(),
        4,
        "{}",
        quiet.stderr
    );
}

#[test]
fn a_worker_without_tools_is_told_of() {
    let world = World::new(&[
        ("forge.yaml", "sandbox: { root: . }\n"),
        (
            "workers/main.worker",
            "---\nname: main\nsandbox: none\n---\nGo.\n",
        ),
    ]);
    let list = ["--trust", "tools", "list", "--worker", "main"];
    let ran = world.forge(&list);
    ran.code(0)
        .says(&["note: this worker has no tools", "`sandbox: inherit`"]);
    assert_eq!(ran.stdout, "");
    assert_eq!(world.forge(&[&["-q"], &list[..]].concat()).stderr, "");
}
