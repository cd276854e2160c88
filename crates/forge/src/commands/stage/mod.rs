//! `forge stage`: what workers have put aside for git repositories, until a person has looked at
//! it. What it holds was written by models, so nothing of it reaches a terminal unescaped.

mod seen;
mod status;

use std::fmt::Display;
use std::io::Write as _;

use forge_tools::git::{
    Git, GitBackend as _, GitError, GitErrorKind, MemoryRepositories, StagedList,
};

use crate::ambient::Ambient;
use crate::cli::{Global, Stage, StageAction};
use crate::exit::{Exit, Failure};
use crate::gather;
use crate::staging::Staging;

pub(crate) fn run(global: &Global, args: &Stage, ambient: &Ambient) -> Result<Exit, Failure> {
    // A project that does not load has its staged commits all the same.
    let project = gather::project_dir(global, ambient)?;
    let staging = Staging::of(&project, ambient)?;
    match args.action.as_ref().unwrap_or(&StageAction::Status) {
        StageAction::Status => status::status(global, &staging),
    }
}

/// What is staged, without any repository: none is asked. None: nothing ever was.
fn kept(staging: &Staging) -> Result<Option<Git<MemoryRepositories>>, Failure> {
    let store = staging.existing()?;
    Ok(store.map(|store| Git::new(MemoryRepositories::new(), store)))
}

/// How forge ends where git does not do what it was asked.
fn failed(error: &GitError) -> Failure {
    let (exit, code) = match error.kind() {
        GitErrorKind::NotFound => (Exit::Negative, "git.not_found"),
        GitErrorKind::Moved => (Exit::Negative, "git.moved"),
        GitErrorKind::Rejected => (Exit::Negative, "git.rejected"),
        GitErrorKind::Authentication => (Exit::Credentials, "git.credentials"),
        GitErrorKind::NotAgreed => (Exit::Negative, "git.not_agreed"),
        GitErrorKind::Unavailable => (Exit::Isolation, "isolation.unavailable"),
        GitErrorKind::Damaged => (Exit::Negative, "git.damaged"),
        GitErrorKind::TimeLimit | GitErrorKind::TooLarge => (Exit::Negative, "git.limit"),
        GitErrorKind::Invalid
        | GitErrorKind::Refused
        | GitErrorKind::Secrets
        | GitErrorKind::File(_)
        | GitErrorKind::Failed => (Exit::Negative, "git"),
    };
    let failure = Failure::new(exit, code, error.message());
    match error.advice() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// One line of the result.
fn put(text: impl Display) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(Failure::stdout)
}

/// All that is staged, the oldest first, and what of it cannot be read.
fn all(staging: &Staging) -> Result<StagedList, Failure> {
    let Some(git) = kept(staging)? else {
        return Ok(StagedList::default());
    };
    let listed = gather::until_stopped(async { git.list_staged().await })?;
    listed.map_err(|error| failed(&error))
}
