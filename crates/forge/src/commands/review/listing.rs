//! The lists of a review: one line for each change, deletions first. A list is never cut, because
//! what is cut off is not looked at; only generated directories are lines with counts, beside the lines
//! of links that lead out of them and of modes that let others in.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use forge_review::{
    ChangeClass, ChangeKind, ObjectState, PathKind, ReviewStage, ReviewedChange, RunReview,
    TreePath,
};
use forge_tools::rfc3339;

use super::{ProjectReviews, command_line, print_json};
use crate::commands::prelude::*;
use crate::output::local_time::{local_time, recorded_time};
use crate::run_view::count;

/// `forge review list`
pub(super) fn list(ambient: &Ambient, reviews: &ProjectReviews) -> Result<ExitKind, CliError> {
    let global = &ambient.global;
    let mut rows = Vec::new();
    for found in &reviews.found {
        // Lists the changes of a run that ended without that. One that is in use is shown as it is.
        let open = reviews.open(ambient, found);
        let (list, problem) = match &open {
            Ok(open) => (open.review(), None),
            Err(error) => (&found.list, Some(error)),
        };
        rows.push(match global.json {
            true => json_row(list, problem),
            false => Value::String(row(list, problem)),
        });
    }
    if global.json {
        print_json(&json!({ "reviews": rows }))?;
        return Ok(ExitKind::Done);
    }
    if rows.is_empty() {
        print_line("No changes wait for a review.")?;
    } else {
        let rows = rows.iter().filter_map(Value::as_str);
        print_text(rows.collect::<String>())?;
        if !global.quiet {
            stderr::print("hint: forge review show RUN, apply RUN, discard RUN");
        }
    }
    Ok(ExitKind::Done)
}

fn row(list: &RunReview, problem: Option<&CliError>) -> String {
    let state = match problem {
        Some(error) => escape(error.message()),
        None if list.changes().next().is_none() && !list.applied.is_empty() => {
            "all of it is applied: forge review discard removes it".to_owned()
        }
        None => counts(rows(list).iter().map(|row| row.change)),
    };
    format!(
        "{}  {}  {}\n  {state}\n",
        escape(&list.run),
        local_time(started(list)),
        command_line(list)
    )
}

fn json_row(list: &RunReview, problem: Option<&CliError>) -> Value {
    json!({
        "run": list.run,
        "command": list.command,
        "started_at": rfc3339(started(list)),
        "recorded": list.stage == ReviewStage::Recorded,
        "changes": list.changes().count(),
        "deletions": list.changes().filter(|(_, change)| change.removes()).count(),
        "applies": list.applied.len(),
        "problem": problem.map(CliError::message),
    })
}

fn started(list: &RunReview) -> SystemTime {
    recorded_time(Duration::from_millis(list.at_ms))
}

/// Returns the list of a review for people.
pub(crate) fn summary(list: &RunReview) -> String {
    let changes: Vec<Row<'_>> = rows(list);
    if changes.is_empty() {
        return format!("{}no changes\n", quarantined(list));
    }
    let mut text = quarantined(list);
    for (section, title) in SECTIONS {
        let rows = changes.iter().filter(|row| row.section() == section);
        let rows: Vec<String> = rows.map(|row| row.line(list)).collect();
        if !rows.is_empty() {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{title}:\n{}", rows.join("\n"));
        }
    }
    text.push_str(&generated(list, &changes));
    let _ = writeln!(text, "{}", counts(changes.iter().map(|row| row.change)));
    text
}

/// Returns the directories of the review with names that were moved to the quarantine; empty if it has
/// none.
pub(crate) fn quarantined(list: &RunReview) -> String {
    let lines = list.mounts.iter().flat_map(|mount| {
        let dirs = mount.quarantined.iter();
        dirs.map(|path| {
            let path = format!("{}/mounts/{}/copy/{path}", list.run, mount.name);
            format!("  {}/\n", escape(&path))
        })
    });
    let lines: String = lines.collect();
    match lines.is_empty() {
        true => lines,
        false => format!("quarantined, never applied (in the directory of reviews):\n{lines}"),
    }
}

/// One change in the list.
pub(super) struct Row<'a> {
    pub(super) mount: usize,
    pub(super) change: &'a ReviewedChange,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ListSection {
    Removal,
    Protected,
    Trigger,
    Notable,
    Generated,
    Ordinary,
}

/// The sections with a line for each change, in their order.
#[rustfmt::skip]
const SECTIONS: [(ListSection, &str); 5] = [
    (ListSection::Removal, "deletions and replacements"),
    (ListSection::Protected, "protected, applied only with --include-protected PATH"),
    (ListSection::Trigger, "files that other programs execute or obey"),
    (ListSection::Notable, "links, modes and attributes"),
    (ListSection::Ordinary, "changes"),
];

/// A new directory is left out if something in it is listed, and its mode is the usual one.
pub(super) fn rows(list: &RunReview) -> Vec<Row<'_>> {
    let rows = list.changes().map(|(mount, change)| Row { mount, change });
    let mut rows: Vec<Row<'_>> = rows.collect();
    // Paths are in order, so everything in a directory follows it.
    let pairs = rows.windows(2);
    let holds_next = pairs.map(|pair| {
        let (dir, next) = (&pair[0], &pair[1]);
        dir.mount == next.mount && next.change.path.starts_with(&dir.change.path)
    });
    let mut holds_next = holds_next.collect::<Vec<bool>>().into_iter();
    rows.retain(|row| !(holds_next.next() == Some(true) && row.is_plain_directory()));
    rows
}

impl Row<'_> {
    /// Returns the generated directory that the list counts the change in.
    pub(super) fn counted_in(&self) -> Option<&TreePath> {
        match &self.change.class {
            ChangeClass::Generated { below } if self.section() == ListSection::Generated => {
                Some(below)
            }
            _ => None,
        }
    }

    fn section(&self) -> ListSection {
        let change = self.change;
        // A deletion inside a generated directory is counted there.
        let is_inside =
            matches!(&change.class, ChangeClass::Generated { below } if *below != change.path);
        match &change.class {
            _ if change.removes() && !is_inside => ListSection::Removal,
            ChangeClass::Protected { .. } => ListSection::Protected,
            ChangeClass::Trigger { .. } => ListSection::Trigger,
            ChangeClass::Generated { below } if self.is_notable_in(below) => ListSection::Notable,
            ChangeClass::Generated { .. } => ListSection::Generated,
            ChangeClass::Ordinary if self.is_notable() => ListSection::Notable,
            ChangeClass::Ordinary => ListSection::Ordinary,
        }
    }

    /// Returns `true` for a link that leads out of a directory of generated files, and for a mode
    /// that more than an executable file of this person has.
    fn is_notable_in(&self, dir: &TreePath) -> bool {
        let change = self.change;
        let Some(after) = &change.after else {
            return false;
        };
        if let Some(target) = &after.target {
            let target = Path::new(OsStr::from_bytes(&target.0));
            let up = target
                .components()
                .filter(|name| *name == Component::ParentDir);
            let depth = change.path.names().len() - dir.names().len();
            return target.is_absolute() || up.count() >= depth;
        }
        let before = change.before.as_ref().map_or(0, |before| before.mode);
        after.mode & !before & !(0o777 & !*UMASK) != 0
    }

    /// Returns the mode and the attributes of an object, as far as they differ from those before, or
    /// from those of a new object of this person.
    fn metadata(&self) -> Vec<String> {
        let Some(after) = self.change.after.as_ref() else {
            return Vec::new();
        };
        let before = self.change.before.as_ref();
        let before = before.filter(|before| before.kind == after.kind);
        let plain = match after.kind {
            PathKind::File => 0o666 & !*UMASK,
            PathKind::Directory => 0o777 & !*UMASK,
            _ => after.mode,
        };
        let mut notes = Vec::new();
        match before {
            Some(before) if before.mode != after.mode => {
                notes.push(format!("mode {:04o} → {:04o}", before.mode, after.mode));
            }
            None if after.mode != plain => notes.push(format!("mode {:04o}", after.mode)),
            Some(_) | None => {}
        }
        if before.map_or(&BTreeMap::new(), |before| &before.attributes) != &after.attributes {
            notes.push("attributes".to_owned());
        }
        notes
    }

    /// Returns `true` if the contents are not the whole of a difference.
    pub(super) fn is_notable(&self) -> bool {
        let after = self.change.after.as_ref();
        after.is_some_and(|after| after.kind == PathKind::Link) || !self.metadata().is_empty()
    }

    /// Returns the notes of the list for programs.
    pub(super) fn notes(&self, list: &RunReview) -> Vec<String> {
        let detail = detail(list, self.mount, self.change);
        detail.into_iter().chain(self.metadata()).collect()
    }

    /// Returns `true` for a new directory with the usual mode.
    fn is_plain_directory(&self) -> bool {
        let after = self.change.after.as_ref();
        let is_dir = after.is_some_and(|after| after.kind == PathKind::Directory);
        is_dir && self.change.kind == ChangeKind::Added && !self.is_notable()
    }

    pub(super) fn line(&self, list: &RunReview) -> String {
        let change = self.change;
        let path = escape(&shown_path(list, self.mount, &change.path));
        let slash = match (&change.before, &change.after) {
            (_, Some(state)) | (Some(state), None) if state.kind == PathKind::Directory => "/",
            _ => "",
        };
        let mut notes = self.notes(list);
        match &change.class {
            ChangeClass::Protected { pattern } => {
                notes.push(format!("protected: {}", escape(pattern)))
            }
            ChangeClass::Trigger { why } => notes.push(escape(why)),
            ChangeClass::Generated { .. } | ChangeClass::Ordinary => {}
        }
        if change.changed_below {
            notes.push("changed in the project meanwhile: it cannot be applied".to_owned());
        }
        if !change.is_applicable() {
            notes.push("a pipe, socket or device: it cannot be applied".to_owned());
        }
        let notes = match notes.is_empty() {
            true => String::new(),
            false => format!("  ({})", notes.join("; ")),
        };
        format!("  {:<9} {path}{slash}{notes}", verb(change.kind))
    }
}

/// The bits that a new object of this person does not have.
static UMASK: LazyLock<u32> = LazyLock::new(|| {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = umask.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    umask.unwrap_or(0o022)
});

/// Returns the path of a change as it is printed and typed.
pub(super) fn shown_path(list: &RunReview, mount: usize, path: &TreePath) -> String {
    match list.mounts.as_slice() {
        [_] => path.to_string(),
        mounts => format!("{}/{path}", mounts[mount].name),
    }
}

pub(super) fn verb(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "added",
        ChangeKind::Modified => "modified",
        ChangeKind::Metadata => "mode",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Replaced => "replaced",
        ChangeKind::TypeChanged => "replaced",
    }
}

fn detail(list: &RunReview, mount: usize, change: &ReviewedChange) -> Option<String> {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    match change.kind {
        ChangeKind::Added => after.map(object),
        ChangeKind::Modified => Some(match (before, after) {
            (Some(before), Some(after)) if after.kind == PathKind::Link => {
                format!("{} → {}", object(before), object(after))
            }
            (Some(before), Some(after)) if before.size != after.size => {
                format!("{} → {} bytes", before.size, after.size)
            }
            (_, Some(after)) => object(after),
            (_, None) => return None,
        }),
        // Those of its metadata tell it.
        ChangeKind::Metadata => None,
        ChangeKind::Deleted => before.map(object),
        ChangeKind::Replaced => {
            let inside = list.changes().filter(|(m, other)| {
                *m == mount && other.path != change.path && other.path.starts_with(&change.path)
            });
            Some(format!(
                "removed and made again: {}",
                counts(inside.map(|(_, change)| change))
            ))
        }
        ChangeKind::TypeChanged => Some(format!("{} → {}", object(before?), object(after?))),
    }
}

/// Returns the kind and size of an object.
pub(super) fn object(state: &ObjectState) -> String {
    match (state.kind, &state.tree) {
        (_, Some(tree)) => format!(
            "directory with {}, {}",
            count(tree.entries, "object"),
            count(tree.bytes, "byte")
        ),
        (PathKind::File, None) => match index_entries(state) {
            Some("1") => "1 entry of git's index".to_owned(),
            Some(count) => format!("{count} entries of git's index"),
            None => count(state.size, "byte"),
        },
        (PathKind::Directory, None) => "directory".to_owned(),
        (PathKind::Link, None) => {
            let target = state.target.as_ref().map(|target| target.0.as_slice());
            let target = String::from_utf8_lossy(target.unwrap_or_default());
            format!("link to {}", escape(&target))
        }
        (PathKind::Pipe, None) => "pipe".to_owned(),
        (PathKind::Socket, None) => "socket".to_owned(),
        (PathKind::Device, None) => "device".to_owned(),
    }
}

/// Returns the number of entries, of a state that is an index of git.
fn index_entries(state: &ObjectState) -> Option<&str> {
    let entries = state.content.as_deref()?.strip_prefix("git-index:")?;
    entries.split_once(':').map(|(count, _)| count)
}

fn generated(list: &RunReview, rows: &[Row<'_>]) -> String {
    let mut roots: BTreeMap<(usize, &TreePath), Vec<&ReviewedChange>> = BTreeMap::new();
    for row in rows {
        if let Some(below) = row.counted_in() {
            let root = roots.entry((row.mount, below)).or_default();
            root.push(row.change);
        }
    }
    if roots.is_empty() {
        return String::new();
    }
    let lines = roots.into_iter().map(|((mount, below), changes)| {
        let path = escape(&shown_path(list, mount, below));
        format!("  {path}/  {}\n", counts(changes.into_iter()))
    });
    format!("generated directories:\n{}", lines.collect::<String>())
}

/// `3 added, 1 modified, 2 deleted`.
pub(super) fn counts<'a>(changes: impl Iterator<Item = &'a ReviewedChange>) -> String {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut conflicts = 0;
    for change in changes {
        *numbers.entry(verb(change.kind)).or_default() += 1;
        conflicts += usize::from(change.changed_below);
    }
    if numbers.is_empty() {
        return "no changes".to_owned();
    }
    let order = ["deleted", "replaced", "modified", "mode", "added"];
    let parts = order.iter().filter_map(|verb| {
        let number = numbers.get(verb)?;
        Some(match *verb {
            "mode" => format!("{number} with another mode or attribute"),
            verb => format!("{number} {verb}"),
        })
    });
    let mut text = parts.collect::<Vec<_>>().join(", ");
    if conflicts > 0 {
        let _ = write!(text, "; {conflicts} changed in the project meanwhile");
    }
    text
}
