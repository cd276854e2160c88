//! `read_file`: text of one file, up to a budget of characters.

use file_sandbox::{ReadOptions, TextSlice, TotalChars};

use crate::call::{CallFailure, FailureCode, Reply};
use crate::gate::Intent;
use crate::params::{Arguments, Param};
use crate::spec::Spec;
use crate::tool::{BoxFuture, Tool, blocking};
use crate::tool_context::{ReadOnlyContext, ToolContext};

/// Characters given back unless the call says otherwise (F004-07).
const DEFAULT_MAX_CHARS: i64 = 200_000;

/// From here on it is worth telling where a part ended in bytes, so that the next one begins there.
const FAR_BYTES: u64 = 64 * 1024;

/// Most lines that a call can ask for.
const MAX_LINES: i64 = 1_000_000;

/// Reads a text file.
///
/// ```
/// use forge_tools::{Tool, tools};
/// assert!(tools::read_file().spec().answers_to("readFile"));
/// ```
#[derive(Debug)]
pub struct ReadFile(Spec);

/// The `read_file` tool.
pub fn read_file() -> ReadFile {
    // Text without a structure: clients pass on either the one or the other.
    ReadFile(
        Spec::looks(
            "read_file",
            "Read a text file. A long file comes in parts: the reply says when there is more and \
             how to go on.",
        )
        .aliases(&["readFile"])
        .params([
            Param::text("path", super::PATH).required(),
            Param::integer(
                "max_chars",
                "Most characters to return.",
                1,
                DEFAULT_MAX_CHARS,
            )
            .default(DEFAULT_MAX_CHARS)
            .alias("maxChars"),
            Param::integer("offset", "Characters to skip first.", 0, i64::MAX).default(0),
            Param::integer("byte", "That offset in bytes, if told.", 0, i64::MAX),
            Param::integer("line", "Instead: begin at this line, from 1.", 1, i64::MAX),
            Param::integer("lines", "Most lines, with `line`.", 1, MAX_LINES),
            Param::integer("tail", "Instead: the last lines, this many.", 1, MAX_LINES),
        ]),
    )
}

/// The part of the file that a call asks for.
enum ReadRange {
    From { offset: u64 },
    Lines { first: u64, count: u64 },
    Tail { lines: usize },
}

fn part(args: &Arguments) -> Result<ReadRange, CallFailure> {
    let (offset, line) = (args.integer("offset"), args.integer("line"));
    let (lines, tail) = (args.integer("lines"), args.integer("tail"));
    let ways = [
        offset.is_some_and(|offset| offset > 0),
        line.is_some() || lines.is_some(),
        tail.is_some(),
    ];
    if ways.iter().filter(|way| **way).count() > 1 {
        return Err(CallFailure::new(
            FailureCode::InvalidArguments,
            "Cannot call read_file: `offset`, `line` and `tail` exclude each other.",
        ));
    }
    Ok(match (line.or(lines.map(|_| 1)), tail) {
        (_, Some(lines)) => ReadRange::Tail {
            lines: usize::try_from(lines).unwrap_or(usize::MAX),
        },
        (Some(first), None) => ReadRange::Lines {
            first: to_count(Some(first), 1),
            count: to_count(lines, MAX_LINES),
        },
        (None, None) => ReadRange::From {
            offset: to_count(offset, 0),
        },
    })
}

impl Tool for ReadFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        part(args)?;
        Ok(vec![Intent::Read(path)])
    }

    fn check(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        view.check_there(&view.path(args.text("path").unwrap_or_default())?)
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        blocking(move || {
            let path = context.path(args.text("path").unwrap_or_default())?;
            let max_chars = to_count(args.integer("max_chars"), DEFAULT_MAX_CHARS);
            let options = ReadOptions::default().max_chars(max_chars);
            let part = part(&args)?;
            let options = match part {
                ReadRange::From { offset } => match args.integer("byte") {
                    Some(byte) => options.offset(offset).at_byte(to_count(Some(byte), 0)),
                    None => options.offset(offset),
                },
                ReadRange::Lines { first, count } => options.lines(first, count),
                ReadRange::Tail { lines } => options.tail(lines),
            };
            let text = context.files()?.read(&path, options)?;
            if text.content.is_empty() && text.total_chars == TotalChars::Exact(0) {
                return Ok(Reply::text("[empty file]"));
            }
            let note = note(&text, &part);
            Ok(Reply::text(match note {
                Some(note) => format!("{}\n[{note}]", text.content),
                None => text.content,
            }))
        })
    }
}

/// The note about the hidden part of the file, and how to continue.
fn note(text: &TextSlice, part: &ReadRange) -> Option<String> {
    let encoding =
        (text.encoding.is_guessed()).then(|| format!("read as {}", text.encoding.name()));
    let total = match text.total_chars {
        TotalChars::Exact(count) => count.to_string(),
        TotalChars::AtLeast(count) => format!("at least {count}"),
    };
    let byte = text.next_byte.filter(|byte| *byte >= FAR_BYTES);
    let byte = byte.map_or_else(String::new, |byte| format!(", byte {byte}"));
    let cut = match part {
        ReadRange::From { .. } | ReadRange::Lines { .. } if !text.truncated => None,
        ReadRange::Tail { .. } if !text.truncated => None,
        ReadRange::Tail { .. } => Some(format!("the end of a file of {total} characters")),
        ReadRange::From { .. } => {
            let next = text.offset + text.chars;
            let from = text.offset;
            Some(format!(
                "cut here: characters {from} to {next} of {total}; continue with offset {next}{byte}"
            ))
        }
        ReadRange::Lines { .. } => {
            let next = text.offset + text.chars;
            Some(format!(
                "the file goes on, {total} characters in all; continue with offset {next}{byte}"
            ))
        }
    };
    match (cut, encoding) {
        (Some(cut), Some(encoding)) => Some(format!("{cut}; {encoding}")),
        (cut, encoding) => cut.or(encoding),
    }
}

fn to_count(given: Option<i64>, default: i64) -> u64 {
    u64::try_from(given.unwrap_or(default)).unwrap_or(u64::MAX)
}
