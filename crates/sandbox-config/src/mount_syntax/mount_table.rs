//! The mount table that every front-end is lowered to, and its invariants: no two rows at one path,
//! no file under two sets of rights, no name that the system needs.
//!
//! A row may be below another one: as a part of it (`/vendor` below `/` is the directory `vendor`
//! of the mount at `/`), or as another directory, which covers the outer one's there. The deepest
//! row has a path. No file is shown twice, so rights differ by path, never by name.

use std::collections::BTreeMap;
use std::path::Path;

use sandbox_names::SYSTEM_DIRECTORIES;

use crate::grant::mount::Mount;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::Reports;
use crate::syntax::text::Span;

/// A row, and where the file says it.
#[derive(Debug)]
pub(crate) struct MountEntry {
    pub(crate) mount: Mount,
    /// The name in messages: a zone's name, a mount's target, a listed path as written.
    pub(crate) shown: String,
    /// Location of its name.
    pub(crate) named_at: Span,
    /// Location of its host path.
    pub(crate) path_at: Span,
}

/// Check the rows against each other; in the file's order.
pub(crate) fn finish(reports: &mut Reports, rows: Vec<MountEntry>, noun: &str) -> Vec<Mount> {
    report_twins(reports, &rows, noun);
    report_targets(reports, &rows, noun);
    report_overlaps(reports, &rows, noun);
    rows.into_iter().map(|row| row.mount).collect()
}

fn report_twins(reports: &mut Reports, rows: &[MountEntry], noun: &str) {
    let mut folded: BTreeMap<String, &MountEntry> = BTreeMap::new();
    for row in rows {
        let Some(twin) = folded.insert(row.mount.target.to_lowercase(), row) else {
            continue;
        };
        if twin.mount.target == row.mount.target {
            continue;
        }
        let message = format!(
            "{noun}s `{}` and `{}` differ in case only",
            twin.shown, row.shown
        );
        reports.add(
            DiagnosticCode::MountName
                .at(&row.named_at, message)
                .related(&twin.named_at, "the other one")
                .help("rename one: some file systems cannot tell them apart"),
        );
    }
}

/// Sorted by components, every path below a directory follows it directly; so each row is compared
/// with the ones around it only, and ten thousand rows are read in one go.
fn report_targets(reports: &mut Reports, rows: &[MountEntry], noun: &str) {
    let mut sorted: Vec<&MountEntry> = rows.iter().collect();
    sorted.sort_by(|a, b| Path::new(&a.mount.target).cmp(Path::new(&b.mount.target)));
    let mut around: Vec<&MountEntry> = Vec::new();
    for row in sorted {
        let target = Path::new(&row.mount.target);
        while let Some(outer) = around.last()
            && !target.starts_with(&outer.mount.target)
        {
            around.pop();
        }
        let problem = match around.last() {
            Some(outer) => nested_problem(outer, row, noun),
            None => top_problem(&row.mount.target),
        };
        match problem {
            Some(problem) => reports.add(problem.at(&row.named_at)),
            None => around.push(row),
        }
    }
}

fn nested_problem(outer: &MountEntry, row: &MountEntry, noun: &str) -> Option<Diagnostic> {
    if outer.mount.host == row.mount.host {
        // One directory twice: an overlap, and said once.
        return None;
    }
    if outer.mount.target == row.mount.target {
        let message = format!(
            "{noun}s `{}` and `{}` are both at {}",
            outer.shown, row.shown, row.mount.target
        );
        return Some(
            DiagnosticCode::MountName
                .error(message)
                .related(&outer.named_at, "the other one")
                .help("a place shows one directory: give one of them another name"),
        );
    }
    None
}

fn top_problem(target: &str) -> Option<Diagnostic> {
    let name = target.strip_prefix('/').unwrap_or(target);
    if name.is_empty() {
        return None;
    }
    if name.contains('/') {
        let message = format!("{target} lies below no other mount");
        return Some(DiagnosticCode::MountName.error(message).help(format!(
            "a name has one component, such as /{}; deeper ones lie below a mount",
            last_name(target)
        )));
    }
    name_problem(name, "mount")
}

fn last_name(target: &str) -> &str {
    target.rsplit('/').next().unwrap_or(target)
}

/// Returns `true` if `inner` is the directory of `outer` at `inner`'s target.
pub(crate) fn is_part(outer: &Mount, inner: &Mount) -> bool {
    Path::new(&inner.target)
        .strip_prefix(&outer.target)
        .is_ok_and(|rest| !rest.as_os_str().is_empty() && inner.host == outer.host.join(rest))
}

/// Returns the problem with the name of a directory at the sandbox's root: it is a tool's argument,
/// a directory that commands see, and a word in messages.
pub(crate) fn name_problem(name: &str, noun: &str) -> Option<Diagnostic> {
    let plain = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !plain || !starts_well || name.len() > 64 {
        let message = format!("`{name}` cannot be a {noun}'s name");
        return Some(DiagnosticCode::MountName.error(message).help(
            "letters, digits, `_`, `-` and `.`, a letter or digit first, at most 64 of them",
        ));
    }
    let reserved = SYSTEM_DIRECTORIES.contains(&name.to_lowercase().as_str());
    reserved.then(|| {
        DiagnosticCode::MountName
            .error(format!("`{name}` is a reserved name"))
            .help(format!(
                "commands need the system's /{name}; reserved are: {}",
                SYSTEM_DIRECTORIES.join(", ")
            ))
    })
}

/// Sorted by components, as targets are.
fn report_overlaps(reports: &mut Reports, rows: &[MountEntry], noun: &str) {
    let mut sorted: Vec<&MountEntry> = rows.iter().collect();
    sorted.sort_by(|a, b| a.mount.host.cmp(&b.mount.host));
    let mut around: Vec<&MountEntry> = Vec::new();
    for row in sorted {
        while let Some(outer) = around.last()
            && !row.mount.host.starts_with(&outer.mount.host)
        {
            around.pop();
        }
        let Some(outer) = around
            .last()
            .filter(|outer| !is_part(&outer.mount, &row.mount))
        else {
            around.push(row);
            continue;
        };
        let what = if outer.mount.host == row.mount.host {
            format!(
                "{noun}s `{}` and `{}` are the same directory",
                outer.shown, row.shown
            )
        } else {
            format!(
                "{noun} `{}` lies inside {noun} `{}`",
                row.shown, outer.shown
            )
        };
        reports.add(
            DiagnosticCode::Overlap
                .at(&row.path_at, what)
                .related(&outer.path_at, format!("{noun} `{}`", outer.shown))
                .help(format!(
                    "one file must have one set of rights: give each {noun} a directory of its own"
                )),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["data", "Data-1", "a.b_c", "9"] {
            assert!(name_problem(good, "zone").is_none(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "etc", "Work", "-a", "a b", "ä", "a\n"] {
            assert!(name_problem(bad, "zone").is_some(), "{bad}");
        }
        for bad in ["/etc", "/Work", "/a/b", "/a b"] {
            assert!(top_problem(bad).is_some(), "{bad}");
        }
        assert!(top_problem("/").is_none());
    }
}
