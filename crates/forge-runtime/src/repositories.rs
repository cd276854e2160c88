//! The repositories of workers: from what a grant names to tools. Where they are reached from and
//! where what is staged is kept is the program's to say; it is opened for the first worker that has
//! any, since what that takes (a look at what this host can enforce) nobody else should wait for.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use forge_tools::Tool;
use forge_tools::git::tools::{RepoAccess, RepoGrants, all};
use forge_tools::git::{GitBackend, Repo};
use os_sandbox::Support;
use sandbox_config::{Grant, Mode};

use crate::equip::{EquipError, OsSandbox};

/// Opens what repositories are reached by.
type BackendOpener =
    dyn Fn(Support) -> Result<Arc<dyn GitBackend>, RepositoriesUnavailable> + Send + Sync;

/// What workers' repositories are reached by; by default nothing.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// use std::sync::Arc;
/// use forge_runtime::{Isolation, OsSandbox, RepositorySource, equip};
/// use forge_tools::git::{GitService, MemoryRepositories, StagedStore};
/// use forge_tools::{Caller, NoRecord, NoApprover};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
/// #     "git: { repositories: [{ repo: ./x.git, access: ro }] }\n").unwrap();
/// // git: { repositories: [{ repo: ./x.git, access: ro }] }
/// let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
/// let git = GitService::new(MemoryRepositories::new(), StagedStore::in_memory().unwrap());
/// let mut isolation = Isolation::from(OsSandbox::when_needed());
/// isolation.repositories = RepositorySource::of(Arc::new(git));
/// let equipped = equip(
///     project.ceiling(),
///     Caller::new("reader"),
///     &isolation,
///     Arc::new(NoApprover::because("this is an example")),
///     Arc::new(NoRecord),
///     Arc::default(),
///     Vec::new(),
/// )
/// .unwrap();
/// let has = |name: &str| equipped.toolbox.specs().any(|spec| spec.name == name);
/// assert!(has("git_pull") && !has("git_stage"));
/// ```
#[derive(Clone, Default)]
pub struct RepositorySource {
    open: Option<Arc<BackendOpener>>,
    opened: Arc<Mutex<Option<Arc<dyn GitBackend>>>>,
}

/// Why no repository is reached.
///
/// ```
/// let none = forge_runtime::RepositoriesUnavailable {
///     reason: "there is no state directory".into(),
///     hint: Some("set HOME".into()),
/// };
/// assert_eq!(none.to_string(), "there is no state directory");
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct RepositoriesUnavailable {
    /// What is missing.
    pub reason: String,
    /// What to try.
    pub hint: Option<String>,
}

impl RepositorySource {
    /// By what this opens, with what the host can enforce: once, for the first worker that has a
    /// repository.
    pub fn opened_by(
        open: impl Fn(Support) -> Result<Arc<dyn GitBackend>, RepositoriesUnavailable>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        RepositorySource {
            open: Some(Arc::new(open)),
            opened: Arc::default(),
        }
    }

    /// By this.
    pub fn of(backend: Arc<dyn GitBackend>) -> Self {
        RepositorySource {
            open: None,
            opened: Arc::new(Mutex::new(Some(backend))),
        }
    }

    /// The tools of who holds `grant`: none if it names no repository, or no place that files of
    /// one could be in.
    ///
    /// # Errors
    /// One of its addresses is none, or what repositories are reached by cannot be opened.
    pub fn tools(&self, grant: &Grant, os: &OsSandbox) -> Result<Vec<Box<dyn Tool>>, EquipError> {
        if grant.repositories().is_empty() || grant.mounts().all(|mount| !mount.usable()) {
            return Ok(Vec::new());
        }
        let mut granted = RepoGrants::default();
        for one in grant.repositories() {
            let repo = Repo::parse(one.address()).map_err(|error| RepositoriesUnavailable {
                reason: format!("{} ({})", error.message(), one.origin()),
                hint: None,
            })?;
            let access = match one.access() {
                Mode::ReadOnly => RepoAccess::ReadOnly,
                Mode::ReadWrite => RepoAccess::ReadWrite,
            };
            granted.named(one.name(), repo, access);
        }
        Ok(all(self.backend(os)?, granted))
    }

    fn backend(&self, os: &OsSandbox) -> Result<Arc<dyn GitBackend>, RepositoriesUnavailable> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(backend) = opened.as_ref() {
            return Ok(Arc::clone(backend));
        }
        let Some(open) = &self.open else {
            return Err(RepositoriesUnavailable {
                reason: "repositories are granted, and nothing here reaches any".to_owned(),
                hint: None,
            });
        };
        let support = match os {
            OsSandbox::Detected(support) => Support::clone(support),
            OsSandbox::WhenNeeded(support) => support.get_or_init(Support::detect).clone(),
            // That is about commands: git is never run without.
            OsSandbox::Off => Support::detect(),
        };
        let backend = open(support)?;
        *opened = Some(Arc::clone(&backend));
        Ok(backend)
    }
}

impl fmt::Debug for RepositorySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepositorySource").finish_non_exhaustive()
    }
}
