//! Puts a session together.

use std::collections::BTreeMap;
use std::sync::Arc;

use forge_tools::{Approver, Recorder, Redactor};
use os_sandbox::ParentProxySetting;
use sandbox_config::{MountOpener, Worker};
use serde_json::Value;

use super::Session;
use super::session_state::SessionState;
use crate::confinement::OsSandbox;
use crate::docker::ContainerSource;
use crate::model::Model;
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

    sandbox_names::setters! {
        /// Sets the models that workers may name, by `provider:model`; without it all run on the session's
        /// model.
        models(models: BTreeMap<String, Arc<dyn Model>>) => shared.models = Some(models);
        /// The workers that others may call.
        workers(workers: impl IntoIterator<Item = Worker>) => shared.workers = workers .into_iter() .map(|worker| (worker.name().to_owned(), worker)) .collect();
        /// Sets the JSON Schema for the entry worker's answer in this run, in place of the worker's own
        /// `output_schema`.
        output_schema(schema: Value) => shared.output_schema = Some(schema);
        /// Sets the depth limit of calls below the entry worker; 5 by default.
        max_depth(depth: u64) => shared.max_depth = depth;
        /// Sets the number of workers that one run of a worker may start; 16 by default.
        max_children(children: u64) => shared.max_children = children;
        /// Sets the confinement of commands.
        os_sandbox(os: OsSandbox) => shared.isolation.os = os;
        /// Sets the access to repositories; none by default.
        repositories(repositories: RepositorySource) => shared.isolation.repositories = repositories;
        /// Sets the source of containers; none by default.
        docker(docker: ContainerSource) => shared.isolation.docker = docker;
        /// Sets the proxy through which commands reach named hosts; none by default.
        parent_proxy(parent: Option<ParentProxySetting>) => shared.isolation.parent_proxy = parent;
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
        directories(open: Arc<MountOpener>) => shared.open = Some(open);
        /// Sets the approver.
        approver(approver: Arc<dyn Approver>) => shared.approver = approver;
        /// Sets the recorder.
        recorder(recorder: Arc<dyn Recorder>) => shared.recorder = recorder;
        /// Sets the redactor of results and records.
        redactor(redactor: Arc<Redactor>) => shared.redactor = redactor;
        /// Sets the observer.
        observer(observer: Arc<dyn Observer>) => shared.observer = observer;
    }

    /// The finished session.
    pub fn build(self) -> Session {
        Session {
            shared: Arc::new(self.shared),
        }
    }
}
