//! What goes wrong with git, in words for whoever asked.

use std::fmt;

/// What was asked for.
///
/// ```
/// assert_eq!(forge_tools::git::GitOperation::Push.as_str(), "push");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitOperation {
    /// Files out of a repository.
    Pull,
    /// Files put aside for one.
    Stage,
    /// What was put aside, into the repository.
    Push,
    /// What was put aside, thrown away.
    Discard,
    /// What is put aside, listed.
    List,
    /// One of them, looked at.
    Diff,
    /// What became of pulled files.
    Status,
}

impl GitOperation {
    /// The word for it in results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            GitOperation::Pull => "pull",
            GitOperation::Stage => "stage",
            GitOperation::Push => "push",
            GitOperation::Discard => "discard",
            GitOperation::List => "list_staged",
            GitOperation::Diff => "diff",
            GitOperation::Status => "status",
        }
    }
}

/// Which kind of failure it is, for programs.
///
/// ```
/// use forge_tools::git::{GitErrorKind, RepoPath};
/// assert_eq!(RepoPath::parse(".git/config").unwrap_err().kind(), GitErrorKind::Refused);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitErrorKind {
    /// A name, an address or a message that cannot be one.
    Invalid,
    /// A path that no commit of ours may contain, or may contain only by name.
    Refused,
    /// What looks like a key is among it.
    Secrets,
    /// No such repository, branch, path or staged commit.
    NotFound,
    /// What is staged under that name is no longer what it was, or cannot be read.
    Damaged,
    /// The branch is not where it was.
    Moved,
    /// The repository did not take it.
    Rejected,
    /// Nobody has said who is asking.
    Authentication,
    /// There is no way to the server, or nobody answers there.
    Unreachable,
    /// Nobody has agreed to it.
    NotAgreed,
    /// More than one call may carry.
    TooLarge,
    /// It took too long.
    TimeLimit,
    /// The worker's files.
    File(file_sandbox::ErrorKind),
    /// There is no git, or no way to confine it.
    Unavailable,
    /// Everything else.
    Failed,
}

/// A failure, with what may be tried.
///
/// ```
/// use forge_tools::git::{BranchName, GitErrorKind};
///
/// let error = BranchName::parse("a..b").unwrap_err();
/// assert_eq!(error.kind(), GitErrorKind::Invalid);
/// assert!(error.to_string().starts_with("Not the name of a branch: 'a..b'"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitError {
    operation: Option<GitOperation>,
    kind: GitErrorKind,
    message: String,
    hint: Option<String>,
    /// The worker's file that it is about.
    path: Option<String>,
}

impl GitError {
    pub(crate) fn new(kind: GitErrorKind, message: impl Into<String>) -> Self {
        GitError {
            operation: None,
            kind,
            message: message.into(),
            hint: None,
            path: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, of that operation, where none is known yet.
    pub(crate) fn during(mut self, operation: GitOperation) -> Self {
        self.operation.get_or_insert(operation);
        self
    }

    /// The same, with what had been done by then.
    pub(crate) fn after(mut self, done: &str) -> Self {
        self.message = format!("{}\n{done}", self.message);
        self
    }

    /// The same, of that operation, whatever it was of.
    pub(crate) fn instead(mut self, operation: GitOperation) -> Self {
        self.operation = Some(operation);
        self
    }

    /// `GIT_ERROR`, as every one of these is called in results.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "GIT_ERROR"
    }

    /// What was asked for, where it came that far.
    #[must_use]
    pub fn operation(&self) -> Option<GitOperation> {
        self.operation
    }

    /// The kind, for programs.
    #[must_use]
    pub fn kind(&self) -> GitErrorKind {
        self.kind
    }

    /// What happened, without what to try.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The file of the worker that it is about, as it was asked for.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// What to try.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n{hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for GitError {}

impl From<file_sandbox::Error> for GitError {
    fn from(error: file_sandbox::Error) -> Self {
        let kind = error.kind();
        let failure = crate::call::CallFailure::from(error);
        GitError {
            hint: failure.hint,
            path: failure.path,
            ..GitError::new(GitErrorKind::File(kind), failure.message)
        }
    }
}
