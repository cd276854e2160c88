//! `git_pull`: files of a branch among the worker's.

use std::sync::Arc;

use file_sandbox::{ErrorKind, Mode, SandboxPath};
use forge_tools::{
    Annotations, Arguments, Artifact, BoxFuture, CallFailure, FailureCode, Field, Intent, Param,
    ReadOnlyContext, Reply, Risk, Spec, Tool, ToolContext,
};
use serde_json::json;

use super::{
    BRANCH, GitToolContext, MAX_PATHS, REPO, RepoAccess, RepoGrants, TOP, branch, during,
    spawn_blocking,
};
use crate::error::GitOperation;
use crate::repo_path::RepoPath;
use crate::service::{PullOutcome, PullReport, PullRequest, PulledFile};

/// Pulls files out of a repository.
pub(super) struct GitPull(Spec, GitToolContext);

/// The `git_pull` tool.
pub(super) fn git_pull(git_context: GitToolContext) -> GitPull {
    let mut spec = Spec::changes(
        "git_pull",
        "Copy files or directories of a git branch to your files. Local edits are merged.",
    )
    .aliases(&["gitPull", "pullFromGit", "pull_from_git"])
    .params([
        Param::text("repo", REPO).required(),
        Param::text_list("paths", "In the repository.", MAX_PATHS).required(),
        Param::text("branch", BRANCH),
        Param::text("into", TOP),
    ])
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
    GitPull(spec, git_context)
}

impl Tool for GitPull {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let request = request(args, &self.1.granted, view)?;
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

    fn run<'a>(
        &'a self,
        args: Arguments,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<Reply, CallFailure>> {
        let git_context = self.1.clone();
        Box::pin(async move {
            let files = context.files()?.clone();
            let granted = Arc::clone(&git_context.granted);
            let asked = spawn_blocking(move || request(&args, &granted, &context.view()));
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

fn request(
    args: &Arguments,
    granted: &RepoGrants,
    view: &ReadOnlyContext<'_>,
) -> Result<PullRequest, CallFailure> {
    during(GitOperation::Pull, asked_for(args, granted, view))
}

fn asked_for(
    args: &Arguments,
    granted: &RepoGrants,
    view: &ReadOnlyContext<'_>,
) -> Result<PullRequest, CallFailure> {
    let into = match args.text("into") {
        Some(into) => view.path(into)?,
        None => only_root(&view.mounts()?)?,
    };
    let paths: Result<Vec<RepoPath>, _> = args
        .text_list("paths")
        .into_iter()
        .map(RepoPath::parse)
        .collect();
    Ok(PullRequest {
        repo: granted.asked(args, RepoAccess::ReadOnly)?,
        branch: branch(args)?,
        paths: paths?,
        into,
    })
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
        None => Err(CallFailure::new(
            FailureCode::InvalidArguments,
            "It is not clear which directory the files go to.",
        )
        .hint("Say with 'into' which directory stands for the top of the repository.")),
    }
}
