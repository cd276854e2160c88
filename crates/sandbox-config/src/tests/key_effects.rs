//! Every key that is read changes something in the public API: a key that is parsed and unused would
//! be an empty promise. The documents are the examples of the reference page. One value is removed,
//! or replaced by another value of its shape.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::grant::Grant;
use crate::grant::verdict::Operation;
use crate::keys::{PROJECT, WORKER};
use crate::loading::sources::{ConfigChoice, Sources, TrustedSettings, WithoutDirectories};
use crate::syntax::key_table::shape::ValueShape;
use crate::syntax::key_table::{KeySpec, KeyTable};
use crate::tests::reference_page::examples;
use crate::tests::sample_projects::good;
use crate::tests::schema_agreement::{ConfigFileKind, tree, written};
use crate::{Declaration, Mode, Project, Worker, ZoneDeclaration, load};

/// Writes the public properties of a grant.
fn grant(out: &mut String, grant: &Grant, dir: &Path) {
    for mount in grant.mounts() {
        let verdicts: Vec<String> = Operation::ALL
            .iter()
            .map(|operation| grant.mount_approval(mount.name(), *operation).to_string())
            .collect();
        writeln!(
            out,
            "{} {} {} {:?} {:?} {verdicts:?} usable={} {:?}",
            mount.target(),
            mount
                .host()
                .strip_prefix(dir)
                .unwrap_or(mount.host())
                .display(),
            mount.mode(),
            mount.suffixes(),
            mount.max_file_bytes(),
            mount.usable(),
            mount.file_rules()
        )
        .unwrap();
    }
    writeln!(
        out,
        "{:?} {:?} {:?} {:?} {:?} os={} tools={:?}\n{:?}\nprotect={:?}\nhide={:?}\n{:?}",
        (grant.network(), &grant.published_ports),
        grant.shell(),
        grant.environment(),
        grant.limits(),
        grant.approval(),
        grant.require_os_sandbox(),
        grant.tools(),
        grant.execution(),
        grant.protect(),
        grant.hide(),
        grant.confinement(),
    )
    .unwrap();
    for one in grant.repositories() {
        let address = one.address().replace(&dir.display().to_string(), "");
        writeln!(out, "{} {address} {}", one.name(), one.access()).unwrap();
    }
    writeln!(out, "{}", grant.allows_executable_config()).unwrap();
}

fn shown(project: &Project) -> String {
    let mut out = format!(
        "{} {:?} {} {:?} depth={} children={} {:?} {} {:?}\n",
        project.name(),
        project.model(),
        project.entry(),
        project.worker_paths(),
        project.max_depth(),
        project.max_children(),
        project
            .runs_dir()
            .map(|dir| dir.strip_prefix(project.dir()).unwrap_or(dir)),
        project.keeps_transcripts(),
        project.redacted(),
    );
    for name in ["anthropic", "local", "ollama", "openai", "work"] {
        let provider = project.provider(name).ok().map(|provider| {
            let models = ["gpt-5-mini", "small", "other"].map(|model| {
                let tokens = (provider.max_tokens(model), provider.context_tokens(model));
                (provider.prices(model), tokens)
            });
            let (wire, url, key) = (provider.wire(), provider.base_url(), provider.key());
            format!(
                "{wire} {url} {key} {} {} {models:?}",
                provider.streams(),
                provider.retry_s()
            )
        });
        writeln!(out, "{provider:?}").unwrap();
    }
    let git = project.git();
    writeln!(out, "{:?} {:?}", git.author(), git.trailer()).unwrap();
    writeln!(out, "{:?}", project.presets().named()).unwrap();
    for one in git.credentials() {
        let source = one.source().to_string();
        let source = source.replace(&project.dir().display().to_string(), "");
        writeln!(out, "{} {source}", one.server()).unwrap();
    }
    grant(&mut out, project.ceiling(), project.dir());
    let undeclared = project.ceiling().child(&Declaration::undeclared()).unwrap();
    writeln!(out, "undeclared={}", undeclared.mounts().count()).unwrap();
    let nothing = project.ceiling().child(&Declaration::none()).unwrap();
    let first = project.ceiling().mounts().next().map(|mount| {
        let zone = ZoneDeclaration::new(mount.name(), Mode::ReadOnly);
        nothing.child(&Declaration::zones([zone])).is_ok()
    });
    writeln!(out, "own={first:?}").unwrap();
    out
}

fn shown_worker(project: &Project, worker: &Worker) -> String {
    let mut out = format!(
        "{:?} {:?} {:?} {:?} {} {:?} {:?}\n{} {:?} {:?} {:?} {:?} {:?} {:?}\n",
        worker.input_schema(),
        worker.output_schema(),
        worker.compatible_models(),
        worker.attachment_policy(),
        worker.allows_empty_input(),
        worker.license(),
        worker.metadata(),
        worker.name(),
        worker.description(),
        worker.model(),
        worker.instructions(),
        worker.tools(),
        worker.delegates(),
        worker.limits()
    );
    match project.ceiling().child(worker.declaration()) {
        Ok(child) => grant(&mut out, &child, project.dir()),
        Err(refusal) => out += &refusal.to_string(),
    }
    out
}

/// The project of the worker files.
const AROUND_WORKERS: &str = "\
git: { repositories: [octo/reports, octo/reportsx] }
network: true
sandbox:
  unix_sockets: [/run/agent.sock, /run/b.sock]
  zones: { cache: { path: ./cache }, data: { path: ./data }, workspace: { path: ./workspace } }
shell: { rules: [{ pattern: \"grep *\", approval: preApproved }] }
";

/// Loads a document. Returns everything that it decides, wherever it stands in the file, or its
/// mistakes.
fn effect(kind: ConfigFileKind, document: &Value) -> Result<String, String> {
    loaded(kind, document).map(|text| without_origins(&text))
}

fn without_origins(text: &str) -> String {
    let mut parts = text.split("ConfigOrigin {");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut depth = 1;
        out.extend(part.chars().skip_while(|c| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            depth > 0
        }));
    }
    out
}

fn loaded(kind: ConfigFileKind, document: &Value) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("p");
    std::fs::create_dir_all(home.join("docs")).unwrap();
    std::fs::create_dir(home.join("workers")).unwrap();
    let mut sources = Sources {
        trust: TrustedSettings::Given,
        ..Sources::new(&home)
    };
    let mut text = written(kind, document);
    let project = match kind {
        ConfigFileKind::Project => &text,
        ConfigFileKind::Worker => AROUND_WORKERS,
    };
    std::fs::write(home.join("golem-forge.config.yaml"), project).unwrap();
    if kind == ConfigFileKind::Worker {
        if document.get("instructions").is_none() {
            text += "Work.\n";
        }
        std::fs::write(home.join("workers/w.worker"), &text).unwrap();
        let of_root = |key| document["sandbox"].get(key).is_some();
        if ["restrict", "paths", "mounts"].into_iter().any(of_root) {
            sources.choice = ConfigChoice::None;
            sources.without_directories = WithoutDirectories::WholeDirectory;
        }
    }
    let project = load(&sources).map_err(|mistakes| mistakes.to_string())?;
    if kind == ConfigFileKind::Project {
        return Ok(shown(&project));
    }
    let workers = project.workers().map_err(|mistakes| mistakes.to_string())?;
    Ok(shown_worker(&project, &workers[0]))
}

/// Documents of keys that have no example on the page, or a value that the rest of the example
/// fixes.
const FURTHER: &[(&str, &str)] = &[
    ("sandbox", "sandbox: { survivors: left }"),
    ("git", "git: { trailer: none }"),
    (
        "rule",
        "shell: { rules: [{ pattern: \"grep *\", approval: ask }] }",
    ),
    (
        "examples",
        "shell: { rules: [{ pattern: \"demo *\", approval: ask, examples: { no_match: [wc] } }] }",
    ),
    ("worker", "---\napproval: { mode: manual }\n---\n"),
    (
        "toolsets",
        "---\ntoolsets: { workers: { allowed_workers: [\"*\"] } }\n---\n",
    ),
    (
        "worker_sandbox",
        "---\nsandbox: { paths: { docs: { root: ./docs, mode: rw } } }\n---\n",
    ),
    (
        "worker_sandbox",
        "---\nsandbox: { mounts: [{ source: ., target: /workers }] }\n---\n",
    ),
];

/// Keys whose effect is that another value is refused.
const REFUSING: [&str; 4] = ["version", "examples", "match", "no_match"];

#[test]
fn every_key_that_is_read_flips_something() {
    let mut tables = PROJECT.reached();
    for table in WORKER.reached() {
        if !tables.iter().any(|known| std::ptr::eq(*known, table)) {
            tables.push(table);
        }
    }
    let mut idle = Vec::new();
    for table in tables {
        for key in table.list.iter().filter(|key| key.in_effect) {
            if !flips(table, key) {
                idle.push(format!("{}.{}", table.id, key.name));
            }
        }
    }
    assert_eq!(idle, Vec::<String>::new());
}

/// Returns `true` if a change of this key in an example changes the effect of the example.
fn flips(table: &'static KeyTable, key: &KeySpec) -> bool {
    let further = FURTHER.iter().filter(|(id, _)| *id == table.id);
    let further = further.map(|(_, text)| (*text).to_owned());
    let texts = examples(table).into_iter().chain(further);
    texts.into_iter().any(|text| {
        let text = text.as_str();
        let (kind, top) = match text.starts_with("---") {
            true => (ConfigFileKind::Worker, &WORKER),
            false => (ConfigFileKind::Project, &PROJECT),
        };
        let document = tree(kind, text).unwrap();
        let before = effect(kind, &document);
        assert!(before.is_ok(), "{text}{before:?}");
        let mut mappings = Vec::new();
        find_mappings(&ValueShape::Section(top), &document, "", &mut mappings);
        mappings
            .into_iter()
            .filter(|(of, _)| std::ptr::eq(*of, table))
            .any(|(_, pointer)| {
                let mapping = document.pointer(&pointer).unwrap();
                let Some(value) = mapping.get(key.name) else {
                    return false;
                };
                for alias in key.aliases {
                    let renamed = with(&document, &pointer, key.name, alias, Some(value.clone()));
                    assert_eq!(effect(kind, &renamed), before, "{alias}");
                }
                others(&key.shape, value).into_iter().any(|other| {
                    let is_removal = other.is_none();
                    let changed = with(&document, &pointer, key.name, key.name, other);
                    let after = effect(kind, &changed);
                    let may_refuse = is_removal && !key.required || REFUSING.contains(&key.name);
                    after != before && (after.is_ok() || may_refuse)
                })
            })
    })
}

/// Returns the document with a key of the mapping at `pointer` renamed and replaced, or removed.
fn with(document: &Value, pointer: &str, key: &str, name: &str, value: Option<Value>) -> Value {
    let mut document = document.clone();
    let mapping = document.pointer_mut(pointer).unwrap();
    let mapping = mapping.as_object_mut().unwrap();
    mapping.remove(key);
    if let Some(value) = value {
        mapping.insert(name.to_owned(), value);
    }
    document
}

/// Collects the mappings of a value with their tables, as JSON pointers.
fn find_mappings(
    shape: &ValueShape,
    value: &Value,
    pointer: &str,
    found: &mut Vec<(&'static KeyTable, String)>,
) {
    let below = |key: &str| format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
    match (shape, value) {
        (ValueShape::Section(table), Value::Object(map)) => {
            found.push((table, pointer.to_owned()));
            for key in table.list.iter() {
                if let Some(value) = map.get(key.name) {
                    find_mappings(&key.shape, value, &below(key.name), found);
                }
            }
        }
        (ValueShape::List(item) | ValueShape::NonEmpty(item), Value::Array(values)) => {
            for (index, value) in values.iter().enumerate() {
                find_mappings(item, value, &below(&index.to_string()), found);
            }
        }
        (ValueShape::Map(_, item), Value::Object(map)) => {
            for (key, value) in map {
                find_mappings(item, value, &below(key), found);
            }
        }
        (ValueShape::OneOf(shapes), _) => {
            for shape in *shapes {
                find_mappings(shape, value, pointer, found);
            }
        }
        _ => {}
    }
}

/// Returns other values of the shape. `None`: without the key.
fn others(shape: &ValueShape, value: &Value) -> Vec<Option<Value>> {
    let mut list = vec![None];
    other_values(shape, value, &mut list);
    list
}

fn other_values(shape: &ValueShape, value: &Value, list: &mut Vec<Option<Value>>) {
    match (shape, value) {
        (ValueShape::Text | ValueShape::Like(_), Value::String(text)) => {
            list.extend([json!(format!("{text}x")), json!("docs"), json!("cache")].map(Some));
            list.push(Some(good(shape)));
        }
        (ValueShape::Bool, Value::Bool(is_on)) => list.push(Some(json!(!is_on))),
        (ValueShape::Count | ValueShape::Port | ValueShape::Exactly(_), Value::Number(number)) => {
            list.push(number.as_u64().map(|number| json!(number + 1)));
        }
        (ValueShape::Number, Value::Number(number)) => {
            list.push(number.as_f64().map(|number| json!(number + 0.5)));
        }
        (ValueShape::Words(words, _), Value::String(_)) => {
            list.extend(words.iter().map(|word| Some(json!(word))));
        }
        (ValueShape::List(item) | ValueShape::NonEmpty(item), Value::Array(values)) => {
            list.push(values.get(1..).map(|rest| json!(rest)));
            list.push(Some(json!([values.clone(), vec![good(item)]].concat())));
        }
        (ValueShape::Section(table), Value::Object(map)) => {
            for key in table.list.iter() {
                let Some(value) = map.get(key.name) else {
                    continue;
                };
                for other in others(&key.shape, value).into_iter().flatten() {
                    list.push(Some(with(&json!(map), "", key.name, key.name, Some(other))));
                }
            }
        }
        (ValueShape::Map(_, item), Value::Object(map)) => {
            for (key, value) in map {
                for other in others(item, value).into_iter().flatten() {
                    list.push(Some(with(&json!(map), "", key, key, Some(other))));
                }
            }
        }
        (ValueShape::OneOf(shapes), _) => {
            for shape in *shapes {
                list.push(Some(good(shape)));
                other_values(shape, value, list);
            }
        }
        _ => {}
    }
}
