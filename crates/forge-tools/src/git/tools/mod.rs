//! Git as tools: what a model may do with a repository. A push is none of them.

mod pull;
mod stage;
mod staged;

use std::future::Future;
use std::sync::Arc;

use file_sandbox::{FileSandbox, SandboxPath};
use serde_json::{Value, json};

use super::backend::GitBackend;
use super::error::{GitError, GitErrorKind};
use super::names::{Branch, Repo};
use super::staged::StagedCommit;
use crate::call::{Code, Failure, Reply};
use crate::output::{Field, Output};
use crate::params::{Arguments, Param};
use crate::tool::{BoxFuture, Tool};

pub use pull::{GitPull, git_pull};
pub use stage::{GitStage, git_stage};
pub use staged::{GitDiff, GitDiscard, GitListStaged, git_diff, git_discard, git_list_staged};

const REPO: &str = "owner/name at GitHub, a URL, or an absolute path.";
const BRANCH: &str = "Branch; main if not given.";
const TOP: &str = "Directory that stands for the top of the repository; the root of your files if \
                   not given.";
const COMMIT_ID: &str = "The id that git_stage gave.";

/// Most paths in one call.
const MAX_PATHS: usize = 1000;

/// All of them over one backend, in the order they are listed. Only the repositories in `granted`
/// are used, whatever is asked for: an address may be any place of this machine.
///
/// ```
/// use std::sync::Arc;
/// use forge_tools::git::{Git, MemoryRepositories, Repo, StagedStore, tools};
///
/// let git = Git::new(MemoryRepositories::new(), StagedStore::in_memory()?);
/// let mut builder = forge_tools::Toolbox::builder();
/// for tool in tools::all(Arc::new(git), [Repo::parse("octo/reports")?]) {
///     builder = builder.boxed_tool(tool);
/// }
/// assert!(builder.build().unwrap().specs().all(|spec| spec.name != "git_push"));
/// # Ok::<(), forge_tools::git::GitError>(())
/// ```
pub fn all(
    git: Arc<dyn GitBackend>,
    granted: impl IntoIterator<Item = Repo>,
) -> Vec<Box<dyn Tool>> {
    let granted: Arc<[Repo]> = granted.into_iter().collect();
    vec![
        Box::new(git_pull(Arc::clone(&git), Arc::clone(&granted))),
        Box::new(git_stage(Arc::clone(&git), granted)),
        Box::new(git_diff(Arc::clone(&git))),
        Box::new(git_list_staged(Arc::clone(&git))),
        Box::new(git_discard(git)),
    ]
}

/// Where the work goes, which waits for files and for programs: where it holds up nobody.
fn apart<'a, F>(work: impl FnOnce() -> F + Send + 'static) -> BoxFuture<'a, Result<Reply, Failure>>
where
    F: Future<Output = Result<Reply, Failure>>,
{
    Box::pin(async move {
        let runtime = tokio::runtime::Handle::current();
        let done = tokio::task::spawn_blocking(move || runtime.block_on(work())).await;
        done.unwrap_or_else(|_| {
            Err(Failure::new(
                Code::Internal,
                "The tool stopped unexpectedly; nothing else was affected.",
            ))
        })
    })
}

impl From<GitError> for Failure {
    fn from(error: GitError) -> Failure {
        let code = match error.kind() {
            GitErrorKind::File(kind) => Code::File(kind),
            GitErrorKind::Invalid
            | GitErrorKind::Refused
            | GitErrorKind::Secrets
            | GitErrorKind::NotFound
            | GitErrorKind::Moved
            | GitErrorKind::Rejected
            | GitErrorKind::Authentication
            | GitErrorKind::NotAgreed
            | GitErrorKind::TooLarge
            | GitErrorKind::TimeLimit
            | GitErrorKind::Unavailable
            | GitErrorKind::Failed => Code::Git,
        };
        let mut failure = Failure::new(code, error.message());
        if let Some(operation) = error.operation() {
            failure = failure.structured(json!({ "operation": operation.as_str() }));
        }
        match error.advice() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// The repository of a call, if it is granted.
fn repo(args: &Arguments, granted: &[Repo]) -> Result<Repo, Failure> {
    let asked = args.text("repo").unwrap_or_default();
    let repo = Repo::parse(asked)?;
    if granted.contains(&repo) {
        return Ok(repo);
    }
    let shown = crate::escape_controls(asked);
    Err(Failure::new(
        Code::Git,
        format!("Repository '{shown}' is not one that you may use."),
    )
    .hint("Take the one that your task names, in the same spelling."))
}

fn branch(args: &Arguments) -> Result<Branch, Failure> {
    match args.text("branch") {
        None => Ok(Branch::default()),
        Some(name) => Ok(Branch::parse(name)?),
    }
}

/// The root that a path is under.
fn root_of(files: &FileSandbox, path: &SandboxPath) -> Option<SandboxPath> {
    let targets = files.mounts().iter().map(file_sandbox::Mount::target);
    let above = targets.filter(|target| path.starts_with(target));
    above.max_by_key(|target| target.as_str().len()).cloned()
}

fn commit_id() -> Param {
    Param::text("commit_id", COMMIT_ID)
        .alias("commitId")
        .required()
}

/// A staged commit's files, as results name them.
fn files_of(commit: &StagedCommit) -> Value {
    let file = |file: &super::StagedFile| json!({ "path": file.path().as_str(), "operation": file.operation().as_str() });
    commit.files().iter().map(file).collect()
}

fn files_output() -> Field {
    Field::objects(
        "files",
        Output::new([Field::text("path"), Field::text("operation")]),
    )
}

/// The same in words.
fn files_text(commit: &StagedCommit) -> String {
    let file =
        |file: &super::StagedFile| format!("\n{} {}", file.operation().as_str(), file.path());
    commit.files().iter().map(file).collect()
}
