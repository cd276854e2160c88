//! A running command, wherever it runs: one of the backend, or one in a container.

use crate::backend::Backend;
use crate::command::Command;
use crate::docker;
use crate::enforcement::ShownContainer;
use crate::error::Error;
use crate::exceeded::LimitHit;
use crate::exit::Exit;
use crate::findings::{Findings, Notes};
use crate::platform;
use crate::streams::Pipes;
use std::io::PipeReader;
use std::time::Duration;
#[cfg(feature = "tokio")]
use std::time::Instant;

/// A running tree. Dropping it ends it.
#[derive(Debug)]
pub(crate) enum Running {
    Here(Box<platform::Running>),
    #[cfg_attr(
        not(feature = "docker"),
        expect(dead_code, reason = "one list with and without the feature")
    )]
    Container(Box<docker::Running>),
}

/// Ends a tree from another thread.
#[derive(Debug)]
pub(crate) enum Killer {
    Here(platform::Killer),
    Container(docker::Killer),
}

/// What [`Running::poll`] saw.
#[derive(Debug, Default)]
pub(crate) struct Event {
    /// For each pipe, in order: there is something to read, or its end.
    pub(crate) readable: Vec<bool>,
    /// Nothing of it runs any more.
    pub(crate) ended: bool,
}

/// What an async caller waits for, apart from time.
#[cfg(feature = "tokio")]
pub(crate) enum Readiness {
    /// Readable when there is something to look at.
    #[cfg_attr(
        not(any(target_os = "linux", feature = "docker")),
        expect(dead_code, reason = "one list for all systems")
    )]
    Socket(std::os::unix::net::UnixStream),
    /// The same, of a process itself.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "one list for all systems")
    )]
    Process(std::os::fd::OwnedFd),
    /// Only the clock.
    #[cfg_attr(
        target_os = "linux",
        expect(dead_code, reason = "one list for all systems")
    )]
    Nothing,
}

/// A command that was started, and what is to be known of that.
pub(crate) struct StartedCommand {
    pub(crate) running: Running,
    pub(crate) pipes: Pipes,
    pub(crate) notes: Notes,
    pub(crate) container: Option<ShownContainer>,
}

pub(crate) fn start(command: Command) -> Result<StartedCommand, Error> {
    match command.plan.backend() {
        Backend::Docker => docker::start(command),
        Backend::Bubblewrap
        | Backend::Birdcage
        | Backend::Landlock
        | Backend::Seatbelt
        | Backend::None => {
            let (running, pipes, notes) = platform::start(command)?;
            Ok(StartedCommand {
                running: Running::Here(Box::new(running)),
                pipes,
                notes,
                container: None,
            })
        }
    }
}

impl Running {
    /// Waits until a pipe is readable, it ended, or the time passed.
    pub(crate) fn poll(
        &mut self,
        pipes: &[&PipeReader],
        timeout: Option<Duration>,
    ) -> Result<Event, Error> {
        match self {
            Running::Here(running) => running.poll(pipes, timeout).map(|event| Event {
                readable: event.readable,
                ended: event.ended,
            }),
            Running::Container(running) => running.poll(pipes, timeout),
        }
    }

    /// Waits for the end of everything.
    pub(crate) fn wait(&mut self) -> Result<Exit, Error> {
        match self {
            Running::Here(running) => running.wait(),
            Running::Container(running) => running.wait(),
        }
    }

    /// The limit of the whole tree that was hit, once it was waited for.
    pub(crate) fn seen(&self) -> Option<LimitHit> {
        match self {
            Running::Here(running) => running.seen(),
            Running::Container(running) => running.seen(),
        }
    }

    /// What was found after the end; each once.
    pub(crate) fn findings(&mut self) -> Findings {
        match self {
            Running::Here(running) => running.findings(),
            Running::Container(running) => running.findings(),
        }
    }

    /// Asks for the end of everything.
    pub(crate) fn kill(&mut self) {
        match self {
            Running::Here(running) => running.kill(),
            Running::Container(running) => running.kill(),
        }
    }

    pub(crate) fn killer(&self) -> Result<Killer, Error> {
        match self {
            Running::Here(running) => running.killer().map(Killer::Here),
            Running::Container(running) => Ok(Killer::Container(running.killer())),
        }
    }

    /// Whether it ended, without waiting.
    #[cfg(feature = "tokio")]
    pub(crate) fn look(&mut self) -> Result<bool, Error> {
        match self {
            Running::Here(running) => running.look(),
            Running::Container(running) => running.poll(&[], Some(Duration::ZERO)).map(|e| e.ended),
        }
    }

    /// What is readable when there is something to look at.
    #[cfg(feature = "tokio")]
    pub(crate) fn watched(&self) -> Result<Readiness, Error> {
        match self {
            Running::Here(running) => running.watched(),
            Running::Container(running) => running.watched(),
        }
    }

    /// When to look, whether or not there is something to read.
    #[cfg(feature = "tokio")]
    pub(crate) fn next_look(&self) -> Option<Instant> {
        match self {
            Running::Here(running) => running.next_look(),
            Running::Container(_) => None,
        }
    }
}

impl Killer {
    pub(crate) fn kill(&self) {
        match self {
            Killer::Here(killer) => killer.kill(),
            Killer::Container(killer) => killer.kill(),
        }
    }
}
