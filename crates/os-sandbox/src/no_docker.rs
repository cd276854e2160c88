//! Without the feature `docker` nobody can hand over an engine, so that containers are only ever
//! those of a host that is described ([`HostSpec`](crate::HostSpec)).

use crate::command::Command;
use crate::error::{Error, ErrorKind};
use crate::exceeded::{EffectiveLimits, LimitHit};
use crate::exit::Exit;
use crate::findings::Findings;
use crate::policy::Limits;
#[cfg(feature = "tokio")]
use crate::running::Readiness;
use crate::running::{Event, StartedCommand};
use std::convert::Infallible;
use std::io::PipeReader;
use std::time::Duration;

/// Containers that are described.
#[derive(Clone, Debug)]
pub(crate) struct Containers;

impl Containers {
    pub(crate) fn assumed() -> Containers {
        Containers
    }

    pub(crate) fn filters(&self) -> bool {
        true
    }

    pub(crate) fn own_program(&self) -> bool {
        false
    }

    pub(crate) fn limits_memory(&self) -> bool {
        true
    }

    pub(crate) fn limits_processes(&self) -> bool {
        true
    }

    pub(crate) fn bounds(&self, limits: &Limits) -> EffectiveLimits {
        EffectiveLimits {
            wall: limits.wall,
            cpu: limits.cpu,
            memory_bytes: limits.memory_bytes,
            processes: limits.processes,
            file_bytes: limits.file_bytes,
        }
    }
}

/// There is none.
#[derive(Debug)]
pub(crate) struct Running(Infallible);

/// There is none.
#[derive(Debug)]
pub(crate) struct Killer(Infallible);

pub(crate) fn start(_: Command) -> Result<StartedCommand, Error> {
    let what = "the plan's containers are only described";
    Err(Error::new(ErrorKind::Unsupported, what))
}

impl Running {
    pub(crate) fn poll(&mut self, _: &[&PipeReader], _: Option<Duration>) -> Result<Event, Error> {
        match self.0 {}
    }

    pub(crate) fn wait(&mut self) -> Result<Exit, Error> {
        match self.0 {}
    }

    pub(crate) fn seen(&self) -> Option<LimitHit> {
        match self.0 {}
    }

    pub(crate) fn findings(&mut self) -> Findings {
        match self.0 {}
    }

    pub(crate) fn kill(&mut self) {
        match self.0 {}
    }

    pub(crate) fn killer(&self) -> Killer {
        match self.0 {}
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn watched(&self) -> Result<Readiness, Error> {
        match self.0 {}
    }
}

impl Killer {
    pub(crate) fn kill(&self) {
        match self.0 {}
    }
}
