//! `git_diff`, `git_list_staged`, `git_discard`: the operations on a staged commit, but for the
//! push.

use forge_tools::{
    Annotations, Arguments, BoxFuture, CallFailure, Intent, ReadOnlyContext, Reply, Spec, Tool,
    ToolContext, rfc3339,
};
use serde_json::json;

use super::{GitToolContext, commit_id, during, files_of, files_text};
use crate::error::GitOperation;
use crate::names::StagedId;
use crate::staged::StagedCommit;

/// Shows a staged commit.
pub(super) struct GitDiff(Spec, GitToolContext);

/// Lists the staged commits.
pub(super) struct GitListStaged(Spec, GitToolContext);

/// Forgets a staged commit.
pub(super) struct GitDiscard(Spec, GitToolContext);

/// The `git_diff` tool. Its result is text only.
pub(super) fn git_diff(git_context: GitToolContext) -> GitDiff {
    let spec = Spec::looks("git_diff", "Show a staged commit as a unified diff.")
        .aliases(&["gitDiff"])
        .params([commit_id()]);
    GitDiff(spec, git_context)
}

/// The `git_list_staged` tool. Its fields are not described: it is read as a text, and descriptions
/// are in a model's context from its first word on.
pub(super) fn git_list_staged(git_context: GitToolContext) -> GitListStaged {
    let spec = Spec::looks(
        "git_list_staged",
        "List the staged commits, the oldest first.",
    )
    .aliases(&["gitListStaged", "listStaged"]);
    GitListStaged(spec, git_context)
}

/// The `git_discard` tool.
pub(super) fn git_discard(git_context: GitToolContext) -> GitDiscard {
    let mut spec = Spec::changes("git_discard", "Discard a staged commit; files stay.")
        .aliases(&["gitDiscard"])
        .params([commit_id()]);
    spec.annotations = Annotations {
        idempotent: false,
        ..Annotations::OVERWRITE
    };
    GitDiscard(spec, git_context)
}

fn id(args: &Arguments) -> Result<StagedId, CallFailure> {
    Ok(StagedId::parse(args.text("commit_id").unwrap_or_default())?)
}

impl Tool for GitDiff {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        _: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        during(GitOperation::Diff, id(args)).map(|_| Vec::new())
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        _: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        let git_context = self.1.clone();
        Box::pin(async move {
            let commit = git_context.staged(&id(&args)?, GitOperation::Diff).await?;
            Ok(Reply::text(commit.diff()))
        })
    }
}

impl Tool for GitListStaged {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(&self, _: &Arguments, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        Ok(Vec::new())
    }

    fn run<'a>(
        &'a self,
        _: Arguments,
        _: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        let git_context = self.1.clone();
        Box::pin(async move {
            let listed = git_context.git.list_staged().await;
            let listed = listed.map_err(|error| git_context.granted.failure(error))?;
            let concerns = |commit: &&StagedCommit| git_context.granted.takes_files(commit.repo());
            let commits: Vec<&StagedCommit> = listed.commits.iter().filter(concerns).collect();
            let line = |commit: &&StagedCommit| {
                format!(
                    "{} for branch {} of {}, {}: {}{}",
                    commit.id(),
                    commit.branch(),
                    git_context.granted.name(commit.repo()),
                    rfc3339(commit.created_at()),
                    commit.message().trim_end(),
                    files_text(commit)
                )
            };
            let text = match commits.is_empty() {
                true => "Nothing is staged.".to_owned(),
                false => commits.iter().map(line).collect::<Vec<_>>().join("\n"),
            };
            let each = |commit: &&StagedCommit| {
                json!({
                    "commitId": commit.id().as_str(),
                    "repo": git_context.granted.name(commit.repo()),
                    "branch": commit.branch().as_str(),
                    "message": commit.message().trim_end(),
                    "createdAt": rfc3339(commit.created_at()),
                    "files": files_of(commit),
                })
            };
            let commits: Vec<_> = commits.iter().map(each).collect();
            Ok(Reply::text(text).structured(json!({ "commits": commits })))
        })
    }
}

impl Tool for GitDiscard {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        _: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        during(GitOperation::Discard, id(args)).map(|_| Vec::new())
    }

    fn run<'a>(
        &'a self,
        args: Arguments,
        _: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        let git_context = self.1.clone();
        Box::pin(async move {
            let id = id(&args)?;
            git_context.staged(&id, GitOperation::Discard).await?;
            let discarded = git_context.git.discard(&id).await;
            discarded.map_err(|error| git_context.granted.failure(error))?;
            Ok(Reply::text(format!("Discarded {id}."))
                .structured(json!({ "success": true, "commitId": id.as_str() })))
        })
    }
}
