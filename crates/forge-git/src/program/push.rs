//! A commit that becomes the head of a branch over there, or nothing does.

use os_sandbox::Access;

use super::refusals::{checked_out, expect, refused};
use super::run::{GitCommand, Remote, remote_command};
use super::{ProgramSettings, local};
use crate::address::Repo;
use crate::error::{GitError, GitErrorKind};
use crate::names::{BranchName, ObjectId};
use crate::repositories::{NewCommit, NewHead};

impl ProgramSettings {
    pub(super) fn prepare(&self, repo: &Repo, commit: &NewCommit) -> Result<ObjectId, GitError> {
        let cache = self.cache(repo)?;
        let out = "refs/forge/out";
        let mut import =
            GitCommand::new(["fast-import", "--quiet", "--force", "--date-format=raw"]);
        import.stdin = stream(commit, out);
        expect(self.run(&cache, import)?, repo)?;
        self.resolve(&cache, repo, out)
    }

    /// Fails if a repository of this machine would refuse the branch.
    pub(super) fn check_push(&self, repo: &Repo, branch: &BranchName) -> Result<(), GitError> {
        let there = self.there(repo, Access::READ)?;
        check_local(repo, &there.reach, branch)
    }

    pub(super) fn push(&self, repo: &Repo, head: &NewHead) -> Result<(), GitError> {
        let there = self.there(repo, Access::READ | Access::WRITE)?;
        check_local(repo, &there.reach, &head.branch)?;
        let cache = self.cache(repo)?;
        let (branch, new) = (&head.branch, &head.id);
        let expected = head.parent.as_ref().map_or("", ObjectId::as_str);
        // One reference moves whole or not at all; `--atomic` is more than some servers know.
        let mut args = vec![
            "push".to_owned(),
            "--quiet".to_owned(),
            "--porcelain".to_owned(),
            "--no-verify".to_owned(),
            "--no-signed".to_owned(),
        ];
        if there.is_of_this_machine() {
            args.push(format!("--receive-pack={}", remote_command("receive-pack")));
        }
        args.extend([
            format!("--force-with-lease=refs/heads/{branch}:{expected}"),
            "--".to_owned(),
            there.url.clone(),
            format!("{new}:refs/heads/{branch}"),
        ]);
        let done = self.talk(&cache, &there, GitCommand::new(args))?;
        if done.exit.success() {
            return Ok(());
        }
        Err(refused(repo, branch, &there.shown, &done))
    }
}

fn check_local(repo: &Repo, reach: &Remote, branch: &BranchName) -> Result<(), GitError> {
    let Remote::Local(path, _) = reach else {
        return Ok(());
    };
    if let Some(why) = local::would_be_asked(path) {
        return Err(GitErrorKind::Rejected
            .error(format!("{repo} did not take it: {why}."))
            .hint("Reach it over https or ssh, where it runs them itself."));
    }
    match local::is_checked_out(path, branch.as_str()) {
        true => Err(checked_out(repo, branch)),
        false => Ok(()),
    }
}

/// A commit in the language of `git fast-import`.
fn stream(commit: &NewCommit, to: &str) -> Vec<u8> {
    let mut text = Vec::new();
    let mut line = |parts: &[&[u8]]| {
        parts.iter().for_each(|part| text.extend_from_slice(part));
        text.push(b'\n');
    };
    let who = format!("{} {} +0000", commit.author, commit.at_s);
    line(&[b"reset ", to.as_bytes()]);
    line(&[b""]);
    line(&[b"commit ", to.as_bytes()]);
    line(&[b"author ", who.as_bytes()]);
    line(&[b"committer ", who.as_bytes()]);
    line(&[b"data ", commit.message.len().to_string().as_bytes()]);
    line(&[commit.message.as_bytes()]);
    if let Some(parent) = &commit.parent {
        line(&[b"from ", parent.as_str().as_bytes()]);
    }
    // Removed files make space for new ones.
    for file in commit.files.iter().filter(|file| file.content.is_none()) {
        line(&[b"D ", quoted(file.path.as_str()).as_bytes()]);
    }
    for file in &commit.files {
        let Some((bytes, executable)) = &file.content else {
            continue;
        };
        let mode: &[u8] = if *executable {
            b"M 100755 inline "
        } else {
            b"M 100644 inline "
        };
        line(&[mode, quoted(file.path.as_str()).as_bytes()]);
        line(&[b"data ", bytes.len().to_string().as_bytes()]);
        line(&[bytes]);
    }
    line(&[b"done"]);
    text
}

/// A path between quotes. It has no control characters and no backslash.
fn quoted(path: &str) -> String {
    format!("\"{}\"", path.replace('"', "\\\""))
}
