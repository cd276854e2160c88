//! Replaces `docker.rs` in a program without containers: every request for one fails.

use std::convert::Infallible;

use file_sandbox::FileSandbox;
use forge_tools::{Processes, ToolboxBuilder};
use os_sandbox::Plan;
use sandbox_config::Grant;

use crate::equip::{EquipError, HostAccess};

/// A source without containers.
///
/// ```
/// let nowhere = forge_runtime::ContainerSource::default();
/// # let _ = nowhere;
/// ```
#[derive(Debug, Clone, Default)]
pub struct ContainerSource(());

/// Uninhabited.
#[derive(Debug, Clone)]
pub(crate) struct NodeContainers(Infallible);

/// Uninhabited.
pub(crate) struct WorkerNodes(Infallible);

impl ContainerSource {
    /// Returns at once: without containers nothing can be left over at the program's exit.
    #[must_use]
    pub fn wait_for_dropped(_within: std::time::Duration) -> Vec<os_sandbox::Quarantined> {
        Vec::new()
    }

    pub(crate) fn containers(
        &self,
        _: &sandbox_config::DockerSettings,
    ) -> Result<NodeContainers, String> {
        Err("containers are not part of this program".to_owned())
    }
}

impl WorkerNodes {
    pub(crate) fn of(
        containers: &NodeContainers,
        _: &Grant,
        _: Option<&FileSandbox>,
        _: bool,
        _: &HostAccess<'_>,
    ) -> Result<Self, EquipError> {
        match containers.0 {}
    }

    pub(crate) fn processes(&self) -> Processes {
        match self.0 {}
    }

    pub(crate) fn files(&self, _: ToolboxBuilder) -> ToolboxBuilder {
        match self.0 {}
    }

    pub(crate) fn plan(&self) -> &Plan {
        match self.0 {}
    }
}
