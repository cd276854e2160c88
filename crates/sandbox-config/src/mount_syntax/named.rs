//! Named directories, as `zones` and `paths` list them: one shape with two spellings.

use crate::grant::mount::{DeclaredMode, Mode, Mount};
use crate::grant::verdict::{MountApproval, Operation, Verdict};
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules;
use crate::mount_syntax::file_rules;
use crate::mount_syntax::mount_table::{MountEntry, finish, name_problem};
use crate::mount_syntax::path_scope::{
    PathScope, ask_about_variable, is_outside, resolve_mount_path,
};
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::{self, MappingFields, Reports};
use crate::syntax::key_table::KeyTable;
use crate::syntax::word::ConfigWord;
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue};

/// How a front-end spells a named directory, and the defaults of an empty one.
#[derive(Debug)]
pub(crate) struct NamedMountSyntax {
    pub(crate) noun: &'static str,
    /// `sandbox.zones`
    pub(crate) section: &'static str,
    pub(crate) keys: &'static KeyTable,
    /// The key of the host directory.
    pub(crate) path_key: &'static str,
    pub(crate) mode: Mode,
    pub(crate) approval: MountApproval,
}

/// Read the mapping from names to directories.
pub(crate) fn read(
    context: &mut LoadContext<'_>,
    node: &YamlNode,
    form: &NamedMountSyntax,
    reach: PathScope<'_>,
) -> Vec<Mount> {
    let Some(entries) = fields::free_mapping(&mut context.reports, node, form.section) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for entry in entries {
        match name_problem(&entry.key, form.noun) {
            Some(problem) => context.report(problem.at(&entry.key_span)),
            None => rows.extend(row(context, entry, form, reach)),
        }
    }
    finish(&mut context.reports, rows, form.noun)
}

fn row(
    context: &mut LoadContext<'_>,
    entry: &YamlEntry,
    form: &NamedMountSyntax,
    reach: PathScope<'_>,
) -> Option<MountEntry> {
    let name = &entry.key;
    let path = format!("{}.{name}", form.section);
    let named = context.open(&entry.node, &path, form.keys)?;
    let declared = named.word(&mut context.reports, "mode", DeclaredMode::WORDS);
    let mode = declared.map_or(form.mode, DeclaredMode::access);
    let mode_origin = named
        .get("mode")
        .map_or(entry.key_span.origin(), |entry| entry.node.span.origin());
    let suffixes = named
        .get("suffixes")
        .and_then(|entry| suffixes(&mut context.reports, &entry.node, &named.dotted("suffixes")));
    let max_file_bytes = named.count(&mut context.reports, "max_file_bytes");
    let approval = approval(context, &named, form.approval);
    let file_rules = file_rules::read(context, &named);
    let key = form.path_key;
    let path_entry = named.get(key)?;
    let text = fields::string(&mut context.reports, &path_entry.node, &named.dotted(key))?;
    let span = &path_entry.node.span;
    let host = resolve_mount_path(context, text, reach, form.noun);
    let host = context.reports.take_at(host, span)?;
    // Below a root, the file that names the root is responsible for the path.
    let said_by = match reach {
        PathScope::Below(below) => below.at.as_ref(),
        PathScope::Anywhere => Some(span),
    };
    let name_of_key = named.dotted(key);
    let outside = match said_by {
        Some(said_by) => is_outside(context, &host, mode, &name_of_key, said_by),
        None => {
            ask_about_variable(context, &host, &name_of_key, span);
            false
        }
    };
    Some(MountEntry {
        mount: Mount {
            create: !outside,
            staged: declared == Some(DeclaredMode::Staged),
            suffixes,
            max_file_bytes,
            approval,
            file_rules,
            mode_origin,
            ..host.mount(format!("/{name}"), mode, entry.key_span.origin())
        },
        shown: name.clone(),
        named_at: entry.key_span.clone(),
        path_at: span.clone(),
    })
}

/// `approval: {read, write, delete}` in the project file. Saying less than the front-end's own
/// answer to deleting is a widening.
fn approval(
    context: &mut LoadContext<'_>,
    named: &MappingFields<'_>,
    unstated: MountApproval,
) -> MountApproval {
    let mut approval = unstated;
    for (operation, verdict, entry) in stated(&mut context.reports, named) {
        let allowed = match (operation, verdict) {
            (Operation::Delete, Verdict::Allow) if unstated.verdict(operation) > verdict => context
                .agreed(
                    &trust_rules::DELETE,
                    &format!("{}.approval.delete", named.path),
                    "preApproved",
                    &entry.node.span,
                ),
            (Operation::Read | Operation::Write | Operation::Delete, _) => true,
        };
        approval.set_verdict(operation, if allowed { verdict } else { Verdict::Ask });
    }
    approval
}

/// The verdicts that an `approval` key states; for workers, too.
pub(crate) fn stated<'n>(
    reports: &mut Reports,
    named: &MappingFields<'n>,
) -> Vec<(Operation, Verdict, &'n YamlEntry)> {
    let Some(approval) = named.section(reports, "approval", &keys::ZONE_APPROVAL) else {
        return Vec::new();
    };
    Operation::WORDS
        .iter()
        .filter_map(|(key, operation)| {
            let verdict = approval.word(reports, key, Verdict::WORDS)?;
            Some((*operation, verdict, approval.get(key)?))
        })
        .collect()
}

/// The suffixes of a worker are compared with the project's, each with each.
const MAX_SUFFIXES: usize = 256;

/// A list of suffixes, lower case; for workers, too.
pub(crate) fn suffixes(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<Vec<String>> {
    let list = fields::strings(reports, node, path)?;
    let list = fields::at_most(reports, node, path, &list, MAX_SUFFIXES);
    if matches!(&node.value, YamlValue::List(items) if items.is_empty()) {
        let message = format!("`{path}` is empty: no file would do");
        let mistake = DiagnosticCode::BadValue.at(&node.span, message);
        reports.add(mistake.help("leave it out to allow every suffix"));
    }
    for (suffix, node) in list {
        if !suffix.starts_with('.') || suffix.len() < 2 || suffix.contains('/') {
            reports.add(
                DiagnosticCode::BadValue
                    .at(&node.span, format!("`{suffix}` is not a suffix"))
                    .help(format!(
                        "write `.{}`",
                        suffix.trim_start_matches(['.', '*'])
                    )),
            );
        }
    }
    Some(
        list.iter()
            .map(|(suffix, _)| suffix.to_lowercase())
            .collect(),
    )
}
