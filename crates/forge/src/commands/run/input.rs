//! The input of a worker: words, a file, or standard input, read with the rights of the caller.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::attach::NamedFiles;
use crate::cli::{Global, RunArgs};
use crate::commands::prelude::*;

/// More than any model reads.
const MAX_INPUT_BYTES: u64 = 4 * 1024 * 1024;

/// How long the first byte of a pipe may take.
///
/// Why: programs start forge with a pipe that they never write to, and never close.
const FIRST_BYTE_TIMEOUT_S: i64 = 3;

/// The input of the entry worker.
pub(super) fn input(
    args: &RunArgs,
    global: &Global,
    files: &mut NamedFiles<'_>,
) -> Result<String, CliError> {
    let words = args.input.join(" ");
    match args.file.as_deref() {
        // Whoever names it waits for its end.
        Some(file) if file == Path::new("-") => Ok(with_standard_input(words, standard_input()?)),
        Some(_) if !words.is_empty() => Err(CliError::usage(
            "INPUT and --file exclude each other, but for `-f -`, which adds standard input",
        )),
        Some(file) => files.read_text(file, MAX_INPUT_BYTES, UNREADABLE),
        // A run that is resumed has its input.
        None if args.resume.is_some() || !is_redirected() => Ok(words),
        None => {
            let is_ready = has_first_byte()?;
            match (words.is_empty(), is_ready) {
                (true, false) if !global.quiet => {
                    stderr::print("note: reading the input from standard input, up to its end");
                }
                // The model misses something that a person may have meant for it.
                (false, false) => stderr::print(format!(
                    "warning: nothing came from standard input in {FIRST_BYTE_TIMEOUT_S} s, and it is \
                     not read\n  hint: `-f -` waits for its end, `< /dev/null` does not wait"
                )),
                _ => {}
            }
            match words.is_empty() || is_ready {
                true => Ok(with_standard_input(words, standard_input()?)),
                false => Ok(words),
            }
        }
    }
}

/// Adds the text of standard input to the words, so that a model can tell them apart.
fn with_standard_input(words: String, text: String) -> String {
    match (words.is_empty(), text.trim()) {
        (true, _) => text,
        (false, "") => words,
        (false, _) => format!("{words}\n\n<stdin>\n{}\n</stdin>", text.trim_end()),
    }
}

/// Returns `true` if standard input is a pipe, a socket or a file: not a terminal, and not
/// `/dev/null`.
fn is_redirected() -> bool {
    let copy = std::io::stdin().as_fd().try_clone_to_owned();
    let facts = copy.and_then(|copy| std::fs::File::from(copy).metadata());
    facts.is_ok_and(|facts| {
        let kind = facts.file_type();
        kind.is_file() || kind.is_fifo() || kind.is_socket()
    })
}

/// Waits for the first byte, or the end, of standard input.
fn has_first_byte() -> Result<bool, CliError> {
    let timeout = Timespec {
        tv_sec: FIRST_BYTE_TIMEOUT_S,
        tv_nsec: 0,
    };
    let stdin = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    loop {
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(unreadable(format!("cannot read standard input: {error}"))),
        }
    }
}

fn standard_input() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_INPUT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(format!("cannot read standard input: {error}")))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_INPUT_BYTES {
        let message = format!("standard input is larger than {MAX_INPUT_BYTES} bytes");
        return Err(unreadable(message));
    }
    String::from_utf8(bytes).map_err(|_| unreadable("standard input is not UTF-8".to_owned()))
}

const UNREADABLE: &str = "run.input";

fn unreadable(message: String) -> CliError {
    CliError::misuse(UNREADABLE, message)
}
