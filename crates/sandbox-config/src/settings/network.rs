//! `network: false | true | { allow, deny, loopback_out, loopback_in }`, in project and worker files.

use std::net::SocketAddr;

use crate::grant::network::{HostLine, MAX_ADDRESSES, MAX_PORTS, NetworkAccess, denied_hosts};
use crate::grant::published_ports::{MAX_PUBLISHED_PORTS, PublishedPorts};
use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::{self, MappingFields, Reports};
use crate::syntax::key_table::shape::PORTS;
use crate::syntax::text::{Layer, Span};
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue};
use sandbox_network::{AddressClass, DEFAULT_PORTS, HostPattern, HostRules};

/// More hosts than a person reviews; also keeps the meet of two lists small.
const MAX_HOSTS: usize = 256;

/// The value of `network` in a file.
#[derive(Debug)]
pub(crate) struct NetworkSetting {
    pub(crate) access: NetworkAccess,
    pub(crate) published_ports: PublishedPorts,
    /// The patterns in the order of the file.
    pub(crate) lines: Vec<HostLine>,
}

impl NetworkSetting {
    fn without_lists(access: NetworkAccess, published_ports: PublishedPorts) -> NetworkSetting {
        NetworkSetting {
            access,
            published_ports,
            lines: Vec::new(),
        }
    }

    /// Returns the value that a person agrees to; `None` if the network is off.
    fn value(&self) -> Option<String> {
        let ports = self.published_ports.to_string();
        match &self.access {
            NetworkAccess::Denied if ports.is_empty() => None,
            NetworkAccess::Denied => Some(format!("loopback_in: {ports}")),
            NetworkAccess::Unrestricted => Some("true".to_owned()),
            // A yes to hosts is not one to those that the file denied at that time.
            NetworkAccess::Hosts(_) if ports.is_empty() => Some(self.access.to_string()),
            NetworkAccess::Hosts(_) => Some(format!("{}; loopback_in: {ports}", self.access)),
        }
    }
}

/// Reads the key. `None` if a mistake has been noted.
pub(crate) fn network(reports: &mut Reports, entry: &YamlEntry) -> Option<NetworkSetting> {
    match &entry.node.value {
        YamlValue::Map(_) => hosts(reports, entry),
        YamlValue::Bool(true) => {
            let (access, ports) = (NetworkAccess::Unrestricted, PublishedPorts::Every);
            Some(NetworkSetting::without_lists(access, ports))
        }
        YamlValue::Bool(false) => {
            let ports = PublishedPorts::default();
            Some(NetworkSetting::without_lists(NetworkAccess::Denied, ports))
        }
        YamlValue::List(_) => reports.refuse(
            fields::wrong_type(&entry.node, "network", "true, false or a mapping")
                .help("write `network: { allow: […] }`"),
        ),
        YamlValue::Str(word) if fields::old_boolean(word).is_some() => {
            fields::boolean(reports, &entry.node, "network");
            None
        }
        _ => reports.refuse(fields::wrong_type(
            &entry.node,
            "network",
            "true, false or a mapping",
        )),
    }
}

fn hosts(reports: &mut Reports, entry: &YamlEntry) -> Option<NetworkSetting> {
    let section = MappingFields::open(reports, &entry.node, "network", &keys::NETWORK)?;
    let mut lines = Vec::new();
    let mut all_read = true;
    let mut read = |key: &'static str, one: fn(&str) -> Result<HostPattern, Problem>| {
        if section.get(key).is_some() {
            match patterns(reports, &section, key, one) {
                Some(more) => lines.extend(more),
                None => all_read = false,
            }
        }
    };
    read("allow", allowed);
    read("loopback_out", on_loopback);
    read("deny", denied);
    let ports = published_ports(reports, &section);
    if !all_read || !check_bounds(reports, &lines) {
        return None;
    }
    let ports = ports?;
    if !check_listeners(reports, &lines, &ports) {
        return None;
    }
    let allowed = allowed_lines(&lines).map(|line| line.pattern.clone());
    let access = NetworkAccess::hosts_except(allowed, denied_hosts(&lines));
    // An unknown key is a mistake, and its value can be the hosts.
    let keys = ["allow", "loopback_out", "deny", "loopback_in"];
    let is_known = keys.iter().any(|key| section.get(key).is_some());
    let is_empty = matches!(&entry.node.value, YamlValue::Map(list) if list.is_empty());
    if access == NetworkAccess::Denied && ports.is_empty() && (is_known || is_empty) {
        note_no_hosts(reports, &lines, &entry.node);
    }
    note_lost_ports(reports, &lines);
    note_top_level_domains(reports, &lines);
    Some(NetworkSetting {
        access,
        published_ports: PublishedPorts::Only(ports.into_iter().map(|(port, _)| port).collect()),
        lines,
    })
}

/// The reason why a text is not a pattern of a list, and a correction.
type Problem = (String, String);

/// Reads a list. `None` if a mistake has been noted.
fn patterns(
    reports: &mut Reports,
    section: &MappingFields<'_>,
    key: &'static str,
    read: fn(&str) -> Result<HostPattern, Problem>,
) -> Option<Vec<HostLine>> {
    let list = section.strings(reports, key)?;
    if let Some((_, node)) = list.get(MAX_HOSTS) {
        let message = format!("`network.{key}` names more than {MAX_HOSTS} hosts");
        return reports.refuse(DiagnosticCode::TooComplex.at(&node.span, message));
    }
    let mut patterns = Vec::new();
    let mut all_read = true;
    for (text, node) in list {
        match read(text) {
            Ok(pattern) => patterns.push(HostLine {
                key,
                pattern,
                origin: node.span.origin(),
            }),
            Err((message, help)) => {
                all_read = false;
                let bad = DiagnosticCode::BadValue.at(&node.span, message);
                reports.add(bad.help(help));
            }
        }
    }
    all_read.then_some(patterns)
}

/// Reads `loopback_in`. `None` if a mistake has been noted.
fn published_ports<'n>(
    reports: &mut Reports,
    section: &MappingFields<'n>,
) -> Option<Vec<(u16, &'n Span)>> {
    const KEY: &str = "network.loopback_in";
    let Some(entry) = section.get("loopback_in") else {
        return Some(Vec::new());
    };
    let items = fields::list(reports, &entry.node, KEY)?;
    if let Some(node) = items.get(MAX_PUBLISHED_PORTS) {
        let message = format!("`{KEY}` names more than {MAX_PUBLISHED_PORTS} ports");
        return reports.refuse(DiagnosticCode::TooComplex.at(&node.span, message));
    }
    let mut ports: Vec<(u16, &Span)> = Vec::new();
    let mut all_read = true;
    for node in items {
        let span = &node.span;
        let mistake = match port(node) {
            Err(mistake) => *mistake,
            Ok(port) if ports.iter().any(|(other, _)| *other == port) => {
                let message = format!("`{KEY}` names {port} twice");
                DiagnosticCode::BadValue
                    .error(message)
                    .help("remove one of them")
            }
            Ok(port) => {
                ports.push((port, span));
                continue;
            }
        };
        all_read = false;
        reports.add(mistake.at(span));
    }
    all_read.then_some(ports)
}

fn port(node: &YamlNode) -> Result<u16, Box<Diagnostic>> {
    let (text, number) = match node.value {
        YamlValue::Int(number) => (number.to_string(), u16::try_from(number).ok()),
        YamlValue::Float(number) => (number.to_string(), None),
        _ => {
            let wrong = fields::wrong_type(node, "network.loopback_in", "a port");
            let help = "write the number of a port alone: `loopback_in: [8080]`";
            return Err(Box::new(wrong.help(help)));
        }
    };
    let port = number.filter(|port| PORTS.contains(port));
    port.ok_or_else(|| {
        let (first, last) = (PORTS.start(), PORTS.end());
        let message =
            format!("{text} cannot be published: it is not a port from {first} to {last}");
        let help = match number {
            Some(_) => "let the server inside listen on another port, such as 8080",
            None => "write the port on which the server inside listens",
        };
        Box::new(DiagnosticCode::BadValue.error(message).help(help))
    })
}

/// Returns `true` if commands can listen on the published ports: on those of named hosts the network
/// broker does.
fn check_listeners(reports: &mut Reports, lines: &[HostLine], ports: &[(u16, &Span)]) -> bool {
    let mut rules = HostRules::default();
    allowed_lines(lines).for_each(|line| rules.allow(line.pattern.clone()));
    let (of_names, of_addresses) = (rules.ports(), rules.addresses());
    let is_taken = |port: &u16| {
        of_names.contains(port) || of_addresses.iter().any(|address| address.port() == *port)
    };
    let mut none_taken = true;
    for (port, span) in ports.iter().filter(|(port, _)| is_taken(port)) {
        none_taken = false;
        let message = format!("{port} cannot be published: it is a port of an allowed host");
        let error = DiagnosticCode::BadValue.at(span, message);
        reports.add(error.help(
            "commands connect to that host on it and cannot listen there: publish another port",
        ));
    }
    none_taken
}

fn parse(text: &str, refused: &str) -> Result<HostPattern, Problem> {
    HostPattern::parse(text).map_err(|problem| {
        let message = format!("`{text}` {refused}: {problem}");
        (message, problem.help().to_owned())
    })
}

fn allowed(text: &str) -> Result<HostPattern, Problem> {
    parse(text, "cannot be allowed")
}

fn denied(text: &str) -> Result<HostPattern, Problem> {
    let names_every_host = text == "*" || text.starts_with("*:");
    parse(text, "cannot be denied").map_err(|(message, help)| match names_every_host {
        true => (message, "write `network: false` to allow no host".into()),
        false => (message, help),
    })
}

fn on_loopback(text: &str) -> Result<HostPattern, Problem> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let message = format!("`{text}` is not a service: its host is missing");
        return Err((message, format!("write `localhost:{text}`")));
    }
    let pattern = parse(text, "is not a service")?;
    let addresses = pattern.addresses();
    let is_loopback =
        |address: &SocketAddr| AddressClass::of(address.ip()) == AddressClass::Loopback;
    if !addresses.is_empty() && addresses.iter().all(is_loopback) {
        return Ok(pattern);
    }
    let help = format!("write other hosts in `allow`: `allow: [\"{pattern}\"]`");
    let message = format!("`{text}` is not an address of this machine's loopback");
    Err((message, help))
}

/// Returns `true` if the lists need no more listeners than the network namespace of a command has.
fn check_bounds(reports: &mut Reports, lines: &[HostLine]) -> bool {
    let mut rules = HostRules::default();
    for line in allowed_lines(lines) {
        rules.allow(line.pattern.clone());
        let bounds = [
            (rules.ports().len(), MAX_PORTS, "ports"),
            (rules.addresses().len(), MAX_ADDRESSES, "addresses"),
        ];
        let exceeded = bounds.into_iter().find(|(count, most, _)| count > most);
        if let Some((_, most, of)) = exceeded {
            let message = format!("`network` names more than {most} {of}");
            let help = match of {
                "ports" => "a host without a port counts as 22, 80 and 443: name fewer ports",
                _ => "`localhost` counts as two addresses: name fewer of them",
            };
            let error = DiagnosticCode::TooComplex.error(message).help(help);
            reports.add(error.at_origin(&line.origin));
            return false;
        }
    }
    true
}

/// Warns about a port of a host that another line names on every port: programs that use no proxy
/// connect on the ports of that other line.
fn note_lost_ports(reports: &mut Reports, lines: &[HostLine]) {
    for HostLine {
        pattern, origin, ..
    } in allowed_lines(lines)
    {
        let lost = pattern.port().filter(|port| !DEFAULT_PORTS.contains(port));
        let mut others = allowed_lines(lines).map(|line| &line.pattern);
        let over = others.find(|other| other.port().is_none() && pattern.is_within(other));
        let (Some(port), Some(over)) = (lost, over) else {
            continue;
        };
        let message = format!(
            "`{pattern}` adds nothing to `{over}`, which programs that use no proxy reach on 22, 80 \
             and 443 only"
        );
        let warning = DiagnosticCode::NoEffect.warning(message).at_origin(origin);
        reports.add(warning.help(format!(
            "name each port of it instead: `{over}:443`, `{over}:{port}`"
        )));
    }
}

/// Top-level domains of networks that are not the internet (RFC 2606, RFC 6761, RFC 6762, RFC 8375).
const LOCAL_DOMAINS: [&str; 8] = [
    "corp",
    "home",
    "internal",
    "intranet",
    "lan",
    "local",
    "localhost",
    "test",
];

/// Warns about patterns that name every host of a top-level domain.
fn note_top_level_domains(reports: &mut Reports, lines: &[HostLine]) {
    for HostLine {
        pattern, origin, ..
    } in allowed_lines(lines)
    {
        let text = pattern.to_string();
        let host = text.split(':').next().unwrap_or_default();
        let below = host.strip_prefix("*.").unwrap_or_default();
        if below.is_empty() || below.contains('.') || LOCAL_DOMAINS.contains(&below) {
            continue;
        }
        let message =
            format!("`{pattern}` allows every host of a top-level domain, whoever owns it");
        let warning = DiagnosticCode::WideHosts.warning(message).at_origin(origin);
        reports.add(warning.help(format!(
            "name the hosts, or one domain: `*.example.{below}`"
        )));
    }
}

/// Warns about lists that leave no host. The project's hosts that the user's own file does not allow
/// have warnings of their own.
fn note_no_hosts(reports: &mut Reports, lines: &[HostLine], node: &YamlNode) {
    if node.span.layer() == Layer::User {
        return;
    }
    let first_denial = lines.iter().find(|line| line.is_denial());
    let allows = allowed_lines(lines).next().is_some();
    let warning = match first_denial.filter(|_| allows) {
        Some(line) => DiagnosticCode::NoEffect
            .warning("`network.deny` names every host of `network.allow`, so no host is allowed")
            .at_origin(&line.origin),
        None => DiagnosticCode::NoEffect
            .warning("`network` allows no host")
            .at(&node.span),
    };
    reports.add(warning.help("`network: false` says so"));
}

fn allowed_lines(lines: &[HostLine]) -> impl Iterator<Item = &HostLine> {
    lines.iter().filter(|line| !line.is_denial())
}

/// `network` of a project file: anything but off needs a yes.
pub(crate) fn project_network(
    context: &mut LoadContext<'_>,
    entry: Option<&YamlEntry>,
) -> (NetworkAccess, PublishedPorts) {
    let off = (NetworkAccess::Denied, PublishedPorts::default());
    let Some(entry) = entry else {
        return off;
    };
    let Some(setting) = network(&mut context.reports, entry) else {
        return off;
    };
    let value = setting.value();
    context.facts.network_lines = setting.lines;
    let Some(value) = value else {
        return off;
    };
    let rule = match setting.access {
        NetworkAccess::Denied => &trust_rules::PUBLISHED_PORTS,
        _ if !setting.published_ports.is_empty() => &trust_rules::NETWORK_AND_PORTS,
        NetworkAccess::Hosts(_) | NetworkAccess::Unrestricted => &trust_rules::NETWORK,
    };
    if context.agreed(rule, "network", &value, &entry.node.span) {
        (setting.access, setting.published_ports)
    } else {
        off
    }
}
