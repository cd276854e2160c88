//! `forge run --resume`: what was stopped goes on where it was, and says why if it does not.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Ran, World};

const CONFIG: &str = "\
sandbox:
  mode: direct
  zones: { workspace: { path: ./workspace, approval: { write: preApproved } } }
model: scripted:playbook.yaml
limits: { max_turns: 2 }
";

const PLAYBOOK: &str = "
version: 1
workers:
  main:
    - calls: [{ tool: append_file, args: { path: /workspace/log, content: a }, as: first }]
    - calls: [{ tool: append_file, args: { path: /workspace/log, content: b }, as: second }]
    - say: \"first {{ results.first.ok }} {{ results.first.structured.effects | default('done') }}, second {{ results.second.ok }}\"
";

fn world() -> World {
    World::new(&[
        ("golem-forge.config.yaml", CONFIG),
        ("playbook.yaml", PLAYBOOK),
        ("workers/main.worker", "---\nname: main\n---\nGo.\n"),
    ])
}

const MORE: [&str; 5] = ["-c", "limits.max_turns=9", "run", "--resume", "last"];

impl World {
    /// A run that its limit on turns ended, after both calls.
    fn stopped(&self) -> PathBuf {
        self.forge(&["run", "main", "do it"]).code(5);
        assert_eq!(self.appended(), "ab");
        self.only_run()
    }

    fn only_run(&self) -> PathBuf {
        let runs = self.outside().join("state/runs");
        let mut runs = std::fs::read_dir(runs).unwrap();
        let run = runs.next().unwrap().unwrap().path();
        assert!(runs.next().is_none());
        run
    }

    fn appended(&self) -> String {
        std::fs::read_to_string(self.project().join("workspace/log")).unwrap_or_default()
    }

    fn goes_on(&self) -> Ran {
        let mut args = MORE.to_vec();
        args.push("--accept-changes");
        self.forge(&args)
    }
}

fn kept(run: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("transcript.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Leaves the transcript as a program that was killed behind this line does.
fn cut_behind(run: &std::path::Path, place: impl Fn(&[Value]) -> Option<usize>) {
    let lines = kept(run);
    let end = place(&lines).unwrap();
    let text: String = lines[..=end]
        .iter()
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(run.join("transcript.jsonl"), text).unwrap();
}

#[test]
fn a_run_goes_on_in_its_own_directory_and_makes_no_call_again() {
    let world = world();
    let run = world.stopped();
    let name = run.file_name().unwrap().to_str().unwrap().to_owned();
    let ran = world.goes_on();
    ran.code(0)
        .says(&[&format!("going on with {name}: 2 turns and 2 calls so far")]);
    assert_eq!(ran.stdout, "first True done, second True\n");
    assert_eq!(world.appended(), "ab");
    assert_eq!(world.only_run(), run);
    world.forge(&["log", "verify"]).code(0);
    let end: Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(end["report"]["turns"], 3);
    assert_eq!(end["report"]["calls"], 2);
    assert!(run.join("run.1.json").exists());
    let lines = kept(&run);
    let gone_on = lines.iter().find(|line| line["kind"] == "gone_on").unwrap();
    assert_eq!(gone_on["accepted"][0], "limits.max_turns: 2, now 9");
    // By its beginning, and by its directory; and now there is an answer.
    for word in ["last", "main", name.as_str(), run.to_str().unwrap()] {
        let again = world.forge(&["run", "--resume", word]);
        again
            .code(0)
            .says(&["ended with this answer before; nothing was done now"]);
        assert_eq!(again.stdout, ran.stdout);
    }
}

/// What is edited, how, the flags that go with it, and what is said.
type Edited<'a> = (&'a str, &'a dyn Fn(&World), &'a [&'a str], &'a str);

#[test]
fn what_changed_is_shown_and_has_to_be_accepted() {
    let rows: [Edited; 5] = [
        (
            "limit",
            &|_| {},
            &["-c", "limits.max_turns=9"],
            "\n  limits.max_turns: 2, now 9\n",
        ),
        (
            "worker",
            &|world| world.write("workers/main.worker", "---\nname: main\n---\nStop.\n"),
            &[],
            "\n  the file of the worker `main`\n",
        ),
        (
            "model",
            &|world| world.write("other.yaml", PLAYBOOK),
            &["-c", "model=scripted:other.yaml"],
            "\n  the model: scripted:playbook.yaml, now scripted:other.yaml\n",
        ),
        (
            "mount",
            &|world| {
                world.write(
                    "golem-forge.config.yaml",
                    &CONFIG.replace("./workspace", "./other"),
                );
            },
            &[],
            "\n  mount /workspace: ",
        ),
        (
            "remark",
            &|world| world.write("golem-forge.config.yaml", &format!("# A remark.\n{CONFIG}")),
            &[],
            "",
        ),
    ];
    for (what, edit, flags, text) in rows {
        let world = world();
        world.stopped();
        edit(&world);
        let args = [flags, &["run", "--resume", "last"]].concat();
        let ran = world.forge(&args);
        if text.is_empty() {
            // It goes on, and stops at the same limit.
            ran.code(5);
            continue;
        }
        ran.code(2).says(&[
            "cannot be resumed as it was, because its configuration has changed since it started:",
            text,
        ]);
        assert!(
            ran.stderr.contains("--accept-changes"),
            "{what}: {}",
            ran.stderr
        );
        // Nothing was written, so it can still be decided.
        world.forge(&["log", "verify"]).code(0);
        let ran = world.forge(&[&args[..], &["--accept-changes"]].concat());
        assert!([0, 5].contains(&ran.code), "{what}: {}", ran.stderr);
        world.forge(&["log", "verify"]).code(0);
    }
}

/// Where the conversation and the key go is a part of what a run rests on.
#[test]
fn another_address_of_its_provider_has_to_be_accepted() {
    let world = world();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", gone.local_addr().unwrap());
    drop(gone);
    let run = ["--trust", "run", "-m", "ollama:m", "--base-url", &address];
    world.forge(&run).code(7);
    let ran = world.forge(&["--trust", "run", "--resume", "last"]);
    let changed = format!(
        "providers.ollama: openai-chat at {address}, now openai-chat at http://127.0.0.1:11434/v1"
    );
    ran.code(2).says(&[&changed, "--accept-changes"]);
    let same = ["--trust", "run", "--resume", "last", "--base-url", &address];
    world.forge(&same).code(7);
}

/// What is wrong with a run, how it came about, the exit code, and what is said.
type Harmed<'a> = (&'a str, &'a dyn Fn(&std::path::Path), i32, &'a [&'a str]);

#[test]
fn what_cannot_go_on_says_why() {
    let damage = |run: &std::path::Path, line: usize, text: &str| {
        let path = run.join("transcript.jsonl");
        let whole = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<&str> = whole.lines().collect();
        lines[line - 1] = text;
        std::fs::write(path, lines.join("\n") + "\n").unwrap();
    };
    let rows: [Harmed; 8] = [
        (
            "no transcript",
            &|run| std::fs::remove_file(run.join("transcript.jsonl")).unwrap(),
            2,
            &[
                "has no transcript, so nothing can go on from it",
                "--ephemeral",
            ],
        ),
        (
            "an empty one",
            &|run| std::fs::write(run.join("transcript.jsonl"), "").unwrap(),
            1,
            &["line 1: it is empty", "it was stopped before it began"],
        ),
        (
            "a damaged line",
            &|run| damage(run, 4, "{}"),
            1,
            &["cannot be gone on from: line 4: not a line of a transcript"],
        ),
        (
            "a line that is missing",
            &|run| damage(run, 2, r#"{"at_ms":0,"kind":"turn","run":1,"turn":1}"#),
            1,
            &["line 2: this worker had not begun"],
        ),
        (
            "a format of later",
            &|run| {
                let path = run.join("transcript.jsonl");
                let whole = std::fs::read_to_string(&path).unwrap();
                std::fs::write(path, whole.replacen("\"format\":1", "\"format\":2", 1)).unwrap();
            },
            1,
            &[
                "it is in version 2 of the format",
                "use the forge that wrote it",
            ],
        ),
        (
            "an audit log that was edited",
            &|run| {
                let path = run.join("audit.jsonl");
                let whole = std::fs::read_to_string(&path).unwrap();
                std::fs::write(path, whole.replacen("append_file", "delete_file", 1)).unwrap();
            },
            1,
            &["the audit log of", "does not hold:", "was edited"],
        ),
        (
            "an audit log without its end",
            &|run| {
                let path = run.join("audit.jsonl");
                let whole = std::fs::read_to_string(&path).unwrap();
                let lines: Vec<&str> = whole.lines().collect();
                std::fs::write(path, lines[..lines.len() - 2].join("\n") + "\n").unwrap();
            },
            1,
            &["its end was cut off: the run had sealed it"],
        ),
        (
            "a transcript without its end",
            &|run| {
                cut_behind(run, |lines| {
                    lines.iter().rposition(|line| line["kind"] == "turn")
                })
            },
            1,
            &["has lost its end: the audit log has 2 calls, the transcript 1"],
        ),
    ];
    for (what, harm, code, texts) in rows {
        let world = world();
        let run = world.stopped();
        harm(&run);
        let ran = world.goes_on();
        assert_eq!(ran.code, code, "{what}: {}", ran.stderr);
        ran.says(texts);
        assert_eq!(world.appended(), "ab", "{what}");
    }
}

#[test]
fn a_run_that_goes_on_elsewhere_is_left_alone() {
    let world = world();
    let run = world.stopped();
    let log = File::open(run.join("audit.jsonl")).unwrap();
    log.lock().unwrap();
    world
        .goes_on()
        .code(2)
        .says(&["another program still works on main_"]);
    drop(log);
    world.goes_on().code(0);
}

#[test]
fn a_run_without_a_transcript_cannot_go_on() {
    let world = world();
    world.forge(&["-c", "log.transcripts=false", "run"]).code(5);
    world.goes_on().code(2).says(&[
        "has no transcript, so nothing can go on from it",
        "log.transcripts",
    ]);
}

/// The model is told of calls whose results were not kept; of those that began, that nobody knows.
#[test]
fn an_interrupted_call_is_not_made_again_in_silence() {
    let call = |line: &Value| line["kind"] == "call";
    let said = |line: &Value| line["message"]["role"] == "model";
    for (kept, shown, effects) in [
        (
            &call as &dyn Fn(&Value) -> bool,
            "it began, and what it did is not known",
            "unknown",
        ),
        (&said, "it did not begin", "none"),
    ] {
        let world = world();
        let run = world.stopped();
        // As after a kill: nothing of the second turn, and no end.
        std::fs::remove_file(run.join("run.json")).unwrap();
        let audit = std::fs::read_to_string(run.join("audit.jsonl")).unwrap();
        let lines: Vec<&str> = audit.lines().collect();
        std::fs::write(run.join("audit.jsonl"), lines[..2].join("\n") + "\n").unwrap();
        cut_behind(&run, |lines| lines.iter().position(kept));
        let ran = world.goes_on();
        ran.code(0)
            .says(&[&format!("interrupted: append_file: {shown}")]);
        assert_eq!(ran.stdout, format!("first False {effects}, second True\n"));
        assert_eq!(world.appended(), "abb");
        world.forge(&["log", "verify"]).code(0);
    }
}

/// What a killed program left of its last line is moved aside.
#[test]
fn a_torn_line_is_repaired() {
    let world = world();
    let run = world.stopped();
    for name in ["transcript.jsonl", "audit.jsonl"] {
        let mut file = File::options().append(true).open(run.join(name)).unwrap();
        file.write_all(b"{\"at_ms\":17").unwrap();
    }
    // The seal is older than what is torn behind it.
    std::fs::remove_file(run.join("run.json")).unwrap();
    world.goes_on().code(0);
    for name in ["transcript.torn", "audit.torn"] {
        let torn = std::fs::read_to_string(run.join(name)).unwrap();
        assert_eq!(torn, "{\"at_ms\":17\n", "{name}");
    }
    world.forge(&["log", "verify"]).code(0);
    kept(&run);
}

/// Whatever is kept of a run is for the person alone.
#[test]
fn only_the_person_reads_what_is_kept() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = world();
    let run = world.stopped();
    world.goes_on().code(0);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&run), 0o700);
    for entry in std::fs::read_dir(&run).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

/// What an answer has to be belongs to what a run rests upon: it neither gets lost nor changes
/// unseen, whether a flag says it or a file of the worker's. What a flag said is kept.
#[test]
fn the_shape_of_the_answer_is_not_lost() {
    const FILE: &str = "\n  the file of the worker `main`\n";
    const FLAG: &str = "\n  the JSON Schema of the answer\n";
    let text = "---\nname: main\noutput_schema: answer.json\n---\nGo.\n";
    let rows: [(Option<&str>, &[&str], Option<&str>); 8] = [
        (None, &["--json-schema", "flag.json"], None),
        (None, &[], None),
        (None, &["--json-schema", "other.json"], Some(FLAG)),
        (
            None,
            &["--json-schema", "other.json", "--accept-changes"],
            None,
        ),
        (Some("flag.json"), &[], None),
        (
            Some("flag.json"),
            &["--json-schema", "other.json"],
            Some(FLAG),
        ),
        (Some("other.json"), &[], Some(FILE)),
        (Some("other.json"), &["--accept-changes"], None),
    ];
    for (file, flags, changed) in rows {
        let world = world();
        world.write("flag.json", "{\"type\": \"string\"}");
        world.write("other.json", "{\"type\": \"integer\"}");
        let begun = match file {
            None => vec!["run", "main", "do it", "--json-schema", "flag.json"],
            Some(_) => {
                world.write("workers/main.worker", text);
                world.write("answer.json", "{\"type\": \"string\"}");
                vec!["run", "main", "do it"]
            }
        };
        world.forge(&begun).code(5);
        if let Some(file) = file {
            let copied = world.project().join(file);
            std::fs::copy(copied, world.project().join("answer.json")).unwrap();
        }
        let ran = world.forge(&[&["run", "--resume", "last"], flags].concat());
        let _said = match changed {
            // To the same limit.
            None => ran.code(5),
            Some(changed) => {
                let others = [FILE, FLAG].into_iter().filter(|other| *other != changed);
                others.for_each(|other| assert!(!ran.stderr.contains(other), "{}", ran.stderr));
                ran.code(2).says(&[changed])
            }
        };
    }
}

/// A schema that was given once holds, and the answer is held against it, when the run goes on.
#[test]
fn a_kept_schema_is_what_the_answer_is_held_against() {
    let world = world();
    world.write("flag.json", "{\"type\": \"integer\"}");
    let begun = ["run", "main", "do it", "--json-schema", "flag.json"];
    world.forge(&begun).code(5);
    std::fs::remove_file(world.project().join("flag.json")).unwrap();
    // It says words, twice.
    world.write(
        "playbook.yaml",
        &format!("{PLAYBOOK}    - say: no number\n"),
    );
    let ran = world.forge(&[&["--json"], &MORE[..], &["--accept-changes"]].concat());
    let report: Value = serde_json::from_str(&ran.code(1).stdout).unwrap();
    assert_eq!(report["report"]["end"], "unfit_answer");
}

/// Time that was used up is used up: a run does not get it again by going on.
#[test]
fn time_goes_on_where_it_was() {
    const SLOW: &str =
        "version: 1\nworkers: { main: [{ stream: { slow_ms: 60000 }, say: late }] }\n";
    for limit in ["max_wall_s", "max_working_s"] {
        let world = world();
        world.write("playbook.yaml", SLOW);
        let limited = format!("limits.{limit}=1");
        let run = ["--json", "-c", &limited, "run"];
        world.forge(&run).code(5);
        let turns = |world: &World| {
            let lines = kept(&world.only_run());
            let turns = lines.iter().filter(|line| line["kind"] == "turn");
            turns.count()
        };
        assert_eq!(turns(&world), 1);
        let again = [&run[..], &["--resume", "last"]].concat();
        world.forge(&again).code(5);
        assert_eq!(turns(&world), 1, "{limit}: the model was asked again");
        // As after a kill: when it stopped is seen by its last line.
        let run = world.only_run();
        let mut lines = kept(&run);
        let end = lines
            .iter()
            .position(|line| line["kind"] == "turn")
            .unwrap();
        lines.truncate(end + 1);
        let mut late = lines[end].clone();
        late["kind"] = "used".into();
        late["usage"] = serde_json::json!({"input_tokens": 0, "output_tokens": 0});
        late["at_ms"] = (late["at_ms"].as_u64().unwrap() + 1_000).into();
        lines.push(late);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(run.join("transcript.jsonl"), text).unwrap();
        world.forge(&again).code(5);
        assert_eq!(turns(&world), 1, "{limit}: after a kill");
    }
}

/// Killed between its answer and the end of forge: the answer is there, and is shown.
#[test]
fn a_run_that_was_killed_behind_its_answer_shows_it() {
    let world = world();
    let said = world.forge(&["-c", "limits.max_turns=9", "run", "main", "do it"]);
    said.code(0);
    let run = world.only_run();
    let kept_lines = kept(&run);
    std::fs::remove_file(run.join("run.json")).unwrap();
    let before = std::fs::read(run.join("transcript.jsonl")).unwrap();
    let again = world.forge(&["run", "--resume", "last"]);
    again.code(0);
    assert_eq!(again.stdout, said.stdout);
    assert_eq!(std::fs::read(run.join("transcript.jsonl")).unwrap(), before);
    let json = world.forge(&["--json", "run", "--resume", "last"]);
    let json: Value = serde_json::from_str(&json.code(0).stdout).unwrap();
    assert_eq!(json["report"]["end"], "answered", "{json}");
    let file = world.project().join("answer");
    world
        .forge(&["run", "--resume", "last", "-o", file.to_str().unwrap()])
        .code(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), said.stdout);

    // One line earlier nobody knows whether it was the answer: the model says it again.
    let last_said = kept_lines
        .iter()
        .rposition(|line| line["kind"] == "said")
        .unwrap();
    cut_behind(&run, |_| Some(last_said));
    let again = world.goes_on();
    again.code(0);
    assert_eq!(again.stdout, said.stdout);
    assert_eq!(world.appended(), "ab");
}

#[test]
fn an_empty_answer_is_told() {
    let world = world();
    world.write(
        "playbook.yaml",
        "version: 1\nworkers: { main: [{ say: ' ' }] }\n",
    );
    let ran = world.forge(&["run", "main", "do it"]);
    ran.code(0).says(&["the model ended with an empty answer"]);
}
