//! Limits of a command, in the kernel's terms: limits of each process, a control group for the
//! whole tree, and limits that the supervisor enforces without one.

use super::super::cgroup::{CgroupLimit, CommandCgroup, Resource};
use super::message::Run;
use crate::error::Error;
use crate::plan::{MemoryLimiter, Plan};
use crate::sandbox::Sandbox;

/// Resource numbers of Linux (asm-generic/resource.h), the same on both machines.
pub(super) fn limits(plan: &Plan) -> Vec<(u64, u64, u64)> {
    const CPU: u64 = 0;
    const FILE_SIZE: u64 = 1;
    const DATA: u64 = 2;
    const CORE: u64 = 4;
    const PROCESSES: u64 = 6;
    const OPEN_FILES: u64 = 7;
    let limits = plan.policy().limits();
    let mut out = vec![(CORE, 0, 0)];
    // One second between the soft limit (SIGXCPU) and the hard one (SIGKILL).
    if let Some(cpu) = limits.cpu {
        let seconds = cpu.as_secs().max(1);
        out.push((CPU, seconds, seconds.saturating_add(1)));
    }
    // Why not always: the kernel counts what is reserved, and sanitizers reserve terabytes.
    let each = plan.memory_limiter() == MemoryLimiter::EachProcess;
    for (resource, limit) in [
        (FILE_SIZE, limits.file_bytes),
        (DATA, limits.memory_bytes.filter(|_| each)),
        (OPEN_FILES, limits.open_files),
    ] {
        out.extend(limit.map(|limit| (resource, limit, limit)));
    }
    // The kernel counts processes of a user within a user namespace; without one, all processes of
    // the user. In that case the limit only delays a fork bomb until the supervisor acts, so it
    // leaves room for other programs.
    let room = plan.backend().properties().others_counted;
    out.extend(limits.processes.map(|limit| {
        let limit = limit.saturating_add(room);
        (PROCESSES, limit, limit)
    }));
    out
}

/// Creates a control group for the limits that one can enforce; the supervisor enforces the others.
pub(super) fn limit_tree(sandbox: &Sandbox, run: &mut Run) -> Result<Option<CommandCgroup>, Error> {
    let plan = sandbox.plan();
    let (support, bounds) = (plan.support(), plan.bounds());
    let mut wanted = Vec::new();
    if let Some(limit) = bounds.memory_bytes {
        match support.memory_group.found() {
            Some(at) => wanted.push(CgroupLimit {
                resource: Resource::Memory,
                at: at.clone(),
                limit,
            }),
            // 0 would disable the supervisor's check.
            None => run.watch_bytes = limit.max(1),
        }
    }
    if let Some(limit) = bounds.processes {
        match support.process_group.found() {
            Some(at) => wanted.push(CgroupLimit {
                resource: Resource::Processes,
                at: at.clone(),
                limit,
            }),
            None => run.watch_threads = limit.max(1),
        }
    }
    if wanted.is_empty() {
        return Ok(None);
    }
    sandbox.pool().groups.take(&wanted).map(Some)
}
