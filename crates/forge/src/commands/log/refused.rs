//! The attempts that the commands of a run were refused, from its log.

use std::collections::BTreeSet;
use std::path::Path;

use os_sandbox::{Contact, ContactOutcome, Denial};
use sandbox_network::HostPattern;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::calls::{CallReader, LogItem, LoggedCall};
use super::unreadable;
use crate::exit::CliError;
use crate::setup::contact_patterns::{pattern, pattern_of_address};
use crate::state::stored_runs::{StoredRun, StoredRuns};

/// Bound on the denials of one run.
const MAX_DENIALS: usize = 1_000;

/// The attempts that the commands of one run were refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedAttempts {
    /// The patterns of the hosts that no rule named, in the order of the attempts. A host that was
    /// only looked up has no port.
    pub(crate) hosts: Vec<HostPattern>,
    /// The patterns of addresses in other networks than the internet, to which allowed names led, each
    /// with the name.
    pub(crate) addresses: BTreeSet<(HostPattern, String)>,
    /// The connections that were refused or failed, of which the first are listed.
    pub(crate) contacts: Vec<Contact>,
    /// Each once.
    pub(crate) denials: Vec<Denial>,
    /// Denials of commands of workers, which are among `denials`.
    pub(crate) of_workers: Vec<Denial>,
    /// `true` if more was refused than is listed: a command reports a bounded number, and so does this.
    pub(crate) more: bool,
    /// Number of calls that did not run, because a rule or a person stopped them.
    pub(crate) denied_calls: u64,
    /// `true` if a command ran without reports about reads.
    pub(crate) lacks_reads: bool,
    /// `true` if the log has only parts of what was refused: a line has a greatest length.
    pub(crate) is_cut: bool,
}

/// The sentence about a run with an incomplete record of its refusals.
pub(crate) const CUT_RECORD: &str =
    "the record of this run was cut: more was refused than a line of the log holds";

impl RefusedAttempts {
    /// Reads those of the last run of a project; empty without a run.
    pub(crate) fn of_last_run(state: &Path, project: &Path) -> Result<Self, CliError> {
        let runs = StoredRuns::read(state)?;
        match runs.of_project(project).find(|run| !run.is_act()) {
            Some(run) => Self::read(run),
            None => Ok(Self::default()),
        }
    }

    /// Reads those of a run: `last` of the project, or the beginning of its name or id.
    pub(crate) fn of_run(state: &Path, name: &str, project: &Path) -> Result<Self, CliError> {
        Self::read(StoredRuns::read(state)?.find(name, project)?)
    }

    fn read(run: &StoredRun) -> Result<Self, CliError> {
        let failed = |error| unreadable(run, &error);
        let mut reader = CallReader::new(run).map_err(failed)?;
        let mut refused = Self::default();
        while let Some(item) = reader.next(false).map_err(failed)? {
            if let LogItem::Call(call) = item {
                refused.add(&call);
            }
        }
        refused.hosts = distinct(std::mem::take(&mut refused.hosts));
        Ok(refused)
    }

    /// Returns the elements of a list that can be read, and notes that others were cut.
    fn read_list<T: DeserializeOwned>(&mut self, list: &Value) -> Vec<T> {
        self.is_cut |= is_cut(list);
        let elements = list.as_array().into_iter().flatten();
        let read = elements.map(|one| T::deserialize(one).ok());
        let read: Vec<Option<T>> = read.collect();
        self.is_cut |= read.iter().any(Option::is_none);
        read.into_iter().flatten().collect()
    }

    fn add(&mut self, call: &LoggedCall) {
        self.denied_calls += u64::from(call.is_denied());
        let Some(execution) = &call.execution else {
            return;
        };
        let receipt = &execution["enforcement"];
        let contacts: Vec<Contact> = self.read_list(&receipt["contacts"]);
        self.hosts.extend(contacts.iter().filter_map(pattern));
        self.addresses
            .extend(contacts.iter().filter_map(pattern_of_address));
        let unconnected = contacts.into_iter();
        let unconnected = unconnected.filter(|one| one.outcome != ContactOutcome::Connected);
        let room = MAX_DENIALS.saturating_sub(self.contacts.len());
        self.contacts.extend(unconnected.take(room));
        // The receipt of a node has that of the command inside.
        let inside = receipt.get("inside").unwrap_or(receipt);
        self.more |= inside["more_denials"].as_bool().unwrap_or(false);
        self.more |= receipt["more_contacts"].as_u64() > Some(0);
        // A command that did not start has no receipt.
        self.lacks_reads |= inside.get("backend").is_some() && inside.get("touched").is_none();
        self.is_cut |= is_cut(receipt) || is_cut(inside);
        let found: Vec<Denial> = self.read_list(&inside["denials"]);
        let is_of_worker = !call.workers().is_empty();
        for denial in found {
            if self.denials.contains(&denial) {
                continue;
            }
            if self.denials.len() == MAX_DENIALS {
                self.more = true;
                return;
            }
            if is_of_worker {
                self.of_workers.push(denial.clone());
            }
            self.denials.push(denial);
        }
    }
}

/// Returns `true` for the object that replaces a value in a line that would be too long.
fn is_cut(value: &Value) -> bool {
    value.get("cut").is_some()
}

/// Returns the hosts without those that are listed twice, and without lookups that a connection
/// followed, which says more.
fn distinct(mut hosts: Vec<HostPattern>) -> Vec<HostPattern> {
    let all = hosts.clone();
    let is_narrower = |one: &HostPattern, other: &HostPattern| other != one && other.is_within(one);
    hosts.retain(|one| !all.iter().any(|other| is_narrower(one, other)));
    let mut seen = Vec::new();
    hosts.retain(|one| {
        let is_new = !seen.contains(one);
        seen.push(one.clone());
        is_new
    });
    hosts
}
