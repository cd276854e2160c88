//! Repositories by the git program.
//!
//! The program and not a library of it, because it is what servers are tried with: their
//! protocols, refusals and odd histories are its own. What speaks against it, that it obeys a good
//! dozen of files and variables and starts other programs, is answered twice: by settings that win
//! over every file, and by the OS sandbox, under which it sees one bare repository of ours, at most
//! one of somebody else's, and nothing of the person's.
//!
//! It never sees a worker's directory, and checks nothing out. What it is given are names that have
//! been taken apart before, behind `--`.

mod cache;
mod local;
mod run;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use os_sandbox::{Access, Support};

use self::cache::Cache;
use self::run::{CACHE, Done, Job, OTHER, Reach, for_the_other_side, run};
use super::error::{GitError, GitErrorKind};
use super::names::{Branch, ObjectId, Place, Repo};
use super::repositories::{NewCommit, NewHead, Repositories, TreeEntry, TreeKind};
use crate::tool::BoxFuture;

/// A transfer that takes longer has failed.
const TRANSFER: Duration = Duration::from_secs(300);
/// Names of a commit's files: 100 000 of them are some 10 MiB.
const MAX_TREE_BYTES: usize = 64 << 20;
const MAX_TREE_ENTRIES: usize = 500_000;

/// Repositories of this machine, and those reached over https, by the git program.
///
/// Blocking work is done where it holds up nobody, so it needs a runtime of tokio.
///
/// ```no_run
/// use forge_tools::git::{Git, GitProgram, StagedStore};
/// use os_sandbox::Support;
///
/// let program = GitProgram::new("/var/cache/forge/git", Support::detect())
///     .token("https://github.com", std::env::var("GITHUB_TOKEN").unwrap_or_default())?;
/// let git = Git::new(program, StagedStore::in_memory()?);
/// # Ok::<(), forge_tools::git::GitError>(())
/// ```
#[derive(Clone)]
pub struct GitProgram {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    cache: PathBuf,
    support: Support,
    /// By origin; a header each.
    headers: BTreeMap<String, String>,
    git: String,
    transfer: Duration,
}

impl fmt::Debug for GitProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitProgram")
            .field("cache", &self.inner.cache)
            .field("tokens_for", &self.inner.headers.keys())
            .finish_non_exhaustive()
    }
}

impl GitProgram {
    /// With bare repositories of its own in that directory, which nothing else writes to and no
    /// mount shows. They can be removed at any time: what they hold is fetched again.
    pub fn new(cache: impl Into<PathBuf>, support: Support) -> Self {
        GitProgram {
            inner: Arc::new(Inner {
                cache: cache.into(),
                support,
                headers: BTreeMap::new(),
                git: "git".to_owned(),
                transfer: TRANSFER,
            }),
        }
    }

    /// A token for the repositories at an origin, `https://github.com` say. It is in the memory of
    /// this process, in the variables of the one that talks to that server, and nowhere else.
    ///
    /// # Errors
    /// The origin is none, or the token cannot be one.
    pub fn token(mut self, origin: &str, token: impl AsRef<str>) -> Result<Self, GitError> {
        let token = token.as_ref();
        let plain = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.is_empty() || token.len() > 4096 || !plain {
            return Err(GitError::new(
                GitErrorKind::Authentication,
                format!("What was given as the token for {origin} cannot be one."),
            ));
        }
        let repo = Repo::parse(&format!("{}/x", origin.trim_end_matches('/')))?;
        let Place::Web { origin, .. } = repo.place() else {
            return Err(GitError::new(
                GitErrorKind::Invalid,
                "A token is for an origin such as https://github.com.",
            ));
        };
        let login = base64(format!("x-access-token:{token}").as_bytes());
        let header = format!("Authorization: Basic {login}");
        Arc::make_mut(&mut self.inner)
            .headers
            .insert(origin.clone(), header);
        Ok(self)
    }

    /// How long one transfer may take; 5 minutes if nothing is said.
    #[must_use]
    pub fn transfer_limit(mut self, limit: Duration) -> Self {
        Arc::make_mut(&mut self.inner).transfer = limit;
        self
    }

    /// Does `work` where it holds up nobody.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, GitError> + Send + 'static,
    ) -> Result<T, GitError> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or_else(|_| {
            Err(GitError::new(
                GitErrorKind::Failed,
                "git stopped unexpectedly.",
            ))
        })
    }
}

impl Inner {
    fn cache(&self, repo: &Repo) -> Result<Cache, GitError> {
        Cache::open(&self.cache, repo, |bare| {
            let done = run(
                &self.support,
                &self.git,
                bare,
                Job::new([
                    "init",
                    "--quiet",
                    "--bare",
                    "--template=",
                    "--object-format=sha1",
                    "--initial-branch=none",
                    "--",
                    CACHE,
                ]),
            )?;
            expect(done, repo).map(drop)
        })
    }

    fn run(&self, cache: &Cache, job: Job) -> Result<Done, GitError> {
        run(&self.support, &self.git, cache.bare(), job)
    }

    /// How git reaches a repository, and what it is called there.
    fn reach(&self, repo: &Repo, access: Access) -> Result<(Reach, String), GitError> {
        match repo.place() {
            Place::Local(path) => {
                let there = std::fs::canonicalize(path)
                    .ok()
                    .filter(|path| path.is_dir());
                let path = there.ok_or_else(|| not_found(repo))?;
                Ok((Reach::Local(path, access), OTHER.to_owned()))
            }
            Place::Web { origin, .. } => {
                let protocol = match origin.starts_with("https:") {
                    true => "https",
                    false => "http",
                };
                let reach = Reach::Server {
                    protocol,
                    origin: origin.clone(),
                    header: self.headers.get(origin).cloned(),
                };
                Ok((reach, repo.to_string()))
            }
            Place::Ssh { .. } => Err(GitError::new(
                GitErrorKind::Unavailable,
                format!("{repo} is not reached: repositories over ssh are not yet."),
            )
            .hint("Use its https address, with a token.")),
        }
    }

    fn head(&self, repo: &Repo, branch: &Branch) -> Result<Option<ObjectId>, GitError> {
        let (reach, url) = self.reach(repo, Access::READ)?;
        let cache = self.cache(repo)?;
        let mut job = Job::new([
            "fetch".to_owned(),
            "--quiet".to_owned(),
            "--depth=1".to_owned(),
            "--no-tags".to_owned(),
            "--no-write-fetch-head".to_owned(),
            "--no-recurse-submodules".to_owned(),
            format!("--upload-pack={}", for_the_other_side("upload-pack")),
            "--".to_owned(),
            url,
            format!("+refs/heads/{branch}:refs/forge/heads/{branch}"),
        ]);
        job.reach = reach;
        job.wall = self.transfer;
        let done = self.run(&cache, job)?;
        if !done.exit.success() && done.complaint.contains("couldn't find remote ref") {
            return Ok(None);
        }
        expect(done, repo)?;
        let found = self.resolve(&cache, repo, &format!("refs/forge/heads/{branch}"))?;
        Ok(Some(found))
    }

    fn resolve(&self, cache: &Cache, repo: &Repo, name: &str) -> Result<ObjectId, GitError> {
        let job = Job::new(["rev-parse", "--verify", "--quiet", "--end-of-options", name]);
        let done = expect(self.run(cache, job)?, repo)?;
        let text = String::from_utf8_lossy(&done);
        ObjectId::parse(text.trim()).ok_or_else(|| unreadable(repo))
    }

    fn tree(&self, repo: &Repo, commit: &ObjectId) -> Result<Vec<TreeEntry>, GitError> {
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
        let mut entries = Vec::new();
        for row in answer
            .split(|byte| *byte == 0)
            .filter(|row| !row.is_empty())
        {
            if entries.len() >= MAX_TREE_ENTRIES {
                return Err(GitError::new(
                    GitErrorKind::TooLarge,
                    format!("{repo} has more than {MAX_TREE_ENTRIES} files."),
                ));
            }
            // A name that is no text is not pulled, and collides with none of ours.
            let row = String::from_utf8_lossy(row);
            let (what, path) = row.split_once('\t').ok_or_else(|| unreadable(repo))?;
            let mut words = what.split(' ');
            let kind = match words.next() {
                Some("100755") => TreeKind::Executable,
                Some("120000") => TreeKind::Link,
                Some("160000") => TreeKind::Submodule,
                Some(_) => TreeKind::File,
                None => return Err(unreadable(repo)),
            };
            let id = words.nth(1).and_then(ObjectId::parse);
            entries.push(TreeEntry {
                path: path.to_owned(),
                kind,
                id: id.ok_or_else(|| unreadable(repo))?,
            });
        }
        Ok(entries)
    }

    fn contents(
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
        let mut total: u64 = 0;
        for row in String::from_utf8_lossy(&answer).lines() {
            let size = row
                .strip_prefix("blob ")
                .and_then(|size| size.parse::<u64>().ok());
            total = total.saturating_add(size.ok_or_else(|| unreadable(repo))?);
        }
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
        let mut rest = answer.as_slice();
        let mut contents = Vec::with_capacity(ids.len());
        for _ in ids {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let (size, after) = rest.split_at(end.ok_or_else(|| unreadable(repo))?);
            let size = std::str::from_utf8(size)
                .ok()
                .and_then(|size| size.parse().ok());
            let size: usize = size.ok_or_else(|| unreadable(repo))?;
            let content = after.get(1..1 + size).ok_or_else(|| unreadable(repo))?;
            contents.push(content.to_vec());
            rest = after.get(2 + size..).ok_or_else(|| unreadable(repo))?;
        }
        Ok(contents)
    }

    fn prepare(&self, repo: &Repo, commit: &NewCommit) -> Result<ObjectId, GitError> {
        let cache = self.cache(repo)?;
        let out = "refs/forge/out";
        let mut import = Job::new(["fast-import", "--quiet", "--force", "--date-format=raw"]);
        import.stdin = stream(commit, out);
        expect(self.run(&cache, import)?, repo)?;
        self.resolve(&cache, repo, out)
    }

    fn push(&self, repo: &Repo, head: &NewHead) -> Result<(), GitError> {
        let (reach, url) = self.reach(repo, Access::READ | Access::WRITE)?;
        if let Reach::Local(path, _) = &reach
            && let Some(why) = local::would_be_asked(path)
        {
            return Err(GitError::new(
                GitErrorKind::Rejected,
                format!("{repo} did not take it: {why}."),
            )
            .hint("Reach it over https, where it runs them itself."));
        }
        let cache = self.cache(repo)?;
        let (branch, new) = (&head.branch, &head.id);
        let expected = head.parent.as_ref().map_or("", ObjectId::as_str);
        let mut job = Job::new([
            "push".to_owned(),
            "--quiet".to_owned(),
            "--porcelain".to_owned(),
            "--no-verify".to_owned(),
            "--no-signed".to_owned(),
            "--atomic".to_owned(),
            format!("--receive-pack={}", for_the_other_side("receive-pack")),
            format!("--force-with-lease=refs/heads/{branch}:{expected}"),
            "--".to_owned(),
            url,
            format!("{new}:refs/heads/{branch}"),
        ]);
        job.reach = reach;
        job.wall = self.transfer;
        let done = self.run(&cache, job)?;
        if done.exit.success() {
            return Ok(());
        }
        let said = format!(
            "{}\n{}",
            String::from_utf8_lossy(&done.answer),
            done.complaint
        );
        Err(refused(repo, branch, &said, &done))
    }
}

/// What a server's refusal means.
fn refused(repo: &Repo, branch: &Branch, said: &str, done: &Done) -> GitError {
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&[
        "stale info",
        "fetch first",
        "non-fast-forward",
        "cannot lock ref",
    ]) {
        return GitError::new(
            GitErrorKind::Moved,
            format!("Branch '{branch}' of {repo} moved meanwhile; nothing was pushed."),
        )
        .hint("Push again: it is compared with what is there now.");
    }
    if has(&["branch is currently checked out"]) {
        return GitError::new(
            GitErrorKind::Rejected,
            format!("{repo} did not take it: branch '{branch}' is checked out there."),
        )
        .hint("Push to a bare repository, or to another branch.");
    }
    if has(&["! [", "rejected"]) && !unauthenticated(said) {
        return GitError::new(
            GitErrorKind::Rejected,
            format!("{repo} did not take it:\n{}", told(said)),
        );
    }
    failure(repo, done)
}

/// The answer of a run that went well.
fn expect(done: Done, repo: &Repo) -> Result<Vec<u8>, GitError> {
    match done.exit.success() {
        true => Ok(done.answer),
        false => Err(failure(repo, &done)),
    }
}

fn failure(repo: &Repo, done: &Done) -> GitError {
    let said = &done.complaint;
    if unauthenticated(said) {
        return GitError::new(
            GitErrorKind::Authentication,
            format!("{repo} wants to know who is asking, or does not let you in."),
        )
        .hint(
            "Name the variable that holds a token in the configuration, or use a repository of \
             this machine (file://).",
        );
    }
    let missing = [
        "does not appear to be a git repository",
        "not found",
        "does not exist",
    ];
    if missing.iter().any(|words| said.contains(words)) {
        return not_found(repo);
    }
    GitError::new(
        GitErrorKind::Failed,
        format!("git failed with {repo} ({}):\n{}", done.exit, told(said)),
    )
}

fn unauthenticated(said: &str) -> bool {
    let words = [
        "could not read Username",
        "could not read Password",
        "Authentication failed",
        "error: 401",
        "error: 403",
    ];
    words.iter().any(|word| said.contains(word))
}

/// What git or a server said, for a person: no more than they read, and nothing that moves a
/// cursor.
fn told(said: &str) -> String {
    let lines = said
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.take(20).map(crate::escape_controls).collect();
    lines.join("\n")
}

fn not_found(repo: &Repo) -> GitError {
    GitError::new(
        GitErrorKind::NotFound,
        format!("There is no repository at {repo}."),
    )
}

fn unreadable(repo: &Repo) -> GitError {
    GitError::new(
        GitErrorKind::Failed,
        format!("What git said of {repo} is not what was asked for."),
    )
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
    // What goes makes room for what comes.
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

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let all = three
            .iter()
            .fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
        let all = all << (8 * (3 - three.len()));
        for place in 0..4 {
            let six = usize::try_from(all >> (18 - 6 * place) & 63).unwrap_or(0);
            let is_there = place <= three.len();
            text.push(if is_there {
                char::from(LETTERS[six])
            } else {
                '='
            });
        }
    }
    text
}

impl Repositories for GitProgram {
    fn head<'a>(
        &'a self,
        repo: &'a Repo,
        branch: &'a Branch,
    ) -> BoxFuture<'a, Result<Option<ObjectId>, GitError>> {
        let (repo, branch) = (repo.clone(), branch.clone());
        Box::pin(self.blocking(move |inner| inner.head(&repo, &branch)))
    }

    fn tree<'a>(
        &'a self,
        repo: &'a Repo,
        commit: &'a ObjectId,
    ) -> BoxFuture<'a, Result<Vec<TreeEntry>, GitError>> {
        let (repo, commit) = (repo.clone(), commit.clone());
        Box::pin(self.blocking(move |inner| inner.tree(&repo, &commit)))
    }

    fn contents<'a>(
        &'a self,
        repo: &'a Repo,
        ids: &'a [ObjectId],
        max_bytes: u64,
    ) -> BoxFuture<'a, Result<Vec<Vec<u8>>, GitError>> {
        let (repo, ids) = (repo.clone(), ids.to_vec());
        Box::pin(self.blocking(move |inner| inner.contents(&repo, &ids, max_bytes)))
    }

    fn prepare<'a>(
        &'a self,
        repo: &'a Repo,
        commit: NewCommit,
    ) -> BoxFuture<'a, Result<ObjectId, GitError>> {
        let repo = repo.clone();
        Box::pin(self.blocking(move |inner| inner.prepare(&repo, &commit)))
    }

    fn push<'a>(&'a self, repo: &'a Repo, head: NewHead) -> BoxFuture<'a, Result<(), GitError>> {
        let repo = repo.clone();
        Box::pin(self.blocking(move |inner| inner.push(&repo, &head)))
    }
}
