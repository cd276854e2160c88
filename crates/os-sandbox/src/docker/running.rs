//! A running container, seen from the broker. A task of ours waits for its end; a socket that it
//! closes then is what a thread, or another runtime, can wait for.

use super::elsewhere::Back;
use super::engine::runtime;
use super::place::Private;
use crate::error::{Error, ErrorKind};
use crate::exceeded::LimitHit;
use crate::exit::Exit;
use crate::findings::Findings;
use crate::platform::Cleanup;
use crate::running::Event;
use crate::running::Readiness;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::future::Future;
use std::io::PipeReader;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long the end of one may take that nobody waits for any more.
const END_GRACE: Duration = Duration::from_secs(40);

/// How it ended, and what was seen then.
pub(super) type ContainerOutcome = Result<(Exit, Option<LimitHit>), Error>;

/// A running container. Dropping it ends it.
pub(crate) struct Running {
    news: UnixStream,
    told: Arc<Mutex<Option<ContainerOutcome>>>,
    stop: Arc<Notify>,
    result: Option<(Exit, Option<LimitHit>)>,
    /// It has been said that nothing is left.
    ended: bool,
    after: Option<Cleanup>,
    /// Removed after the end, because the container looks at it.
    private: Option<Private>,
    /// What became of copies.
    back: Back,
    findings: Findings,
}

/// Ends a container from another thread.
#[derive(Clone, Debug)]
pub(crate) struct Killer(Arc<Notify>);

/// What the task that supervises is handed.
pub(super) struct StopSignal {
    pub(super) stop: Arc<Notify>,
}

impl Running {
    /// Starts the task.
    pub(super) fn new<F>(task: impl FnOnce(StopSignal) -> F) -> Result<Running, Error>
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
            // Closed whatever became of the task: nobody waits for ever.
            drop(tell);
        });
        Ok(Running {
            news,
            told,
            stop,
            result: None,
            ended: false,
            after: None,
            private: None,
            back: Back::default(),
            findings: Findings::default(),
        })
    }

    /// What is to be done after the end, and what is kept until then.
    pub(super) fn then(mut self, after: Cleanup, private: Private, back: Back) -> Running {
        self.after = Some(after);
        self.back = back;
        self.private = Some(private);
        self
    }

    pub(crate) fn poll(
        &mut self,
        pipes: &[&PipeReader],
        timeout: Option<Duration>,
    ) -> Result<Event, Error> {
        let mut fds: Vec<PollFd<'_>> = pipes
            .iter()
            .map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN))
            .collect();
        if !self.ended {
            fds.push(PollFd::new(self.news.as_fd(), PollFlags::POLLIN));
        }
        let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
            // Rounded up, so that a wait never turns into a busy one.
            let ms = timeout.as_micros().div_ceil(1000).min(i32::MAX as u128);
            PollTimeout::try_from(ms as i32).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(Error::io("could not wait for the command", errno.into())),
        }
        let happened: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        self.ended = self.ended || happened.get(pipes.len()) == Some(&true);
        Ok(Event {
            readable: happened[..pipes.len()].to_vec(),
            ended: self.ended,
        })
    }

    pub(crate) fn watched(&self) -> Result<Readiness, Error> {
        let news = self.news.try_clone();
        news.map(Readiness::Socket)
            .map_err(|error| Error::io("could not copy a descriptor", error))
    }

    pub(crate) fn wait(&mut self) -> Result<Exit, Error> {
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
        let lost = || {
            Error::new(
                ErrorKind::Enforcement,
                "the container\'s end was told before, or lost",
            )
        };
        let result = ending.unwrap_or_else(|| Err(lost()))?;
        self.result = Some(result);
        Ok(result.0)
    }

    pub(crate) fn seen(&self) -> Option<LimitHit> {
        self.result.and_then(|(_, seen)| seen)
    }

    pub(crate) fn findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }

    pub(crate) fn kill(&mut self) {
        self.stop.notify_one();
    }

    pub(crate) fn killer(&self) -> Killer {
        Killer(Arc::clone(&self.stop))
    }

    fn finish(&mut self) {
        if let Some(after) = self.after.take() {
            self.findings = after.run();
            self.findings.not_copied = self.back.sentences();
        }
        self.private = None;
    }
}

impl Drop for Running {
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

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Killer {
    pub(crate) fn kill(&self) {
        self.0.notify_one();
    }
}
