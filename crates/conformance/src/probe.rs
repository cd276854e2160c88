//! The confined target: makes one attempt after the other and prints one line for each: `ok TEXT`,
//! `errno N` or `error TEXT`.

use crate::verb::Verb;
use crate::verdict::Seen;
use crate::world::{MODE, TIME_S, WRITTEN};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitCode};

/// `--probe VERB WORD… VERB WORD… …`: each verb knows how many words it takes.
pub(crate) fn main() -> ExitCode {
    let mut words = std::env::args_os()
        .skip(2)
        .map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        let Ok(verb) = Verb::parse(&word) else {
            println!("error no such verb: {word}");
            return ExitCode::FAILURE;
        };
        let args: Vec<String> = words.by_ref().take(verb.words()).collect();
        let line = match attempt(verb, &args) {
            Ok(text) => format!("ok {}", text.escape_debug()),
            Err(error) => match error.raw_os_error() {
                Some(errno) => format!("errno {errno}"),
                None => format!("error {error}"),
            },
        };
        println!("{line}");
    }
    ExitCode::SUCCESS
}

fn attempt(verb: Verb, words: &[String]) -> io::Result<String> {
    let word = |index: usize| {
        words
            .get(index)
            .map(String::as_str)
            .ok_or_else(|| io::Error::other("a word is missing"))
    };
    let none = |()| String::new();
    let first = if verb.words() > 0 { word(0)? } else { "" };
    let write = |options: &OpenOptions| {
        let written = options.open(first)?.write_all(WRITTEN.as_bytes());
        written.map(none)
    };
    match verb {
        Verb::Read => fs::read_to_string(first),
        Verb::List => Ok(fs::read_dir(first)?.count().to_string()),
        Verb::Stat => fs::metadata(first).map(|_| String::new()),
        Verb::Readlink => fs::read_link(first).map(|to| to.display().to_string()),
        Verb::Write => write(OpenOptions::new().write(true).truncate(true)),
        Verb::Create => write(OpenOptions::new().write(true).create_new(true)),
        Verb::Append => write(OpenOptions::new().append(true)),
        Verb::Truncate => nix::unistd::truncate(first, 0)
            .map(none)
            .map_err(Into::into),
        Verb::Delete => fs::remove_file(first).map(none),
        Verb::Rmdir => fs::remove_dir(first).map(none),
        Verb::Mkdir => fs::create_dir(first).map(none),
        Verb::Copy => {
            let bytes = fs::read(first)?;
            fs::write(word(1)?, bytes).map(none)
        }
        Verb::Rename => fs::rename(first, word(1)?).map(none),
        Verb::Hardlink => fs::hard_link(first, word(1)?).map(none),
        Verb::Symlink => std::os::unix::fs::symlink(first, word(1)?).map(none),
        Verb::Chmod => fs::set_permissions(first, fs::Permissions::from_mode(MODE)).map(none),
        Verb::Setid => fs::set_permissions(first, fs::Permissions::from_mode(0o4755)).map(none),
        Verb::Times => {
            let time = TimeSpec::new(i64::try_from(TIME_S).map_err(io::Error::other)?, 0);
            let here = nix::fcntl::AT_FDCWD;
            utimensat(here, first, &time, &time, UtimensatFlags::FollowSymlink)
                .map(none)
                .map_err(Into::into)
        }
        Verb::Execute => {
            let output = Command::new(first).output()?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Verb::Tcp => TcpStream::connect(("127.0.0.1", number(first)?)).map(|_| String::new()),
        // UDP does not acknowledge packets, but the local host reports a closed port.
        Verb::Udp => {
            let socket = UdpSocket::bind(("127.0.0.1", 0))?;
            socket.connect(("127.0.0.1", number(first)?))?;
            socket.send(b"x")?;
            std::thread::sleep(std::time::Duration::from_millis(5));
            socket.send(b"x").map(|_| String::new())
        }
        Verb::Listen => TcpListener::bind(("127.0.0.1", 0)).map(|_| String::new()),
        Verb::OwnLoopback => {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            TcpStream::connect(listener.local_addr()?).map(|_| String::new())
        }
        Verb::Unix => UnixStream::connect(first).map(|_| String::new()),
        Verb::Abstract => crate::host::abstract_connect(first).map(none),
        Verb::Pair => {
            let (mut one, mut other) = UnixStream::pair()?;
            one.write_all(b"x")?;
            other.read_exact(&mut [0]).map(none)
        }
        Verb::Bind => {
            let place = std::env::temp_dir().join("own.sock");
            let listener = UnixListener::bind(&place)?;
            drop(listener);
            fs::remove_file(place).map(none)
        }
        Verb::Signal => {
            kill(Pid::from_raw(number(first)?), Signal::SIGTERM).map_err(io::Error::from)?;
            // Why: the runner checks afterwards that the process has ended.
            std::thread::sleep(std::time::Duration::from_millis(20));
            Ok(String::new())
        }
        Verb::SignalOwn => {
            let mut child = Command::new("sleep").arg("600").spawn()?;
            let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
            kill(Pid::from_raw(pid), Signal::SIGTERM).map_err(io::Error::from)?;
            child.wait().map(|_| String::new())
        }
        Verb::Descriptor => fs::symlink_metadata(format!("/dev/fd/{first}")).map(|_| String::new()),
        Verb::Variable => std::env::var(first).map_err(|_| io::Error::from_raw_os_error(2)),
    }
}

fn number<T: std::str::FromStr>(word: &str) -> io::Result<T> {
    word.parse()
        .map_err(|_| io::Error::other(format!("not a number: {word}")))
}

/// Parses the output of the probe.
pub(crate) fn answers(text: &str, count: usize) -> Result<Vec<Seen>, String> {
    let seen: Vec<Seen> = text
        .lines()
        .map(|line| match line.split_once(' ') {
            Some(("ok", said)) => Ok(Seen::Through(said.to_owned())),
            Some(("errno" | "error", _)) => Ok(Seen::Denied(line.to_owned())),
            Some(_) | None => Err(format!("not an answer: {line}")),
        })
        .collect::<Result<_, _>>()?;
    if seen.len() == count {
        Ok(seen)
    } else {
        Err(format!("{} answers for {count} cases", seen.len()))
    }
}
