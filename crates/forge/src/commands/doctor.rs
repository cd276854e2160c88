//! `forge doctor`: what this machine can enforce, found out by running it.

use std::io::Write as _;

use os_sandbox::{Plan, Policy, Requirement, Support};
use serde_json::json;

use crate::cli::{Doctor, Global};
use crate::exit::{Exit, Failure};

pub(crate) fn run(global: &Global, _: &Doctor) -> Result<Exit, Failure> {
    let support = Support::detect();
    let policy = Policy::builder()
        .build()
        .map_err(|error| Failure::new(Exit::Negative, "policy", error.to_string()))?;
    let plan = Plan::new(&policy, &support, Requirement::Enforce);
    let mut out = std::io::stdout().lock();
    let written = if global.json {
        let facts = json!({
            "sandbox": {
                "enforceable": plan.is_ok(),
                "backend": plan.as_ref().ok().map(|plan| plan.backend().to_string()),
                "landlock_abi": support.landlock_abi(),
                "bubblewrap": support.bubblewrap().map(os_sandbox::Bubblewrap::version),
                "missing": support.missing().into_iter().map(|(what, why, how)| json!({
                    "what": what, "why": why, "how_to_get_it": how,
                })).collect::<Vec<_>>(),
            },
        });
        writeln!(out, "{facts}")
    } else {
        let verdict = match &plan {
            Ok(plan) => format!("Commands are confined by {}.\n\n{plan}", plan.backend()),
            Err(error) => format!(
                "Commands cannot be confined on this machine: {error}\n\n{}",
                error.hint()
            ),
        };
        writeln!(out, "{support}\n{}", verdict.trim_end())
    };
    written.map_err(|error| Failure::new(Exit::Negative, "stdout", error.to_string()))?;
    Ok(if plan.is_ok() {
        Exit::Done
    } else {
        Exit::Negative
    })
}
