//! The attempts that the commands of a run were refused, from its log.

use std::path::Path;

use os_sandbox::{Contact, ContactOutcome, Denial};
use sandbox_network::HostPattern;

use super::calls::{CallReader, LogItem};
use super::unreadable;
use crate::exit::CliError;
use crate::state::stored_runs::StoredRuns;

/// Returns the patterns of the hosts that no rule named in the last run of the project, in the order
/// of the attempts. A host that was only looked up has no port.
pub(crate) fn unlisted_hosts(state: &Path, project: &Path) -> Result<Vec<HostPattern>, CliError> {
    let runs = StoredRuns::read(state)?;
    let is_of_project = |project_of: &Path| project_of == project;
    let mut newest = runs.newest_first();
    let last = newest.find(|run| {
        run.about()
            .is_some_and(|about| is_of_project(&about.project))
    });
    let Some(run) = last else {
        return Ok(Vec::new());
    };
    let failed = |error| unreadable(run, &error);
    let mut reader = CallReader::new(run).map_err(failed)?;
    let mut hosts: Vec<HostPattern> = Vec::new();
    while let Some(item) = reader.next(false).map_err(failed)? {
        let LogItem::Call(call) = item else { continue };
        let contacts = call
            .execution
            .map(|execution| execution["enforcement"]["contacts"].clone());
        let contacts: Option<Vec<Contact>> =
            contacts.and_then(|contacts| serde_json::from_value(contacts).ok());
        hosts.extend(contacts.iter().flatten().filter_map(pattern));
    }
    let all = hosts.clone();
    // A lookup says less than the connection that followed, and nothing is listed twice.
    let is_narrower = |one: &HostPattern, other: &HostPattern| other != one && other.is_within(one);
    hosts.retain(|one| !all.iter().any(|other| is_narrower(one, other)));
    let mut seen = Vec::new();
    hosts.retain(|one| {
        let is_new = !seen.contains(one);
        seen.push(one.clone());
        is_new
    });
    Ok(hosts)
}

/// Returns the refusals of a run, each once: `last`, or the beginning of its name or id.
pub(crate) fn denials_of_run(state: &Path, name: &str) -> Result<Vec<Denial>, CliError> {
    let runs = StoredRuns::read(state)?;
    let run = runs.find(name)?;
    let failed = |error| unreadable(run, &error);
    let mut reader = CallReader::new(run).map_err(failed)?;
    let mut denials: Vec<Denial> = Vec::new();
    while let Some(item) = reader.next(false).map_err(failed)? {
        let LogItem::Call(call) = item else { continue };
        let Some(execution) = call.execution else {
            continue;
        };
        let receipt = &execution["enforcement"];
        // The receipt of a node has that of the command inside.
        let inside = receipt.get("inside").unwrap_or(receipt);
        let found = serde_json::from_value::<Vec<Denial>>(inside["denials"].clone());
        for denial in found.into_iter().flatten() {
            if !denials.contains(&denial) {
                denials.push(denial);
            }
        }
    }
    Ok(denials)
}

/// Returns the pattern that would have let a refused contact pass. `None` of another outcome, and of
/// a refusal that another pattern would not lift.
fn pattern(contact: &Contact) -> Option<HostPattern> {
    if !contact.kind.is_of_host()
        || contact.outcome != ContactOutcome::Refused
        || contact.rule.is_some()
    {
        return None;
    }
    let host = match contact.host.contains(':') {
        true => format!("[{}]", contact.host),
        false => contact.host.clone(),
    };
    let text = match contact.port {
        0 => host,
        port => format!("{host}:{port}"),
    };
    HostPattern::parse(&text).ok()
}
