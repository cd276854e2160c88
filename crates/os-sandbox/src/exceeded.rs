//! The effective limits of one command on this host, and the limit that it ran into.

use crate::exit::Exit;
use crate::policy::Limits;
use crate::support::{ContainerSupport, ControlGroup, Support};
use std::fmt;
use std::time::Duration;

/// Signal numbers, equal on every supported Unix.
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;

/// A limit that a command ran into, with its value.
///
/// Not every limit ends the command: at its limit on processes it only cannot start more, and when
/// memory is short the kernel may have ended just one process of several.
///
/// ```
/// use os_sandbox::Exceeded;
///
/// assert_eq!(Exceeded::Memory(512 << 20).to_string(), "more than 512 MiB of memory");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exceeded {
    /// Time on the clock; the end is [`Exit::TimedOut`].
    Wall(Duration),
    /// Processor time of the command's first process.
    Cpu(Duration),
    /// Bytes of memory of the whole tree.
    Memory(u64),
    /// Processes and threads of the whole tree.
    Processes(u64),
    /// Bytes of a file that the command's first process wrote.
    FileSize(u64),
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exceeded::Wall(time) => write!(f, "more than {time:?}"),
            Exceeded::Cpu(time) => write!(f, "more than {time:?} of processor time"),
            Exceeded::Memory(bytes) => write!(f, "more than {} of memory", size(*bytes)),
            Exceeded::Processes(count) => {
                write!(f, "more than {count} processes and threads at once")
            }
            Exceeded::FileSize(bytes) => write!(f, "a file of more than {}", size(*bytes)),
        }
    }
}

/// Formats a size, rounded down to about three digits, in the unit that a limit was set with.
pub(crate) fn size(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit {
            let (whole, tenth) = (bytes / unit, bytes % unit * 10 / unit);
            return if tenth == 0 {
                format!("{whole} {name}")
            } else {
                format!("{whole}.{tenth} {name}")
            };
        }
    }
    format!("{bytes} bytes")
}

/// A limit of the whole tree that only its mechanism can detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitHit {
    /// The limit on memory.
    Memory,
    /// The limit on processes.
    Processes,
}

/// The limits of one command. Those of the whole tree are the effective ones on this host, not
/// those of the policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct EffectiveLimits {
    /// Time on the clock.
    pub wall: Option<Duration>,
    /// Processor time of each process.
    pub cpu: Option<Duration>,
    /// Memory of the whole tree.
    pub memory_bytes: Option<u64>,
    /// Processes and threads of the whole tree.
    pub processes: Option<u64>,
    /// Bytes of each file.
    pub file_bytes: Option<u64>,
}

impl EffectiveLimits {
    pub(crate) fn new(limits: &Limits, support: &Support) -> EffectiveLimits {
        let at_most = |limit: u64, group: Option<&ControlGroup>| {
            let ceiling = group.and_then(|group| group.ceiling);
            limit.min(ceiling.unwrap_or(u64::MAX))
        };
        // A limit above the machine's memory would have no effect: the machine itself, and the
        // caller with it, would run out of memory first.
        let machine = support.machine_bytes.map_or(u64::MAX, most_of);
        EffectiveLimits {
            wall: limits.wall,
            cpu: limits.cpu,
            memory_bytes: limits
                .memory_bytes
                .map(|limit| at_most(limit, support.memory_group.found()).min(machine)),
            processes: limits
                .processes
                .map(|limit| at_most(limit, support.process_group.found())),
            file_bytes: limits.file_bytes,
        }
    }

    /// Returns the limits of a command in a container: the lower of the policy's and the
    /// container's.
    #[must_use]
    pub fn in_container(limits: &Limits, containers: &ContainerSupport) -> EffectiveLimits {
        let lower = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let machine = containers.machine_bytes.map_or(u64::MAX, most_of);
        let memory = lower(limits.memory_bytes, containers.memory_bytes);
        EffectiveLimits {
            wall: limits.wall,
            cpu: limits.cpu,
            memory_bytes: memory.map(|bytes| bytes.min(machine)),
            processes: lower(limits.processes, containers.processes),
            file_bytes: limits.file_bytes,
        }
    }

    /// Returns the exceeded limit, if any: the backend's observation first, then the limit that the
    /// exit itself implies.
    pub(crate) fn exceeded(&self, exit: Exit, seen: Option<LimitHit>) -> Option<Exceeded> {
        match (exit, seen) {
            (Exit::TimedOut, _) => self.wall.map(Exceeded::Wall),
            (_, Some(LimitHit::Memory)) => self.memory_bytes.map(Exceeded::Memory),
            (_, Some(LimitHit::Processes)) => self.processes.map(Exceeded::Processes),
            (Exit::Signal(SIGXCPU), None) => self.cpu.map(Exceeded::Cpu),
            (Exit::Signal(SIGXFSZ), None) => self.file_bytes.map(Exceeded::FileSize),
            (Exit::Signal(_) | Exit::Code(_), None) => None,
        }
    }
}

/// Returns seven eighths. The rest is for the process that waits for the command.
fn most_of(machine_bytes: u64) -> u64 {
    machine_bytes - machine_bytes / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (bytes, want) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (512 << 20, "512 MiB"),
            (16 << 30, "16 GiB"),
            ((21 << 30) + (1 << 27), "21.1 GiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(size(bytes), want);
        }
    }
}
