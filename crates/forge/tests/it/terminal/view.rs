//! The view that moves.

use rustix::process::Signal;

use super::pty::{Setup, Terminal, USUAL};
use super::{HOSTILE, RUN, SLEEPS, world};

#[test]
fn a_run_at_eighty_columns() {
    let world = world();
    let terminal = Terminal::start(&world, USUAL, &RUN);
    insta::assert_snapshot!(terminal.until("[?] >"), @r##"
    ▸ main
      │ Two workers will do this: one reads, the other one writes what the first
      │ one has found. Wide: 日本語のテキストは幅が二倍です。日本語のテキストは幅が
      │ 二倍です。日本語のテキスト
      ▸ reader
        ✓ list_files /data: 2 lines
        ✓ read_file /data/notes.md: 2 lines
        ✗ read_file /data/no\x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x
          08: File not found: /data/no\u{1b}[2J\u{1b}]0;owned\u{7}\u{1b}[?25l\u{9b}
          31m\u{d}\u{202e}evil\u{8}
        │ found \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      ✓ reader read it: found \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil
        \x08
      │ \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      ▸ writer

    Allow write_file /out/report.md?
    worker    main > writer
    tool      write_file
              path = /out/report.md
              content = (shown below)
    would     write /out/report.md
    runner    local
    network   off
    asked     write in /out is `ask` (golem-forge.config.yaml:1:69)
              --- /out/report.md
              +++ /out/report.md
              @@ -1,3 +1,3 @@
               # Report

              -old line
              +new line \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
    this run  write_file with exactly these arguments and this difference (write
                /out/report.md), for worker writer
    [y] once  [r] this run  [a] everything that asks  [n] no  [?] >
    "##);
    terminal.type_text("y\n");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.raw.contains('\u{7}'),
        "no bell for who looks elsewhere"
    );
    // The difference, line by line.
    for painted in [
        "31m          -old line",
        "32m          +new line",
        "36m          @@ -1,3",
    ] {
        assert!(
            ended.raw.contains(&format!("\u{1b}[{painted}")),
            "{:?}",
            ended.raw
        );
    }
    let answer = "All is done.\n\nThe report stands in /out/report.md.\n";
    assert_eq!(ended.stdout.as_deref(), Some(answer));
    insta::assert_snapshot!(ended.scrolled_by(), @r##"
      ▸ reader
        ✓ list_files /data: 2 lines
        ✓ read_file /data/notes.md: 2 lines
        ✗ read_file /data/no\x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x
          08: File not found: /data/no\u{1b}[2J\u{1b}]0;owned\u{7}\u{1b}[?25l\u{9b}
          31m\u{d}\u{202e}evil\u{8}
        │ found \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      ✓ reader read it: found \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil
        \x08
      │ \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      ▸ writer

    Allow write_file /out/report.md?
    worker    main > writer
    tool      write_file
              path = /out/report.md
              content = (shown below)
    would     write /out/report.md
    runner    local
    network   off
    asked     write in /out is `ask` (golem-forge.config.yaml:1:69)
              --- /out/report.md
              +++ /out/report.md
              @@ -1,3 +1,3 @@
               # Report

              -old line
              +new line \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
    this run  write_file with exactly these arguments and this difference (write
                /out/report.md), for worker writer
    [y] once  [r] this run  [a] everything that asks  [n] no  [?] > y
        ✓ write_file /out/report.md: Written 51 characters to /out/report.md
        │ written
      ✓ writer write it: written
      │ All is done.
      │
      │ The report stands in /out/report.md.
    "##);
}

#[test]
fn a_run_at_two_hundred_columns_without_colours() {
    let world = world();
    let setup = Setup {
        columns: 200,
        env: &[("TERM", "xterm"), ("NO_COLOR", "1")],
        ..USUAL
    };
    let terminal = Terminal::start(&world, setup, &RUN);
    terminal.until("[?] >");
    terminal.type_text("n not now\n");
    let ended = terminal.end();
    assert!(!has_colours(&ended.raw), "{:?}", ended.raw);
    insta::assert_snapshot!(ended.scrolled_by(), @r##"
    ▸ main
      │ Two workers will do this: one reads, the other one writes what the first one has found. Wide: 日本語のテキストは幅が二倍です。日本語のテキストは幅が二倍です。日本語のテキスト
      ▸ reader
        ✓ list_files /data: 2 lines
        ✓ read_file /data/notes.md: 2 lines
        ✗ read_file /data/no\x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08: File not found: /data/no\u{1b}[2J\u{1b}]0;owned\u{7}\u{1b}[?25l\u{9b}31m\u{d}\u{202e}evil\u{8}
        │ found \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      ✓ reader read it: found \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      │ \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
      ▸ writer

    Allow write_file /out/report.md?
    worker    main > writer
    tool      write_file
              path = /out/report.md
              content = (shown below)
    would     write /out/report.md
    runner    local
    network   off
    asked     write in /out is `ask` (golem-forge.config.yaml:1:69)
              --- /out/report.md
              +++ /out/report.md
              @@ -1,3 +1,3 @@
               # Report

              -old line
              +new line \x1b[2J\x1b]0;owned\x07\x1b[?25l\x9b31m\r\u{202e}evil\x08
    this run  write_file with exactly these arguments and this difference (write /out/report.md), for worker writer
    [y] once  [r] this run  [a] everything that asks  [n] no  [?] > n not now
        ✗ write_file /out/report.md: This call of write_file was denied by a person at the terminal: not now
        │ written
      ✓ writer write it: written
      │ All is done.
      │
      │ The report stands in /out/report.md.
    "##);
}

fn has_colours(raw: &str) -> bool {
    let mut sequences = raw.split("\u{1b}[").skip(1);
    sequences.any(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
            .starts_with('m')
    })
}

/// On the same screen the answer stands once.
#[test]
fn an_answer_that_is_seen_anyway_is_not_shown_twice() {
    let world = world();
    let setup = Setup {
        piped: false,
        ..USUAL
    };
    let terminal = Terminal::start(&world, setup, &RUN);
    terminal.until("[?] >");
    terminal.type_text("y\n");
    let ended = terminal.end();
    assert_eq!(
        ended.screen.matches("All is done.").count(),
        1,
        "{}",
        ended.screen
    );
    let (before, answer) = ended.screen.split_once("All is done.").unwrap();
    assert!(
        before.ends_with("\n") && before.contains("kept in"),
        "{}",
        ended.screen
    );
    assert_eq!(answer, "\n\nThe report stands in /out/report.md.");
}

/// What a model says is text on a terminal ([`Terminal::end`] looks at every byte), and as it is in
/// a pipe.
#[test]
fn an_answer_is_text_on_a_terminal() {
    let hostile = format!("{HOSTILE}\\u001b]52;c;eA==\\u0007\\u009b2J\\u007f");
    let playbook =
        format!("version: 1\nworkers: {{ main: [{{ say: \"a\\tb {hostile}\\nlast\" }}] }}\n");
    for more in [&[][..], &["--json"], &["--output", "stream-json"]] {
        let world = world();
        world.write("play.yaml", &playbook);
        let args = [&RUN[..], more].concat();
        let setup = Setup {
            columns: 200,
            piped: false,
            ..USUAL
        };
        // Without the view, which is above.
        let ended = Terminal::start(&world, setup, &[&args[..], &["-q"]].concat()).end();
        assert_eq!(ended.code, Some(0), "{}", ended.screen);
        let raw = ended.raw.replace("\r\n", "\n");
        assert!(
            !raw.contains(['\u{202e}', '\u{9b}', '\u{7f}', '\r', '\u{1b}']),
            "{raw:?}"
        );
        match more {
            [] => {
                assert!(raw.starts_with("a\tb \\x1b[2J\\x1b]0;owned"), "{raw:?}");
                assert!(raw.ends_with("\\x9b2J\\x7f\nlast\n"), "{raw:?}");
            }
            _ => {
                let last = raw.lines().last().unwrap();
                let line: serde_json::Value = serde_json::from_str(last).unwrap();
                let answer = line["report"]["answer"].as_str().unwrap();
                assert!(answer.ends_with("\u{9b}2J\u{7f}\nlast"), "{answer:?}");
            }
        }
        let piped = world.forge(&args);
        let answer = piped.code(0).stdout.as_str();
        if more.is_empty() {
            assert!(answer.ends_with("\u{9b}2J\u{7f}\nlast\n"), "{answer:?}");
        }
    }
}

/// Whatever ends it: the terminal is as it was (which [`Terminal::end`] looks at), and nothing of
/// what moved is left.
#[test]
fn a_signal_leaves_a_terminal_that_works() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for asked in [true, false] {
            let world = world();
            if !asked {
                world.write("play.yaml", SLEEPS);
            }
            let terminal = Terminal::start(&world, USUAL, &RUN);
            terminal.until(if asked { "[?] >" } else { "sleep 100" });
            terminal.signal(signal);
            let ended = terminal.end();
            assert_eq!(ended.code, Some(code), "{}", ended.screen);
            let last = ended.screen.lines().last();
            assert_eq!(last, Some("error: interrupted"), "{}", ended.screen);
            assert_eq!(ended.stdout.as_deref(), Some(""));
        }
    }
}

/// A resized terminal is drawn for as it is.
#[test]
fn the_width_is_followed() {
    let world = world();
    world.write("play.yaml", SLEEPS);
    let setup = Setup {
        columns: 120,
        ..USUAL
    };
    let terminal = Terminal::start(&world, setup, &RUN);
    terminal.until("sleep 100");
    let long = "0".repeat(60);
    assert!(terminal.screen().contains(&long), "{}", terminal.screen());
    terminal.resize(40, 20);
    let screen = terminal.until("000…");
    assert!(!screen.contains(&long), "{screen}");
    terminal.resize(100, 20);
    terminal.until(&long);
    terminal.signal(Signal::TERM);
    let ended = terminal.end();
    assert!(
        !ended.screen.contains("1 turn · 1 call"),
        "{}",
        ended.screen
    );
}

/// Input that ends is not an answer of the person.
#[test]
fn the_end_of_the_input_is_not_an_answer_of_a_person() {
    let world = world();
    let terminal = Terminal::start(&world, USUAL, &RUN);
    terminal.until("[?] >");
    terminal.type_text("\u{4}");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(3));
    let shown = ended.scrolled_by();
    let shown: Vec<&str> = shown.split_whitespace().collect();
    let shown = shown.join(" ");
    assert!(
        shown.contains("the input ended without an answer"),
        "{shown}"
    );
    assert!(!shown.contains("denied by a person"), "{shown}");
}
