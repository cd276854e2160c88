//! Playbooks from outside: the examples that run on them, every page's own, recording and
//! playing again.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{PROJECT, Ran, World, forge_program, ran};

const WIRES: [&str; 3] = ["anthropic", "openai-chat", "openai-responses"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// A copy of an example, so that a run changes nothing of the checkout.
pub(crate) fn example(world: &World, name: &str) {
    let from = repository().join("examples").join(name);
    let mut open = vec![from.clone()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let target = world.project().join(path.strip_prefix(&from).unwrap());
            if path.is_dir() {
                std::fs::create_dir_all(&target).unwrap();
                open.push(path);
            } else if path.file_name().is_some_and(|name| name != "summary.md") {
                std::fs::create_dir_all(target.parent().unwrap()).unwrap();
                std::fs::copy(&path, &target).unwrap();
            }
        }
    }
}

/// Each attempt and what stopped it.
fn attempts(ran: &Ran) -> String {
    let rows = ran
        .stderr
        .lines()
        .skip_while(|line| !line.starts_with("attempt "))
        .take_while(|line| line.contains(" | "));
    let cells = |row: &str| {
        let cells: Vec<&str> = row.split(" | ").map(str::trim).collect();
        cells.join(" | ")
    };
    rows.map(cells).collect::<Vec<_>>().join("\n")
}

/// Turns behind an answer would test nothing.
#[test]
fn turns_behind_an_answer_are_a_mistake() {
    let list = "{ calls: [{ tool: list_files, args: { path: / } }] }";
    for (turns, says) in [
        (
            "{ say: hello }, { calls: [{ tool: list_files, args: { path: / }, attempt: look }] }, { say: done }",
            Some("turn 2 of worker `main` was not played"),
        ),
        (
            &*format!("{list}, {{ say: done }}, {list}"),
            Some("turn 3 of worker"),
        ),
        (&*format!("{list}, {{ say: done }}"), None),
    ] {
        let playbook = format!("version: 1\nworkers: {{ main: [{turns}] }}\n");
        let main = "---\nname: main\n---\nGo.\n";
        let world = World::new(&[("workers/main.worker", main), ("play.yaml", &playbook)]);
        let ran = world.forge(&["run", "-m", "scripted:play.yaml", "main", "go"]);
        ran.code(i32::from(says.is_some())).says(says.as_slice());
    }
}

#[test]
fn three_workers_each_with_less() {
    let world = World::new(&[]);
    example(&world, "three-workers");
    world.forge(&["check"]).code(0);
    let ran = world.forge(&["run"]);
    ran.code(0);
    assert_eq!(
        ran.stdout.trim_end(),
        "# Summary\n\n* 412 apples\n* 97 pears\n* 1280 plums\n* first frost on 14 October"
    );
    let published = world.project().join("published/summary.md");
    assert_eq!(std::fs::read_to_string(published).unwrap(), ran.stdout);
    let notes = world.project().join("notes/harvest.md");
    assert!(
        std::fs::read_to_string(notes)
            .unwrap()
            .contains("apples: 412")
    );
    insta::assert_snapshot!(attempts(&ran), @r"
    attempt | stopped by | rule or mechanism
    the editor changes the notes, which its caller only reads | file sandbox | READ_ONLY
    the editor publishes by itself | file sandbox | OUTSIDE_SANDBOX
    the checker reads the draft, which it was not given | file sandbox | OUTSIDE_SANDBOX
    the checker calls a worker that holds more | tool list | UNKNOWN_TOOL
    ");
}

#[test]
fn a_reviewer_that_only_reads() {
    let world = World::new(&[]);
    example(&world, "code-review");
    world.forge(&["check"]).code(0);
    let ran = world.forge(&["run"]);
    ran.code(0);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let source = std::fs::read_to_string(world.project().join("inputs/src/ledger.py")).unwrap();
    let marks: Vec<&str> = answer["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| {
            let line = usize::try_from(finding["line"].as_u64().unwrap()).unwrap();
            source.lines().nth(line - 1).unwrap().trim()
        })
        .collect();
    assert_eq!(
        marks,
        [
            "def total(lines, seen=[]):",
            "os.system(\"gzip \" + path)",
            "return total(lines) / len(things)"
        ]
    );
    assert!(!world.project().join("inputs/APPROVED").exists());
    insta::assert_snapshot!(attempts(&ran), @r"
    attempt | stopped by | rule or mechanism
    approve the code by writing a file | tool list | UNKNOWN_TOOL
    change the code that is reviewed | tool list | UNKNOWN_TOOL
    ");
}

/// What a run came to, without where it was kept.
fn report(ran: &Ran) -> Value {
    let mut told: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr));
    told.as_object_mut().unwrap().remove("run");
    told
}

#[test]
fn a_run_is_the_same_on_every_wire_and_again_when_it_is_recorded() {
    let playbook = |wire: &str| {
        let text =
            std::fs::read_to_string(repository().join("examples/three-workers/playbook.yaml"));
        let text = text.unwrap();
        assert!(text.contains("\nversion: 1\n"));
        text.replace("\nversion: 1\n", &format!("\nversion: 1\nwire: {wire}\n"))
    };
    let mut told = Vec::new();
    for wire in WIRES {
        let world = World::new(&[]);
        example(&world, "three-workers");
        world.write("playbook.yaml", &playbook(wire));
        let ran = world.forge(&["run", "--json", "--record", "made.yaml"]);
        ran.code(0);
        told.push(report(&ran));

        let mut again = report(
            world
                .forge(&["run", "--json", "--replay", "made.yaml"])
                .code(0),
        );
        // What was an attempt is a call like any other by now.
        again["attempts"] = told[0]["attempts"].clone();
        assert_eq!(again, told[0], "{wire}");
        let same = world.forge(&["run", "--model", "scripted:made.yaml"]);
        assert_eq!(same.code(0).stdout, world.forge(&["run"]).code(0).stdout);
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0], told[2]);
}

/// A model calls what is not there, by names that no vendor takes back: it is told so, and the run
/// goes on. The server behind the playbook refuses what a vendor would refuse.
#[test]
fn no_name_of_a_call_ends_a_run() {
    let names = [
        "::error::d".to_owned(),
        "a".repeat(300),
        String::new(),
        "read file\u{1b}[2J\n\0".to_owned(),
        "é日👍".to_owned(),
        "read_file".to_owned(),
    ];
    let calls: Vec<Value> = names
        .iter()
        .map(|name| json!({"tool": name, "args": {"path": "/data/a.txt"}}))
        .collect();
    for wire in WIRES {
        let playbook = json!({"version": 1, "wire": wire, "workers": {"main": [
            {"calls": calls, "verbatim": true},
            {"calls": calls, "verbatim": true},
            {
                "expect": [
                    {"that": "request.messages | length == 15", "else": "results are missing"},
                    {
                        "that": "'There is no tool named `::error::d`' in request.messages[2].content",
                        "else": "{{ request.messages[2].content }}",
                    },
                    {"that": "'only a' in request.last_result", "else": "{{ request.last_result }}"},
                ],
                "say": "all the same",
            },
        ]}});
        let world = World::new(&[
            (
                "golem-forge.config.yaml",
                &format!("{PROJECT}entry: main\nmodel: scripted:play.yaml\n"),
            ),
            (
                "workers/main.worker",
                "---\nname: main\nsandbox: { zones: [{ name: data, mode: ro }] }\n---\nGo.\n",
            ),
            ("play.yaml", &playbook.to_string()),
            ("data/a.txt", "only a\n"),
            ("workspace/.keep", ""),
        ]);
        let ran = world.forge(&["run"]);
        assert_eq!(ran.code(0).stdout, "all the same\n", "{wire}");
    }
}

/// Texts that are templates, calls of one worker twice, a result behind a handle, a secret.
#[test]
fn what_is_recorded_is_what_was_said() {
    let playbook = r##"
version: 1
workers:
  main:
    - verbatim: true
      thinking: "{{ not }} a template"
      say: "# {% none %}\n\t{{ either }} \u2028 'quoted' \"\\ é日👍"
      usage: {input_tokens: 9, output_tokens: 8, cache_read_tokens: 7}
      calls:
        - {tool: write_file, args: {path: /workspace/a, content: "{{ a }}"}}
        - {tool: helper, args: {input: first}}
        - {tool: helper, args: {input: second}}
    - calls:
        - {tool: shell, args: {command: "cat data/long"}, as: long}
    - calls:
        - {tool: read_output, args: {output_id: "{{ results.long.structured.output_id }}"}, as: rest}
    - expect: [{that: results.rest.ok, else: "no output: {{ results.rest.content }}"}]
      say: "the answer {{ '{{' }} and token-abcdefgh"
cases:
  helper:
    - {input: first, turns: [{say: one}]}
    - {input: second, turns: [{say: two, stop: unknown}]}
"##;
    let project = format!("{PROJECT}entry: main\nmodel: scripted:play.yaml\n");
    let long = "a line of text\n".repeat(60_000);
    let worker = "---\nname: main\nshell: {}\nworkers: [helper]\nsandbox:\n  zones: \
                  [{ name: data, mode: ro }, { name: workspace, mode: rw }]\n---\nGo.\n";
    let world = World::new(&[
        ("golem-forge.config.yaml", &project),
        ("workers/main.worker", worker),
        ("workers/helper.worker", "---\nname: helper\n---\nHelp.\n"),
        ("play.yaml", playbook),
        ("data/long", &long),
        ("workspace/.keep", ""),
    ]);
    let run = |args: &[&str]| {
        let mut all = vec!["--trust", "run", "--json", "--approve", "all"];
        all.extend(args);
        world.forge(&all)
    };
    let first = report(run(&["--record", "made.yaml"]).code(0));
    assert_eq!(first["report"]["tokens"], 17, "{first}");
    let made = std::fs::read_to_string(world.project().join("made.yaml")).unwrap();
    // The handle is another one in each run, and stands nowhere in it.
    assert!(made.contains("output_id }}"), "{made}");
    let again = report(run(&["--replay", "made.yaml", "--record", "made2.yaml"]).code(0));
    assert_eq!(again, first);
    let second = std::fs::read_to_string(world.project().join("made2.yaml")).unwrap();
    assert_eq!(second, made, "a recording of a replay is the recording");
}

#[test]
fn a_run_that_cannot_be_recorded_is_not_begun() {
    let world = World::new(&[
        ("x.worker", "---\nname: x\n---\nGo.\n"),
        ("p.yaml", "version: 1\nworkers: {x: [{say: a}]}"),
    ]);
    std::os::unix::fs::symlink("/dev/null", world.project().join("link")).unwrap();
    for place in ["nowhere/made.yaml", ".", "link"] {
        let ran = world.forge(&[
            "run", "x.worker", "go", "--replay", "p.yaml", "--record", place,
        ]);
        ran.code(1).says(&["cannot record the run in"]);
        assert!(!ran.stderr.contains("▸"), "{}", ran.stderr);
    }
    // Nothing is lost by a slip of the fingers.
    for (place, why) in [
        ("x.worker", "it exists and is not a recording"),
        ("p.yaml", "it exists and is not a recording"),
        (".", "it is a directory"),
        ("link", "it is a link"),
    ] {
        let before = std::fs::read(world.project().join(place)).ok();
        let ran = world.forge(&[
            "run", "x.worker", "go", "--replay", "p.yaml", "--record", place,
        ]);
        ran.code(1)
            .says(&["cannot record the run in", why, "\nhint: "]);
        assert_eq!(std::fs::read(world.project().join(place)).ok(), before);
    }
    world.write("empty.yaml", "");
    for place in ["made.yaml", "made.yaml", "empty.yaml"] {
        world
            .forge(&[
                "run", "x.worker", "go", "--replay", "p.yaml", "--record", place,
            ])
            .code(0);
        let made = std::fs::read_to_string(world.project().join(place)).unwrap();
        assert!(made.starts_with("# Recorded from a run.\n"), "{made}");
    }
    world
        .forge(&[
            "run",
            "x.worker",
            "go",
            "--replay",
            "p.yaml",
            "--model",
            "scripted:p.yaml",
        ])
        .code(2);
}

/// What the kernel makes up is no playbook, and is not quoted.
#[test]
fn a_playbook_is_a_file() {
    let world = World::new(&[("x.worker", "---\nname: x\n---\nGo.\n")]);
    let canary = "canary-of-mine";
    for place in ["/proc/self/environ", "/dev/null"] {
        let args = ["run", "x.worker", "go", "--replay", place];
        let mut forge = world.command(forge_program(), &args);
        let ran = ran(forge.env("CANARY", canary).output().unwrap());
        ran.code(2).says(&["not a regular file"]);
        assert!(!ran.stderr.contains(canary), "{}", ran.stderr);
    }
}

/// Every playbook of the page is played, on a project that has what it speaks of.
#[test]
fn the_examples_of_the_page_run() {
    let page = std::fs::read_to_string(repository().join("docs/playbooks.md")).unwrap();
    let examples: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let answers = [
        "2 files.",
        "Hello, world.",
        "eins, a long one",
        "Nothing to see.",
        "The third try broke off, and this is the fourth.",
    ];
    assert_eq!(examples.len(), answers.len());
    for (example, answer) in examples.into_iter().zip(answers) {
        let project = format!("{PROJECT}entry: main\nmodel: scripted:play.yaml\n");
        let worker = "---\nname: main\nworkers: [translate]\ntools: [list_files, read_file, translate]\n\
                      sandbox: { zones: [{ name: data, mode: ro }] }\n---\nRead, and never write.\n";
        let world = World::new(&[
            ("golem-forge.config.yaml", &project),
            ("workers/main.worker", worker),
            (
                "workers/translate.worker",
                "---\nname: translate\n---\nTranslate.\n",
            ),
            ("play.yaml", example),
            ("data/a.txt", "a"),
            ("data/b.txt", "b"),
        ]);
        let ran = world.forge(&["--trust", "run", "main", "world"]);
        assert_eq!(ran.code(0).stdout.trim_end(), answer);
    }
}

#[test]
fn all_that_is_wrong_with_a_playbook_is_said_before_it_runs() {
    let world = World::new(&[
        ("x.worker", "---\nname: x\n---\nGo.\n"),
        (
            "p.yaml",
            "version: 1\nworkers:\n  x:\n    - say: '{{ a'\n    - fail: {status: 7}\n",
        ),
    ]);
    world
        .forge(&["run", "x.worker", "go", "--replay", "p.yaml"])
        .code(2)
        .says(&[
            "line 4 column 7",
            "line 5 column 7",
            "`fail.status`",
            "p.yaml",
        ]);
}

#[test]
fn a_mistake_of_syntax_is_called_an_error_once() {
    let world = World::new(&[
        ("bad.yaml", "turns: []\n"),
        ("workers/main.worker", "---\nname: main\n---\nWork.\n"),
    ]);
    let ran = world.forge(&["run", "--replay", "bad.yaml", "main", "hi"]);
    ran.code(2);
    let first = ran.stderr.lines().next().unwrap_or_default();
    assert!(
        first.contains("bad.yaml: line 1 column 8: unknown field `turns`"),
        "{first}"
    );
    assert_eq!(ran.stderr.matches("error:").count(), 1, "{}", ran.stderr);
    assert!(!ran.stderr.contains("<input>"), "{}", ran.stderr);
}
