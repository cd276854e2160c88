//! The person's own file: preferences, and what holds at most in every project. What it says is
//! met with the project's tree before that is walked: whatever the walk reads then, from whichever
//! layer, is at most what the person's own file allows, and every value knows who said it.
//!
//! `user_keys.rs` says which keys that are, and what the meet of two values is. A key without a row
//! is refused.

use crate::grant::Grant;
use crate::grant::mount::Mode;
use crate::grant::network::{HostPattern, NetworkAccess};
use crate::grant::verdict::{ApprovalPolicy, Verdict};
use crate::project::Found;
use crate::project::ceiling::read_project;
use crate::project::git;
use crate::project::layers::{Overlay, is_blocked, lay, take_entries};
use crate::project::sections::{APPROVAL_MODES, approval_verdict};
use crate::project::sources::{Sources, TrustedSettings};
use crate::project::user_keys::{Meet, OF_MOUNTS, Role, role};
use crate::project::walk::Walk;
use crate::provider::read::project_part;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::{Fields, Reports};
use crate::syntax::keys::{self, canonical};
use crate::syntax::read::read;
use crate::syntax::text::{Layer, Span};
use crate::syntax::yaml::{self, Entry, Node, Value};

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
        trust: TrustedSettings::Given,
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

/// A value of the user file with its role; none: there is no such key.
struct Leaf<'n> {
    keys: Vec<&'n Entry>,
    node: &'n Node,
    role: Option<Role>,
}

/// Every value, as deep as the table knows it.
fn leaves(tree: &Node) -> Vec<Leaf<'_>> {
    fn below<'n>(node: &'n Node, keys: &mut Vec<&'n Entry>, list: &mut Vec<Leaf<'n>>) {
        let role = role(&names(keys));
        match (&node.value, role) {
            (Value::Map(entries), None) => {
                for entry in entries.iter().filter(|entry| !entry.key.starts_with("x-")) {
                    keys.push(entry);
                    below(&entry.node, keys, list);
                    keys.pop();
                }
            }
            // A section without keys.
            (Value::Null, None) => {}
            (_, role) => list.push(Leaf {
                keys: keys.clone(),
                node,
                role,
            }),
        }
    }
    let mut list = Vec::new();
    below(tree, &mut Vec::new(), &mut list);
    list
}

/// In their documented spelling.
fn names<'n>(keys: &[&'n Entry]) -> Vec<&'n str> {
    let mut names: Vec<&str> = Vec::new();
    for entry in keys {
        names.push(canonical(names.last().copied(), &entry.key));
    }
    names
}

impl Leaf<'_> {
    fn names(&self) -> Vec<&str> {
        names(&self.keys)
    }

    fn dotted(&self) -> String {
        self.names().join(".")
    }

    fn check(&self, reports: &mut Reports) {
        match self.role {
            Some(Role::Limit(meet)) => self.check_limit(reports, meet),
            Some(Role::Preference | Role::Whole | Role::Own) => {}
            Some(Role::No(why)) => self.refuse(reports, why),
            None => self.refuse(
                reports,
                "your own file names preferences, and what holds at most in every project",
            ),
        }
    }

    fn refuse(&self, reports: &mut Reports, why: &str) {
        let Some(last) = self.keys.last() else { return };
        let message = format!("`{}` belongs to a project file", self.dotted());
        reports.add(
            Diagnostic::error(DiagnosticCode::UnknownKey, message)
                .at(&last.key_span)
                .help(why),
        );
    }

    fn check_limit(&self, reports: &mut Reports, meet: Meet) {
        let gives_nothing = match (meet, &self.node.value) {
            (Meet::Network | Meet::False, Value::Bool(true)) | (Meet::True, Value::Bool(false)) => {
                true
            }
            (Meet::Mode, _) => mode(self.node) == Some(0),
            (Meet::Consent, _) => consent(self.node) == Some(Verdict::Allow),
            (Meet::Sockets, _) => sockets(self.node) == Some(2),
            (Meet::Stricter(words), Value::Str(word)) => words.strictness(word) == Some(0),
            _ => false,
        };
        if gives_nothing {
            let message = format!("`{}` has no effect in the user file", self.dotted());
            reports.add(
                Diagnostic::warning(DiagnosticCode::NoEffect, message)
                    .at(&self.node.span)
                    .help("your own file says what holds at most; a project or a flag asks for it"),
            );
        }
        if let (Meet::Blocked, Value::List(rules)) = (meet, &self.node.value) {
            for rule in rules.iter().filter(|rule| !is_blocked(rule)) {
                reports.add(
                    Diagnostic::error(
                        DiagnosticCode::BadValue,
                        "rules of your own file only block",
                    )
                    .at(&rule.span)
                    .help(
                        "write `approval: blocked`; what is asked or allowed belongs to a project",
                    ),
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
            .filter(|leaf| matches!(leaf.role, Some(Role::Preference)))
            .map(|leaf| (leaf.dotted(), leaf.node))
    }

    /// The tool axis: it is no tree, so it is met where calls are judged.
    pub(crate) fn meet_grant(&self, ceiling: &mut Grant) {
        let approval = ApprovalPolicy::clone(&ceiling.approval);
        ceiling.approval = approval.at_most(&self.ceiling.approval).into();
    }

    /// Meet the tree of project, variables and flags with this one.
    pub(crate) fn meet(&self, walk: &mut Walk<'_>, root: &mut Node) {
        for leaf in leaves(&self.tree) {
            match leaf.role {
                Some(Role::Preference) if find(root, &leaf.names()).is_none() => {
                    insert(root, &leaf);
                }
                Some(Role::Whole) => whole(&mut walk.reports, root, &leaf),
                Some(Role::Preference | Role::Own | Role::No(_)) | None => {}
                Some(Role::Limit(Meet::Repositories)) => {
                    if let Some(there) = find(root, &leaf.names()) {
                        within_repositories(walk, &leaf, there);
                    }
                }
                Some(Role::Limit(meet)) => limit(&mut walk.reports, root, &leaf, meet),
            }
        }
        drop_second_spelling(root);
    }
}

/// What the person names is theirs whole: of what is there only flags and variables stay.
fn whole(reports: &mut Reports, root: &mut Node, leaf: &Leaf<'_>) {
    let Some(there) = find(root, &leaf.names()) else {
        return insert(root, leaf);
    };
    if let Some(asked) = project_part(there) {
        let key = leaf.dotted();
        let message = format!("`{key}` is named in your own file, too: your own file holds");
        reports.add(
            Diagnostic::warning(DiagnosticCode::AboveUserFile, message)
                .at(asked)
                .related(&leaf.node.span, "your own file"),
        );
    }
    let rest = without_project(there);
    *there = leaf.node.clone();
    if let Some(node) = rest {
        let names = leaf.names().into_iter().map(str::to_owned);
        let spans = leaf.keys.iter().map(|entry| entry.key_span.clone());
        let keys = names.zip(spans).collect();
        lay(root, Overlay { keys, node });
    }
}

/// What a person says of it for this run.
fn without_project(node: &Node) -> Option<Node> {
    let Value::Map(entries) = &node.value else {
        return project_part(node).is_none().then(|| node.clone());
    };
    let kept = |entry: &Entry| {
        Some(Entry {
            node: without_project(&entry.node)?,
            ..entry.clone()
        })
    };
    let entries: Vec<Entry> = entries.iter().filter_map(kept).collect();
    // The mapping itself may be the project's; what is left of it is not.
    let span = entries.first()?.node.span.clone();
    Some(Node {
        value: Value::Map(entries),
        span,
    })
}

/// What a project may say in another way, and there is one value of.
const SECOND_SPELLING: (&[&str], &str) = (&["execution", "mode"], "execution_mode");

fn limit(reports: &mut Reports, root: &mut Node, leaf: &Leaf<'_>, meet: Meet) {
    let names = leaf.names();
    let (first, second) = SECOND_SPELLING;
    let mut is_said = false;
    if names == first
        && let Some(there) = find(root, &[second])
    {
        is_said = true;
        meet_one(reports, meet, leaf, there);
    }
    if let [section, rest @ ..] = names.as_slice()
        && *section == "sandbox"
        && rest.first().is_some_and(|key| OF_MOUNTS.contains(key))
    {
        for mount in mounts(root) {
            if let Some(there) = find(mount, rest) {
                meet_one(reports, meet, leaf, there);
            }
        }
    }
    if let Some(there) = find(root, &names) {
        return meet_one(reports, meet, leaf, there);
    }
    if !is_said
        && is_offered(root, &names)
        && narrows_default(meet, names.last().copied().unwrap_or(""), leaf)
    {
        insert(root, leaf);
    }
}

/// What the front-ends with names say about each mount.
fn mounts(root: &mut Node) -> impl Iterator<Item = &mut Node> {
    let sandbox = find(root, &["sandbox"]).map(|section| &mut section.value);
    let keys = match sandbox {
        Some(Value::Map(entries)) => entries.as_mut_slice(),
        _ => &mut [],
    };
    keys.iter_mut()
        .filter(|entry| matches!(entry.key.as_str(), "zones" | "paths"))
        .filter_map(|entry| match &mut entry.node.value {
            Value::Map(mounts) => Some(mounts),
            _ => None,
        })
        .flatten()
        .map(|mount| &mut mount.node)
}

/// A shell is the project's to offer: no key of a user file may bring one about.
fn is_offered(root: &mut Node, names: &[&str]) -> bool {
    let mut is_said = |key| find(root, &["shell", key]).is_some();
    names.first() != Some(&"shell") || is_said("rules") || is_said("default") || is_said("allow")
}

/// Where both spellings were cut down to what the user file says, one is enough.
fn drop_second_spelling(root: &mut Node) {
    let (first, second) = SECOND_SPELLING;
    let of_user =
        |node: Option<&mut Node>| node.is_some_and(|node| matches!(node.span.layer(), Layer::User));
    if of_user(find(root, first)) && of_user(find(root, &[second])) {
        let kept = take_entries(root).into_iter();
        root.value = Value::Map(kept.filter(|entry| entry.key != second).collect());
    }
}

fn find<'t>(root: &'t mut Node, keys: &[&str]) -> Option<&'t mut Node> {
    find_below(root, None, keys)
}

fn find_below<'t>(node: &'t mut Node, above: Option<&str>, keys: &[&str]) -> Option<&'t mut Node> {
    let Some((key, rest)) = keys.split_first() else {
        return Some(node);
    };
    let Value::Map(entries) = &mut node.value else {
        return None;
    };
    let entry = entries
        .iter_mut()
        .find(|entry| canonical(above, &entry.key) == *key)?;
    find_below(&mut entry.node, Some(key), rest)
}

fn insert(root: &mut Node, leaf: &Leaf<'_>) {
    let names = leaf.names().into_iter().map(str::to_owned);
    let spans = leaf.keys.iter().map(|entry| entry.key_span.clone());
    lay(
        root,
        Overlay {
            keys: names.zip(spans).collect(),
            node: leaf.node.clone(),
        },
    );
}

/// Whether a value is stricter than what holds when a project says nothing.
fn narrows_default(meet: Meet, key: &str, leaf: &Leaf<'_>) -> bool {
    let own = leaf.node;
    match meet {
        // Off, and nothing passed, are the defaults.
        Meet::Network | Meet::Sockets | Meet::Within | Meet::Repositories | Meet::False => false,
        Meet::Mode => mode(own) > Some(1),
        Meet::Consent => consent(own) > Some(Verdict::Allow),
        Meet::True => matches!(own.value, Value::Bool(true)),
        Meet::Stricter(words) => {
            text(own).and_then(|own| words.strictness(own)) > words.strictness(words.unsaid)
        }
        Meet::Least(table) => {
            let row = table.list.iter().find(|row| row.name == key);
            let default = row.and_then(|row| row.default.parse::<f64>().ok());
            number(own).is_some_and(|own| own < default.unwrap_or(f64::INFINITY))
        }
        Meet::Unite | Meet::Only | Meet::Blocked => true,
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
        Meet::Sockets => match (sockets(own), sockets(there)) {
            (Some(1), Some(1)) => return within(reports, leaf, own, there),
            (Some(own), Some(there)) => there > own,
            _ => false,
        },
        Meet::Mode => match (mode(own), mode(there)) {
            (Some(own), Some(there)) => there < own,
            _ => false,
        },
        Meet::Consent => match (consent(own), consent(there)) {
            (Some(own), Some(there)) => there < own,
            _ => false,
        },
        Meet::True => {
            matches!(own.value, Value::Bool(true)) && matches!(there.value, Value::Bool(false))
        }
        Meet::False => {
            matches!(own.value, Value::Bool(false)) && matches!(there.value, Value::Bool(true))
        }
        Meet::Stricter(words) => {
            let strictness = |node| text(node).and_then(|word| words.strictness(word));
            match (strictness(own), strictness(there)) {
                (Some(own), Some(there)) => there < own,
                _ => false,
            }
        }
        Meet::Least(_) => match (number(own), number(there)) {
            (Some(own), Some(there)) => there > own,
            _ => false,
        },
        Meet::Within | Meet::Only => return within(reports, leaf, own, there),
        // Needs to know where addresses lead.
        Meet::Repositories => return,
        Meet::Unite | Meet::Blocked => return add(own, there),
    };
    if exceeds {
        report(reports, leaf, &own.span, &there.span);
        // `manual` and `deny` together ask and then refuse; the grant holds both.
        match meet {
            Meet::Mode if mode(there) == Some(2) => {}
            // Who asks stays who asked: a part of what a project wants needs a yes as well.
            Meet::Network | Meet::Sockets => *there = moved(own, &there.span),
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

/// Both lists.
fn add(own: &Node, there: &mut Node) {
    if let (Value::List(own), Value::List(items)) = (&own.value, &mut there.value) {
        for item in own {
            let said = item.to_json();
            if !items.iter().any(|other| other.to_json() == said) {
                items.push(item.clone());
            }
        }
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

/// Of a list of repositories only what the own list has, too, with the smaller access.
fn within_repositories(walk: &mut Walk<'_>, leaf: &Leaf<'_>, there: &mut Node) {
    let (Value::List(own), Value::List(items)) = (&leaf.node.value, &mut there.value) else {
        return;
    };
    let held: Vec<(String, Mode)> = own
        .iter()
        .filter_map(|item| repository(walk, item))
        .collect();
    let mut left = Vec::new();
    for item in items.drain(..) {
        // The readers report what is none.
        let Some((address, access)) = repository(walk, &item) else {
            left.push(item);
            continue;
        };
        let at_most = held.iter().find(|(known, _)| *known == address);
        if at_most.is_none_or(|(_, most)| access > *most) {
            report(&mut walk.reports, leaf, &leaf.node.span, &item.span);
        }
        match at_most {
            None => {}
            Some((_, most)) if access > *most => left.push(read_only(item)),
            Some(_) => left.push(item),
        }
    }
    *items = left;
}

/// An item of `git.repositories`: its address, and what is asked of it.
fn repository(walk: &Walk<'_>, item: &Node) -> Option<(String, Mode)> {
    let mut item = item.clone();
    let access = match find(&mut item, &["access"]).as_deref().and_then(text) {
        Some("ro") => Mode::ReadOnly,
        Some(_) | None => Mode::ReadWrite,
    };
    let address = match text(&item) {
        Some(text) => git::locate(walk, text),
        None => git::locate(walk, find(&mut item, &["repo"]).as_deref().and_then(text)?),
    };
    Some((address.ok()?.address, access))
}

/// The same repository to pull from. Who asks stays who asked.
fn read_only(item: Node) -> Node {
    let entry = |key: &str, value: Value| Entry {
        key: key.to_owned(),
        key_span: item.span.clone(),
        node: Node {
            value,
            span: item.span.clone(),
        },
    };
    let access = entry("access", Value::Str("ro".to_owned()));
    let entries = match &item.value {
        Value::Map(entries) => {
            let others = entries.iter().filter(|entry| entry.key != "access");
            others.cloned().chain([access]).collect()
        }
        other => vec![entry("repo", other.clone()), access],
    };
    Node {
        value: Value::Map(entries),
        span: item.span,
    }
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
            DiagnosticCode::AboveUserFile,
            format!("`{key}` asks for more than your own file allows"),
        )
        .help("ask for less, or change that line of your own file"),
        Layer::Default | Layer::User | Layer::Project => Diagnostic::warning(
            DiagnosticCode::AboveUserFile,
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

/// 0: closed; 1: some sockets; 2: open.
fn sockets(node: &Node) -> Option<u8> {
    match &node.value {
        Value::Str(word) if word == "closed" => Some(0),
        Value::Str(word) if word == "open" => Some(2),
        Value::List(_) => Some(1),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Str(_)
        | Value::Map(_) => None,
    }
}

/// The place of a mode in the order of strictness; `tool` is 1.
fn mode(node: &Node) -> Option<u8> {
    let word = text(node)?;
    let (_, mode) = APPROVAL_MODES.iter().find(|(known, _)| *known == word)?;
    Some(*mode as u8)
}

/// What a rule about a tool or a risk decides; `None` for a mistake, which is told elsewhere.
fn consent(node: &Node) -> Option<Verdict> {
    approval_verdict(&mut Reports::default(), node, "")
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
