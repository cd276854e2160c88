//! `forge doctor`: the mechanisms of this machine, found out by running them; with `--prove` also
//! whether they hold for the project at hand, by attempts to escape.

mod docker;
mod git;
mod mcp;
mod model;
mod report;
mod review;

use os_sandbox::{
    Backend, Directories, Entry, Expected, MechanismReport, Observation, Plan, Policy,
    PolicyBuilder, PromiseState, Proof, ProofCheck, Requirement, Sandbox, Support, Survey,
};
use sandbox_config::WithoutDirectories;
use sandbox_names::{HIDDEN, PROTECTED};

use crate::cli::DoctorArgs;
use crate::commands::prelude::*;
use crate::output::describe::{self, TextLayout, Tone};
use crate::run_view::count;
use crate::setup::{self, NamedHostAccess};

/// Bound on the links, and on the files of git, that are shown for a mount.
const MAX_SHOWN: usize = 20;

pub(crate) fn run(args: &DoctorArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    if args.mcp {
        return mcp::run(ambient);
    }
    if let Some(named) = &args.model {
        return model::run(ambient, named.as_deref());
    }
    if args.docker {
        return docker::run(ambient);
    }
    if args.git {
        return git::run(ambient);
    }
    // Detects the present state, also for the next command.
    let directories = Directories::user();
    Support::forget(&directories);
    let support = Support::detect_cached(&directories);
    let plan = Plan::new(&default_policy()?, &support, Requirement::Enforce);
    let here = match args.prove {
        false => None,
        true => Some(policy_here(ambient)?),
    };
    let proofs = here.as_ref().map(|policy| prove(policy, &support));
    let surveys = match &here {
        None => Vec::new(),
        Some(policy) => Survey::of(policy)
            .map_err(|error| CliError::negative("mount.unavailable", error.to_string()))?,
    };
    let view = DoctorReport {
        layout: ambient.layout(),
        verbose: ambient.global.verbose > 0,
        review: review::row(&support, ambient),
    };
    let text = if ambient.global.json {
        let mut facts = facts(&support, &plan);
        facts["review"] = json!(view.review.works);
        if let Some(proofs) = &proofs {
            facts["proofs"] = proofs.iter().map(SelfTest::to_json).collect();
            facts["mounts"] = json!(surveys);
        }
        json!({"sandbox": facts}).to_string()
    } else {
        match &proofs {
            None => view.machine(&support, &plan),
            Some(proofs) => view.proved(proofs, &surveys, &support),
        }
    };
    print_line(text.trim_end())?;
    Ok(match (&proofs, &plan) {
        (Some(proofs), _) if all_hold(proofs) && can_run_in_all(&surveys) => ExitKind::Done,
        (Some(_), _) => ExitKind::Isolation,
        (None, Ok(_)) => ExitKind::Done,
        (None, Err(_)) => ExitKind::Negative,
    })
}

/// `true` if commands can run in all of them.
fn can_run_in_all(surveys: &[Survey]) -> bool {
    surveys.iter().all(|one| one.incomplete.is_none())
}

/// The names that every project protects and hides: not every mechanism can.
fn default_policy() -> Result<Policy, CliError> {
    let protects = PROTECTED
        .iter()
        .copied()
        .fold(Policy::builder(), PolicyBuilder::protect);
    let hides = HIDDEN.iter().copied().fold(protects, PolicyBuilder::hide);
    hides
        .build()
        .map_err(|error| CliError::negative("policy", error.to_string()))
}

/// The policy that `forge exec` would use here: the project's, or this directory's.
fn policy_here(ambient: &Ambient) -> Result<Policy, CliError> {
    setup::project(ambient, None, WithoutDirectories::WholeDirectory)?
        .ceiling()
        .policy()
        .map_err(|error| CliError::negative("mount.unavailable", error.for_person()))
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
        "named_hosts": setup::named_host_access(support) != NamedHostAccess::Refused,
        "backend": plan.as_ref().ok().map(|plan| plan.backend().to_string()),
        "landlock_abi": support.landlock_abi(),
        "namespaces": support.namespaces(),
        "bubblewrap": support.bubblewrap().map(os_sandbox::Bubblewrap::version),
        "pins_by_descriptor": support.pins_by_descriptor(),
        "known_holes": holes,
        "missing": missing,
    })
}

/// Returns the row about lists of hosts.
fn named_hosts(support: &Support) -> MechanismReport {
    let access = setup::named_host_access(support);
    let detail = match access {
        NamedHostAccess::EveryProgram => {
            "commands reach the hosts in `network.allow`, and no others"
        }
        NamedHostAccess::ByProxyVariables => {
            "programs that use the proxy variables reach the hosts in `network.allow`, and no \
             others; with namespaces every program does"
        }
        NamedHostAccess::Refused => {
            "it takes namespaces, or Landlock from Linux 6.12 on: commands of a project with \
             `network.allow` are refused"
        }
    };
    let works = access != NamedHostAccess::Refused;
    MechanismReport {
        name: "named hosts",
        works,
        details: vec![detail.to_owned()],
    }
}

/// The answer for a person: the verdict, then the missing parts; with `-v` everything.
struct DoctorReport {
    layout: TextLayout,
    verbose: bool,
    review: MechanismReport,
}

impl DoctorReport {
    fn machine(&self, support: &Support, plan: &Result<Plan, os_sandbox::PlanError>) -> String {
        let layout = self.layout;
        let mut text = match plan {
            Ok(plan) => {
                let verdict = format!("Commands are confined by {}.", plan.backend());
                let tone = match plan.gaps().next() {
                    None => Tone::Good,
                    Some(_) => Tone::Doubtful,
                };
                format!("{}\n", layout.paint(&verdict, tone))
            }
            Err(error) => {
                let verdict = "Commands cannot be confined on this machine:";
                let mut text = layout.wrap(&format!("{verdict} {error}"), "");
                if let Some(rest) = text.strip_prefix(verdict) {
                    text = format!("{}{rest}", layout.paint(verdict, Tone::Bad));
                }
                text.push('\n');
                for line in error.hint().lines() {
                    text.push_str(&layout.wrap(line, ""));
                }
                text
            }
        };
        if let Ok(plan) = plan {
            text.push_str(&self.promises(plan));
        }
        text.push_str(&self.mechanisms(support));
        text.push_str(&self.more("every promise, and every mechanism that was looked for"));
        text
    }

    /// Returns the promises of a plan; without `-v` those that are not fully enforced.
    fn promises(&self, plan: &Plan) -> String {
        let entries = plan.entries();
        let is_kept = |entry: &&Entry| entry.state == PromiseState::Enforced;
        let kept = entries.iter().filter(is_kept).count();
        let mut text = format!("{kept} of {} promises are enforced", entries.len());
        let shown = entries
            .iter()
            .filter(|entry| self.verbose || !is_kept(entry));
        let rows: Vec<(Tone, Vec<String>)> = shown.map(promise_row).collect();
        match rows.is_empty() {
            true => text.push_str(".\n"),
            false if self.verbose => text.push_str(":\n"),
            false => text.push_str("; not fully:\n"),
        }
        text.push_str(&describe::verdict_table(&rows, "  ", self.layout, 1));
        text
    }

    /// Returns the mechanisms of the machine; without `-v` those that are missing.
    fn mechanisms(&self, support: &Support) -> String {
        let mechanisms = support.mechanisms().into_iter();
        let mechanisms = mechanisms.chain([named_hosts(support), self.review.clone()]);
        let shown = mechanisms.filter(|row| self.verbose || !row.works);
        // The lines below the reason say how to change it.
        let rows: Vec<(Tone, Vec<String>)> = shown
            .flat_map(|row| {
                let (word, tone) = match row.works {
                    true => ("yes", Tone::Good),
                    false => ("no", Tone::Doubtful),
                };
                let name = match row.name {
                    "memory" => "memory cgroup",
                    "processes" => "process cgroup",
                    name => name,
                };
                let cells = |(index, detail): (usize, String)| match index {
                    0 => vec![word.to_owned(), name.to_owned(), detail],
                    _ => vec![String::new(), String::new(), detail],
                };
                let rows: Vec<_> = row.details.into_iter().enumerate().map(cells).collect();
                rows.into_iter().map(move |cells| (tone, cells))
            })
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        let heading = match self.verbose {
            true => "What this machine has:",
            false => "What this machine lacks:",
        };
        let table = describe::verdict_table(&rows, "  ", self.layout, 1);
        format!("\n{heading}\n{table}")
    }

    fn proved(&self, proofs: &[SelfTest], surveys: &[Survey], support: &Support) -> String {
        let verdict = match all_hold(proofs) && can_run_in_all(surveys) {
            true => {
                let text = "Everything that is promised here holds.";
                self.layout.paint(text, Tone::Good)
            }
            false => {
                let text = "Something that is promised here does not hold: see below.";
                self.layout.paint(text, Tone::Bad)
            }
        };
        let mut text = format!("{verdict}\n\n{}", self.attempts(proofs));
        text.push('\n');
        text.push_str(&self.mounts(surveys));
        text.push_str(&self.mechanisms(support));
        text.push_str(&self.more("every check, and every mechanism that was looked for"));
        text
    }

    /// Returns the results of the checks; without `-v` those that failed.
    fn attempts(&self, attempts: &[SelfTest]) -> String {
        if attempts.is_empty() {
            return "Nothing to prove: no mechanism works on this machine.\n".to_owned();
        }
        let mut text = String::new();
        for SelfTest { backend, outcome } in attempts {
            match outcome {
                SelfTestOutcome::Proved(proof) => {
                    text.push_str(&self.layout.wrap(&proof.summary(), ""));
                    let checks = proof.checks.iter();
                    let shown = checks.filter(|check| self.verbose || !check.ok);
                    let rows: Vec<(Tone, Vec<String>)> = shown.map(check_row).collect();
                    text.push_str(&describe::verdict_table(&rows, "  ", self.layout, 1));
                }
                SelfTestOutcome::Refused(why) => {
                    let line = format!("{backend}: not used for this policy: {why}");
                    text.push_str(&self.layout.wrap(&line, ""));
                }
                SelfTestOutcome::Failed(why) => {
                    let line = format!("{backend}: the self-test did not run: {why}");
                    text.push_str(&self.layout.wrap(&line, ""));
                }
            }
        }
        text
    }

    /// Returns the size of each mount, and the entries that cannot be covered by a mount.
    fn mounts(&self, surveys: &[Survey]) -> String {
        let mut text = String::new();
        for survey in surveys {
            let entries = match survey.entries {
                1 => "1 file or directory".to_owned(),
                entries => format!("{entries} files and directories"),
            };
            let line = format!(
                "mount {}: {entries}, {}",
                survey.mount,
                count(survey.names as u64, "protected or hidden name")
            );
            text.push_str(&self.layout.wrap(&line, ""));
            for told in crate::commands::project::check::survey_notes(survey) {
                text.push_str(&self.layout.wrap(&told, "  "));
            }
            for (what, list) in [
                ("a link, which nothing can be mounted over", &survey.links),
                ("git configuration", &survey.git),
            ] {
                for one in list.iter().take(MAX_SHOWN) {
                    text.push_str(&self.layout.wrap(&format!("{what}: {one}"), "  "));
                }
                if let Some(more @ 1..) = list.len().checked_sub(MAX_SHOWN) {
                    text.push_str(&self.layout.wrap(&format!("{what}: {more} more"), "  "));
                }
            }
        }
        text
    }

    fn more(&self, what: &str) -> String {
        match self.verbose {
            true => String::new(),
            false => format!("\n{}", self.layout.wrap(&format!("-v: {what}"), "")),
        }
    }
}

fn promise_row(entry: &Entry) -> (Tone, Vec<String>) {
    let tone = match entry.state {
        PromiseState::Enforced => Tone::Good,
        PromiseState::Detected | PromiseState::Degraded => Tone::Doubtful,
        PromiseState::Absent => Tone::Bad,
    };
    let by: Vec<String> = entry.by.iter().map(ToString::to_string).collect();
    let row = vec![
        entry.state.to_string(),
        entry.promise.to_string(),
        by.join(" + "),
        entry.reason.clone().unwrap_or_default(),
    ];
    (tone, row)
}

fn check_row(check: &ProofCheck) -> (Tone, Vec<String>) {
    let tone = match (check.ok, check.expected, check.seen) {
        (true, Expected::Listed, Observation::Worked) => Tone::Doubtful,
        (true, _, _) => Tone::Good,
        (false, _, _) => Tone::Bad,
    };
    let row = vec![
        check.verdict().to_owned(),
        check.promise.to_string(),
        check.name.to_owned(),
        check.seen.to_string(),
    ];
    (tone, row)
}

/// The result of the self-test under one mechanism.
struct SelfTest {
    backend: Backend,
    outcome: SelfTestOutcome,
}

enum SelfTestOutcome {
    Proved(Box<Proof>),
    /// The mechanism cannot keep this policy, so no command would ever run under it.
    Refused(String),
    /// It should have run.
    Failed(String),
}

fn prove(policy: &Policy, support: &Support) -> Vec<SelfTest> {
    let usable = [
        (Backend::Namespaces, support.namespaces()),
        (Backend::Bubblewrap, support.bubblewrap().is_some()),
        (Backend::Landlock, support.landlock_abi() > 0),
    ];
    usable
        .into_iter()
        .filter(|(_, usable)| *usable)
        .map(|(backend, _)| SelfTest {
            backend,
            outcome: attempt(policy, support, backend),
        })
        .collect()
}

fn attempt(policy: &Policy, support: &Support, backend: Backend) -> SelfTestOutcome {
    match Plan::with_mechanism(policy, support, Requirement::Enforce, backend) {
        Err(error) => SelfTestOutcome::Refused(error.to_string()),
        Ok(plan) => match Sandbox::open(plan, Directories::user()).prove() {
            Err(error) => SelfTestOutcome::Failed(error.to_string()),
            Ok(proof) => SelfTestOutcome::Proved(Box::new(proof)),
        },
    }
}

/// `true` if a command can run here, and every attempt had the planned result.
fn all_hold(attempts: &[SelfTest]) -> bool {
    let holds = |attempt: &SelfTest| match &attempt.outcome {
        SelfTestOutcome::Proved(proof) => Some(proof.holds()),
        SelfTestOutcome::Refused(_) => None,
        SelfTestOutcome::Failed(_) => Some(false),
    };
    let mut judged = attempts.iter().filter_map(holds).peekable();
    judged.peek().is_some() && judged.all(|holds| holds)
}

impl SelfTest {
    fn to_json(&self) -> Value {
        let mechanism = self.backend.to_string();
        match &self.outcome {
            SelfTestOutcome::Proved(proof) => {
                json!({"mechanism": mechanism, "holds": proof.holds(), "proof": proof})
            }
            SelfTestOutcome::Refused(why) => json!({"mechanism": mechanism, "refused": why}),
            SelfTestOutcome::Failed(why) => {
                json!({"mechanism": mechanism, "holds": false, "error": why})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os_sandbox::{Enforcement, Promise};

    fn proved(checks: Vec<ProofCheck>) -> SelfTest {
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
            hidden: Vec::new(),
            ended_processes: None,
            quarantined: Vec::new(),
            more_quarantined: 0,
            not_copied: Vec::new(),
            git_configs: Vec::new(),
            unreachable: 0,
            contacts: Vec::new(),
            more_contacts: 0,
            contact_totals: Vec::new(),
            reports_denials: false,
            denials: Vec::new(),
            more_denials: false,
            touched: None,
        };
        SelfTest {
            backend: Backend::Landlock,
            outcome: SelfTestOutcome::Proved(Box::new(Proof {
                checks,
                millis: 2,
                enforcement,
            })),
        }
    }

    fn refused() -> SelfTest {
        SelfTest {
            backend: Backend::Bubblewrap,
            outcome: SelfTestOutcome::Refused("this host cannot keep: signals (why)".to_owned()),
        }
    }

    #[test]
    fn what_counts_as_proved() {
        let check = |expected, seen| {
            let promise = Promise::ReadOutside;
            ProofCheck::new("read a file outside", promise, expected, seen)
        };
        let good = || proved(vec![check(Expected::Refused, Observation::Refused)]);
        let listed = || proved(vec![check(Expected::Listed, Observation::Worked)]);
        let bad = || proved(vec![check(Expected::Refused, Observation::Worked)]);
        assert!(all_hold(&[good(), listed(), refused()]));
        assert!(!all_hold(&[good(), bad()]));
        // Nothing ran, so nothing is proved.
        assert!(!all_hold(&[refused()]));
        assert!(!all_hold(&[]));
        let view = |verbose| DoctorReport {
            layout: TextLayout::default(),
            verbose,
            review: MechanismReport {
                name: "review",
                works: true,
                details: Vec::new(),
            },
        };
        let attempts = [refused(), listed(), bad()];
        insta::assert_snapshot!(view(true).attempts(&attempts), @r"
        bubblewrap: not used for this policy: this host cannot keep: signals (why)
        1 checks under landlock in 2 ms: all as the plan says, 1 of them listed as open
          listed  read outside  read a file outside  worked
        1 checks under landlock in 2 ms: 1 not as the plan says
          FAILS  read outside  read a file outside  worked
        ");
        // Without -v only what failed.
        let short = view(false).attempts(&attempts);
        assert!(
            short.contains("  FAILS  ") && !short.contains("  listed  "),
            "{short}"
        );
    }
}
