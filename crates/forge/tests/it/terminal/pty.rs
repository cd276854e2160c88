//! The program on a terminal of the test's own: a pseudo terminal, and behind it an emulator that
//! says what a person would see.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::pty::OpenptFlags;
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::support::{World, forge_program};

/// A test that waits longer hangs.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) struct Terminal {
    child: Child,
    master: File,
    seen: Arc<Mutex<Seen>>,
    reader: JoinHandle<()>,
    stdout: Option<JoinHandle<String>>,
    /// The modes before the program started.
    pub(crate) before: Termios,
}

pub(crate) struct Seen {
    emulator: vt100::Parser,
    raw: Vec<u8>,
    /// When each piece came, and where in `raw` it ends.
    came: Vec<(Instant, usize)>,
}

/// How the program is started.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    pub(crate) columns: u16,
    pub(crate) rows: u16,
    pub(crate) env: &'a [(&'a str, &'a str)],
    /// Whether standard output is a pipe, and not the terminal as well.
    pub(crate) piped: bool,
}

pub(crate) const USUAL: Setup<'static> = Setup {
    columns: 80,
    rows: 40,
    env: &[("TERM", "xterm-256color")],
    piped: true,
};

impl Terminal {
    pub(crate) fn start(world: &World, setup: Setup<'_>, args: &[&str]) -> Self {
        Terminal::start_program(world, setup, forge_program(), args)
    }

    /// The same of a program that starts it.
    pub(crate) fn start_program(
        world: &World,
        setup: Setup<'_>,
        program: &Path,
        args: &[&str],
    ) -> Self {
        Terminal::start_command(setup, world.command(program, args))
    }

    /// The same of a prepared command.
    pub(crate) fn start_command(setup: Setup<'_>, mut command: Command) -> Self {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let slave = || -> OwnedFd {
            let open = File::options()
                .read(true)
                .write(true)
                .open(name.to_str().unwrap());
            open.unwrap().into()
        };
        let first = slave();
        tcsetwinsize(&first, size(setup.columns, setup.rows)).unwrap();
        let before = tcgetattr(&first).unwrap();
        command.envs(setup.env.iter().copied());
        command.stdin(slave()).stderr(slave());
        command.stdout(match setup.piped {
            true => Stdio::piped(),
            false => slave().into(),
        });
        let mut child = command.spawn().unwrap();
        drop(command);
        drop(first);
        let stdout = child.stdout.take().map(|mut stdout| {
            std::thread::spawn(move || {
                let mut text = String::new();
                stdout.read_to_string(&mut text).unwrap();
                text
            })
        });
        let some = |number| NonZeroU16::new(number).unwrap();
        let seen = Arc::new(Mutex::new(Seen {
            emulator: vt100::Parser::new(some(setup.rows), some(setup.columns), 1000),
            raw: Vec::new(),
            came: Vec::new(),
        }));
        let master = File::from(master);
        let mut from = master.try_clone().unwrap();
        let sees = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut some = [0; 65536];
            // The end of a pseudo terminal is an error.
            while let Ok(n @ 1..) = from.read(&mut some) {
                let now = Instant::now();
                let mut seen = sees.lock().unwrap();
                seen.emulator.process(&some[..n]);
                seen.raw.extend_from_slice(&some[..n]);
                let end = seen.raw.len();
                seen.came.push((now, end));
            }
        });
        Terminal {
            child,
            master,
            seen,
            reader,
            stdout,
            before,
        }
    }

    /// What a person sees now.
    pub(crate) fn screen(&self) -> String {
        shown(self.seen.lock().unwrap().emulator.screen())
    }

    /// Waits until the screen holds this.
    #[track_caller]
    pub(crate) fn until(&self, text: &str) -> String {
        self.until_times(text, 1)
    }

    /// Waits until the screen holds this so often.
    #[track_caller]
    pub(crate) fn until_times(&self, text: &str, times: usize) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if screen.matches(text).count() >= times {
                return screen;
            }
            assert!(
                begun.elapsed() < PATIENCE && !self.reader.is_finished(),
                "{text:?} is not on the screen {times} times:\n{screen}"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// When a text came that was not there before.
    pub(crate) fn came(&self, text: &str) -> Option<Instant> {
        let seen = self.seen.lock().unwrap();
        let at = seen
            .raw
            .windows(text.len())
            .position(|window| window == text.as_bytes())?;
        let end = at + text.len();
        let found = seen.came.iter().find(|(_, piece)| *piece >= end);
        found.map(|(when, _)| *when)
    }

    pub(crate) fn type_text(&self, text: &str) {
        (&self.master).write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        tcsetwinsize(self.master.as_fd(), size(columns, rows)).unwrap();
        let some = |number| NonZeroU16::new(number).unwrap();
        let mut seen = self.seen.lock().unwrap();
        seen.emulator.set_size(some(rows), some(columns));
    }

    pub(crate) fn modes(&self) -> Termios {
        tcgetattr(&self.master).unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the end of a program that writes nothing but its own.
    pub(crate) fn end(self) -> Ended {
        let ended = self.end_with_command();
        let screen = &ended.emulator;
        assert!(!screen.hide_cursor(), "the cursor is hidden");
        assert!(!screen.alternate_screen() && !screen.bracketed_paste());
        only_ours(&ended.raw);
        ended
    }

    /// Waits for the end of a program that passes on what a command writes.
    pub(crate) fn end_with_command(mut self) -> Ended {
        let begun = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                // As a shell says it.
                let by_signal = || status.signal().map(|number| 128 + number);
                break status.code().or_else(by_signal);
            }
            if begun.elapsed() > PATIENCE {
                let _ = self.child.kill();
                panic!("it does not end:\n{}", self.screen());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.reader.join().unwrap();
        let stdout = self.stdout.map(|stdout| stdout.join().unwrap());
        let seen = self.seen.lock().unwrap();
        let screen = seen.emulator.screen();
        Ended {
            code,
            stdout,
            screen: shown(screen),
            raw: String::from_utf8(seen.raw.clone()).unwrap(),
            modes: tcgetattr(&self.master).unwrap(),
            before: self.before,
            emulator: screen.clone(),
        }
    }
}

pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// Where it was a pipe.
    pub(crate) stdout: Option<String>,
    pub(crate) screen: String,
    pub(crate) raw: String,
    /// Of the terminal, at the end.
    pub(crate) modes: Termios,
    /// Before the program started.
    pub(crate) before: Termios,
    emulator: vt100::Screen,
}

impl Ended {
    /// Without the last lines, which name where the run is kept.
    pub(crate) fn scrolled_by(&self) -> String {
        let lines = self.screen.lines();
        let own: Vec<&str> = lines.take_while(|line| !line.contains("kept in")).collect();
        own.join("\n")
    }
}

/// Nothing came but text, new lines, colours, and moves up and down with what they erase: no other
/// sequence, and so no mode.
#[track_caller]
fn only_ours(text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(char::is_control) {
        let c = rest[at..].chars().next().unwrap();
        rest = &rest[at + c.len_utf8()..];
        match c {
            '\r' | '\n' | '\t' => {}
            // The bell of a question.
            '\u{7}' if rest.starts_with("\r\n") => {}
            '\u{1b}' => {
                let sequence = rest.strip_prefix('[').unwrap_or_else(|| panic!("{text:?}"));
                let digits = sequence.trim_start_matches(|c: char| c.is_ascii_digit());
                let end = digits.chars().next();
                assert!(
                    end.is_some_and(|end| "mABJK".contains(end)),
                    "{end:?} in {text:?}"
                );
            }
            other => panic!("{other:?} in {text:?}"),
        }
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn shown(screen: &vt100::Screen) -> String {
    let (_, columns) = screen.size();
    let rows: Vec<String> = screen
        .rows(0, columns.get())
        .map(|row| row.trim_end().to_owned())
        .collect();
    rows.join("\n").trim_end().to_owned()
}
