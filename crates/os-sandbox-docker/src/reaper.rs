//! Removal of the containers and volumes that killed brokers left at an engine; the next broker
//! does it.

use super::engine::{ANSWER_WITHIN, Engine, error_text};
use super::labels::{filters, is_orphan, labels};
use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListVolumesOptionsBuilder, RemoveContainerOptionsBuilder,
    RemoveVolumeOptionsBuilder,
};
use os_sandbox::Error;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Bound on the time in which an engine ends and removes a container.
const REMOVED_WITHIN: Duration = Duration::from_secs(60);
/// Time limit for the release of a volume by a container that is being removed: a busy machine takes
/// seconds.
const FREE_WITHIN: Duration = Duration::from_secs(30);
const ASKED_AGAIN: Duration = Duration::from_millis(50);

/// Result of a removal of orphans.
///
/// ```no_run
/// use os_sandbox_docker::Engine;
///
/// let reaped = Engine::connect(None)?.reap(None)?;
/// assert!(reaped.problems.is_empty(), "{:?}", reaped.problems);
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reaped {
    /// Number of removed containers.
    pub containers: usize,
    /// Number of removed volumes.
    pub volumes: usize,
    /// Objects that stayed, each with the reason.
    pub problems: Vec<String>,
}

impl Engine {
    /// Returns the labels of the containers and volumes that this process makes with its state in
    /// `state_dir`. [`Engine::reap`] finds the owner by them.
    #[must_use]
    pub fn labels(&self, state_dir: Option<&Path>) -> HashMap<String, String> {
        labels(state_dir)
    }

    /// Removes the containers and volumes of dead brokers of this machine, user and state
    /// directory. It does not remove those of a living broker, of a broker on another machine, of
    /// one before the last boot of this machine (the engine itself removes those containers), or of
    /// another user.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](os_sandbox::ErrorKind::Unsupported) if the engine does not
    /// answer.
    pub fn reap(&self, state_dir: Option<&Path>) -> Result<Reaped, Error> {
        let state_dir: Option<PathBuf> = state_dir.map(Path::to_owned);
        let client = self.client().clone();
        let reaped = self.answered(REMOVED_WITHIN, async move {
            let mut reaped = Reaped::default();
            let options = ListContainersOptionsBuilder::new()
                .all(true)
                .filters(&filters())
                .build();
            for container in client.list_containers(Some(options)).await? {
                let labels = container.labels.unwrap_or_default();
                let Some(id) = container
                    .id
                    .filter(|_| is_orphan(&labels, state_dir.as_deref()))
                else {
                    continue;
                };
                let options = RemoveContainerOptionsBuilder::new()
                    .force(true)
                    .v(true)
                    .build();
                match client.remove_container(&id, Some(options)).await {
                    Ok(()) => reaped.containers += 1,
                    // Another broker is already removing it.
                    Err(error) if is_gone(&error) => {}
                    Err(error) => reaped
                        .problems
                        .push(format!("{id}: {}", error_text(&error))),
                }
            }
            let options = ListVolumesOptionsBuilder::new().filters(&filters()).build();
            let volumes = client.list_volumes(Some(options)).await?;
            for volume in volumes.volumes.unwrap_or_default() {
                if !is_orphan(&volume.labels, state_dir.as_deref()) {
                    continue;
                }
                match remove_when_free(&client, &volume.name).await {
                    Ok(()) => reaped.volumes += 1,
                    Err(error) if is_gone(&error) => {}
                    Err(error) => {
                        let why = error_text(&error);
                        reaped.problems.push(format!("{}: {why}", volume.name));
                    }
                }
            }
            Ok(reaped)
        })?;
        reaped.map_err(|error| self.lost(&error_text(&error)))
    }

    /// Runs [`Engine::reap`] once in this process for each engine and state directory, before the
    /// first container. The next broker handles a failure.
    pub fn reap_once(&self, state_dir: Option<&Path>) {
        type ReapHistory = HashSet<(String, Option<PathBuf>)>;
        static DONE: Mutex<Option<ReapHistory>> = Mutex::new(None);
        let key = (self.address().to_string(), state_dir.map(Path::to_owned));
        // The lock is held during the removal, so that a second caller finds the orphans removed.
        let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        if done.get_or_insert_default().insert(key) {
            let _next_time = self.reap(state_dir);
        }
    }
}

impl Engine {
    /// Removes a container with its anonymous volumes. A missing container is not an error.
    pub(super) fn remove_container(&self, id: &str) -> Result<(), Error> {
        let (client, id) = (self.client().clone(), id.to_owned());
        let options = RemoveContainerOptionsBuilder::new()
            .force(true)
            .v(true)
            .build();
        let removed = self.answered(REMOVED_WITHIN, async move {
            client.remove_container(&id, Some(options)).await
        })?;
        match removed {
            Err(error) if !is_gone(&error) => Err(self.failed("remove a container", &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes a volume. A missing volume is not an error.
    pub(super) fn remove_volume(&self, name: &str) -> Result<(), Error> {
        let (client, name) = (self.client().clone(), name.to_owned());
        let removed = self.answered(ANSWER_WITHIN + FREE_WITHIN, async move {
            remove_when_free(&client, &name).await
        })?;
        match removed {
            Err(error) if !is_gone(&error) => Err(self.failed("remove a volume", &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Removes a volume. Why: the removal of a container, which may be another's, ends a moment before the
/// engine lets go of its volumes, a long one on a busy machine.
async fn remove_when_free(
    client: &bollard::Docker,
    name: &str,
) -> Result<(), bollard::errors::Error> {
    let end = Instant::now() + FREE_WITHIN;
    loop {
        let options = RemoveVolumeOptionsBuilder::new().force(true).build();
        match client.remove_volume(name, Some(options)).await {
            Err(error) if is_in_use(&error) && Instant::now() < end => sleep(ASKED_AGAIN).await,
            removed => return removed,
        }
    }
}

fn is_in_use(error: &bollard::errors::Error) -> bool {
    matches!(
        error,
        bollard::errors::Error::DockerResponseServerError { status_code: 409, message }
            if message.contains("in use")
    )
}

/// Returns `true` if the object does not exist any more, or is being removed.
fn is_gone(error: &bollard::errors::Error) -> bool {
    match error {
        bollard::errors::Error::DockerResponseServerError {
            status_code,
            message,
        } => *status_code == 404 || *status_code == 409 && message.contains("already in progress"),
        _ => false,
    }
}
