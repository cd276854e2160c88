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

    /// The number of the last words of [`Case::words`], which no user stands before.
    fn exec_words(&self) -> usize {
        let user = if self.is_ordinary { 6 } else { 0 };
        self.words("").len() - user
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
    const PLAIN_AGAIN: &str = "\x0f\x1b(B\x1b[0m\x1b[=0;1u\x1b[>4m";
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

/// A row: the command line of a shell at the terminal, with F for `forge exec`.
fn on_a_shell(case: &Case, line: &str, script: &str) -> Terminal {
    let mut words = case.words(script);
    let flag = line.contains("F --json").then(|| "--json".to_owned());
    let at = words.iter().position(|word| word == "exec").unwrap() + 1;
    words.splice(at..at, flag);
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let line = line.replace("F --json", "F").replace('F', &words.join(" "));
    let args = ["--ctty", "--wait", "sh", "-c", &line];
    Terminal::start_program(&case.world, INTERACTIVE, Path::new("setsid"), &args)
}

/// Tests that are a job in the background have SIGINT ignored, and a shell keeps it so.
const DEFAULT_INTERRUPT: [&str; 2] = ["env", "--default-signal=INT"];

/// Ctrl-C ends the shell around forge, as it does without forge: a script, a loop of an interactive
/// shell, a pipeline. A command that handles it and ends by itself does not.
#[test]
fn ctrl_c_ends_the_script_around_forge() {
    const WAITS: &str = "echo started; exec cat";
    const HANDLES: &str = "trap 'exit 3' INT; echo started; cat; exit 3";
    // dash loses a signal that comes just before an exec, so that cat has to answer first.
    let interrupt = |terminal: &Terminal| {
        terminal.until("started");
        terminal.type_text("ready\r");
        terminal.until("ready\nready");
        terminal.type_text("\x03");
    };
    each(|case| {
        for (line, script, goes_on) in [
            ("F; echo after $?", WAITS, false),
            ("while true; do F; echo after $?; done", WAITS, false),
            ("F | cat; echo after $?", WAITS, false),
            ("F; echo after $?", HANDLES, true),
        ] {
            // The shell runs as the user: an ordinary user's forge cannot signal root's shell.
            let words = case.words(script);
            let (user, exec) = words.split_at(words.len() - case.exec_words());
            let exec: Vec<String> = exec.iter().map(|word| quoted(word)).collect();
            let line = line.replace('F', &exec.join(" "));
            let mut args = vec!["--ctty", "--wait"];
            args.extend(user.iter().map(String::as_str));
            args.extend(DEFAULT_INTERRUPT);
            args.extend(["bash", "-c", &line]);
            let terminal =
                Terminal::start_program(&case.world, INTERACTIVE, Path::new("setsid"), &args);
            interrupt(&terminal);
            let ended = terminal.end_with_command();
            let name = case.name();
            let raw = &ended.raw;
            assert_eq!(raw.contains("after"), goes_on, "{name}: {line}: {raw:?}");
        }
        let words: Vec<String> = case.words(WAITS).iter().map(|word| quoted(word)).collect();
        let shell = "set -m; PS1='$ '; export PS1; exec bash --norc --noediting -i";
        let mut args = vec!["--ctty", "--wait"];
        args.extend(DEFAULT_INTERRUPT);
        args.extend(["sh", "-c", shell]);
        let terminal =
            Terminal::start_program(&case.world, INTERACTIVE, Path::new("setsid"), &args);
        let job = case.world.outside().join("job");
        std::fs::write(&job, format!("exec {}\n", words.join(" "))).unwrap();
        let job = job.display();
        terminal.until("$");
        terminal.type_text(&format!(
            "for i in 1 2; do bash {job}; echo round $i; done\r"
        ));
        interrupt(&terminal);
        terminal.until("^C\n$");
        terminal.type_text("echo code $?; exit\r");
        terminal.until("code 130");
        let ended = terminal.end_with_command();
        assert!(
            !ended.raw.contains("round 1"),
            "{}: {}",
            case.name(),
            ended.raw
        );
    });
}

/// Each way to the person's terminal, for each set of streams that are on it: the streams, opened again
/// for writing, and the controlling terminal.
#[test]
fn no_stream_reaches_the_persons_terminal_unfiltered() {
    const ATTACK: &str = "attack() { printf '\\033]52;c;aGVsbG8=\\007\\033]0;title\\007' >\"$1\"; }; \
                          for at in 0 1 2; do [ ! -t $at ] || attack /proc/self/fd/$at; done; \
                          printf '\\033]52;c;aGVsbG8=\\007' >&0; [ ! -t 1 ] || attack /dev/stdout; \
                          printf '\\033]52;c;aGVsbG8=\\007' >&2; attack /dev/tty; exit 3";
    const LINES: [&str; 11] = [
        "F",
        "F 2>errors",
        "F | cat >out; exit 3",
        "F >out",
        "F 2>errors | cat >out; exit 3",
        "cat input | F",
        "F <input",
        "F <input 2>errors",
        "cat input | F | cat >out; exit 3",
        "F <input >out 2>errors",
        "F --json >out",
    ];
    each(|case| {
        case.world.write("input", "");
        for line in LINES {
            let ended = on_a_shell(case, line, ATTACK).end_with_command();
            let name = format!("{}: {line}", case.name());
            assert!(!ended.raw.contains("\x1b]"), "{name}: {:?}", ended.raw);
            assert_eq!(ended.code, Some(3), "{name}: {:?}", ended.raw);
            assert_eq!(
                ended.modes.local_modes, ended.before.local_modes,
                "{name}: {:?}",
                ended.raw
            );
        }
    });
}

/// The output of a pipe is not changed, and the keys are for the program that reads them.
#[test]
fn pipelines_work_as_without_forge() {
    each(|case| {
        let run = |line: &str, script: &str| on_a_shell(case, line, script);
        let bytes = "printf '\\r\\n\\033]0;t\\007'";
        let line = format!("F >piped; {bytes} | cmp - piped");
        let ended = run(&line, &format!("{bytes}; [ ! -t 2 ] || echo screen >&2")).end();
        ends(case, &ended, 0, &["screen"]);
        // The command reads no keys.
        let terminal = run(
            "F | { read -r key </dev/tty; echo \"b got $key\"; cat; }",
            "sleep 0.3; echo a",
        );
        terminal.type_text("typed\r");
        ends(case, &terminal.end(), 0, &["b got typed\r\n", "a\r\n"]);
        // Its modes too, also after the end of forge.
        let line = "F | { stty raw -echo </dev/tty; cat; sleep 0.5; stty -a </dev/tty; stty sane </dev/tty; }";
        let ended = run(line, "echo a").end_with_command();
        ends(case, &ended, 0, &["-isig -icanon"]);
        // A line, from standard input and from the terminal.
        let terminal = run(
            "F | cat",
            "echo ready >&2; read -r line; echo \"got $line\"",
        );
        terminal.until("ready");
        terminal.type_text("words\r");
        ends(case, &terminal.end(), 0, &["got words\r\n"]);
        let terminal = run(
            "echo piped | F | cat",
            "cat; read -r line </dev/tty; echo \"got $line\"",
        );
        terminal.until("piped");
        terminal.type_text("words\r");
        ends(case, &terminal.end(), 0, &["got words\r\n"]);
        // A password.
        let script = "stty -echo </dev/tty; printf 'password: ' >/dev/tty; read -r line </dev/tty; \
                      stty echo </dev/tty; echo \"got $line\"";
        for line in ["F | cat", "echo piped | F", "F >/dev/tty"] {
            let terminal = run(line, script);
            terminal.until("password:");
            terminal.type_text("secret\r");
            let ended = terminal.end();
            ends(case, &ended, 0, &["got secret\r\n"]);
            assert_eq!(ended.raw.matches("secret").count(), 1, "{:?}", ended.raw);
        }
        // Keys one by one, with the cursor anywhere.
        let script = "stty raw -echo </dev/tty; printf ready >/dev/tty; \
                      key=$(dd bs=1 count=1 </dev/tty 2>/dev/null); stty sane </dev/tty; echo \"key $key\"";
        let terminal = run("echo piped | F", script);
        terminal.until("ready");
        terminal.type_text("q");
        ends(case, &terminal.end(), 0, &["key q\r\n"]);
        // Ctrl-C reaches both sides, before and after the command has taken the keys.
        for script in [
            "trap 'echo caught >&2; exit 9' INT; echo ready >&2; while :; do sleep 0.05; done",
            "trap 'echo caught >&2; exit 9' INT; read -r line; echo ready >&2; while :; do sleep 0.05; done",
        ] {
            let line = "trap : INT; F | cat";
            let terminal = run(line, script);
            if script.contains("read") {
                std::thread::sleep(std::time::Duration::from_millis(300));
                terminal.type_text("\r");
            }
            terminal.until("ready");
            terminal.type_text("\x03");
            terminal.until("caught");
            let ended = terminal.end_with_command();
            assert_eq!(
                ended.modes.local_modes,
                ended.before.local_modes,
                "{}",
                case.name()
            );
        }
        let terminal = run(
            "F 2>&1 | cat",
            "trap 'stty size <&2' WINCH; stty size </dev/tty; sleep 0.2; sleep 0.2",
        );
        terminal.until("40 80");
        let _ended = terminal.end();
        let output = run(
            "[ \"$(F)\" = out ] && echo same",
            "echo out; echo shown >&2",
        )
        .end();
        ends(case, &output, 0, &["shown", "same"]);
    });
}

/// A shell with job control: Ctrl-Z stops the pipeline, and `fg` continues it. A command in the
/// background takes no keys of the shell.
#[test]
fn pipelines_stop_and_continue() {
    each(|case| {
        let words = case.words(
            "trap 'echo continued >&2' CONT; echo started >&2; while :; do sleep 0.05; done",
        );
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let shell = "set -m; PS1='$ '; export PS1; exec bash --norc --noediting -i";
        let args = ["--ctty", "--wait", "sh", "-c", shell];
        let terminal =
            Terminal::start_program(&case.world, INTERACTIVE, Path::new("setsid"), &args);
        terminal.until("$");
        let job = case.world.outside().join("job");
        std::fs::write(&job, format!("exec {}\n", words.join(" "))).unwrap();
        terminal.type_text(&format!("bash {} | cat\r", job.display()));
        terminal.until("started");
        terminal.type_text("\x1a");
        terminal.until("Stopped");
        terminal.type_text("echo shell $((40 + 2))\r");
        terminal.until("shell 42");
        terminal.type_text("fg\r");
        terminal.until("continued");
        terminal.type_text("\x03");
        terminal.type_text("echo again $((40 + 3))\r");
        terminal.until("again 43");
        let words = case.words("echo begun >&2; read -r line; echo \"got $line\" >&2");
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        std::fs::write(&job, format!("exec {}\n", words.join(" "))).unwrap();
        terminal.type_text(&format!("bash {} | cat &\r", job.display()));
        terminal.until("begun");
        terminal.type_text("echo shell $((40 + 4))\r");
        terminal.until("shell 44");
        terminal.type_text("fg\r");
        while !is_raw_input(&terminal) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        terminal.type_text("line\r");
        terminal.until("got line\n$");
        terminal.type_text("exit\r");
        let _ended = terminal.end_with_command();
    });
}

fn is_raw_input(terminal: &Terminal) -> bool {
    !terminal.modes().local_modes.contains(LocalModes::ISIG)
}

/// Without a terminal anywhere a command has none either.
#[test]
fn without_a_terminal_nothing_is_relayed() {
    each(|case| {
        let words =
            case.words("[ -t 0 ] || [ -t 1 ] || (: </dev/tty) 2>/dev/null || echo none; cat");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = case.world.command(Path::new("setsid"), &["--wait"]);
        let output = command.args(words).output();
        assert_eq!(output.unwrap().stdout, b"none\n");
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
