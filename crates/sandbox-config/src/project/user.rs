//! The person's own file: preferences, and what holds at most in every project. What it says is
//! met with the project's tree before that is walked: whatever the walk reads then, from whichever
//! layer, is at most what the person's own file allows, and every value knows who said it.
//!
//! One table says which keys that are, and what the meet of two values is. A key without a row is
//! refused in a user file, so a new key of projects limits nothing by accident.

use crate::grant::Grant;
use crate::grant::network::{HostPattern, NetworkAccess};
use crate::project::Found;
use crate::project::ceiling::read_project;
use crate::project::layers::{Overlay, is_blocked, lay};
use crate::project::preferences;
use crate::project::sections::APPROVAL_MODES;
use crate::project::sources::{Sources, Trust};
use crate::project::walk::Walk;
use crate::syntax::diagnostic::{Code, Diagnostic};
use crate::syntax::fields::{Fields, Reports};
use crate::syntax::keys::{self, Keys, canonical};
use crate::syntax::read::read;
use crate::syntax::text::{Layer, Span};
use crate::syntax::yaml::{self, Entry, Node, Value};

/// How two values of one key meet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meet {
    /// `false`, then fewer hosts, then `true`.
    Network,
    /// `approval.mode`, by strictness.
    Mode,
    /// `true` if either says so.
    True,
    /// The smaller number; this table says what holds when nobody names one.
    Least(&'static Keys),
    /// Both lists.
    Unite,
    /// The blocked rules of both; a user file has no others.
    Blocked,
    /// What is in both lists.
    Within,
}

/// Every key by which a user file limits.
pub(crate) const CEILING: [(&str, Meet); 19] = [
    ("network", Meet::Network),
    ("approval.mode", Meet::Mode),
    ("approval.require_user_permission.*", Meet::True),
    ("approval.require_user_permission_by_risk.*", Meet::True),
    ("approval.timeout_s", Meet::Least(&keys::APPROVAL)),
    ("shell.rules", Meet::Blocked),
    ("shell.deny", Meet::Unite),
    ("shell.env.pass", Meet::Within),
    ("sandbox.protect", Meet::Unite),
    ("sandbox.hide", Meet::Unite),
    ("sandbox.require_os_sandbox", Meet::True),
    ("sandbox.strict_paths", Meet::True),
    ("log.redact", Meet::Unite),
    ("limits.*", Meet::Least(&keys::LIMITS)),
    ("docker.cpu_limit", Meet::Least(&keys::DOCKER)),
    ("docker.mem_limit_mb", Meet::Least(&keys::DOCKER)),
    ("docker.pids_limit", Meet::Least(&keys::DOCKER)),
    ("delegation.max_depth", Meet::Least(&keys::DELEGATION)),
    ("delegation.max_children", Meet::Least(&keys::DELEGATION)),
];

/// A user file that holds no mistake.
#[derive(Debug)]
pub(crate) struct UserFile {
    tree: Node,
    /// What it would be as a project's: the readers are the same.
    ceiling: Grant,
}

/// Read it, if it is there. Its mistakes are noted.
pub(crate) fn user_file(
    reports: &mut Reports,
    sources: &Sources,
    found: &Found,
) -> Option<UserFile> {
    let path = sources.user_file.as_ref()?;
    // Absent is the ordinary case; anything else that cannot be read is a mistake.
    if std::fs::symlink_metadata(path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        return None;
    }
    let parsed = read(path, &found.show(path), Layer::User).and_then(|text| yaml::parse(&text));
    let tree = match parsed {
        Ok(tree) => tree?,
        Err(problem) => {
            reports.add(*problem);
            return None;
        }
    };
    let before = reports.errors();
    Fields::open(reports, &tree, "", &keys::USER)?;
    if reports.errors() > before {
        return None;
    }
    // It is the person's own, so nobody's yes is asked for.
    let trusting = Sources {
        trust: Trust::Given,
        ..sources.clone()
    };
    let mut own = Walk::new(&trusting, &found.dir);
    let nowhere = found.without_file();
    let ceiling = read_project(&mut own, &tree, &nowhere).ceiling;
    // The readers look at a whole project; only what they say about this text is of interest.
    let about_this = own
        .reports
        .into_list()
        .into_iter()
        .filter(|one| one.layer() == Some(Layer::User));
    reports.extend(about_this);
    if reports.errors() == before {
        for leaf in leaves(&tree) {
            leaf.check(reports);
        }
    }
    (reports.errors() == before).then_some(UserFile { tree, ceiling })
}

/// A value of the user file with its row; none: a preference or a mistake.
struct Leaf<'n> {
    keys: Vec<&'n Entry>,
    node: &'n Node,
    meet: Option<Meet>,
}

/// Every value, as deep as the table knows it.
fn leaves(tree: &Node) -> Vec<Leaf<'_>> {
    fn below<'n>(node: &'n Node, keys: &mut Vec<&'n Entry>, list: &mut Vec<Leaf<'n>>) {
        let names: Vec<&str> = keys.iter().map(|entry| canonical(&entry.key)).collect();
        let row = CEILING.iter().find(|(pattern, _)| fits(pattern, &names));
        match (&node.value, row) {
            (Value::Map(entries), None) => {
                for entry in entries.iter().filter(|entry| !entry.key.starts_with("x-")) {
                    keys.push(entry);
                    below(&entry.node, keys, list);
                    keys.pop();
                }
            }
            // A section without keys.
            (Value::Null, None) => {}
            (_, row) => list.push(Leaf {
                keys: keys.clone(),
                node,
                meet: row.map(|(_, meet)| *meet),
            }),
        }
    }
    let mut list = Vec::new();
    below(tree, &mut Vec::new(), &mut list);
    list
}

fn fits(pattern: &str, keys: &[&str]) -> bool {
    let mut keys = keys.iter();
    pattern
        .split('.')
        .all(|part| keys.next().is_some_and(|key| part == "*" || part == *key))
        && keys.next().is_none()
}

impl Leaf<'_> {
    fn dotted(&self) -> String {
        let names: Vec<&str> = self
            .keys
            .iter()
            .map(|entry| canonical(&entry.key))
            .collect();
        names.join(".")
    }

    fn is_preference(&self) -> bool {
        let key = self.dotted();
        key == "version" || preferences::KEYS.contains(&key.as_str())
    }

    fn check(&self, reports: &mut Reports) {
        let key = self.dotted();
        let Some(last) = self.keys.last() else { return };
        let Some(meet) = self.meet else {
            if !self.is_preference() {
                reports.add(
                    Diagnostic::error(
                        Code::UnknownKey,
                        format!("`{key}` belongs to a project file"),
                    )
                    .at(&last.key_span)
                    .help(
                        "your own file names preferences, and what holds at most in every project",
                    ),
                );
            }
            return;
        };
        let gives_nothing = match (meet, &self.node.value) {
            (Meet::Network, Value::Bool(true)) | (Meet::True, Value::Bool(false)) => true,
            (Meet::Mode, _) => mode(self.node) == Some(0),
            _ => false,
        };
        if gives_nothing {
            reports.add(
                Diagnostic::warning(Code::NoEffect, format!("`{key}` here limits nothing"))
                    .at(&self.node.span)
                    .help("your own file says what holds at most; a project or a flag asks for it"),
            );
        }
        if let (Meet::Blocked, Value::List(rules)) = (meet, &self.node.value) {
            for rule in rules.iter().filter(|rule| !is_blocked(rule)) {
                reports.add(
                    Diagnostic::error(Code::BadValue, "rules of your own file only block")
                        .at(&rule.span)
                        .help("write `approval: blocked`; what is asked or allowed belongs to a project"),
                );
            }
        }
    }
}

impl UserFile {
    /// Its preferences, for the layering.
    pub(crate) fn preferences(&self) -> impl Iterator<Item = (String, &Node)> {
        leaves(&self.tree)
            .into_iter()
            .filter(Leaf::is_preference)
            .map(|leaf| (leaf.dotted(), leaf.node))
    }

    /// The tool axis: it is no tree, so it is met where calls are judged.
    pub(crate) fn meet_grant(&self, ceiling: &mut Grant) {
        ceiling.approval = ceiling.approval.clone().at_most(&self.ceiling.approval);
    }

    /// Meet the tree of project, variables and flags with this one.
    pub(crate) fn meet(&self, reports: &mut Reports, root: &mut Node) {
        for leaf in leaves(&self.tree) {
            let names: Vec<&str> = leaf
                .keys
                .iter()
                .map(|entry| canonical(&entry.key))
                .collect();
            let there = find(root, &names);
            match (leaf.meet, there) {
                (None, None) if leaf.is_preference() && names != ["version"] => insert(root, &leaf),
                (None, _) => {}
                (Some(meet), None) => {
                    if narrows_default(meet, names.last().copied().unwrap_or(""), leaf.node) {
                        insert(root, &leaf);
                    }
                }
                (Some(Meet::Blocked), Some(rules)) => {
                    if let (Value::List(rules), Value::List(own)) =
                        (&mut rules.value, &leaf.node.value)
                    {
                        for rule in own {
                            let said = rule.to_json();
                            if !rules.iter().any(|other| other.to_json() == said) {
                                rules.push(rule.clone());
                            }
                        }
                    }
                }
                (Some(Meet::Unite), Some(_)) => insert(root, &leaf),
                (Some(meet), Some(there)) => {
                    meet_one(reports, meet, &leaf, there);
                }
            }
        }
        self.block_where_only_a_default_speaks(root);
    }

    /// A project that offers the shell by `default` or `allow` alone has no list to add to.
    fn block_where_only_a_default_speaks(&self, root: &mut Node) {
        let offers = find(root, &["shell", "default"]).is_some()
            || find(root, &["shell", "allow"]).is_some();
        if find(root, &["shell", "rules"]).is_none() && offers {
            for leaf in leaves(&self.tree) {
                if matches!(leaf.meet, Some(Meet::Blocked)) {
                    insert(root, &leaf);
                }
            }
        }
    }
}

fn find<'t>(node: &'t mut Node, keys: &[&str]) -> Option<&'t mut Node> {
    let Some((key, rest)) = keys.split_first() else {
        return Some(node);
    };
    let Value::Map(entries) = &mut node.value else {
        return None;
    };
    let entry = entries
        .iter_mut()
        .find(|entry| canonical(&entry.key) == *key)?;
    find(&mut entry.node, rest)
}

fn insert(root: &mut Node, leaf: &Leaf<'_>) {
    let keys = leaf
        .keys
        .iter()
        .map(|entry| (canonical(&entry.key).to_owned(), entry.key_span.clone()))
        .collect();
    lay(
        root,
        Overlay {
            keys,
            node: leaf.node.clone(),
        },
    );
}

/// Whether a value is stricter than what holds when a project says nothing.
fn narrows_default(meet: Meet, key: &str, own: &Node) -> bool {
    match meet {
        // Off, nothing passed and no shell are the defaults.
        Meet::Network | Meet::Within | Meet::Blocked => false,
        Meet::Mode => mode(own) > Some(1),
        Meet::True => matches!(own.value, Value::Bool(true)),
        Meet::Least(table) => {
            let row = table.list.iter().find(|row| row.name == key);
            let default = row.and_then(|row| row.default.parse::<f64>().ok());
            number(own).is_some_and(|own| own < default.unwrap_or(f64::INFINITY))
        }
        Meet::Unite => true,
    }
}

/// The stricter of two values stays; who asked for more is told.
fn meet_one(reports: &mut Reports, meet: Meet, leaf: &Leaf<'_>, there: &mut Node) {
    let own = leaf.node;
    let exceeds = match meet {
        Meet::Network => match (network(own), network(there)) {
            (Some(1), Some(1)) => return within_hosts(reports, leaf, there),
            (Some(own), Some(there)) => there > own,
            _ => false,
        },
        Meet::Mode => match (mode(own), mode(there)) {
            (Some(own), Some(there)) => there < own,
            _ => false,
        },
        Meet::True => {
            matches!(own.value, Value::Bool(true)) && matches!(there.value, Value::Bool(false))
        }
        Meet::Least(_) => match (number(own), number(there)) {
            (Some(own), Some(there)) => there > own,
            _ => false,
        },
        Meet::Within => return within(reports, leaf, own, there),
        Meet::Unite | Meet::Blocked => false,
    };
    if exceeds {
        report(reports, leaf, &own.span, &there.span);
        // `manual` and `deny` together ask and then refuse; the grant holds both.
        match meet {
            Meet::Mode if mode(there) == Some(2) => {}
            // Who asks stays who asked: a part of what a project wants needs a yes as well.
            Meet::Network => *there = moved(own, &there.span),
            _ => *there = own.clone(),
        }
    }
}

/// The same value at another place.
fn moved(node: &Node, span: &Span) -> Node {
    let value = match &node.value {
        Value::List(items) => Value::List(items.iter().map(|item| moved(item, span)).collect()),
        Value::Map(entries) => Value::Map(
            entries
                .iter()
                .map(|entry| Entry {
                    key: entry.key.clone(),
                    key_span: span.clone(),
                    node: moved(&entry.node, span),
                })
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) => {
            node.value.clone()
        }
    };
    Node {
        value,
        span: span.clone(),
    }
}

/// Of a list only what the own list has, too.
fn within(reports: &mut Reports, leaf: &Leaf<'_>, own: &Node, there: &mut Node) {
    let (Value::List(own_items), Value::List(items)) = (&own.value, &mut there.value) else {
        return;
    };
    let held: Vec<&str> = own_items.iter().filter_map(text).collect();
    items.retain(|item| {
        let stays = text(item).is_none_or(|item| held.contains(&item));
        if !stays {
            report(reports, leaf, &own.span, &item.span);
        }
        stays
    });
}

/// Of a list of hosts only what the own list reaches, too.
fn within_hosts(reports: &mut Reports, leaf: &Leaf<'_>, there: &mut Node) {
    let mut own = leaf.node.clone();
    let Some(own) = find(&mut own, &["allow"]) else {
        return;
    };
    let Some(Value::List(items)) = find(there, &["allow"]).map(|list| &mut list.value) else {
        return;
    };
    let held = hosts(own);
    let mut kept = Vec::new();
    for item in items.drain(..) {
        let asked = hosts_of(&item);
        if asked.is_within(&held) {
            kept.push(item);
            continue;
        }
        report(reports, leaf, &own.span, &item.span);
        if let NetworkAccess::Hosts(patterns) = asked.meet(&held) {
            kept.extend(patterns.iter().map(|pattern| Node {
                value: Value::Str(pattern.to_string()),
                span: item.span.clone(),
            }));
        }
    }
    if kept.is_empty() {
        *there = Node {
            value: Value::Bool(false),
            span: leaf.node.span.clone(),
        };
    } else {
        *items = kept;
    }
}

fn hosts(list: &Node) -> NetworkAccess {
    match &list.value {
        Value::List(items) => NetworkAccess::hosts(items.iter().filter_map(pattern)),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Str(_)
        | Value::Map(_) => NetworkAccess::Denied,
    }
}

fn hosts_of(item: &Node) -> NetworkAccess {
    NetworkAccess::hosts(pattern(item))
}

/// The readers have reported what is none.
fn pattern(item: &Node) -> Option<HostPattern> {
    HostPattern::parse(text(item)?).ok()
}

fn report(reports: &mut Reports, leaf: &Leaf<'_>, own: &Span, asked: &Span) {
    let key = leaf.dotted();
    let diagnostic = match asked.layer() {
        Layer::Environment | Layer::CommandLine => Diagnostic::error(
            Code::AboveUserFile,
            format!("`{key}` asks for more than your own file allows"),
        )
        .help("ask for less, or change that line of your own file"),
        Layer::Default | Layer::User | Layer::Project => Diagnostic::warning(
            Code::AboveUserFile,
            format!("`{key}` asks for more than your own file allows: your own file holds"),
        ),
    };
    reports.add(diagnostic.at(asked).related(own, "your own file"));
}

/// 0: off; 1: some hosts; 2: on.
fn network(node: &Node) -> Option<u8> {
    match &node.value {
        Value::Bool(on) => Some(if *on { 2 } else { 0 }),
        Value::Map(_) => Some(1),
        Value::Null | Value::Int(_) | Value::Float(_) | Value::Str(_) | Value::List(_) => None,
    }
}

/// The place of a mode in the order of strictness; `tool` is 1.
fn mode(node: &Node) -> Option<u8> {
    let word = text(node)?;
    let (_, mode) = APPROVAL_MODES.iter().find(|(known, _)| *known == word)?;
    Some(*mode as u8)
}

/// `null` is no limit.
fn number(node: &Node) -> Option<f64> {
    match &node.value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        Value::Null => Some(f64::INFINITY),
        Value::Bool(_) | Value::Str(_) | Value::List(_) | Value::Map(_) => None,
    }
}

fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Str(text) => Some(text),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::List(_)
        | Value::Map(_) => None,
    }
}
