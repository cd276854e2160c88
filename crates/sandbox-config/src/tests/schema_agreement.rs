//! The JSON Schemas and the parser agree, both ways: a structure that one refuses, the other
//! refuses. Tried on the corpus of config fixtures, and on valid files with something dropped,
//! renamed or of another type.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::keys::{PROJECT, USER, WORKER};
use crate::loading::sources::{Sources, TrustedSettings, WithoutDirectories};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::text::{Layer, SourceText};
use crate::syntax::yaml;
use crate::tests::reference_page::examples;
use crate::{load, schema};

/// Which of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigFileKind {
    Project,
    Worker,
}

/// Whether a schema can see a mistake, by the parser's code for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaVisibility {
    /// A matter of keys and types: the schema must refuse.
    Always,
    /// A matter of one value: a schema can tell some of them.
    Perhaps,
    /// A matter of directories, other files, other keys or trust: the schema must not refuse.
    Never,
    /// The file has no tree for a schema to judge.
    NoTree,
}

pub(crate) fn seen(mistake: &Diagnostic) -> SchemaVisibility {
    if !mistake.is_error() {
        return SchemaVisibility::Never;
    }
    match mistake.code() {
        DiagnosticCode::UnknownKey
        | DiagnosticCode::ForeignKey
        | DiagnosticCode::NotYet
        | DiagnosticCode::MissingKey
        | DiagnosticCode::WrongType => SchemaVisibility::Always,
        DiagnosticCode::BadValue
        | DiagnosticCode::MountName
        | DiagnosticCode::HostPath
        | DiagnosticCode::DuplicateKey => SchemaVisibility::Perhaps,
        DiagnosticCode::Syntax
        | DiagnosticCode::TooComplex
        | DiagnosticCode::Unreadable
        | DiagnosticCode::TooLarge
        | DiagnosticCode::NotUtf8
        | DiagnosticCode::FrontMatter => SchemaVisibility::NoTree,
        DiagnosticCode::Empty
        | DiagnosticCode::TwoFiles
        | DiagnosticCode::ForeignFile
        | DiagnosticCode::CutOff
        | DiagnosticCode::MadeByCommand
        | DiagnosticCode::FrontEnd
        | DiagnosticCode::Overlap
        | DiagnosticCode::OwnDirectory
        | DiagnosticCode::UnknownZone
        | DiagnosticCode::Untrusted
        | DiagnosticCode::UnknownPreset
        | DiagnosticCode::UnknownWorker
        | DiagnosticCode::TwoWorkers
        | DiagnosticCode::FileName
        | DiagnosticCode::ExceedsParent
        | DiagnosticCode::ExampleFailed
        | DiagnosticCode::BadPattern
        | DiagnosticCode::NoEffect
        | DiagnosticCode::Alias
        | DiagnosticCode::ImplicitInherit
        | DiagnosticCode::Cycle
        | DiagnosticCode::TooDeep
        | DiagnosticCode::Unreachable
        | DiagnosticCode::UnusedMount
        | DiagnosticCode::ContainerNetwork
        | DiagnosticCode::Shadowed
        | DiagnosticCode::RunsAnything
        | DiagnosticCode::WideHosts
        | DiagnosticCode::AboveUserFile => SchemaVisibility::Never,
    }
}

/// Returns `true` if the schema takes this tree.
pub(crate) fn fits(kind: ConfigFileKind, tree: &Value) -> bool {
    static PROJECT: LazyLock<Validator> = LazyLock::new(|| judge(&schema::project()));
    static WORKER: LazyLock<Validator> = LazyLock::new(|| judge(&schema::worker()));
    match kind {
        ConfigFileKind::Project => PROJECT.is_valid(tree),
        ConfigFileKind::Worker => WORKER.is_valid(tree),
    }
}

fn judge(schema: &str) -> Validator {
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert!(jsonschema::meta::is_valid(&schema));
    jsonschema::validator_for(&schema).unwrap()
}

/// The project of the worker files; the project of the fixtures has equal zones.
const AROUND_WORKERS: &str = "\
sandbox:
  zones:
    data: { path: ./data, mode: ro }
    demo: { path: ./demo }
    workspace: { path: ./workspace, mode: rw }
shell:
  rules:
    - { pattern: \"grep *\", approval: ask }
";

/// Returns the mistakes of a project file, or of a worker's front matter.
pub(crate) fn mistakes(kind: ConfigFileKind, text: &[u8]) -> Vec<Diagnostic> {
    match kind {
        ConfigFileKind::Project => found(Some(text), None),
        ConfigFileKind::Worker => found(Some(AROUND_WORKERS.as_bytes()), Some(text)),
    }
}

/// Returns the mistakes of a user file.
fn of_user_file(text: &[u8]) -> Vec<Diagnostic> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("user.yaml"), text).unwrap();
    let sources = Sources {
        user_file: Some(dir.path().join("user.yaml")),
        ..Sources::new(dir.path())
    };
    load(&sources)
        .err()
        .map_or_else(Vec::new, |found| found.into_list())
}

/// The mistakes of a project and of a worker in it; without a project file it is a root project.
fn found(project: Option<&[u8]>, worker: Option<&[u8]>) -> Vec<Diagnostic> {
    let dir = tempfile::tempdir().unwrap();
    let sources = Sources {
        trust: TrustedSettings::Given,
        without_directories: WithoutDirectories::WholeDirectory,
        ..Sources::new(dir.path())
    };
    if let Some(text) = project {
        std::fs::write(dir.path().join("golem-forge.config.yaml"), text).unwrap();
    }
    if let Some(text) = worker {
        std::fs::create_dir(dir.path().join("workers")).unwrap();
        std::fs::write(dir.path().join("workers/w.worker"), text).unwrap();
    }
    let found = load(&sources).and_then(|project| project.workers());
    let list = found.err().map_or_else(Vec::new, |found| found.into_list());
    list.into_iter().filter(Diagnostic::is_error).collect()
}

/// A tree as a file. JSON is YAML.
pub(crate) fn written(kind: ConfigFileKind, tree: &Value) -> String {
    match kind {
        ConfigFileKind::Project => tree.to_string(),
        ConfigFileKind::Worker => format!("---\n{tree}\n---\n"),
    }
}

/// Returns the tree of a file or of a worker's front matter. `None` if it has no tree.
pub(crate) fn tree(kind: ConfigFileKind, text: &str) -> Option<Value> {
    let text = SourceText::inline("t".into(), Layer::Project, text.to_owned());
    let node = match kind {
        ConfigFileKind::Project => yaml::parse(&text),
        ConfigFileKind::Worker => {
            let end = text.text.trim_end().get(3..)?.find("\n---")? + 4;
            yaml::parse_part(&text, &text.text[..end])
        }
    };
    node.ok()
        .map(|node| node.map_or(Value::Null, |node| node.to_json()))
}

/// How the two disagree about a file, if they do.
fn disagreement(kind: ConfigFileKind, text: &str, tree: &Value) -> Option<String> {
    let mistakes = mistakes(kind, text.as_bytes());
    let said: Vec<SchemaVisibility> = mistakes.iter().map(seen).collect();
    let fits = fits(kind, tree);
    let agree = if said.contains(&SchemaVisibility::NoTree) {
        true
    } else if said.contains(&SchemaVisibility::Always) {
        !fits
    } else {
        fits || said.contains(&SchemaVisibility::Perhaps)
    };
    let messages: Vec<&str> = mistakes.iter().map(Diagnostic::message).collect();
    (!agree).then(|| {
        format!(
            "{text}\nthe schema {} it, the parser says {messages:?}",
            if fits { "takes" } else { "refuses" }
        )
    })
}

fn corpus(verdict: &str) -> Vec<(PathBuf, ConfigFileKind, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/config")
        .join(verdict);
    let mut files: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let kind = match path.extension()?.to_str()? {
                "yaml" => ConfigFileKind::Project,
                "worker" => ConfigFileKind::Worker,
                _ => return None,
            };
            // A file that is not UTF-8 has no tree.
            let text = std::fs::read_to_string(&path).ok()?;
            Some((path, kind, text))
        })
        .collect();
    files.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    assert!(files.len() > 3, "{}", dir.display());
    files
}

#[test]
fn a_valid_file_fits_its_schema() {
    for (path, kind, text) in corpus("valid") {
        let tree = tree(kind, &text).unwrap();
        assert!(fits(kind, &tree), "{}", path.display());
    }
}

#[test]
fn an_invalid_file_fits_if_nothing_is_wrong_with_its_structure() {
    let mut refused = 0;
    for (path, kind, text) in corpus("invalid") {
        let Some(tree) = tree(kind, &text) else {
            continue;
        };
        refused += usize::from(!fits(kind, &tree));
        if let Some(how) = disagreement(kind, &text, &tree) {
            panic!("{}:\n{how}", path.display());
        }
    }
    assert!(refused > 3, "{refused} refused");
}

/// One change of a tree, somewhere.
#[derive(Clone, Debug)]
enum TreeEdit {
    Drop,
    Rename(&'static str),
    Retype(Value),
}

fn change() -> impl Strategy<Value = TreeEdit> {
    let values = [
        Value::Null,
        json!(true),
        json!(0),
        json!(7),
        json!(-1.5),
        json!("text"),
        json!(""),
        json!([]),
        json!(["text"]),
        json!({}),
        json!({ "text": 1 }),
        json!([{}]),
    ];
    prop_oneof![
        Just(TreeEdit::Drop),
        prop::sample::select(vec!["unknown", "x-free", "allowed_tools", "mode", "path"])
            .prop_map(TreeEdit::Rename),
        prop::sample::select(values.to_vec()).prop_map(TreeEdit::Retype),
    ]
}

/// Every place in a tree, as a JSON pointer; the tree itself is not one.
fn places(tree: &Value, here: &str, list: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match tree {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, item)| (i.to_string(), item))
            .collect(),
        _ => Vec::new(),
    };
    for (key, value) in below {
        let place = format!("{here}/{}", key.replace('~', "~0").replace('/', "~1"));
        places(value, &place, list);
        list.push(place);
    }
}

fn apply(tree: &mut Value, place: &str, change: &TreeEdit) {
    let (above, key) = place.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match (tree.pointer_mut(above), change) {
        (Some(_), TreeEdit::Retype(value)) => {
            if let Some(old) = tree.pointer_mut(place) {
                *old = value.clone();
            }
        }
        (Some(Value::Object(map)), TreeEdit::Drop) => {
            map.remove(&key);
        }
        (Some(Value::Object(map)), TreeEdit::Rename(name)) => {
            if let Some(value) = map.remove(&key) {
                map.insert((*name).to_owned(), value);
            }
        }
        (Some(Value::Array(items)), TreeEdit::Drop) => {
            if let Some(i) = key.parse::<usize>().ok().filter(|i| *i < items.len()) {
                items.remove(i);
            }
        }
        // An earlier change removed it.
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_file_fits_if_the_parser_takes_its_structure(
        file in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), change()), 1..3),
    ) {
        static FILES: LazyLock<Vec<(ConfigFileKind, Value)>> = LazyLock::new(|| {
            let files = corpus("valid").into_iter();
            files.filter_map(|(_, kind, text)| Some((kind, tree(kind, &text)?))).collect()
        });
        let (kind, mut tree) = file.get(FILES.as_slice()).clone();
        for (place, change) in &changes {
            let mut list = Vec::new();
            places(&tree, "", &mut list);
            if !list.is_empty() {
                apply(&mut tree, &list[place.index(list.len())], change);
            }
        }
        let text = written(kind, &tree);
        if let Some(how) = disagreement(kind, &text, &tree) {
            panic!("{how}");
        }
    }
}

#[test]
fn the_examples_of_the_page_load_and_hold_every_key() {
    let mut missing = String::new();
    let tables = [&PROJECT, &WORKER, &USER];
    for table in tables.into_iter().flat_map(|top| top.reached()) {
        let examples = examples(table);
        for example in &examples {
            let text = example.as_bytes();
            let said = if example.starts_with("---") {
                // Some keys are for zone projects, others for root projects.
                let among_zones = mistakes(ConfigFileKind::Worker, text);
                if among_zones.is_empty() {
                    among_zones
                } else {
                    found(None, Some(text))
                }
            } else if table.id.starts_with("user_") {
                of_user_file(text)
            } else {
                mistakes(ConfigFileKind::Project, text)
            };
            let said: Vec<String> = said.iter().map(ToString::to_string).collect();
            assert!(said.is_empty(), "{example}\n{}", said.join("\n"));
        }
        // A user file has only keys of project files, and its schema does not teach old forms.
        let own = table
            .list
            .iter()
            .filter(|key| key.in_effect && table.id != "user" && !key.doc.starts_with("Old form"));
        for key in own {
            let shown = format!("{}:", key.name);
            if !examples.iter().any(|example| example.contains(&shown)) {
                missing += &format!("{}.{}\n", table.id, key.name);
            }
        }
    }
    assert!(missing.is_empty(), "no example shows:\n{missing}");
}
