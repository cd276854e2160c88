//! The operations of a backend of repositories. The common rules (of staging, diffs, merges of
//! local edits) are not in here.

use super::address::Repo;
use super::error::{GitError, GitErrorKind};
use super::names::{Author, BranchName, ObjectId};
use super::repo_path::RepoPath;

/// The kind of entry at a path of a commit.
///
/// ```
/// use forge_git::TreeKind;
/// assert_ne!(TreeKind::File, TreeKind::Link);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeKind {
    /// A file.
    File,
    /// A file that may be executed.
    Executable,
    /// A symbolic link.
    Link,
    /// Another repository.
    Submodule,
}

/// One path of a commit.
///
/// ```
/// use forge_git::{ObjectId, TreeEntry, TreeKind};
/// let entry = TreeEntry {
///     path: "a.md".into(),
///     kind: TreeKind::File,
///     id: ObjectId::parse("4b825dc642cb6eb9a060e54bf8d69288fbee4904").unwrap(),
/// };
/// # let _ = entry;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// The path as in the commit, unchecked.
    pub path: String,
    /// The kind of entry.
    pub kind: TreeKind,
    /// Its content.
    pub id: ObjectId,
}

/// A file of a new commit.
///
/// ```
/// use forge_git::{NewFile, RepoPath};
/// let gone = NewFile { path: RepoPath::parse("a.md")?, content: None };
/// # let _ = gone;
/// # Ok::<(), forge_git::GitError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Its place.
    pub path: RepoPath,
    /// Its content, and if it may be executed; `None` to remove it.
    pub content: Option<(Vec<u8>, bool)>,
}

/// A commit that is to become the head of a branch.
///
/// ```
/// use forge_git::{Author, BranchName, NewCommit};
/// let first = NewCommit {
///     branch: BranchName::default(),
///     parent: None,
///     files: Vec::new(),
///     message: "Begin\n".into(),
///     author: Author::default(),
///     at_s: 0,
/// };
/// # let _ = first;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCommit {
    /// The branch.
    pub branch: BranchName,
    /// Its parent; `None` for the first commit.
    pub parent: Option<ObjectId>,
    /// The changes.
    pub files: Vec<NewFile>,
    /// The whole message.
    pub message: String,
    /// The author.
    pub author: Author,
    /// When, in seconds since 1970.
    pub at_s: u64,
}

/// The future state of a branch.
///
/// ```
/// use forge_git::{BranchName, NewHead, ObjectId};
/// let head = NewHead {
///     branch: BranchName::default(),
///     parent: None,
///     id: ObjectId::parse("4b825dc642cb6eb9a060e54bf8d69288fbee4904").unwrap(),
/// };
/// # let _ = head;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewHead {
    /// The branch.
    pub branch: BranchName,
    /// The head that it must still have; `None` if the branch must be absent.
    pub parent: Option<ObjectId>,
    /// The commit.
    pub id: ObjectId,
}

/// A place that holds repositories: the git program, a service.
///
/// No operation takes a path of the host, and all may wait for a network.
///
/// ```
/// use forge_git::{BranchName, GitError, GitRepositories, Repo};
/// async fn exists(repositories: &impl GitRepositories) -> Result<bool, GitError> {
///     let (repo, main) = (Repo::parse("octo/reports")?, BranchName::default());
///     Ok(repositories.head(&repo, &main).await?.is_some())
/// }
/// ```
pub trait GitRepositories: Send + Sync + 'static {
    /// Returns the present head of a branch; `None` if the branch is absent.
    fn head(
        &self,
        repo: &Repo,
        branch: &BranchName,
    ) -> impl Future<Output = Result<Option<ObjectId>, GitError>> + Send;

    /// Every file of a commit that [`head`](Self::head) has answered.
    fn tree(
        &self,
        repo: &Repo,
        commit: &ObjectId,
    ) -> impl Future<Output = Result<Vec<TreeEntry>, GitError>> + Send;

    /// Contents, in the order asked for, of at most so many bytes in all.
    fn contents(
        &self,
        repo: &Repo,
        ids: &[ObjectId],
        max_bytes: u64,
    ) -> impl Future<Output = Result<Vec<Vec<u8>>, GitError>> + Send;

    /// Makes a commit without publishing it, where its id has to be known before the push.
    fn prepare(
        &self,
        repo: &Repo,
        commit: NewCommit,
    ) -> impl Future<Output = Result<ObjectId, GitError>> + Send;

    /// Fails if a push to this branch is known to be refused before anything is sent; a person is
    /// not asked about such a push.
    fn check_push(
        &self,
        _repo: &Repo,
        _branch: &BranchName,
    ) -> impl Future<Output = Result<(), GitError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Makes the commit of [`prepare`](Self::prepare) the head of its branch, or changes nothing.
    fn push(&self, repo: &Repo, head: NewHead)
    -> impl Future<Output = Result<(), GitError>> + Send;
}

/// No repositories, for a [`GitService`](crate::GitService) that only lists, shows and discards staged
/// commits. Every operation on a repository fails.
#[derive(Debug, Clone, Copy)]
pub struct NoRepositories;

impl NoRepositories {
    fn error<T>(repo: &Repo) -> Result<T, GitError> {
        Err(GitErrorKind::NotFound.error(format!("There is no repository at {repo}.")))
    }
}

impl GitRepositories for NoRepositories {
    async fn head(&self, repo: &Repo, _: &BranchName) -> Result<Option<ObjectId>, GitError> {
        NoRepositories::error(repo)
    }

    async fn tree(&self, repo: &Repo, _: &ObjectId) -> Result<Vec<TreeEntry>, GitError> {
        NoRepositories::error(repo)
    }

    async fn contents(
        &self,
        repo: &Repo,
        _: &[ObjectId],
        _: u64,
    ) -> Result<Vec<Vec<u8>>, GitError> {
        NoRepositories::error(repo)
    }

    async fn prepare(&self, repo: &Repo, _: NewCommit) -> Result<ObjectId, GitError> {
        NoRepositories::error(repo)
    }

    async fn push(&self, repo: &Repo, _: NewHead) -> Result<(), GitError> {
        NoRepositories::error(repo)
    }
}
