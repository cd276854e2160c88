//! `FORGE__SANDBOX__MODE=direct` and `-c sandbox.mode=direct`: settings of the user for one run,
//! laid over the project's tree before it is read. Every node keeps its text, so a mistake in a
//! flag points at the flag, and a privileged setting of the user's own needs no trust.
//!
//! Mappings merge; lists replace, except `sandbox.protect`, `sandbox.hide`, `shell.deny`,
//! `log.redact` and blocked shell rules, which unite.

use std::sync::Arc;

use crate::keys::{PROJECT, canonical};
use crate::loading::sources::Sources;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::Reports;
use crate::syntax::key_table::shape::ValueShape;
use crate::syntax::text::{Layer, SourceText, Span};
use crate::syntax::yaml::{self, YamlEntry, YamlNode, YamlValue};
use crate::syntax::yaml_errors::MAX_DEPTH;

/// One value of one's own.
#[derive(Debug)]
pub(crate) struct Overlay {
    pub(crate) keys: Vec<(String, Span)>,
    pub(crate) node: YamlNode,
}

/// A part of a key, and where it begins, in characters.
#[derive(Default)]
struct KeyPart {
    name: String,
    at: usize,
    width: usize,
}

/// The overlays, weakest first: variables by name, then flags in order.
pub(crate) fn overlays(reports: &mut Reports, sources: &Sources) -> Vec<Overlay> {
    let mut variables: Vec<(&str, Vec<KeyPart>, &str)> = Vec::new();
    for (name, value) in &sources.env {
        if let Some(path) = name.strip_prefix(PREFIX) {
            variables.push((name, variable_parts(path), value));
        } else if name == "FORGE_MODEL" && !value.is_empty() {
            let model = KeyPart {
                name: "model".to_owned(),
                at: 0,
                width: name.len(),
            };
            variables.push((name, vec![model], value));
        }
    }
    // The order of an environment means nothing, so names decide; FORGE_MODEL is the weakest.
    variables.sort_by_key(|(name, _, _)| (name.starts_with(PREFIX), name.len(), *name));
    let variables = variables.into_iter().map(|(name, parts, value)| {
        let text = SourceText::setting(name.to_owned(), Layer::Environment, name, value);
        overlay(&text, parts)
    });
    let flags = sources.overrides.iter().map(|(key, value)| {
        let text = SourceText::setting(format!("-c {key}"), Layer::CommandLine, key, value);
        let parts = flag_parts(key).map_err(|problem| open_quote(problem, &text))?;
        overlay(&text, parts)
    });
    let mut all = Vec::new();
    for read in variables.chain(flags) {
        match read {
            Ok(overlay) => all.push(overlay),
            Err(problem) => reports.add(*problem),
        }
    }
    all
}

const PREFIX: &str = "FORGE__";

/// `SANDBOX__ZONES__DATA`: lower case, as forge's own keys are; names of the project (zones,
/// tools) are found in any case.
fn variable_parts(path: &str) -> Vec<KeyPart> {
    let mut at = PREFIX.len();
    path.split("__")
        .map(|part| {
            let width = part.chars().count();
            let part = KeyPart {
                name: part.to_lowercase(),
                at,
                width,
            };
            at += width + 2;
            part
        })
        .collect()
}

fn open_quote(problem: &str, text: &Arc<SourceText>) -> Box<Diagnostic> {
    let help = "write `-c 'sandbox.zones.\"a.b\".mode=ro'`";
    let problem = DiagnosticCode::BadValue.error(problem);
    Box::new(problem.at(&Span::start(text)).help(help))
}

/// `sandbox.zones.data.mode`; a name with a dot in it is in double quotes.
fn flag_parts(key: &str) -> Result<Vec<KeyPart>, &'static str> {
    let mut parts = vec![KeyPart::default()];
    let mut quoted = false;
    for (at, c) in key.chars().enumerate() {
        if c == '.' && !quoted {
            parts.push(KeyPart {
                at: at + 1,
                ..KeyPart::default()
            });
        } else if let Some(part) = parts.last_mut() {
            part.width += 1;
            if c == '"' {
                quoted = !quoted;
            } else {
                part.name.push(c);
            }
        }
    }
    if quoted {
        return Err("a quote in the key is not closed");
    }
    Ok(parts)
}

fn overlay(text: &Arc<SourceText>, parts: Vec<KeyPart>) -> Result<Overlay, Box<Diagnostic>> {
    let place = |at: usize, width: usize| Span {
        text: Arc::clone(text),
        line: 1,
        column: clamp(at + 1),
        width: clamp(width.max(1)),
    };
    if parts.len() > MAX_DEPTH {
        let message = format!("a key of more than {} parts", MAX_DEPTH);
        return Err(Box::new(
            DiagnosticCode::TooComplex.at(&Span::start(text), message),
        ));
    }
    if parts
        .iter()
        .any(|part| part.name.contains(char::is_control))
    {
        let problem = DiagnosticCode::BadValue.error("the key holds control characters");
        return Err(Box::new(problem.at(&Span::start(text))));
    }
    if let Some(empty) = parts.iter().find(|part| part.name.is_empty()) {
        let problem = DiagnosticCode::BadValue
            .at(&place(empty.at, empty.width), "a part of the key is empty")
            .help("write `-c sandbox.mode=direct` or `FORGE__SANDBOX__MODE=direct`");
        return Err(Box::new(problem));
    }
    let node = yaml::parse(text)?.unwrap_or_else(|| YamlNode {
        value: YamlValue::Null,
        span: place(text.before() as usize, 1),
    });
    // `network` may be written inside `sandbox`.
    let is_hoisted = matches!(parts.as_slice(), [first, second, ..] if first.name == "sandbox" && second.name == "network");
    let mut keys: Vec<(String, Span)> = Vec::new();
    for part in parts.iter().skip(usize::from(is_hoisted)) {
        let above = keys.last().map(|(key, _)| key.as_str());
        let key = canonical(above, &part.name).to_owned();
        keys.push((key, place(part.at, part.width)));
    }
    Ok(Overlay { keys, node })
}

fn clamp(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Lays one value over a tree.
pub(crate) fn overlay_value(root: &mut YamlNode, overlay: Overlay) {
    overlay_at(root, &overlay.keys, overlay.node, &mut Vec::new());
}

/// A value on the way that is not a mapping gives way to one, but for mistakes: see [`is_mistake`].
fn overlay_at(node: &mut YamlNode, keys: &[(String, Span)], new: YamlNode, path: &mut Vec<String>) {
    let Some(((key, key_span), rest)) = keys.split_first() else {
        return merge(node, new, path);
    };
    if is_mistake(node, path) {
        return;
    }
    let mut entries = merge_entries(node);
    let in_any_case = key_span.layer() == Layer::Environment;
    let above = path.last().map(String::as_str);
    let found = entries.iter_mut().find(|entry| {
        canonical(above, &entry.key) == key || (in_any_case && entry.key.to_lowercase() == *key)
    });
    path.push(key.clone());
    match found {
        Some(entry) => {
            let span = new.span.clone();
            overlay_at(&mut entry.node, rest, new, path);
            if *path == NETWORK && matches!(entry.node.value, YamlValue::Map(_)) {
                entry.node.span = span;
            }
        }
        None => {
            let mut below = YamlNode {
                value: YamlValue::Null,
                span: new.span.clone(),
            };
            overlay_at(&mut below, rest, new, path);
            entries.push(YamlEntry {
                key: key.clone(),
                key_span: key_span.clone(),
                node: below,
            });
        }
    }
    node.value = YamlValue::Map(entries);
    path.pop();
}

/// A mapping and yet one value: a layer that sets a part of it sets all of it.
const NETWORK: [&str; 1] = ["network"];

/// `true` if the project's key takes a mapping and the value is none, nor anything else that the key
/// takes. Such a value stays for the reader, which refuses it: replaced, it would be dropped without a
/// word.
fn is_mistake(node: &YamlNode, path: &[String]) -> bool {
    let is_other = !matches!(node.value, YamlValue::Map(_) | YamlValue::Null);
    let section = ValueShape::Section(&PROJECT);
    let shape = path.iter().try_fold(&section, |shape, key| match shape {
        ValueShape::Section(table) => {
            let mut rows = table.list.iter();
            rows.find(|row| row.name == key).map(|row| &row.shape)
        }
        ValueShape::Map(_, each) => Some(*each),
        _ => None,
    });
    let fits = |shape: &ValueShape| match shape {
        ValueShape::Section(_) | ValueShape::Map(..) => false,
        ValueShape::Bool => matches!(node.value, YamlValue::Bool(_)),
        _ => true,
    };
    is_other
        && shape.is_some_and(|shape| match shape {
            ValueShape::OneOf(shapes) => !shapes.iter().any(fits),
            one => !fits(one) && !matches!(one, ValueShape::Bool),
        })
}

/// One value over another: mappings key by key, everything else as a whole.
fn merge(node: &mut YamlNode, new: YamlNode, path: &mut Vec<String>) {
    if matches!(new.value, YamlValue::Map(_)) && is_mistake(node, path) {
        return;
    }
    let is_map = matches!(node.value, YamlValue::Map(_));
    let mut new = new;
    match &mut new.value {
        YamlValue::Map(entries) if is_map && *path != NETWORK => {
            let mut held = merge_entries(node);
            for entry in std::mem::take(entries) {
                overlay_entry(&mut held, entry, path);
            }
            node.value = YamlValue::Map(held);
        }
        YamlValue::List(list) => {
            if let YamlValue::List(old) = &node.value {
                let keys: Vec<&str> = path.iter().map(String::as_str).collect();
                match keys[..] {
                    ["sandbox", "protect" | "hide"] | ["shell", "deny"] | ["log", "redact"] => {
                        list.extend(old.iter().cloned());
                    }
                    ["shell", "rules"] => {
                        list.extend(old.iter().filter(|rule| is_blocked(rule)).cloned());
                    }
                    _ => {}
                }
            }
            *node = new;
        }
        _ => *node = new,
    }
}

fn overlay_entry(entries: &mut Vec<YamlEntry>, new: YamlEntry, path: &mut Vec<String>) {
    let above = path.last().map(String::as_str);
    let key = canonical(above, &new.key).to_owned();
    // A key that occurs twice in one text is kept twice: the reader reports it.
    let found = entries.iter_mut().find(|entry| {
        canonical(above, &entry.key) == key
            && !Arc::ptr_eq(&entry.key_span.text, &new.key_span.text)
    });
    match found {
        Some(entry) => {
            path.push(key);
            merge(&mut entry.node, new.node, path);
            entry.key_span = new.key_span;
            path.pop();
        }
        None => entries.push(new),
    }
}

/// The entries of a node, taken out of it; none if not a mapping.
pub(crate) fn merge_entries(node: &mut YamlNode) -> Vec<YamlEntry> {
    match std::mem::replace(&mut node.value, YamlValue::Null) {
        YamlValue::Map(entries) => entries,
        _ => Vec::new(),
    }
}

pub(crate) fn is_blocked(rule: &YamlNode) -> bool {
    let is_blocked = |entry: &YamlEntry| entry.node.as_str() == Some("blocked");
    let mut entries = rule.as_map().into_iter().flatten();
    entries.any(|entry| entry.key == "approval" && is_blocked(entry))
}

/// `network` may be written inside `sandbox`. Taken out before anything is laid over it, so that
/// `-c network=true` overrides it there, too. Beside a `network` of its own it stays, and is told.
pub(crate) fn normalize_network(root: &mut YamlNode) {
    let YamlValue::Map(top) = &mut root.value else {
        return;
    };
    if top.iter().any(|entry| entry.key == "network") {
        return;
    }
    let Some(YamlValue::Map(sandbox)) = top
        .iter_mut()
        .find(|entry| entry.key == "sandbox")
        .map(|entry| &mut entry.node.value)
    else {
        return;
    };
    let network: Vec<YamlEntry> = sandbox
        .extract_if(.., |entry| entry.key == "network")
        .collect();
    top.extend(network);
}

/// The tree of a project without a file.
pub(crate) fn empty_root(text: &Arc<SourceText>) -> YamlNode {
    YamlNode {
        value: YamlValue::Map(Vec::new()),
        span: Span::start(text),
    }
}

/// Returns the value of a key, whose parts are in their documented spelling.
pub(crate) fn find_mut<'t>(root: &'t mut YamlNode, keys: &[&str]) -> Option<&'t mut YamlNode> {
    find_below(root, None, keys)
}

fn find_below<'t>(
    node: &'t mut YamlNode,
    above: Option<&str>,
    keys: &[&str],
) -> Option<&'t mut YamlNode> {
    let Some((key, rest)) = keys.split_first() else {
        return Some(node);
    };
    let YamlValue::Map(entries) = &mut node.value else {
        return None;
    };
    let entry = entries
        .iter_mut()
        .find(|entry| canonical(above, &entry.key) == *key)?;
    find_below(&mut entry.node, Some(key), rest)
}
