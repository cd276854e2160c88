//! An engine: where it answers, and how it is asked. The client is async and this crate is not, so
//! one thread of ours talks to all engines; whoever asks waits for it, within bounds.

use crate::error::{Error, ErrorKind};
use bollard::Docker;
use std::future::Future;
use std::sync::{OnceLock, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Where an engine answers if nobody says.
const USUAL: &str = "unix:///var/run/docker.sock";
/// How long a question to an engine may take that starts nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A Docker engine that answered.
///
/// ```
/// use os_sandbox::{ErrorKind, docker::Engine};
///
/// let nobody = Engine::connect(Some("unix:///nonexistent/docker.sock")).unwrap_err();
/// assert_eq!(nobody.kind(), ErrorKind::Unsupported);
/// ```
#[derive(Clone, Debug)]
pub struct Engine {
    client: Docker,
    version: String,
}

impl Engine {
    /// Reaches the engine at `host`, which is written as in `DOCKER_HOST` (`unix://`, `tcp://`,
    /// `ssh://`), and agrees on a version of its interface that both know. None: the usual socket.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if nothing that can be used answers there.
    pub fn connect(host: Option<&str>) -> Result<Engine, Error> {
        let host = host.unwrap_or(USUAL);
        let unusable = |error: &bollard::errors::Error| {
            Error::new(
                ErrorKind::Unsupported,
                format!("no container engine answers at {host}: {error}"),
            )
        };
        // Where a client is made, its connections live.
        let client = ask(ANSWER_WITHIN, {
            let host = host.to_owned();
            async move { Docker::connect_with_host(&host)?.negotiate_version().await }
        })?
        .map_err(|error| unusable(&error))?;
        let version = ask(ANSWER_WITHIN, {
            let client = client.clone();
            async move { client.version().await }
        })?
        .map_err(|error| unusable(&error))?;
        Ok(Engine {
            client,
            version: version.version.unwrap_or_default(),
        })
    }

    /// The engine's own version, as it says it.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What asks it.
    pub(super) fn client(&self) -> &Docker {
        &self.client
    }

    /// Whether it still answers.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it does not.
    pub fn ping(&self) -> Result<(), Error> {
        let client = self.client.clone();
        match ask(ANSWER_WITHIN, async move { client.ping().await })? {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::new(
                ErrorKind::Unsupported,
                format!("the container engine does not answer any more: {error}"),
            )),
        }
    }
}

/// Waits for what the thread of engines does.
pub(super) fn ask<T: Send + 'static>(
    within: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Error> {
    let (done, answer) = mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        let answered = tokio::time::timeout(within, work).await;
        // Whoever asked may have been ended.
        let _nobody = done.send(answered);
    });
    let late = || {
        let seconds = within.as_secs();
        Error::new(
            ErrorKind::Unsupported,
            format!("the container engine did not answer within {seconds} seconds"),
        )
    };
    match answer.recv() {
        Ok(answered) => answered.map_err(|_| late()),
        Err(_) => Err(Error::new(
            ErrorKind::Enforcement,
            "the thread that talks to container engines was lost",
        )),
    }
}

fn runtime() -> Result<&'static Runtime, Error> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("container-engine")
        .enable_all()
        .build()
        .map_err(|error| Error::io("could not start the thread for container engines", error))?;
    Ok(RUNTIME.get_or_init(|| made))
}
