//! `forge stage status`: one line for each staged commit.

use std::time::SystemTime;

use forge_git::StagedList;

use super::format::{age, short_ids, size};
use super::{all, format, print_json};
use crate::commands::prelude::*;
use crate::output::escape::{escape, shortened};
use crate::state::staging::Staging;

/// Longest first line of a message.
const MAX_MESSAGE_CHARS: usize = 72;

pub(super) fn status(global: &Global, staging: &Staging) -> Result<ExitKind, CliError> {
    let StagedList { commits, damaged } = all(staging)?;
    if global.json {
        let rows: Vec<Value> = commits
            .iter()
            .map(|commit| format::json(commit, false))
            .collect();
        let damaged: Vec<Value> = damaged
            .iter()
            .map(|damaged| json!({ "commitId": damaged.id.as_str(), "why": damaged.why.message() }))
            .collect();
        print_json(&json!({ "staged": rows, "damaged": damaged }))?;
        return Ok(ExitKind::Done);
    }
    if commits.is_empty() && damaged.is_empty() {
        print_line("Nothing is staged.")?;
        return Ok(ExitKind::Done);
    }
    let now = SystemTime::now();
    for (commit, id) in commits.iter().zip(short_ids(&commits)) {
        let first = commit.message().lines().next().unwrap_or_default();
        print_line(format_args!(
            "{id}  {}  {} {}  {}  {}",
            age(commit, now),
            escape(&commit.repo().to_string()),
            escape(commit.branch().as_str()),
            size(commit.files()),
            shortened(escape(first), MAX_MESSAGE_CHARS),
        ))?;
    }
    for damaged in damaged {
        print_line(format_args!(
            "{}  damaged  {}",
            damaged.id,
            escape(damaged.why.message())
        ))?;
    }
    if !global.quiet {
        stderr::print(
            "`forge stage show ID` shows one whole, `forge stage push ID` asks and pushes it, \
             `forge stage discard ID` throws it away",
        );
    }
    Ok(ExitKind::Done)
}
