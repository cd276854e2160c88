//! Repositories by the git program.
//!
//! The program and not a library of it, because servers are tested with it: their protocols,
//! refusals and odd histories are its own. Its drawbacks, that it obeys a good dozen of files and
//! variables and starts other programs, are answered twice: by settings that win over every file,
//! and by the OS sandbox, under which it sees one bare repository of ours, at most one foreign one,
//! and none of the person's files.
//!
//! It never sees a worker's directory, and checks nothing out. Its arguments are names that have
//! been parsed before, behind `--`.

mod answers;
mod cache;
mod credentials;
mod fetch;
mod helper;
mod local;
mod login;
mod push;
mod refusals;
mod remote_access;
mod run;
mod ssh;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use os_sandbox::Support;

use self::cache::RepoCache;
pub use self::credentials::{Credential, Credentials};
use self::refusals::expect;
use self::run::{CACHE, GitCommand, GitOutput, run};
use super::address::Repo;
use super::error::{GitError, GitErrorKind};
use super::names::{BranchName, ObjectId};
use super::repositories::{GitRepositories, NewCommit, NewHead, TreeEntry};

/// A transfer that takes longer has failed.
const TRANSFER: Duration = Duration::from_secs(300);
/// Most bytes of all repositories of the cache.
const CACHE_BYTES: u64 = 4 << 30;

/// Repositories of this machine, and those reached over https and ssh, by the git program.
///
/// Blocking work runs on blocking threads, so it needs a runtime of tokio.
///
/// ```no_run
/// use forge_git::{Credential, Credentials, GitService, GitProgram, StagedStore};
/// use os_sandbox::Support;
///
/// let token = Credential::token(&std::env::var("GITHUB_TOKEN").unwrap_or_default())?;
/// let program = GitProgram::new("/var/cache/forge/git", Support::detect())
///     .credentials(Credentials::new().with("https://github.com", token)?);
/// let git = GitService::new(program, StagedStore::in_memory()?);
/// # Ok::<(), forge_git::GitError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct GitProgram {
    inner: Arc<ProgramSettings>,
}

#[derive(Clone)]
struct ProgramSettings {
    cache: PathBuf,
    support: Support,
    credentials: Credentials,
    certificates: Option<PathBuf>,
    git: String,
    transfer: Duration,
    cache_bytes: u64,
}

sandbox_names::debug!(GitProgram { cache = inner.cache, credentials = inner.credentials });

impl GitProgram {
    /// Uses its own bare repositories in that directory, which other programs do not write to and
    /// mounts do not show. They can be removed at any time: their contents are fetched again.
    pub fn new(cache: impl Into<PathBuf>, support: Support) -> Self {
        GitProgram {
            inner: Arc::new(ProgramSettings {
                cache: cache.into(),
                support,
                credentials: Credentials::new(),
                certificates: None,
                git: "git".to_owned(),
                transfer: TRANSFER,
                cache_bytes: CACHE_BYTES,
            }),
        }
    }

    /// Sets the credentials, by server. They are in the memory of this process, in the variables of
    /// the process that talks to that server, and nowhere else.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        Arc::make_mut(&mut self.inner).credentials = credentials;
        self
    }

    /// A file with the authorities that vouch for https servers, instead of the system's own.
    pub fn certificates(mut self, file: impl Into<PathBuf>) -> Self {
        Arc::make_mut(&mut self.inner).certificates = Some(file.into());
        self
    }

    /// How long one transfer may take; 5 minutes if nothing is said.
    pub fn transfer_limit(mut self, limit: Duration) -> Self {
        Arc::make_mut(&mut self.inner).transfer = limit;
        self
    }

    /// Limits the bytes of the repositories of the cache; 4 GiB by default, and half of it for one.
    /// The longest unused ones make space; one in use stays.
    pub fn cache_limit(mut self, bytes: u64) -> Self {
        Arc::make_mut(&mut self.inner).cache_bytes = bytes;
        self
    }

    /// Runs `work` on a blocking thread.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ProgramSettings) -> Result<T, GitError> + Send + 'static,
    ) -> Result<T, GitError> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or_else(|_| Err(GitErrorKind::Failed.error("git stopped unexpectedly.")))
    }
}

impl ProgramSettings {
    fn cache(&self, repo: &Repo) -> Result<RepoCache, GitError> {
        RepoCache::open(&self.cache, repo, |bare| {
            let done = run(
                &self.support,
                &self.git,
                bare,
                GitCommand::new([
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

    /// Opens the cache for a fetch: a repository that has grown too large begins anew.
    fn cache_with_room(&self, repo: &Repo) -> Result<RepoCache, GitError> {
        let cache = self.cache(repo)?;
        if !cache.is_full(self.cache_bytes / 2) {
            return Ok(cache);
        }
        self.anew(cache, repo)
    }

    fn anew(&self, cache: RepoCache, repo: &Repo) -> Result<RepoCache, GitError> {
        cache.forget().map_err(|error| {
            let text = format!("The cache of {repo} cannot be made anew: {error}.");
            GitErrorKind::Failed.error(text)
        })?;
        self.cache(repo)
    }

    /// Runs git once without a network.
    fn run(&self, cache: &RepoCache, job: GitCommand) -> Result<GitOutput, GitError> {
        run(&self.support, &self.git, cache.bare(), job)
    }
}

impl GitRepositories for GitProgram {
    async fn head(&self, repo: &Repo, branch: &BranchName) -> Result<Option<ObjectId>, GitError> {
        let (repo, branch) = (repo.clone(), branch.clone());
        self.blocking(move |inner| inner.head(&repo, &branch)).await
    }

    async fn tree(&self, repo: &Repo, commit: &ObjectId) -> Result<Vec<TreeEntry>, GitError> {
        let (repo, commit) = (repo.clone(), commit.clone());
        self.blocking(move |inner| inner.tree(&repo, &commit)).await
    }

    async fn contents(
        &self,
        repo: &Repo,
        ids: &[ObjectId],
        max_bytes: u64,
    ) -> Result<Vec<Vec<u8>>, GitError> {
        let (repo, ids) = (repo.clone(), ids.to_vec());
        self.blocking(move |inner| inner.contents(&repo, &ids, max_bytes))
            .await
    }

    async fn prepare(&self, repo: &Repo, commit: NewCommit) -> Result<ObjectId, GitError> {
        let repo = repo.clone();
        self.blocking(move |inner| inner.prepare(&repo, &commit))
            .await
    }

    async fn check_push(&self, repo: &Repo, branch: &BranchName) -> Result<(), GitError> {
        let (repo, branch) = (repo.clone(), branch.clone());
        self.blocking(move |inner| inner.check_push(&repo, &branch))
            .await
    }

    async fn push(&self, repo: &Repo, head: NewHead) -> Result<(), GitError> {
        let repo = repo.clone();
        self.blocking(move |inner| inner.push(&repo, &head)).await
    }
}

/// For the fuzz targets: an answer, and the kind of request that it answers.
#[cfg(fuzzing)]
pub(super) fn answered(kind: u8, answer: &[u8]) {
    let Ok(repo) = Repo::parse("octo/reports") else {
        return;
    };
    match kind % 4 {
        0 => {
            let entries = answers::tree(&repo, answer).unwrap_or_default();
            let bytes: usize = entries.iter().map(|entry| entry.path.len()).sum();
            assert!(bytes <= 4 * answer.len());
        }
        1 => drop(answers::sizes(answer)),
        2 => {
            let contents = answers::contents(answer, 3).unwrap_or_default();
            assert!(contents.iter().map(Vec::len).sum::<usize>() <= answer.len());
        }
        _ => helper::answered(answer),
    }
}
