//! A worker's files, one repository that others write to as well, and what is staged for it.

use std::sync::{Arc, Mutex};

use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
use forge_git::{
    BranchName, GitBackend, GitError, GitService, PullReport, PullRequest, PushApproval, Repo,
    RepoPath, SecretPolicy, StageRequest, StagedCommit, StagedStore,
};
use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, BoxFuture};

use crate::memory::MemoryRepositories;

/// What others do to the repository.
pub(crate) trait Others: Send + Sync {
    fn commit(&self, branch: &BranchName, files: &[(&str, Option<&str>)]);
    fn read(&self, branch: &BranchName, path: &str) -> Option<Vec<u8>>;
    fn protect(&self, branch: &BranchName);
    /// Its files, where it has any.
    #[cfg(target_os = "linux")]
    fn as_bare(&self) -> Option<&crate::program::Bare> {
        None
    }
}

pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) git: Arc<dyn GitBackend>,
    pub(crate) others: Box<dyn Others>,
    pub(crate) repo: Repo,
    pub(crate) files: FileSandbox,
    /// What it stands on, removed with it.
    pub(crate) _held: Option<tempfile::TempDir>,
}

struct InMemory(MemoryRepositories, Repo);

impl Others for InMemory {
    fn commit(&self, branch: &BranchName, files: &[(&str, Option<&str>)]) {
        self.0.commit(&self.1, branch, files.iter().copied());
    }

    fn read(&self, branch: &BranchName, path: &str) -> Option<Vec<u8>> {
        self.0.read(&self.1, branch, path)
    }

    fn protect(&self, branch: &BranchName) {
        self.0.protect(&self.1, branch);
    }
}

pub(crate) fn files() -> FileSandbox {
    let mount = |at, mode| Mount::memory(SandboxPath::parse(at).unwrap(), mode);
    let mounts = vec![
        mount("/workspace", Mode::ReadWrite),
        mount("/fixed", Mode::ReadOnly),
    ];
    FileSandbox::new(mounts).unwrap()
}

pub(crate) fn in_memory() -> World {
    with_repositories().0
}

/// The same, and what it stands on.
pub(crate) fn with_repositories() -> (World, MemoryRepositories) {
    let repositories = MemoryRepositories::new();
    let repo = Repo::parse("octo/reports").unwrap();
    let world = World {
        name: "memory",
        git: Arc::new(GitService::new(
            repositories.clone(),
            StagedStore::in_memory().unwrap(),
        )),
        others: Box::new(InMemory(repositories.clone(), repo.clone())),
        repo,
        files: files(),
        _held: None,
    };
    (world, repositories)
}

/// Every place that holds repositories, each with one commit on `main`.
pub(crate) fn worlds() -> Vec<World> {
    let mut worlds = vec![in_memory()];
    #[cfg(target_os = "linux")]
    if crate::program::confined() {
        worlds.extend(crate::remote::everywhere());
    }
    #[cfg(not(target_os = "linux"))]
    worlds.shrink_to_fit();
    for world in &worlds {
        world.others.commit(
            &BranchName::default(),
            &[
                ("README.md", Some("hello\n")),
                ("analyses/topic.md", Some("one\ntwo\nthree\n")),
                ("analyses/other.md", Some("other\n")),
            ],
        );
    }
    worlds
}

/// Pairs of a row and a world. A sample has each row in memory and in one of the others by turns, so
/// that each of these has its rows.
pub(crate) fn rows_and_worlds(test: &str, rows: usize, worlds: usize) -> Vec<(usize, usize)> {
    let all = (0..rows).flat_map(|row| (0..worlds).map(move |world| (row, world)));
    let keep = |_, &(row, world): &(usize, usize)| match world.checked_sub(1) {
        None => true,
        Some(other) => row % (worlds - 1) == other,
    };
    test_sample::cases(test, all.collect(), keep)
}

impl World {
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.files.path(path).unwrap();
        self.files.write(&path, text, Default::default()).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        let path = self.files.path(path).unwrap();
        self.files.read(&path, Default::default()).unwrap().content
    }

    pub(crate) fn stage(&self, paths: &[&str]) -> Result<StagedCommit, GitError> {
        self.stage_for(&BranchName::default(), paths)
    }

    pub(crate) fn stage_for(
        &self,
        branch: &BranchName,
        paths: &[&str],
    ) -> Result<StagedCommit, GitError> {
        let request = StageRequest {
            repo: self.repo.clone(),
            branch: branch.clone(),
            files: paths
                .iter()
                .map(|path| self.files.path(path).unwrap())
                .collect(),
            from: SandboxPath::parse("/workspace").unwrap(),
            message: "A change".into(),
            secrets: SecretPolicy::Refused,
        };
        wait(self.git.stage(&self.files, request))
    }

    pub(crate) fn pull(&self, paths: &[&str], into: &str) -> Result<PullReport, GitError> {
        let request = PullRequest {
            repo: self.repo.clone(),
            branch: BranchName::default(),
            paths: paths
                .iter()
                .map(|path| RepoPath::parse(path).unwrap())
                .collect(),
            into: SandboxPath::parse(into).unwrap(),
        };
        wait(self.git.pull(&self.files, request))
    }

    pub(crate) fn approve(&self, commit: &StagedCommit) -> PushApproval {
        wait(PushApproval::ask(commit, &Person::saying(true))).unwrap()
    }

    pub(crate) fn there(&self, path: &str) -> Option<String> {
        let bytes = self.others.read(&BranchName::default(), path)?;
        Some(String::from_utf8(bytes).unwrap())
    }
}

/// Somebody who is shown what is asked.
pub(crate) struct Person {
    agrees: bool,
    pub(crate) shown: Mutex<Vec<String>>,
}

impl Person {
    pub(crate) fn saying(agrees: bool) -> Person {
        Person {
            agrees,
            shown: Mutex::default(),
        }
    }
}

impl Approver for Person {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        self.shown.lock().unwrap().push(request.preview());
        let by = "a person".to_owned();
        Box::pin(async move {
            match self.agrees {
                true => ApprovalAnswer::AllowOnce { by },
                false => ApprovalAnswer::Deny { by, reason: None },
            }
        })
    }
}

pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}
