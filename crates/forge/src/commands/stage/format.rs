//! A staged commit as people and programs see it.

use std::time::SystemTime;

use forge_git::{StagedCommit, StagedFile};
use forge_tools::rfc3339;
use serde_json::{Value, json};

/// Digits of an id that are shown: they count time, to less than a millisecond.
const SHORT: usize = 12;

/// Added and removed lines of text files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LineCounts {
    pub(super) added: u64,
    pub(super) removed: u64,
}

/// Counts the lines of one file; `None` for a binary file, which has sizes instead of a difference.
pub(super) fn lines(file: &StagedFile) -> Option<LineCounts> {
    let count = |sign| {
        let rows = file.rows().filter(|row| row.starts_with(sign)).count();
        u64::try_from(rows).unwrap_or(u64::MAX)
    };
    file.is_text().then(|| LineCounts {
        added: count('+'),
        removed: count('-'),
    })
}

/// `3 files +10 -2`.
pub(super) fn size<'a>(files: impl IntoIterator<Item = &'a StagedFile>) -> String {
    let files: Vec<&StagedFile> = files.into_iter().collect();
    let counted = files.iter().copied().filter_map(lines);
    let sum = counted.fold(LineCounts::default(), |sum, lines| LineCounts {
        added: sum.added + lines.added,
        removed: sum.removed + lines.removed,
    });
    let noun = if files.len() == 1 { "file" } else { "files" };
    format!("{} {noun} +{} -{}", files.len(), sum.added, sum.removed)
}

/// Describes the age: `just now`, `5m ago`, `3h ago`, `12d ago`.
pub(super) fn age(commit: &StagedCommit, now: SystemTime) -> String {
    let seconds = now
        .duration_since(commit.created_at())
        .map_or(0, |since| since.as_secs());
    match seconds {
        0..60 => "just now".to_owned(),
        60..3600 => format!("{}m ago", seconds / 60),
        3600..86_400 => format!("{}h ago", seconds / 3600),
        86_400.. => format!("{}d ago", seconds / 86_400),
    }
}

/// Returns the shortest prefix of each ID that is unique.
pub(super) fn short_ids(commits: &[StagedCommit]) -> Vec<&str> {
    let ids: Vec<&str> = commits.iter().map(|commit| commit.id().as_str()).collect();
    let tells = |digits: &usize| {
        // They are in order, so those that begin alike are neighbours.
        let cut = |id: &&str| id.get(..*digits).unwrap_or_default().to_owned();
        let mut cuts: Vec<String> = ids.iter().map(cut).collect();
        cuts.dedup();
        cuts.len() == ids.len()
    };
    let digits = (SHORT..32).find(tells).unwrap_or(32);
    ids.iter()
        .map(|id| id.get(..digits).unwrap_or(id))
        .collect()
}

/// For programs. With its differences only where they are asked for.
pub(super) fn json(commit: &StagedCommit, with_diffs: bool) -> Value {
    let file = |file: &StagedFile| {
        let lines = lines(file);
        let mut object = json!({
            "path": file.path().as_str(),
            "operation": file.operation().as_str(),
            "bytes": file.bytes(),
            "becomesExecutable": file.becomes_executable(),
            "added": lines.map(|lines| lines.added),
            "removed": lines.map(|lines| lines.removed),
        });
        if with_diffs {
            object["diff"] = file.diff().into();
        }
        object
    };
    json!({
        "commitId": commit.id().as_str(),
        "repo": commit.repo().to_string(),
        "branch": commit.branch().as_str(),
        "message": commit.message(),
        "createdAt": rfc3339(commit.created_at()),
        "base": commit.base().map(|base| base.as_str()),
        "files": commit.files().iter().map(file).collect::<Vec<Value>>(),
    })
}
