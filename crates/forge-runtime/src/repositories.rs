//! The repositories of workers: from the addresses in a grant to tools. The program decides how
//! repositories are reached and where staged commits are stored. The backend is opened for the
//! first worker with a repository, since opening detects the capabilities of the host and other
//! runs should not wait for that.

use std::sync::{Arc, Mutex, PoisonError};

use forge_git::tools::{RepoAccess, RepoGrants, all};
use forge_git::{GitBackend, Repo};
use forge_tools::Tool;
use os_sandbox::Support;
use sandbox_config::{Grant, Mode};

use crate::confinement::{OsSandbox, detect};

/// Opens the git backend.
type BackendOpener =
    dyn Fn(Support) -> Result<Arc<dyn GitBackend>, RepositoriesUnavailable> + Send + Sync;

/// Access to the repositories of workers; by default none.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// use std::sync::Arc;
/// use forge_runtime::{Extras, Isolation, OsSandbox, RepositorySource, equip};
/// use forge_git::{GitService, NoRepositories, StagedStore};
/// use forge_tools::{Caller, NoRecord, NoApprover};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
/// #     "git: { repositories: [{ repo: ./x.git, access: ro }] }\n").unwrap();
/// // git: { repositories: [{ repo: ./x.git, access: ro }] }
/// let project = sandbox_config::load(&sandbox_config::Sources::new(dir.path())).unwrap();
/// let git = GitService::new(NoRepositories, StagedStore::in_memory().unwrap());
/// let mut isolation = Isolation::from(OsSandbox::when_needed());
/// isolation.repositories = RepositorySource::of(Arc::new(git));
/// let equipped = equip(
///     project.ceiling(),
///     Caller::new("reader"),
///     &isolation,
///     Arc::new(NoApprover::because("this is an example")),
///     Arc::new(NoRecord),
///     Arc::default(),
///     Extras::default(),
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
    /// The missing prerequisite.
    pub reason: String,
    /// The remediation.
    pub hint: Option<String>,
}

impl RepositorySource {
    /// Returns a source that opens its backend, with the host's capabilities, once, for the first
    /// worker that has a repository.
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

    /// Returns the git tools of `grant`: empty if it names no repository, or has no mount for the
    /// files of one.
    ///
    /// # Errors
    /// If an address is invalid, or the backend cannot be opened.
    pub fn tools(
        &self,
        grant: &Grant,
        os: &OsSandbox,
    ) -> Result<Vec<Box<dyn Tool>>, RepositoriesUnavailable> {
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
        // That it is off is about commands: git is never run without.
        let support = os.support().cloned().unwrap_or_else(detect);
        let backend = open(support)?;
        *opened = Some(Arc::clone(&backend));
        Ok(backend)
    }
}

sandbox_names::debug!(RepositorySource {});
