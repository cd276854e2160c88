//! `forge stage`: the commits that workers have staged for git repositories, until a person has
//! reviewed them. Models wrote their content, so all of it is escaped for a terminal.

mod discard;
mod format;
mod push;
mod show;
mod status;

use std::path::Path;

use forge_git::{
    DamagedCommit, GitBackend as _, GitError, GitErrorKind, GitService, NoRepositories,
    StagedCommit, StagedId, StagedList,
};

use sandbox_names::hex;

use crate::cli::{StageAction, StageArgs};
use crate::commands::prelude::*;
use crate::output::escape::escape;
use crate::setup;
use crate::state::act_log::{ActLog, PersonAct};
use crate::state::staging::Staging;

pub(crate) fn run(args: &StageArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    // A project that does not load has its staged commits all the same.
    let project = setup::project_dir(ambient)?;
    let staging = Staging::of(&project, ambient)?;
    match args.action.as_ref().unwrap_or(&StageAction::Status) {
        StageAction::Status => status::status(&ambient.global, &staging),
        StageAction::Show { id } => show::show(ambient, &staging, id.as_deref()),
        StageAction::Diff { id } => show::diff(ambient, &staging, id.as_deref()),
        StageAction::Push(args) => push::push(args, ambient, &staging),
        StageAction::Discard { ids } => discard::discard(ambient, &project, &staging, ids),
    }
}

/// Opens the store without any repository. `None` if it was never created.
fn place(staging: &Staging) -> Result<Option<GitService<NoRepositories>>, CliError> {
    let store = staging.existing()?;
    Ok(store.map(|store| GitService::new(NoRepositories, store)))
}

/// Returns all staged commits, the oldest first, and the unreadable ones.
fn all(staging: &Staging) -> Result<StagedList, CliError> {
    let Some(git) = place(staging)? else {
        return Ok(StagedList::default());
    };
    let listed = setup::until_stopped(async { git.list_staged().await })?;
    listed.map_err(|error| failed(&error))
}

/// One that a person means.
#[derive(Debug, Clone, Copy)]
enum StagedSelection<'a> {
    Whole(&'a StagedCommit),
    /// It can only be discarded.
    Damaged(&'a DamagedCommit),
}

impl<'a> StagedSelection<'a> {
    fn id(self) -> &'a StagedId {
        match self {
            StagedSelection::Whole(commit) => commit.id(),
            StagedSelection::Damaged(damaged) => &damaged.id,
        }
    }
}

/// Returns the commit whose ID begins so; without an ID, the only one.
fn find_selection<'a>(
    list: &'a StagedList,
    id: Option<&str>,
) -> Result<StagedSelection<'a>, CliError> {
    let damaged = list.damaged.iter().map(StagedSelection::Damaged);
    let all = list
        .commits
        .iter()
        .map(StagedSelection::Whole)
        .chain(damaged);
    let begins = |meant: &StagedSelection<'_>| {
        id.is_none_or(|id| !id.is_empty() && meant.id().as_str().starts_with(id))
    };
    let found: Vec<StagedSelection<'a>> = all.filter(begins).collect();
    let unknown = |text: String| Err(CliError::misuse("git.unknown", text));
    match (found.as_slice(), id) {
        ([one], _) => Ok(*one),
        ([], None) => unknown("nothing is staged".to_owned()),
        ([], Some(id)) => unknown(format!("nothing is staged as `{}`", escape(id)))
            .map_err(|failure| failure.hint("`forge stage` shows what is")),
        ([..], None) => unknown(format!("{} commits are staged", found.len()))
            .map_err(|failure| failure.hint("`forge stage` shows them; name one by its ID")),
        ([first, second, ..], Some(id)) => unknown(format!(
            "`{}` is the beginning of {} ids, {} and {} among them",
            escape(id),
            found.len(),
            first.id(),
            second.id()
        ))
        .map_err(|failure| failure.hint("write more of it")),
    }
}

/// Returns the commit, and refuses a damaged one.
fn find_commit<'a>(list: &'a StagedList, id: Option<&str>) -> Result<&'a StagedCommit, CliError> {
    match find_selection(list, id)? {
        StagedSelection::Whole(commit) => Ok(commit),
        StagedSelection::Damaged(damaged) => Err(failed(&damaged.why)),
    }
}

/// Opens the log of an act on commits.
fn log(
    project: &Path,
    act: &str,
    commits: &[StagedSelection<'_>],
    ambient: &Ambient,
    redacted: &[String],
) -> Result<ActLog, CliError> {
    let facts = commits.iter().map(facts).collect::<Vec<Value>>();
    let intent = |commit: &StagedSelection<'_>| format!("{act} {}", commit.id());
    let act = PersonAct {
        project,
        run: "stage",
        name: act,
        arguments: json!({ "commits": facts }),
        intents: commits.iter().map(intent).collect(),
    };
    ActLog::open(act, ambient, redacted)
}

/// Returns the facts that identify a commit later on.
fn facts(commit: &StagedSelection<'_>) -> Value {
    match commit {
        StagedSelection::Whole(commit) => json!({
            "commitId": commit.id().as_str(),
            "repo": commit.repo().to_string(),
            "branch": commit.branch().as_str(),
            "message": commit.message(),
            "files": commit.files().len(),
            "digest": hex(commit.digest()),
        }),
        StagedSelection::Damaged(damaged) => json!({
            "commitId": damaged.id.as_str(),
            "damaged": damaged.why.message(),
        }),
    }
}

/// Converts an error of git.
fn failed(error: &GitError) -> CliError {
    let (exit, code) = match error.kind() {
        GitErrorKind::NotFound => (ExitKind::Negative, "git.not_found"),
        GitErrorKind::Moved => (ExitKind::Negative, "git.moved"),
        GitErrorKind::Rejected => (ExitKind::Negative, "git.rejected"),
        GitErrorKind::Authentication => (ExitKind::Credentials, "git.credentials"),
        GitErrorKind::Unreachable => (ExitKind::Unreachable, "git.unreachable"),
        GitErrorKind::NotAgreed => (ExitKind::Negative, "git.not_agreed"),
        GitErrorKind::Unavailable => (ExitKind::Isolation, "isolation.unavailable"),
        GitErrorKind::Damaged => (ExitKind::Negative, "git.damaged"),
        GitErrorKind::TimeLimit | GitErrorKind::TooLarge => (ExitKind::Negative, "git.limit"),
        GitErrorKind::Invalid
        | GitErrorKind::Refused
        | GitErrorKind::Secrets
        | GitErrorKind::File(_)
        | GitErrorKind::Failed => (ExitKind::Negative, "git"),
    };
    let failure = CliError::new(exit, code, error.message());
    failure.maybe_hint(error.advice())
}
