//! `forge review show`: the list of a run, and the differences of its files.

use std::ffi::OsString;

use forge_review::{
    ChangeClass, ChangeKind, DiffHunk, FileDiff, ObjectState, OpenReview, PathKind, ReviewedChange,
};
use serde_json::{Value, json};

use super::listing::{shown_path, summary};
use super::select::paths;
use super::{ProjectReviews, command_line, failed, print_json, print_text};
use crate::ambient::Ambient;
use crate::cli::Global;
use crate::exit::{CliError, ExitKind};
use crate::output::escape::{escape, escape_lines};

const RED: u8 = 31;
const GREEN: u8 = 32;
const CYAN: u8 = 36;
const BOLD: u8 = 1;

pub(super) fn show(
    global: &Global,
    ambient: &Ambient,
    reviews: &ProjectReviews,
    words: &[OsString],
) -> Result<ExitKind, CliError> {
    let (found, words) = reviews.choose(words)?;
    let review = reviews.open(found)?;
    let wanted = paths(global, review.review(), words)?;
    let is_wanted = |mount: usize, change: &ReviewedChange| {
        let mut wanted = wanted.iter();
        words.is_empty() || wanted.any(|(m, path)| *m == mount && change.path.starts_with(path))
    };
    let changes = review.review().changes();
    let changes: Vec<(usize, &ReviewedChange)> = changes
        .filter(|(mount, change)| is_wanted(*mount, change))
        .collect();
    if global.json {
        let rows = changes
            .iter()
            .map(|(mount, change)| json_of(&review, *mount, change));
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
    for (mount, change) in changes {
        // Generated files are many: they are shown if they are named.
        let is_generated = matches!(change.class, ChangeClass::Generated { .. });
        if is_generated && words.is_empty() {
            continue;
        }
        text.push_str(&diff_text(
            &review,
            mount,
            change,
            ambient.colour_of_result,
        )?);
    }
    print_text(&text)?;
    Ok(ExitKind::Done)
}

fn json_of(review: &OpenReview, mount: usize, change: &ReviewedChange) -> Result<Value, CliError> {
    let diff = review.diff(mount, change).map_err(|error| failed(&error))?;
    let mut row = serde_json::to_value(change)
        .map_err(|error| CliError::new(ExitKind::Negative, "review", error.to_string()))?;
    row["mount"] = json!(review.review().mounts[mount].name);
    row["applicable"] = json!(change.is_applicable());
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

/// Returns the rows of one file's difference, with invisible characters escaped.
fn diff_text(
    review: &OpenReview,
    mount: usize,
    change: &ReviewedChange,
    colour: bool,
) -> Result<String, CliError> {
    let path = escape(&shown_path(review.review(), mount, &change.path));
    let paint = DiffPaint { colour };
    Ok(
        match review.diff(mount, change).map_err(|error| failed(&error))? {
            FileDiff::None => String::new(),
            FileDiff::ChangedBelow => paint.row(
                Some(BOLD),
                &format!("{path}: changed in the project meanwhile, it cannot be applied"),
            ),
            FileDiff::Binary => {
                let side = |sign: &str, state| format!("{sign} {}", escape(&content_of(state)));
                [
                    paint.row(Some(BOLD), &format!("binary or large file {path}")),
                    paint.row(Some(RED), &side("-", change.before.as_ref())),
                    paint.row(Some(GREEN), &side("+", change.after.as_ref())),
                ]
                .concat()
            }
            FileDiff::Text(hunks) => {
                let side = |state: Option<&ObjectState>| match state.map(|state| state.kind) {
                    Some(PathKind::File) => path.clone(),
                    Some(_) | None => "/dev/null".to_owned(),
                };
                let (old, new) = (side(change.before.as_ref()), side(change.after.as_ref()));
                let mut text = paint.row(Some(BOLD), &format!("--- {old}\n+++ {new}"));
                // The hunks of other changes cannot be chosen.
                let is_numbered = change.kind == ChangeKind::Modified;
                for hunk in &hunks {
                    text.push_str(&paint.hunk(hunk, is_numbered));
                }
                text
            }
        },
    )
}

fn content_of(state: Option<&ObjectState>) -> String {
    match state {
        Some(state) => {
            let content = state.content.as_deref().unwrap_or("other kind of object");
            format!("{} bytes, {content}", state.size)
        }
        None => "none".to_owned(),
    }
}

struct DiffPaint {
    colour: bool,
}

impl DiffPaint {
    fn row(&self, number: Option<u8>, row: &str) -> String {
        match number.filter(|_| self.colour) {
            Some(number) => format!("\u{1b}[{number}m{row}\u{1b}[0m\n"),
            None => format!("{row}\n"),
        }
    }

    fn hunk(&self, hunk: &DiffHunk, is_numbered: bool) -> String {
        let rows = hunk.text.split_terminator('\n').enumerate();
        let row = |(at, row): (usize, &str)| {
            let row = escape_lines(row);
            if at == 0 {
                // Behind the second @@, where a diff may have any text.
                return match is_numbered {
                    true => self.row(Some(CYAN), &format!("{row} hunk {}", hunk.number)),
                    false => self.row(Some(CYAN), &row),
                };
            }
            let number = match row.as_bytes().first() {
                Some(b'+') => Some(GREEN),
                Some(b'-') => Some(RED),
                Some(_) | None => None,
            };
            self.row(number, &row)
        };
        rows.map(row).collect()
    }
}
