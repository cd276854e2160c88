//! Results that are tables: on a screen they follow its width, elsewhere they are what they are.

use super::pty::{Setup, Terminal, USUAL};
use crate::support::World;

fn world() -> World {
    let world = World::new(&[
        (
            "golem-forge.config.yaml",
            "\
model: anthropic:claude-sonnet-4-5
sandbox:
  mode: direct
  zones:
    data: { path: ./data, mode: ro }
    documentation: { path: ./documentation, approval: { write: preApproved } }
    reports: { path: ./reports, approval: { write: preApproved, delete: blocked } }
approval: { mode: manual }
shell:
  rules:
    - { pattern: 'wc *', approval: ask }
    - { pattern: 'cargo (check|test|clippy) *', approval: ask }
",
        ),
        (
            "workers/main.worker",
            "---\nname: main\nworkers: [reader]\n---\nGo.\n",
        ),
        (
            "workers/reader.worker",
            "---\nname: reader\ndescription: Reads what the others have written and says what is in it.\nsandbox: { zones: [{ name: data, mode: ro }] }\n---\nRead.\n",
        ),
    ]);
    for dir in ["data", "documentation", "reports"] {
        std::fs::create_dir(world.project().join(dir)).unwrap();
    }
    world
}

const COMMANDS: [&[&str]; 5] = [
    &["check"],
    &["worker", "list"],
    &["worker", "show", "main"],
    &["worker", "show", "reader", "--tree", "-v"],
    &["explain", "--", "cargo test --workspace"],
];

/// What stands on a screen of so many columns, as it was written.
fn on_screen(world: &World, columns: u16, env: &[(&str, &str)], args: &[&str]) -> String {
    let setup = Setup {
        columns,
        env,
        piped: false,
        ..USUAL
    };
    let ended = Terminal::start(world, setup, args).end();
    assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.screen);
    ended.raw.replace('\r', "")
}

/// Without colours.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\u{1b}') {
        out.push_str(before);
        rest = behind.split_once('m').unwrap().1;
    }
    out + rest
}

#[test]
fn no_row_is_longer_than_the_screen() {
    let world = world();
    world.forge(&[
        "--trust",
        "exec",
        "--",
        "echo",
        "a command with a few words",
    ]);
    let mut commands = COMMANDS.to_vec();
    commands.extend([&["log", "list"][..], &["log", "list", "--all"]]);
    if world.forge(&["doctor"]).code == 0 {
        commands.extend([&["doctor"][..], &["doctor", "-v"]]);
    }
    for columns in [60, 80, 120] {
        for args in &commands {
            let text = plain(&on_screen(&world, columns, USUAL.env, args));
            for row in text.lines() {
                let cells = row.chars().count();
                assert!(cells <= usize::from(columns), "{columns} {args:?}: {row}");
            }
        }
    }
}

#[test]
fn colours_are_for_screens_that_have_them() {
    let world = world();
    let check: &[&str] = &["explain", "--", "wc x"];
    let coloured = on_screen(&world, 80, USUAL.env, check);
    assert!(coloured.contains("\u{1b}[33mask\u{1b}[0m"), "{coloured}");
    for env in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let text = on_screen(&world, 80, &[("TERM", "xterm"), env], check);
        assert!(!text.contains('\u{1b}'), "{env:?}: {text}");
    }
}

#[test]
fn a_list_of_runs_begins_with_what_came_of_them() {
    let world = world();
    let call = ["tools", "call", "read_file", "path=/data/none"];
    world.forge(&call).code(1);
    let text = on_screen(&world, 80, USUAL.env, &["log", "list"]);
    let (heading, rows) = text.split_once('\n').unwrap();
    assert!(heading.starts_with("OUTCOME    STARTED  "), "{heading}");
    let begins = "\u{1b}[31mNOT_FOUND\u{1b}[0m  20";
    assert!(rows.starts_with(begins), "{text}");
    assert!(rows.contains("  tools-call  read_file"), "{text}");
    // The id that is shown is enough to name the run, however narrow the screen.
    for columns in [40, 60, 79, 80, 120] {
        let text = plain(&on_screen(&world, columns, USUAL.env, &["log", "list"]));
        let row = text
            .lines()
            .find(|row| row.starts_with("NOT_FOUND"))
            .unwrap();
        let nth = if columns < 60 { 1 } else { 3 };
        let id = row.split_whitespace().nth(nth).unwrap();
        world.forge(&["log", "show", id]).code(0);
        assert!(id.len() >= 15, "{columns}: {text}");
    }
}

#[test]
fn what_is_piped_does_not_depend_on_a_screen() {
    let world = world();
    for args in COMMANDS {
        let piped = world.forge(args).stdout;
        for columns in [60, 120] {
            let setup = Setup { columns, ..USUAL };
            let ended = Terminal::start(&world, setup, args).end();
            assert_eq!(ended.stdout.as_deref(), Some(&*piped), "{args:?}");
        }
    }
}

#[test]
fn the_verdicts_of_a_table_are_those_that_count() {
    let world = world();
    let text = on_screen(&world, 80, &[("TERM", "dumb")], &["check"]);
    let text = text.split_once("\n\n").unwrap().1;
    let text = text.split("\n\n").next().unwrap();
    insta::assert_snapshot!(text, @r"
      PATH            MODE  READ         WRITE  DELETE
      /data           ro    preApproved  -      -
      /documentation  rw    preApproved  ask    ask
      /reports        rw    preApproved  ask    blocked
      -v: host paths, and the lines that grant them
    ");
}
