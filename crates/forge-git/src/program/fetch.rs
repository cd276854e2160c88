//! Reading a repository: fetches the head of a branch, without its history, into the cache, and
//! reads its files and their contents from there.

use os_sandbox::Access;
use sha2::{Digest as _, Sha256};

use super::ProgramSettings;
use super::answers;
use super::cache::RepoCache;
use super::refusals::{self, expect, unreadable};
use super::run::{GitCommand, remote_command};
use crate::address::Repo;
use crate::error::{GitError, GitErrorKind};
use crate::names::{BranchName, ObjectId};
use crate::repositories::TreeEntry;

/// Names of a commit's files: 100 000 of them are some 10 MiB.
const MAX_TREE_BYTES: usize = 64 << 20;
const NO_CONTENTS: &str = "--filter=blob:none";

impl ProgramSettings {
    pub(super) fn head(
        &self,
        repo: &Repo,
        branch: &BranchName,
    ) -> Result<Option<ObjectId>, GitError> {
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
            args.push(format!("--upload-pack={}", remote_command("upload-pack")));
        } else if !cache.is_whole() {
            // Names are enough until a content is asked for. A server that knows nothing of it
            // sends everything.
            args.push(NO_CONTENTS.to_owned());
        }
        args.extend([
            "--".to_owned(),
            there.url.clone(),
            format!("+refs/heads/{branch}:{}", kept_as(branch)),
        ]);
        let mut done = self.talk(&cache, &there, GitCommand::new(args.clone()))?;
        if !done.exit.success() && refusals::is_damaged(&done) {
            cache = self.anew(cache, repo)?;
            done = self.talk(&cache, &there, GitCommand::new(args))?;
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
        cache: &RepoCache,
        repo: &Repo,
        name: &str,
    ) -> Result<ObjectId, GitError> {
        let job = GitCommand::new(["rev-parse", "--verify", "--quiet", "--end-of-options", name]);
        let done = expect(self.run(cache, job)?, repo)?;
        let text = String::from_utf8_lossy(&done);
        ObjectId::parse(text.trim()).ok_or_else(|| unreadable(repo))
    }

    pub(super) fn tree(&self, repo: &Repo, commit: &ObjectId) -> Result<Vec<TreeEntry>, GitError> {
        let cache = self.cache(repo)?;
        let mut job = GitCommand::new([
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
        let mut cache = self.cache(repo)?;
        let asked: String = ids.iter().map(|id| format!("{id}\n")).collect();
        // Sizes first: too large contents are not unpacked.
        let mut total = self.sizes(&cache, &asked)?;
        if total.is_none() {
            cache = self.fetch_contents(repo, cache, &asked)?;
            total = self.sizes(&cache, &asked)?;
        }
        let total = total.ok_or_else(|| unreadable(repo))?;
        if total > max_bytes {
            return Err(GitErrorKind::TooLarge
                .error(format!(
                    "The files have {total} bytes; at most {max_bytes} are taken."
                ))
                .hint("Name fewer files."));
        }
        let mut job = GitCommand::new(["cat-file", "--batch=%(objectsize)"]);
        job.stdin = asked.into_bytes();
        let room = usize::try_from(total).unwrap_or(usize::MAX);
        job.max_answer_bytes = room.saturating_add(64 * ids.len());
        let answer = expect(self.run(&cache, job)?, repo)?;
        answers::contents(&answer, ids.len()).ok_or_else(|| unreadable(repo))
    }
}

impl ProgramSettings {
    /// The total size of these contents; `None` if one of them is missing.
    fn sizes(&self, cache: &RepoCache, asked: &str) -> Result<Option<u64>, GitError> {
        let mut job = GitCommand::new(["cat-file", "--batch-check=%(objecttype) %(objectsize)"]);
        job.stdin = asked.as_bytes().to_vec();
        job.max_answer_bytes = 2 * asked.len();
        let done = self.run(cache, job)?;
        // Where git knows no way not to look for it elsewhere, it fails instead of saying so.
        Ok(answers::sizes(&done.answer).filter(|_| done.exit.success()))
    }

    /// Fetches contents that did not come with their names. Git would do it by itself, wherever it
    /// misses one and from any remembered server; here they are requested explicitly, from the
    /// intended repository.
    fn fetch_contents(
        &self,
        repo: &Repo,
        cache: RepoCache,
        asked: &str,
    ) -> Result<RepoCache, GitError> {
        let there = self.there(repo, Access::READ)?;
        if there.is_of_this_machine() {
            return Err(unreadable(repo));
        }
        let mut job = GitCommand::new([
            "-c",
            "fetch.negotiationAlgorithm=noop",
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            NO_CONTENTS,
            "--stdin",
            "--",
            there.url.as_str(),
        ]);
        job.stdin = asked.as_bytes().to_vec();
        let done = self.talk(&cache, &there, job)?;
        if done.exit.success() {
            return Ok(cache);
        }
        if !refusals::wants_no_single(&done) {
            return Err(refusals::failure(repo, &there.shown, &done));
        }
        let failed = |why: String| GitErrorKind::Failed.error(why);
        cache.whole_from_now_on().map_err(|error| {
            failed(format!("The cache of {repo} cannot be made anew: {error}."))
        })?;
        let why = format!("{repo} does not give single files.");
        Err(failed(why).hint("Try again: from now on all of it is fetched."))
    }
}

/// The reference of ours that a branch is fetched to. Not its own name: one branch may be named as
/// the directory of another that is gone by now, and longer than a file's name with `.lock`.
fn kept_as(branch: &BranchName) -> String {
    let name = sandbox_names::hex(Sha256::digest(branch.as_str()));
    format!("refs/forge/heads/{}", name.get(..32).unwrap_or_default())
}
