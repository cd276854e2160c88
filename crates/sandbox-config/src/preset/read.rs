//! Reads one preset file. All its mistakes are reported at once.

use std::path::Path;
use std::sync::Arc;

use sandbox_names::hex;
use sandbox_network::HostPattern;
use sha2::{Digest as _, Sha256};

use crate::keys::{
    HOLDS, INNER_SANDBOX, PRESET, PRESET_CREDENTIAL, PRESET_ENV, PRESET_HOSTS, PRESET_IDENTITY,
    PRESET_STATE, REGISTRY, SeenName, StateMode, UNPROTECTABLE, VERIFIED,
};
use crate::preset::server_url::{ServerUrl, is_origin};
use crate::preset::{
    HostGroup, Preset, PresetCredential, PresetHost, PresetState, RegistrySetting, VerifiedVersion,
};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, Diagnostics};
use crate::syntax::escape::is_hidden;
use crate::syntax::fields::{self, MappingFields, Reports};
use crate::syntax::key_table::shape::{HEADER, PLACEHOLDER, StringPattern, VARIABLE};
use crate::syntax::text::{SourceText, Span};
use crate::syntax::word::ConfigWord as _;
use crate::syntax::yaml::{self, YamlNode};

/// Bound on the entries of each list of a preset.
const MAX_ENTRIES: usize = 64;

/// Reads a preset from a text. `name` is the name that the file stands for.
pub(super) fn preset(text: &Arc<SourceText>, name: &str) -> Result<Preset, Diagnostics> {
    let mut reports = Reports::default();
    let tree = yaml::parse(text).map_err(|problem| Diagnostics::from(*problem))?;
    let read = match &tree {
        Some(tree) => read(&mut reports, tree, text, name),
        None => {
            let empty = Diagnostic::error(DiagnosticCode::Empty, "the preset holds no keys");
            reports.refuse(empty.at(&Span::start(text)))
        }
    };
    reports.finish()?;
    match read {
        Some(preset) => Ok(preset),
        None => {
            let message = format!("the preset `{name}` cannot be read");
            Err(Diagnostic::error(DiagnosticCode::BadValue, message).into())
        }
    }
}

fn read(
    reports: &mut Reports,
    tree: &YamlNode,
    text: &Arc<SourceText>,
    name: &str,
) -> Option<Preset> {
    let top = MappingFields::open(reports, tree, "", &PRESET)?;
    let own = line_of(reports, &top, "preset");
    if let Some(own) = own.as_ref().filter(|own| *own != name) {
        let message = format!("the preset is called `{own}`, and its file `{name}`");
        let bad = DiagnosticCode::BadValue.at(top.span_of("preset"), message);
        reports.add(bad.help("rename one of them"));
    }
    let about = line_of(reports, &top, "about");
    let inner = top.section(reports, "inner_sandbox", &INNER_SANDBOX);
    let env = top.section(reports, "env", &PRESET_ENV);
    let keys = lines_of(reports, env.as_ref(), "keys");
    let commands = lines(reports, &top, "commands");
    let mut preset = Preset {
        credentials: entries(reports, &top, "credentials", |reports, node| {
            credential(reports, node, &keys, &commands)
        }),
        file: text.path.clone(),
        sha256: hex(Sha256::digest(&text.text)),
        text: text.text.clone(),
        extends: lines(reports, &top, "extends"),
        verified: verified(reports, &top),
        commands,
        programs: programs(reports, &top),
        state: entries(reports, &top, "state", state),
        hosts: hosts(reports, &top),
        open_urls: entries(reports, &top, "open_urls", origin),
        registries: entries(reports, &top, "registries", registry),
        keys,
        pass: lines_of(reports, env.as_ref(), "pass"),
        set: variables(reports, env.as_ref(), "set"),
        inner_args: lines_of(reports, inner.as_ref(), "args"),
        inner_env: variables(reports, inner.as_ref(), "env"),
        identity: identity(reports, &top),
        protect: lines(reports, &top, "protect"),
        unprotect: unprotect(reports, &top),
        notes: lines(reports, &top, "notes"),
        name: own?,
        about: about?,
    };
    let of_project = names_in_project(&preset.state, &preset.unprotect);
    preset.protect.extend(of_project);
    Some(preset)
}

fn line_of(
    reports: &mut Reports,
    section: &MappingFields<'_>,
    key: &'static str,
) -> Option<String> {
    line(reports, &section.get(key)?.node, &section.dotted(key))
}

/// Reads a text without characters that a terminal obeys or does not show.
fn line(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<String> {
    let text = fields::string(reports, node, path)?;
    if text.trim().is_empty() || text.chars().any(is_hidden) {
        return reports.refuse(unfit(&node.span, path, "a line of text"));
    }
    Some(text.to_owned())
}

fn unfit(at: &Span, path: &str, expected: &str) -> Diagnostic {
    let message = format!("`{path}` must be {expected}");
    DiagnosticCode::BadValue.at(at, message)
}

fn lines_of(
    reports: &mut Reports,
    section: Option<&MappingFields<'_>>,
    key: &'static str,
) -> Vec<String> {
    section.map_or_else(Vec::new, |section| lines(reports, section, key))
}

/// Reads a list of texts; an absent one is empty.
fn lines(reports: &mut Reports, section: &MappingFields<'_>, key: &'static str) -> Vec<String> {
    let path = section.dotted(key);
    let list = items(reports, section, key);
    list.iter()
        .filter_map(|node| line(reports, node, &path))
        .collect()
}

fn items<'n>(
    reports: &mut Reports,
    section: &MappingFields<'n>,
    key: &'static str,
) -> &'n [YamlNode] {
    let Some(entry) = section.get(key) else {
        return &[];
    };
    let path = section.dotted(key);
    match fields::list(reports, &entry.node, &path) {
        Some(list) => fields::at_most(reports, &entry.node, &path, list, MAX_ENTRIES),
        None => &[],
    }
}

fn entries<T>(
    reports: &mut Reports,
    top: &MappingFields<'_>,
    key: &'static str,
    one: impl Fn(&mut Reports, &YamlNode) -> Option<T>,
) -> Vec<T> {
    let list = items(reports, top, key);
    list.iter().filter_map(|node| one(reports, node)).collect()
}

fn variables(
    reports: &mut Reports,
    section: Option<&MappingFields<'_>>,
    key: &'static str,
) -> Vec<(String, String)> {
    let Some((section, entry)) = section.and_then(|section| Some((section, section.get(key)?)))
    else {
        return Vec::new();
    };
    let path = section.dotted(key);
    let entries = fields::free_mapping(reports, &entry.node, &path).unwrap_or_default();
    let mut read = Vec::new();
    for entry in entries {
        let value = fields::string(reports, &entry.node, &fields::join(&path, &entry.key));
        if let Some(value) = value {
            read.push((entry.key.clone(), value.to_owned()));
        }
    }
    read
}

fn verified(reports: &mut Reports, top: &MappingFields<'_>) -> Option<VerifiedVersion> {
    let section = top.section(reports, "verified", &VERIFIED)?;
    let [tool, version, date] =
        ["tool", "version", "date"].map(|key| line_of(reports, &section, key));
    Some(VerifiedVersion {
        tool: tool?,
        version: version?,
        date: date?,
        how: line_of(reports, &section, "how"),
    })
}

/// Reads names of programs, and paths that begin with `/` or `~/`.
fn programs(reports: &mut Reports, top: &MappingFields<'_>) -> Vec<String> {
    let mut read = Vec::new();
    for node in items(reports, top, "programs") {
        let Some(text) = line(reports, node, "programs") else {
            continue;
        };
        let below = text.strip_prefix("~/").or_else(|| text.strip_prefix('/'));
        let is_plain = match below {
            Some(below) => is_inner(below),
            None => !text.contains('/') && text != "~",
        };
        if is_plain {
            read.push(text);
        } else {
            let form = "a name, or a path from `/` or `~/` on";
            reports.add(unfit(&node.span, "programs", form));
        }
    }
    read
}

/// Returns `true` if a relative path leads to something below its start.
fn is_inner(path: &str) -> bool {
    let mut parts = Path::new(path).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn state(reports: &mut Reports, node: &YamlNode) -> Option<PresetState> {
    let section = MappingFields::open(reports, node, "state", &PRESET_STATE)?;
    let path = line_of(reports, &section, "path");
    let path = path.and_then(|path| {
        let below = path.strip_prefix("~/").filter(|below| is_inner(below));
        if below.is_none() {
            let form = "a path below your home directory, from `~/` on";
            reports.add(unfit(section.span_of("path"), "state.path", form));
        }
        below.map(|below| below.trim_end_matches('/').to_owned())
    });
    let mode = section.word(reports, "mode", StateMode::WORDS);
    if let (Some(StateMode::Read | StateMode::Copy), Some(entry)) = (mode, section.get("protect")) {
        let message = "`state.protect` has no effect: commands do not change the original";
        let idle = Diagnostic::error(DiagnosticCode::BadValue, message).at(&entry.key_span);
        reports.add(idle.help("leave it out"));
    }
    Some(PresetState {
        holds: words(reports, &section, "holds", &HOLDS),
        protect: lines(reports, &section, "protect"),
        path: path?,
        mode: mode?,
    })
}

/// Returns the names that are protected in state of the person's, for the directory of that name in a
/// project that is not protected as a whole. An agent writes settings that are local to the project.
fn names_in_project(state: &[PresetState], unprotect: &[String]) -> Vec<String> {
    let given_back = state.iter().filter(|one| unprotect.contains(&one.path));
    let names = given_back.flat_map(|one| {
        let names = one.protect.iter().map(|name| name.trim_start_matches('/'));
        let names = names.filter(|name| !name.contains(".local."));
        names.map(|name| format!("{}/{name}", one.path))
    });
    names.collect()
}

/// Reads a list of words of a closed list.
fn words(
    reports: &mut Reports,
    section: &MappingFields<'_>,
    key: &'static str,
    known: &[&'static str],
) -> Vec<String> {
    let words: Vec<(&'static str, &'static str)> =
        known.iter().map(|word| (*word, *word)).collect();
    let path = section.dotted(key);
    let list = items(reports, section, key).iter();
    let read = list.filter_map(|node| fields::word(reports, node, &path, &words));
    read.map(str::to_owned).collect()
}

fn unprotect(reports: &mut Reports, top: &MappingFields<'_>) -> Vec<String> {
    let mut read = Vec::new();
    for node in items(reports, top, "unprotect") {
        match line(reports, node, "unprotect") {
            Some(name) if UNPROTECTABLE.contains(&name.as_str()) => read.push(name),
            Some(name) => {
                let message = format!("`{name}` is none of the names that `unprotect` is about");
                let bad = Diagnostic::error(DiagnosticCode::BadValue, message).at(&node.span);
                reports.add(bad.suggest(&name, UNPROTECTABLE));
            }
            None => {}
        }
    }
    read
}

fn hosts(reports: &mut Reports, top: &MappingFields<'_>) -> Vec<PresetHost> {
    let Some(section) = top.section(reports, "hosts", &PRESET_HOSTS) else {
        return Vec::new();
    };
    let mut read = Vec::new();
    for (group, key) in HostGroup::ALL {
        for node in items(reports, &section, key) {
            let Some(text) = line(reports, node, key) else {
                continue;
            };
            match HostPattern::parse(&text) {
                Ok(pattern) => read.push(PresetHost {
                    group,
                    pattern,
                    origin: node.span.origin(),
                }),
                Err(problem) => {
                    let message = format!("`{text}` is not a host: {problem}");
                    let bad = Diagnostic::error(DiagnosticCode::BadValue, message);
                    reports.add(bad.at(&node.span).help(problem.help()));
                }
            }
        }
    }
    read
}

fn origin(reports: &mut Reports, node: &YamlNode) -> Option<String> {
    let text = line(reports, node, "open_urls")?;
    if is_origin(&text) {
        return Some(text);
    }
    let message = format!("`{text}` is not an https origin");
    let bad = Diagnostic::error(DiagnosticCode::BadValue, message).at(&node.span);
    reports.refuse(bad.help("write `https://`, a host in lower case and maybe a port, and no path"))
}

fn registry(reports: &mut Reports, node: &YamlNode) -> Option<RegistrySetting> {
    let section = MappingFields::open(reports, node, "registries", &REGISTRY)?;
    Some(RegistrySetting {
        files: lines(reports, &section, "files"),
        keys: lines(reports, &section, "keys"),
        env: line_of(reports, &section, "env"),
        copy: line_of(reports, &section, "copy"),
        keep: lines(reports, &section, "keep"),
    })
}

/// Reads the names of the host and of the user.
fn identity(reports: &mut Reports, top: &MappingFields<'_>) -> [SeenName; 2] {
    let section = top.section(reports, "identity", &PRESET_IDENTITY);
    ["hostname", "user"].map(|key| {
        let section = section.as_ref();
        let word = section.and_then(|section| section.word(reports, key, SeenName::WORDS));
        word.unwrap_or(SeenName::Sandbox)
    })
}

/// Reads the keys that stay outside. `keys`: the variables of `env.keys`; `commands`: the programs
/// of the preset.
fn credential(
    reports: &mut Reports,
    node: &YamlNode,
    keys: &[String],
    commands: &[String],
) -> Option<PresetCredential> {
    let section = MappingFields::open(reports, node, "credentials", &PRESET_CREDENTIAL)?;
    let key = line_of(reports, &section, "key");
    let base_url = match section.get("base_url") {
        None => Some(None),
        Some(_) => fitting(reports, &section, "base_url", &VARIABLE, is_variable).map(Some),
    };
    let header = fitting(reports, &section, "header", &HEADER, is_header);
    let placeholder = fitting(
        reports,
        &section,
        "placeholder",
        &PLACEHOLDER,
        is_placeholder,
    );
    let args = lines(reports, &section, "args");
    let server = server(reports, &section);
    if section.get("base_url").is_none() {
        check_without_base_url(reports, &section, server.as_ref());
    }
    if let Some(key) = key.as_ref().filter(|key| !keys.contains(key)) {
        let message = format!("`env.keys` does not name `{key}`");
        let bad = DiagnosticCode::BadValue.at(section.span_of("key"), message);
        reports.add(bad.help("add it there: where the key cannot stay outside, it is handed in"));
    }
    Some(PresetCredential {
        key: key?,
        server: server?,
        base_url: base_url?,
        header: header?,
        placeholder: placeholder?,
        args,
        commands: commands.to_vec(),
        origin: node.span.origin(),
    })
}

/// A program without a base URL speaks TLS to the server's own name, and takes no argument for it.
fn check_without_base_url(
    reports: &mut Reports,
    section: &MappingFields<'_>,
    server: Option<&ServerUrl>,
) {
    let has_name = |server: &ServerUrl| server.is_https() && server.host().as_name().is_some();
    let unnamed = server.is_some_and(|server| !has_name(server));
    let of_server = "an https URL with a name, without `base_url`";
    let wrong = [
        ("server", unnamed, of_server),
        ("args", true, "absent, without `base_url`"),
    ];
    for (key, is_wrong, form) in wrong {
        if let Some(entry) = section.get(key).filter(|_| is_wrong) {
            reports.add(unfit(&entry.node.span, &section.dotted(key), form));
        }
    }
}

fn server(reports: &mut Reports, section: &MappingFields<'_>) -> Option<ServerUrl> {
    let text = line_of(reports, section, "server")?;
    match (ServerUrl::parse(&text), section.get("server")) {
        (Ok(server), _) => Some(server),
        (Err(why), entry) => {
            let message = format!("`{text}` cannot be the server of a key: {why}");
            let bad = Diagnostic::error(DiagnosticCode::BadValue, message);
            reports.refuse(bad.at_any(entry.map(|entry| &entry.node.span)))
        }
    }
}

/// Reads a text of a form.
fn fitting(
    reports: &mut Reports,
    section: &MappingFields<'_>,
    key: &'static str,
    form: &StringPattern,
    is_of_form: fn(&str) -> bool,
) -> Option<String> {
    let text = line_of(reports, section, key)?;
    if is_of_form(&text) {
        return Some(text);
    }
    reports.refuse(unfit(section.span_of(key), &section.dotted(key), form.noun))
}

fn is_variable(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !["PATH", "HOME", "TMPDIR"].contains(&text)
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(is_word)
}

fn is_header(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 64 && text.bytes().all(is_of_name)
}

fn is_placeholder(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (8..=256).contains(&text.len()) && text.bytes().all(is_plain)
}
