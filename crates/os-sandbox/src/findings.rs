//! Facts about one command that its mechanism learns after planning: at the start, and after the
//! end.

use crate::denials::Denials;
use crate::enforcement::{EndedProcesses, HiddenPath};
use crate::error::{Error, ErrorKind};
use crate::git_config::GitConfigChange;
use crate::host_proxy::Contacts;
use crate::plan::Plan;
use crate::promise::Promise;
use crate::quarantine::Quarantined;
use std::path::Path;

/// Bound on the names that a receipt lists after a scan. `more_quarantined` counts the others.
const MAX_QUARANTINED_LISTED: usize = 1_000;

/// Facts that a mechanism learns at the start of a command. Each is about one promise.
#[derive(Debug, Default)]
pub struct StartNotes {
    /// Reasons why a promise is kept in part only.
    pub degraded: Vec<(Promise, String)>,
    /// Remarks that weaken nothing.
    pub annotations: Vec<(Promise, String)>,
    /// The first of the paths that are hidden.
    pub hidden: Vec<HiddenPath>,
}

/// Facts that a mechanism learns after the end of a command.
#[derive(Debug, Default)]
pub struct Findings {
    /// Protected names that were moved away, or could not be. The first are listed.
    pub quarantined: Vec<Quarantined>,
    /// The number of those that are not listed.
    pub more_quarantined: u64,
    /// The first name that could not be moved, with the reason, and the number of all.
    pub left_in_place: Option<(String, u64)>,
    /// Changes at an engine that were not copied back.
    pub not_copied: Vec<String>,
    /// Changes of repositories' configuration that git asked for.
    pub git_configs: Vec<GitConfigChange>,
    /// Promises that were kept in part only, with the reasons.
    pub degraded: Vec<(Promise, String)>,
    /// Attempts to reach other hosts.
    pub unreachable: u64,
    /// Processes that were ended with the command.
    pub ended_processes: Option<EndedProcesses>,
    /// Attempts to reach hosts by a proxy.
    pub contacts: Contacts,
    /// Attempts that the policy refused. `None` without reports.
    pub denials: Option<Denials>,
    /// The reason why the command's result cannot be trusted.
    pub failed: Option<String>,
}

impl Findings {
    /// Marks the scan as incomplete: the command fails, and the receipt says so.
    pub(crate) fn fail(&mut self, reason: &str) {
        let reason = crate::escape::visible(reason);
        let note = format!("not looked for everywhere after the end: {reason}");
        self.degraded.push((Promise::ProtectedNames, note));
        self.failed.get_or_insert(reason);
    }

    /// Returns the error that replaces the command's result.
    pub(crate) fn failure(&self, plan: &Plan) -> Option<Error> {
        let Some(reason) = self.failed.as_ref() else {
            return plan.insists(&self.degraded, true);
        };
        let text = format!(
            "the command ended, and protected names that it made could not be looked for: {reason}"
        );
        Some(ErrorKind::Unguarded.error(text).with_hint(
            "inspect the writable directories before anything uses them; what the command changed is \
             still there",
        ))
    }

    /// Adds the findings of a later scan.
    pub(crate) fn followed_by(mut self, later: Findings) -> Findings {
        for found in later.quarantined {
            self.add_quarantined(found);
        }
        self.more_quarantined += later.more_quarantined;
        for (promise, reason) in later.degraded {
            self.note(promise, &reason);
        }
        self.failed = later.failed.or(self.failed);
        self
    }

    /// Lists a name that was moved away, or counts it.
    pub(crate) fn add_quarantined(&mut self, found: Quarantined) {
        match self.quarantined.len() < MAX_QUARANTINED_LISTED {
            true => self.quarantined.push(found),
            false => self.more_quarantined += 1,
        }
    }

    /// Counts a name that could not be moved.
    pub(crate) fn note_left(&mut self, path: &Path, why: &str) {
        let first = || (format!("{} could not be moved: {why}", path.display()), 0);
        self.left_in_place.get_or_insert_with(first).1 += 1;
    }

    /// Notes the names that could not be moved: one reason for all of them.
    pub(crate) fn note_all_left(&mut self) {
        match self.left_in_place.take() {
            None => {}
            Some((first, 1)) => self.note(Promise::ProtectedNames, &first),
            Some((first, count)) => {
                let reason = format!("{first}; and {} others", count - 1);
                self.note(Promise::ProtectedNames, &reason);
            }
        }
    }

    /// Adds a reason once. Of reasons that a command can cause many times, only the first few are
    /// listed.
    pub(crate) fn note(&mut self, promise: Promise, reason: &str) {
        const MAX: usize = 8;
        let reason = crate::escape::visible(reason);
        let known = self.degraded.iter().any(|(_, known)| *known == reason);
        if self.degraded.len() < MAX && !known {
            self.degraded.push((promise, reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostSpec, Policy, Requirement, Support};

    /// The caller may run one command only, and a directory that cannot be listed refuses no other.
    #[test]
    fn an_incomplete_scan_announces_nothing_about_further_commands() {
        let host = HostSpec {
            landlock_abi: 7,
            seccomp: true,
            ..HostSpec::default()
        };
        let policy = Policy::builder().build().unwrap();
        let plan = Plan::new(&policy, &Support::assume(host), Requirement::Enforce).unwrap();
        let mut findings = Findings::default();
        findings.fail("/w/a cannot be listed");
        let error = findings.failure(&plan).unwrap();
        assert!(
            error.to_string().contains("/w/a cannot be listed"),
            "{error}"
        );
        let hint = error.hint().unwrap();
        assert!(!hint.contains("next command"), "{hint}");
        assert!(hint.contains("inspect the writable directories"), "{hint}");
    }
}
