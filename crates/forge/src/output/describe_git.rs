//! The repositories of a grant and the credentials for them, written out: in words for people and
//! as JSON. Values of variables are never included.

use sandbox_config::{Grant, Project, Repository};
use serde_json::{Value, json};

use crate::output::describe::origin_json;

/// Each repository, name and value.
pub(crate) fn repositories(grant: &Grant) -> Vec<(&'static str, String)> {
    let mut rows: Vec<(&'static str, String)> = grant
        .repositories()
        .iter()
        .map(|one| {
            let place = match one.address() == one.name() {
                true => String::new(),
                false => format!(", {}", one.address()),
            };
            let text = format!("{} {}{place} ({})", one.name(), one.access(), one.origin());
            ("repository", text)
        })
        .collect();
    if !rows.is_empty() && grant.allows_executable_config() {
        let text = "what programs obey or servers run may be staged, too";
        rows.push(("staging", text.to_owned()));
    }
    rows
}

/// Returns each server with the source of its credentials.
pub(crate) fn credentials(project: &Project) -> Vec<(&'static str, String)> {
    let git = project.git();
    let mut rows: Vec<(&'static str, String)> = git
        .credentials()
        .iter()
        .map(|one| {
            let text = format!("{}: {} ({})", one.server(), one.source(), one.origin());
            ("credential", text)
        })
        .collect();
    for server in git.untrusted() {
        let text = format!("{server}: the project's own word, and you have not agreed to it");
        rows.push(("credential", text));
    }
    rows
}

/// All in a few words: `octo/reports rw, octo/style ro`.
pub(crate) fn in_a_line(grant: &Grant) -> Option<String> {
    let list: Vec<String> = grant
        .repositories()
        .iter()
        .map(|one| format!("{} {}", one.name(), one.access()))
        .collect();
    (!list.is_empty()).then(|| list.join(", "))
}

/// The repositories for programs.
pub(crate) fn repositories_json(grant: &Grant) -> Value {
    let row = |one: &Repository| {
        json!({
            "name": one.name(),
            "address": one.address(),
            "access": one.access().to_string(),
            "origin": origin_json(one.origin()),
        })
    };
    grant.repositories().iter().map(row).collect()
}

/// The servers for programs.
pub(crate) fn credentials_json(project: &Project) -> Value {
    let rows = project.git().credentials().iter().map(|one| {
        json!({
            "server": one.server(),
            "source": one.source().to_string(),
            "origin": origin_json(one.origin()),
        })
    });
    rows.collect()
}
