//! `forge stage show` and `forge stage diff`: all of a staged commit, or only its changes.

use std::time::SystemTime;

use forge_git::{StagedCommit, StagedFile};

use super::format::{age, lines, size};
use super::{all, find_commit, format, print_json};
use crate::commands::prelude::*;
use crate::output::diff_rows::DiffRow;
use crate::output::escape::{escape, escape_lines};
use crate::output::local_time::local_time;
use crate::state::staging::Staging;

/// `forge stage show`
pub(super) fn show(
    ambient: &Ambient,
    staging: &Staging,
    id: Option<&str>,
) -> Result<ExitKind, CliError> {
    let list = all(staging)?;
    let commit = find_commit(&list, id)?;
    if ambient.global.json {
        print_json(&format::json(commit, true))?;
        return Ok(ExitKind::Done);
    }
    let mut text = String::new();
    let mut row = |label: &str, value: &str| {
        text.push_str(&format!("{label:<9}{}\n", escape(value)));
    };
    row("id", commit.id().as_str());
    row("repo", &commit.repo().to_string());
    row("branch", commit.branch().as_str());
    let at = local_time(commit.created_at());
    row(
        "staged",
        &format!("{at} ({})", age(commit, SystemTime::now())),
    );
    match commit.base() {
        Some(base) => row("base", base.as_str()),
        None => row("base", "none: the branch is new"),
    }
    row("files", &size(commit.files()));
    text.push_str("\nmessage\n");
    for line in commit.message().split_terminator('\n') {
        let line = format!("    {}", escape_lines(line));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str("\nfiles\n");
    for file in commit.files() {
        text.push_str(&format!("    {}\n", listed(file)));
    }
    text.push('\n');
    text.push_str(&diff_of(commit, ambient.colour_of_result));
    print_text(text)?;
    Ok(ExitKind::Done)
}

/// `forge stage diff`: of one, or of all of them.
pub(super) fn diff(
    ambient: &Ambient,
    staging: &Staging,
    id: Option<&str>,
) -> Result<ExitKind, CliError> {
    let list = all(staging)?;
    let wanted: Vec<&StagedCommit> = match id {
        Some(_) => vec![find_commit(&list, id)?],
        None => list.commits.iter().collect(),
    };
    if ambient.global.json {
        let diffs = wanted
            .iter()
            .map(|commit| json!({ "commitId": commit.id().as_str(), "diff": commit.diff() }));
        print_json(&json!({ "diffs": diffs.collect::<Vec<_>>() }))?;
        return Ok(ExitKind::Done);
    }
    let all: String = wanted
        .into_iter()
        .map(|commit| diff_of(commit, ambient.colour_of_result))
        .collect();
    print_text(all)?;
    Ok(ExitKind::Done)
}

/// `update  a.md  +1 -1`
fn listed(file: &StagedFile) -> String {
    let size = match lines(file) {
        Some(lines) => format!("+{} -{}", lines.added, lines.removed),
        None => format!(
            "not shown, {}",
            crate::run_view::count(file.bytes(), "byte")
        ),
    };
    let mode = match file.becomes_executable() {
        true => "  becomes executable",
        false => "",
    };
    let operation = file.operation().as_str();
    format!(
        "{operation}  {}  {size}{mode}",
        escape(file.path().as_str())
    )
}

/// Returns the rows of the differences.
fn diff_of(commit: &StagedCommit, colour: bool) -> String {
    let mut text = String::new();
    for file in commit.files() {
        let rows = file.diff().split_terminator('\n');
        let before = rows.clone().count().saturating_sub(file.rows().count());
        for (number, row) in rows.enumerate() {
            let kind = match number < before {
                true => DiffRow::Heading,
                false => DiffRow::of(row),
            };
            text.push_str(&kind.paint(row, colour));
        }
    }
    text
}
