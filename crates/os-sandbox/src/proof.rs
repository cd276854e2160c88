//! The result of a self-test: a probe takes the place of a command and tries to break each promise
//! of a plan.

use crate::enforcement::Enforcement;
use crate::error::Error;
use crate::platform::{self, ProbeScope};
use crate::promise::Promise;
use crate::sandbox::Sandbox;
use std::fmt;
use std::time::Instant;

/// The result of a plan's self-test. [`Sandbox::prove`] creates it; it is serialisable under the
/// feature `serde`.
///
/// ```
/// use os_sandbox::{Directories, Plan, Policy, Requirement, Sandbox, Support};
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// let plan = Plan::new(&Policy::builder().build()?, &Support::detect(), Requirement::Enforce)?;
/// let sandbox = Sandbox::open(plan, Directories::user());
/// let proof = sandbox.prove()?;
/// assert!(proof.holds(), "{proof}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[must_use]
pub struct Proof {
    /// Every check that the policy gives a reason for.
    pub checks: Vec<ProofCheck>,
    /// The duration, in milliseconds.
    pub millis: u64,
    /// The restrictions that were applied to the probe, the same as to every command of this plan.
    pub enforcement: Enforcement,
}

/// One attempt, its expected and its observed outcome.
///
/// ```
/// use os_sandbox::{ProofCheck, Expected, Promise, Observation};
///
/// let got_out = ProofCheck::new("read a file outside", Promise::ReadOutside, Expected::Refused, Observation::Worked);
/// assert!(!got_out.ok);
/// let known = ProofCheck::new("set times outside", Promise::Metadata, Expected::Listed, Observation::Worked);
/// assert!(known.ok);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ProofCheck {
    /// The attempted operation.
    pub name: &'static str,
    /// The promise that the check is about.
    pub promise: Promise,
    /// The expected outcome.
    pub expected: Expected,
    /// The observed outcome.
    pub seen: Observation,
    /// `true` if the two agree.
    pub ok: bool,
}

sandbox_names::word_enum! {
    /// The expected outcome of a check.
    ///
    /// ```
    /// assert_eq!(os_sandbox::Expected::Listed.to_string(), "listed");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Expected {
        /// The plan promises that the operation fails.
        Refused = "refused",
        /// The policy allows the operation.
        Allowed = "allowed",
        /// The plan lists the promise as kept in part or not at all. Both outcomes agree with that.
        Listed = "listed",
    }
    fn word
}

sandbox_names::word_enum! {
    /// The observed outcome of a check.
    ///
    /// ```
    /// assert_eq!(os_sandbox::Observation::Refused.to_string(), "refused");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Observation {
        /// The operation failed.
        Refused = "refused",
        /// The operation succeeded.
        Worked = "worked",
        /// The operation failed for an unrelated reason, such as too little memory.
        Unclear = "unclear",
    }
    fn word
}

impl Sandbox {
    /// Tries to break each promise of the plan, from inside exactly the plan's confinement, and
    /// returns the outcomes. This takes a handful of milliseconds. The decoys are in a private
    /// directory. The probe also creates a file under an unused name in one writable mount, and
    /// removes it again.
    ///
    /// # Errors
    /// If the probe could not be started, as [`Command::spawn`](crate::Command::spawn), or if no
    /// place for its decoys was found.
    pub fn prove(&self) -> Result<Proof, Error> {
        let start = Instant::now();
        let (checks, notes) = platform::prove(self, ProbeScope::UserMounts)?;
        let mut enforcement = Enforcement::new(self.plan());
        enforcement.started(notes);
        Ok(Proof {
            checks,
            millis: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            enforcement,
        })
    }
}

impl Proof {
    /// Returns `true` if every outcome is as the plan says. A proof with an unclear outcome does
    /// not hold.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.ok)
    }

    /// Returns the number of checks, the mechanism, the time and the outcome, in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let failures = self.failures().count();
        let is_listed = |check: &&ProofCheck| check.ok && check.verdict() == "listed";
        let listed = self.checks.iter().filter(is_listed).count();
        let outcome = match (failures, listed) {
            (0, 0) => "all hold".to_owned(),
            (0, _) => format!("all as the plan says, {listed} of them listed as open"),
            _ => format!("{failures} not as the plan says"),
        };
        format!(
            "{} checks under {} in {} ms: {outcome}",
            self.checks.len(),
            self.enforcement.backend,
            self.millis
        )
    }

    /// Returns the checks with another outcome than the plan says.
    pub fn failures(&self) -> impl Iterator<Item = &ProofCheck> {
        self.checks.iter().filter(|check| !check.ok)
    }
}

impl ProofCheck {
    /// Compares the observed outcome with the expected one.
    #[must_use]
    pub fn new(
        name: &'static str,
        promise: Promise,
        expected: Expected,
        seen: Observation,
    ) -> ProofCheck {
        let ok = match (expected, seen) {
            (Expected::Refused, Observation::Refused)
            | (Expected::Allowed, Observation::Worked)
            | (Expected::Listed, Observation::Refused | Observation::Worked) => true,
            (Expected::Refused, Observation::Worked)
            | (Expected::Allowed, Observation::Refused)
            | (_, Observation::Unclear) => false,
        };
        ProofCheck {
            name,
            promise,
            expected,
            seen,
            ok,
        }
    }

    /// Returns the verdict in one word.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match (self.ok, self.expected, self.seen) {
            (true, Expected::Listed, Observation::Worked) => "listed",
            (true, _, _) => "holds",
            (false, _, Observation::Unclear) => "UNCLEAR",
            (false, _, Observation::Refused | Observation::Worked) => "FAILS",
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            writeln!(f, "{check}")?;
        }
        writeln!(f, "{}", self.summary())
    }
}

impl fmt::Display for ProofCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<9} {:<16} {:<38} {}",
            self.verdict(),
            self.promise.name(),
            self.name,
            self.seen
        )
    }
}

sandbox_names::display!(Expected = pad word());

sandbox_names::display!(Observation = pad word());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::plan::{Plan, Requirement};
    use crate::policy::Policy;
    use crate::support::{HostSpec, Support};

    fn proof(checks: Vec<ProofCheck>) -> Proof {
        let support = Support::assume(HostSpec::default());
        let policy = Policy::builder().build().unwrap();
        let plan = Plan::with_mechanism(&policy, &support, Requirement::BestEffort, Backend::None)
            .unwrap();
        Proof {
            checks,
            millis: 3,
            enforcement: Enforcement::new(&plan),
        }
    }

    #[test]
    fn one_failure_is_enough() {
        let check =
            |promise, expected, seen| ProofCheck::new("try something", promise, expected, seen);
        let mut checks = vec![
            check(
                Promise::ReadOutside,
                Expected::Refused,
                Observation::Refused,
            ),
            check(
                Promise::WriteOutside,
                Expected::Allowed,
                Observation::Worked,
            ),
            check(Promise::Metadata, Expected::Listed, Observation::Worked),
        ];
        let good = proof(checks.clone());
        assert!(good.holds());
        insta::assert_snapshot!(good, @r#"
        holds     read outside     try something                          refused
        holds     write outside    try something                          worked
        listed    metadata         try something                          worked
        3 checks under none in 3 ms: all as the plan says, 1 of them listed as open
        "#);
        checks.push(check(
            Promise::Network,
            Expected::Refused,
            Observation::Worked,
        ));
        checks.push(check(
            Promise::Metadata,
            Expected::Listed,
            Observation::Unclear,
        ));
        let bad = proof(checks);
        assert!(!bad.holds());
        assert_eq!(bad.failures().count(), 2);
        insta::assert_snapshot!(bad, @r#"
        holds     read outside     try something                          refused
        holds     write outside    try something                          worked
        listed    metadata         try something                          worked
        FAILS     network          try something                          worked
        UNCLEAR   metadata         try something                          unclear
        5 checks under none in 3 ms: 2 not as the plan says
        "#);
        // A proof without checks proves nothing.
        assert!(!proof(Vec::new()).holds());
    }
}
