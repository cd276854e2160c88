//! Pulling: files of a branch among the worker's, without taking away what was edited there.

use std::collections::BTreeMap;

use file_sandbox::{ContentHash, EntryKind, ErrorKind, FileSandbox, SandboxPath, WriteOptions};

use super::backend::{Git, PullOutcome, PullRequest, Pulled, PulledFile};
use super::error::{GitError, GitErrorKind};
use super::merge::merge;
use super::repo_path::RepoPath;
use super::repositories::{Repositories, TreeEntry, TreeKind};
use super::store::PullKey;
use crate::escape::escape_controls;

/// What is merged line by line; of anything longer one side is taken.
const MAX_MERGE_BYTES: usize = 4 << 20;

/// A file that is to be pulled, and what is there now.
struct Target {
    path: SandboxPath,
    key: PullKey,
    local: Option<Vec<u8>>,
}

impl<R: Repositories> Git<R> {
    pub(super) async fn pull_files(
        &self,
        files: &FileSandbox,
        request: &PullRequest,
    ) -> Result<Pulled, GitError> {
        if request.paths.is_empty() {
            return Err(GitError::new(GitErrorKind::Invalid, "No path is named."));
        }
        let (head, tree) = self.branch(&request.repo, &request.branch).await?;
        let Some(commit) = head else {
            return Err(GitError::new(
                GitErrorKind::NotFound,
                format!("{} has no branch '{}'.", request.repo, request.branch),
            ));
        };
        let mut skipped = Vec::new();
        let wanted = self.wanted(&tree, &request.paths, &mut skipped)?;
        // All that would be refused is refused before anything is written.
        let mut targets = Vec::with_capacity(wanted.len());
        for path in wanted.keys() {
            targets.push(self.target(files, request, path)?);
        }
        let ids: Vec<_> = wanted.values().map(|entry| entry.id.clone()).collect();
        let limit = self.limits.total_bytes;
        let contents = self
            .repositories
            .contents(&request.repo, &ids, limit)
            .await?;
        if contents
            .iter()
            .any(|bytes| bytes.len() as u64 > self.limits.file_bytes)
        {
            return Err(GitError::new(
                GitErrorKind::TooLarge,
                format!("A file has more than {} bytes.", self.limits.file_bytes),
            ));
        }
        for (target, theirs) in targets.iter().zip(&contents) {
            files.check_file_size(&target.path, theirs.len() as u64)?;
        }
        let mut pulled = Vec::with_capacity(targets.len());
        for (target, theirs) in targets.into_iter().zip(contents) {
            let outcome = self.put(files, &target, &theirs, &request.branch.to_string())?;
            self.store.set_pulled(&target.key, &theirs)?;
            pulled.push(PulledFile {
                path: target.path,
                outcome,
            });
        }
        Ok(Pulled {
            commit,
            files: pulled,
            skipped,
        })
    }

    /// The files of the branch that were asked for, by path.
    fn wanted<'a>(
        &self,
        tree: &'a [TreeEntry],
        paths: &[RepoPath],
        skipped: &mut Vec<(String, &'static str)>,
    ) -> Result<BTreeMap<RepoPath, &'a TreeEntry>, GitError> {
        let mut wanted = BTreeMap::new();
        let mut missing = Vec::new();
        for asked in paths {
            let mut found = false;
            for entry in tree {
                let rest = entry.path.strip_prefix(asked.as_str());
                if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                    continue;
                }
                found = true;
                let mut skip = |why| {
                    let shown = (escape_controls(&entry.path), why);
                    if !skipped.contains(&shown) && skipped.len() < self.limits.files {
                        skipped.push(shown);
                    }
                };
                match (entry.kind, RepoPath::parse(&entry.path)) {
                    (TreeKind::Link, _) => skip("a symbolic link"),
                    (TreeKind::Submodule, _) => skip("another repository"),
                    (TreeKind::File | TreeKind::Executable, Err(_)) => {
                        skip("its name is not safe as a path");
                    }
                    (TreeKind::File | TreeKind::Executable, Ok(path)) => {
                        wanted.insert(path, entry);
                    }
                }
                if wanted.len() > self.limits.files {
                    return Err(GitError::new(
                        GitErrorKind::TooLarge,
                        format!("That is more than {} files.", self.limits.files),
                    )
                    .hint("Name the directories or files that you need."));
                }
            }
            if !found {
                missing.push(format!("File not found: {asked}"));
            }
        }
        if missing.is_empty() {
            return Ok(wanted);
        }
        Err(GitError::new(GitErrorKind::NotFound, missing.join("\n")))
    }

    fn target(
        &self,
        files: &FileSandbox,
        request: &PullRequest,
        path: &RepoPath,
    ) -> Result<Target, GitError> {
        let to = request.into.join(path.as_str())?;
        files.check_write(&to)?;
        let local = match files.stat(&to) {
            Ok(stat) if stat.kind == EntryKind::File => {
                Some(files.read_bytes(&to, self.limits.file_bytes)?)
            }
            Ok(stat) => {
                return Err(GitError::new(
                    GitErrorKind::Refused,
                    format!(
                        "'{}' is a {}.",
                        escape_controls(to.as_str()),
                        stat.kind.as_str()
                    ),
                ));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Target {
            key: PullKey::new(&request.repo, &request.branch, path, &to),
            path: to,
            local,
        })
    }

    fn put(
        &self,
        files: &FileSandbox,
        target: &Target,
        theirs: &[u8],
        name: &str,
    ) -> Result<PullOutcome, GitError> {
        let Some(local) = &target.local else {
            let new = WriteOptions::new().create_new(true);
            files.write_bytes(&target.path, theirs, new)?;
            return Ok(PullOutcome::Created);
        };
        if local == theirs {
            return Ok(PullOutcome::Unchanged);
        }
        // Only over what was looked at.
        let over = WriteOptions::new().if_match(ContentHash::of(local));
        let base = self.store.pulled(&target.key)?;
        if base.as_ref() == Some(local) {
            files.write_bytes(&target.path, theirs, over)?;
            return Ok(PullOutcome::Updated);
        }
        if base.as_deref() == Some(theirs) {
            return Ok(PullOutcome::Kept);
        }
        let base = base.unwrap_or_default();
        let texts = [&base, local, theirs].map(|bytes: &[u8]| {
            let fits = bytes.len() <= MAX_MERGE_BYTES && !bytes.contains(&0);
            fits.then(|| std::str::from_utf8(bytes).ok()).flatten()
        });
        let [Some(base), Some(ours), Some(theirs)] = texts else {
            return Ok(PullOutcome::Conflict);
        };
        let merged = merge(base, ours, theirs, name);
        files.write_bytes(&target.path, merged.text.as_bytes(), over)?;
        Ok(match merged.conflicts {
            0 => PullOutcome::Merged,
            _ => PullOutcome::Conflict,
        })
    }
}
