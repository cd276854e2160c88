//! The operations of git as a trait, and their implementation by [`GitService`].

use file_sandbox::FileSandbox;
use forge_tools::BoxFuture;

use super::address::Repo;
use super::error::{GitError, GitOperation};
use super::names::StagedId;
use super::push::{OnDivergence, PushApproval};
use super::repositories::GitRepositories;
use super::service::{GitService, PullReport, PullRequest, PushReport, StageRequest};
use super::staged::{StagedCommit, StagedList};
use super::status::Status;
use super::store::{StagedStore, nothing_staged};

/// Git, as tools and commands see it.
///
/// See the example of [`GitService`], which is one over any place that holds repositories.
///
/// ```
/// async fn how_many(git: &dyn forge_git::GitBackend) -> usize {
///     git.list_staged().await.map_or(0, |staged| staged.commits.len())
/// }
/// ```
pub trait GitBackend: Send + Sync + 'static {
    /// Puts files of a branch among the worker's.
    fn pull<'a>(
        &'a self,
        files: &'a FileSandbox,
        request: PullRequest,
    ) -> BoxFuture<'a, Result<PullReport, GitError>>;

    /// Returns the state of files that were pulled from these repositories, without asking a
    /// repository.
    fn status<'a>(
        &'a self,
        files: &'a FileSandbox,
        of: &'a [Repo],
    ) -> BoxFuture<'a, Result<Status, GitError>>;

    /// Keeps files of the worker as they are now, for a branch. The repository is not changed.
    fn stage<'a>(
        &'a self,
        files: &'a FileSandbox,
        request: StageRequest,
    ) -> BoxFuture<'a, Result<StagedCommit, GitError>>;

    /// Makes a staged commit the head of its branch, and forgets it. If anything goes wrong, the
    /// branch is as it was and the commit stays staged.
    fn push(
        &self,
        approval: PushApproval,
        if_moved: OnDivergence,
    ) -> BoxFuture<'_, Result<PushReport, GitError>>;

    /// Forgets a staged commit.
    fn discard<'a>(&'a self, id: &'a StagedId) -> BoxFuture<'a, Result<(), GitError>>;

    /// Lists the staged commits, and those that can no longer be read.
    fn list_staged(&self) -> BoxFuture<'_, Result<StagedList, GitError>>;

    /// One staged commit, with its diffs.
    fn diff<'a>(&'a self, id: &'a StagedId) -> BoxFuture<'a, Result<StagedCommit, GitError>>;
}

impl<R: GitRepositories> GitBackend for GitService<R> {
    fn pull<'a>(
        &'a self,
        files: &'a FileSandbox,
        request: PullRequest,
    ) -> BoxFuture<'a, Result<PullReport, GitError>> {
        during(GitOperation::Pull, self.pull_files(files, request))
    }

    fn status<'a>(
        &'a self,
        files: &'a FileSandbox,
        of: &'a [Repo],
    ) -> BoxFuture<'a, Result<Status, GitError>> {
        during(GitOperation::Status, self.compare_with_pulled(files, of))
    }

    fn stage<'a>(
        &'a self,
        files: &'a FileSandbox,
        request: StageRequest,
    ) -> BoxFuture<'a, Result<StagedCommit, GitError>> {
        during(GitOperation::Stage, self.stage_files(files, request))
    }

    fn push(
        &self,
        approval: PushApproval,
        if_moved: OnDivergence,
    ) -> BoxFuture<'_, Result<PushReport, GitError>> {
        let push = async move { self.push_commit(&approval, if_moved).await };
        during(GitOperation::Push, push)
    }

    fn discard<'a>(&'a self, id: &'a StagedId) -> BoxFuture<'a, Result<(), GitError>> {
        let id = id.clone();
        let removed = self.on_store(move |store| match store.remove(&id)? {
            true => Ok(()),
            false => Err(nothing_staged(&id)),
        });
        during(GitOperation::Discard, removed)
    }

    fn list_staged(&self) -> BoxFuture<'_, Result<StagedList, GitError>> {
        during(GitOperation::List, self.on_store(StagedStore::all))
    }

    fn diff<'a>(&'a self, id: &'a StagedId) -> BoxFuture<'a, Result<StagedCommit, GitError>> {
        let id = id.clone();
        let commit = self.on_store(move |store| store.expect(&id));
        during(GitOperation::Diff, commit)
    }
}

/// Runs an operation, and names it in its error.
fn during<'a, T: 'a>(
    operation: GitOperation,
    work: impl Future<Output = Result<T, GitError>> + Send + 'a,
) -> BoxFuture<'a, Result<T, GitError>> {
    Box::pin(async move { work.await.map_err(|error| error.during(operation)) })
}
