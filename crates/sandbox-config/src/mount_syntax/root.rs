//! `sandbox.root` alone: one directory of the project as the whole tree. It must be there: a
//! program's root is its content, not a place for results.

use std::path::Path;

use crate::grant::mount::{Mode, Mount};
use crate::loading::load_context::LoadContext;
use crate::mount_syntax::path_scope::{
    BaseDir, HostPath, PathScope, ScopeMessages, is_outside, resolve_host_path,
};
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::{MappingFields, Reports};
use crate::syntax::text::ConfigOrigin;

static BOUNDS: ScopeMessages = ScopeMessages {
    leaves: "the project",
    leaves_help: "`root` is below the project directory; for other places use `mounts:` or `paths:`",
    link_help: "the way to `root` has no links: name the directory itself",
};

/// Read `sandbox.root` and `sandbox.readonly`. `whole_by_default`: without `root` it is the whole
/// project directory.
pub(crate) fn read(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'_>,
    whole_by_default: bool,
) -> Option<Mount> {
    let readonly = section.boolean(&mut context.reports, "readonly");
    let mode = match readonly {
        Some(true) => Mode::ReadOnly,
        Some(false) | None => Mode::ReadWrite,
    };
    let Some(entry) = section.get("root") else {
        if whole_by_default {
            return whole_directory(&mut context.reports, context.dir, mode);
        }
        let message = "`sandbox.readonly` stands beside `root`, and there is none";
        let missing = DiagnosticCode::FrontEnd
            .error(message)
            .help("name the directory: `root: .` is the whole project");
        return context.refuse(match section.get("readonly") {
            Some(entry) => missing.at(&entry.key_span),
            None => missing.at(section.span),
        });
    };
    let span = &entry.node.span;
    let text = section.string(&mut context.reports, "root")?;
    let below = BaseDir {
        dir: context.dir.to_path_buf(),
        at: None,
        bounds: &BOUNDS,
    };
    let host = resolve_host_path(context, text, PathScope::Below(&below), "project's root");
    let host = context.reports.take_at(host, span)?;
    if !host.exists() {
        return context.refuse(host.missing(&format!("`sandbox.root: {text}`"), span));
    }
    is_outside(context, &host, mode, "sandbox.root", span);
    let mode_origin = section
        .get("readonly")
        .map_or(span.origin(), |entry| entry.node.span.origin());
    Some(mount(host, mode, span.origin(), mode_origin))
}

/// Returns the mount of the whole directory, without a key.
pub(crate) fn whole_directory(reports: &mut Reports, dir: &Path, mode: Mode) -> Option<Mount> {
    if dir.parent().is_none() {
        let message = "the root of the file system cannot be a project";
        return reports.refuse(
            DiagnosticCode::HostPath
                .error(message)
                .help("start in a directory of your own, or use -C DIR"),
        );
    }
    let host = HostPath {
        path: dir.to_path_buf(),
        anchor: dir.to_path_buf(),
        through_link: false,
        variable: None,
    };
    Some(mount(
        host,
        mode,
        ConfigOrigin::built_in(),
        ConfigOrigin::built_in(),
    ))
}

fn mount(host: HostPath, mode: Mode, origin: ConfigOrigin, mode_origin: ConfigOrigin) -> Mount {
    Mount {
        mode_origin,
        ..host.mount("/".to_owned(), mode, origin)
    }
}
