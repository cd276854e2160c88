//! A container that exists. Dropping an unfinished one removes it.

use super::engine::runtime;
use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::{KillContainerOptionsBuilder, RemoveContainerOptionsBuilder};
use os_sandbox::Exit;
use os_sandbox::mechanism::LimitHit;
use std::time::Duration;

/// Bound on the time of a removal.
const REMOVED_WITHIN: Duration = Duration::from_secs(30);
/// Interval between looks at a container that the engine is removing by itself.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bound on the time of a question about a container.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Result of a container: its exit, and the limit that it hit.
pub(super) type ContainerOutcome = Result<(Exit, Option<LimitHit>), os_sandbox::Error>;

pub(super) struct ContainerHandle {
    client: Docker,
    id: String,
    removed: bool,
}

/// State of a container, as the engine reports it.
pub(super) enum ContainerStatus {
    Runs,
    /// Exit code, and `true` if the container ran out of memory.
    Ended(i64, bool),
    Gone,
}

impl ContainerHandle {
    pub(super) fn new(client: Docker, id: String) -> ContainerHandle {
        ContainerHandle {
            client,
            id,
            removed: false,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) async fn status(&self) -> Result<ContainerStatus, Error> {
        let asked = inspect_status(&self.client, &self.id);
        match tokio::time::timeout(ANSWER_WITHIN, asked).await {
            Err(_) => Err(Error::RequestTimeoutError),
            Ok(seen) => seen,
        }
    }

    /// Returns the number of its first process in the engine's namespace. `None` if it has ended.
    pub(super) async fn first_process(&self) -> Result<Option<i64>, Error> {
        let asked = self.client.inspect_container(&self.id, None);
        match tokio::time::timeout(ANSWER_WITHIN, asked).await {
            Err(_) => Err(Error::RequestTimeoutError),
            Ok(Err(error)) if has_status(&error, &[404]) => Ok(None),
            Ok(seen) => {
                let pid = seen?.state.and_then(|state| state.pid);
                Ok(pid.filter(|pid| *pid > 0))
            }
        }
    }

    /// Ends every process in the container. A container that has already ended is not an error.
    pub(super) async fn kill(&self) -> Result<(), Error> {
        let options = KillContainerOptionsBuilder::new().signal("KILL").build();
        let asked = self.client.kill_container(&self.id, Some(options));
        match tokio::time::timeout(ANSWER_WITHIN, asked).await {
            Err(_) => Err(Error::RequestTimeoutError),
            Ok(Err(error)) if !has_status(&error, &[404, 409]) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Records that the engine has reported the removal.
    pub(super) fn mark_removed(mut self) {
        self.removed = true;
    }

    /// Removes the container, and waits until it is gone.
    pub(super) async fn remove(mut self) -> Result<(), Error> {
        self.removed = true;
        remove(&self.client, &self.id).await
    }
}

impl Drop for ContainerHandle {
    fn drop(&mut self) {
        if self.removed {
            return;
        }
        let (client, id) = (self.client.clone(), std::mem::take(&mut self.id));
        if let Ok(runtime) = runtime() {
            // If the container stays, the next start finds it by its labels.
            runtime.spawn(async move { drop(remove(&client, &id).await) });
        }
    }
}

/// Returns the state of a container.
pub(super) async fn inspect_status(client: &Docker, id: &str) -> Result<ContainerStatus, Error> {
    let state = match client.inspect_container(id, None).await {
        Ok(seen) => seen.state.unwrap_or_default(),
        Err(error) if has_status(&error, &[404]) => return Ok(ContainerStatus::Gone),
        Err(error) => return Err(error),
    };
    Ok(match state.running {
        Some(false) => ContainerStatus::Ended(
            state.exit_code.unwrap_or(0),
            state.oom_killed.unwrap_or(false),
        ),
        Some(true) | None => ContainerStatus::Runs,
    })
}

async fn remove(client: &Docker, id: &str) -> Result<(), Error> {
    let removed = async {
        let options = || {
            RemoveContainerOptionsBuilder::new()
                .force(true)
                .v(true)
                .build()
        };
        match client.remove_container(id, Some(options())).await {
            Ok(()) => return Ok(()),
            Err(error) if has_status(&error, &[404]) => return Ok(()),
            // The engine is already removing it.
            Err(error) if has_status(&error, &[409]) => {}
            Err(error) => return Err(error),
        }
        loop {
            match client.inspect_container(id, None).await {
                Ok(_) => tokio::time::sleep(LOOK_EVERY).await,
                Err(error) if has_status(&error, &[404]) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    };
    tokio::time::timeout(REMOVED_WITHIN, removed)
        .await
        .unwrap_or(Err(Error::RequestTimeoutError))
}

/// Returns `true` if an engine answered with one of these codes.
pub(super) fn has_status(error: &Error, codes: &[u16]) -> bool {
    matches!(
        error,
        Error::DockerResponseServerError { status_code, .. } if codes.contains(status_code)
    )
}
