//! The user file: preferences, and upper limits for every project. Its values are met with the
//! project's tree before that is read: then every value that a reader sees, from any layer, is at
//! most the user file's, and has its origin.
//!
//! The rows in `keys/` say the role of each key, and the meet of two values. A key without a role is
//! refused.

use crate::grant::Grant;
use crate::grant::mount::Mode;
use crate::grant::network::NetworkAccess;
use crate::grant::verdict::{ApprovalPolicy, Verdict};
use crate::keys::{self, canonical};
use crate::loading::load_context::LoadContext;
use crate::loading::location::ProjectLocation;
use crate::loading::sources::{Sources, TrustedSettings};
use crate::loading::user_limits::{OF_MOUNTS, role};
use crate::project::ceiling::read_project;
use crate::project::layers::{Overlay, is_blocked, merge_entries, overlay_value};
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
    if reports.errors() > before {
        return None;
    }
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
    reports.extend(about_this);
    if reports.errors() == before {
        for leaf in user_values(&tree) {
            leaf.check(reports);
        }
    }
    (reports.errors() == before).then_some(UserFile { tree, ceiling })
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
            (MeetRule::Network | MeetRule::False, YamlValue::Bool(true))
            | (MeetRule::True, YamlValue::Bool(false)) => true,
            (MeetRule::Mode, _) => mode(self.node) == Some(0),
            (MeetRule::Consent, _) => consent(self.node) == Some(Verdict::Allow),
            (MeetRule::Sockets, _) => sockets(self.node) == Some(2),
            (MeetRule::Stricter(order), YamlValue::Str(word)) => strictness(order, word) == Some(0),
            _ => false,
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
                Some(UserKeyRole::Preference) if find(root, &leaf.names()).is_none() => {
                    insert(root, &leaf);
                }
                Some(UserKeyRole::Whole) => replace_provider(&mut context.reports, root, &leaf),
                Some(UserKeyRole::Preference | UserKeyRole::Own | UserKeyRole::No(_)) | None => {}
                Some(UserKeyRole::Limit(MeetRule::Repositories)) => {
                    if let Some(there) = find(root, &leaf.names()) {
                        within_repositories(context, &leaf, there);
                    }
                }
                Some(UserKeyRole::Limit(meet)) => limit(&mut context.reports, root, &leaf, meet),
            }
        }
        drop_second_spelling(root);
    }
}

/// A provider that the user names is theirs whole: of the project's values only flags and variables
/// stay.
fn replace_provider(reports: &mut Reports, root: &mut YamlNode, leaf: &UserValue<'_>) {
    let Some(there) = find(root, &leaf.names()) else {
        return insert(root, leaf);
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
        let names = leaf.names().into_iter().map(str::to_owned);
        let spans = leaf.keys.iter().map(|entry| entry.key_span.clone());
        let keys = names.zip(spans).collect();
        overlay_value(root, Overlay { keys, node });
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

fn limit(reports: &mut Reports, root: &mut YamlNode, leaf: &UserValue<'_>, meet: MeetRule) {
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
    if !is_said && is_offered(root, &names) && narrows_default(meet, leaf) {
        insert(root, leaf);
    }
}

/// Returns the entries of the named front-ends for each mount.
fn mounts(root: &mut YamlNode) -> impl Iterator<Item = &mut YamlNode> {
    let sandbox = find(root, &["sandbox"]).map(|section| &mut section.value);
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
    let mut is_said = |key| find(root, &["shell", key]).is_some();
    names.first() != Some(&"shell") || is_said("rules") || is_said("default") || is_said("allow")
}

/// Where both spellings were cut down to the user file's value, one is enough.
fn drop_second_spelling(root: &mut YamlNode) {
    let (first, second) = SECOND_SPELLING;
    let of_user = |node: Option<&mut YamlNode>| {
        node.is_some_and(|node| matches!(node.span.layer(), Layer::User))
    };
    if of_user(find(root, first)) && of_user(find(root, &[second])) {
        let kept = merge_entries(root).into_iter();
        root.value = YamlValue::Map(kept.filter(|entry| entry.key != second).collect());
    }
}

fn find<'t>(root: &'t mut YamlNode, keys: &[&str]) -> Option<&'t mut YamlNode> {
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

fn insert(root: &mut YamlNode, leaf: &UserValue<'_>) {
    let names = leaf.names().into_iter().map(str::to_owned);
    let spans = leaf.keys.iter().map(|entry| entry.key_span.clone());
    overlay_value(
        root,
        Overlay {
            keys: names.zip(spans).collect(),
            node: leaf.node.clone(),
        },
    );
}

/// Returns `true` if a value is stricter than the project's default.
fn narrows_default(meet: MeetRule, leaf: &UserValue<'_>) -> bool {
    let own = leaf.node;
    match meet {
        // Off, and nothing passed, are the defaults.
        MeetRule::Network
        | MeetRule::Sockets
        | MeetRule::Within
        | MeetRule::Repositories
        | MeetRule::False => false,
        MeetRule::Mode => mode(own) > Some(1),
        MeetRule::Consent => consent(own) > Some(Verdict::Allow),
        MeetRule::True => matches!(own.value, YamlValue::Bool(true)),
        MeetRule::Stricter(order) => {
            own.as_str().and_then(|own| strictness(order, own)) > strictness(order, leaf.default)
        }
        MeetRule::Least => {
            let default = leaf.default.parse().unwrap_or(f64::INFINITY);
            number(own).is_some_and(|own| own < default)
        }
        MeetRule::Unite | MeetRule::Only | MeetRule::Blocked => true,
    }
}

/// Keeps the stricter of two values; reports the one that asked for more.
fn meet_one(reports: &mut Reports, meet: MeetRule, leaf: &UserValue<'_>, there: &mut YamlNode) {
    let own = leaf.node;
    let exceeds = match meet {
        MeetRule::Network => match (network(own), network(there)) {
            (Some(1), Some(1)) => return within_hosts(reports, leaf, there),
            (own, there) => own.zip(there).is_some_and(|(own, there)| there > own),
        },
        MeetRule::Sockets => match (sockets(own), sockets(there)) {
            (Some(1), Some(1)) => return keep_within(reports, leaf, own, there),
            (own, there) => own.zip(there).is_some_and(|(own, there)| there > own),
        },
        MeetRule::Mode => mode(own)
            .zip(mode(there))
            .is_some_and(|(own, there)| there < own),
        MeetRule::Consent => {
            let both = consent(own).zip(consent(there));
            both.is_some_and(|(own, there)| there < own)
        }
        MeetRule::True => {
            matches!(own.value, YamlValue::Bool(true))
                && matches!(there.value, YamlValue::Bool(false))
        }
        MeetRule::False => {
            matches!(own.value, YamlValue::Bool(false))
                && matches!(there.value, YamlValue::Bool(true))
        }
        MeetRule::Stricter(order) => {
            let strictness = |node: &YamlNode| strictness(order, node.as_str()?);
            let both = strictness(own).zip(strictness(there));
            both.is_some_and(|(own, there)| there < own)
        }
        MeetRule::Least => {
            let both = number(own).zip(number(there));
            both.is_some_and(|(own, there)| there > own)
        }
        MeetRule::Within | MeetRule::Only => return keep_within(reports, leaf, own, there),
        // Needs to know where addresses lead.
        MeetRule::Repositories => return,
        MeetRule::Unite | MeetRule::Blocked => return add(own, there),
    };
    if exceeds {
        report(reports, leaf, &own.span, &there.span);
        // `manual` and `deny` together ask and then refuse; the grant holds both.
        match meet {
            MeetRule::Mode if mode(there) == Some(2) => {}
            // The origin stays the project's: a part of a project's request needs a yes as well.
            MeetRule::Network | MeetRule::Sockets => *there = with_location(own, &there.span),
            _ => *there = own.clone(),
        }
    }
}

/// Returns the value with another location.
fn with_location(node: &YamlNode, span: &Span) -> YamlNode {
    let value = match &node.value {
        YamlValue::List(items) => {
            YamlValue::List(items.iter().map(|item| with_location(item, span)).collect())
        }
        YamlValue::Map(entries) => YamlValue::Map(
            entries
                .iter()
                .map(|entry| YamlEntry {
                    key: entry.key.clone(),
                    key_span: span.clone(),
                    node: with_location(&entry.node, span),
                })
                .collect(),
        ),
        _ => node.value.clone(),
    };
    YamlNode {
        value,
        span: span.clone(),
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

/// Keeps the items of a list that the user's own list has, too.
fn keep_within(reports: &mut Reports, leaf: &UserValue<'_>, own: &YamlNode, there: &mut YamlNode) {
    let (YamlValue::List(own_items), YamlValue::List(items)) = (&own.value, &mut there.value)
    else {
        return;
    };
    let held: Vec<&str> = own_items.iter().filter_map(YamlNode::as_str).collect();
    items.retain(|item| {
        let stays = item.as_str().is_none_or(|item| held.contains(&item));
        if !stays {
            report(reports, leaf, &own.span, &item.span);
        }
        stays
    });
}

/// Keeps the repositories of a list that the user's own list has, too, with the smaller access.
fn within_repositories(context: &mut LoadContext<'_>, leaf: &UserValue<'_>, there: &mut YamlNode) {
    let (YamlValue::List(own), YamlValue::List(items)) = (&leaf.node.value, &mut there.value)
    else {
        return;
    };
    let held: Vec<(String, Mode)> = own
        .iter()
        .filter_map(|item| repository(context, item))
        .collect();
    let mut left = Vec::new();
    for item in items.drain(..) {
        // The readers report an invalid item.
        let Some((address, access)) = repository(context, &item) else {
            left.push(item);
            continue;
        };
        let at_most = held.iter().find(|(known, _)| *known == address);
        if at_most.is_none_or(|(_, most)| access > *most) {
            report(&mut context.reports, leaf, &leaf.node.span, &item.span);
        }
        match at_most {
            None => {}
            Some((_, most)) if access > *most => left.push(read_only(item)),
            Some(_) => left.push(item),
        }
    }
    *items = left;
}

/// Returns the address and the access of an item of `git.repositories`.
fn repository(context: &LoadContext<'_>, item: &YamlNode) -> Option<(String, Mode)> {
    let mut item = item.clone();
    let access = match find(&mut item, &["access"])
        .as_deref()
        .and_then(|node| node.as_str())
    {
        Some("ro") => Mode::ReadOnly,
        Some(_) | None => Mode::ReadWrite,
    };
    let address = match item.as_str() {
        Some(text) => git::locate(context, text),
        None => git::locate(
            context,
            find(&mut item, &["repo"])
                .as_deref()
                .and_then(|node| node.as_str())?,
        ),
    };
    Some((address.ok()?.address, access))
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
    let access = entry("access", YamlValue::Str("ro".to_owned()));
    let entries = match &item.value {
        YamlValue::Map(entries) => {
            let others = entries.iter().filter(|entry| entry.key != "access");
            others.cloned().chain([access]).collect()
        }
        other => vec![entry("repo", other.clone()), access],
    };
    YamlNode {
        value: YamlValue::Map(entries),
        span: item.span,
    }
}

/// Lists of `network` that name hosts to reach.
const REACHING: [&str; 2] = ["allow", "loopback_out"];

/// Keeps the hosts that the user's own lists reach, too, and adds the hosts that they deny.
fn within_hosts(reports: &mut Reports, leaf: &UserValue<'_>, there: &mut YamlNode) {
    let own_hosts = REACHING.iter().flat_map(|key| items(leaf.node, key));
    let own_denials = items(leaf.node, "deny");
    let held = NetworkAccess::hosts_except(
        own_hosts.filter_map(pattern),
        own_denials.iter().filter_map(pattern),
    );
    let mut reaches_any = false;
    for key in REACHING {
        if let Some(YamlValue::List(items)) = find(there, &[key]).map(|list| &mut list.value) {
            keep_hosts(reports, leaf, &held, items);
            reaches_any |= !items.is_empty();
        }
    }
    if let Some(YamlValue::List(ports)) = find(there, &["loopback_in"]).map(|list| &mut list.value)
    {
        keep_ports(reports, leaf, ports);
        reaches_any |= !ports.is_empty();
    }
    if !reaches_any {
        *there = YamlNode {
            value: YamlValue::Bool(false),
            span: leaf.node.span.clone(),
        };
        return;
    }
    if own_denials.is_empty() {
        return;
    }
    if let Some(own) = leaf.node.entry("deny") {
        match find(there, &["deny"]) {
            Some(there) => add(&own.node, there),
            None => {
                if let YamlValue::Map(entries) = &mut there.value {
                    entries.push(own.clone());
                }
            }
        }
    }
}

/// Keeps the hosts of a list that `held` reaches; those that `held` denies are denied apart.
fn keep_hosts(
    reports: &mut Reports,
    leaf: &UserValue<'_>,
    held: &NetworkAccess,
    items: &mut Vec<YamlNode>,
) {
    let own = leaf
        .node
        .entry("allow")
        .map_or(&leaf.node.span, |list| &list.node.span);
    let mut kept = Vec::new();
    for item in items.drain(..) {
        let asked = NetworkAccess::hosts(pattern(&item));
        if !asked.asks_beyond(held) {
            kept.push(item);
            continue;
        }
        report(reports, leaf, own, &item.span);
        if let NetworkAccess::Hosts(rules) = asked.meet(held) {
            kept.extend(rules.allowed().iter().map(|pattern| YamlNode {
                value: YamlValue::Str(pattern.to_string()),
                span: item.span.clone(),
            }));
        }
    }
    *items = kept;
}

/// Keeps the ports of a list that the user's own list publishes, too.
fn keep_ports(reports: &mut Reports, leaf: &UserValue<'_>, ports: &mut Vec<YamlNode>) {
    let own = leaf.node.entry("loopback_in");
    let at = own.map_or(&leaf.node.span, |list| &list.node.span);
    let held: Vec<f64> = items(leaf.node, "loopback_in")
        .iter()
        .filter_map(number)
        .collect();
    ports.retain(|port| {
        let is_held = number(port).is_some_and(|port| held.contains(&port));
        if !is_held {
            report(reports, leaf, at, &port.span);
        }
        is_held
    });
}

/// Returns the items of a list in a mapping.
fn items<'n>(node: &'n YamlNode, key: &str) -> &'n [YamlNode] {
    node.entry(key)
        .and_then(|entry| entry.node.as_list())
        .unwrap_or_default()
}

/// The readers have reported an invalid item.
fn pattern(item: &YamlNode) -> Option<HostPattern> {
    HostPattern::parse(item.as_str()?).ok()
}

fn report(reports: &mut Reports, leaf: &UserValue<'_>, own: &Span, asked: &Span) {
    let key = leaf.dotted();
    let diagnostic = match asked.layer() {
        Layer::Environment | Layer::CommandLine => DiagnosticCode::AboveUserFile
            .error(format!("`{key}` asks for more than your own file allows"))
            .help("ask for less, or change that line of your own file"),
        Layer::Default | Layer::User | Layer::Project => DiagnosticCode::AboveUserFile.warning(
            format!("`{key}` asks for more than your own file allows: your own file holds"),
        ),
    };
    reports.add(diagnostic.at(asked).related(own, "your own file"));
}

/// The place of a word in an order from the loosest to the strictest.
fn strictness(order: &[&str], word: &str) -> Option<usize> {
    order.iter().position(|known| *known == word)
}

/// 0: off; 1: some hosts; 2: on.
fn network(node: &YamlNode) -> Option<u8> {
    match &node.value {
        YamlValue::Bool(on) => Some(if *on { 2 } else { 0 }),
        YamlValue::Map(_) => Some(1),
        _ => None,
    }
}

/// 0: closed; 1: some sockets; 2: open.
fn sockets(node: &YamlNode) -> Option<u8> {
    match &node.value {
        YamlValue::Str(word) if word == "closed" => Some(0),
        YamlValue::Str(word) if word == "open" => Some(2),
        YamlValue::List(_) => Some(1),
        _ => None,
    }
}

/// The place of a mode in the order of strictness; `tool` is 1.
fn mode(node: &YamlNode) -> Option<u8> {
    let word = node.as_str()?;
    let (_, mode) = APPROVAL_MODES.iter().find(|(known, _)| *known == word)?;
    Some(*mode as u8)
}

/// Returns the verdict of a rule about a tool or a risk; `None` for a mistake, which is told
/// elsewhere.
fn consent(node: &YamlNode) -> Option<Verdict> {
    approval_verdict(&mut Reports::default(), node, "")
}

/// `null` means unlimited.
fn number(node: &YamlNode) -> Option<f64> {
    match &node.value {
        YamlValue::Int(number) => Some(*number as f64),
        YamlValue::Float(number) => Some(*number),
        YamlValue::Null => Some(f64::INFINITY),
        _ => None,
    }
}
