//! The changes of pulled files since they were pulled.

use std::collections::HashMap;

use file_sandbox::{ContentHash, EntryKind, ErrorKind, FileSandbox, SandboxPath};

use super::address::Repo;
use super::error::GitError;
use super::names::{BranchName, StagedId};
use super::pull_index::{PullIndex, PulledEntry};
use super::repo_path::RepoPath;
use super::repositories::GitRepositories;
use super::service::{GitService, StagingRules, spawn_blocking};
use super::staged::StagedCommit;

/// Most files that are named.
const MAX_FILES: usize = 1000;

/// The differences of the worker's files from their pulled state.
///
/// ```
/// fn told(status: &forge_git::Status) -> String {
///     format!("{} of {} changed", status.files.len(), status.pulled)
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Files that differ from the pulled state, by path; at most 1000.
    pub files: Vec<StatusFile>,
    /// Number of further ones.
    pub more: usize,
    /// The number of files whose pulled state is known.
    pub pulled: usize,
}

/// A file that differs from its pulled state.
///
/// ```
/// fn line(file: &forge_git::StatusFile) -> String {
///     format!("{} {}", file.state.as_str(), file.path.as_str())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusFile {
    /// Where it is among the worker's files.
    pub path: SandboxPath,
    /// Its change.
    pub state: FileState,
    /// The repository that it was pulled from.
    pub repo: Repo,
    /// The branch.
    pub branch: BranchName,
    /// The last commit in which it is staged as it is now, for that branch.
    pub staged: Option<StagedId>,
}

sandbox_names::word_enum! {
    /// The change of a pulled file.
    ///
    /// ```
    /// assert_eq!(forge_git::FileState::Deleted.as_str(), "deleted");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FileState {
        /// It has another content.
        Modified = "modified",
        /// It is not there.
        Deleted = "deleted",
    }
    /// The word for it in results.
    pub fn as_str
}

impl<R: GitRepositories> GitService<R> {
    pub(super) async fn compare_with_pulled(
        &self,
        files: &FileSandbox,
        of: &[Repo],
    ) -> Result<Status, GitError> {
        let (files, of, rules) = (files.clone(), of.to_vec(), self.rules.clone());
        spawn_blocking(move || status(&files, &of, &rules)).await
    }
}

fn status(files: &FileSandbox, of: &[Repo], rules: &StagingRules) -> Result<Status, GitError> {
    let mut status = Status::default();
    let commits = rules.store.all()?.commits;
    let staged = staged(&commits);
    for index in rules.store.indexes(of)? {
        let mut rows = Vec::with_capacity(index.files.len());
        for (path, row) in &index.files {
            let at = index.place.into.join(path.as_str())?;
            rows.push((at.clone(), path, now(files, &at, row)));
        }
        // The files of another run are no longer there, and were not deleted.
        let all_gone = rows
            .iter()
            .all(|(_, _, now)| matches!(now, LocalState::Gone));
        if all_gone && !index.of_now {
            continue;
        }
        let is_known = |(_, _, now): &&(_, _, LocalState)| !matches!(now, LocalState::Unknown);
        status.pulled += rows.iter().filter(is_known).count();
        for (at, path, now) in rows {
            let (state, content) = match now {
                LocalState::Same | LocalState::Unknown => continue,
                LocalState::Gone => (FileState::Deleted, None),
                LocalState::Other(hash) => (FileState::Modified, Some(hash)),
            };
            if status.files.len() >= MAX_FILES {
                status.more += 1;
                continue;
            }
            status.files.push(StatusFile {
                path: at,
                state,
                repo: index.place.repo.clone(),
                branch: index.place.branch.clone(),
                staged: staged.get(&key(&index, path, content)).copied().cloned(),
            });
        }
    }
    status
        .files
        .sort_by(|one, other| one.path.as_str().cmp(other.path.as_str()));
    Ok(status)
}

/// A file as it is now.
enum LocalState {
    Same,
    Gone,
    Other(ContentHash),
    /// The file is outside of this worker's mounts.
    Unknown,
}

fn now(files: &FileSandbox, at: &SandboxPath, row: &PulledEntry) -> LocalState {
    let stat = match files.stat(at) {
        Ok(stat) if stat.kind == EntryKind::File => stat,
        Ok(_) => return LocalState::Gone,
        Err(error) if error.kind() == ErrorKind::NotFound => return LocalState::Gone,
        Err(_) => return LocalState::Unknown,
    };
    let (Some(last), Ok(hash)) = (row.last(), files.hash(at)) else {
        return LocalState::Unknown;
    };
    let same = stat.size == row.bytes && hash == last;
    match same || row.base_of(&hash) == Some(hash) {
        true => LocalState::Same,
        false => LocalState::Other(hash),
    }
}

/// A file of a repository with a content; `None` for a removal.
type StagedKey<'a> = (&'a Repo, &'a BranchName, &'a RepoPath, Option<ContentHash>);

fn key<'a>(
    index: &'a PullIndex,
    path: &'a RepoPath,
    content: Option<ContentHash>,
) -> StagedKey<'a> {
    (&index.place.repo, &index.place.branch, path, content)
}

/// The last commit that has each.
fn staged(commits: &[StagedCommit]) -> HashMap<StagedKey<'_>, &StagedId> {
    let mut staged = HashMap::new();
    for commit in commits {
        for file in &commit.files {
            let key = (&commit.repo, &commit.branch, &file.path, file.content);
            staged.insert(key, &commit.id);
        }
    }
    staged
}
