//! `forge review apply` and `discard`: recorded before they are done, with their result after.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsFd as _;

use forge_review::{
    AppliedChange, ApplyRecord, ApplyReport, ChangeSelection, MountedPath, ObjectState, OpenReview,
    ReviewDir, ReviewLimits, RunReview, TreePath,
};
use forge_tools::Artifact;
use os_sandbox::StartLock;

use super::listing::{counts, rows, shown_path, verb};
use super::select::selection;
use super::{
    APPLY, FoundReview, ProjectReviews, check_writers, failed, nothing_waits, open_review,
    print_json, unknown,
};
use crate::cli::{ApplyArgs, Global};
use crate::commands::prelude::*;
use crate::run_view;
use crate::state::act_log::{ActLog, PersonAct};

/// `forge review apply`
pub(super) fn apply(
    ambient: &Ambient,
    reviews: &ProjectReviews,
    args: &ApplyArgs,
) -> Result<ExitKind, CliError> {
    let (found, words) = reviews.choose(&args.words)?;
    let mut review = reviews.open(ambient, found)?;
    let selection = selection(&ambient.global, review.review(), words, args)?;
    let listed = listed(review.review());
    let mut log = apply_log(ambient, &review, &selection, &listed)?;
    log.typed()?;
    let at_ms = forge_tools::now_ms();
    let by = format!("uid {}", rustix::process::getuid().as_raw());
    let applied = lock_starts(ambient, &review, &selection).and_then(|_starts| {
        let applied = review.apply(&selection, &by, at_ms, &ReviewLimits::default());
        applied.map_err(|error| failed(&error))
    });
    let report = match applied {
        Ok(report) => report,
        Err(failure) => {
            log.close(failure.message(), Some(failure.code()))?;
            return Err(failure);
        }
    };
    for change in &report.record.changes {
        log.changed(artifact(review.review(), change));
    }
    let applied = report.record.changes.iter();
    let applied = applied.filter_map(|one| {
        let below = listed.get(&(one.mount.clone(), one.path.clone()))?;
        Some((one, below.as_ref()))
    });
    let applied: Vec<_> = applied.collect();
    let outcome = format!("applied {}", changes_count(applied.len()));
    // An error of the log does not undo the apply.
    let logged = log.end(&outcome, None, json!({ "applied": report.record }));
    let told = print_report(&ambient.global, review.review(), &report, &applied);
    logged.and(told)?;
    match report.record.changes.is_empty() {
        true => Ok(ExitKind::Negative),
        false => Ok(ExitKind::Done),
    }
}

/// Keeps commands from starting, and refuses a selection that one which runs could write to. The apply
/// chooses no further paths.
fn lock_starts(
    ambient: &Ambient,
    review: &OpenReview,
    selection: &ChangeSelection,
) -> Result<StartLock, CliError> {
    let starts = APPLY.lock_starts(ambient)?;
    let chosen = review.choose(selection).map_err(|error| failed(&error))?;
    check_writers(&starts, review.review(), &review.paths_of(&chosen))?;
    Ok(starts)
}

/// The changes that the list shows, and the generated directory that one is counted in. New directories
/// count with their contents.
type Listed = BTreeMap<(String, TreePath), Option<TreePath>>;

fn listed(list: &RunReview) -> Listed {
    let rows = rows(list).into_iter();
    rows.map(|row| {
        let place = (list.mounts[row.mount].name.clone(), row.change.path.clone());
        (place, row.counted_in().cloned())
    })
    .collect()
}

/// Opens the log with the chosen paths and the hashes that the list has of them.
fn apply_log(
    ambient: &Ambient,
    review: &OpenReview,
    selection: &ChangeSelection,
    listed: &Listed,
) -> Result<ActLog, CliError> {
    let list = review.review();
    let chosen = review.choose(selection).map_err(|error| failed(&error))?;
    let chosen = review.paths_of(&chosen);
    let is_chosen = |mount: usize, change: &forge_review::ReviewedChange| {
        let mut chosen = chosen.iter();
        chosen.any(|(m, path)| *m == mount && *path == change.path)
    };
    let content = |state: &Option<ObjectState>| {
        let state = state.as_ref();
        state.and_then(|state| state.content.clone())
    };
    let facts: Vec<Value> = list
        .changes()
        .filter(|(mount, change)| is_chosen(*mount, change))
        .map(|(mount, change)| {
            json!({
                "path": shown_path(list, mount, &change.path),
                "change": change.kind,
                "before": content(&change.before),
                "after": content(&change.after),
            })
        })
        .collect();
    let is_listed = |(mount, path): &&MountedPath| {
        listed.contains_key(&(list.mounts[*mount].name.clone(), path.clone()))
    };
    let count = changes_count(chosen.iter().filter(is_listed).count());
    let act = PersonAct {
        project: &list.project,
        run: "review",
        name: "review_apply",
        intents: vec![format!("apply {count} of {}", list.run)],
        arguments: json!({ "run": list.run, "changes": facts }),
    };
    ActLog::open(act, ambient, &[])
}

fn changes_count(number: usize) -> String {
    run_view::count(number as u64, "change")
}

fn artifact(list: &RunReview, change: &AppliedChange) -> Artifact {
    let mount = list
        .mounts
        .iter()
        .position(|mount| mount.name == change.mount);
    let path = shown_path(list, mount.unwrap_or_default(), &change.path);
    let Some(after) = &change.after else {
        return Artifact::deleted(path);
    };
    let hash = after.content.as_deref();
    let hash = hash.and_then(|content| content.strip_prefix("sha256:"));
    Artifact::written(
        path,
        change.before.is_none(),
        after.size,
        hash.map(str::to_owned),
    )
}

/// Returns a line for each change. As in the list, a generated directory is one line.
fn lines(list: &RunReview, changes: &[(&AppliedChange, Option<&TreePath>)]) -> String {
    let mut text = String::new();
    let mut generated: BTreeMap<String, usize> = BTreeMap::new();
    let is_only = changes.len() == 1;
    for (change, below) in changes {
        let mut mounts = list.mounts.iter();
        let mount = mounts.position(|mount| mount.name == change.mount);
        let shown = |path| escape(&shown_path(list, mount.unwrap_or_default(), path));
        match below {
            Some(below) if !is_only => *generated.entry(shown(below)).or_default() += 1,
            _ => text.push_str(&format!(
                "  {:<9} {}\n",
                verb(change.kind),
                shown(&change.path)
            )),
        }
    }
    for (path, count) in generated {
        text.push_str(&format!(
            "  {:<9} {path}/  {}\n",
            "generated",
            changes_count(count)
        ));
    }
    text
}

fn print_report(
    global: &Global,
    list: &RunReview,
    report: &ApplyReport,
    changes: &[(&AppliedChange, Option<&TreePath>)],
) -> Result<(), CliError> {
    let ApplyRecord { notes, .. } = &report.record;
    let shown = |(mount, path): &MountedPath| shown_path(list, *mount, path);
    if global.json {
        return print_json(&json!({
            "run": list.run,
            "applied": report.record,
            "skipped_protected": report.skipped_protected.iter().map(shown).collect::<Vec<_>>(),
            "skipped_special": report.skipped_special.iter().map(shown).collect::<Vec<_>>(),
            "left": list.changes().count(),
        }));
    }
    let mut text = lines(list, changes);
    text.push_str(&format!("applied {}\n", changes_count(changes.len())));
    print_text(&text)?;
    for note in notes {
        stderr::print(format_args!("note: {}", escape(note)));
    }
    for path in &report.skipped_special {
        let path = escape(&shown(path));
        stderr::print(format_args!(
            "not applied: {path}: a pipe, socket or device"
        ));
    }
    for path in &report.skipped_protected {
        let path = escape(&shown(path));
        stderr::print(format_args!("not applied: {path}: a protected name"));
    }
    if !report.skipped_protected.is_empty() && !global.quiet {
        stderr::print(
            "hint: look at it, and apply it by name: forge review apply --include-protected PATH",
        );
    }
    match list.changes().next() {
        Some(_) => {
            let left = rows(list);
            let left = counts(left.iter().map(|row| row.change));
            stderr::print(format_args!("left: {left}"));
        }
        None => stderr::print(format_args!(
            "nothing is left: forge review discard {} removes the review",
            escape(&list.run)
        )),
    }
    Ok(())
}

/// The reviews that `forge review discard` is about.
#[derive(Clone, Copy)]
pub(super) enum DiscardChoice<'a> {
    All,
    Only,
    Named(&'a OsStr),
}

impl<'a> DiscardChoice<'a> {
    pub(super) fn new(run: Option<&'a OsStr>, all: bool) -> Self {
        match run {
            _ if all => DiscardChoice::All,
            Some(run) => DiscardChoice::Named(run),
            None => DiscardChoice::Only,
        }
    }
}

/// `forge review discard`
pub(super) fn discard(
    ambient: &Ambient,
    reviews: &ProjectReviews,
    choice: DiscardChoice<'_>,
) -> Result<ExitKind, CliError> {
    let chosen = meant(reviews, choice)?;
    let mut discarded = Vec::new();
    let mut first_failure = None;
    for found in chosen {
        match discard_one(ambient, reviews, found) {
            Ok(()) => discarded.push(found.list.run.as_str()),
            // The others do not depend on it.
            Err(failure) if first_failure.is_none() => first_failure = Some(failure),
            Err(failure) => stderr::print(format_args!("error: {}", escape(failure.message()))),
        }
    }
    match (ambient.global.json, choice, discarded.as_slice()) {
        (true, DiscardChoice::All, all) => print_json(&json!({ "discarded": all }))?,
        (true, _, [one]) => print_json(&json!({ "discarded": one }))?,
        (true, ..) => {}
        (false, _, all) => {
            for run in all {
                print_line(format_args!("discarded {}", escape(run)))?;
            }
        }
    }
    match first_failure {
        Some(failure) => Err(failure),
        None => Ok(ExitKind::Done),
    }
}

fn discard_one(
    ambient: &Ambient,
    reviews: &ProjectReviews,
    found: &FoundReview,
) -> Result<(), CliError> {
    let act = PersonAct {
        project: &found.list.project,
        run: "review",
        name: "review_discard",
        arguments: json!({ "run": found.list.run, "changes": found.list.changes().count() }),
        intents: vec![format!("discard the changes of {}", found.list.run)],
    };
    let mut log = ActLog::open(act, ambient, &[])?;
    log.typed()?;
    match remove(ambient, reviews, found) {
        Ok(()) => log.close("discarded", None),
        Err(failure) => {
            log.close(failure.code(), Some(failure.code()))?;
            Err(failure)
        }
    }
}

fn meant<'a>(
    reviews: &'a ProjectReviews,
    choice: DiscardChoice<'_>,
) -> Result<Vec<&'a FoundReview>, CliError> {
    match (choice, reviews.found.as_slice()) {
        (_, []) => Err(nothing_waits()),
        (DiscardChoice::All, all) => Ok(all.iter().collect()),
        (DiscardChoice::Named(run), _) => match reviews.named(run)? {
            Some(found) => Ok(vec![found]),
            None => {
                let run = escape(&run.to_string_lossy());
                Err(
                    unknown(format!("no review of this project is called `{run}`"))
                        .hint("`forge review list` shows them"),
                )
            }
        },
        (DiscardChoice::Only, [one]) => Ok(vec![one]),
        (DiscardChoice::Only, all) => Err(unknown(format!("{} reviews are left", all.len()))
            .hint("name one, or `last`: `forge review list` shows them; or --all")),
    }
}

/// An apply that was interrupted is finished first, unless its directory is gone for good.
fn remove(
    ambient: &Ambient,
    reviews: &ProjectReviews,
    found: &FoundReview,
) -> Result<(), CliError> {
    let open = || ReviewDir::open(reviews.dir.as_fd(), &found.name).map_err(|e| failed(&e));
    let dir = open()?;
    let removed = match open_review(ambient, dir)? {
        Ok((review, _)) => review.discard(reviews.dir.as_fd()),
        Err(forge_review::ReviewError::LowerGone(_)) => open()?.discard(reviews.dir.as_fd()),
        Err(error) => Err(error),
    };
    removed.map_err(|error| failed(&error))
}
