//! `network: false | true | { allow: [host, "*.host", "host:port"] }`, in project and worker files.

use crate::grant::network::NetworkAccess;
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::{self, MappingFields, Reports};
use crate::syntax::yaml::{YamlEntry, YamlValue};
use sandbox_network::HostPattern;

/// More hosts than a person reviews; also keeps the meet of two lists small.
const MAX_HOSTS: usize = 256;

/// Reads the key. `None` if a mistake has been noted.
pub(crate) fn network(reports: &mut Reports, entry: &YamlEntry) -> Option<NetworkAccess> {
    match &entry.node.value {
        YamlValue::Map(_) => hosts(reports, entry),
        YamlValue::Bool(on) => Some(if *on {
            NetworkAccess::Unrestricted
        } else {
            NetworkAccess::Denied
        }),
        YamlValue::List(_) => {
            reports.add(
                fields::wrong_type(&entry.node, "network", "true, false or a mapping")
                    .help("write `network: { allow: […] }`"),
            );
            None
        }
        _ => {
            fields::boolean(reports, &entry.node, "network");
            None
        }
    }
}

fn hosts(reports: &mut Reports, entry: &YamlEntry) -> Option<NetworkAccess> {
    let section = MappingFields::open(reports, &entry.node, "network", &keys::NETWORK)?;
    if section.get("allow").is_none() {
        section.missing(reports, "allow", "`network: false` allows no host");
    }
    let list = section.strings(reports, "allow")?;
    if list.is_empty() {
        let nobody = Diagnostic::warning(
            DiagnosticCode::NoEffect,
            "`network.allow` is empty, so no host is allowed",
        )
        .at(&entry.node.span);
        reports.add(nobody.help("`network: false` says so"));
    }
    if list.len() > MAX_HOSTS {
        let message = format!("`network.allow` names more than {MAX_HOSTS} hosts");
        reports.add(Diagnostic::error(DiagnosticCode::TooComplex, message).at(&entry.node.span));
        return None;
    }
    let mut patterns = Vec::new();
    let mut all_read = true;
    for (text, node) in list {
        match HostPattern::parse(text) {
            Ok(pattern) => patterns.push(pattern),
            Err(problem) => {
                all_read = false;
                let message = format!("`{text}` cannot be allowed: {problem}");
                let bad = Diagnostic::error(DiagnosticCode::BadValue, message).at(&node.span);
                reports.add(bad.help(problem.help()));
            }
        }
    }
    all_read.then(|| NetworkAccess::hosts(patterns))
}

/// `network` of a project file: anything but off needs a yes.
pub(crate) fn project_network(
    context: &mut LoadContext<'_>,
    entry: Option<&YamlEntry>,
) -> NetworkAccess {
    let Some(entry) = entry else {
        return NetworkAccess::Denied;
    };
    let wanted = network(&mut context.reports, entry).unwrap_or(NetworkAccess::Denied);
    let value = match &wanted {
        NetworkAccess::Denied => return wanted,
        NetworkAccess::Unrestricted => "true".to_owned(),
        NetworkAccess::Hosts(_) => wanted.to_string(),
    };
    if context.agreed(&trust_rules::NETWORK, "network", &value, &entry.node.span) {
        wanted
    } else {
        NetworkAccess::Denied
    }
}
