//! `forge doctor`: what this machine can enforce, found out by running it; with `--prove` also
//! whether it holds for the project at hand, by trying to get out.

use std::fmt::Write as _;
use std::io::Write as _;

use os_sandbox::{Backend, Plan, Policy, Proof, Requirement, Support, Survey};
use sandbox_config::WithoutFile;
use serde_json::{Value, json};

use crate::ambient::Ambient;
use crate::cli::{Doctor, Global};
use crate::exit::{Exit, Failure};
use crate::gather;

/// Bound on the links, and on the files of git, that are shown for a mount.
const MAX_SHOWN: usize = 20;

pub(crate) fn run(global: &Global, args: &Doctor, ambient: &Ambient) -> Result<Exit, Failure> {
    if args.mcp {
        return super::doctor_mcp::run(global, ambient);
    }
    if let Some(named) = &args.model {
        return super::doctor_model::run(global, ambient, named.as_deref());
    }
    if args.docker {
        return super::doctor_docker::run(global, ambient);
    }
    if args.git {
        return super::doctor_git::run(global, ambient);
    }
    // How it is now, also for the next command.
    Support::forget();
    let support = Support::detect();
    let plan = Plan::new(&default_policy()?, &support, Requirement::Enforce);
    let here = match args.prove {
        false => None,
        true => Some(policy_here(global, ambient)?),
    };
    let proofs = here.as_ref().map(|policy| prove(policy, &support));
    let surveys = match &here {
        None => Vec::new(),
        Some(policy) => Survey::of(policy).map_err(|error| {
            Failure::new(Exit::Negative, "mount.unavailable", error.to_string())
        })?,
    };
    let text = if global.json {
        let mut facts = facts(&support, &plan);
        if let Some(proofs) = &proofs {
            facts["proofs"] = proofs.iter().map(Attempt::to_json).collect();
            facts["mounts"] = json!(surveys);
        }
        json!({"sandbox": facts}).to_string()
    } else {
        match &proofs {
            None => format!("{}\n\n{support}", verdict(&plan)),
            Some(proofs) => {
                let holds = match all_hold(proofs) && looked(&surveys) {
                    true => "Everything that is promised here holds.",
                    false => "Something that is promised here does not hold: see below.",
                };
                let tables = format!("{}\n{}", table(proofs), mounts(&surveys));
                format!("{holds}\n\n{support}\n{tables}")
            }
        }
    };
    writeln!(std::io::stdout().lock(), "{}", text.trim_end()).map_err(Failure::stdout)?;
    Ok(match (&proofs, &plan) {
        (Some(proofs), _) if all_hold(proofs) && looked(&surveys) => Exit::Done,
        (Some(_), _) => Exit::Isolation,
        (None, Ok(_)) => Exit::Done,
        (None, Err(_)) => Exit::Negative,
    })
}

/// Whether commands can run in all of them.
fn looked(surveys: &[Survey]) -> bool {
    surveys.iter().all(|one| one.incomplete.is_none())
}

/// What is in the project's own mounts, and what of it nothing can be mounted over.
fn mounts(surveys: &[Survey]) -> String {
    let mut out = String::new();
    for survey in surveys {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "mount {}: {} files and directories, {} protected or hidden names",
            survey.mount, survey.entries, survey.names
        );
        for told in super::check::told(survey) {
            let _ = writeln!(out, "  {told}");
        }
        for (what, list) in [
            ("a link, which nothing can be mounted over", &survey.links),
            ("git configuration", &survey.git),
        ] {
            for one in list.iter().take(MAX_SHOWN) {
                let _ = writeln!(out, "  {what}: {one}");
            }
            if let Some(more @ 1..) = list.len().checked_sub(MAX_SHOWN) {
                let _ = writeln!(out, "  {what}: {more} more");
            }
        }
    }
    out
}

fn default_policy() -> Result<Policy, Failure> {
    Policy::builder()
        .build()
        .map_err(|error| Failure::new(Exit::Negative, "policy", error.to_string()))
}

/// The policy that `forge exec` would use here: the project's, or this directory's.
fn policy_here(global: &Global, ambient: &Ambient) -> Result<Policy, Failure> {
    gather::project(global, ambient, None, WithoutFile::RootAtStart)?
        .ceiling()
        .policy()
        .map_err(|error| Failure::new(Exit::Negative, "mount.unavailable", error.to_string()))
}

fn facts(support: &Support, plan: &Result<Plan, os_sandbox::PlanError>) -> Value {
    let missing: Vec<Value> = support
        .missing()
        .into_iter()
        .map(|(what, why, how)| json!({"what": what, "why": why, "how_to_get_it": how}))
        .collect();
    let holes: Vec<Value> = support
        .known_holes()
        .iter()
        .map(|hole| json!({"id": hole.id(), "what": hole.what(), "covered_by": hole.covered_by()}))
        .collect();
    json!({
        "enforceable": plan.is_ok(),
        "backend": plan.as_ref().ok().map(|plan| plan.backend().to_string()),
        "landlock_abi": support.landlock_abi(),
        "bubblewrap": support.bubblewrap().map(os_sandbox::Bubblewrap::version),
        "pins_by_descriptor": support.pins_by_descriptor(),
        "known_holes": holes,
        "missing": missing,
    })
}

fn verdict(plan: &Result<Plan, os_sandbox::PlanError>) -> String {
    match plan {
        Ok(plan) => format!("Commands are confined by {}.\n\n{plan}", plan.backend()),
        Err(error) => format!(
            "Commands cannot be confined on this machine: {error}\n\n{}",
            error.hint()
        ),
    }
}

/// What became of the self-test under one mechanism.
struct Attempt {
    backend: Backend,
    outcome: Outcome,
}

enum Outcome {
    Proved(Box<Proof>),
    /// The mechanism cannot keep this policy, so no command would ever run under it.
    Refused(String),
    /// It should have run.
    Failed(String),
}

fn prove(policy: &Policy, support: &Support) -> Vec<Attempt> {
    let usable = [
        (Backend::Bubblewrap, support.bubblewrap().is_some()),
        (Backend::Landlock, support.landlock_abi() > 0),
    ];
    usable
        .into_iter()
        .filter(|(_, usable)| *usable)
        .map(|(backend, _)| Attempt {
            backend,
            outcome: attempt(policy, support, backend),
        })
        .collect()
}

fn attempt(policy: &Policy, support: &Support, backend: Backend) -> Outcome {
    match Plan::with_mechanism(policy, support, Requirement::Enforce, backend) {
        Err(error) => Outcome::Refused(error.to_string()),
        Ok(plan) => match Support::prove(&plan) {
            Err(error) => Outcome::Failed(error.to_string()),
            Ok(proof) => Outcome::Proved(Box::new(proof)),
        },
    }
}

/// Whether a command can run here, and everything that was tried came out as the plan says.
fn all_hold(attempts: &[Attempt]) -> bool {
    let holds = |attempt: &Attempt| match &attempt.outcome {
        Outcome::Proved(proof) => Some(proof.holds()),
        Outcome::Refused(_) => None,
        Outcome::Failed(_) => Some(false),
    };
    let mut judged = attempts.iter().filter_map(holds).peekable();
    judged.peek().is_some() && judged.all(|holds| holds)
}

fn table(attempts: &[Attempt]) -> String {
    let mut out = String::new();
    if attempts.is_empty() {
        out.push_str("Nothing to prove: no mechanism works on this machine.");
    }
    for Attempt { backend, outcome } in attempts {
        // Writing to a String cannot fail.
        let _ = match outcome {
            Outcome::Proved(proof) => writeln!(out, "{proof}"),
            Outcome::Refused(why) => writeln!(out, "{backend}: not used for this policy: {why}\n"),
            Outcome::Failed(why) => writeln!(out, "{backend}: the self-test did not run: {why}\n"),
        };
    }
    out
}

impl Attempt {
    fn to_json(&self) -> Value {
        let mechanism = self.backend.to_string();
        match &self.outcome {
            Outcome::Proved(proof) => {
                json!({"mechanism": mechanism, "holds": proof.holds(), "proof": proof})
            }
            Outcome::Refused(why) => json!({"mechanism": mechanism, "refused": why}),
            Outcome::Failed(why) => json!({"mechanism": mechanism, "holds": false, "error": why}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os_sandbox::{Check, Enforcement, Expected, Promise, Seen};

    fn proved(checks: Vec<Check>) -> Attempt {
        let enforcement = Enforcement {
            policy: "00".to_owned(),
            backend: Backend::Landlock,
            bubblewrap: None,
            landlock_abi: 7,
            landlock_errata: 7,
            seccomp: true,
            container: None,
            promises: Vec::new(),
            mounts: Vec::new(),
            quarantined: Vec::new(),
            not_copied: Vec::new(),
            unreachable: 0,
        };
        Attempt {
            backend: Backend::Landlock,
            outcome: Outcome::Proved(Box::new(Proof {
                checks,
                millis: 2,
                enforcement,
            })),
        }
    }

    fn refused() -> Attempt {
        Attempt {
            backend: Backend::Bubblewrap,
            outcome: Outcome::Refused("this host cannot keep: signals (why)".to_owned()),
        }
    }

    #[test]
    fn what_counts_as_proved() {
        let check = |expected, seen| {
            let promise = Promise::ReadOutside;
            Check::new("read a file outside", promise, expected, seen)
        };
        let good = || proved(vec![check(Expected::Refused, Seen::Refused)]);
        let listed = || proved(vec![check(Expected::Listed, Seen::Worked)]);
        let bad = || proved(vec![check(Expected::Refused, Seen::Worked)]);
        assert!(all_hold(&[good(), listed(), refused()]));
        assert!(!all_hold(&[good(), bad()]));
        // Nothing ran, so nothing is proved.
        assert!(!all_hold(&[refused()]));
        assert!(!all_hold(&[]));
        insta::assert_snapshot!(table(&[refused(), listed(), bad()]), @r#"
        bubblewrap: not used for this policy: this host cannot keep: signals (why)

        as listed read outside     read a file outside                    worked
        1 checks under landlock in 2 ms: all as the plan says, 1 of them listed as open

        FAILS     read outside     read a file outside                    worked
        1 checks under landlock in 2 ms: 1 not as the plan says
        "#);
    }
}
