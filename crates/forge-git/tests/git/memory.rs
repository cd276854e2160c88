//! Repositories in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use forge_git::{
    BranchName, GitError, GitErrorKind, GitRepositories, NewCommit, NewHead, ObjectId, Repo,
    TreeEntry, TreeKind,
};

/// Repositories that live as long as the last copy of this.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryRepositories {
    inner: Arc<Mutex<MemoryState>>,
}

#[derive(Debug, Default)]
struct MemoryState {
    heads: HashMap<(Repo, BranchName), ObjectId>,
    existing: Vec<Repo>,
    protected: Vec<(Repo, BranchName)>,
    trees: HashMap<ObjectId, TreeFiles>,
    contents: HashMap<ObjectId, Vec<u8>>,
}

type TreeFiles = BTreeMap<String, (TreeKind, ObjectId)>;

fn hashed(parts: &[&[u8]]) -> Option<ObjectId> {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    ObjectId::parse(sandbox_names::hex(hash.finalize()).get(..40)?)
}

impl MemoryState {
    fn put(&mut self, bytes: &[u8]) -> Option<ObjectId> {
        let id = hashed(&[b"content", bytes])?;
        self.contents.insert(id.clone(), bytes.to_vec());
        Some(id)
    }

    fn keep(
        &mut self,
        parent: Option<&ObjectId>,
        message: &str,
        files: TreeFiles,
    ) -> Option<ObjectId> {
        let listed = format!("{files:?}");
        let parent = parent.map_or("", ObjectId::as_str);
        let id = hashed(&[
            b"commit",
            parent.as_bytes(),
            message.as_bytes(),
            listed.as_bytes(),
        ])?;
        self.trees.insert(id.clone(), files);
        Some(id)
    }

    fn files(&self, commit: Option<&ObjectId>) -> TreeFiles {
        let files = commit.and_then(|commit| self.trees.get(commit));
        files.cloned().unwrap_or_default()
    }
}

impl MemoryRepositories {
    /// None at all.
    pub(crate) fn new() -> Self {
        MemoryRepositories::default()
    }

    fn inner(&self) -> MutexGuard<'_, MemoryState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a commit of another author: files with their content, or `None` where one is removed.
    /// Creates the repository and the branch.
    pub(crate) fn commit<'a>(
        &self,
        repo: &Repo,
        branch: &BranchName,
        files: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) {
        let mut inner = self.inner();
        let head = inner.heads.get(&(repo.clone(), branch.clone())).cloned();
        let mut all = inner.files(head.as_ref());
        for (path, content) in files {
            match content.map(|content| inner.put(content.as_bytes())) {
                None | Some(None) => drop(all.remove(path)),
                Some(Some(id)) => drop(all.insert(path.to_owned(), (TreeKind::File, id))),
            }
        }
        let id = inner.keep(head.as_ref(), "theirs", all);
        if !inner.existing.contains(repo) {
            inner.existing.push(repo.clone());
        }
        if let Some(id) = id {
            inner.heads.insert((repo.clone(), branch.clone()), id);
        }
    }

    /// Adds an entry that is not a file.
    pub(crate) fn plant(
        &self,
        repo: &Repo,
        branch: &BranchName,
        path: &str,
        kind: TreeKind,
        text: &str,
    ) {
        let mut inner = self.inner();
        let head = inner.heads.get(&(repo.clone(), branch.clone())).cloned();
        let mut all = inner.files(head.as_ref());
        if let Some(id) = inner.put(text.as_bytes()) {
            all.insert(path.to_owned(), (kind, id));
        }
        if let Some(id) = inner.keep(head.as_ref(), "planted", all) {
            inner.heads.insert((repo.clone(), branch.clone()), id);
        }
    }

    /// Removes a branch, as another author.
    pub(crate) fn remove_branch(&self, repo: &Repo, branch: &BranchName) {
        self.inner().heads.remove(&(repo.clone(), branch.clone()));
    }

    /// From now on a branch takes no commits.
    pub(crate) fn protect(&self, repo: &Repo, branch: &BranchName) {
        self.inner().protected.push((repo.clone(), branch.clone()));
    }

    /// A file of a branch's head.
    pub(crate) fn read(&self, repo: &Repo, branch: &BranchName, path: &str) -> Option<Vec<u8>> {
        let inner = self.inner();
        let head = inner.heads.get(&(repo.clone(), branch.clone()))?;
        let (_, id) = inner.trees.get(head)?.get(path)?;
        inner.contents.get(id).cloned()
    }
}

impl GitRepositories for MemoryRepositories {
    async fn head(&self, repo: &Repo, branch: &BranchName) -> Result<Option<ObjectId>, GitError> {
        let inner = self.inner();
        if !inner.existing.contains(repo) {
            return Err(GitErrorKind::NotFound.error(format!("There is no repository at {repo}.")));
        }
        Ok(inner.heads.get(&(repo.clone(), branch.clone())).cloned())
    }

    async fn tree(&self, _: &Repo, commit: &ObjectId) -> Result<Vec<TreeEntry>, GitError> {
        let files = self.inner().files(Some(commit));
        let entry = |(path, (kind, id))| TreeEntry { path, kind, id };
        Ok(files.into_iter().map(entry).collect())
    }

    async fn contents(
        &self,
        _: &Repo,
        ids: &[ObjectId],
        max_bytes: u64,
    ) -> Result<Vec<Vec<u8>>, GitError> {
        let inner = self.inner();
        let mut left = max_bytes;
        let mut contents = Vec::with_capacity(ids.len());
        for id in ids {
            let content = inner
                .contents
                .get(id)
                .ok_or_else(|| GitErrorKind::NotFound.error(format!("There is no object {id}.")))?;
            left = left.checked_sub(content.len() as u64).ok_or_else(|| {
                GitErrorKind::TooLarge.error(format!("The files have more than {max_bytes} bytes."))
            })?;
            contents.push(content.clone());
        }
        Ok(contents)
    }

    async fn prepare(&self, _: &Repo, commit: NewCommit) -> Result<ObjectId, GitError> {
        let mut inner = self.inner();
        let mut files = inner.files(commit.parent.as_ref());
        for file in &commit.files {
            let path = file.path.as_str();
            let Some((bytes, executable)) = &file.content else {
                files.remove(path);
                continue;
            };
            let kind = match executable {
                true => TreeKind::Executable,
                false => TreeKind::File,
            };
            if let Some(id) = inner.put(bytes) {
                files.insert(path.to_owned(), (kind, id));
            }
        }
        let id = inner.keep(commit.parent.as_ref(), &commit.message, files);
        id.ok_or_else(|| GitErrorKind::Failed.error("A hash was no hash."))
    }

    async fn push(&self, repo: &Repo, head: NewHead) -> Result<(), GitError> {
        let mut inner = self.inner();
        let at = (repo.clone(), head.branch.clone());
        if inner.protected.contains(&at) {
            return Err(GitErrorKind::Rejected.error(format!(
                "{repo} did not take it: branch '{}' is protected.",
                head.branch
            )));
        }
        if inner.heads.get(&at) != head.parent.as_ref() {
            return Err(
                GitErrorKind::Moved.error(format!("Branch '{}' moved meanwhile.", head.branch))
            );
        }
        inner.heads.insert(at, head.id);
        Ok(())
    }
}
