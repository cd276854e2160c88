//! Lines, where nothing moves; and what is on standard output, which is the answer and nothing else.

use serde_json::Value;

use super::pty::{Setup, Terminal, USUAL};
use super::{RUN, world};
use crate::support::World;

const ANSWER: &str = "All is done.\n\nThe report stands in /out/report.md.\n";

fn run(world: &World, args: &[&str]) -> crate::support::Ran {
    world.forge(&[args, &RUN].concat())
}

/// Without the last line, which names where the run is kept.
fn lines(stderr: &str) -> String {
    let lines = stderr.lines();
    let own: Vec<&str> = lines.filter(|line| !line.contains("kept in")).collect();
    own.join("\n")
}

#[test]
fn without_a_terminal_there_are_lines() {
    let world = world();
    let ran = run(&world, &[]);
    ran.code(3);
    assert_eq!(ran.stdout, ANSWER);
    insta::assert_snapshot!(lines(&ran.stderr), @r##"
    ▸ main
      │ Two workers will do this: one reads, the other one writes what the first one has found. Wide: 日本語のテキストは幅が二倍です。日本語のテキストは幅が二倍です。日…
      ▸ reader
        ✓ list_files /data: 2 lines
        ✓ read_file /data/notes.md: 2 lines
        ✗ read_file /data/no\x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08: File not found: /data/no\u{1b}[2J\u{1b}]0;owned\u{7}\u{1b}[?25l\u{9b}31m\u{d}\u{202…
        │ found \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      ✓ reader read it: found \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      │ \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      ▸ writer
        ✗ write_file /out/report.md: write_file needs a person's approval (write in /out is `ask`), and nobody could be asked: there is no terminal, and nobody watches wi…
        │ written
      ✓ writer write it: written
    error: calls needed an approval that nobody could give: main > writer: write_file

    hint: `forge log show last` says why nobody was asked; run it in a terminal (without CI set), pre-approve them in the project file, or pass --approve all; with --approver queue they wait for `forge approve`
    "##);
}

#[test]
fn more_is_said_where_more_is_asked_for() {
    let world = world();
    let args = [&["-v", "--no-input"][..], &RUN, &["--approve", "all"]].concat();
    let ran = world.forge(&args);
    ran.code(0);
    assert_eq!(ran.stdout, ANSWER);
    insta::assert_snapshot!(lines(&ran.stderr), @r##"
    ▸ main
      │ Two workers will do this: one reads, the other one writes what the first one has found. Wide: 日本語のテキストは幅が二倍です。日本語のテキストは幅が二倍です。日本語のテキスト
      · 1200 tokens in, 300 tokens out
      → reader {"input":"read it"}
      ▸ reader
        → list_files {"path":"/data"}
        ✓ list_files /data: 2 lines
        → read_file {"path":"/data/notes.md"}
        ✓ read_file /data/notes.md: 2 lines
        → read_file {"path":"/data/no\u001b[2J\u001b]0;owned\u0007\u001b[?25l\x9b31m\r\u{202e}evil\b"}
        ✗ read_file /data/no\x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08: File not found: /data/no\u{1b}[2J\u{1b}]0;owned\u{7}\u{1b}[?25l\u{9b}31m\u{d}\u{202e}evil\u{8}
        │ found \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      ✓ reader read it: found \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      │ \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      → writer {"input":"write it"}
      ▸ writer
        → write_file {"path":"/out/report.md","content":"# Report\n\nnew line \u001b[2J\u001b]0;owned\u0007\u001b[?25l\x9b31m\r\u{202e}evil\b\n"}
        ✓ write_file /out/report.md: Written 51 characters to /out/report.md
        │ written
      ✓ writer write it: written
    "##);
}

/// Nothing that came from a model or a file is more than text; colours are ours.
#[test]
fn colours_are_as_they_are_asked_for() {
    for (env, args, colours) in [
        (&[][..], &[][..], false),
        (&[("CLICOLOR_FORCE", "1")], &[], true),
        (&[("CLICOLOR_FORCE", "0")], &[], false),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &[], false),
        (&[("NO_COLOR", "1")], &["--color", "always"], true),
        (&[("CLICOLOR_FORCE", "1")], &["--color", "never"], false),
        (&[], &["--color", "auto"], false),
    ] {
        let world = world();
        let mut command = world.command(
            crate::support::forge_program(),
            &[args, &RUN, &["--approve", "all"]].concat(),
        );
        let ran = crate::support::ran(command.envs(env.iter().copied()).output().unwrap());
        ran.code(0);
        assert_eq!(ran.stdout, ANSWER);
        assert_eq!(
            ran.stderr.contains("✓ \u{1b}[0m"),
            colours,
            "{env:?} {args:?}"
        );
        let painted = ran.stderr.split("\u{1b}[");
        for rest in painted.skip(1) {
            let end = rest.find('m').unwrap();
            assert!(rest[..end].bytes().all(|b| b.is_ascii_digit()), "{rest:?}");
        }
        let is_hidden = |c: char| c.is_control() && c != '\n' && c != '\u{1b}';
        assert!(!ran.stderr.contains(is_hidden), "{:?}", ran.stderr);
    }
}

/// Also where a model has it from elsewhere.
#[test]
fn a_secret_is_shown_nowhere() {
    const SECRET: &str = "canary-4711-0815-canary";
    let setup = Setup {
        env: &[("TERM", "xterm"), ("SOME_TOKEN", SECRET)],
        columns: 200,
        ..USUAL
    };
    for args in [
        &["-v"][..],
        &["-v", "--output", "stream-json"],
        &["--color", "never"],
    ] {
        let world = world();
        let text = format!(
            "version: 1
workers:
  main:
    - say: I say {SECRET}
      calls: [{{ tool: list_files, args: {{ path: /{SECRET} }} }}, {{ tool: \"{SECRET}\" }}]
    - say: done
"
        );
        world.write("play.yaml", &text);
        let ended = Terminal::start(&world, setup, &[&RUN[..], args].concat()).end();
        assert_eq!(ended.code, Some(0), "{}", ended.screen);
        let mut command =
            world.command(crate::support::forge_program(), &[&RUN[..], args].concat());
        let ran = crate::support::ran(command.env("SOME_TOKEN", SECRET).output().unwrap());
        ran.code(0);
        for text in [&ended.raw, &ended.stdout.unwrap(), &ran.stdout, &ran.stderr] {
            assert!(!text.contains("canary-4711"), "{args:?}: {text}");
        }
        assert!(ended.raw.contains("I say "), "{}", ended.raw);
    }
}

/// A terminal that says it moves nothing gets lines.
#[test]
fn a_dumb_terminal_gets_lines() {
    let world = world();
    let setup = Setup {
        env: &[("TERM", "dumb")],
        ..USUAL
    };
    let terminal = Terminal::start(&world, setup, &RUN);
    terminal.until("[?] >");
    terminal.type_text("y\n");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0));
    assert!(!ended.raw.contains('\u{1b}'), "{:?}", ended.raw);
    assert!(ended.screen.contains("✓ write_file /out/report.md"));
    assert_eq!(ended.stdout.as_deref(), Some(ANSWER));
}

#[test]
fn standard_output_is_the_answer_and_nothing_else() {
    for (args, code, answer) in [
        (&["--approve", "all"][..], 0, Some(ANSWER)),
        (&["--approve", "all", "-q"], 0, Some(ANSWER)),
        (&["--approve", "all", "-vv"], 0, Some(ANSWER)),
        (&[], 3, Some(ANSWER)),
        (&["-c", "limits.max_turns=1"], 5, None),
        (
            &[
                "-c",
                "model=scripted:none.yaml",
                "--model",
                "scripted:none.yaml",
            ],
            2,
            None,
        ),
        (&["--nonsense"], 2, None),
    ] {
        let world = world();
        let mut all = RUN.to_vec();
        if args.contains(&"--model") {
            all.truncate(2);
        }
        all.extend(args);
        let ran = world.forge(&all);
        ran.code(code);
        assert_eq!(ran.stdout, answer.unwrap_or_default(), "{args:?}");
        if args.contains(&"-q") {
            assert_eq!(ran.stderr, "");
        }
        let ran = world.forge(&[&all[..], &["--output", "json"]].concat());
        ran.code(code);
        match serde_json::from_str::<Value>(&ran.stdout) {
            Ok(object) => {
                let said = object["report"]["answer"].as_str();
                assert_eq!(said, answer.map(str::trim_end), "{args:?}");
            }
            Err(_) => assert!(
                ran.stdout.is_empty() && code == 2,
                "{args:?}: {}",
                ran.stdout
            ),
        }
    }
}

/// What a model or a tool says is no workflow command to whoever reads the log.
#[test]
fn no_line_is_a_command_to_ci() {
    let world = world();
    world.write(
        "play.yaml",
        "version: 1
workers:
  main:
    - say: \"::error::a\\n ##[error]b\"
      calls: [{ tool: list_files, args: { path: \"/data\\n::error::c\" } }, { tool: read_file, args: { path: \"::error::d\" } }]
    - say: done
",
    );
    let ran = run(&world, &["-v"]);
    ran.code(0)
        .says(&["::error::a", "::error::c", "::error::d"]);
    for line in ran.stderr.lines() {
        let is_command = line.trim_start().starts_with("::") || line.contains("##[");
        assert!(!is_command, "{line}");
    }
}

#[test]
fn a_question_that_is_too_long_sends_nobody_to_a_terminal() {
    let content = "line of text\\n".repeat(90_000);
    let playbook = format!(
        "version: 1\nworkers:\n  main:\n    - calls:\n        - {{ tool: write_file, args: {{ path: /out/a, \
         content: \"{content}\" }} }}\n    - say: done\n"
    );
    let world = World::new(&[
        (
            "forge.yaml",
            "sandbox: { mode: direct, zones: { out: { path: ./out, mode: rw } } }\n",
        ),
        ("workers/main.worker", "---\nname: main\n---\nWork.\n"),
        ("big.yaml", &playbook),
        ("out/b", ""),
    ]);
    let args = ["run", "--replay", "big.yaml", "main", "hi"];
    let ended = Terminal::start(&world, USUAL, &args).end();
    assert_eq!(ended.code, Some(3), "{}", ended.screen);
    let words: Vec<&str> = ended.screen.split_whitespace().collect();
    let text = words.join(" ");
    assert!(text.contains("the difference has 1"), "{text}");
    assert!(text.contains("`forge log show last` says why"), "{text}");
    assert!(!text.contains("run it in a terminal"), "{text}");
}
