//! `git_stage`: files, kept as they are now for a branch.

use std::sync::Arc;

use file_sandbox::SandboxPath;
use forge_tools::{
    Arguments, BoxFuture, CallFailure, Field, FileChange, Intent, Param, ReadOnlyContext, Reply,
    Spec, Tool, ToolContext, VerdictReason,
};
use serde_json::json;

use super::{
    BRANCH, GitToolContext, MAX_PATHS, REPO, RepoAccess, RepoGrants, TOP, branch, during, files_of,
    files_output, files_text, root_of, spawn_blocking,
};
use crate::error::GitOperation;
use crate::secrets::{AgreedSecrets, SecretPolicy, complaints, shown};
use crate::service::{GitLimits, StageRequest, below};
use crate::stage::WHO_READS_IT;

/// Most places that are named.
const MAX_TOLD: usize = 20;

/// Stages files for a repository.
pub(super) struct GitStage(Spec, GitToolContext);

/// The `git_stage` tool.
pub(super) fn git_stage(git_context: GitToolContext) -> GitStage {
    let spec = Spec::changes(
        "git_stage",
        "Stage files as a commit for a git branch; a person pushes it. A missing file is staged \
         as deleted.",
    )
    .aliases(&["gitStage", "stageForPush", "stage_for_push"])
    .adds_only()
    .not_idempotent()
    .params([
        Param::text_list("files", "Your files.", MAX_PATHS).required(),
        Param::text("repo", REPO).required(),
        Param::text("message", "Commit message.").required(),
        Param::text("branch", BRANCH),
        Param::text("from", TOP),
    ])
    .output([Field::text("commitId"), files_output()]);
    GitStage(spec, git_context)
}

impl GitStage {
    /// Returns every file that would be staged, in its present state. Unreadable and oversized ones
    /// are found when they are staged: the agreement does not cover them.
    fn each_file(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
        mut see: impl FnMut(&StageRequest, &SandboxPath, &[u8]),
    ) {
        let limits = GitLimits::default();
        let Ok(request) = request(args, &self.1.granted, view) else {
            return;
        };
        let mut left = limits.total_bytes;
        for file in &request.files {
            let Ok(content) = view.read_bytes(file, limits.file_bytes.min(left)) else {
                continue;
            };
            left -= content.len() as u64;
            see(&request, file, &content);
        }
    }
}

impl Tool for GitStage {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn intents(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Result<Vec<Intent>, CallFailure> {
        let request = request(args, &self.1.granted, view)?;
        Ok(request.files.into_iter().map(Intent::Read).collect())
    }

    /// Only a person, who sees the place, can say if a text that looks like a key is one.
    fn confirmation_reasons(
        &self,
        args: &Arguments,
        view: &ReadOnlyContext<'_>,
    ) -> Vec<VerdictReason> {
        let redactor = view.redactor();
        let mut found = Vec::new();
        self.each_file(args, view, |request, file, content| {
            if let Ok(path) = below(file, &request.from) {
                found.extend(complaints(redactor, &path, content));
            }
        });
        let more = found.len().saturating_sub(MAX_TOLD);
        found.truncate(MAX_TOLD);
        let Some(last) = found.last_mut() else {
            return Vec::new();
        };
        // It becomes part of a sentence.
        last.truncate(last.trim_end_matches('.').len());
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let mut reason = VerdictReason::new(format!("{}{more}", found.join(" ")));
        reason.why = Some(WHO_READS_IT.to_owned());
        vec![reason]
    }

    fn preview(&self, args: &Arguments, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        let redactor = view.redactor();
        let mut changes = Vec::new();
        self.each_file(args, view, |_, file, content| {
            changes.extend(shown(redactor, file, content));
        });
        changes
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
            let asked = spawn_blocking(move || {
                let mut request = request(&args, &granted, &context.view())?;
                request.secrets = AgreedSecrets::seen(&context, &request.files);
                Ok(request)
            });
            let commit = git_context.git.stage(&files, asked.await?).await;
            let commit = commit.map_err(|error| git_context.granted.failure(error))?;
            let text = format!(
                "Staged {} for branch {}{}; nothing is pushed before a person agrees.{}",
                commit.id(),
                commit.branch(),
                match commit.base() {
                    Some(_) => "",
                    None => ", which is new and will have these files only",
                },
                files_text(&commit)
            );
            Ok(Reply::text(text).structured(json!({
                "commitId": commit.id().as_str(),
                "files": files_of(&commit),
            })))
        })
    }
}

fn request(
    args: &Arguments,
    granted: &RepoGrants,
    view: &ReadOnlyContext<'_>,
) -> Result<StageRequest, CallFailure> {
    during(GitOperation::Stage, asked_for(args, granted, view))
}

fn asked_for(
    args: &Arguments,
    granted: &RepoGrants,
    view: &ReadOnlyContext<'_>,
) -> Result<StageRequest, CallFailure> {
    let mounts = view.mounts()?;
    let files = args.text_list("files").into_iter();
    let paths: Result<Vec<SandboxPath>, CallFailure> = files.map(|path| view.path(path)).collect();
    let paths = paths?;
    let from = match args.text("from") {
        Some(from) => view.path(from)?,
        // Those that are under another root are refused with both names.
        None => paths
            .first()
            .and_then(|first| root_of(&mounts, first))
            .unwrap_or_else(SandboxPath::root),
    };
    Ok(StageRequest {
        repo: granted.asked(args, RepoAccess::ReadWrite)?,
        branch: branch(args)?,
        files: paths,
        from,
        message: args.text("message").unwrap_or_default().to_owned(),
        // A model cannot declare secrets harmless.
        secrets: SecretPolicy::Refused,
    })
}
