//! Reads `providers`: the configured values are laid over forge's built-in ones. Their author was
//! settled before (`project/user.rs`), so here a provider that contains a value of the project's
//! file is the project's.

use std::collections::BTreeMap;

use crate::keys;
use crate::loading::load_context::LoadContext;
use crate::loading::trust_rules::PROVIDER;
use crate::provider::{
    ApiKey, ModelProperties, ProviderSettings, Providers, TokenPrices, UnknownProvider, Wire,
    address, known,
};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::fields::{self, MappingFields, Reports};
use crate::syntax::key_table::KeyTable;
use crate::syntax::text::{Layer, Span};
use crate::syntax::word::ConfigWord;
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue, written_value};

/// Returns every provider: the built-in ones, and those of the merged tree.
pub(crate) fn providers(context: &mut LoadContext<'_>, top: &MappingFields<'_>) -> Providers {
    let mut all = Providers::built_in(&context.sources.env);
    let Some(entry) = top.get("providers") else {
        return all;
    };
    let named = fields::free_mapping(&mut context.reports, &entry.node, "providers");
    for entry in named.unwrap_or_default() {
        if !is_name(&entry.key) {
            context.report(bad_name(entry));
            continue;
        }
        let before = context.reports.errors();
        let base = all.by_name.get(&entry.key).cloned();
        let base = base.or_else(|| known::named(&entry.key));
        let Some(provider) = provider(&mut context.reports, entry, base) else {
            continue;
        };
        let name = entry.key.clone();
        // Its own mistakes come first.
        let part = project_part(&entry.node).filter(|_| context.reports.errors() == before);
        let agreed = part.is_none_or(|span| {
            let around = written_value(&entry.node).unwrap_or_default().to_string();
            let value = amounts_to(&provider, top);
            let key = format!("providers.{name}");
            context.agreed_with(&PROVIDER, &key, &value, &around, span)
        });
        if agreed {
            all.insert(provider);
        } else {
            all.refuse(&name, UnknownProvider::untrusted(&name));
        }
    }
    all
}

/// Lower case, so that variables find it (`FORGE__PROVIDERS__WORK__STREAM`).
fn is_name(name: &str) -> bool {
    crate::loading::worker_names::is_name(name) && name != "scripted"
}

fn bad_name(entry: &YamlEntry) -> Diagnostic {
    let bad = |message: String| DiagnosticCode::BadValue.at(&entry.key_span, message);
    if entry.key == "scripted" {
        bad("`scripted` is forge's own: `scripted:FILE` plays a playbook".to_owned())
    } else {
        bad(format!("`{}` cannot be a provider's name", entry.key))
            .help("lower-case letters, digits, `_` and `-`, a letter first, at most 64 of them")
    }
}

/// Where the project's file says something of it, if it does.
pub(crate) fn project_part(node: &YamlNode) -> Option<&Span> {
    if node.span.layer() == Layer::Project {
        return Some(&node.span);
    }
    match &node.value {
        YamlValue::Map(entries) => entries.iter().find_map(|entry| project_part(&entry.node)),
        YamlValue::List(items) => items.iter().find_map(project_part),
        _ => None,
    }
}

/// Returns the text that a person says yes to.
fn amounts_to(provider: &ProviderSettings, top: &MappingFields<'_>) -> String {
    let mut text = format!(
        "{} at {} with {}",
        provider.wire, provider.base_url, provider.key
    );
    if let Some(prices) = provider.properties.prices {
        let [input, output] = [prices.input, prices.output].map(|nano| nano as f64 / 1_000.0);
        text += &format!(", ${input} and ${output} for a million tokens");
    }
    let names_it = |model: &&str| {
        let of = model.split_once(':').map(|(provider, _)| provider);
        of == Some(provider.name.as_str())
    };
    let model = top.get("model").and_then(|entry| entry.node.as_str());
    if let Some(model) = model.filter(names_it) {
        text += &format!(", for `model: {model}`");
    }
    text
}

/// Reads one over `base`, the built-in one of its name.
fn provider(
    reports: &mut Reports,
    entry: &YamlEntry,
    base: Option<ProviderSettings>,
) -> Option<ProviderSettings> {
    let name = entry.key.as_str();
    let path = format!("providers.{name}");
    let fields = MappingFields::open(reports, &entry.node, &path, table(&entry.node))?;
    let wire = fields.word(reports, "wire", Wire::WORDS);
    let base_url = base_url(reports, &fields);
    for key in ["wire", "base_url"] {
        if base.is_none() && fields.get(key).is_none() {
            let message = format!("`{path}` needs `{key}`: forge knows no provider `{name}`");
            reports.add(DiagnosticCode::BadValue.at(&entry.key_span, message));
        }
    }
    let known_key = base.as_ref().map(|base| base.key.clone());
    let key = key(reports, &fields).or_else(|| {
        // A key of the person's does not follow to where a project points.
        let moved = fields.get("base_url").is_some_and(of_project);
        known_key.filter(|_| !moved)
    });
    let provider = ProviderSettings {
        name: name.to_owned(),
        wire: wire.or(base.as_ref().map(|base| base.wire))?,
        base_url: base_url.or(base.map(|base| base.base_url))?,
        key: key.unwrap_or(ApiKey::None),
        stream: fields.boolean(reports, "stream").unwrap_or(true),
        retry_s: fields.count(reports, "retry_s").unwrap_or(known::RETRY_S),
        properties: properties(reports, &fields),
        models: models(reports, &fields),
        origin: entry.key_span.origin(),
    };
    Some(provider)
}

/// A program that prints a key runs outside of every sandbox: only the person's own file names it.
fn table(node: &YamlNode) -> &'static KeyTable {
    match node
        .entry("api_key_command")
        .map(|entry| entry.node.span.layer())
    {
        Some(Layer::User) => &keys::USER_PROVIDER,
        Some(Layer::Default | Layer::Project | Layer::Environment | Layer::CommandLine) | None => {
            &keys::PROVIDER
        }
    }
}

fn of_project(entry: &YamlEntry) -> bool {
    entry.node.span.layer() == Layer::Project
}

fn base_url(reports: &mut Reports, fields: &MappingFields<'_>) -> Option<String> {
    let open_is_fine = fields.boolean(reports, "plain_http").unwrap_or(false);
    let text = fields.string(reports, "base_url")?;
    let span = &fields.get("base_url")?.node.span;
    let path = fields.dotted("base_url");
    let address = match address::parse(text) {
        Ok(address) => address,
        Err(problem) => {
            let message = format!("`{path}` is not an endpoint: {problem}");
            let unfit = DiagnosticCode::BadValue
                .at(span, message)
                .help("for example https://api.example.com/v1");
            // A password, or a key in a query.
            let may_hold_a_key = text.contains(['@', '?', '#']);
            return reports.refuse(match may_hold_a_key {
                true => unfit.hiding(),
                false => unfit,
            });
        }
    };
    if address.is_open && !open_is_fine {
        let message = format!("`{path}` would send everything, the key too, in the open");
        reports.add(
            DiagnosticCode::BadValue.at(span, message).help(
                "write `https://…`; in a network that you trust: `plain_http: true` beside it",
            ),
        );
    }
    Some(address.text)
}

/// Where the key comes from, if that is said.
fn key(reports: &mut Reports, fields: &MappingFields<'_>) -> Option<ApiKey> {
    let variable = fields.get("api_key_env");
    let command = fields.get("api_key_command");
    if let (Some(variable), Some(command)) = (variable, command) {
        reports.add(
            DiagnosticCode::BadValue
                .at(
                    &command.key_span,
                    "there is one key: `api_key_env` and `api_key_command` do not go together",
                )
                .related(&variable.key_span, "the other one"),
        );
    }
    if let Some(command) = command {
        let path = fields.dotted("api_key_command");
        let example = "[pass, show, anthropic]";
        return words(reports, &command.node, &path, example).map(ApiKey::Command);
    }
    if let YamlValue::Null = variable?.node.value {
        return Some(ApiKey::None);
    }
    self::variable(reports, fields, "api_key_env", "ANTHROPIC_API_KEY").map(ApiKey::Variable)
}

/// Reads the name of a variable that contains a key. An invalid name is not quoted: it may be the
/// key itself, written in place of its variable's name.
pub(crate) fn variable(
    reports: &mut Reports,
    fields: &MappingFields<'_>,
    key: &'static str,
    example: &str,
) -> Option<String> {
    let variable = fields.get(key)?;
    let mut unfit = Reports::default();
    let name = fields.string(&mut unfit, key);
    reports.extend(unfit.into_list().into_iter().map(Diagnostic::hiding));
    let name = name?;
    let begins = |c: char| c == '_' || c.is_ascii_alphabetic();
    let fits = |c: char| c == '_' || c.is_ascii_alphanumeric();
    if !name.starts_with(begins) || !name.chars().all(fits) || name.len() > 256 {
        let message = format!("`{}` is not a variable's name", fields.dotted(key));
        let help = format!(
            "it names the variable that holds the key, such as {example}; a key itself stands in no file of forge's"
        );
        return reports.refuse(
            DiagnosticCode::BadValue
                .at(&variable.node.span, message)
                .hiding()
                .help(help),
        );
    }
    Some(name.to_owned())
}

/// A program and its arguments.
pub(crate) fn words(
    reports: &mut Reports,
    node: &YamlNode,
    path: &str,
    example: &str,
) -> Option<Vec<String>> {
    /// A program with its arguments; more is a script that belongs into a file.
    const MOST: usize = 32;
    let words = fields::strings(reports, node, path)?;
    let mut bad = |message: String| {
        let help = format!("for example {example}");
        let mistake = DiagnosticCode::BadValue.at(&node.span, message);
        reports.refuse(mistake.help(help))
    };
    let Some((program, _)) = words.first() else {
        return bad(format!("`{path}` names no program"));
    };
    if words.len() > MOST || words.iter().any(|(word, _)| word.contains('\0')) {
        return bad(format!(
            "`{path}` is not a program with at most {MOST} words"
        ));
    }
    let is_name = !program.contains('/');
    if program.trim().is_empty() || !(is_name || program.starts_with('/')) {
        return bad(format!(
            "`{path}` begins with a program's name or absolute path"
        ));
    }
    Some(words.into_iter().map(|(word, _)| word.to_owned()).collect())
}

fn properties(reports: &mut Reports, fields: &MappingFields<'_>) -> ModelProperties {
    ModelProperties {
        prices: prices(reports, fields),
        max_tokens: fields.count(reports, "max_tokens"),
        context_tokens: fields.count(reports, "context_tokens"),
    }
}

fn models(reports: &mut Reports, fields: &MappingFields<'_>) -> BTreeMap<String, ModelProperties> {
    /// More than any provider offers.
    const MOST: usize = 1_000;
    let Some(entry) = fields.get("models") else {
        return BTreeMap::new();
    };
    let path = fields.dotted("models");
    let models = fields::free_mapping(reports, &entry.node, &path).unwrap_or_default();
    let models = fields::at_most(reports, &entry.node, &path, &models, MOST);
    let mut all = BTreeMap::new();
    for model in models {
        let path = fields::join(&path, &model.key);
        let of_it = MappingFields::open(reports, &model.node, &path, &keys::MODEL_FACTS);
        if let Some(of_it) = of_it {
            all.insert(model.key.clone(), properties(reports, &of_it));
        }
    }
    all
}

fn prices(reports: &mut Reports, fields: &MappingFields<'_>) -> Option<TokenPrices> {
    let prices = fields.section(reports, "prices", &keys::PRICE)?;
    let mut price = |key: &'static str| {
        let node = &prices.get(key)?.node;
        nano_usd(reports, node, &prices.dotted(key))
    };
    let (input, output) = (price("input"), price("output"));
    let (cache_read, cache_write) = (price("cache_read"), price("cache_write"));
    Some(TokenPrices {
        input: input?,
        output: output?,
        cache_read,
        cache_write,
    })
}

/// Dollars for a million tokens as billionths of one for a token, rounded up.
fn nano_usd(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<u64> {
    /// A cent a token: a slip of the comma.
    const MOST: f64 = 10_000.0;
    let dollars = fields::number(reports, node, path)?;
    if dollars > MOST {
        let message = format!("`{path}` is more than any model costs");
        let mistake = DiagnosticCode::BadValue.at(&node.span, message);
        return reports.refuse(mistake.help("prices are US dollars for a million tokens"));
    }
    // By thousandths first, so that 0.07 is 70 and not 71.
    Some(((dollars * 1e6).round() as u64).div_ceil(1_000))
}
