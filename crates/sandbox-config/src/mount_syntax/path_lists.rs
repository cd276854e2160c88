//! `sandbox.read_paths` and `sandbox.write_paths`: two lists of directories, the ones to read and
//! the ones to write. The lists contain no names, so names follow from the paths alone: the last
//! component, `project` for the project directory itself, and for a writable directory inside a
//! readable one its path there (`read_paths: [.]` with `write_paths: [out]` is `/project`, and
//! `/project/out` writable).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::grant::mount::{Mode, Mount};
use crate::loading::load_context::LoadContext;
use crate::mount_syntax::mount_table::{MountEntry, finish, name_problem};
use crate::mount_syntax::mounts::is_component;
use crate::mount_syntax::path_scope::{HostPath, PathScope, is_outside, resolve_mount_path};
use crate::syntax::fields::MappingFields;
use crate::syntax::text::Span;

/// A listed directory, before it has a name.
struct ListedPath<'n> {
    text: &'n str,
    span: &'n Span,
    host: HostPath,
    outside: bool,
}

/// Read `sandbox.read_paths` and `sandbox.write_paths`.
pub(crate) fn read(context: &mut LoadContext<'_>, section: &MappingFields<'_>) -> Vec<Mount> {
    let readable = list(context, section, "read_paths", Mode::ReadOnly);
    let writable = list(context, section, "write_paths", Mode::ReadWrite);
    let mut rows = Vec::new();
    let mut targets: BTreeMap<PathBuf, String> = BTreeMap::new();
    for one in readable {
        if let Some(target) = own_target(context, &one) {
            targets.insert(one.host.path.clone(), target.clone());
            rows.push(row(one, target, Mode::ReadOnly));
        }
    }
    for one in writable {
        let target = match inner_target(&targets, &one.host.path) {
            Some(target) => Some(target),
            None => own_target(context, &one),
        };
        rows.extend(target.map(|target| row(one, target, Mode::ReadWrite)));
    }
    finish(&mut context.reports, rows, "path")
}

fn list<'n>(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'n>,
    key: &'static str,
    mode: Mode,
) -> Vec<ListedPath<'n>> {
    let texts = section
        .strings(&mut context.reports, key)
        .unwrap_or_default();
    let mut list = Vec::new();
    for (text, node) in texts {
        let span = &node.span;
        let host = resolve_mount_path(context, text, PathScope::Anywhere, "path");
        let Some(host) = context.reports.take_at(host, span) else {
            continue;
        };
        let item = format!("sandbox.{key}[{text}]");
        let outside = is_outside(context, &host, mode, &item, span);
        if mode == Mode::ReadOnly && !host.exists() && !outside {
            context.report(host.missing(&format!("`{text}`"), span));
            continue;
        }
        list.push(ListedPath {
            text,
            span,
            host,
            outside,
        });
    }
    list
}

/// `/name`, after the directory.
fn own_target(context: &mut LoadContext<'_>, one: &ListedPath<'_>) -> Option<String> {
    let name = if one.host.path == context.dir {
        "project".into()
    } else {
        one.host.path.file_name()?.to_string_lossy()
    };
    let Some(problem) = name_problem(&name, "path") else {
        return Some(format!("/{name}"));
    };
    let help = format!(
        "listed directories are named after themselves; give this one a name with `paths: {{ docs: {{ root: {} }} }}`",
        one.text
    );
    context.refuse(problem.at(one.span).note(help))
}

/// Its place in the nearest readable directory that holds it.
fn inner_target(targets: &BTreeMap<PathBuf, String>, host: &Path) -> Option<String> {
    let (outer, target) = host
        .ancestors()
        .skip(1)
        .find_map(|above| Some((above, targets.get(above)?)))?;
    let rest = host.strip_prefix(outer).ok()?.to_str()?;
    rest.split('/')
        .all(is_component)
        .then(|| format!("{target}/{rest}"))
}

fn row(one: ListedPath<'_>, target: String, mode: Mode) -> MountEntry {
    MountEntry {
        shown: one.text.to_owned(),
        named_at: one.span.clone(),
        path_at: one.span.clone(),
        mount: Mount {
            create: mode == Mode::ReadWrite && !one.outside,
            ..one.host.mount(target, mode, one.span.origin())
        },
    }
}
