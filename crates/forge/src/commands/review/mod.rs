//! `forge review`: the changes that runs with `--review` left in layers of their own, until a
//! person applies or discards them. Commands chose names and contents, so all of it is escaped.

mod apply;
pub(crate) mod listing;
mod select;
mod show;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use forge_review::{
    ApplyRecord, ChangeClass, MountedPath, OpenReview, ProtectedName, ReviewDir, ReviewError,
    ReviewLimits, ReviewStage, RunReview, open_host_dir,
};
use os_sandbox::StartLock;
use os_sandbox::mechanism::Pattern;

use crate::cli::{ReviewAction, ReviewArgs};
use crate::commands::active_commands::ProtectedWrite;
use crate::commands::prelude::*;
use crate::output::escape::{escape, shell_word};
use crate::setup;
use crate::state::private_dirs::make_private;

/// The directory of all reviews in the state directory.
const REVIEWS: &str = "reviews";

/// Shortest beginning of a run's name that stands for it.
const MIN_NAME_CHARS: usize = 8;

pub(crate) fn run(args: &ReviewArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    // A project that does not load has its reviews nevertheless.
    let project = setup::project_dir(ambient)?;
    let reviews = ProjectReviews::of(&project, ambient)?;
    match args.action.as_ref().unwrap_or(&ReviewAction::List) {
        ReviewAction::List => listing::list(ambient, &reviews),
        ReviewAction::Show { words } => show::show(ambient, &reviews, words),
        ReviewAction::Apply(args) => apply::apply(ambient, &reviews, args),
        ReviewAction::Discard { run, all } => {
            let chosen = apply::DiscardChoice::new(run.as_deref(), *all);
            apply::discard(ambient, &reviews, chosen)
        }
    }
}

/// Opens the directory of all reviews, and creates it if needed.
pub(crate) fn open_reviews(ambient: &Ambient) -> Result<OwnedFd, CliError> {
    open_host_dir(&reviews_path(ambient)?).map_err(|error| state_error(&error))
}

/// Returns the directory of all reviews, which nobody but this user can enter.
pub(crate) fn reviews_path(ambient: &Ambient) -> Result<PathBuf, CliError> {
    let state = ambient.state_dir()?;
    let state = std::path::absolute(state).map_err(|error| state_error(&error))?;
    make_private(&state, Path::new(REVIEWS)).map_err(|error| state_error(&error))
}

/// Lists the changes of a run that has ended.
pub(crate) fn record(dir: &mut ReviewDir) -> Result<(), CliError> {
    let patterns: Vec<Vec<Pattern>> = dir
        .review()
        .mounts
        .iter()
        .map(|mount| {
            let patterns = mount.protected.iter();
            patterns.map(|text| Pattern::parse(text)).collect()
        })
        .collect::<Result<_, _>>()
        .map_err(|error| CliError::negative("review", error.to_string()))?;
    let judge = |mount: usize, path: &Path| {
        let patterns = patterns.get(mount)?.iter();
        // A pattern about contents holds only if no other one does.
        let mut covering: Vec<&Pattern> = patterns.filter(|one| one.covers(path)).collect();
        covering.sort_by_key(|pattern| pattern.is_by_content());
        let pattern = covering.first()?;
        Some(ProtectedName {
            pattern: pattern.text().to_owned(),
            by_content: pattern.is_by_content() && pattern.ends(path),
        })
    };
    let lowers = lowers(dir.review());
    dir.record(&lowers, &judge, &ReviewLimits::default())
        .map(drop)
        .map_err(|error| failed(&error))
}

const APPLY: ProtectedWrite = ProtectedWrite {
    code: "review.running",
    outcome: "nothing was applied",
    hint: "wait until it has ended, or apply the other changes: forge review apply PATH",
};

/// Refuses changes of paths that a command which runs must not change: it could have the new file open.
fn check_writers(
    starts: &StartLock,
    review: &RunReview,
    paths: &[MountedPath],
) -> Result<(), CliError> {
    let is_protected = |(mount, path): &MountedPath| {
        let mut changes = review.mounts[*mount].changes.iter();
        let change = changes.find(|change| change.path == *path);
        change.is_some_and(|change| matches!(change.class, ChangeClass::Protected { .. }))
    };
    for place in paths {
        let (mount, path) = place;
        let host = &review.mounts[*mount].host;
        let host = host.canonicalize().unwrap_or_else(|_| host.clone());
        let path = host.join(path.to_os_string());
        let writers = starts.writers_of(&path);
        APPLY.check(
            &path,
            writers.filter(|one| one.guards(&path) || is_protected(place)),
        )?;
    }
    Ok(())
}

/// Opens a review, and finishes an apply that was interrupted.
fn open_review(
    ambient: &Ambient,
    dir: ReviewDir,
) -> Result<Result<(OpenReview, Option<ApplyRecord>), ReviewError>, CliError> {
    let interrupted = dir.interrupted_paths().map_err(|error| failed(&error))?;
    let is_interrupted = !interrupted.is_empty();
    let starts = is_interrupted
        .then(|| APPLY.lock_starts(ambient))
        .transpose()?;
    if let Some(starts) = &starts {
        check_writers(starts, dir.review(), &interrupted)?;
    }
    let lowers = lowers(dir.review());
    Ok(OpenReview::new(dir, lowers))
}

/// Opens the directories of a review's mounts.
fn lowers(review: &RunReview) -> Vec<Option<OwnedFd>> {
    let mounts = review.mounts.iter();
    mounts
        .map(|mount| open_host_dir(&mount.host).ok())
        .collect()
}

/// The reviews of one project, the oldest first.
struct ProjectReviews {
    dir: OwnedFd,
    found: Vec<FoundReview>,
}

struct FoundReview {
    name: OsString,
    list: RunReview,
}

impl ProjectReviews {
    fn of(project: &Path, ambient: &Ambient) -> Result<Self, CliError> {
        let dir = open_reviews(ambient)?;
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let project = whole(project);
        let mut found = Vec::new();
        for name in ReviewDir::list(dir.as_fd()).map_err(|error| failed(&error))? {
            match ReviewDir::peek(dir.as_fd(), &name) {
                Ok(list) if whole(&list.project) == project => {
                    found.push(FoundReview { name, list });
                }
                Ok(_) => {}
                Err(error) => stderr::print(format_args!(
                    "warning: {}: {}",
                    escape(&name.to_string_lossy()),
                    escape(&error.to_string())
                )),
            }
        }
        found.sort_by(|a, b| (a.list.at_ms, &a.name).cmp(&(b.list.at_ms, &b.name)));
        Ok(ProjectReviews { dir, found })
    }

    /// Takes the name of a run from the beginning of `words`; without one, the newest is meant.
    fn choose<'w>(
        &self,
        words: &'w [OsString],
    ) -> Result<(&FoundReview, &'w [OsString]), CliError> {
        if let Some((first, rest)) = words.split_first()
            && let Some(found) = self.named(first)?
        {
            return Ok((found, rest));
        }
        match self.found.last() {
            Some(newest) => Ok((newest, words)),
            None => Err(nothing_waits()),
        }
    }

    /// Returns the run whose name this word is or begins, or the newest for `last`; `None` if it is
    /// another word.
    fn named(&self, word: &OsStr) -> Result<Option<&FoundReview>, CliError> {
        if let Some(exact) = self.found.iter().find(|found| found.name == word) {
            return Ok(Some(exact));
        }
        if word == "last" {
            return Ok(self.found.last());
        }
        let word = word.to_string_lossy();
        if word.len() < MIN_NAME_CHARS || word.contains('/') {
            return Ok(None);
        }
        let begins = |found: &&FoundReview| found.name.to_string_lossy().starts_with(&*word);
        let mut matching = self.found.iter().filter(begins);
        match (matching.next(), matching.next()) {
            (Some(_), Some(_)) => Err(unknown(format!(
                "`{}` is the beginning of several runs",
                escape(&word)
            ))
            .hint("write more of it")),
            (found, _) => Ok(found),
        }
    }

    /// Opens a review: lists its changes if its run ended without that, and recovers an apply that
    /// was interrupted.
    fn open(&self, ambient: &Ambient, found: &FoundReview) -> Result<OpenReview, CliError> {
        let mut dir = ReviewDir::open(self.dir.as_fd(), &found.name).map_err(|e| failed(&e))?;
        if dir.review().stage == ReviewStage::Running {
            record(&mut dir)?;
        }
        let opened = open_review(ambient, dir)?;
        let (review, recovered) = opened.map_err(|error| failed(&error))?;
        if let Some(record) = recovered {
            stderr::print(recovery_note(&record));
        }
        Ok(review)
    }
}

fn recovery_note(record: &ApplyRecord) -> String {
    format!(
        "note: an apply that was interrupted is finished: {} paths have their new content",
        record.changes.len()
    )
}

fn nothing_waits() -> CliError {
    unknown("no changes of this project wait for a review".to_owned())
        .hint("`forge exec --review CMD` and `forge run --review` leave some")
}

fn unknown(message: String) -> CliError {
    CliError::misuse("review.unknown", message)
}

fn state_error(error: &std::io::Error) -> CliError {
    let message = format!("cannot use the directory of reviews: {error}");
    CliError::state(message)
}

/// Converts an error of a review.
fn failed(error: &ReviewError) -> CliError {
    let text = error.to_string();
    match error {
        ReviewError::ChangedBelow(paths) => {
            let all = paths
                .iter()
                .map(|path| format!("\n  {}", escape(&path.to_string())));
            let message = format!(
                "these paths changed in the project since the run started, so nothing was \
                 applied:{}",
                all.collect::<String>()
            );
            CliError::negative("review.changed", message).hint(
                "apply the others: forge review apply PATH; of these, `forge review show PATH` \
                 prints the difference to make by hand, and `forge review discard` drops all that \
                 is left",
            )
        }
        ReviewError::PreparedChanged(_) => CliError::negative("review.changed", format!("{text}: nothing was applied"))
            .hint("look at `forge review show` once more; a command that runs in the project may have done it"),
        ReviewError::Selection { .. } => {
            unknown(text).hint("`forge review show` lists paths and hunks")
        }
        ReviewError::Limit { .. } => CliError::negative("review.limit", text).hint(
            "the changes cannot be listed and so not be applied: forge review discard RUN, or \
             copy files from the layer by hand",
        ),
        ReviewError::Busy => CliError::negative("review.held", text)
            .hint("wait until its run or the other command has ended"),
        ReviewError::LowerGone(_) => CliError::negative("review", text)
            .hint("move the directory back, or discard the review"),
        ReviewError::PartlyApplied { kept, .. } => {
            let paths = kept
                .iter()
                .map(|path| format!("\n  {}", escape(&path.to_string())));
            let message = format!("{text}:{}", paths.collect::<String>());
            CliError::negative("review", message)
        }
        _ => CliError::negative("review", text),
    }
}

/// Returns the command line of a run for a list.
fn command_line(review: &RunReview) -> String {
    let words: Vec<String> = review.command.iter().map(|word| shell_word(word)).collect();
    escape(&words.join(" "))
}
