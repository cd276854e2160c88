//! `forge run` and what its flags make of a run: where input comes from and where the answer goes,
//! limits, and what counts as a failure.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{PROJECT, Ran, World, forge_program, ran};

const FILE: &str = "golem-forge.config.yaml";

const MAIN: &str = "---\nname: main\n---\nGo.\n";

/// Says what it was given.
const ECHO: &str = "version: 1\nworkers: { main: [{ say: 'got {{ input }}' }] }\n";

/// Calls until somebody stops it.
const BUSY: &str = "\
version: 1
workers:
  main:
    - calls: [{ tool: list_files, args: { path: /data } }]
      usage: { input_tokens: 900, output_tokens: 100 }
    - calls: [{ tool: list_files, args: { path: /workspace } }]
    - say: done
";

/// One call that a rule blocks and one that a person would be asked about.
const REFUSED: &str = "\
version: 1
workers:
  main:
    - calls:
        - { tool: shell, args: { command: 'rm x' } }
    - say: done
";

const UNASKED: &str = "\
version: 1
workers:
  main:
    - calls:
        - { tool: delete_file, args: { path: /workspace/a.md } }
    - say: done
";

fn world(playbook: &str) -> World {
    World::new(&[
        (FILE, &format!("{PROJECT}model: scripted:play.yaml\n")),
        ("workers/main.worker", MAIN),
        ("play.yaml", playbook),
        ("data/a.md", "alpha\n"),
        ("workspace/a.md", "alpha\n"),
    ])
}

/// Runs it with `--trust --json`: the exit code, the error's code if there is one, and what is on
/// standard output.
fn run(world: &World, args: &[&str]) -> (i32, Option<String>, Ran) {
    let args = [&["--trust", "--json", "run"], args].concat();
    let ran = world.forge(&args);
    let error = ran.stderr.lines().last().and_then(|line| {
        let error: Value = serde_json::from_str(line).ok()?;
        Some(error["error"]["code"].as_str()?.to_owned())
    });
    (ran.code, error, ran)
}

/// Runs with this standard input.
fn with_stdin(world: &World, args: &[&str], stdin: impl Into<Stdio>) -> Ran {
    let mut command = world.command(forge_program(), &[&["--trust", "run"], args].concat());
    ran(command.stdin(stdin).output().unwrap())
}

/// A pipe that holds this, and whose other end is closed.
fn piped(text: &str) -> std::io::PipeReader {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(text.as_bytes()).unwrap();
    reader
}

#[test]
fn input_is_words_a_file_or_standard_input() {
    let world = world(ECHO);
    world.write("ask.txt", "from a file");
    let said = |args: &[&str]| {
        let ran = world.forge(&[&["--trust", "run"], args].concat());
        ran.code(0);
        ran.stdout
    };
    assert_eq!(said(&["main", "these", "words"]), "got these words\n");
    // Words with a space between them are no worker's name: the entry worker's input.
    assert_eq!(said(&["fix the test"]), "got fix the test\n");
    assert_eq!(said(&["fix the test", "now"]), "got fix the test now\n");
    assert_eq!(said(&["-f", "ask.txt"]), "got from a file\n");
    assert_eq!(said(&["main", "--file", "ask.txt"]), "got from a file\n");

    let ran = with_stdin(&world, &["-f", "-"], piped("\n  piped\nmore"));
    assert!(ran.code(0).stdout.contains("piped\nmore"), "{}", ran.stdout);
    let listed = world.forge(&["log", "list", "--limit", "1"]);
    assert!(
        listed.stdout.contains("  piped  answered"),
        "{}",
        listed.stdout
    );

    for (args, code) in [
        (&["-f", "absent.txt"][..], "run.input"),
        (&["-f", "data"], "run.input"),
        (&["main", "words", "-f", "ask.txt"], "usage"),
    ] {
        let (exit, error, ran) = run(&world, args);
        assert_eq!((exit, error.as_deref()), (2, Some(code)), "{}", ran.stderr);
    }
}

#[test]
fn files_are_attached_within_the_workers_policy() {
    let world = world(ECHO);
    let policy =
        "attachment_policy: { max_attachments: 2, max_total_bytes: 20, denied_suffixes: [.exe] }";
    world.write(
        "workers/main.worker",
        &format!("---\nname: main\n{policy}\n---\nGo.\n"),
    );
    for (name, text) in [
        ("a.md", "``` alpha"),
        ("b.md", "beta\n"),
        ("c.exe", "c"),
        ("long.md", "123456789012345678901"),
    ] {
        world.write(name, text);
    }
    let ran = world.forge(&["--trust", "run", "-A", "a.md", "-A", "b.md", "main", "read"]);
    assert_eq!(
        ran.code(0).stdout,
        "got read\n\nAttached, as copies that can be read:\n- /attached/a.md (9 bytes)\n\
         - /attached/b.md (5 bytes)\n"
    );
    for (args, code) in [
        (&["-A", "c.exe"][..], "run.attachment"),
        (&["-A", "long.md"], "run.attachment"),
        (
            &["-A", "a.md", "-A", "a.md", "-A", "b.md"],
            "run.attachment",
        ),
        (&["-A", "absent.md"], "run.input"),
        (&["-A", "data"], "run.input"),
    ] {
        let (exit, error, ran) = run(&world, args);
        assert_eq!((exit, error.as_deref()), (2, Some(code)), "{}", ran.stderr);
    }
}

/// Reads what it was handed, if it can, and stops at a limit on the way.
const READS: &str = "\
version: 1
workers:
  main:
    - calls: [{ tool: read_file, args: { path: /attached/a.md }, as: first }]
    - calls: [{ tool: read_file, args: { path: /attached/a.md }, as: second }]
    - say: '{{ results.first.content }} {{ results.second.content }}'
";

/// What was attached is there again when the run goes on, whatever became of the file.
#[test]
fn what_is_attached_is_there_again() {
    let world = world(READS);
    world.write("a.md", "alpha");
    let ran = world.forge(&["--trust", "run", "-A", "a.md", "--max-turns", "1"]);
    ran.code(5);
    std::fs::remove_file(world.project().join("a.md")).unwrap();
    let more = ["--trust", "run", "--resume", "last", "--max-turns", "9"];
    let more = [&more[..], &["--accept-changes"]].concat();
    let runs = world.outside().join("state/runs");
    let run = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
    let copy = run.path().join("attached.1");
    // Nobody is given what another has put there.
    std::fs::write(&copy, "omega").unwrap();
    let ran = world.forge(&more);
    ran.code(1).says(&["attached file a.md", "was edited"]);
    std::fs::write(&copy, "alpha").unwrap();
    assert_eq!(world.forge(&more).code(0).stdout, "alpha alpha\n");
}

/// A worker without files gets text, and nothing that is none.
#[test]
fn a_pure_worker_gets_what_is_attached_as_text() {
    let world = world(ECHO);
    world.write(
        "workers/main.worker",
        "---\nname: main\nsandbox: none\n---\nGo.\n",
    );
    world.write("a.md", "```\nalpha");
    std::fs::write(world.project().join("b.bin"), [0, 159, 146, 150]).unwrap();
    let ran = world.forge(&["--trust", "run", "-A", "a.md"]);
    assert_eq!(
        ran.code(0).stdout,
        "got Attached: a.md (9 bytes)\n````\n```\nalpha\n````\n"
    );
    let (exit, error, ran) = run(&world, &["-A", "b.bin"]);
    assert_eq!((exit, error.as_deref()), (2, Some("run.attachment")));
    ran.says(&["'b.bin' is not text"]);
}

/// In a directory of the worker's its sandbox has its say: a link that was planted there, or what
/// is hidden, is not handed over because a person named it.
#[test]
fn what_is_attached_is_looked_at_through_the_workers_sandbox() {
    let world = world(ECHO);
    world.write("secret.md", "secret");
    world.write("data/.env", "TOKEN=1");
    world.write("workspace/sub/b.md", "beta");
    let link = |text: &str, at: &str| {
        std::os::unix::fs::symlink(text, world.project().join(at)).unwrap();
    };
    link("../secret.md", "workspace/planted.md");
    link("..", "workspace/up");
    link("workspace/sub", "short");
    link("data/.env", "env.md");
    for (file, handed_over) in [
        ("data/a.md", true),
        ("./workspace/../data/a.md", true),
        ("secret.md", true),
        ("short/b.md", true),
        ("workspace/planted.md", false),
        ("data/.env", false),
        ("env.md", false),
        ("workspace/up/workspace/planted.md", false),
    ] {
        for flag in ["-A", "-f", "--json-schema"] {
            let (exit, error, ran) = run(&world, &[flag, file]);
            let expected = match (handed_over, flag) {
                (false, _) => (2, Some("run.attachment")),
                // None of these is a schema.
                (true, "--json-schema") => (2, Some("run.schema")),
                (true, _) => (0, None),
            };
            let found = (exit, error.as_deref());
            assert_eq!(found, expected, "{flag} {file}: {}", ran.stderr);
        }
    }
}

/// A command can make a directory of any name, but no worker of that name.
#[test]
fn a_worker_comes_before_a_directory_of_its_name() {
    let world = world(ECHO);
    world.write("main/a.md", "");
    let ran = world.forge(&["--trust", "run", "main", "x"]);
    assert_eq!(ran.code(0).stdout, "got x\n");
}

#[test]
fn the_answer_goes_into_a_file_whole() {
    let world = world(ECHO);
    world.write("out/answer.txt", "old and longer than the new one, by far");
    let ran = world.forge(&["--trust", "run", "-o", "out/answer.txt", "main", "x"]);
    assert_eq!(ran.code(0).stdout, "");
    let written = || std::fs::read_to_string(world.project().join("out/answer.txt")).unwrap();
    assert_eq!(written(), "got x\n");
    // For programs the report is on standard output all the same.
    let (code, _, ran) = run(&world, &["-o", "out/answer.txt", "main", "y"]);
    assert_eq!((code, written().as_str()), (0, "got y\n"));
    assert!(ran.stdout.contains("got y"));
    let names = std::fs::read_dir(world.project().join("out")).unwrap();
    assert_eq!(names.count(), 1, "nothing is left beside it");

    // A place that cannot be is found before the run begins, and so is a link that leads elsewhere.
    std::os::unix::fs::symlink(world.outside(), world.project().join("away")).unwrap();
    std::os::unix::fs::symlink("answer.txt", world.project().join("out/other")).unwrap();
    for file in [
        "absent/answer.txt",
        "out",
        "/",
        "play.yaml/x",
        "away/x",
        "out/other",
    ] {
        let (exit, error, _) = run(&world, &["-o", file, "main", "x"]);
        assert_eq!((exit, error.as_deref()), (2, Some("run.output")), "{file}");
    }
    let runs = std::fs::read_dir(world.outside().join("state/runs")).unwrap();
    assert_eq!(runs.count(), 2);
    // A run without an answer leaves the file as it was.
    let (exit, ..) = run(
        &world,
        &["-o", "out/answer.txt", "--model", "scripted:bad.yaml"],
    );
    assert_eq!((exit, written().as_str()), (2, "got y\n"));
}

#[test]
fn a_schema_is_looked_at_before_the_run() {
    let world = world(ECHO);
    for (text, says) in [
        ("{", "is not JSON"),
        ("[]", "not a mapping"),
        ("{\"type\": \"strin\"}", "at /type"),
        ("{\"$ref\": \"https://example.com/a\"}", "none is fetched"),
        ("{\"pattern\": \"(\"}", "/pattern"),
    ] {
        world.write("schema.json", text);
        let (exit, error, ran) = run(&world, &["--json-schema", "schema.json"]);
        assert_eq!((exit, error.as_deref()), (2, Some("run.schema")), "{text}");
        ran.says(&[says]);
    }
    let (exit, error, _) = run(&world, &["--json-schema", "absent.json"]);
    assert_eq!((exit, error.as_deref()), (2, Some("run.schema")));
}

#[test]
fn limits_of_the_command_line_hold_below_ones_own_file() {
    let world = world(BUSY);
    for (args, limit) in [
        (&["--max-turns", "1"][..], "turn_limit"),
        (&["--max-tokens", "500"], "token_limit"),
    ] {
        let (exit, error, ran) = run(&world, args);
        assert_eq!((exit, error.as_deref()), (5, Some("limit")), "{args:?}");
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["report"]["end"], limit, "{args:?}");
        ran.says(&[&format!("pass a higher `{}`", args[0])]);
    }
    // Above the project's own is fine, above one's own file is not.
    world.write(
        FILE,
        &format!("{PROJECT}model: scripted:play.yaml\nlimits: {{ max_turns: 2 }}\n"),
    );
    assert_eq!(run(&world, &[]).0, 5);
    assert_eq!(run(&world, &["--max-turns", "3"]).0, 0);
    let own = world.outside().join("home/.config/forge");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("config.yaml"), "limits: { max_turns: 2 }\n").unwrap();
    let (exit, error, _) = run(&world, &["--max-turns", "3"]);
    assert_eq!(
        (exit, error.as_deref()),
        (2, Some("config.above_user_file"))
    );
    let (exit, error, _) = run(&world, &["--max-cost", "0"]);
    assert_eq!((exit, error.as_deref()), (2, Some("config.bad_value")));
}

#[test]
fn what_counts_as_a_failure_can_be_said() {
    let blocked = world(REFUSED);
    let unasked = world(UNASKED);
    for (world, args, expected) in [
        (&blocked, &[][..], (0, None)),
        (
            &blocked,
            &["--fail-on", "blocked"],
            (3, Some("approval.blocked")),
        ),
        (&blocked, &["--fail-on", "unanswered,denied"], (0, None)),
        (&unasked, &[], (3, Some("approval.unanswered"))),
        (&unasked, &["--fail-on", "nothing"], (0, None)),
        (&unasked, &["--fail-on", "denied,blocked"], (0, None)),
        (
            &unasked,
            &["--fail-on", "blocked", "--fail-on", "unanswered"],
            (3, Some("approval.unanswered")),
        ),
        (&unasked, &["--fail-on", "everything"], (2, Some("usage"))),
    ] {
        let (exit, error, ran) = run(world, args);
        assert_eq!(
            (exit, error.as_deref()),
            expected,
            "{args:?}\n{}",
            ran.stderr
        );
    }
}

/// A person says no from another terminal; the model goes on, and what that counts as can be said.
#[test]
fn what_a_person_refused_counts_as_a_failure_if_that_is_said() {
    for (flags, expected) in [
        (&[][..], (0, None)),
        (&["--fail-on", "unanswered,blocked"], (0, None)),
        (&["--fail-on", "denied"], (3, Some("approval.denied"))),
    ] {
        let world = world(UNASKED);
        let args = [&["--trust", "--json", "run", "--approver", "queue"], flags].concat();
        let mut command = world.command(forge_program(), &args);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let begun = std::time::Instant::now();
        let id = loop {
            let listed = world.forge(&["approve", "--json"]);
            let listed: Value = serde_json::from_str(&listed.code(0).stdout).unwrap();
            if let Some(id) = listed["pending"][0]["id"].as_str() {
                break id.to_owned();
            }
            assert!(begun.elapsed().as_secs() < 600 && child.try_wait().unwrap().is_none());
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        world.forge(&["approve", &id, "--deny"]).code(0);
        let ran = ran(child.wait_with_output().unwrap());
        let error = ran.stderr.lines().last();
        let error = error.and_then(|line| serde_json::from_str::<Value>(line).ok());
        let code = error
            .as_ref()
            .and_then(|error| error["error"]["code"].as_str());
        assert_eq!((ran.code, code), expected, "{flags:?}\n{}", ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["report"]["end"], "answered");
        assert!(world.project().join("workspace/a.md").exists());
    }
}

#[test]
fn an_ephemeral_run_keeps_no_transcript() {
    let world = world(ECHO);
    world
        .forge(&["--trust", "run", "--ephemeral", "main", "x"])
        .code(0);
    let runs: Vec<_> = std::fs::read_dir(world.outside().join("state/runs"))
        .unwrap()
        .map(|run| run.unwrap().path())
        .collect();
    let [run] = runs.as_slice() else {
        panic!("{runs:?}");
    };
    assert!(!run.join("transcript.jsonl").exists());
    assert!(run.join("audit.jsonl").exists());
    let about: Value =
        serde_json::from_str(&std::fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(about["ephemeral"], true);
}

#[test]
fn a_dry_run_shows_and_does_nothing() {
    let world = world(ECHO);
    world.write(
        "workers/main.worker",
        "---\nname: main\nworkers: [reader]\nsandbox: { zones: [{ name: data, mode: ro }, { name: workspace, mode: rw }] }\nshell: {}\n---\nGo.\n",
    );
    world.write(
        "workers/reader.worker",
        "---\nname: reader\ndescription: reads\nmodel: anthropic:small\nsandbox: { zones: [{ name: data, mode: ro }] }\n---\nRead.\n",
    );
    let ran = world.forge(&["--trust", "run", "--dry-run", "--max-turns", "7"]);
    ran.code(0);
    for line in [
        "worker main\n",
        "worker reader (called by main)\n",
        "  model: scripted:play.yaml\n",
        "  model: anthropic:small\n",
        "max_turns 7",
        "  network: off (`network.allow` names hosts)\n",
        "  shell: 3 rules\n",
        "  runner: prefer_local\n",
        "deleting in /workspace (",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
    assert!(
        ran.stdout.ends_with("\ncalls model: no\n"),
        "{}",
        ran.stdout
    );
    assert!(!world.outside().join("state/runs").exists());

    let (code, _, ran) = run(&world, &["--dry-run"]);
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((code, &plan["calls_model"]), (0, &Value::Bool(false)));
    assert_eq!(plan["plan"][1]["called_by"], "main");
}

/// An attempt may send anything; every other wrong name is a slip of the author.
#[test]
fn arguments_that_no_tool_takes_are_told_before_the_run() {
    let world = world(
        "version: 1\nworkers:\n  main:\n    - calls:\n        - { tool: read_file, args: { pth: /data/a.md } }\n        - { tool: read_file, attempt: odd, args: { odd: 1 } }\n    - say: done\n",
    );
    let warning = "play.yaml: line 4, `read_file`: `pth` is not an argument of this tool; did you mean `path`?\n";
    for (quiet, times) in [(false, 1), (true, 0)] {
        let args = [&["--trust", "run"][..], if quiet { &["-q"] } else { &[] }].concat();
        let ran = world.forge(&args);
        assert_eq!(ran.stderr.matches(warning).count(), times, "{}", ran.stderr);
        assert!(
            !ran.stderr.contains("line 4, `read_file`: `odd`"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn turns_for_unknown_workers_are_told_before_the_run() {
    for (named, told) in [
        (
            "mian",
            Some("turns for the unknown worker `mian`; did you mean `main`?"),
        ),
        ("zzz", Some("turns for the unknown worker `zzz`\n")),
        ("echo", None),
    ] {
        let world = world(&format!(
            "version: 1\nworkers:\n  main: [{{ say: done }}]\ncases:\n  {named}: [{{ input: a, turns: [] }}]\n"
        ));
        world.write("workers/echo.worker", "---\nname: echo\n---\nGo.\n");
        let ran = world.forge(&["--trust", "run"]);
        let count = ran.stderr.matches("turns for the unknown worker").count();
        assert_eq!(
            count,
            usize::from(told.is_some()),
            "{named}: {}",
            ran.stderr
        );
        assert!(
            told.is_none_or(|told| ran.stderr.contains(told)),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn base_url_is_the_providers() {
    let world = world(ECHO);
    for (args, code) in [
        (&["--base-url", "http://127.0.0.1:1"][..], "usage"),
        (
            &["--model", "nobody", "--base-url", "http://127.0.0.1:1"],
            "usage",
        ),
        (
            &["--model", "openai:m", "--base-url", "http://example.com"],
            "config.bad_value",
        ),
        (
            &["--model", "mine:m", "--base-url", "http://127.0.0.1:1"],
            "config.bad_value",
        ),
    ] {
        let (exit, error, ran) = run(&world, args);
        assert_eq!((exit, error.as_deref()), (2, Some(code)), "{}", ran.stderr);
    }
}

#[test]
fn without_a_terminal_a_missing_entry_is_a_mistake() {
    let world = World::new(&[
        (FILE, &format!("{PROJECT}model: scripted:play.yaml\n")),
        ("workers/other.worker", "---\nname: other\n---\nGo.\n"),
        ("play.yaml", ECHO),
    ]);
    let (exit, error, _) = run(&world, &[]);
    assert_eq!((exit, error.as_deref()), (2, Some("worker.unknown")));
}

#[test]
fn words_that_name_no_worker_may_be_input() {
    let world = world(ECHO);
    for (args, hint) in [
        (&["run", "fix"][..], "forge run main fix\n"),
        (&["run", "hello", "there"], "forge run main 'hello there'\n"),
    ] {
        world.forge(args).code(2).says(&["unknown worker", hint]);
    }
}

#[test]
fn a_missing_model_names_some_to_try() {
    let world = World::new(&[(FILE, PROJECT), ("workers/main.worker", MAIN)]);
    let ran = ran(world
        .command(forge_program(), &["--trust", "run", "hello there"])
        .env("OPENAI_API_KEY", "sk-not-a-real-key")
        .output()
        .unwrap());
    ran.code(2).says(&[
        "no model is configured",
        "--model openai:gpt-5-mini\n",
        "export ANTHROPIC_API_KEY=…",
        "ollama serve",
    ]);
    // One word is a sentence as well, if it cannot be a name.
    for sentence in ["Report.", "Why?", "fix:it"] {
        let ran = world.forge(&["--trust", "run", sentence]);
        ran.code(2).says(&["no model is configured"]);
    }
    let ran = world.forge(&["--trust", "run", "none.worker"]);
    ran.code(2)
        .says(&["cannot find the worker file `none.worker`"]);
}

/// The text of a pipe reaches the model, with and without words on the command line. With `-f FILE` it
/// stays unread.
#[test]
fn standard_input_is_the_input_or_follows_it() {
    let world = world(ECHO);
    world.write("ask.txt", "from a file");
    world.write("log.txt", "of a log\n");
    let file = || std::fs::File::open(world.project().join("log.txt")).unwrap();
    let socket = || {
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.write_all(b"of a socket").unwrap();
        std::os::fd::OwnedFd::from(theirs)
    };
    let added = "look\n\n<stdin>\nof a log\n</stdin>\n";
    for (args, stdin, input) in [
        (&[][..], Stdio::from(piped("of a log\n")), "of a log\n"),
        (&[], Stdio::from(file()), "of a log\n"),
        (&[], Stdio::from(socket()), "of a socket\n"),
        (&["main"], Stdio::from(piped("of a log")), "of a log\n"),
        (&["main", "-"], Stdio::from(piped("of a log")), "of a log\n"),
        (&["main", "look"], Stdio::from(piped("of a log\n")), added),
        (&["main", "look"], Stdio::from(file()), added),
        (
            &["main", "look", "-f", "-"],
            Stdio::from(piped("of a log\n")),
            added,
        ),
        (
            &["look at it"],
            Stdio::from(piped("x")),
            "look at it\n\n<stdin>\nx\n</stdin>\n",
        ),
        (&["main", "look"], Stdio::from(piped(" \n")), "look\n"),
        (&["main", "look"], Stdio::null(), "look\n"),
        (&[], Stdio::null(), "\n"),
        (
            &["-f", "ask.txt"],
            Stdio::from(piped("of a log")),
            "from a file\n",
        ),
    ] {
        let ran = with_stdin(&world, args, stdin);
        let said = ran.code(0).stdout.trim_end();
        assert_eq!(said, format!("got {input}").trim_end(), "{args:?}");
    }
    // Another program may never write to the pipe, and never close it.
    let (reader, held) = std::io::pipe().unwrap();
    let ran = with_stdin(&world, &["main", "look"], reader);
    assert_eq!(ran.code(0).stdout, "got look\n");
    ran.says(&[
        "nothing came from standard input in 3 s",
        "`-f -` waits",
        "< /dev/null",
    ]);
    drop(held);
    // A reader of lines keeps them.
    let (mut rest, reader) = (String::new(), file());
    let copy = reader.try_clone().unwrap();
    with_stdin(&world, &["-f", "ask.txt"], reader).code(0);
    std::io::Read::read_to_string(&mut { copy }, &mut rest).unwrap();
    assert_eq!(rest, "of a log\n");
    for (args, text) in [
        (&[][..], &[0xff, b'x'][..]),
        (&["main", "look"], &[0xff, b'x']),
    ] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(text).unwrap();
        drop(writer);
        let ran = with_stdin(&world, args, reader);
        ran.code(2).says(&["standard input is not UTF-8"]);
    }
}
