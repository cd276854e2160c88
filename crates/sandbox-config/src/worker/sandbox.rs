//! The `sandbox` key of a worker: `none`, `inherit`, named zones, or a subtree. Which of the last two
//! a worker may write depends on the project, because only named directories have names.

use crate::grant::Grant;
use crate::grant::declaration::{Declaration, MountRequest, ZoneDeclaration};
use crate::grant::escalation::NO_DIRECTORIES;
use crate::grant::front_end::FrontEnd;
use crate::grant::mount::Mode;
use crate::grant::restrict::Restrict;
use crate::grant::verdict::{Operation, Verdict};
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules;
use crate::mount_syntax::named::{stated, suffixes};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::escape::yaml_text;
use crate::syntax::fields::{self, MappingFields, Reports};
use crate::syntax::text::Span;
use crate::syntax::word::ConfigWord;
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue};
use crate::worker::legacy_syntax::{self, LegacySandbox};

/// Read the `sandbox` key.
pub(crate) fn read(
    context: &mut LoadContext<'_>,
    entry: &YamlEntry,
    ceiling: &Grant,
    worker: &str,
) -> LegacySandbox {
    if !matches!(entry.node.value, YamlValue::Map(_)) {
        return word(context, entry).into();
    }
    let Some(section) = context.open(&entry.node, "sandbox", &keys::WORKER_SANDBOX) else {
        return Declaration::none().into();
    };
    let forms: Vec<&YamlEntry> = [
        "paths", "mounts", "zones", "restrict", "readonly", "rebase", "use", "approval",
    ]
    .into_iter()
    .filter_map(|key| section.get(key))
    .collect();
    match forms.as_slice() {
        [old, more @ ..] if matches!(old.key.as_str(), "paths" | "mounts") => match more.first() {
            None => legacy_syntax::read(context, old, ceiling),
            Some(other) => {
                let message = format!("`{}` is an old form and stands alone", old.key);
                context.report(
                    DiagnosticCode::FrontEnd
                        .at(&old.key_span, message)
                        .related(&other.key_span, format!("`{}` is here", other.key))
                        .help("keep the other one: the project says what there is"),
                );
                Declaration::none().into()
            }
        },
        _ => mapping(context, &section, ceiling, worker).into(),
    }
}

/// `none` or `inherit`.
fn word(context: &mut LoadContext<'_>, entry: &YamlEntry) -> Declaration {
    if let YamlValue::Str(_) = &entry.node.value {
        let words = [("none", true), ("inherit", false)];
        return match fields::word(&mut context.reports, &entry.node, "sandbox", &words) {
            Some(false) => Declaration::inherit(),
            Some(true) | None => Declaration::none(),
        };
    }
    let wrong = fields::wrong_type(&entry.node, "sandbox", "`none`, `inherit` or a mapping");
    context.report(match &entry.node.value {
        YamlValue::Null => wrong.help("write `sandbox: none` for a worker without files"),
        _ => wrong,
    });
    Declaration::none()
}

fn mapping(
    context: &mut LoadContext<'_>,
    section: &MappingFields<'_>,
    ceiling: &Grant,
    worker: &str,
) -> Declaration {
    let subtree = ["restrict", "readonly", "rebase", "use", "approval"]
        .into_iter()
        .find_map(|key| section.get(key));
    match (section.get("zones"), subtree) {
        // No zone is named; where nothing has a name, nothing is said.
        (None, None) => match ceiling.front() {
            FrontEnd::Zones => Declaration::none(),
            _ => Declaration::undeclared(),
        },
        (Some(zones), None) => {
            if let Some(problem) = misplaced_zones(zones, ceiling) {
                context.report(problem);
                return Declaration::none();
            }
            named(context, zones, ceiling, worker)
        }
        (None, Some(key)) => {
            let wish = restrict(&mut context.reports, section);
            if let Some(problem) = misplaced_subtree(key, &wish, ceiling) {
                context.report(problem);
                return Declaration::none();
            }
            Declaration::restrict(wish)
        }
        (Some(zones), Some(key)) => {
            context.report(
                DiagnosticCode::FrontEnd
                    .at(
                        &key.key_span,
                        format!(
                            "a worker names zones or a subtree: `zones` and `{}`",
                            key.key
                        ),
                    )
                    .related(&zones.key_span, "`zones` is here")
                    .help(
                        "keep one of them; for a read-only zone write `mode: ro` beside its name",
                    ),
            );
            Declaration::none()
        }
    }
}

fn restrict(reports: &mut Reports, section: &MappingFields<'_>) -> Restrict {
    let mut wish = Restrict::everything();
    if let Some(place) = section.string(reports, "restrict") {
        let at = section.get("restrict").map(|entry| entry.node.span.clone());
        match Restrict::to(place) {
            Ok(restrict) => wish = restrict,
            Err(problem) => {
                let bad = DiagnosticCode::BadValue.error(problem.to_string());
                reports.add(bad.at_any(at.as_ref()).help(format!(
                    "a place in the sandbox begins with `/`: `restrict: /{}`",
                    place.trim_start_matches(['.', '/', '~'])
                )));
            }
        }
        wish.place_span = at;
    }
    wish.readonly = section.boolean(reports, "readonly");
    wish.readonly_span = section.get("readonly").map(|entry| entry.node.span.clone());
    wish.rebase = section.boolean(reports, "rebase").unwrap_or(false);
    wish.usable = section.boolean(reports, "use").unwrap_or(true);
    // Without `restrict` the first of the other keys asks for all of it.
    let others = ["readonly", "rebase", "use", "approval"].into_iter();
    let said = || others.filter_map(|key| section.get(key)).next();
    wish.place_span = wish.place_span.or_else(|| Some(said()?.key_span.clone()));
    wish.approval = stated(reports, section)
        .into_iter()
        .map(|(operation, verdict, entry)| (operation, verdict, Some(entry.node.span.clone())))
        .collect();
    wish
}

/// `zones` where nothing has a name.
fn misplaced_zones(zones: &YamlEntry, ceiling: &Grant) -> Option<Diagnostic> {
    if ceiling.mounts().next().is_none() && ceiling.front() != FrontEnd::Zones {
        return Some(
            DiagnosticCode::FrontEnd
                .at(
                    &zones.key_span,
                    "this project has no directories, and so no zones",
                )
                .help(NO_DIRECTORIES),
        );
    }
    let what = match ceiling.front() {
        FrontEnd::Zones | FrontEnd::Paths | FrontEnd::PathLists => return None,
        FrontEnd::Root => "one root",
        FrontEnd::Mounts => "mounts",
    };
    let first = zones.node.as_list().and_then(<[YamlNode]>::first);
    let name = first
        .and_then(|zone| text_of(zone, "name"))
        .unwrap_or("src");
    let readonly = match first.and_then(|zone| text_of(zone, "mode")) {
        Some("ro") => "\n  readonly: true",
        Some(_) | None => "",
    };
    Some(
        DiagnosticCode::FrontEnd
            .at(
                &zones.key_span,
                format!(
                    "this project has {what}, not zones: a worker restricts itself to a subtree"
                ),
            )
            .help(format!(
                "write\nsandbox:\n  restrict: /{}{readonly}",
                name.trim_start_matches(['.', '/'])
            )),
    )
}

/// A subtree where every directory has a name of its own.
fn misplaced_subtree(key: &YamlEntry, wish: &Restrict, ceiling: &Grant) -> Option<Diagnostic> {
    if ceiling.front() != FrontEnd::Zones {
        return None;
    }
    let first = wish.place.trim_start_matches('/').split('/').next();
    let meant = first.and_then(|name| ceiling.mount(name));
    let named: Vec<String> = ceiling
        .mounts()
        .filter(|mount| meant.is_none_or(|meant| meant.name() == mount.name()))
        .map(|mount| {
            let mode = if wish.readonly == Some(true) {
                Mode::ReadOnly
            } else {
                mount.mode()
            };
            format!("    - {{ name: {}, mode: {mode} }}", mount.name())
        })
        .take(20)
        .collect();
    let help = if named.is_empty() {
        "it has none; write `sandbox: none`".to_owned()
    } else {
        format!("write\nsandbox:\n  zones:\n{}", named.join("\n"))
    };
    Some(
        DiagnosticCode::FrontEnd.at(&key.key_span, match ceiling
                .mounts()
                .all(|mount| mount.origin().name().is_none())
            {
                true => format!(
                    "`{}` is for projects with one root, and without `sandbox` in its file this \
                     project has the default zones",
                    key.key
                ),
                false => format!(
                    "this project has zones: `{}` is for projects without them",
                    key.key
                ),
            })
        .help(help),
    )
}

/// The text of a key of a mapping that is not read otherwise.
fn text_of<'n>(node: &'n YamlNode, key: &str) -> Option<&'n str> {
    node.entry(key)?.node.as_str()
}

/// `zones: [{name: …}]`.
fn named(
    context: &mut LoadContext<'_>,
    zones: &YamlEntry,
    ceiling: &Grant,
    worker: &str,
) -> Declaration {
    if let YamlValue::Map(_) = &zones.node.value {
        context.report(
            fields::wrong_type(&zones.node, "sandbox.zones", "a list")
                .help("a worker lists the zones it needs: `zones: [{ name: data, mode: ro }]`"),
        );
        return Declaration::none();
    }
    let items =
        fields::list(&mut context.reports, &zones.node, "sandbox.zones").unwrap_or_default();
    let mut wishes: Vec<ZoneDeclaration> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let path = format!("sandbox.zones[{index}]");
        let Some(wish) = zone(context, item, &path, ceiling, worker) else {
            continue;
        };
        let twin = wishes.iter().find(|earlier| earlier.name == wish.name);
        if let (Some(twin), Some(at)) = (
            twin.and_then(|twin| twin.name_span.as_ref()),
            &wish.name_span,
        ) {
            context.report(
                DiagnosticCode::DuplicateKey
                    .at(at, format!("zone `{}` is listed twice", wish.name))
                    .related(twin, "the first one"),
            );
        }
        wishes.push(wish);
    }
    let mut declaration = Declaration::none();
    if !wishes.is_empty() {
        declaration.mounts = MountRequest::Zones(wishes);
    }
    declaration
}

fn zone(
    context: &mut LoadContext<'_>,
    node: &YamlNode,
    path: &str,
    ceiling: &Grant,
    worker: &str,
) -> Option<ZoneDeclaration> {
    if let YamlValue::Str(name) = &node.value {
        return context.refuse(
            fields::wrong_type(node, path, "a mapping")
                .help(format!("write `{{ name: {}, mode: ro }}`", yaml_text(name))),
        );
    }
    let zone = context.open(node, path, &keys::WORKER_ZONE)?;
    let mode = zone.word(&mut context.reports, "mode", Mode::WORDS);
    let usable = zone.boolean(&mut context.reports, "use").unwrap_or(true);
    let max_file_bytes = zone.count(&mut context.reports, "max_file_bytes");
    let suffixes = zone.get("suffixes").and_then(|entry| {
        let list = suffixes(
            &mut context.reports,
            &entry.node,
            &format!("{path}.suffixes"),
        )?;
        Some((list, Some(entry.node.span.clone())))
    });
    // Before the name, without which nothing more is read: all mistakes are told at once.
    let stated = stated(&mut context.reports, &zone);
    let name = zone.string(&mut context.reports, "name")?;
    let name_span = zone.get("name").map(|entry| entry.node.span.clone());
    if ceiling.mount(name).is_none() {
        report_unknown_zone(&mut context.reports, name, name_span.as_ref()?, ceiling);
        return None;
    }
    let approval = zone_approval(context, worker, name, stated);
    Some(ZoneDeclaration {
        name: name.to_owned(),
        name_span,
        mode: mode.unwrap_or(Mode::ReadWrite),
        mode_span: zone.get("mode").map(|entry| entry.node.span.clone()),
        usable,
        approval,
        suffixes,
        max_file_bytes,
    })
}

/// Returns the verdicts of a zone; pre-approved deleting needs a person's yes.
fn zone_approval(
    context: &mut LoadContext<'_>,
    worker: &str,
    name: &str,
    stated: Vec<(Operation, Verdict, &YamlEntry)>,
) -> Vec<(Operation, Verdict, Option<Span>)> {
    stated
        .into_iter()
        .filter_map(|(operation, verdict, entry)| {
            let span = &entry.node.span;
            let allowed = match (operation, verdict) {
                (Operation::Delete, Verdict::Allow) => context.agreed(
                    &trust_rules::DELETE,
                    &format!("workers.{worker}.sandbox.zones.{name}.approval.delete"),
                    "preApproved",
                    span,
                ),
                (Operation::Read | Operation::Write | Operation::Delete, _) => true,
            };
            allowed.then(|| (operation, verdict, Some(span.clone())))
        })
        .collect()
}

fn report_unknown_zone(reports: &mut Reports, name: &str, at: &Span, ceiling: &Grant) {
    if reports.is_full() {
        reports.add(DiagnosticCode::UnknownZone.error(""));
        return;
    }
    let zones: Vec<&str> = ceiling.mounts().map(|mount| mount.name()).collect();
    let unknown = DiagnosticCode::UnknownZone
        .at(at, format!("zone `{name}` does not exist in this project"))
        .note(format!(
            "Available zones: {}",
            if zones.is_empty() {
                "none".to_owned()
            } else {
                zones.join(", ")
            }
        ));
    reports.add(unknown.suggest(name, zones));
}
