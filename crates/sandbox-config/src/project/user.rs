//! The user file: preferences, and upper limits for every project. Its values are met with the
//! project's tree before that is read: then every value that a reader sees, from any layer, is at
//! most the user file's, and has its origin.
//!
//! The rows in `keys/` say the role of each key, and the meet of two values. A key without a role is
//! refused.

use crate::grant::Grant;
use crate::grant::confinement::UnixSockets;
use crate::grant::git::meet;
use crate::grant::network::NetworkAccess;
use crate::grant::verdict::{ApprovalMode, ApprovalPolicy};
use crate::keys::{self, canonical};
use crate::loading::load_context::LoadContext;
use crate::loading::location::ProjectLocation;
use crate::loading::sources::{Sources, TrustedSettings};
use crate::loading::user_limits::{OF_MOUNTS, role};
use crate::project::ceiling::read_project;
use crate::project::layers::{Overlay, find_mut, is_blocked, merge_entries, overlay_value};
use crate::project::settings::built_in;
use crate::provider::read::project_part;
use crate::settings::git;
use crate::settings::sections::{APPROVAL_MODES, approval_verdict};
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::fields::{MappingFields, Reports};
use crate::syntax::key_table::{MeetRule, UserKeyRole};
use crate::syntax::read::read;
use crate::syntax::text::{Layer, Span};
use crate::syntax::yaml::{self, YamlEntry, YamlNode, YamlValue};
use sandbox_network::{AskableHosts, HostPattern, HostRules};
use std::sync::Arc;

/// A user file that holds no mistake.
#[derive(Debug)]
pub(crate) struct UserFile {
    tree: YamlNode,
    /// The ceiling that it would be as a project: the readers are shared.
    ceiling: Grant,
}

/// Read it, if it is there. Its mistakes are noted.
pub(crate) fn user_file(
    reports: &mut Reports,
    sources: &Sources,
    found: &ProjectLocation,
) -> Option<UserFile> {
    let path = sources.user_file.as_ref()?;
    // Absent is the ordinary case; anything else that cannot be read is a mistake.
    if std::fs::symlink_metadata(path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        return None;
    }
    let parsed = read(path, &found.show(path), Layer::User).and_then(|text| yaml::parse(&text));
    let tree = reports.take(parsed)??;
    let before = reports.errors();
    MappingFields::open(reports, &tree, "", &keys::USER)?;
    let tree = of_known_keys(tree);
    // It is the user's own, so no yes is asked for.
    let trusting = Sources {
        trust: TrustedSettings::Given,
        ..sources.clone()
    };
    let mut own = LoadContext::new(&trusting, &found.dir);
    let nowhere = found.without_file();
    let ceiling = read_project(&mut own, &tree, &nowhere).ceiling;
    // The readers read a whole project; only their reports about this text are of interest.
    let about_this = own
        .reports
        .into_list()
        .into_iter()
        .filter(|one| one.layer() == Some(Layer::User));
    let about_this: Vec<_> = about_this.filter(|one| !reports.has(one)).collect();
    reports.extend(about_this);
    if reports.errors() == before {
        for leaf in user_values(&tree) {
            leaf.check(reports);
        }
    }
    (reports.errors() == before).then_some(UserFile { tree, ceiling })
}

/// Leaves out the keys that were reported as unknown: the mistakes of the others are told, too.
fn of_known_keys(mut tree: YamlNode) -> YamlNode {
    let known = |key: &str| keys::USER.list.iter().any(|row| row.name == key);
    if let YamlValue::Map(entries) = &mut tree.value {
        entries.retain(|entry| entry.key.starts_with("x-") || known(canonical(None, &entry.key)));
    }
    tree
}

/// A value of the user file with its role; `None` if the key is absent.
struct UserValue<'n> {
    keys: Vec<&'n YamlEntry>,
    node: &'n YamlNode,
    role: Option<UserKeyRole>,
    /// The default of its row.
    default: &'static str,
}

/// Every value, as deep as the table knows it.
fn user_values(tree: &YamlNode) -> Vec<UserValue<'_>> {
    fn below<'n>(node: &'n YamlNode, keys: &mut Vec<&'n YamlEntry>, list: &mut Vec<UserValue<'n>>) {
        let (row, role) = role(&names(keys)).unzip();
        match (&node.value, role) {
            (YamlValue::Map(entries), None) => {
                for entry in entries.iter().filter(|entry| !entry.key.starts_with("x-")) {
                    keys.push(entry);
                    below(&entry.node, keys, list);
                    keys.pop();
                }
            }
            // A section without keys.
            (YamlValue::Null, None) => {}
            (_, role) => list.push(UserValue {
                keys: keys.clone(),
                node,
                role,
                default: row.map_or("", |row| row.default),
            }),
        }
    }
    let mut list = Vec::new();
    below(tree, &mut Vec::new(), &mut list);
    list
}

/// In their documented spelling.
fn names<'n>(keys: &[&'n YamlEntry]) -> Vec<&'n str> {
    let mut names: Vec<&str> = Vec::new();
    for entry in keys {
        names.push(canonical(names.last().copied(), &entry.key));
    }
    names
}

impl UserValue<'_> {
    fn names(&self) -> Vec<&str> {
        names(&self.keys)
    }

    fn dotted(&self) -> String {
        self.names().join(".")
    }

    fn check(&self, reports: &mut Reports) {
        match self.role {
            Some(UserKeyRole::Limit(meet)) => self.check_limit(reports, meet),
            Some(UserKeyRole::Preference | UserKeyRole::Whole | UserKeyRole::Own) => {}
            Some(UserKeyRole::No(why)) => self.refuse(reports, why),
            None => self.refuse(
                reports,
                "your own file names preferences, and what holds at most in every project",
            ),
        }
    }

    fn refuse(&self, reports: &mut Reports, why: &str) {
        let Some(last) = self.keys.last() else { return };
        let message = format!("`{}` belongs to a project file", self.dotted());
        let mistake = DiagnosticCode::UnknownKey.at(&last.key_span, message);
        reports.add(mistake.help(why));
    }

    fn check_limit(&self, reports: &mut Reports, meet: MeetRule) {
        let gives_nothing = match (meet, &self.node.value) {
            (MeetRule::Network, YamlValue::Bool(on)) => *on,
            (MeetRule::Sockets, _) => sockets(self.node) == Some(UnixSockets::Open),
            (MeetRule::Least, _) => false,
            _ => strictness(meet, self.node) == Some(0.0),
        };
        if gives_nothing {
            let message = format!("`{}` has no effect in the user file", self.dotted());
            let mistake = DiagnosticCode::NoEffect
                .warning(message)
                .at(&self.node.span);
            reports
                .add(mistake.help(
                    "your own file says what holds at most; a project or a flag asks for it",
                ));
        }
        if let (MeetRule::Blocked, YamlValue::List(rules)) = (meet, &self.node.value) {
            for rule in rules.iter().filter(|rule| !is_blocked(rule)) {
                reports.add(
                    DiagnosticCode::BadValue.at(&rule.span, "rules of your own file only block")
                    .help(
                        "write `approval: blocked`; what is asked or allowed belongs to a project",
                    ),
                );
            }
        }
    }

    /// Returns `true` if the value is stricter than the project's default.
    fn narrows_default(&self, meet: MeetRule) -> bool {
        match meet {
            // Off, and nothing passed, are the defaults.
            MeetRule::Network | MeetRule::Sockets | MeetRule::Within | MeetRule::Repositories => {
                false
            }
            MeetRule::Unite | MeetRule::Only | MeetRule::Blocked => true,
            MeetRule::Mode | MeetRule::Consent | MeetRule::Stricter(_) | MeetRule::Least => {
                let default = strictness(meet, &built_in(self.default)).unwrap_or_default();
                strictness(meet, self.node).is_some_and(|own| own > default)
            }
        }
    }
}

impl UserFile {
    /// Its preferences, for the layering.
    pub(crate) fn preferences(&self) -> impl Iterator<Item = (String, &YamlNode)> {
        user_values(&self.tree)
            .into_iter()
            .filter(|leaf| matches!(leaf.role, Some(UserKeyRole::Preference)))
            .map(|leaf| (leaf.dotted(), leaf.node))
    }

    /// Narrows the rights that are not read from the trees: the tool axis, which is met where calls
    /// are judged, and the hosts of the user's rules for the project.
    pub(crate) fn meet_grant(&self, ceiling: &mut Grant) {
        if self.tree.entry("network").is_some() {
            ceiling.network = ceiling.network.meet(&self.ceiling.network);
            let ports = &self.ceiling.published_ports;
            ceiling.published_ports = ceiling.published_ports.meet(ports);
            let askable = AskableHosts::clone(&ceiling.askable_hosts);
            ceiling.askable_hosts = Arc::new(match &self.ceiling.network {
                NetworkAccess::Unrestricted => askable,
                NetworkAccess::Hosts(rules) => askable.within(rules.clone()),
                NetworkAccess::Denied => askable.within(HostRules::default()),
            });
        }
        let shell = self.tree.entry("shell");
        let variables = shell.and_then(|shell| shell.node.entry("env"));
        if variables.is_some_and(|variables| variables.node.entry("pass").is_some()) {
            let own = self.ceiling.environment.pass();
            let mut environment = ceiling.environment.as_ref().clone();
            environment.pass.retain(|name| own.contains(name));
            ceiling.environment = environment.into();
        }
        let approval = ApprovalPolicy::clone(&ceiling.approval);
        ceiling.approval = approval.at_most(&self.ceiling.approval).into();
    }

    /// Meet the tree of project, variables and flags with this one.
    pub(crate) fn meet(&self, context: &mut LoadContext<'_>, root: &mut YamlNode) {
        for leaf in user_values(&self.tree) {
            match leaf.role {
                Some(UserKeyRole::Preference) if find_mut(root, &leaf.names()).is_none() => {
                    insert(root, &leaf, leaf.node.clone());
                }
                Some(UserKeyRole::Whole) => replace_provider(&mut context.reports, root, &leaf),
                Some(UserKeyRole::Preference | UserKeyRole::Own | UserKeyRole::No(_)) | None => {}
                Some(UserKeyRole::Limit(rule)) => {
                    let mut limit = UserLimit {
                        context: &mut *context,
                        leaf: &leaf,
                        rule,
                        held: &self.ceiling,
                    };
                    limit.apply(root);
                }
            }
        }
        drop_second_spelling(root);
    }
}

/// A provider that the user names is theirs whole: of the project's values only flags and variables
/// stay.
fn replace_provider(reports: &mut Reports, root: &mut YamlNode, leaf: &UserValue<'_>) {
    let Some(there) = find_mut(root, &leaf.names()) else {
        return insert(root, leaf, leaf.node.clone());
    };
    if let Some(asked) = project_part(there) {
        let key = leaf.dotted();
        let message = format!("`{key}` is named in your own file, too: your own file holds");
        reports.add(
            DiagnosticCode::AboveUserFile
                .warning(message)
                .at(asked)
                .related(&leaf.node.span, "your own file"),
        );
    }
    let rest = without_project(there);
    *there = leaf.node.clone();
    if let Some(node) = rest {
        insert(root, leaf, node);
    }
}

/// Returns the user's part of it for this run.
fn without_project(node: &YamlNode) -> Option<YamlNode> {
    let YamlValue::Map(entries) = &node.value else {
        return project_part(node).is_none().then(|| node.clone());
    };
    let kept = |entry: &YamlEntry| {
        Some(YamlEntry {
            node: without_project(&entry.node)?,
            ..entry.clone()
        })
    };
    let entries: Vec<YamlEntry> = entries.iter().filter_map(kept).collect();
    // The mapping itself may be the project's; its remaining entries are not.
    let span = entries.first()?.node.span.clone();
    Some(YamlNode {
        value: YamlValue::Map(entries),
        span,
    })
}

/// A setting that a project may spell in another way, with one value for both.
const SECOND_SPELLING: (&[&str], &str) = (&["execution", "mode"], "execution_mode");

/// One limit of the user file at the tree of project, variables and flags.
struct UserLimit<'m, 's> {
    context: &'m mut LoadContext<'s>,
    leaf: &'m UserValue<'m>,
    rule: MeetRule,
    /// The user file as a project's rights.
    held: &'m Grant,
}

impl UserLimit<'_, '_> {
    fn apply(&mut self, root: &mut YamlNode) {
        let names = self.leaf.names();
        let (first, second) = SECOND_SPELLING;
        let mut is_said = false;
        if names == first
            && let Some(there) = find_mut(root, &[second])
        {
            is_said = true;
            self.meet(there);
        }
        if let [section, rest @ ..] = names.as_slice()
            && *section == "sandbox"
            && rest.first().is_some_and(|key| OF_MOUNTS.contains(key))
        {
            for mount in mounts(root) {
                if let Some(there) = find_mut(mount, rest) {
                    self.meet(there);
                }
            }
        }
        if let Some(there) = find_mut(root, &names) {
            self.meet(there);
        } else if !is_said && is_offered(root, &names) && self.leaf.narrows_default(self.rule) {
            insert(root, self.leaf, self.leaf.node.clone());
        }
    }

    /// Keeps the part of a value that the user's own leaves, by the meet of its type; reports a
    /// value that asked for more.
    fn meet(&mut self, there: &mut YamlNode) {
        let own = self.leaf.node;
        match (self.rule, &own.value, &there.value) {
            (MeetRule::Network, YamlValue::Map(_), YamlValue::Map(_)) => self.meet_hosts(there),
            (MeetRule::Sockets, YamlValue::List(held), YamlValue::List(_)) => {
                let held = sockets_named(held);
                let named = |item: &YamlNode| sockets_named(std::slice::from_ref(item));
                self.keep(&own.span, there, |item| named(item).is_within(&held));
            }
            (MeetRule::Within | MeetRule::Only, YamlValue::List(held), _) => {
                let held: Vec<&str> = held.iter().filter_map(YamlNode::as_str).collect();
                let is_held = |item: &str| held.contains(&item);
                self.keep(&own.span, there, |item| item.as_str().is_none_or(is_held));
            }
            (MeetRule::Repositories, ..) => self.meet_repositories(there),
            (MeetRule::Unite | MeetRule::Blocked, ..) => add(own, there),
            _ if self.is_above(there) => {
                self.report(&own.span, &there.span);
                self.replace(there);
            }
            _ => {}
        }
    }

    /// Returns `true` if a value that is one right asks for more than the user's own.
    fn is_above(&self, there: &YamlNode) -> bool {
        let own = self.leaf.node;
        match self.rule {
            MeetRule::Network => matches!(
                (&own.value, &there.value),
                (
                    YamlValue::Bool(false),
                    YamlValue::Map(_) | YamlValue::Bool(true)
                ) | (YamlValue::Map(_), YamlValue::Bool(true))
            ),
            MeetRule::Sockets => sockets(own)
                .zip(sockets(there))
                .is_some_and(|(own, there)| !there.is_within(&own)),
            rule => strictness(rule, own)
                .zip(strictness(rule, there))
                .is_some_and(|(own, there)| there < own),
        }
    }

    fn replace(&self, there: &mut YamlNode) {
        let own = self.leaf.node;
        match self.rule {
            // `manual` and `deny` together ask and then refuse; the grant holds both.
            MeetRule::Mode if mode(there) == Some(ApprovalMode::Manual) => {}
            // The origin stays the project's: a part of a project's request needs a yes as well.
            MeetRule::Network | MeetRule::Sockets => {
                let span = std::mem::replace(there, own.clone()).span;
                relocate(there, &span);
            }
            _ => *there = own.clone(),
        }
    }

    /// Keeps the items of a list that are held, and reports the others.
    fn keep(&mut self, own: &Span, list: &mut YamlNode, is_held: impl Fn(&YamlNode) -> bool) {
        if let YamlValue::List(items) = &mut list.value {
            let lost = items.iter().filter(|item| !is_held(item));
            lost.for_each(|item| self.report(own, &item.span));
            items.retain(is_held);
        }
    }

    /// Keeps the repositories of a list that are held, with the smaller access.
    fn meet_repositories(&mut self, there: &mut YamlNode) {
        let YamlValue::List(items) = &mut there.value else {
            return;
        };
        let mut kept = Vec::new();
        for item in items.drain(..) {
            // The readers report an invalid item.
            let Some(wish) = git::request(self.context, &item) else {
                kept.push(item);
                continue;
            };
            let mut violations = Vec::new();
            let held = &self.held.repositories;
            let met = meet(held, std::slice::from_ref(&wish), &mut violations);
            if !violations.is_empty() {
                self.report(&self.leaf.node.span, &item.span);
            }
            match met.first() {
                Some(one) if one.access < wish.access => kept.push(read_only(item)),
                Some(_) => kept.push(item),
                None => {}
            }
        }
        *items = kept;
    }

    /// Keeps the hosts and ports that are held, and adds the hosts that the user's own file denies.
    fn meet_hosts(&mut self, there: &mut YamlNode) {
        let leaf = self.leaf.node;
        let own = |key: &str| leaf.entry(key).map_or(&leaf.span, |entry| &entry.node.span);
        let mut reaches_any = false;
        for key in ["allow", "loopback_out", "loopback_in"] {
            let Some(list) = find_mut(there, &[key]) else {
                continue;
            };
            if key == "loopback_in" {
                let ports = &self.held.published_ports;
                let is_held = |item: &YamlNode| port(item).is_some_and(|port| ports.has(port));
                self.keep(own(key), list, is_held);
            } else if let YamlValue::List(items) = &mut list.value {
                self.keep_hosts(own("allow"), items);
            }
            reaches_any |= list.as_list().is_some_and(|items| !items.is_empty());
        }
        if !reaches_any {
            // An empty list, where the user's own file has one of hosts that the project does not name.
            there.value = match leaf.entry("allow") {
                Some(list) => {
                    let mut list = list.clone();
                    list.node.value = YamlValue::List(Vec::new());
                    YamlValue::Map(vec![list])
                }
                None => YamlValue::Bool(false),
            };
            there.span = leaf.span.clone();
            return;
        }
        let names_any =
            |entry: &&YamlEntry| entry.node.as_list().is_some_and(|list| !list.is_empty());
        if let Some(denied) = leaf.entry("deny").filter(names_any) {
            if let Some(there) = find_mut(there, &["deny"]) {
                add(&denied.node, there);
            } else if let YamlValue::Map(entries) = &mut there.value {
                entries.push(denied.clone());
            }
        }
    }

    /// Keeps the hosts of a list that are held; those that the user's own file denies are denied
    /// apart.
    fn keep_hosts(&mut self, own: &Span, items: &mut Vec<YamlNode>) {
        let held = &self.held.network;
        let mut kept = Vec::new();
        for item in items.drain(..) {
            // The readers report an invalid item.
            let pattern = item.as_str().and_then(|text| HostPattern::parse(text).ok());
            let asked = NetworkAccess::hosts(pattern);
            if !asked.asks_beyond(held) {
                kept.push(item);
                continue;
            }
            self.report(own, &item.span);
            if let NetworkAccess::Hosts(rules) = asked.meet(held) {
                kept.extend(rules.allowed().iter().map(|pattern| YamlNode {
                    value: YamlValue::Str(pattern.to_string()),
                    span: item.span.clone(),
                }));
            }
        }
        *items = kept;
    }

    fn report(&mut self, own: &Span, asked: &Span) {
        let key = self.leaf.dotted();
        let above = DiagnosticCode::AboveUserFile;
        let message = format!("`{key}` asks for more than your own file allows");
        let diagnostic = match asked.layer() {
            Layer::Environment | Layer::CommandLine => above
                .error(message)
                .help("ask for less, or change that line of your own file"),
            Layer::Default | Layer::User | Layer::Project => {
                above.warning(format!("{message}: your own file holds"))
            }
        };
        self.context
            .report(diagnostic.at(asked).related(own, "your own file"));
    }
}

/// Returns the entries of the named front-ends for each mount.
fn mounts(root: &mut YamlNode) -> impl Iterator<Item = &mut YamlNode> {
    let sandbox = find_mut(root, &["sandbox"]).map(|section| &mut section.value);
    let keys = match sandbox {
        Some(YamlValue::Map(entries)) => entries.as_mut_slice(),
        _ => &mut [],
    };
    keys.iter_mut()
        .filter(|entry| matches!(entry.key.as_str(), "zones" | "paths"))
        .filter_map(|entry| match &mut entry.node.value {
            YamlValue::Map(mounts) => Some(mounts),
            _ => None,
        })
        .flatten()
        .map(|mount| &mut mount.node)
}

/// A shell is the project's to offer: no key of a user file may bring one about.
fn is_offered(root: &mut YamlNode, names: &[&str]) -> bool {
    let mut is_said = |key| find_mut(root, &["shell", key]).is_some();
    names.first() != Some(&"shell") || is_said("rules") || is_said("default") || is_said("allow")
}

/// Removes the second spelling of a key if the user file has limited both.
fn drop_second_spelling(root: &mut YamlNode) {
    let (first, second) = SECOND_SPELLING;
    let of_user = |node: Option<&mut YamlNode>| {
        node.is_some_and(|node| matches!(node.span.layer(), Layer::User))
    };
    if of_user(find_mut(root, first)) && of_user(find_mut(root, &[second])) {
        let kept = merge_entries(root).into_iter();
        root.value = YamlValue::Map(kept.filter(|entry| entry.key != second).collect());
    }
}

fn insert(root: &mut YamlNode, leaf: &UserValue<'_>, node: YamlNode) {
    let names = leaf.names().into_iter().map(str::to_owned);
    let spans = leaf.keys.iter().map(|entry| entry.key_span.clone());
    let keys = names.zip(spans).collect();
    overlay_value(root, Overlay { keys, node });
}

/// Moves a value to another location.
fn relocate(node: &mut YamlNode, span: &Span) {
    node.span = span.clone();
    match &mut node.value {
        YamlValue::List(items) => items.iter_mut().for_each(|item| relocate(item, span)),
        YamlValue::Map(entries) => {
            for entry in entries {
                entry.key_span = span.clone();
                relocate(&mut entry.node, span);
            }
        }
        _ => {}
    }
}

/// Both lists.
fn add(own: &YamlNode, there: &mut YamlNode) {
    if let (YamlValue::List(own), YamlValue::List(items)) = (&own.value, &mut there.value) {
        for item in own {
            let said = item.to_json();
            if !items.iter().any(|other| other.to_json() == said) {
                items.push(item.clone());
            }
        }
    }
}

/// Returns the repository with read access. The origin stays.
fn read_only(item: YamlNode) -> YamlNode {
    let entry = |key: &str, value: YamlValue| YamlEntry {
        key: key.to_owned(),
        key_span: item.span.clone(),
        node: YamlNode {
            value,
            span: item.span.clone(),
        },
    };
    let mut entries = match &item.value {
        YamlValue::Map(entries) => entries.clone(),
        repo => vec![entry("repo", repo.clone())],
    };
    entries.retain(|entry| entry.key != "access");
    entries.push(entry("access", YamlValue::Str("ro".to_owned())));
    YamlNode {
        value: YamlValue::Map(entries),
        span: item.span,
    }
}

/// The place of a value in the order of its type, from the loosest on; `None` for a value that the
/// readers refuse.
fn strictness(meet: MeetRule, node: &YamlNode) -> Option<f64> {
    let place = match (meet, &node.value) {
        (MeetRule::Mode, _) => mode(node)? as usize,
        // A mistake is told elsewhere.
        (MeetRule::Consent, _) => approval_verdict(&mut Reports::default(), node, "")? as usize,
        (MeetRule::Stricter(order), YamlValue::Str(own)) => {
            order.iter().position(|word| word == own)?
        }
        (MeetRule::Stricter(order), YamlValue::Bool(own)) => {
            order.iter().position(|word| *word == own.to_string())?
        }
        (MeetRule::Least, YamlValue::Int(number)) => return Some(-(*number as f64)),
        (MeetRule::Least, YamlValue::Float(number)) => return Some(-number),
        // No limit.
        (MeetRule::Least, YamlValue::Null) => return Some(f64::NEG_INFINITY),
        _ => return None,
    };
    Some(place as f64)
}

fn mode(node: &YamlNode) -> Option<ApprovalMode> {
    let word = node.as_str()?;
    let known = APPROVAL_MODES.iter().find(|(known, _)| *known == word);
    known.map(|(_, mode)| *mode)
}

fn sockets(node: &YamlNode) -> Option<UnixSockets> {
    match &node.value {
        YamlValue::Str(word) if word == "closed" => Some(UnixSockets::Closed),
        YamlValue::Str(word) if word == "open" => Some(UnixSockets::Open),
        YamlValue::List(items) => Some(sockets_named(items)),
        _ => None,
    }
}

fn sockets_named(items: &[YamlNode]) -> UnixSockets {
    UnixSockets::named(items.iter().filter_map(YamlNode::as_str))
}

fn port(node: &YamlNode) -> Option<u16> {
    match node.value {
        YamlValue::Int(number) => u16::try_from(number).ok(),
        _ => None,
    }
}
