//! The effective settings, key by key, with the origin of each: for `forge config`. Printed without
//! origins it is a project file again, and loads to an equal ceiling.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::grant::Grant;
use crate::grant::front_end::FrontEnd;
use crate::keys::{self, canonical};
use crate::loading::trust::PrivilegedSetting;
use crate::loading::trust_rules::Untrusted;
use crate::project::layers::find_mut;
use crate::syntax::diagnostic::nearest;
use crate::syntax::escape::{visible, yaml_quoted, yaml_text};
use crate::syntax::fields::join;
use crate::syntax::key_table::KeyTable;
use crate::syntax::key_table::shape::ValueShape;
use crate::syntax::text::{ConfigOrigin, Layer, SourceText, Span};
use crate::syntax::yaml::{self, YamlEntry, YamlNode, YamlValue};

/// Every key that holds, with its value and where that comes from.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::write(dir.path().join("golem-forge.config.yaml"), "limits: { max_turns: 9 }\n").unwrap();
/// use sandbox_config::{load, Layer, Sources};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// let settings = project.settings();
/// assert_eq!(settings.get("limits.max_turns").unwrap(), 9);
/// let turns = settings.list().into_iter().find(|one| one.key() == "limits.max_turns").unwrap();
/// assert_eq!((turns.origin().layer(), turns.origin().line()), (Layer::Project, 1));
/// // No file wrote this one.
/// assert_eq!(settings.get("limits.max_stdout_kb").unwrap(), 256);
/// assert_eq!(settings.get("limits.max_turn").unwrap_err().nearest(), Some("limits.max_turns"));
/// ```
#[derive(Clone, Debug)]
pub struct EffectiveSettings {
    root: YamlNode,
    ignored: Vec<PrivilegedSetting>,
    mounts: Vec<(String, String, PathBuf)>,
}

/// One key that holds.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use sandbox_config::{load, Sources};
/// let settings = load(&Sources::new(dir.path())).unwrap().settings();
/// assert!(settings.list().iter().any(|one| one.key() == "network" && *one.value() == false));
/// ```
#[derive(Clone, Debug)]
pub struct Setting {
    key: String,
    value: serde_json::Value,
    origin: ConfigOrigin,
}

impl Setting {
    sandbox_names::getters! {
        /// The dotted key.
        pub key: &str = &key;
        /// The value.
        pub value: &serde_json::Value = &value;
        /// Where it comes from.
        pub origin: &ConfigOrigin = &origin;
    }
}

/// A key that does not exist.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use sandbox_config::{load, Sources};
/// let settings = load(&Sources::new(dir.path())).unwrap().settings();
/// let unknown = settings.get("netwrok").unwrap_err();
/// assert_eq!(unknown.to_string(), "unknown key `netwrok`");
/// assert_eq!(unknown.nearest(), Some("network"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown key `{key}`")]
pub struct UnknownKey {
    key: String,
    nearest: Option<String>,
}

impl UnknownKey {
    /// The key that is meant, perhaps.
    #[must_use]
    pub fn nearest(&self) -> Option<&str> {
        self.nearest.as_deref()
    }
}

impl EffectiveSettings {
    /// `root`: everything that was said, met.
    pub(crate) fn new(
        root: &YamlNode,
        privileged: &[PrivilegedSetting],
        ceiling: &Grant,
    ) -> EffectiveSettings {
        let ignored: Vec<PrivilegedSetting> = privileged
            .iter()
            .filter(|key| !key.is_trusted())
            .cloned()
            .collect();
        let mut root = root.clone();
        remove_empty(&mut root, &ignored, None);
        apply_defaults(&mut root, &keys::PROJECT, ceiling, "");
        guards(&mut root, "protect", ceiling.protect());
        guards(&mut root, "hide", ceiling.hide());
        let mounts = ceiling
            .mounts()
            .map(|mount| {
                let mode = mount.mode().to_string();
                (mount.target().to_owned(), mode, mount.host().to_path_buf())
            })
            .collect();
        EffectiveSettings {
            root,
            ignored,
            mounts,
        }
    }

    /// Returns every key with a value of its own, in the file's order; defaults come last.
    #[must_use]
    pub fn list(&self) -> Vec<Setting> {
        let mut list = Vec::new();
        collect_leaves(&self.root, "", &mut list);
        list
    }

    /// Returns the value at a dotted key, or a whole section; null for a key that no layer sets.
    ///
    /// # Errors
    /// The key does not exist.
    pub fn get(&self, key: &str) -> Result<serde_json::Value, UnknownKey> {
        let parts: Vec<&str> = key.split('.').collect();
        if let Some(node) = find(&self.root, None, &parts) {
            return Ok(node.to_json());
        }
        let known = ValueShape::Section(&keys::PROJECT);
        if !key.is_empty() && is_known(&known, &parts) {
            return Ok(serde_json::Value::Null);
        }
        let mut candidates: Vec<String> = self.list().into_iter().map(|one| one.key).collect();
        known_keys(&keys::PROJECT, "", &mut candidates);
        Err(UnknownKey {
            key: key.to_owned(),
            nearest: nearest(key, candidates.iter().map(String::as_str)).map(str::to_owned),
        })
    }

    /// Returns the location of one item of a list; `None` if it is built in, or not in the list.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
    /// #     "sandbox:\n  protect:\n    - notes.md\n").unwrap();
    /// use sandbox_config::{load, Sources};
    /// let settings = load(&Sources::new(dir.path())).unwrap().settings();
    /// let place = |name| settings.item_at("sandbox.protect", name);
    /// assert_eq!(place("notes.md").unwrap().line(), 3);
    /// assert_eq!(place(".git/hooks"), None);
    /// ```
    #[must_use]
    pub fn item_at(&self, key: &str, item: &str) -> Option<ConfigOrigin> {
        let parts: Vec<&str> = key.split('.').collect();
        let items = find(&self.root, None, &parts)?.as_list()?;
        let of = |node: &&YamlNode| node.as_str() == Some(item);
        let found = origin(&items.iter().find(of)?.span);
        found.name().is_some().then_some(found)
    }

    /// The keys that you have not agreed to, and that count for nothing therefore.
    #[must_use]
    pub fn ignored(&self) -> &[PrivilegedSetting] {
        &self.ignored
    }

    /// A project file that says all of it; `origins`: each value with its place as a comment.
    #[must_use]
    pub fn to_yaml(&self, origins: bool) -> String {
        let mut out = String::new();
        print(&mut out, &self.root, 0, origins);
        if !self.mounts.is_empty() {
            out.push_str("x-mounts:\n");
        }
        for (path, mode, host) in &self.mounts {
            let host = yaml_quoted(&host.display().to_string());
            let _ = writeln!(
                out,
                "  - {{ path: {}, mode: {mode}, host: {host} }}",
                yaml_text(path)
            );
        }
        for key in &self.ignored {
            let instead = match key.rule().untrusted() {
                Untrusted::Refused => "",
                Untrusted::Ignored(instead) => instead,
            };
            let text = format!(
                "{}: {} ({}) is ignored, you have not agreed to it: {instead}",
                key.key(),
                key.value(),
                key.origin()
            );
            let _ = writeln!(out, "# {}", visible(&text));
        }
        out
    }
}

/// Removes extension keys, and puts the fallback in place of an ignored value.
fn remove_empty(node: &mut YamlNode, ignored: &[PrivilegedSetting], above: Option<&str>) {
    match &mut node.value {
        YamlValue::Map(entries) => {
            entries.retain(|entry| above.is_some() || !entry.key.starts_with("x-"));
            entries.retain_mut(|entry| {
                entry.key = canonical(above, &entry.key).to_owned();
                let met = ignored.iter().find(|key| {
                    // A name may have dots in it.
                    let names = key.key().strip_suffix(entry.key.as_str());
                    let is_last =
                        names.is_some_and(|above| above.is_empty() || above.ends_with('.'));
                    is_at(key, &entry.node.span) && is_last
                });
                match met.map(|key| key.rule().fallback()) {
                    None => remove_empty(&mut entry.node, ignored, Some(&entry.key)),
                    Some(Some(value)) => entry.node.value = YamlValue::Str(value.to_owned()),
                    Some(None) => return false,
                }
                true
            });
        }
        YamlValue::List(items) => {
            items.retain(|item| !ignored.iter().any(|key| is_item(key, item)));
            for item in items {
                remove_empty(item, ignored, Some("[]"));
            }
        }
        _ => {}
    }
}

fn is_at(key: &PrivilegedSetting, span: &Span) -> bool {
    *key.origin() == span.origin()
}

/// `shell.env.pass[CC]` is one item of a list, and so is `git.repositories[octo/reports]`.
fn is_item(key: &PrivilegedSetting, item: &YamlNode) -> bool {
    let repository = || item.entry("repo").and_then(|entry| entry.node.as_str());
    let text = item.as_str().or_else(repository);
    is_at(key, &item.span) && text.is_some_and(|text| key.key().ends_with(&format!("[{text}]")))
}

/// Applies the defaults. Only where setting a default explicitly changes nothing: the front-end
/// stays, and a shell without rules stays absent.
fn apply_defaults(node: &mut YamlNode, table: &'static KeyTable, ceiling: &Grant, path: &str) {
    if matches!(node.value, YamlValue::Null) {
        node.value = YamlValue::Map(Vec::new());
    }
    let YamlValue::Map(entries) = &mut node.value else {
        return;
    };
    for key in table.list.iter().filter(|key| key.in_effect) {
        let path = join(path, key.name);
        let there = entries.iter_mut().find(|entry| entry.key == key.name);
        let front = matches!(
            path.as_str(),
            "sandbox.mode" | "sandbox.root" | "sandbox.zones"
        );
        let skipped = match path.as_str() {
            "shell" | "sandbox.readonly" | "sandbox.network" | "version" => true,
            // Follows `timeout_s_default` where that is more.
            "limits.timeout_s_max" => false,
            // Unsaid it is as much as the OS sandbox gives by itself.
            _ if key.is_implied => true,
            // A yes is asked for in every layer, the built-in value included.
            _ if key.trust == "always" => true,
            _ => front && ceiling.front() != FrontEnd::Zones,
        };
        match (there, &key.shape) {
            _ if skipped => {}
            (Some(entry), ValueShape::Section(below)) => {
                apply_defaults(&mut entry.node, below, ceiling, &path)
            }
            (Some(_), _) => {}
            (None, ValueShape::Section(below)) => {
                let mut node = built_in("");
                apply_defaults(&mut node, below, ceiling, &path);
                if matches!(&node.value, YamlValue::Map(entries) if !entries.is_empty()) {
                    entries.push(entry(key.name, node));
                }
            }
            (None, ValueShape::Map(..)) if !front => {}
            (None, _) => {
                let default = match path.as_str() {
                    "sandbox.root" => ".sandbox".to_owned(),
                    "limits.timeout_s_max" => ceiling.limits().timeout_s_max().to_string(),
                    _ => key.default.to_owned(),
                };
                if !default.is_empty() {
                    entries.push(entry(key.name, built_in(&default)));
                }
            }
        }
    }
}

pub(crate) fn built_in(value: &str) -> YamlNode {
    let text = SourceText::inline("default".into(), Layer::Default, value.to_owned());
    yaml::parse(&text)
        .ok()
        .flatten()
        .unwrap_or_else(|| YamlNode {
            value: YamlValue::Null,
            span: Span::start(&text),
        })
}

fn entry(key: &str, node: YamlNode) -> YamlEntry {
    YamlEntry {
        key: key.to_owned(),
        key_span: node.span.clone(),
        node,
    }
}

/// The whole list, with the built-in names: every name with its origin.
fn guards(root: &mut YamlNode, key: &str, held: &[String]) {
    let Some(list) = find_mut(root, &["sandbox", key]) else {
        return;
    };
    let written_value = match std::mem::replace(&mut list.value, YamlValue::Null) {
        YamlValue::List(items) => items,
        _ => Vec::new(),
    };
    let text = SourceText::inline("default".into(), Layer::Default, String::new());
    let items = held.iter().map(|name| {
        let by = written_value.iter().find(|item| match &item.value {
            YamlValue::Str(text) => text.trim_end_matches('/') == name,
            _ => false,
        });
        YamlNode {
            value: YamlValue::Str(name.clone()),
            span: by.map_or_else(|| Span::start(&text), |item| item.span.clone()),
        }
    });
    list.value = YamlValue::List(items.collect());
}

fn origin(span: &Span) -> ConfigOrigin {
    match span.layer() {
        Layer::Default => ConfigOrigin::built_in(),
        Layer::User | Layer::Project | Layer::Environment | Layer::CommandLine => span.origin(),
    }
}

fn collect_leaves(node: &YamlNode, path: &str, list: &mut Vec<Setting>) {
    let is_plain = |items: &[YamlNode]| {
        !items
            .iter()
            .any(|item| matches!(item.value, YamlValue::Map(_) | YamlValue::List(_)))
    };
    match &node.value {
        YamlValue::Map(entries) if !entries.is_empty() => {
            for entry in entries {
                let path = join(path, &entry.key);
                collect_leaves(&entry.node, &path, list);
            }
        }
        YamlValue::List(items) if !is_plain(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_leaves(item, &format!("{path}[{index}]"), list);
            }
        }
        _ => list.push(Setting {
            key: path.to_owned(),
            value: node.to_json(),
            origin: origin(&node.span),
        }),
    }
}

/// A name with dots in it is found, too.
fn find<'n>(node: &'n YamlNode, above: Option<&str>, parts: &[&str]) -> Option<&'n YamlNode> {
    if parts.is_empty() {
        return Some(node);
    }
    let entries = node.as_map()?;
    (1..=parts.len()).find_map(|count| {
        let name = parts[..count].join(".");
        let name = canonical(above, &name);
        let entry = entries.iter().find(|entry| entry.key == name)?;
        find(&entry.node, Some(name), &parts[count..])
    })
}

fn is_known(shape: &ValueShape, parts: &[&str]) -> bool {
    let Some((first, rest)) = parts.split_first() else {
        return true;
    };
    match shape {
        ValueShape::Section(table) => table
            .list
            .iter()
            .filter(|key| key.name == *first || key.aliases.contains(first))
            .any(|key| is_known(&key.shape, rest)),
        ValueShape::Map(_, below) => is_known(below, rest),
        ValueShape::OneOf(shapes) => shapes.iter().any(|shape| is_known(shape, parts)),
        _ => false,
    }
}

/// Every key that has a name, for suggestions.
fn known_keys(table: &'static KeyTable, path: &str, list: &mut Vec<String>) {
    for key in table.list.iter().filter(|key| key.in_effect) {
        let path = join(path, key.name);
        if let ValueShape::Section(below) = &key.shape {
            known_keys(below, &path, list);
        }
        list.push(path);
    }
}

fn print(out: &mut String, node: &YamlNode, depth: usize, origins: bool) {
    let pad = "  ".repeat(depth);
    match &node.value {
        YamlValue::Map(entries) => {
            for entry in entries {
                let _ = write!(out, "{pad}{}:", yaml_text(&entry.key));
                below(out, &entry.node, depth, origins);
            }
        }
        YamlValue::List(items) => {
            for item in items {
                let _ = write!(out, "{pad}-");
                below(out, item, depth, origins);
            }
        }
        _ => {
            let _ = writeln!(out, "{pad}{}", scalar(node));
        }
    }
}

/// Prints the part after a `:` or a `-`.
fn below(out: &mut String, node: &YamlNode, depth: usize, origins: bool) {
    let is_empty = match &node.value {
        YamlValue::Map(entries) => entries.is_empty(),
        YamlValue::List(items) => items.is_empty(),
        _ => true,
    };
    if !is_empty {
        out.push('\n');
        return print(out, node, depth + 1, origins);
    }
    let _ = write!(out, " {}", scalar(node));
    if origins {
        let origin = origin(&node.span);
        let layer = origin.layer().word();
        let _ = match origin.name() {
            Some(_) => write!(out, "  # {layer} {}", visible(&origin.to_string())),
            None => write!(out, "  # {layer}"),
        };
    }
    out.push('\n');
}

fn scalar(node: &YamlNode) -> String {
    match &node.value {
        YamlValue::Null => "null".to_owned(),
        YamlValue::Bool(value) => value.to_string(),
        YamlValue::Int(value) => value.to_string(),
        YamlValue::Float(value) => value.to_string(),
        YamlValue::Str(text) => yaml_text(text),
        YamlValue::List(_) => "[]".to_owned(),
        YamlValue::Map(_) => "{}".to_owned(),
    }
}
