//! What killed brokers left at an engine is removed by the next one.

use super::engine::{ANSWER_WITHIN, Engine, said};
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

/// How long an engine may take to end a container and take it away.
const REMOVED_WITHIN: Duration = Duration::from_secs(60);

/// What was taken away.
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
    /// Containers that ran for nobody.
    pub containers: usize,
    /// Volumes that nobody will read.
    pub volumes: usize,
    /// What stayed, and why.
    pub problems: Vec<String>,
}

impl Engine {
    /// What is written on the containers and volumes of this process whose state lies in `state_dir`:
    /// by it, [`Engine::reap`] tells whose they were.
    #[must_use]
    pub fn labels(&self, state_dir: Option<&Path>) -> HashMap<String, String> {
        labels(state_dir)
    }

    /// Removes the containers and volumes of brokers of this machine, user and state directory that
    /// are dead. Nobody else's: not those of a broker that lives, nor of one on another machine
    /// (or before this one was started again: the engine itself removes those containers), nor of
    /// another user.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](os_sandbox::ErrorKind::Unsupported) if the engine does not answer.
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
                    // Somebody else is at it.
                    Err(error) if is_gone(&error) => {}
                    Err(error) => reaped.problems.push(format!("{id}: {}", said(&error))),
                }
            }
            let options = ListVolumesOptionsBuilder::new().filters(&filters()).build();
            let volumes = client.list_volumes(Some(options)).await?;
            for volume in volumes.volumes.unwrap_or_default() {
                if !is_orphan(&volume.labels, state_dir.as_deref()) {
                    continue;
                }
                let options = RemoveVolumeOptionsBuilder::new().force(true).build();
                match client.remove_volume(&volume.name, Some(options)).await {
                    Ok(()) => reaped.volumes += 1,
                    Err(error) if is_gone(&error) => {}
                    Err(error) => {
                        let why = said(&error);
                        reaped.problems.push(format!("{}: {why}", volume.name));
                    }
                }
            }
            Ok(reaped)
        })?;
        reaped.map_err(|error| self.lost(&said(&error)))
    }

    /// The same, once in this process for each engine and state directory: what comes before the
    /// first container. What went wrong is looked at by the next one.
    pub fn reap_once(&self, state_dir: Option<&Path>) {
        type ReapHistory = HashSet<(String, Option<PathBuf>)>;
        static DONE: Mutex<Option<ReapHistory>> = Mutex::new(None);
        let key = (self.address().to_string(), state_dir.map(Path::to_owned));
        // Held while it is done: whoever comes second finds everything removed.
        let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        if done.get_or_insert_default().insert(key) {
            let _next_time = self.reap(state_dir);
        }
    }
}

impl Engine {
    /// Takes a container away, with its anonymous volumes; one that is not there is fine.
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

    /// Takes a volume away; one that is not there is fine.
    pub(super) fn remove_volume(&self, name: &str) -> Result<(), Error> {
        let (client, name) = (self.client().clone(), name.to_owned());
        let options = RemoveVolumeOptionsBuilder::new().force(true).build();
        let removed = self.answered(ANSWER_WITHIN, async move {
            client.remove_volume(&name, Some(options)).await
        })?;
        match removed {
            Err(error) if !is_gone(&error) => Err(self.failed("remove a volume", &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Not there any more, or about to be so.
fn is_gone(error: &bollard::errors::Error) -> bool {
    match error {
        bollard::errors::Error::DockerResponseServerError {
            status_code,
            message,
        } => *status_code == 404 || *status_code == 409 && message.contains("already in progress"),
        _ => false,
    }
}
