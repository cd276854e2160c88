//! `--review`: a command whose changes go to the upper directories of overlays, and wait there until
//! a person applies or discards them.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use forge_review::{
    NewMount, ReviewDir, ReviewError, ReviewLimits, RunInfo, RunReview, first_foreign,
    open_host_dir,
};
use os_sandbox::mechanism::{MountPlacement, Pattern};
use os_sandbox::{Access, Policy};
use sandbox_config::Project;

use super::ExecLog;
use crate::ambient::Ambient;
use crate::cli::{ApplyArgs, Global, ReviewAction, ReviewArgs};
use crate::commands::review;
use crate::exit::{CliError, ExitKind};
use crate::output::escape::{escape, escape_path};
use crate::output::prompt_terminal::{InputLine, PromptTerminal};
use crate::output::stderr;

/// Lines of a summary without a terminal.
const LINES: usize = 40;

/// Files of a project that are examined after a failure.
const MAX_EXAMINED: u64 = 200_000;

const QUESTION: &str = "[a] apply all  [s] show  [k] keep for later  [d] discard: ";

/// The overlays of a command. Dropped before the command has started, they are gone.
pub(super) struct ReviewedRun {
    /// `None` after the end.
    dir: Option<ReviewDir>,
    reviews: OwnedFd,
    is_started: bool,
}

/// What the command changed.
pub(super) struct ReviewedChanges(RunReview);

/// A writable mount of the policy, and its name in the review.
struct ReviewedMount {
    name: String,
    shown_at: String,
    host: PathBuf,
    lower: OwnedFd,
    protected: Vec<String>,
}

/// Returns the policy with an overlay in the place of every mount that can be written, those of
/// presets excepted. `None` for the run if no mount is left.
pub(super) fn prepare(
    policy: Policy,
    project: &Project,
    is_of_presets: impl Fn(&Path) -> bool,
    log: &ExecLog,
    ambient: &Ambient,
) -> Result<(Policy, Option<ReviewedRun>), CliError> {
    let mounts = writable_mounts(&policy, is_of_presets)?;
    if mounts.is_empty() {
        return Ok((policy, None));
    }
    let about = RunInfo {
        run: log.dir().name(),
        project: project.dir().to_path_buf(),
        command: log.words(),
        at_ms: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            }),
    };
    let new: Vec<NewMount<'_>> = mounts
        .iter()
        .map(|mount| NewMount {
            name: &mount.name,
            lower: mount.lower.as_fd(),
            host: &mount.host,
            protected: &mount.protected,
        })
        .collect();
    let reviews = review::open_reviews(ambient)?;
    let path = review::reviews_path(ambient)?;
    let path = path
        .canonicalize()
        .map_err(|error| refused(format!("{}: {error}", path.display())))?;
    let dir = ReviewDir::create(reviews.as_fd(), &about, &new).map_err(|e| failed(&e))?;
    let run = ReviewedRun {
        dir: Some(dir),
        reviews,
        is_started: false,
    };
    let mut policy = policy;
    for mount in &mounts {
        let layers = path.join(&about.run).join("mounts").join(&mount.name);
        policy = policy
            .with_overlay(&mount.shown_at, layers.join("upper"), layers.join("work"))
            .map_err(|error| {
                let failure = refused(format!("--review cannot be used here: {error}"));
                match error.hint() {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            })?;
    }
    Ok((policy, Some(run)))
}

/// From now on there can be changes.
pub(super) fn started(run: &mut ReviewedRun) {
    run.is_started = true;
}

/// Lists the changes. A run without changes leaves nothing.
pub(super) fn end(mut run: ReviewedRun) -> Result<ReviewedChanges, CliError> {
    let Some(mut dir) = run.dir.take() else {
        return Err(refused("the review is over".to_owned()));
    };
    let name = dir.review().run.clone();
    review::record(&mut dir).map_err(|failure| {
        failure.hint(format!("the changes are kept: forge review show {name}"))
    })?;
    let list = dir.review().clone();
    if list.changes().next().is_none() {
        dir.discard(run.reviews.as_fd()).map_err(|e| failed(&e))?;
    }
    Ok(ReviewedChanges(list))
}

/// Returns the name of the run, and the number of its changes.
pub(super) fn facts(changes: &ReviewedChanges) -> (&str, usize) {
    (&changes.0.run, changes.0.changes().count())
}

impl Drop for ReviewedRun {
    fn drop(&mut self) {
        if let Some(dir) = self.dir.take()
            && !self.is_started
            && let Err(error) = dir.discard(self.reviews.as_fd())
        {
            stderr::print(format!("warning: an empty review is left: {error}"));
        }
    }
}

/// Returns the mounts that become overlays, with their directories open. A part of another mount is a
/// part of its overlay.
fn writable_mounts(
    policy: &Policy,
    is_of_presets: impl Fn(&Path) -> bool,
) -> Result<Vec<ReviewedMount>, CliError> {
    let mut mounts: Vec<ReviewedMount> = Vec::new();
    for (index, mount) in policy.mounts().iter().enumerate() {
        let is_part = matches!(mount.place(), MountPlacement::NestedIn(_));
        if is_part || is_of_presets(mount.host()) || !mount.access().contains(Access::WRITE) {
            continue;
        }
        let unavailable = |error: std::io::Error| {
            let text = format!("{}: {error}", mount.host().display());
            CliError::new(ExitKind::ExecRefused, "mount.unavailable", text)
        };
        let host = mount.host().canonicalize().map_err(unavailable)?;
        let lower = open_host_dir(&host).map_err(unavailable)?;
        let protected = policy.guards_of(index).protect;
        mounts.push(ReviewedMount {
            name: review_name(mount.shown_at(), index),
            shown_at: mount.shown_at().to_owned(),
            host,
            lower,
            protected: protected
                .iter()
                .map(Pattern::text)
                .map(str::to_owned)
                .collect(),
        });
    }
    Ok(mounts)
}

/// Returns the name of a mount in a review: that of the directory inside, or a number if a review
/// cannot have it.
fn review_name(shown_at: &str, index: usize) -> String {
    let name = shown_at.trim_start_matches('/');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match name {
        "" => "project".to_owned(),
        "project" => format!("{index}-project"),
        name if name.chars().all(is_plain) && !name.starts_with('.') => name.to_owned(),
        _ => format!("{index}-mount"),
    }
}

/// Prints what the command changed, and what a person can do with it.
pub(super) fn print(changes: &ReviewedChanges, lines: Option<u16>) {
    let ReviewedChanges(list) = changes;
    let all = review::listing::summary(list);
    if list.changes().next().is_none() {
        stderr::print("review: no changes");
        return;
    }
    let lines = lines.map_or(LINES, |rows| usize::from(rows).saturating_sub(8));
    stderr::print(shortened(&all, lines.max(1), &list.run).trim_end());
    let run = &list.run;
    stderr::print(format!(
        "the project is unchanged; forge review show {run}\n\
         {:27}forge review apply {run}\n\
         {:27}forge review discard {run}",
        "", ""
    ));
}

/// Returns a summary of about this many lines. What is removed, what is protected and what other
/// programs execute is always there; of the other changes the first ones are.
fn shortened(all: &str, lines: usize, run: &str) -> String {
    const TITLE: &str = "changes:\n";
    let begin = match all.starts_with(TITLE) {
        true => Some(0),
        false => all.find(&format!("\n{TITLE}")).map(|at| at + 1),
    };
    let Some(begin) = begin else {
        return all.to_owned();
    };
    let (before, rest) = all.split_at(begin);
    let mut rows: Vec<&str> = rest.lines().collect();
    let of_changes = rows
        .iter()
        .skip(1)
        .take_while(|row| row.starts_with(' '))
        .count();
    let others = before.lines().count() + rows.len() - of_changes;
    let shown = lines.saturating_sub(others).clamp(1, of_changes.max(1));
    if of_changes <= shown {
        return all.to_owned();
    }
    let more = format!("  and {} more: forge review show {run}", of_changes - shown);
    rows.splice(1 + shown..1 + of_changes, [more.as_str()]);
    format!("{before}{}\n", rows.join("\n"))
}

/// Prints a possible cause of a failure: a file that the command cannot change in an overlay. Nothing,
/// if none is found.
pub(super) fn print_foreign(changes: &ReviewedChanges) {
    let limits = ReviewLimits {
        entries: MAX_EXAMINED,
        ..ReviewLimits::default()
    };
    for mount in &changes.0.mounts {
        let found = open_host_dir(&mount.host)
            .ok()
            .and_then(|lower| first_foreign(&lower, &limits).ok()?);
        if let Some(path) = found {
            stderr::print(format!(
                "note: under --review a command changes no files of other users or groups, such as \
                 {} in {}: programs say \"Value too large for defined data type\"\n\
                 hint: give them to your user and main group, or leave --review out",
                escape(&path.to_string()),
                escape_path(&mount.host)
            ));
            return;
        }
    }
}

/// Asks the person at the terminal what to do with the changes. Without an answer they are kept.
pub(super) fn ask(
    global: &Global,
    ambient: &Ambient,
    changes: &ReviewedChanges,
) -> Result<(), CliError> {
    let ReviewedChanges(list) = changes;
    let mut terminal = PromptTerminal::Standard;
    let failed =
        |error: std::io::Error| CliError::new(ExitKind::Negative, "terminal", error.to_string());
    let run = || list.run.clone().into();
    loop {
        terminal.discard_input();
        terminal.write(QUESTION).map_err(failed)?;
        let answer = match terminal.read_line(None, None).map_err(failed)? {
            InputLine::Text(line) => line,
            InputLine::Silence | InputLine::End | InputLine::Withdrawn => return Ok(()),
        };
        let action = match answer.trim() {
            "a" | "apply" => ReviewAction::Apply(ApplyArgs {
                words: vec![run()],
                hunks: Vec::new(),
                include_protected: Vec::new(),
            }),
            "s" | "show" => ReviewAction::Show { words: vec![run()] },
            "d" | "discard" => ReviewAction::Discard { run: Some(run()) },
            "k" | "keep" => return Ok(()),
            _ => continue,
        };
        let is_last = !matches!(action, ReviewAction::Show { .. });
        let args = ReviewArgs {
            action: Some(action),
        };
        review::run(global, &args, ambient)?;
        if is_last {
            return Ok(());
        }
    }
}

fn refused(text: String) -> CliError {
    CliError::new(ExitKind::ExecRefused, "review", text)
}

fn failed(error: &ReviewError) -> CliError {
    refused(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_summary_hides_no_removal() {
        let rows = |what: &str| -> String {
            (0..30)
                .map(|number| format!("  {what} {number}\n"))
                .collect()
        };
        let all = format!(
            "deletions and replacements:\n{}changes:\n{}  generated: 2\n60 changes\n",
            rows("delete"),
            rows("add")
        );
        let short = shortened(&all, 10, "exec_1");
        assert_eq!(short.matches("delete").count(), 30);
        assert!(short.matches("add").count() < 30, "{short}");
        assert!(short.contains("more: forge review show exec_1"), "{short}");
        assert!(short.ends_with("60 changes\n"), "{short}");
        assert_eq!(shortened(&all, 100, "exec_1"), all);
    }

    #[test]
    fn names_of_mounts_are_distinct() {
        let names = ["/", "/project", "/data", "/.x", "/data/out"].map(|name| review_name(name, 3));
        assert_eq!(
            names,
            ["project", "3-project", "data", "3-mount", "3-mount"]
        );
    }
}
