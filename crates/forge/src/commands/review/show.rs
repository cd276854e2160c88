//! `forge review show`: the list of a run, and the differences of its files.

use std::ffi::OsString;

use forge_review::{
    ChangeClass, ChangeKind, DiffHunk, FileDiff, ObjectState, OpenReview, PathKind, ReviewedChange,
};

use super::listing::{Row, object, rows, shown_path, summary};
use super::select::paths;
use super::{ProjectReviews, command_line, failed, print_json};
use crate::commands::prelude::*;
use crate::output::diff_rows::DiffRow;

pub(super) fn show(
    ambient: &Ambient,
    reviews: &ProjectReviews,
    words: &[OsString],
) -> Result<ExitKind, CliError> {
    let (found, words) = reviews.choose(words)?;
    let review = reviews.open(ambient, found)?;
    let wanted = paths(&ambient.global, review.review(), words)?;
    let is_wanted = |mount: usize, change: &ReviewedChange| {
        let mut wanted = wanted.iter();
        words.is_empty() || wanted.any(|(m, path)| *m == mount && change.path.starts_with(path))
    };
    if ambient.global.json {
        let changes = review.review().changes();
        let rows = changes.filter(|(mount, change)| is_wanted(*mount, change));
        let rows = rows.map(|(mount, change)| json_of(&review, &Row { mount, change }));
        let rows = rows.collect::<Result<Vec<Value>, CliError>>()?;
        print_json(&json!({
            "run": review.review().run,
            "command": review.review().command,
            "changes": rows,
            "applied": review.review().applied,
        }))?;
        return Ok(ExitKind::Done);
    }
    let mut text = String::new();
    if words.is_empty() {
        let list = review.review();
        text = format!("{}  {}\n", escape(&list.run), command_line(list));
        text.push_str(&summary(list));
    }
    for row in rows(review.review()) {
        // Generated files are many: they are shown if they are named.
        let is_generated = matches!(row.change.class, ChangeClass::Generated { .. });
        if is_generated && words.is_empty() || !is_wanted(row.mount, row.change) {
            continue;
        }
        text.push_str(&diff_text(&review, &row, ambient.colour_of_result)?);
    }
    print_text(&text)?;
    Ok(ExitKind::Done)
}

fn json_of(review: &OpenReview, row: &Row<'_>) -> Result<Value, CliError> {
    let Row { mount, change } = *row;
    let diff = review.diff(mount, change).map_err(|error| failed(&error))?;
    let notes = row.notes(review.review());
    let mut row = serde_json::to_value(change)
        .map_err(|error| CliError::negative("review", error.to_string()))?;
    row["mount"] = json!(review.review().mounts[mount].name);
    row["applicable"] = json!(change.is_applicable());
    row["notes"] = json!(notes);
    match diff {
        FileDiff::Text(hunks) => {
            let hunk = |hunk: &DiffHunk| json!({"number": hunk.number, "text": hunk.text});
            row["hunks"] = hunks.iter().map(hunk).collect();
        }
        FileDiff::Binary => row["binary"] = json!(true),
        FileDiff::ChangedBelow => row["changed_below"] = json!(true),
        FileDiff::None => {}
    }
    Ok(row)
}

/// Returns the rows of one file's difference.
fn diff_text(review: &OpenReview, listed: &Row<'_>, colour: bool) -> Result<String, CliError> {
    let (list, change) = (review.review(), listed.change);
    let path = escape(&shown_path(list, listed.mount, &change.path));
    let row = |kind: DiffRow, text: &str| kind.paint(text, colour);
    let diff = review.diff(listed.mount, change);
    let diff = diff.map_err(|error| failed(&error))?;
    let mut text = String::new();
    if diff == FileDiff::None || listed.is_notable() {
        text = row(DiffRow::Heading, listed.line(list).trim_start());
    }
    text.push_str(&match diff {
        FileDiff::None => String::new(),
        FileDiff::ChangedBelow => row(
            DiffRow::Heading,
            &format!("{path}: changed in the project meanwhile, it cannot be applied"),
        ),
        FileDiff::Binary => {
            let (old, new) = (change.before.as_ref(), change.after.as_ref());
            [
                row(DiffRow::Heading, &format!("binary or large file {path}")),
                row(DiffRow::Removed, &format!("- {}", content_of(old))),
                row(DiffRow::Added, &format!("+ {}", content_of(new))),
            ]
            .concat()
        }
        FileDiff::Text(hunks) => {
            let side = |state: Option<&ObjectState>| match state.map(|state| state.kind) {
                Some(PathKind::File) => path.as_str(),
                Some(_) | None => "/dev/null",
            };
            let (old, new) = (side(change.before.as_ref()), side(change.after.as_ref()));
            let headings = [format!("--- {old}"), format!("+++ {new}")];
            // The hunks of other changes cannot be chosen.
            let is_numbered = change.kind == ChangeKind::Modified;
            let headings = headings.iter().map(|text| row(DiffRow::Heading, text));
            let hunks = hunks
                .iter()
                .map(|hunk| hunk_text(hunk, is_numbered, colour));
            headings.chain(hunks).collect()
        }
    });
    Ok(text)
}

fn hunk_text(hunk: &DiffHunk, is_numbered: bool, colour: bool) -> String {
    let (position, rows) = hunk.text.split_once('\n').unwrap_or((&hunk.text, ""));
    // Behind the second @@, where a diff may have any text.
    let position = match is_numbered {
        true => format!("{position} hunk {}", hunk.number),
        false => position.to_owned(),
    };
    let rows = rows.split_terminator('\n');
    let rows = rows.map(|row| DiffRow::of(row).paint(row, colour));
    std::iter::once(DiffRow::Hunk.paint(&position, colour))
        .chain(rows)
        .collect()
}

fn content_of(state: Option<&ObjectState>) -> String {
    match state {
        Some(state) => {
            let content = state.content.as_deref().unwrap_or("other kind of object");
            format!("{}, {content}", object(state))
        }
        None => "none".to_owned(),
    }
}
