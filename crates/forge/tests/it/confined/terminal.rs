//! `forge exec` on a terminal: the command gets one of forge's own, which does what the person's does.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use rustix::termios::LocalModes;

use crate::support::{World, copy_forge};
use crate::terminal::pty::{Ended, Setup, Terminal, USUAL};

/// All three streams on the terminal.
const INTERACTIVE: Setup<'static> = Setup {
    piped: false,
    ..USUAL
};

/// The user of a test that root starts.
const ORDINARY: &str = "65534";

/// A user, and a mechanism that works for it here.
struct Case {
    world: World,
    mechanism: &'static str,
    is_ordinary: bool,
}

/// Runs a test for each mechanism: as this user, and as an ordinary one if this one is root.
#[expect(clippy::print_stderr, reason = "a skip is said")]
fn each(test: impl Fn(&Case)) {
    let is_root = rustix::process::geteuid().is_root();
    let mut ran = 0;
    for mechanism in ["namespaces", "bubblewrap", "landlock"] {
        for is_ordinary in [false, true].into_iter().filter(|other| is_root || !other) {
            let case = Case::new(mechanism, is_ordinary);
            let words = case.words("true");
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut probe = case.world.command(Path::new(words[0]), &words[1..]);
            if !probe.output().unwrap().status.success() {
                eprintln!("skipped: {mechanism} does not work here");
                continue;
            }
            ran += 1;
            test(&case);
        }
    }
    assert!(ran > 0, "this host confines nothing");
}

impl Case {
    fn new(mechanism: &'static str, is_ordinary: bool) -> Case {
        let world = World::new(&[]);
        copy_forge(&world.outside().join("forge"), b"");
        if is_ordinary {
            let mut chown = Command::new("chown");
            chown.arg("-R").arg(format!("{ORDINARY}:{ORDINARY}"));
            assert!(chown.arg(world.outside()).status().unwrap().success());
        }
        Case {
            world,
            mechanism,
            is_ordinary,
        }
    }

    /// The words that run a script of sh in `forge exec`.
    fn words(&self, script: &str) -> Vec<String> {
        let forge = self.world.outside().join("forge");
        let forge = forge.to_str().unwrap();
        let user = ["setpriv", "--reuid", ORDINARY, "--regid", ORDINARY];
        let user: &[&str] = if self.is_ordinary { &user } else { &[] };
        let user_rest: &[&str] = if self.is_ordinary {
            &["--clear-groups"]
        } else {
            &[]
        };
        let exec = [
            forge,
            "exec",
            "--mechanism",
            self.mechanism,
            "--",
            "sh",
            "-c",
            script,
        ];
        let words = user.iter().chain(user_rest).chain(&exec);
        words.map(|word| (*word).to_owned()).collect()
    }

    /// Starts a script on a terminal that is the controlling one of forge.
    fn start(&self, script: &str) -> Terminal {
        self.start_on(INTERACTIVE, script)
    }

    fn start_on(&self, setup: Setup<'_>, script: &str) -> Terminal {
        let words = self.words(script);
        let mut args = vec!["--ctty", "--wait"];
        args.extend(words.iter().map(String::as_str));
        Terminal::start_program(&self.world, setup, Path::new("setsid"), &args)
    }

    fn name(&self) -> String {
        format!("{} (ordinary: {})", self.mechanism, self.is_ordinary)
    }
}

fn ends(case: &Case, ended: &Ended, code: i32, texts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}: {}", case.name(), ended.raw);
    for text in texts {
        assert!(
            ended.raw.contains(text),
            "{}: no {text:?} in {:?}",
            case.name(),
            ended.raw
        );
    }
}

fn is_raw(terminal: &Terminal) -> bool {
    !terminal.modes().local_modes.contains(LocalModes::ICANON)
}

/// The name is true inside. Under Landlock alone it is one of the host's devpts, of which the command
/// can open no other: not the person's, whose name the script gets.
#[test]
fn a_terminal_has_a_name_and_the_size_of_the_persons() {
    each(|case| {
        let inside = "tty; stty size; exec 3<>\"$(tty)\" && echo opened; exec 3<>/dev/tty && echo by tty; \
                      [ \"$(tty)\" = \"$1\" ] || (exec 3<>\"$1\") 2>/dev/null || echo others closed";
        let words = case.words(inside);
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let outer = format!("exec {} sh \"$(tty)\"", words.join(" "));
        let args = ["--ctty", "--wait", "sh", "-c", &outer];
        let terminal =
            Terminal::start_program(&case.world, INTERACTIVE, Path::new("setsid"), &args);
        let ended = terminal.end();
        let name = match case.mechanism {
            "landlock" => "/dev/pts/",
            _ => "/dev/pts/0\r\n",
        };
        ends(
            case,
            &ended,
            0,
            &[name, "40 80\r\n", "opened\r\n", "by tty\r\n"],
        );
        if case.mechanism == "landlock" {
            ends(case, &ended, 0, &["others closed"]);
        }
    });
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[test]
fn keys_and_sizes_reach_the_command() {
    each(|case| {
        let script = "trap 'echo caught; exit 9' INT; trap 'stty size' WINCH; read -r line; \
                      echo \"got $line\"; echo ready; while :; do sleep 0.05; done";
        let terminal = case.start(script);
        terminal.type_text("some words\r");
        terminal.until("got some words");
        terminal.until("ready");
        terminal.resize(120, 50);
        terminal.until("50 120");
        terminal.type_text("\x03");
        let ended = terminal.end();
        ends(case, &ended, 9, &["caught"]);
        assert!(
            ended
                .modes
                .local_modes
                .contains(LocalModes::ICANON | LocalModes::ECHO)
        );
    });
}

/// A shell with job control starts forge: Ctrl-Z gives it the terminal as it was, and `fg` continues
/// with the size that the window has by then.
#[test]
fn ctrl_z_stops_forge_and_fg_continues() {
    each(|case| {
        let words = case.words("echo started; exec cat");
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let shell = "set -m; PS1='$ '; export PS1; exec bash --norc --noediting -i";
        let args = ["--ctty", "--wait", "sh", "-c", shell];
        let terminal =
            Terminal::start_program(&case.world, INTERACTIVE, Path::new("setsid"), &args);
        terminal.until("$");
        let before = terminal.modes();
        let job = case.world.outside().join("job");
        std::fs::write(&job, format!("exec {}\n", words.join(" "))).unwrap();
        terminal.type_text(&format!("bash {}\r", job.display()));
        terminal.until("started");
        assert!(is_raw(&terminal), "{}", case.name());
        terminal.type_text("one\r");
        terminal.until("one\none");
        terminal.type_text("\x1a");
        terminal.until("Stopped");
        terminal.type_text("echo shell $((40 + 2))\r");
        terminal.until("shell 42");
        assert_eq!(terminal.modes().local_modes, before.local_modes);
        assert_eq!(terminal.modes().input_modes, before.input_modes);
        terminal.resize(100, 30);
        terminal.type_text("fg\r");
        while !is_raw(&terminal) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        terminal.type_text("two\r");
        terminal.until("two\ntwo");
        terminal.type_text("\x04");
        // Input that is typed before the shell's prompt can be lost.
        terminal.until("two\ntwo\n$");
        terminal.type_text("echo code $?; exit\r");
        terminal.until("code 0");
        let ended = terminal.end_with_command();
        ends(case, &ended, 0, &[]);
    });
}

/// Without a shell that would continue it, Ctrl-Z does nothing, as outside.
#[test]
fn ctrl_z_without_job_control_goes_on() {
    each(|case| {
        let terminal = case.start("echo started; exec cat");
        terminal.until("started");
        terminal.type_text("\x1a");
        terminal.type_text("typed\r");
        terminal.until("typed\ntyped");
        terminal.type_text("\x04");
        ends(case, &terminal.end(), 0, &[]);
    });
}

#[test]
fn output_is_complete_and_unchanged() {
    const PASSES: &str = "\x1b[?1049h\x1b[1;38;2;1;2;3mcolour\x1b[0m\x1b[?2004h\x1b[>1u\x1b[?2026h\
                          \x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\日本語 \x1bPq#0~~\x1b\\\
                          \x1b_Ga=q;AAAA\x1b\\\x1b[?2026l\x1b[<u\x1b[?2004l\x1b[?1049l";
    // After any sequence: letters, attributes, inserting, and the coding of keys.
    const PLAIN_AGAIN: &str = "\x0f\x1b(B\x1b[0m\x1b[4l\x1b[=0;1u\x1b[>4m";
    each(|case| {
        case.world.write("passes", PASSES);
        let ended = case
            .start("seq 1 60000; cat passes; printf last; exit 7")
            .end_with_command();
        let numbers: String = (1..=60000).map(|number| format!("{number}\r\n")).collect();
        assert_eq!(ended.code, Some(7), "{}", case.name());
        assert!(
            ended.raw == format!("{numbers}{PASSES}last{PLAIN_AGAIN}"),
            "{}: {} bytes",
            case.name(),
            ended.raw.len()
        );
    });
}

#[test]
fn the_clipboard_and_the_title_are_not_the_commands() {
    each(|case| {
        let script = "printf 'a\\033]52;c;aGVsbG8=\\007b\\033]0;title\\033\\\\c\\033[21td\\n'; sleep 0.1; \
                      printf 'e\\033]'; sleep 0.1; printf '2;title'; sleep 0.1; printf '\\007f\\n'";
        let ended = case.start(script).end();
        let note = "note: not passed on to your terminal: 1 use of the clipboard, \
                    2 window titles, 1 question whose answer is typed";
        ends(case, &ended, 0, &["abcd\r\nef\r\n", note]);
        assert!(!ended.raw.contains('\x1b'), "{:?}", ended.raw);
    });
}

/// However the command or forge ends, the terminal is as before.
#[test]
fn the_terminal_is_given_back() {
    each(|case| {
        let terminal = case.start("stty raw -echo; echo started; read -r key; kill -9 $$");
        let before = terminal.before.local_modes;
        terminal.until("started");
        assert!(is_raw(&terminal));
        terminal.type_text("\n");
        let ended = terminal.end();
        ends(case, &ended, 137, &[]);
        assert_eq!(ended.modes.local_modes, before, "{}", case.name());
        let terminal = case.start("trap '' TERM HUP INT; echo started; while :; do sleep 1; done");
        terminal.until("started");
        terminal.signal(Signal::TERM);
        let ended = terminal.end();
        ends(case, &ended, 143, &[]);
        assert_eq!(ended.modes.local_modes, before, "{}", case.name());
    });
}

/// A shell that never sets modes starts forge, and goes on once forge is stopped or ended by a signal
/// to forge itself.
#[test]
fn a_signal_to_forge_gives_the_terminal_back() {
    const SCRIPT: &str = "trap 'echo repaint' CONT; trap 'stty size' WINCH; trap '' TSTP; echo started; \
                          while :; do read -r line && echo \"got $line\"; sleep 0.05; done";
    // SIGSTOP cannot be held back: it leaves the modes until `fg`.
    for (signal, group, goes_on, is_given_back) in [
        (Signal::TSTP, false, true, true),
        (Signal::STOP, false, true, false),
        (Signal::KILL, false, false, true),
        (Signal::KILL, true, false, true),
        (Signal::ABORT, false, false, true),
    ] {
        each(|case| {
            let name = format!("{}, {signal:?} of the group: {group}", case.name());
            let words = case.words(SCRIPT);
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            let job = case.world.outside().join("job");
            let pid = job.with_extension("pid");
            let text = format!("echo $$ >{}; exec {}\n", pid.display(), words.join(" "));
            std::fs::write(&job, text).unwrap();
            let shell = format!(
                "set -m; sh {}; echo shell has it; read -r line; {}",
                job.display(),
                if goes_on { "fg" } else { "" }
            );
            let args = ["--ctty", "--wait", "sh", "-c", &shell];
            let terminal =
                Terminal::start_program(&case.world, INTERACTIVE, Path::new("setsid"), &args);
            terminal.until("started");
            let wait_raw = || {
                while !is_raw(&terminal) {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            };
            wait_raw();
            let forge = std::fs::read_to_string(&pid).unwrap();
            let forge = rustix::process::Pid::from_raw(forge.trim().parse().unwrap()).unwrap();
            match group {
                true => rustix::process::kill_process_group(forge, signal).unwrap(),
                false => rustix::process::kill_process(forge, signal).unwrap(),
            }
            terminal.until("shell has it");
            let before = &terminal.before;
            let begun = std::time::Instant::now();
            while is_given_back && terminal.modes().local_modes != before.local_modes {
                assert!(
                    begun.elapsed().as_secs() < 10,
                    "{name}: the terminal is raw"
                );
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let now = terminal.modes();
            assert_eq!(is_raw(&terminal), !is_given_back, "{name}");
            if is_given_back {
                assert_eq!(now.input_modes, before.input_modes, "{name}");
                assert_eq!(now.output_modes, before.output_modes, "{name}");
            }
            terminal.resize(100, 30);
            terminal.type_text("\n");
            if goes_on {
                terminal.until("30 100");
                terminal.until("repaint");
                wait_raw();
                terminal.type_text("typed\r");
                terminal.until("got typed");
                rustix::process::kill_process(forge, Signal::TERM).unwrap();
            }
            let modes = before.local_modes;
            assert_eq!(
                terminal.end_with_command().modes.local_modes,
                modes,
                "{name}"
            );
        });
    }
}

/// As in a pipe: nothing is relayed.
#[test]
fn without_a_terminal_at_both_ends_nothing_is_relayed() {
    each(|case| {
        let ended = case
            .start_on(
                USUAL,
                "[ -t 0 ] && [ ! -t 1 ] && echo input only; printf '\\033]0;t\\007'",
            )
            .end();
        assert_eq!(ended.stdout.as_deref(), Some("input only\n\x1b]0;t\x07"));
        let words = case.words("[ -t 0 ] || [ -t 1 ] || echo neither; cat");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = case
            .world
            .command(Path::new(words[0]), &words[1..])
            .output();
        assert_eq!(output.unwrap().stdout, b"neither\n");
    });
}

#[test]
fn tmux_runs_inside() {
    each(|case| {
        // Under Landlock alone local sockets are refused.
        if case.mechanism == "landlock" || !Path::new("/usr/bin/tmux").exists() {
            eprintln!("skipped: tmux, {}", case.mechanism);
            return;
        }
        let terminal = case.start("SHELL=/bin/sh exec tmux -f /dev/null -L t new-session");
        terminal.until("[0]");
        terminal.type_text("echo pane $((40 + 2)); tty\r");
        terminal.until("pane 42");
        terminal.until("/dev/pts/1");
        terminal.resize(100, 30);
        // tmux takes a moment, and its pane has a line less.
        terminal.type_text("until stty size | grep 29.100; do sleep 0.1; done\r");
        terminal.until("29 100");
        terminal.type_text("exit\r");
        let ended = terminal.end_with_command();
        ends(case, &ended, 0, &["[exited]"]);
    });
}
