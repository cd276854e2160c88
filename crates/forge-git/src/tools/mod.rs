//! Git as tools for a model. Pushing is not among them.

mod pull;
mod repo_grants;
mod stage;
mod staged;
mod status;

use std::marker::PhantomData;
use std::sync::Arc;

use file_sandbox::{Mode, SandboxPath};
use forge_tools::{
    Arguments, CallFailure, FailureCode, Field, Invocation, OutputSchema, Spec, Tool,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::backend::GitBackend;
use super::error::{GitError, GitErrorKind, GitOperation};
use super::names::{BranchName, StagedId};
use super::staged::StagedCommit;
use super::store::nothing_staged;

pub use repo_grants::{RepoAccess, RepoGrants};

use pull::git_pull;
use stage::git_stage;
use staged::{git_diff, git_discard, git_list_staged};
use status::git_status;

const REPO: &str = "owner/name, URL or path.";
const BRANCH: &str = "Branch; main by default.";
const TOP: &str = "Top directory; / by default.";
const COMMIT_ID: &str = "Given by git_stage.";

/// Their names, in the order they are listed.
pub const NAMES: [&str; 6] = [
    "git_status",
    "git_pull",
    "git_stage",
    "git_diff",
    "git_list_staged",
    "git_discard",
];

/// All tools that `granted` permits, over one backend, in the order they are listed: none without
/// grants, and no staging tool if everything is read-only. Only those repositories are used, for
/// any request, and commits staged for others are neither shown nor discarded.
///
/// ```
/// use std::sync::Arc;
/// use forge_git::{GitService, NoRepositories, Repo, StagedStore, tools};
/// use forge_git::tools::RepoAccess;
///
/// let git = Arc::new(GitService::new(NoRepositories, StagedStore::in_memory()?));
/// let reports = Repo::parse("octo/reports")?;
/// let mut builder = forge_tools::Toolbox::builder();
/// for tool in tools::all(git.clone(), [(reports.clone(), RepoAccess::ReadWrite)].into_iter().collect()) {
///     builder = builder.boxed_tool(tool);
/// }
/// assert!(builder.build().unwrap().specs().all(|spec| spec.name != "git_push"));
/// let may_look = tools::all(git, [(reports, RepoAccess::ReadOnly)].into_iter().collect());
/// assert!(may_look.iter().all(|tool| tool.spec().name != "git_stage"));
/// # Ok::<(), forge_git::GitError>(())
/// ```
pub fn all(git: Arc<dyn GitBackend>, granted: RepoGrants) -> Vec<Box<dyn Tool>> {
    let mut tools: Vec<Box<dyn Tool>> = Vec::new();
    if granted.is_empty() {
        return tools;
    }
    let (stages, granted) = (granted.any_takes_files(), Arc::new(granted));
    let git_context = GitToolContext { git, granted };
    tools.push(git_status(&git_context));
    tools.push(git_pull(&git_context));
    if stages {
        tools.push(git_stage(&git_context));
        tools.push(git_diff(&git_context));
        tools.push(git_list_staged(&git_context));
        tools.push(git_discard(&git_context));
    }
    tools
}

/// A git tool, whose calls have the arguments `A`.
struct GitTool<A> {
    spec: Spec,
    context: GitToolContext,
    args: PhantomData<fn() -> A>,
}

/// A call of a git tool.
struct GitCall<A> {
    args: A,
    context: GitToolContext,
}

fn git_tool<A>(spec: Spec, context: &GitToolContext) -> Box<dyn Tool>
where
    GitTool<A>: Tool,
{
    Box::new(GitTool::<A> {
        spec,
        context: context.clone(),
        args: PhantomData,
    })
}

impl<A: DeserializeOwned + 'static> Tool for GitTool<A>
where
    GitCall<A>: Invocation,
{
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn prepare(&self, args: &Arguments) -> Result<Arc<dyn Invocation>, CallFailure> {
        Ok(Arc::new(GitCall {
            args: args.read::<A>()?,
            context: self.context.clone(),
        }))
    }
}

/// The context of each tool.
#[derive(Clone)]
struct GitToolContext {
    git: Arc<dyn GitBackend>,
    granted: Arc<RepoGrants>,
}

impl GitToolContext {
    /// Returns a staged commit, if this worker may see it. A foreign or unreadable one counts as
    /// missing, since its owner cannot be known.
    async fn staged(
        &self,
        id: &StagedId,
        during: GitOperation,
    ) -> Result<StagedCommit, CallFailure> {
        match self.git.diff(id).await {
            Ok(commit) if self.granted.takes_files(commit.repo()) => Ok(commit),
            Ok(_) => Err(nothing_staged(id).during(during).into()),
            Err(error) if error.kind() == GitErrorKind::Damaged => {
                Err(nothing_staged(id).during(during).into())
            }
            Err(error) => Err(self.granted.failure(error.instead(during))),
        }
    }
}

/// Reads files on a blocking thread.
async fn spawn_blocking<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, CallFailure> + Send + 'static,
) -> Result<T, CallFailure> {
    let done = tokio::task::spawn_blocking(look).await;
    done.unwrap_or_else(|_| {
        Err(FailureCode::Internal
            .failure("The tool stopped unexpectedly; nothing else was affected."))
    })
}

impl From<GitError> for CallFailure {
    fn from(error: GitError) -> CallFailure {
        let code = match error.kind() {
            GitErrorKind::File(kind) => FailureCode::File(kind),
            _ => FailureCode::Git,
        };
        let mut failure = CallFailure::new(code, error.message());
        failure.path = error.path().map(str::to_owned);
        if let Some(operation) = error.operation() {
            failure = failure.structured(json!({ "operation": operation.as_str() }));
        }
        match error.advice() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// A refusal before git was asked is an error of this operation too.
fn during<T>(operation: GitOperation, made: Result<T, CallFailure>) -> Result<T, CallFailure> {
    made.map_err(|failure| match failure.structured {
        None if failure.code == FailureCode::Git => {
            failure.structured(json!({ "operation": operation.as_str() }))
        }
        Some(_) | None => failure,
    })
}

fn branch(name: Option<&str>) -> Result<BranchName, CallFailure> {
    match name {
        None => Ok(BranchName::default()),
        Some(name) => Ok(BranchName::parse(name)?),
    }
}

/// The root that a path is under.
fn root_of(mounts: &[(SandboxPath, Mode)], path: &SandboxPath) -> Option<SandboxPath> {
    let targets = mounts.iter().map(|(target, _)| target);
    let above = targets.filter(|target| path.starts_with(target));
    above.max_by_key(|target| target.as_str().len()).cloned()
}

/// A staged commit's files, as results name them.
fn files_of(commit: &StagedCommit) -> Value {
    let file = |file: &super::StagedFile| json!({ "path": file.path().as_str(), "operation": file.operation().as_str() });
    commit.files().iter().map(file).collect()
}

fn files_output() -> Field {
    Field::objects(
        "files",
        OutputSchema::new([Field::text("path"), Field::text("operation")]),
    )
}

/// The files in words.
fn files_text(commit: &StagedCommit) -> String {
    let file =
        |file: &super::StagedFile| format!("\n{} {}", file.operation().as_str(), file.path());
    commit.files().iter().map(file).collect()
}
