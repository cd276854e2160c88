//! A Docker engine: its address, and requests to it. The client is async and this crate is not, so
//! one thread talks to all engines, and callers wait for it within bounds.

use super::address::Address;
use super::engine_connector::EngineConnector;
use bollard::{BollardRequest, Docker};
use os_sandbox::mechanism::visible;
use os_sandbox::{Error, ErrorKind};
use std::future::Future;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Bound on the time of a question to an engine that starts nothing.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Bound on the time until an engine begins an answer, for every request.
const BEGIN_WITHIN_S: u64 = 120;
/// Oldest version of the interface that has everything this crate needs: Docker 19.03.
const OLDEST: (usize, usize) = (1, 40);

/// A Docker engine that answered.
///
/// ```
/// use os_sandbox::ErrorKind;
/// use os_sandbox_docker::Engine;
///
/// let nobody = Engine::connect(Some("unix:///nonexistent/docker.sock")).unwrap_err();
/// assert_eq!(nobody.kind(), ErrorKind::Unsupported);
/// assert!(nobody.hint().is_some_and(|hint| hint.contains("DOCKER_HOST")));
/// ```
#[derive(Clone, Debug)]
pub struct Engine {
    client: Docker,
    version: String,
    address: Arc<Address>,
}

impl Engine {
    /// Connects to the engine at `host`, which is written as in `DOCKER_HOST`. `None` selects the
    /// usual socket.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if `host` is not an address; those of [`Engine::at`].
    pub fn connect(host: Option<&str>) -> Result<Engine, Error> {
        Engine::at(host.map_or_else(|| Ok(Address::default()), Address::parse)?)
    }

    /// Connects to the engine at an address, and agrees on a version of the interface that both
    /// sides know.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if no usable engine answers there.
    pub fn at(address: Address) -> Result<Engine, Error> {
        let unusable = |why: &dyn std::fmt::Display| {
            let message = format!("no container engine answers at {address}: {why}");
            Error::new(ErrorKind::Unsupported, message).with_hint(address.hint())
        };
        let newest = bollard::API_DEFAULT_VERSION;
        let here = Some("http://engine");
        let spoken = Arc::new(OnceLock::new());
        let dial = EngineConnector::new(address.clone(), Arc::clone(&spoken));
        let send = move |request: BollardRequest| dial.request(request);
        let client = Docker::connect_with_custom_transport(send, here, BEGIN_WITHIN_S, newest)
            .map_err(|error| unusable(&error))?;
        // The client's connections belong to the runtime on which it makes them.
        let answered = ask(ANSWER_WITHIN, async move {
            let client = client.negotiate_version().await?;
            let version = client.version().await?;
            Ok::<_, bollard::errors::Error>((client, version))
        });
        let (client, version) = match answered {
            Ok(Ok(both)) => both,
            Ok(Err(error)) => return Err(unusable(&error_text(&error))),
            Err(late) => return Err(unusable(&late)),
        };
        let agreed = client.client_version();
        if (agreed.major_version, agreed.minor_version) < OLDEST {
            let (major, minor) = OLDEST;
            let why =
                format!("its interface is of version {agreed}, and {major}.{minor} is needed");
            return Err(unusable(&why));
        }
        if let Some(other) = version.os.filter(|os| os != "linux") {
            return Err(unusable(&format!(
                "its containers are of {}",
                visible(&other)
            )));
        }
        // This is the only place that sets it.
        let _first = spoken.set(format!("/v{agreed}"));
        Ok(Engine {
            client,
            version: visible(&version.version.unwrap_or_default()),
            address: Arc::new(address),
        })
    }

    /// Returns the engine's own version, in the engine's words.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the address at which the engine answers.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Checks that the engine still answers.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it does not.
    pub fn ping(&self) -> Result<(), Error> {
        let client = self.client.clone();
        self.answered(ANSWER_WITHIN, async move { client.ping().await.map(drop) })?
            .map_err(|error| self.lost(&error_text(&error)))
    }

    /// Returns the client that sends requests to the engine.
    pub(super) fn client(&self) -> &Docker {
        &self.client
    }

    /// Waits for an answer of this engine.
    pub(super) fn answered<T: Send + 'static>(
        &self,
        bound: Duration,
        work: impl Future<Output = Result<T, bollard::errors::Error>> + Send + 'static,
    ) -> Result<Result<T, bollard::errors::Error>, Error> {
        ask(bound, work).map_err(|late| self.lost(&late))
    }

    /// Returns the error for an engine that answers but does not do something.
    pub(super) fn failed(&self, doing: &str, error: &bollard::errors::Error) -> Error {
        let kind = match error {
            bollard::errors::Error::DockerResponseServerError { .. } => ErrorKind::Enforcement,
            _ => return self.lost(&error_text(error)),
        };
        let why = error_text(error);
        Error::new(
            kind,
            format!("the container engine could not {doing}: {why}"),
        )
    }

    /// Returns the error for an engine that answered earlier and does not any more.
    pub(super) fn lost(&self, why: &dyn std::fmt::Display) -> Error {
        let address = &self.address;
        let message = format!("the container engine at {address} does not answer any more: {why}");
        Error::new(ErrorKind::Unsupported, message).with_hint(address.hint())
    }
}

/// Returns the error text of the engine, or of the connection to it, for people.
pub(super) fn error_text(error: &bollard::errors::Error) -> String {
    let text = match error {
        bollard::errors::Error::DockerResponseServerError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    visible(text.trim())
}

/// Runs work on the thread for engines, and waits for its result.
pub(super) fn ask<T: Send + 'static>(
    within: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Error> {
    let (done, answer) = mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        let answered = tokio::time::timeout(within, work).await;
        // The caller may have ended.
        let _nobody = done.send(answered);
    });
    let late = || {
        let seconds = within.as_secs();
        ErrorKind::Unsupported.error(format!(
            "the container engine did not answer within {seconds} seconds"
        ))
    };
    match answer.recv() {
        Ok(answered) => answered.map_err(|_| late()),
        Err(_) => {
            Err(ErrorKind::Enforcement.error("the thread that talks to container engines was lost"))
        }
    }
}

pub(super) fn runtime() -> Result<&'static Runtime, Error> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;

    /// A server that answers like an engine up to its version, and records the requests.
    #[test]
    fn what_is_asked_is_of_the_version_that_was_agreed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let (asked, heard) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let first = lines.next().unwrap_or_default();
                while lines.next().is_some_and(|line| !line.is_empty()) {}
                let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
                let body = match path.ends_with("/version") {
                    true => r#"{"Version": "20.10.24", "ApiVersion": "1.41", "Os": "linux"}"#,
                    false => "OK",
                };
                let length = body.len();
                // The server records the request before it answers, because the test reads the
                // record after the answer.
                if asked.send(path).is_err() {
                    return;
                }
                let _gone = write!(
                    &stream,
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
            }
        });
        let engine = Engine::connect(Some(&format!("unix://{}", path.display()))).unwrap();
        assert_eq!(engine.version(), "20.10.24");
        let agreeing: Vec<String> = heard.try_iter().collect();
        assert!(
            agreeing.iter().all(|path| path == "/version"),
            "{agreeing:?}"
        );
        engine.ping().unwrap();
        assert_eq!(heard.recv().unwrap(), "/v1.41/_ping");
    }
}
