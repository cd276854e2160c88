//! `read_file`: text of one file, up to a budget of characters.

use file_sandbox::{ReadOptions, TextSlice, TotalChars};

use super::prelude::*;
use crate::call_result::FailureCode;

/// Characters given back unless the call says otherwise.
const DEFAULT_MAX_CHARS: u32 = 200_000;

/// From here on it is worth telling where a part ended in bytes, so that the next one begins there.
const FAR_BYTES: u64 = 64 * 1024;

/// Most lines that a call can ask for.
const MAX_LINES: u32 = 1_000_000;

arguments! {
    /// The arguments of `read_file`.
    struct ReadFile {
        path: String = super::PATH;
        max_chars: Option<u64> = "Most characters to return.",
            between(1, DEFAULT_MAX_CHARS.into()).default(DEFAULT_MAX_CHARS).alias("maxChars");
        offset: Option<u64> = "Characters to skip first.", default(0);
        byte: Option<u64> = "That offset in bytes, if told.";
        line: Option<u64> = "Instead: begin at this line, from 1.", between(1, i64::MAX);
        lines: Option<u64> = "Most lines, with `line`.", between(1, MAX_LINES.into());
        tail: Option<usize> = "Instead: the last lines, this many.", between(1, MAX_LINES.into());
    }
}

/// The `read_file` tool.
pub(super) fn tool() -> Box<dyn Tool> {
    // Text without a structure: clients pass on either the one or the other.
    Spec::looks(
        "read_file",
        "Read a text file. A long file comes in parts: the reply says when there is more and \
             how to go on.",
    )
    .aliases(&["readFile"])
    .tool::<ReadFile>()
}

/// The part of the file that a call asks for.
enum ReadRange {
    From { offset: u64 },
    Lines { first: u64, count: u64 },
    Tail { lines: usize },
}

impl ReadFile {
    fn range(&self) -> Result<ReadRange, CallFailure> {
        let ways = [
            self.offset.is_some_and(|offset| offset > 0),
            self.line.is_some() || self.lines.is_some(),
            self.tail.is_some(),
        ];
        if ways.iter().filter(|way| **way).count() > 1 {
            return Err(FailureCode::InvalidArguments.failure(
                "Cannot call read_file: `offset`, `line` and `tail` exclude each other.",
            ));
        }
        Ok(match (self.line.or(self.lines.map(|_| 1)), self.tail) {
            (_, Some(lines)) => ReadRange::Tail { lines },
            (Some(first), None) => ReadRange::Lines {
                first,
                count: self.lines.unwrap_or(MAX_LINES.into()),
            },
            (None, None) => ReadRange::From {
                offset: self.offset.unwrap_or(0),
            },
        })
    }
}

impl Invocation for ReadFile {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let path = view.path(&self.path)?;
        self.range()?;
        Ok(vec![Intent::Read(path)])
    }

    fn check(&self, view: &ReadOnlyContext<'_>) -> Result<(), CallFailure> {
        view.check_there(&view.path(&self.path)?)
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        blocking(move || {
            let path = context.path(&self.path)?;
            let max_chars = self.max_chars.unwrap_or(DEFAULT_MAX_CHARS.into());
            let options = ReadOptions::default().max_chars(max_chars);
            let part = self.range()?;
            let options = match part {
                ReadRange::From { offset } => match self.byte {
                    Some(byte) => options.offset(offset).at_byte(byte),
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
