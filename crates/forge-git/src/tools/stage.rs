//! `git_stage`: files, kept as they are now for a branch.

use std::sync::Arc;

use file_sandbox::SandboxPath;
use forge_tools::{
    CallFailure, Field, FileChange, Intent, Invocation, ReadOnlyContext, Reply, ReplyFuture, Spec,
    Tool, ToolContext, VerdictReason,
};
use serde_json::json;

use super::{
    BRANCH, GitCall, GitToolContext, REPO, RepoAccess, TOP, branch, during, files_of, files_output,
    files_text, git_tool, root_of, spawn_blocking,
};
use crate::error::GitOperation;
use crate::secrets::{AgreedSecrets, SecretPolicy, complaints, shown};
use crate::service::{GitLimits, StageRequest, below};
use crate::stage::WHO_READS_IT;

/// Most places that are named.
const MAX_TOLD: usize = 20;

forge_tools::arguments! {
    /// The arguments of `git_stage`.
    pub(super) struct StageArgs {
        files: Vec<String> = "Your files.";
        repo: String = REPO;
        message: String = "Commit message.";
        branch: Option<String> = BRANCH;
        from: Option<String> = TOP;
    }
}

/// The `git_stage` tool.
pub(super) fn git_stage(git_context: &GitToolContext) -> Box<dyn Tool> {
    let spec = Spec::changes(
        "git_stage",
        "Stage files as a commit for a git branch; a person pushes it. A missing file is staged \
         as deleted.",
    )
    .aliases(&["gitStage", "stageForPush", "stage_for_push"])
    .adds_only()
    .not_idempotent()
    .arguments::<StageArgs>()
    .output([Field::text("commitId"), files_output()]);
    git_tool::<StageArgs>(spec, git_context)
}

impl GitCall<StageArgs> {
    fn request(&self, view: &ReadOnlyContext<'_>) -> Result<StageRequest, CallFailure> {
        during(GitOperation::Stage, self.read_request(view))
    }

    fn read_request(&self, view: &ReadOnlyContext<'_>) -> Result<StageRequest, CallFailure> {
        let (args, mounts) = (&self.args, view.mounts()?);
        let files = args.files.iter().map(|path| view.path(path));
        let files = files.collect::<Result<Vec<SandboxPath>, CallFailure>>()?;
        let from = match &args.from {
            Some(from) => view.path(from)?,
            // Those that are under another root are refused with both names.
            None => files
                .first()
                .and_then(|first| root_of(&mounts, first))
                .unwrap_or_else(SandboxPath::root),
        };
        Ok(StageRequest {
            repo: (self.context.granted).asked(&args.repo, RepoAccess::ReadWrite)?,
            branch: branch(args.branch.as_deref())?,
            files,
            from,
            message: args.message.clone(),
            // A model cannot declare secrets harmless.
            secrets: SecretPolicy::Refused,
        })
    }

    /// Returns every file that would be staged, in its present state. Unreadable and oversized ones
    /// are found when they are staged: the agreement does not cover them.
    fn each_file(
        &self,
        view: &ReadOnlyContext<'_>,
        mut see: impl FnMut(&StageRequest, &SandboxPath, &[u8]),
    ) {
        let limits = GitLimits::default();
        let Ok(request) = self.request(view) else {
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

impl Invocation for GitCall<StageArgs> {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let request = self.request(view)?;
        Ok(request.files.into_iter().map(Intent::Read).collect())
    }

    /// Only a person, who sees the place, can say if a text that looks like a key is one.
    fn confirmation_reasons(&self, view: &ReadOnlyContext<'_>) -> Vec<VerdictReason> {
        let redactor = view.redactor();
        let mut found = Vec::new();
        self.each_file(view, |request, file, content| {
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

    fn preview(&self, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        let redactor = view.redactor();
        let mut changes = Vec::new();
        self.each_file(view, |_, file, content| {
            changes.extend(shown(redactor, file, content));
        });
        changes
    }

    fn run(self: Arc<Self>, context: ToolContext) -> ReplyFuture {
        Box::pin(async move {
            let files = context.files()?.clone();
            let call = Arc::clone(&self);
            let asked = spawn_blocking(move || {
                let mut request = call.request(&context.view())?;
                request.secrets = AgreedSecrets::seen(&context, &request.files);
                Ok(request)
            });
            let git_context = &self.context;
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
