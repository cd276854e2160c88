//! A running container, seen from the broker. A task waits for its end and then closes a socket, so
//! that a thread or another runtime can wait for the socket.

use super::container::ContainerOutcome;
use super::engine::runtime;
use super::private_files::PrivateFiles;
use super::remote_mounts::CopyBackResult;
use os_sandbox::mechanism::{
    Cleanup, Event, Findings, LimitHit, Process, Readiness, wait_readable,
};
use os_sandbox::{Error, ErrorKind, Exit, Killer, ProxySession, Quarantined};
use std::future::Future;
use std::io::PipeReader;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Bound on the time until a dropped container has ended.
const END_GRACE: Duration = Duration::from_secs(40);

/// A running container. Dropping it ends the container.
pub(crate) struct RunningContainer {
    news: UnixStream,
    told: Arc<Mutex<Option<ContainerOutcome>>>,
    stop: Arc<Notify>,
    result: Option<(Exit, Option<LimitHit>)>,
    /// `true` once the task has reported that no process is left.
    ended: bool,
    after: Option<Cleanup>,
    /// Files that are removed after the end, because the container uses them until then.
    private: Option<PrivateFiles>,
    /// Result of copying back.
    copy_back: CopyBackResult,
    /// The service of the container's sockets for named hosts.
    session: Option<Box<dyn ProxySession>>,
    findings: Findings,
}

/// Signal to the task that supervises the container.
pub(super) struct StopSignal {
    pub(super) stop: Arc<Notify>,
}

impl RunningContainer {
    /// Starts the task.
    pub(super) fn new<F>(task: impl FnOnce(StopSignal) -> F) -> Result<RunningContainer, Error>
    where
        F: Future<Output = ContainerOutcome> + Send + 'static,
    {
        let failed = |error| Error::io("could not watch the container", error);
        let (news, tell) = UnixStream::pair().map_err(failed)?;
        let told = Arc::new(Mutex::new(None));
        let stop = Arc::new(Notify::new());
        let task = task(StopSignal {
            stop: Arc::clone(&stop),
        });
        let telling = Arc::clone(&told);
        runtime()?.spawn(async move {
            let ending = task.await;
            *telling.lock().unwrap_or_else(PoisonError::into_inner) = Some(ending);
            // The socket closes even if the task fails, so that no thread waits for ever.
            drop(tell);
        });
        Ok(RunningContainer {
            news,
            told,
            stop,
            result: None,
            ended: false,
            after: None,
            private: None,
            copy_back: CopyBackResult::default(),
            session: None,
            findings: Findings::default(),
        })
    }

    /// Sets the work for after the end, and the files that must exist until then.
    pub(super) fn then(
        mut self,
        after: Cleanup,
        private: PrivateFiles,
        copy_back: CopyBackResult,
    ) -> RunningContainer {
        self.after = Some(after);
        self.copy_back = copy_back;
        self.private = Some(private);
        self
    }

    /// Sets the service of the container's sockets.
    pub(super) fn proxied(mut self, session: Option<Box<dyn ProxySession>>) -> RunningContainer {
        self.session = session;
        self
    }

    fn finish(&mut self) {
        // Before the scan: nothing of the command is connected any more.
        let contacts = self.session.take().map(|session| session.finish());
        if let Some(after) = self.after.take() {
            self.findings = after.run();
            self.findings.not_copied = self.copy_back.refusal_lines();
        }
        if let Some(contacts) = contacts {
            self.findings.contacts = contacts;
        }
        self.private = None;
    }
}

impl Process for RunningContainer {
    fn poll(&mut self, pipes: &[&PipeReader], timeout: Option<Duration>) -> Result<Event, Error> {
        let news = (!self.ended).then(|| self.news.as_fd());
        let event = wait_readable(pipes, news, timeout)?;
        self.ended = self.ended || event.ended;
        Ok(Event {
            ended: self.ended,
            ..event
        })
    }

    fn readiness(&self) -> Result<Readiness, Error> {
        let news = self.news.try_clone();
        news.map(Readiness::Socket)
            .map_err(|error| Error::io("could not copy a descriptor", error))
    }

    fn wait(&mut self) -> Result<Exit, Error> {
        if let Some((exit, _)) = self.result {
            return Ok(exit);
        }
        while !self.ended {
            self.poll(&[], None)?;
        }
        self.finish();
        let ending = self
            .told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let lost = || ErrorKind::Enforcement.error("the container\'s end was told before, or lost");
        let result = ending.unwrap_or_else(|| Err(lost()))?;
        self.result = Some(result);
        Ok(result.0)
    }

    fn limit_hit(&self) -> Option<LimitHit> {
        self.result.and_then(|(_, seen)| seen)
    }

    fn findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }

    fn kill(&self) {
        self.stop.notify_one();
    }

    fn killer(&self) -> Result<Killer, Error> {
        let stop = Arc::clone(&self.stop);
        Ok(Killer::new(move || stop.notify_one()))
    }

    fn finish_dropped(&mut self) -> Vec<Quarantined> {
        let until = Instant::now() + END_GRACE;
        while Instant::now() < until {
            match self.poll(&[], Some(Duration::from_secs(1))) {
                Ok(event) if event.ended => {
                    // No caller asks for the exit any more.
                    let _exit = self.wait();
                    return self.findings().quarantined;
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        Vec::new()
    }
}

impl Drop for RunningContainer {
    fn drop(&mut self) {
        if self.after.is_none() {
            return;
        }
        self.kill();
        let until = Instant::now() + END_GRACE;
        while !self.ended && Instant::now() < until {
            if self.poll(&[], Some(Duration::from_secs(1))).is_err() {
                break;
            }
        }
        self.finish();
    }
}

impl std::fmt::Debug for RunningContainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
