//! `forge stage push`: shows a person all of a staged commit, asks, and pushes exactly the shown
//! commit.
//!
//! Only a person at a terminal can agree to it: no flag does, and the queue of requests is not
//! used. Every step is recorded before it happens.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use forge_git::{
    Author, GitBackend as _, GitError, GitProgram, GitService, OnDivergence, PushApproval,
    PushPreview, PushReport, RepoPath, StagedCommit, StagedFile,
};
use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, BoxFuture, escape_exactly};
use sandbox_config::{Project, WithoutDirectories};

use super::format::{age, size};
use super::{StagedSelection, all, failed, find_commit, log, print_json};
use crate::cli::{Global, PushArgs};
use crate::commands::prelude::*;
use crate::output::local_time::local_time;
use crate::output::prompt::{self, PromptAnswer, PromptKind};
use crate::setup;
use crate::setup::repositories::{self, ProjectGit};
use crate::state::act_log::ActLog;
use crate::state::staging::Staging;

/// Time limit of the question: a large difference takes a while to be read.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60 * 60);

pub(super) fn push(
    args: &PushArgs,
    ambient: &Ambient,
    staging: &Staging,
) -> Result<ExitKind, CliError> {
    if args.yes {
        return Err(
            CliError::usage("there is no --yes for a push: what leaves is looked at")
                .hint("type the command at a terminal: it shows the difference and asks"),
        );
    }
    let list = all(staging)?;
    let commit = find_commit(&list, args.id.as_deref())?;
    let project = setup::project(ambient, None, WithoutDirectories::DefaultZones)?;
    let unseen = repositories::secrets_of(&project, ambient);
    let mut kept = log(
        project.dir(),
        "stage_push",
        &[StagedSelection::Whole(commit)],
        ambient,
        &unseen,
    )?;
    if let Some(reason) = ambient.reason_not_to_ask(ambient.global.no_input) {
        let why = format!("a push is always asked, and nobody can be: {reason}");
        kept.answered("unanswered", reason)?;
        kept.close("unanswered", Some("approval.unanswered"))?;
        return Err(unanswered(commit, why));
    }
    let if_moved = match args.rebase {
        true => OnDivergence::Rebase,
        false => OnDivergence::Refuse,
    };
    let (git, outlook) = match ready(&project, ambient, commit, if_moved) {
        Ok(ready) => ready,
        Err(failure) => {
            kept.not_asked(&failure)?;
            return Err(failure);
        }
    };
    let question = PushPrompt::about(commit, &outlook, git.made_by(), ambient.colour);
    let asked = setup::until_stopped(PushApproval::ask(commit, &question));
    let approval = match asked {
        Ok(Ok(approval)) => approval,
        Ok(Err(error)) => return Err(not_agreed(kept, commit, &question, &error)?),
        Err(stopped) => {
            kept.answered("unanswered", "forge was told to stop")?;
            kept.close("stopped", Some(stopped.code()))?;
            return Err(stopped);
        }
    };
    kept.answered("allowed", approval.by())?;
    let approval = approval.onto(outlook);
    let pushed = setup::until_stopped(push_locked(&git, staging, approval, if_moved));
    close_push(&ambient.global, kept, commit, pushed)
}

/// Records and reports the result of a push.
fn close_push(
    global: &Global,
    kept: ActLog,
    commit: &StagedCommit,
    pushed: Result<Result<PushReport, CliError>, CliError>,
) -> Result<ExitKind, CliError> {
    let pushed = match pushed {
        Ok(pushed) => pushed,
        Err(stopped) => {
            kept.close("stopped", Some(stopped.code()))?;
            stderr::print(
                "It is still staged, unless the repository has it by now: `forge stage` tells.",
            );
            return Err(stopped);
        }
    };
    match pushed {
        Ok(pushed) => {
            // An error of the log does not undo the push.
            let facts = json!({ "commitSha": pushed.commit.as_str(), "url": pushed.url });
            let outcome = match pushed.already_there {
                true => format!("{} was there already", pushed.commit),
                false => format!("pushed {}", pushed.commit),
            };
            let noted = kept.end(&outcome, None, json!({ "pushed": facts }));
            let told = report(global, commit, &pushed);
            noted.and(told)
        }
        Err(failure) => {
            kept.close(failure.code(), Some(failure.code()))?;
            Err(failure)
        }
    }
}

/// Opens git and previews the push: a commit that cannot be pushed is not asked about.
fn ready(
    project: &Project,
    ambient: &Ambient,
    commit: &StagedCommit,
    if_moved: OnDivergence,
) -> Result<(GitService<GitProgram>, PushPreview), CliError> {
    let git = ProjectGit::of(project, ambient)?.open(setup::host_support())?;
    let outlook = setup::until_stopped(git.preview_push(commit, if_moved))?;
    let outlook = outlook.map_err(|error| failed(&error))?;
    Ok((git, outlook))
}

/// Pushes under a lock of the project, so that only one of two approvals of a commit pushes it.
async fn push_locked(
    git: &GitService<GitProgram>,
    staging: &Staging,
    approval: PushApproval,
    if_moved: OnDivergence,
) -> Result<PushReport, CliError> {
    let turn = staging.turn().await?;
    let pushed = git.push(approval, if_moved).await;
    drop(turn);
    pushed.map_err(|error| failed(&error))
}

/// Records a push without an agreement, and returns its error.
fn not_agreed(
    mut kept: ActLog,
    commit: &StagedCommit,
    question: &PushPrompt,
    error: &GitError,
) -> Result<CliError, CliError> {
    let (answer, by, failure) = match question.answer() {
        Some(ApprovalAnswer::Deny { by, .. }) => ("denied", by, failed(error)),
        Some(ApprovalAnswer::Unanswered { reason } | ApprovalAnswer::Pending { reason, .. }) => {
            let failure = unanswered(commit, error.message().to_owned());
            ("unanswered", reason, failure)
        }
        // No question was asked: the commit cannot be shown whole.
        None | Some(ApprovalAnswer::AllowOnce { .. } | ApprovalAnswer::AllowForRun { .. }) => {
            let failure = failed(error).hint(
                "discard it, and have the worker stage less at once: what cannot be shown whole \
                 is not agreed to",
            );
            ("unanswered", error.message().to_owned(), failure)
        }
    };
    kept.answered(answer, &by)?;
    kept.close(answer, Some(failure.code()))?;
    Ok(failure)
}

fn unanswered(commit: &StagedCommit, why: String) -> CliError {
    let id = commit.id();
    CliError::new(ExitKind::Unanswered, "approval.unanswered", why).hint(format!(
        "it stays staged; type `forge stage push {id}` at a terminal"
    ))
}

fn report(
    global: &Global,
    commit: &StagedCommit,
    pushed: &PushReport,
) -> Result<ExitKind, CliError> {
    if global.json {
        print_json(&json!({
            "commitId": commit.id().as_str(),
            "commitSha": pushed.commit.as_str(),
            "url": pushed.url,
            "repo": commit.repo().to_string(),
            "branch": commit.branch().as_str(),
            "alreadyThere": pushed.already_there,
        }))?;
    } else {
        print_line(format_args!(
            "{}  {}  {}{}",
            pushed.commit,
            escape(commit.branch().as_str()),
            escape(&pushed.url),
            if pushed.already_there {
                "  (it was there already)"
            } else {
                ""
            },
        ))?;
    }
    Ok(ExitKind::Done)
}

/// The question, and its answer.
struct PushPrompt {
    text: String,
    colour: bool,
    answered: Mutex<Option<ApprovalAnswer>>,
}

impl PushPrompt {
    fn about(commit: &StagedCommit, outlook: &PushPreview, author: &Author, colour: bool) -> Self {
        PushPrompt {
            text: text_of(commit, outlook, author),
            colour,
            answered: Mutex::new(None),
        }
    }

    fn answer(&self) -> Option<ApprovalAnswer> {
        let answered = self.answered.lock();
        answered.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Approver for PushPrompt {
    /// Shows the commit of the request, with more detail than the request.
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        let (text, colour) = (self.text.clone(), self.colour);
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || {
                prompt::ask(&text, ANSWER_TIMEOUT, colour, PromptKind::Push)
            })
            .await;
            let by = "a person at the terminal".to_owned();
            let answer = match asked {
                Ok(Ok(PromptAnswer::Once)) => ApprovalAnswer::AllowOnce { by },
                Ok(Ok(PromptAnswer::No { reason })) => ApprovalAnswer::Deny { by, reason },
                Ok(Ok(
                    PromptAnswer::Run
                    | PromptAnswer::All
                    | PromptAnswer::Always
                    | PromptAnswer::HungUp
                    | PromptAnswer::Withdrawn,
                )) => ApprovalAnswer::Deny { by, reason: None },
                Ok(Ok(PromptAnswer::Nothing)) => ApprovalAnswer::unanswered(format!(
                    "nobody answered within {} minutes",
                    ANSWER_TIMEOUT.as_secs() / 60
                )),
                Ok(Err(_)) | Err(_) => ApprovalAnswer::unanswered("the terminal could not be read"),
            };
            let answered = self.answered.lock();
            *answered.unwrap_or_else(PoisonError::into_inner) = Some(answer.clone());
            answer
        })
    }
}

/// Writes all of a commit with one reading only: the labels at the left are forge's, the staged
/// text begins behind them in every row, and its backslashes are doubled.
fn text_of(commit: &StagedCommit, outlook: &PushPreview, author: &Author) -> String {
    let mut text = String::new();
    let mut row = |label: &str, value: &str| text.push_str(&format!("{label:<10}{value}\n"));
    row("push", commit.id().as_str());
    row("to", &escape_exactly(&commit.repo().to_string()));
    row("branch", &escape_exactly(commit.branch().as_str()));
    if commit.base().is_none() {
        row(
            "warning",
            "there is no such branch: it begins with these files, and shares nothing with others",
        );
    }
    row("author", &escape_exactly(&author.to_string()));
    match outlook {
        PushPreview::AsStaged => {}
        PushPreview::OnTop { head, .. } => {
            row("on top of", &format!("{head}, to where it has moved"));
        }
        PushPreview::There(made) => row(
            "warning",
            &format!("all of it is there already, as {made}: nothing would be pushed"),
        ),
    }
    let at = local_time(commit.created_at());
    row(
        "staged",
        &format!("{at} ({})", age(commit, SystemTime::now())),
    );
    for (number, line) in commit.message().split_terminator('\n').enumerate() {
        let label = if number == 0 { "message" } else { "" };
        // The mark tells it from a row of a difference.
        row(label, &format!("| {}", escape_exactly(line)));
    }
    let there: &[RepoPath] = match outlook {
        PushPreview::OnTop { there, .. } => there,
        PushPreview::AsStaged | PushPreview::There(_) => &[],
    };
    let is_there = |file: &&StagedFile| there.contains(file.path());
    let (same, changed): (Vec<&StagedFile>, Vec<_>) = commit.files().iter().partition(is_there);
    row("files", &size(changed.iter().copied()));
    for file in same {
        let path = escape_exactly(file.path().as_str());
        row(
            "unchanged",
            &format!("{path}, which is there already as it would become"),
        );
    }
    for file in changed {
        write_file(file, &mut row);
    }
    text
}

/// Writes all of one file.
fn write_file(file: &StagedFile, row: &mut impl FnMut(&str, &str)) {
    let path = escape_exactly(file.path().as_str());
    row(file.operation().as_str(), &path);
    if file.becomes_executable() {
        row(
            "warning",
            "it becomes a program: a file that may be executed",
        );
    }
    if !file.is_text() {
        row("warning", "its content is not shown: it is not text");
    }
    for line in file.rows() {
        match line.strip_prefix('\\') {
            // A row of a file never begins so: notes of git and others about its end.
            Some(note) => row("", &format!("\\{}", escape_exactly(note))),
            None => row("", &escape_exactly(line)),
        }
    }
}
