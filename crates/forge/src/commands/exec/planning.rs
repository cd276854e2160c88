//! The plan of a command on this host, and the refusal if there is none.

use forge_runtime::hosts_not_kept;
use os_sandbox::{Backend, HostSpec, Plan, PlanError, Policy, Requirement, Support};
use sandbox_config::Grant;

use crate::cli::{ExecArgs, MechanismName, ReviewLayer};
use crate::commands::prelude::*;
use crate::commands::review_subject::IN_A_COPY;
use crate::setup;

const GAPS_REFUSE: &str = "without `require: guards` these gaps are listed and do not refuse";
const CHANGES_AT_ONCE: &str = "without `--review`, `sandbox.review: true` and `mode: staged` it changes \
                               the project at once";

const NOT_APART: &str = "--no-os-sandbox turns off what keeps changes apart from the project \
                         (`mode: staged`, `--review`)";

pub(super) fn plan(
    args: &ExecArgs,
    grant: &Grant,
    policy: &Policy,
    layer: Option<ReviewLayer>,
) -> Result<Plan, CliError> {
    if args.no_os_sandbox {
        if grant.require_os_sandbox() {
            return Err(CliError::exec_refused(
                "isolation.unavailable",
                "the project requires an OS sandbox, and --no-os-sandbox turns it off",
            ));
        }
        warn_unconfined();
        let nothing = Support::assume(HostSpec::default());
        return Plan::with_mechanism(policy, &nothing, Requirement::BestEffort, Backend::None)
            .map_err(|_| {
                CliError::exec_refused("isolation.unavailable", NOT_APART)
                    .hint("leave out --no-os-sandbox")
            });
    }
    let support = setup::host_support();
    let plan = match args.mechanism {
        None => Plan::new(policy, &support, grant.requirement()),
        Some(name) => {
            let backend = match name {
                MechanismName::Namespaces => Backend::Namespaces,
                MechanismName::Bubblewrap => Backend::Bubblewrap,
                MechanismName::Landlock => Backend::Landlock,
            };
            Plan::with_mechanism(policy, &support, grant.requirement(), backend)
        }
    };
    let plan = plan.map_err(|error| match hosts_not_kept(policy, &error) {
        Some(hint) => isolation(&error, hint.to_owned()),
        None if grant.confinement().requires_guards() => hinted(&error, &[GAPS_REFUSE]),
        // A copy needs a mechanism that shows it at the path of the project.
        None if layer.is_some() && error.backend().has_own_root() => {
            hinted(&error, &[IN_A_COPY, CHANGES_AT_ONCE])
        }
        None if layer.is_some() => hinted(&error, &[CHANGES_AT_ONCE]),
        None => refused(&error, !grant.require_os_sandbox()),
    })?;
    match layer {
        None | Some(ReviewLayer::Overlay) => Ok(plan),
        Some(ReviewLayer::Copy) if plan.backend().has_own_root() => Ok(plan),
        Some(ReviewLayer::Copy) => Err(CliError::exec_refused(
            "isolation.unavailable",
            format!(
                "{} cannot show a copy at the path of the project",
                plan.backend()
            ),
        )
        .hint("namespaces and bubblewrap can: `forge doctor` says why they do not work here")),
    }
}

fn hinted(error: &PlanError, more: &[&str]) -> CliError {
    let hint = error.hint();
    let hints: Vec<&str> = [hint.as_str()]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    let text = hints.join("\n");
    let text = text.trim_start();
    isolation(error, text.strip_prefix("or ").unwrap_or(text).to_owned())
}

fn warn_unconfined() {
    stderr::print("warning: no OS sandbox: the command can do whatever you can");
}

fn refused(error: &PlanError, may_be_turned_off: bool) -> CliError {
    let mut hint = error.hint();
    if may_be_turned_off {
        hint.push_str("\nor run it without any confinement: forge exec --no-os-sandbox -- …");
    }
    isolation(error, hint)
}

fn isolation(error: &PlanError, hint: String) -> CliError {
    CliError::exec_refused(
        "isolation.unavailable",
        format!("OS sandbox required but unavailable: {error}"),
    )
    .hint(hint)
}
