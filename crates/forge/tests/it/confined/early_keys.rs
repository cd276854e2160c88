//! Keys that a person types for a command answer no question of forge: the command decides when the
//! question appears.

use std::fs;
use std::time::Duration;

use super::reviewed::has_overlays;
use crate::support::World;
use crate::terminal::pty::{Setup, Terminal, USUAL};

/// Between two keys, at an ordinary pace.
const PACE: Duration = Duration::from_millis(120);

/// A question, and keys that would answer it with a yes.
struct Question {
    project: &'static str,
    args: &'static [&'static str],
    /// Shown before the question can be answered.
    text: &'static str,
    yes: &'static str,
    /// Shown when it can.
    keys: &'static str,
    no: &'static str,
    code: i32,
    /// Files that a yes makes or changes, below the test's directory.
    traces: &'static [&'static str],
}

const QUESTIONS: [Question; 3] = [
    Question {
        project: "sandbox: { root: . }\n",
        args: &["exec", "--review", "--", "sh", "-c", "echo new > a.txt"],
        text: "a.txt",
        yes: "apply",
        keys: "[d] discard:",
        no: "d",
        code: 0,
        traces: &["project/a.txt"],
    },
    Question {
        project: "sandbox: { root: . }\n",
        args: &["exec", "--preset", "mine", "--", "true"],
        text: "share things of yours",
        yes: "y",
        keys: "[o] share once:",
        no: "n",
        code: 0,
        traces: &["state/preset-shared"],
    },
    Question {
        project: "sandbox: { root: . }\nmodel: scripted:play.yaml\nshell: { default: ask }\n",
        args: &["--trust", "run"],
        text: "command = touch asked",
        yes: "happy",
        keys: "[?] >",
        no: "n",
        code: 0,
        traces: &["project/asked"],
    },
];

fn world(project: &str) -> World {
    let world = World::new(&[
        ("forge.yaml", project),
        (
            "workers/main.worker",
            "---\nname: main\nshell: {}\n---\nGo.\n",
        ),
        (
            "play.yaml",
            "version: 1\nworkers:\n  main:\n    \
             - calls: [{ tool: shell, args: { command: touch asked } }]\n    - say: done\n",
        ),
    ]);
    let presets = world.outside().join("home/.config/forge/presets");
    fs::create_dir_all(&presets).unwrap();
    let preset = "preset: mine\nabout: a test\ncommands: [sh]\nenv: { keys: [TEST_API_KEY] }\n";
    fs::write(presets.join("mine.yaml"), preset).unwrap();
    world
}

#[test]
fn keys_from_before_a_question_was_read_do_not_answer_it() {
    let setup = Setup {
        env: &[
            ("TERM", "xterm-256color"),
            ("TEST_API_KEY", "sk-real-0123456789-of-the-person"),
        ],
        piped: false,
        ..USUAL
    };
    for question in QUESTIONS {
        let Question {
            args, text, yes, ..
        } = question;
        if args.contains(&"--review") && !has_overlays() {
            continue;
        }
        let world = world(question.project);
        let terminal = Terminal::start(&world, setup, args);
        terminal.until(text);
        for key in yes.chars().map(String::from).chain(["\r".to_owned()]) {
            std::thread::sleep(PACE);
            terminal.type_text(&key);
        }
        terminal.until(question.keys);
        terminal.type_text(&format!("{}\r", question.no));
        let ended = terminal.end_with_command();
        let all = format!("{args:?}:\n{}", ended.screen);
        assert_eq!(ended.code, Some(question.code), "{all}");
        assert!(ended.screen.contains("typed before do not count"), "{all}");
        for trace in question.traces {
            assert!(!world.outside().join(trace).exists(), "{trace}: {all}");
        }
    }
}
