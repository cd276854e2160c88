//! In place of `docker.rs` where containers are not part of the program: there are none, and every
//! question about them is answered with that.

use std::convert::Infallible;

use file_sandbox::FileSandbox;
use forge_tools::{Processes, ToolboxBuilder};
use os_sandbox::Plan;
use sandbox_config::Grant;

use crate::equip::EquipError;

/// Where containers come from: nowhere.
///
/// ```
/// let nowhere = forge_runtime::ContainerSource::default();
/// # let _ = nowhere;
/// ```
#[derive(Debug, Clone, Default)]
pub struct ContainerSource(());

/// There are none.
#[derive(Debug, Clone)]
pub(crate) struct NodeContainers(Infallible);

/// There are none.
pub(crate) struct WorkerNodes(Infallible);

impl ContainerSource {
    /// For a program before its own end: nothing of its containers is left, since there are none.
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
