//! What is read of a repository: the head of a branch, without its history, into the cache; its
//! files and their contents out of it.

use os_sandbox::Access;
use sha2::{Digest as _, Sha256};

use super::Inner;
use super::answers;
use super::cache::Cache;
use super::refusals::{self, expect, unreadable};
use super::run::{Job, for_the_other_side};
use crate::git::error::{GitError, GitErrorKind};
use crate::git::names::{Branch, ObjectId, Repo};
use crate::git::repositories::TreeEntry;

/// Names of a commit's files: 100 000 of them are some 10 MiB.
const MAX_TREE_BYTES: usize = 64 << 20;

impl Inner {
    pub(super) fn head(&self, repo: &Repo, branch: &Branch) -> Result<Option<ObjectId>, GitError> {
        let there = self.there(repo, Access::READ)?;
        let mut cache = self.cache_with_room(repo)?;
        let mut args = vec![
            "fetch".to_owned(),
            "--quiet".to_owned(),
            "--depth=1".to_owned(),
            "--no-tags".to_owned(),
            "--no-write-fetch-head".to_owned(),
            "--no-recurse-submodules".to_owned(),
        ];
        if there.is_of_this_machine() {
            args.push(format!(
                "--upload-pack={}",
                for_the_other_side("upload-pack")
            ));
        }
        args.extend([
            "--".to_owned(),
            there.url.clone(),
            format!("+refs/heads/{branch}:{}", kept_as(branch)),
        ]);
        let mut done = self.talk(&cache, &there, Job::new(args.clone()))?;
        if !done.exit.success() && refusals::is_damaged(&done) {
            cache = self.anew(cache, repo)?;
            done = self.talk(&cache, &there, Job::new(args))?;
        }
        // Room that cannot be made now is made after another fetch.
        let _later = cache.make_room(&self.cache, self.cache_bytes);
        if !done.exit.success() {
            if done.complaint.contains("couldn't find remote ref") {
                return Ok(None);
            }
            return Err(refusals::failure(repo, &there.shown, &done));
        }
        let found = self.resolve(&cache, repo, &kept_as(branch))?;
        Ok(Some(found))
    }

    pub(super) fn resolve(
        &self,
        cache: &Cache,
        repo: &Repo,
        name: &str,
    ) -> Result<ObjectId, GitError> {
        let job = Job::new(["rev-parse", "--verify", "--quiet", "--end-of-options", name]);
        let done = expect(self.run(cache, job)?, repo)?;
        let text = String::from_utf8_lossy(&done);
        ObjectId::parse(text.trim()).ok_or_else(|| unreadable(repo))
    }

    pub(super) fn tree(&self, repo: &Repo, commit: &ObjectId) -> Result<Vec<TreeEntry>, GitError> {
        let cache = self.cache(repo)?;
        let mut job = Job::new([
            "ls-tree",
            "-r",
            "-z",
            "--full-tree",
            "--end-of-options",
            commit.as_str(),
        ]);
        job.max_answer_bytes = MAX_TREE_BYTES;
        let answer = expect(self.run(&cache, job)?, repo)?;
        answers::tree(repo, &answer)
    }

    pub(super) fn contents(
        &self,
        repo: &Repo,
        ids: &[ObjectId],
        max_bytes: u64,
    ) -> Result<Vec<Vec<u8>>, GitError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let cache = self.cache(repo)?;
        let asked: String = ids.iter().map(|id| format!("{id}\n")).collect();
        // Sizes first: what is too large is not unpacked.
        let mut sizes = Job::new(["cat-file", "--batch-check=%(objecttype) %(objectsize)"]);
        sizes.stdin = asked.clone().into_bytes();
        sizes.max_answer_bytes = 64 * ids.len();
        let answer = expect(self.run(&cache, sizes)?, repo)?;
        let total = answers::sizes(&answer).ok_or_else(|| unreadable(repo))?;
        if total > max_bytes {
            return Err(GitError::new(
                GitErrorKind::TooLarge,
                format!("The files have {total} bytes; at most {max_bytes} are taken."),
            )
            .hint("Name fewer files."));
        }
        let mut job = Job::new(["cat-file", "--batch=%(objectsize)"]);
        job.stdin = asked.into_bytes();
        let room = usize::try_from(total).unwrap_or(usize::MAX);
        job.max_answer_bytes = room.saturating_add(64 * ids.len());
        let answer = expect(self.run(&cache, job)?, repo)?;
        answers::contents(&answer, ids.len()).ok_or_else(|| unreadable(repo))
    }
}

/// The reference of ours that a branch is fetched to. Not its own name: one branch may be named as
/// the directory of another that is gone by now, and longer than a file's name with `.lock`.
fn kept_as(branch: &Branch) -> String {
    let name = crate::hex::hex(&Sha256::digest(branch.as_str()));
    format!("refs/forge/heads/{}", name.get(..32).unwrap_or_default())
}
