//! The old forms of a worker's sandbox (see docs/migrating.md): `paths` and `mounts` in the worker
//! itself, from the time before the project declared its directories. In projects with named
//! directories, that is an error which prints the correction. In a project with one root it still
//! works, with a warning: as the program's sandbox if the program has none, else as a narrowing of
//! it.

use std::fmt::Write as _;

use crate::grant::Grant;
use crate::grant::declaration::{Declaration, MountRequest, ZoneDeclaration};
use crate::grant::front_end::FrontEnd;
use crate::grant::mount::{Mode, Mount};
use crate::grant::restrict::{NarrowedDirectory, Restrict};
use crate::loading::load_context::LoadContext;
use crate::mount_syntax::{mounts, paths};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::escape::yaml_text;
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue};

/// The result of reading an old declaration.
pub(crate) struct LegacySandbox {
    pub(crate) declaration: Declaration,
    /// The program's mounts, if the program declares none itself.
    pub(crate) program: Option<Vec<Mount>>,
}

impl From<Declaration> for LegacySandbox {
    fn from(declaration: Declaration) -> LegacySandbox {
        LegacySandbox {
            declaration,
            program: None,
        }
    }
}

/// Read `paths` or `mounts` of a worker.
pub(crate) fn read(
    context: &mut LoadContext<'_>,
    entry: &YamlEntry,
    ceiling: &Grant,
) -> LegacySandbox {
    let written = written(entry);
    match ceiling.front() {
        FrontEnd::Zones | FrontEnd::Paths | FrontEnd::PathLists => {
            context.report(replaced(entry, &written, ceiling));
            Declaration::none().into()
        }
        FrontEnd::Root | FrontEnd::Mounts => {
            let table = match entry.key.as_str() {
                "mounts" => mounts::read(context, &entry.node),
                _ => paths::read(context, &entry.node),
            };
            if ceiling.mounts().next().is_none() {
                context.report(as_program(entry, &written));
                LegacySandbox {
                    declaration: Declaration::zones(
                        table
                            .iter()
                            .map(|mount| ZoneDeclaration::new(mount.name(), mount.mode())),
                    ),
                    program: Some(table),
                }
            } else {
                let (places, dropped) = places(&table, ceiling);
                context.report(as_narrowing(entry, &places, &dropped));
                let mut declaration = Declaration::none();
                declaration.mounts = MountRequest::Places(places);
                declaration.into()
            }
        }
    }
}

/// Where the directories of an old declaration lie in the program's sandbox; and the names of
/// those that lie outside.
fn places(table: &[Mount], ceiling: &Grant) -> (Vec<NarrowedDirectory>, Vec<String>) {
    let mut places = Vec::new();
    let mut dropped = Vec::new();
    for mount in table {
        let place = ceiling.sandbox_path(mount.host());
        match place.and_then(|place| Restrict::to(&place).ok()) {
            Some(restrict) => places.push(NarrowedDirectory {
                restrict: match mount.mode() {
                    Mode::ReadOnly => restrict.readonly(true),
                    Mode::ReadWrite => restrict,
                },
                suffixes: mount.suffixes().map(<[String]>::to_vec),
                max_file_bytes: mount.max_file_bytes(),
            }),
            None => dropped.push(mount.name().to_owned()),
        }
    }
    (places, dropped)
}

/// One directory as an old file spells it. Nothing is checked here: it is only shown again.
struct LegacyDirectory {
    name: String,
    root: String,
    mode: Mode,
    suffixes: Vec<String>,
    max_file_bytes: Option<i64>,
}

fn written(entry: &YamlEntry) -> Vec<LegacyDirectory> {
    let one = |name: String, node: &YamlNode| LegacyDirectory {
        root: text(node, &["root", "path", "source", "host"])
            .unwrap_or_else(|| format!("./{name}")),
        mode: mode(node, entry.key == "mounts"),
        suffixes: texts(node, &["suffixes", "allowed_suffixes", "allowedSuffixes"]),
        max_file_bytes: count(node, &["max_file_bytes", "maxFileBytes"]),
        name,
    };
    match &entry.node.value {
        YamlValue::Map(entries) => entries
            .iter()
            .map(|entry| one(entry.key.clone(), &entry.node))
            .collect(),
        YamlValue::List(items) => items
            .iter()
            .map(|item| {
                let target = text(item, &["target", "name", "destination"]).unwrap_or_default();
                let name = target.trim_matches(['.', '/']).rsplit('/').next();
                let name = name.filter(|name| !name.is_empty()).unwrap_or("project");
                one(name.to_owned(), item)
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// `paths` read unless they say `rw`; `mounts` write unless they say `readonly`.
fn mode(node: &YamlNode, of_mount: bool) -> Mode {
    let readonly = find(node, &["readonly", "readOnly", "read_only"]);
    let readonly = readonly.map(|value| matches!(value.value, YamlValue::Bool(true)));
    match (text(node, &["mode"]).as_deref(), readonly) {
        (Some("rw"), None) => Mode::ReadWrite,
        (None, Some(false)) => Mode::ReadWrite,
        (None, None) if of_mount => Mode::ReadWrite,
        (Some(_) | None, _) => Mode::ReadOnly,
    }
}

fn find<'n>(node: &'n YamlNode, keys: &[&str]) -> Option<&'n YamlNode> {
    let mut entries = node.as_map()?.iter();
    let entry = entries.find(|entry| keys.contains(&entry.key.as_str()))?;
    Some(&entry.node)
}

fn text(node: &YamlNode, keys: &[&str]) -> Option<String> {
    find(node, keys)?.as_str().map(str::to_owned)
}

fn texts(node: &YamlNode, keys: &[&str]) -> Vec<String> {
    let items = find(node, keys).and_then(YamlNode::as_list);
    let texts = items.into_iter().flatten().filter_map(YamlNode::as_str);
    texts.map(str::to_owned).collect()
}

fn count(node: &YamlNode, keys: &[&str]) -> Option<i64> {
    match find(node, keys)?.value {
        YamlValue::Int(number) => Some(number),
        _ => None,
    }
}

/// For named directories: the correction here, and in the project file if it lacks them.
fn replaced(entry: &YamlEntry, written: &[LegacyDirectory], ceiling: &Grant) -> Diagnostic {
    let noun = ceiling.front().noun();
    let error = DiagnosticCode::FrontEnd.at(
        &entry.key_span,
        format!(
            "`sandbox.{}` in a worker is an old form: the project says what there is",
            entry.key
        ),
    );
    if written.is_empty() {
        return error.help(
            "name what this worker needs\nsandbox:\n  zones:\n    - { name: data, mode: ro }",
        );
    }
    let mut help = "write\nsandbox:\n  zones:\n".to_owned();
    for one in written {
        let _ = writeln!(help, "    - {}", one.shown(&[("name", &one.name)]));
    }
    let missing: Vec<&LegacyDirectory> = written
        .iter()
        .filter(|one| ceiling.mount(&one.name).is_none())
        .collect();
    if !missing.is_empty() {
        let (section, key) = match ceiling.front() {
            FrontEnd::Paths => ("paths", "root"),
            FrontEnd::PathLists => ("write_paths", ""),
            FrontEnd::Zones | FrontEnd::Root | FrontEnd::Mounts => ("zones", "path"),
        };
        let _ = writeln!(
            help,
            "and in the project file, which has no such {noun} yet"
        );
        let _ = writeln!(help, "sandbox:\n  {section}:");
        for one in missing {
            let _ = match key {
                "" => writeln!(help, "    - {}", yaml_text(&one.root)),
                key => writeln!(
                    help,
                    "    {}: {}",
                    yaml_text(&one.name),
                    one.shown(&[(key, &one.root)])
                ),
            };
        }
    }
    error.help(help.trim_end().to_owned())
}

fn as_program(entry: &YamlEntry, written: &[LegacyDirectory]) -> Diagnostic {
    let mut help = "move it to the program's file\nsandbox:\n  paths:\n".to_owned();
    for one in written {
        let _ = writeln!(
            help,
            "    {}: {}",
            yaml_text(&one.name),
            one.shown(&[("root", &one.root)])
        );
    }
    DiagnosticCode::Alias.warning(format!(
            "`sandbox.{}` in a worker is an old form: the program has no sandbox, so this one is read as the program's",
            entry.key
        ))
    .at(&entry.key_span)
    .help(help.trim_end().to_owned())
}

fn as_narrowing(entry: &YamlEntry, places: &[NarrowedDirectory], dropped: &[String]) -> Diagnostic {
    let mut warning = DiagnosticCode::Alias.warning(format!(
            "`sandbox.{}` in a worker is an old form: the program's sandbox holds, and this only narrows it",
            entry.key
        ))
    .at(&entry.key_span);
    if !dropped.is_empty() {
        warning = warning.note(format!(
            "outside of it, and not held: {}",
            dropped.join(", ")
        ));
    }
    warning.help(match places {
        [] => "write\nsandbox: none".to_owned(),
        [one] => {
            let readonly = match one.restrict.readonly {
                Some(true) => "\n  readonly: true",
                Some(false) | None => "",
            };
            let place = yaml_text(one.restrict.place());
            format!("write\nsandbox:\n  restrict: {place}{readonly}")
        }
        _ => {
            "a worker has one subtree: let the program list `paths`, and name them here".to_owned()
        }
    })
}

impl LegacyDirectory {
    /// `{ name: cache, mode: rw, suffixes: [.json] }`
    fn shown(&self, first: &[(&str, &str)]) -> String {
        let mut parts: Vec<String> = first
            .iter()
            .map(|(key, value)| format!("{key}: {}", yaml_text(value)))
            .collect();
        parts.push(format!("mode: {}", self.mode));
        if !self.suffixes.is_empty() {
            let list: Vec<String> = self
                .suffixes
                .iter()
                .map(|suffix| yaml_text(suffix))
                .collect();
            parts.push(format!("suffixes: [{}]", list.join(", ")));
        }
        if let Some(bytes) = self.max_file_bytes {
            parts.push(format!("max_file_bytes: {bytes}"));
        }
        format!("{{ {} }}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::escape::yaml_text;

    #[test]
    fn what_is_shown_can_be_pasted() {
        for (text, expected) in [
            ("cache", "cache"),
            ("./cache/a-b_c.d", "./cache/a-b_c.d"),
            (".json", ".json"),
            ("true", "\"true\""),
            ("12", "\"12\""),
            (".inf", "\".inf\""),
            ("a b", "\"a b\""),
            ("a: b", "\"a: b\""),
            ("- a", "\"- a\""),
            ("", "\"\""),
            (".", "\".\""),
            ("é\n\"", "\"é\\U0000000a\\\"\""),
        ] {
            assert_eq!(yaml_text(text), expected);
        }
    }
}
