//! Without the feature `docker` nobody can hand over an engine, so that containers are only ever
//! those of a host that is described ([`Assumed`](crate::Assumed)).

use crate::exceeded::Bounds;
use crate::policy::Limits;

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

    pub(crate) fn limits_memory(&self) -> bool {
        true
    }

    pub(crate) fn limits_processes(&self) -> bool {
        true
    }

    pub(crate) fn bounds(&self, limits: &Limits) -> Bounds {
        Bounds {
            wall: limits.wall,
            cpu: limits.cpu,
            memory_bytes: limits.memory_bytes,
            processes: limits.processes,
            file_bytes: limits.file_bytes,
        }
    }
}
