//! Git over a backend of repositories: requests, results and limits of the operations, and the
//! service that carries them out.

use std::sync::Arc;

use file_sandbox::SandboxPath;
use forge_tools::Redactor;

use super::address::Repo;
use super::error::{GitError, GitErrorKind};
use super::names::{Author, BranchName, ObjectId};
use super::repo_path::RepoPath;
use super::repositories::{GitRepositories, TreeEntry};
use super::secrets::SecretPolicy;
use super::store::StagedStore;

/// Which files to pull, and where to.
///
/// ```
/// use forge_git::{BranchName, PullRequest, Repo, RepoPath};
/// use file_sandbox::SandboxPath;
/// let request = PullRequest {
///     repo: Repo::parse("octo/reports")?,
///     branch: BranchName::default(),
///     paths: vec![RepoPath::parse("analyses")?],
///     into: SandboxPath::parse("/workspace")?,
/// };
/// # let _ = request;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct PullRequest {
    /// The repository.
    pub repo: Repo,
    /// The branch.
    pub branch: BranchName,
    /// Files and directories in it.
    pub paths: Vec<RepoPath>,
    /// Where the top of the repository would be, among the worker's files.
    pub into: SandboxPath,
}

/// The result of a pull.
///
/// ```
/// fn conflicts(pulled: &forge_git::PullReport) -> bool {
///     use forge_git::PullOutcome;
///     pulled.files.iter().any(|file| file.outcome == PullOutcome::Conflict)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullReport {
    /// The commit that they are of.
    pub commit: ObjectId,
    /// The files, by path.
    pub files: Vec<PulledFile>,
    /// Files that were pulled before, are in the branch no longer, and are left here.
    pub gone: Vec<SandboxPath>,
    /// Requested paths that were not pulled, with the reason: links, submodules, and names that are
    /// unsafe as a path.
    pub skipped: Vec<(String, &'static str)>,
}

/// One pulled file.
///
/// ```
/// fn path(file: &forge_git::PulledFile) -> &str {
///     file.path.as_str()
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledFile {
    /// Where it is among the worker's files.
    pub path: SandboxPath,
    /// The outcome for the file.
    pub outcome: PullOutcome,
    /// How long it is now.
    pub bytes: u64,
}

/// The outcome for a pulled file.
///
/// ```
/// use forge_git::PullOutcome;
/// assert_ne!(PullOutcome::Merged, PullOutcome::Conflict);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullOutcome {
    /// It was not there.
    Created,
    /// It had not been edited, and is now as in the branch.
    Updated,
    /// It is as in the branch already.
    Unchanged,
    /// It has been edited, and the branch has not changed it: it stays.
    Kept,
    /// Both had changed it, in different places.
    Merged,
    /// Both had changed it: a text has both between markers, and of anything else the local one
    /// stays.
    Conflict,
}

/// The files to stage, and their destination.
///
/// See the example of [`GitService`].
#[derive(Debug, Clone)]
pub struct StageRequest {
    /// The repository.
    pub repo: Repo,
    /// The branch.
    pub branch: BranchName,
    /// Files among the worker's. One that is not there, and is in the branch, is to go.
    pub files: Vec<SandboxPath>,
    /// Where the top of the repository would be, among the worker's files.
    pub from: SandboxPath,
    /// The message of the commit.
    pub message: String,
    /// The policy for keys in the files.
    pub secrets: SecretPolicy,
}

/// The result of a push.
///
/// ```
/// fn told(pushed: &forge_git::PushReport) -> String {
///     format!("{} at {}", pushed.commit, pushed.url)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushReport {
    /// The commit that has the changes. The new head; or, where
    /// [`already_there`](Self::already_there) is set, the commit of an earlier push, or the head
    /// that had the changes already.
    pub commit: ObjectId,
    /// Where it can be looked at.
    pub url: String,
    /// Nothing was sent: the branch had these changes already. So it is after a push that was
    /// killed once the repository had taken it (see [`being_pushed_as`](super::StagedCommit::being_pushed_as)), and where
    /// another author has made them meanwhile.
    pub already_there: bool,
}

/// How much one call may carry.
///
/// ```
/// use forge_git::GitLimits;
/// let small = GitLimits { files: 10, ..GitLimits::default() };
/// assert!(small.file_bytes < small.total_bytes);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GitLimits {
    /// Files.
    pub files: usize,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all of them.
    pub total_bytes: u64,
}

impl Default for GitLimits {
    fn default() -> Self {
        GitLimits {
            files: 1000,
            file_bytes: 16 << 20,
            total_bytes: 64 << 20,
        }
    }
}

/// Git over a place that holds repositories.
///
/// ```
/// use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
/// use forge_git::*;
///
/// # async fn example(repositories: impl GitRepositories) -> Result<(), Box<dyn std::error::Error>> {
/// let work = Mount::memory(SandboxPath::parse("/workspace")?, Mode::ReadWrite);
/// let files = FileSandbox::new(vec![work])?;
/// files.write(&files.path("/workspace/topic.md")?, "one\n", Default::default())?;
///
/// let git = GitService::new(repositories, StagedStore::in_memory()?);
/// let staged = git
///     .stage(&files, StageRequest {
///         repo: Repo::parse("octo/reports")?,
///         branch: BranchName::default(),
///         files: vec![files.path("/workspace/topic.md")?],
///         from: SandboxPath::parse("/workspace")?,
///         message: "Add a topic".into(),
///         secrets: SecretPolicy::Refused,
///     })
///     .await?;
/// assert_eq!(staged.files()[0].operation(), FileOperation::Create);
/// assert!(staged.diff().contains("+one"));
/// # Ok(())
/// # }
/// ```
/// Work on files and stored commits runs on blocking threads: this needs a runtime of tokio.
#[derive(Debug, Clone)]
pub struct GitService<R> {
    pub(super) repositories: R,
    pub(super) rules: StagingRules,
}

/// Everything but the repositories, for the work on files.
#[derive(Debug, Clone)]
pub(super) struct StagingRules {
    pub(super) store: StagedStore,
    pub(super) limits: GitLimits,
    pub(super) author: Author,
    pub(super) trailer: Option<String>,
    pub(super) allow_executable_config: bool,
    pub(super) redactor: Arc<Redactor>,
}

/// Runs work that waits for files on a blocking thread.
pub(super) async fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GitError> + Send + 'static,
) -> Result<T, GitError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(GitErrorKind::Failed.error("It stopped unexpectedly; nothing else was affected."))
    })
}

impl<R: GitRepositories> GitService<R> {
    /// A service over these repositories, with staged commits in `store`.
    pub fn new(repositories: R, store: StagedStore) -> Self {
        GitService {
            repositories,
            rules: StagingRules {
                store,
                limits: GitLimits::default(),
                author: Author::default(),
                trailer: None,
                allow_executable_config: false,
                redactor: Arc::default(),
            },
        }
    }

    sandbox_names::setters! {
        /// How much one call may carry.
        limits(limits: GitLimits) => rules.limits = limits;
        /// Sets the author of commits.
        author(author: Author) => rules.author = author;
    }

    /// A line at the end of every message, such as `Assisted-by: forge`.
    ///
    /// # Errors
    /// It is not one line of the form `Word: text`.
    pub fn trailer(mut self, line: &str) -> Result<Self, GitError> {
        let is_word = |word: &str| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        let fits = line.len() <= 200
            && !line.contains(char::is_control)
            && line
                .split_once(": ")
                .is_some_and(|(word, text)| is_word(word) && !text.is_empty());
        if !fits {
            return Err(
                GitErrorKind::Invalid.error("A trailer is one line of the form 'Word: text'.")
            );
        }
        self.rules.trailer = Some(line.to_owned());
        Ok(self)
    }

    sandbox_names::setters! {
        /// Allows staging files that programs obey: hooks of tools, configuration that servers run.
        allow_executable_config(yes: bool) => rules.allow_executable_config = yes;
        /// Sets the redactor that recognises keys beyond those with a known shape: the values of
        /// variables, say.
        redactor(redactor: Arc<Redactor>) => rules.redactor = redactor;
    }

    sandbox_names::getters! {
        /// The author of commits.
        pub made_by: &Author = &rules.author;
    }

    /// Returns the head of a branch and its files; an absent branch is empty.
    pub(super) async fn branch(
        &self,
        repo: &Repo,
        branch: &BranchName,
    ) -> Result<(Option<ObjectId>, Vec<TreeEntry>), GitError> {
        let Some(head) = self.repositories.head(repo, branch).await? else {
            return Ok((None, Vec::new()));
        };
        let tree = self.repositories.tree(repo, &head).await?;
        Ok((Some(head), tree))
    }

    /// Runs work on the store on a blocking thread.
    pub(super) async fn on_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StagedStore) -> Result<T, GitError> + Send + 'static,
    ) -> Result<T, GitError> {
        let store = self.rules.store.clone();
        spawn_blocking(move || work(&store)).await
    }
}

/// Where a file of the worker is in the repository.
pub(super) fn below(path: &SandboxPath, top: &SandboxPath) -> Result<RepoPath, GitError> {
    let outside = || {
        let shown = forge_tools::escape_controls(path.asked());
        GitErrorKind::Invalid.error(format!("'{shown}' is not below '{}'.", top.as_str()))
    };
    if !path.starts_with(top) {
        return Err(outside());
    }
    let rest = path
        .as_str()
        .strip_prefix(top.as_str())
        .ok_or_else(outside)?;
    RepoPath::parse(rest.trim_start_matches('/'))
}
