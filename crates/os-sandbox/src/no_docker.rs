//! Without the feature `docker` nobody can hand over an engine, so that containers are only ever
//! those of a host that is described ([`HostSpec`](crate::HostSpec)).

use crate::command::Command;
use crate::error::{Error, ErrorKind};
use crate::exceeded::EffectiveLimits;
use crate::policy::Limits;
use crate::process::StartedCommand;

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

pub(crate) fn start(_: Command) -> Result<StartedCommand, Error> {
    let what = "the plan's containers are only described";
    Err(Error::new(ErrorKind::Unsupported, what))
}
