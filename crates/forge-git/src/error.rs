//! Failures of git, in words for the caller.

use std::fmt;

sandbox_names::word_enum! {
    /// The requested operation.
    ///
    /// ```
    /// assert_eq!(forge_git::GitOperation::Push.as_str(), "push");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum GitOperation {
        /// Files out of a repository.
        Pull = "pull",
        /// Files put aside for one.
        Stage = "stage",
        /// Pushing a staged commit.
        Push = "push",
        /// Discarding a staged commit.
        Discard = "discard",
        /// Listing staged commits.
        List = "list_staged",
        /// One of them, looked at.
        Diff = "diff",
        /// Comparing pulled files.
        Status = "status",
    }
    /// The word for it in results.
    pub fn as_str
}

/// Which kind of failure it is, for programs.
///
/// ```
/// use forge_git::{GitErrorKind, RepoPath};
/// assert_eq!(RepoPath::parse(".git/config").unwrap_err().kind(), GitErrorKind::Refused);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitErrorKind {
    /// A name, an address or a message that cannot be one.
    Invalid,
    /// A path that no commit of ours may contain, or may contain only by name.
    Refused,
    /// The files contain text that looks like a key.
    Secrets,
    /// No such repository, branch, path or staged commit.
    NotFound,
    /// The staged commit has changed, or cannot be read.
    Damaged,
    /// The branch is not where it was.
    Moved,
    /// The repository did not take it.
    Rejected,
    /// The credentials are missing.
    Authentication,
    /// The server cannot be reached, or does not answer.
    Unreachable,
    /// The agreement of a person is missing.
    NotAgreed,
    /// More than one call may carry.
    TooLarge,
    /// It took too long.
    TimeLimit,
    /// The worker's files.
    File(file_sandbox::ErrorKind),
    /// The git program is missing, or it cannot be confined.
    Unavailable,
    /// Everything else.
    Failed,
}

impl GitErrorKind {
    /// Returns an error of this kind.
    pub fn error(self, message: impl Into<String>) -> GitError {
        GitError::new(self, message)
    }
}

/// A failure, with advice.
///
/// ```
/// use forge_git::{BranchName, GitErrorKind};
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

    /// Sets the operation, where none is known yet.
    pub(crate) fn during(mut self, operation: GitOperation) -> Self {
        self.operation.get_or_insert(operation);
        self
    }

    /// Adds the work that had been done by then.
    pub(crate) fn after(mut self, done: &str) -> Self {
        self.message = format!("{}\n{done}", self.message);
        self
    }

    /// Sets the operation, replacing any other.
    pub(crate) fn instead(mut self, operation: GitOperation) -> Self {
        self.operation = Some(operation);
        self
    }

    sandbox_names::getters! {
        /// The requested operation, if it is known.
        pub operation: Option<GitOperation> = operation;
        /// The kind, for programs.
        pub kind: GitErrorKind = kind;
        /// The message, without the advice.
        pub message: &str = &message;
        /// The file of the worker that it is about, as it was asked for.
        pub path: Option<&str> = path.as_deref();
        /// The advice.
        pub advice: Option<&str> = hint.as_deref();
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
        let failure = forge_tools::CallFailure::from(error);
        GitError {
            hint: failure.hint,
            path: failure.path,
            ..GitError::new(GitErrorKind::File(kind), failure.message)
        }
    }
}

/// Returns `None` for a result that failed for one of these reasons.
pub(super) fn unless<T>(
    result: Result<T, file_sandbox::Error>,
    reasons: &[file_sandbox::ErrorKind],
) -> Result<Option<T>, GitError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if reasons.contains(&error.kind()) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Most complaints in one error.
const MAX_COMPLAINTS: usize = 20;

/// Fails with these complaints, if any.
pub(super) fn refused(kind: GitErrorKind, mut complaints: Vec<String>) -> Result<(), GitError> {
    if complaints.is_empty() {
        return Ok(());
    }
    let more = complaints.len().saturating_sub(MAX_COMPLAINTS);
    complaints.truncate(MAX_COMPLAINTS);
    if more > 0 {
        complaints.push(format!("And {more} more."));
    }
    Err(GitError::new(kind, complaints.join("\n")))
}
