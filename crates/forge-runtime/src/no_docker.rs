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
/// let nowhere = forge_runtime::Docker::default();
/// # let _ = nowhere;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Docker(());

/// There are none.
#[derive(Debug, Clone)]
pub(crate) struct Containers(Infallible);

/// There are none.
pub(crate) struct WorkerNodes(Infallible);

impl Docker {
    /// For a program before its own end: nothing of its containers is left, since there are none.
    #[must_use]
    pub fn settle(_within: std::time::Duration) -> Vec<os_sandbox::Quarantined> {
        Vec::new()
    }

    pub(crate) fn containers(
        &self,
        _: &sandbox_config::DockerSettings,
    ) -> Result<Containers, String> {
        Err("containers are not part of this program".to_owned())
    }
}

impl WorkerNodes {
    pub(crate) fn of(
        containers: &Containers,
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
