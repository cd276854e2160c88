//! Commands: the probe under os-sandbox, held at an older Landlock where a column asks for it.

use crate::case::Case;
use crate::column::Column;
use crate::verdict::Seen;
use crate::world::{World, say};
use os_sandbox::{Backend, Command, Denial, Exit, Plan, ReportLevel, Requirement, Support};
use std::sync::OnceLock;

/// Asked once: each world asks for a plan.
pub(crate) fn support() -> &'static Support {
    static SUPPORT: OnceLock<Support> = OnceLock::new();
    SUPPORT.get_or_init(crate::host::detect)
}

pub(crate) fn plan(column: Column, world: &World<'_>) -> Result<Plan, String> {
    let backend = column.backend().ok_or("no plan for this column")?;
    let support = support().clone().with_landlock_at_most(column.abi());
    let best = Requirement::BestEffort;
    Plan::with_mechanism(&world.policy, &support, best, backend).map_err(say)
}

/// Tries cases one after the other in one process.
pub(crate) fn attempt(
    plan: &Plan,
    world: &World<'_>,
    cases: &[&Case],
) -> Result<Vec<Seen>, String> {
    attempt_reported(plan, world, ReportLevel::default(), cases).map(|(seen, _)| seen)
}

/// Tries cases, and returns the reports about refused attempts too. Only bubblewrap and containers
/// show mounts at their names.
pub(crate) fn attempt_reported(
    plan: &Plan,
    world: &World<'_>,
    level: ReportLevel,
    cases: &[&Case],
) -> Result<(Vec<Seen>, Vec<Denial>), String> {
    let moved = matches!(
        plan.backend(),
        Backend::Namespaces | Backend::Bubblewrap | Backend::Docker
    );
    let sandbox = crate::engine::open(plan.clone());
    let mut command = Command::new(&sandbox, world.probe(moved))
        .reports(level)
        .arg("--probe");
    for case in cases {
        let words = if moved {
            world.inside(case)
        } else {
            world.on_host(case)
        };
        command = command.arg(case.verb.word()).args(words);
    }
    let output = command.output().map_err(say)?;
    if output.exit != Exit::Code(0) {
        return Err(format!("{:?}: {}", output.exit, output.stderr.text()));
    }
    let seen = crate::probe::answers(&output.stdout.text(), cases.len())?;
    Ok((seen, output.enforcement.denials))
}
