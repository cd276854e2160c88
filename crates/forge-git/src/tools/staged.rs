//! `git_diff`, `git_list_staged`, `git_discard`: the operations on a staged commit, but for the
//! push.

use std::sync::Arc;

use forge_tools::{
    Annotations, CallFailure, Intent, Invocation, ReadOnlyContext, Reply, ReplyFuture, Spec, Tool,
    ToolContext, rfc3339,
};
use serde::Deserialize;
use serde_json::json;

use super::{COMMIT_ID, GitCall, GitToolContext, during, files_of, files_text, git_tool};
use crate::error::GitOperation;
use crate::names::StagedId;
use crate::staged::StagedCommit;

forge_tools::arguments! {
    /// The arguments of `git_diff`.
    pub(super) struct DiffArgs {
        commit_id: String = COMMIT_ID, alias("commitId");
    }
}

/// The arguments of `git_list_staged`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListStagedArgs {}

forge_tools::arguments! {
    /// The arguments of `git_discard`.
    pub(super) struct DiscardArgs {
        commit_id: String = COMMIT_ID, alias("commitId");
    }
}

/// The `git_diff` tool. Its result is text only.
pub(super) fn git_diff(git_context: &GitToolContext) -> Box<dyn Tool> {
    let spec = Spec::looks("git_diff", "Show a staged commit as a unified diff.")
        .aliases(&["gitDiff"])
        .arguments::<DiffArgs>();
    git_tool::<DiffArgs>(spec, git_context)
}

/// The `git_list_staged` tool. Its fields are not described: it is read as a text, and descriptions
/// are in a model's context from its first word on.
pub(super) fn git_list_staged(git_context: &GitToolContext) -> Box<dyn Tool> {
    let spec = Spec::looks(
        "git_list_staged",
        "List the staged commits, the oldest first.",
    )
    .aliases(&["gitListStaged", "listStaged"]);
    git_tool::<ListStagedArgs>(spec, git_context)
}

/// The `git_discard` tool.
pub(super) fn git_discard(git_context: &GitToolContext) -> Box<dyn Tool> {
    let mut spec = Spec::changes("git_discard", "Discard a staged commit; files stay.")
        .aliases(&["gitDiscard"])
        .arguments::<DiscardArgs>();
    spec.annotations = Annotations {
        idempotent: false,
        ..Annotations::OVERWRITE
    };
    git_tool::<DiscardArgs>(spec, git_context)
}

impl Invocation for GitCall<DiffArgs> {
    fn intents(&self, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let id = StagedId::parse(&self.args.commit_id);
        during(GitOperation::Diff, id.map_err(CallFailure::from)).map(|_| Vec::new())
    }

    fn run(self: Arc<Self>, _: ToolContext) -> ReplyFuture {
        Box::pin(async move {
            let git_context = &self.context;
            let id = StagedId::parse(&self.args.commit_id)?;
            let commit = git_context.staged(&id, GitOperation::Diff).await?;
            Ok(Reply::text(commit.diff()))
        })
    }
}

impl Invocation for GitCall<ListStagedArgs> {
    fn intents(&self, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        Ok(Vec::new())
    }

    fn run(self: Arc<Self>, _: ToolContext) -> ReplyFuture {
        Box::pin(async move {
            let git_context = &self.context;
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

impl Invocation for GitCall<DiscardArgs> {
    fn intents(&self, _: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let id = StagedId::parse(&self.args.commit_id);
        during(GitOperation::Discard, id.map_err(CallFailure::from)).map(|_| Vec::new())
    }

    fn run(self: Arc<Self>, _: ToolContext) -> ReplyFuture {
        Box::pin(async move {
            let git_context = &self.context;
            let id = StagedId::parse(&self.args.commit_id)?;
            git_context.staged(&id, GitOperation::Discard).await?;
            let discarded = git_context.git.discard(&id).await;
            discarded.map_err(|error| git_context.granted.failure(error))?;
            Ok(Reply::text(format!("Discarded {id}."))
                .structured(json!({ "success": true, "commitId": id.as_str() })))
        })
    }
}
