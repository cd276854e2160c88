//! Puts a session together.

use std::sync::Arc;

use forge_tools::{Approver, Recorder, Redactor};
use os_sandbox::ParentProxySetting;
use sandbox_config::{MountOpener, Worker};
use serde_json::Value;

use super::Session;
use super::session_state::SessionState;
use crate::confinement::OsSandbox;
use crate::docker::ContainerSource;
use crate::model::{Model, Models};
use crate::report::Observer;
use crate::repositories::RepositorySource;

/// Puts a [`Session`] together.
///
/// ```
/// # use forge_runtime::{Playbook, ScriptedModel, Session};
/// # let model = ScriptedModel::new("x", Playbook::parse("version: 1\nworkers: {}").unwrap());
/// let session = Session::builder(model).max_depth(2).build();
/// # let _ = session;
/// ```
pub struct SessionBuilder {
    shared: SessionState,
}

impl SessionBuilder {
    pub(super) fn new(model: impl Model) -> Self {
        SessionBuilder {
            shared: SessionState::new(Arc::new(model)),
        }
    }

    /// Sets the models that workers may name; without it all run on the session's model.
    pub fn models(mut self, models: Arc<dyn Models>) -> Self {
        self.shared.models = Some(models);
        self
    }

    /// The workers that others may call.
    pub fn workers(mut self, workers: impl IntoIterator<Item = Worker>) -> Self {
        self.shared.workers = workers
            .into_iter()
            .map(|worker| (worker.name().to_owned(), worker))
            .collect();
        self
    }

    /// Sets the JSON Schema for the entry worker's answer in this run, in place of the worker's own
    /// `output_schema`.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.shared.output_schema = Some(schema);
        self
    }

    /// Sets the depth limit of calls below the entry worker; 5 by default.
    pub fn max_depth(mut self, depth: u64) -> Self {
        self.shared.max_depth = depth;
        self
    }

    /// Sets the number of workers that one run of a worker may start; 16 by default.
    pub fn max_children(mut self, children: u64) -> Self {
        self.shared.max_children = children;
        self
    }

    /// Sets the confinement of commands.
    pub fn os_sandbox(mut self, os: OsSandbox) -> Self {
        self.shared.isolation.os = os;
        self
    }

    /// Sets the access to repositories; none by default.
    pub fn repositories(mut self, repositories: RepositorySource) -> Self {
        self.shared.isolation.repositories = repositories;
        self
    }

    /// Sets the source of containers; none by default.
    pub fn docker(mut self, docker: ContainerSource) -> Self {
        self.shared.isolation.docker = docker;
        self
    }

    /// Sets the proxy through which commands reach named hosts; none by default.
    pub fn parent_proxy(mut self, parent: Option<ParentProxySetting>) -> Self {
        self.shared.isolation.parent_proxy = parent;
        self
    }

    /// Sets the opener of mounted directories, in place of the host: see
    /// [`Grant::files_of`](sandbox_config::Grant::files_of). Workers of such a session run no
    /// commands, which would see the host.
    ///
    /// ```
    /// # use forge_runtime::{Playbook, ScriptedModel, Session};
    /// use file_sandbox::{Mode, Mount, SandboxPath};
    /// # let model = ScriptedModel::new("x", Playbook::parse("version: 1\nworkers: {}").unwrap());
    /// let memory = Mount::memory(SandboxPath::root(), Mode::ReadWrite);
    /// let session = Session::builder(model).directories(std::sync::Arc::new(move |_: &_| Ok(memory.clone())));
    /// # let _ = session.build();
    /// ```
    pub fn directories(mut self, open: Arc<MountOpener>) -> Self {
        self.shared.open = Some(open);
        self
    }

    /// Sets the approver.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.shared.approver = approver;
        self
    }

    /// Sets the recorder.
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.shared.recorder = recorder;
        self
    }

    /// Sets the redactor of results and records.
    pub fn redactor(mut self, redactor: Arc<Redactor>) -> Self {
        self.shared.redactor = redactor;
        self
    }

    /// Sets the observer.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.shared.observer = observer;
        self
    }

    /// The finished session.
    pub fn build(self) -> Session {
        Session {
            shared: Arc::new(self.shared),
        }
    }
}
