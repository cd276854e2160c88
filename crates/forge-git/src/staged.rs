//! Commits that are staged for a repository until a person has reviewed them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use file_sandbox::ContentHash;
use forge_tools::FileChange;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::address::Repo;
use super::difference::is_shown;
use super::error::{GitError, GitErrorKind};
use super::names::{BranchName, ObjectId, StagedId};
use super::repo_path::RepoPath;

sandbox_names::word_enum! {
    /// The effect of a commit on a file, against the branch that it is for.
    ///
    /// ```
    /// assert_eq!(forge_git::FileOperation::Create.as_str(), "create");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum FileOperation {
        /// The branch has no such file.
        Create = "create",
        /// The branch has another content.
        Update = "update",
        /// The branch has the file, and it is no longer there.
        Delete = "delete",
    }
    /// The word for it in results.
    pub fn as_str
}

/// One file of a staged commit.
///
/// ```
/// fn line(file: &forge_git::StagedFile) -> String {
///     format!("{} {}", file.operation().as_str(), file.path())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedFile {
    pub(crate) path: RepoPath,
    pub(crate) operation: FileOperation,
    pub(crate) diff: String,
    pub(crate) bytes: u64,
    /// None where it goes.
    pub(crate) content: Option<ContentHash>,
    /// The content in the branch: a replay needs it to be unchanged.
    pub(crate) base: Option<ObjectId>,
    /// `true` if it could be executed there.
    pub(crate) base_executable: bool,
    pub(crate) executable: bool,
}

impl StagedFile {
    sandbox_names::getters! {
        /// Its place in the repository.
        pub path: &RepoPath = &path;
        /// The effect on the file.
        pub operation: FileOperation = operation;
        /// A unified diff against the branch; of binary content, sizes and hashes. Before it, as git
        /// writes it, a row about an added right to execute.
        pub diff: &str = &diff;
        /// Its size afterwards.
        pub bytes: u64 = bytes;
    }

    /// Returns `true` if it may be executed afterwards where it could not be before.
    pub fn becomes_executable(&self) -> bool {
        !self.parts().0.is_empty()
    }

    /// The rows of the diff, without the names of both sides and the row about the right to
    /// execute.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        // Not `lines`, which takes a carriage return for a part of the line's end.
        self.parts().1.split_terminator('\n').skip(2)
    }

    /// `true` if the diff shows the content: single bytes that are not text as `%NN`. Of binary
    /// content it has sizes and hashes.
    pub fn is_text(&self) -> bool {
        is_shown(self.rows())
    }

    /// The row about the right to execute it, and the rest of the diff, which begins with the names
    /// of both sides.
    fn parts(&self) -> (&str, &str) {
        match self.diff.starts_with("--- ") {
            true => ("", &self.diff),
            false => {
                let end = self.diff.find("\n--- ").map_or(0, |end| end + 1);
                self.diff.split_at(end)
            }
        }
    }
}

/// Files as they were when they were staged, for one branch of one repository.
///
/// See the example of [`GitService`](super::GitService), which makes them.
///
/// ```
/// fn summary(commit: &forge_git::StagedCommit) -> String {
///     format!("{} files for {}", commit.files().len(), commit.branch())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedCommit {
    pub(crate) id: StagedId,
    pub(crate) repo: Repo,
    pub(crate) branch: BranchName,
    pub(crate) message: String,
    pub(crate) created_at_ns: u64,
    /// The commit that it was compared with; `None` if the branch was absent.
    pub(crate) base: Option<ObjectId>,
    pub(crate) files: Vec<StagedFile>,
    /// Outside of the agreement: it changes with every attempt.
    pub(crate) pushing: Option<ObjectId>,
}

impl StagedCommit {
    sandbox_names::getters! {
        /// Its name.
        pub id: &StagedId = &id;
        /// Where it would go.
        pub repo: &Repo = &repo;
        /// The branch that it would go to.
        pub branch: &BranchName = &branch;
        /// The message.
        pub message: &str = &message;
        /// The commit that a push of it has made, where that push has not come back: it was killed, or
        /// the connection was lost. Whether the repository took it is not known then. The next push
        /// finds out: where the branch has it, [`already_there`](super::PushReport::already_there)
        /// says so, and nothing is sent twice.
        pub being_pushed_as: Option<&ObjectId> = pushing.as_ref();
        /// The commit that it was compared with; none where there was no such branch.
        pub base: Option<&ObjectId> = base.as_ref();
        /// Its files, by path.
        pub files: &[StagedFile] = &files;
    }

    /// When it was staged.
    pub fn created_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.created_at_ns)
    }

    /// All diffs, one after the other.
    pub fn diff(&self) -> String {
        self.files.iter().map(|file| file.diff.as_str()).collect()
    }

    /// The changes as a person is shown them before a push.
    pub(crate) fn changes(&self) -> Vec<FileChange> {
        let change = |file: &StagedFile| {
            let (mode, hunks) = file.parts();
            let rows: String = hunks.split_inclusive('\n').skip(2).collect();
            // An empty file that comes or goes has no other row.
            let operation = file.operation.as_str();
            FileChange::of_diff(file.path.as_str(), format!("({operation})\n{mode}{rows}"))
        };
        self.files.iter().map(change).collect()
    }

    /// A hash of everything that a person agrees to: the message, the destination, and the content
    /// of each file.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.to_stored().text()).into()
    }

    pub(crate) fn to_stored(&self) -> StoredCommit {
        let file = |file: &StagedFile| StoredFile {
            path: file.path.to_string(),
            operation: file.operation,
            diff: file.diff.clone(),
            bytes: file.bytes,
            content: file.content.map(|hash| hash.to_string()),
            base: file.base.as_ref().map(ToString::to_string),
            base_executable: file.base_executable,
            executable: file.executable,
        };
        StoredCommit {
            version: 1,
            id: self.id.to_string(),
            repo: self.repo.to_string(),
            branch: self.branch.to_string(),
            message: self.message.clone(),
            created_at_ns: self.created_at_ns,
            base: self.base.as_ref().map(ToString::to_string),
            files: self.files.iter().map(file).collect(),
        }
    }
}

/// The staged commits.
///
/// ```
/// fn told(staged: &forge_git::StagedList) -> String {
///     format!("{} staged, {} damaged", staged.commits.len(), staged.damaged.len())
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StagedList {
    /// The oldest first.
    pub commits: Vec<StagedCommit>,
    /// Those that can only be discarded.
    pub damaged: Vec<DamagedCommit>,
}

/// A staged commit that can no longer be read; the others are listed nevertheless.
///
/// ```
/// fn told(damaged: &forge_git::DamagedCommit) -> String {
///     format!("{}: {}", damaged.id, damaged.why)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedCommit {
    /// Its name.
    pub id: StagedId,
    /// Why it cannot be read.
    pub why: GitError,
}

/// How one is written down.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredCommit {
    version: u32,
    id: String,
    repo: String,
    branch: String,
    message: String,
    created_at_ns: u64,
    base: Option<String>,
    files: Vec<StoredFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredFile {
    path: String,
    operation: FileOperation,
    diff: String,
    bytes: u64,
    content: Option<String>,
    base: Option<String>,
    base_executable: bool,
    executable: bool,
}

impl StoredCommit {
    pub(crate) fn text(&self) -> String {
        // Strings and numbers only: serialising them cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses a stored commit, if every part of it is valid.
    pub(crate) fn read(text: &[u8], id: &StagedId) -> Result<StagedCommit, GitError> {
        let broken = |why: &str| {
            GitErrorKind::Damaged
                .error(format!("The staged commit {id} cannot be read ({why})."))
                .hint("Discard it, and stage the files again.")
        };
        let kept: StoredCommit = serde_json::from_slice(text).map_err(|error| {
            // The error may quote the file.
            broken(&forge_tools::escape_controls(&error.to_string()))
        })?;
        if kept.version != 1 || kept.id != id.as_str() {
            return Err(broken("it is another one"));
        }
        let object = |text: Option<String>| match text {
            None => Ok(None),
            Some(text) => match ObjectId::parse(&text) {
                Some(id) => Ok(Some(id)),
                None => Err(broken("an object's name is none")),
            },
        };
        let mut files = Vec::with_capacity(kept.files.len());
        let name = |error: GitError| broken(error.message());
        for file in kept.files {
            let content = file.content.map(|hash| hash.parse::<ContentHash>());
            files.push(StagedFile {
                path: RepoPath::parse(&file.path).map_err(name)?,
                operation: file.operation,
                diff: file.diff,
                bytes: file.bytes,
                content: content.transpose().map_err(|_| broken("a hash is none"))?,
                base: object(file.base)?,
                base_executable: file.base_executable,
                executable: file.executable,
            });
        }
        Ok(StagedCommit {
            id: id.clone(),
            repo: Repo::parse(&kept.repo).map_err(name)?,
            branch: BranchName::parse(&kept.branch).map_err(name)?,
            message: kept.message,
            created_at_ns: kept.created_at_ns,
            base: object(kept.base)?,
            files,
            pushing: None,
        })
    }
}
