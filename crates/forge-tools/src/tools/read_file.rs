//! `read_file`: text of one file, up to a budget of characters.

use file_sandbox::{ReadOptions, TotalChars};

use crate::call::{Failure, Reply};
use crate::gate::Intent;
use crate::hands::{Hands, View};
use crate::params::{Arguments, Param, Params};
use crate::spec::{Annotations, PreferredRunner, Risk, Spec};
use crate::tool::{BoxFuture, Tool, blocking};

/// Characters given back unless the call says otherwise (F004-07).
const DEFAULT_MAX_CHARS: i64 = 200_000;

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
    ReadFile(Spec {
        name: "read_file".to_owned(),
        aliases: &["readFile"],
        description: "Read a text file. A long file comes in parts: the reply says when \
                      there is more and at which offset. Binary files are refused."
            .to_owned(),
        params: Params::new([
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
        ]),
        // The text is all there is: clients pass on either the text or the structure.
        output: None,
        risk: Risk::ReadOnly,
        preferred_runner: PreferredRunner::Local,
        needs_network: false,
        requires_permission: false,
        annotations: Annotations::READ,
    })
}

impl Tool for ReadFile {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn decide(&self, args: &Arguments, view: &View<'_>) -> Result<Vec<Intent>, Failure> {
        let path = view.path(args.text("path").unwrap_or_default())?;
        Ok(vec![Intent::Read(path)])
    }

    fn run<'a>(&'a self, args: Arguments, hands: Hands) -> BoxFuture<'a, Result<Reply, Failure>> {
        blocking(move || {
            let files = hands.files()?;
            let path = files.path(args.text("path").unwrap_or_default())?;
            let options = ReadOptions::default()
                .max_chars(to_count(args.integer("max_chars"), DEFAULT_MAX_CHARS))
                .offset(to_count(args.integer("offset"), 0));
            let text = files.read(&path, options)?;
            if !text.truncated {
                return Ok(Reply::text(text.content));
            }
            let next = text.offset + text.chars;
            let total = match text.total_chars {
                TotalChars::Exact(count) => count.to_string(),
                TotalChars::AtLeast(count) => format!("at least {count}"),
            };
            Ok(Reply::text(format!(
                "{}\n[cut here: characters {} to {next} of {total}; continue with offset {next}]",
                text.content, text.offset
            )))
        })
    }
}

fn to_count(given: Option<i64>, default: i64) -> u64 {
    u64::try_from(given.unwrap_or(default)).unwrap_or(u64::MAX)
}
