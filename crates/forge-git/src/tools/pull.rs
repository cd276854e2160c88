//! `git_pull`: files of a branch among the worker's.

use std::sync::Arc;

use file_sandbox::{ErrorKind, Mode, SandboxPath};
use forge_tools::{
    Annotations, Artifact, CallFailure, FailureCode, Field, Intent, Invocation, ReadOnlyContext,
    Reply, ReplyFuture, Risk, Spec, Tool, ToolContext,
};
use serde_json::json;

use super::{
    BRANCH, GitCall, GitToolContext, REPO, RepoAccess, TOP, branch, during, git_tool,
    spawn_blocking,
};
use crate::error::GitOperation;
use crate::repo_path::RepoPath;
use crate::service::{PullOutcome, PullReport, PullRequest, PulledFile};

forge_tools::arguments! {
    /// The arguments of `git_pull`.
    pub(super) struct PullArgs {
        repo: String = REPO;
        paths: Vec<String> = "In the repository.";
        branch: Option<String> = BRANCH;
        into: Option<String> = TOP;
    }
}

/// The `git_pull` tool.
pub(super) fn git_pull(git_context: &GitToolContext) -> Box<dyn Tool> {
    let mut spec = Spec::changes(
        "git_pull",
        "Copy files or directories of a git branch to your files. Local edits are merged.",
    )
    .aliases(&["gitPull", "pullFromGit", "pull_from_git"])
    .arguments::<PullArgs>()
    .output([
        Field::flag("success"),
        Field::text_list("pulled"),
        Field::text_list("conflicts"),
        Field::text_list("skipped"),
    ]);
    spec.risk = Risk::Network;
    spec.needs_network = true;
    spec.requires_permission = true;
    spec.annotations = Annotations {
        destructive: false,
        open_world: true,
        ..Annotations::OVERWRITE
    };
    git_tool::<PullArgs>(spec, git_context)
}

impl GitCall<PullArgs> {
    fn request(&self, view: &ReadOnlyContext<'_>) -> Result<PullRequest, CallFailure> {
        during(GitOperation::Pull, self.read_request(view))
    }

    fn read_request(&self, view: &ReadOnlyContext<'_>) -> Result<PullRequest, CallFailure> {
        let args = &self.args;
        let into = match &args.into {
            Some(into) => view.path(into)?,
            None => only_root(&view.mounts()?)?,
        };
        let paths = args.paths.iter().map(|path| RepoPath::parse(path));
        let paths: Result<Vec<RepoPath>, _> = paths.collect();
        Ok(PullRequest {
            repo: (self.context.granted).asked(&args.repo, RepoAccess::ReadOnly)?,
            branch: branch(args.branch.as_deref())?,
            paths: paths?,
            into,
        })
    }
}

impl Invocation for GitCall<PullArgs> {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let request = self.request(view)?;
        let to = |path: &RepoPath| {
            let to = request.into.join(path.as_str())?;
            // The branch's files are not known yet. A path that looks like a non-file may be a
            // directory; below one each file is checked.
            let wrong_suffix = FailureCode::File(ErrorKind::SuffixNotAllowed);
            let checked = view.check_write(&to);
            let is_no_file = checked.is_err_and(|failure| failure.code == wrong_suffix);
            Ok(match is_no_file {
                true => Intent::CreateDir(to),
                false => Intent::Write(to),
            })
        };
        request.paths.iter().map(to).collect()
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        Box::pin(async move {
            let files = context.files()?.clone();
            let call = Arc::clone(&self);
            let asked = spawn_blocking(move || call.request(&context.view()));
            let git_context = &self.context;
            let pulled = git_context.git.pull(&files, asked.await?).await;
            let pulled = pulled.map_err(|error| git_context.granted.failure(error))?;
            Ok(reply(&pulled))
        })
    }
}

fn reply(pulled: &PullReport) -> Reply {
    let is_conflict = |file: &&PulledFile| file.outcome == PullOutcome::Conflict;
    let conflicts: Vec<&str> = pulled
        .files
        .iter()
        .filter(is_conflict)
        .map(|file| file.path.as_str())
        .collect();
    let gone = |path: &SandboxPath| {
        let path = path.as_str();
        format!("{path}: no longer in the branch; it is left as it is")
    };
    let skipped: Vec<String> = pulled
        .skipped
        .iter()
        .map(|(path, why)| format!("{path}: {why}"))
        .chain(pulled.gone.iter().map(gone))
        .collect();
    let count = pulled.files.len();
    let files = if count == 1 { "file" } else { "files" };
    let mut text = format!("Pulled {count} {files}.");
    for file in &pulled.files {
        text.push_str(&format!(
            "\n{} ({})",
            file.path.as_str(),
            word(file.outcome)
        ));
    }
    for line in &skipped {
        text.push_str(&format!("\nNot pulled: {line}"));
    }
    if !conflicts.is_empty() {
        text.push_str(
            "\nIn conflict, local edits and the branch changed the same lines: bring together what \
             stands between the markers. A file that is not text is unchanged.",
        );
    }
    let paths: Vec<&str> = pulled.files.iter().map(|file| file.path.as_str()).collect();
    let mut reply = Reply::text(text).structured(json!({
        "success": true,
        "pulled": paths,
        "conflicts": conflicts,
        "skipped": skipped,
    }));
    for file in &pulled.files {
        let created = match file.outcome {
            PullOutcome::Created => true,
            PullOutcome::Updated | PullOutcome::Merged | PullOutcome::Conflict => false,
            PullOutcome::Unchanged | PullOutcome::Kept => continue,
        };
        let path = file.path.as_str();
        reply = reply.artifact(Artifact::written(path, created, file.bytes, None));
    }
    reply
}

fn word(outcome: PullOutcome) -> &'static str {
    match outcome {
        PullOutcome::Created => "created",
        PullOutcome::Updated => "updated",
        PullOutcome::Unchanged => "unchanged",
        PullOutcome::Kept => "kept as edited",
        PullOutcome::Merged => "merged",
        PullOutcome::Conflict => "conflict",
    }
}

/// The root that files go to where nothing is said: `workspace`, or the only one that takes any. If
/// none does, the first, which says that it takes none.
fn only_root(mounts: &[(SandboxPath, Mode)]) -> Result<SandboxPath, CallFailure> {
    let writable = || mounts.iter().filter(|(_, mode)| mode.can_write());
    let named = mounts
        .iter()
        .find(|(target, _)| target.as_str() == "/workspace");
    let only = || writable().next().filter(|_| writable().count() == 1);
    let takes_none = || mounts.first().filter(|_| writable().count() == 0);
    match named.or_else(only).or_else(takes_none) {
        Some((target, _)) => Ok(target.clone()),
        None => Err(FailureCode::InvalidArguments
            .failure("It is not clear which directory the files go to.")
            .hint("Say with 'into' which directory stands for the top of the repository.")),
    }
}
