//! `FORGE__SANDBOX__MODE=direct` and `-c sandbox.mode=direct`: the person's own voice, laid over
//! the project's tree before it is walked. Every node keeps its text, so a mistake in a flag
//! points at the flag, and a widening value of one's own needs nobody's trust.
//!
//! Lists replace, except `sandbox.protect`, `sandbox.hide` and blocked shell rules, which unite.

use std::sync::Arc;

use crate::project::sources::Sources;
use crate::syntax::diagnostic::{Code, Diagnostic};
use crate::syntax::fields::Reports;
use crate::syntax::keys::canonical;
use crate::syntax::text::{Layer, Span, Text};
use crate::syntax::yaml::{self, Entry, Node, Value};

/// One value of one's own.
#[derive(Debug)]
pub(crate) struct Overlay {
    pub(crate) keys: Vec<String>,
    pub(crate) node: Node,
}

/// The overlays, weakest first: variables by name, then flags in order.
pub(crate) fn overlays(reports: &mut Reports, sources: &Sources) -> Vec<Overlay> {
    let mut variables: Vec<(&str, Vec<String>, &str)> = Vec::new();
    for (name, value) in &sources.env {
        if let Some(path) = name.strip_prefix("FORGE__") {
            let keys = path.split("__").map(str::to_lowercase).collect();
            variables.push((name, keys, value));
        } else if name == "FORGE_MODEL" {
            variables.push((name, vec!["model".to_owned()], value));
        }
    }
    variables.sort_by_key(|(name, _, _)| name.starts_with("FORGE__"));
    let flags = sources.overrides.iter().map(|(key, value)| {
        let keys = key.split('.').map(str::to_owned).collect();
        (format!("-c {key}"), keys, value.as_str())
    });
    let variables = variables
        .into_iter()
        .map(|(name, keys, value)| (name.to_owned(), keys, value, Layer::Environment));
    variables
        .chain(flags.map(|(name, keys, value)| (name, keys, value, Layer::CommandLine)))
        .filter_map(|(name, keys, value, layer)| overlay(reports, name, keys, value, layer))
        .collect()
}

fn overlay(
    reports: &mut Reports,
    name: String,
    keys: Vec<String>,
    value: &str,
    layer: Layer,
) -> Option<Overlay> {
    let text = Text::inline(name, layer, value.to_owned());
    let start = Span::start(&text);
    if keys.iter().any(String::is_empty) {
        reports.add(
            Diagnostic::error(Code::BadValue, "a part of the key is empty")
                .at(&start)
                .help("write `-c sandbox.mode=direct` or `FORGE__SANDBOX__MODE=direct`"),
        );
        return None;
    }
    if keys.len() > yaml::MAX_DEPTH {
        let message = format!("a key of more than {} parts", yaml::MAX_DEPTH);
        reports.add(Diagnostic::error(Code::TooComplex, message).at(&start));
        return None;
    }
    let node = match yaml::parse(&text) {
        Ok(Some(node)) => node,
        Ok(None) => Node {
            value: Value::Null,
            span: start,
        },
        Err(diagnostic) => {
            reports.add(*diagnostic);
            return None;
        }
    };
    let keys = keys.iter().map(|key| canonical(key).to_owned()).collect();
    Some(Overlay { keys, node })
}

/// Lay one over a tree.
pub(crate) fn lay(root: &mut Node, overlay: Overlay) {
    let unite = match overlay.keys.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sandbox", "protect" | "hide"] => Unite::All,
        ["shell", "rules"] => Unite::Blocked,
        _ => Unite::Nothing,
    };
    lay_at(root, &overlay.keys, overlay.node, &unite);
}

/// A value on the way that is no mapping gives way to one.
fn lay_at(node: &mut Node, keys: &[String], mut new: Node, unite: &Unite) {
    let Some((key, rest)) = keys.split_first() else {
        if let (Value::List(old), Value::List(list)) = (&node.value, &mut new.value) {
            match unite {
                Unite::Nothing => {}
                Unite::All => list.extend(old.iter().cloned()),
                Unite::Blocked => list.extend(old.iter().filter(|rule| is_blocked(rule)).cloned()),
            }
        }
        *node = new;
        return;
    };
    let mut entries = match std::mem::replace(&mut node.value, Value::Null) {
        Value::Map(entries) => entries,
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Str(_)
        | Value::List(_) => Vec::new(),
    };
    match entries
        .iter_mut()
        .find(|entry| canonical(&entry.key) == key)
    {
        Some(entry) => lay_at(&mut entry.node, rest, new, unite),
        None => {
            let span = new.span.clone();
            let mut below = Node {
                value: Value::Null,
                span: span.clone(),
            };
            lay_at(&mut below, rest, new, unite);
            entries.push(Entry {
                key: key.clone(),
                key_span: span,
                node: below,
            });
        }
    }
    node.value = Value::Map(entries);
}

enum Unite {
    Nothing,
    All,
    Blocked,
}

fn is_blocked(rule: &Node) -> bool {
    let Value::Map(entries) = &rule.value else {
        return false;
    };
    entries.iter().any(|entry| {
        entry.key == "approval"
            && matches!(&entry.node.value, Value::Str(word) if word == "blocked")
    })
}

/// Seed 004 puts `network` into `sandbox`. Taken out before anything is laid over it, so that
/// `-c network=true` overrides it there, too. Beside a `network` of its own it stays, and is told.
pub(crate) fn hoist_network(root: &mut Node) {
    let Value::Map(top) = &mut root.value else {
        return;
    };
    if top.iter().any(|entry| entry.key == "network") {
        return;
    }
    let Some(Value::Map(sandbox)) = top
        .iter_mut()
        .find(|entry| entry.key == "sandbox")
        .map(|entry| &mut entry.node.value)
    else {
        return;
    };
    let network: Vec<Entry> = sandbox
        .extract_if(.., |entry| entry.key == "network")
        .collect();
    top.extend(network);
}

/// The tree of a project without a file.
pub(crate) fn empty_root(text: &Arc<Text>) -> Node {
    Node {
        value: Value::Map(Vec::new()),
        span: Span::start(text),
    }
}
