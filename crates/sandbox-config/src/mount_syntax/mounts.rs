//! `sandbox.mounts`: a list of directories, each with its path in the tree. A target is `/`,
//! `/name`, or a path below another mount: a part of that mount with rights of its own, or another
//! directory that covers the mount's own there.

use crate::grant::mount::{Mode, Mount};
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::mount_syntax::mount_table::{MountEntry, finish};
use crate::mount_syntax::path_scope::{PathScope, is_outside, resolve_mount_path};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields;
use crate::syntax::yaml::YamlNode;

/// Read `sandbox.mounts`.
pub(crate) fn read(context: &mut LoadContext<'_>, node: &YamlNode) -> Vec<Mount> {
    let Some(items) = fields::list(&mut context.reports, node, "sandbox.mounts") else {
        return Vec::new();
    };
    let rows: Vec<MountEntry> = items
        .iter()
        .enumerate()
        .filter_map(|(index, item)| row(context, item, index))
        .collect();
    finish(&mut context.reports, rows, "mount")
}

fn row(context: &mut LoadContext<'_>, item: &YamlNode, index: usize) -> Option<MountEntry> {
    let path = format!("sandbox.mounts[{index}]");
    let fields = context.open(item, &path, &keys::MOUNT)?;
    let mode = match fields.boolean(&mut context.reports, "readonly") {
        Some(true) => Mode::ReadOnly,
        Some(false) | None => Mode::ReadWrite,
    };
    let source = fields.string(&mut context.reports, "source");
    let target = fields.string(&mut context.reports, "target");
    let (source_at, target_at) = (fields.get("source")?, fields.get("target")?);
    let target = target.and_then(|text| {
        let target = normal_target(text);
        context.reports.take_at(target, &target_at.node.span)
    });
    let source = source?;
    let span = &source_at.node.span;
    let host = resolve_mount_path(context, source, PathScope::Anywhere, "mount");
    let host = context.reports.take_at(host, span)?;
    let target = target?;
    // By target, which does not change when the list is sorted.
    let key = format!("sandbox.mounts[{target}].source");
    let outside = is_outside(context, &host, mode, &key, span);
    if !host.exists() && !outside {
        return context.refuse(host.missing(&format!("`{source}`"), span));
    }
    let mode_origin = fields
        .get("readonly")
        .map_or(span.origin(), |entry| entry.node.span.origin());
    Some(MountEntry {
        shown: target.clone(),
        named_at: target_at.node.span.clone(),
        path_at: span.clone(),
        mount: Mount {
            mode_origin,
            ..host.mount(target, mode, span.origin())
        },
    })
}

/// `/data/` is `/data`; `..` and the like have no place in a target.
fn normal_target(text: &str) -> Result<String, Box<Diagnostic>> {
    let bad = |message: String, help: &str| {
        let problem = DiagnosticCode::MountName.error(message).help(help);
        Err(Box::new(problem))
    };
    let Some(rest) = text.strip_prefix('/') else {
        return bad(
            format!("the target `{text}` does not start with `/`"),
            &format!("write `/{}`", text.trim_start_matches("./")),
        );
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.is_empty() {
        return Ok("/".to_owned());
    }
    match rest.split('/').find(|name| !is_component(name)) {
        None => Ok(format!("/{rest}")),
        Some(name) => bad(
            format!("`{name}` cannot be a part of a target"),
            "a target is `/`, `/name`, or a path below one of them, without `..`, `*` and control characters",
        ),
    }
}

/// Patterns and escapes would make one path represent others.
pub(crate) fn is_component(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && name.len() <= 255
        && name.trim() == name
        && !name
            .chars()
            .any(|c| c.is_control() || matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\'))
}
