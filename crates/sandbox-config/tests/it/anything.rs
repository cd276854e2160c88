//! Whatever stands in a file, a variable or a flag: an answer, never a panic, and every mistake
//! has a place inside what was read.

use proptest::prelude::*;
use sandbox_config::{CommandPattern, Diagnostic, Project, Sources, load};

use crate::support::{CONFIG, Scratch};

/// Every text that a load may point into, under the name that messages show.
type Texts = Vec<(String, Vec<u8>)>;

fn findings(sources: &Sources) -> Vec<Diagnostic> {
    match load(sources) {
        Err(mistakes) => mistakes.iter().cloned().collect(),
        Ok(project) => everything(&project),
    }
}

fn everything(project: &Project) -> Vec<Diagnostic> {
    let mut list = project.warnings().to_vec();
    list.extend(project.check());
    list
}

/// Lines as YAML counts them; a byte order mark is no part of the first.
fn lines(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text).replace("\r\n", "\n");
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    text.split(['\n', '\r']).map(str::to_owned).collect()
}

fn assert_places(list: &[Diagnostic], texts: &Texts) -> Result<(), TestCaseError> {
    for one in list {
        let json = one.to_json();
        // Rendering must not panic either.
        let shown = one.to_string();
        let own = (
            json["file"].clone(),
            json["line"].clone(),
            json["column"].clone(),
        );
        let related = json["related"].as_array().unwrap().iter();
        let related =
            related.map(|at| (at["file"].clone(), at["line"].clone(), at["column"].clone()));
        for (file, line, column) in std::iter::once(own).chain(related) {
            let (Some(line), Some(column)) = (line.as_u64(), column.as_u64()) else {
                continue;
            };
            let file = file.as_str().unwrap_or_default();
            let Some((_, text)) = texts.iter().find(|(name, _)| name == file) else {
                continue;
            };
            let lines = lines(text);
            let at = lines.get(line as usize - 1);
            prop_assert!(at.is_some(), "line {line} of {}: {shown}", lines.len());
            let width = at.unwrap().chars().count() as u64;
            prop_assert!(column <= width + 1, "column {column} of {width}: {shown}");
        }
    }
    Ok(())
}

fn read_everywhere(bytes: &[u8]) -> Result<(), TestCaseError> {
    let scratch = Scratch::new().file(CONFIG, bytes);
    let list = findings(&scratch.sources());
    assert_places(&list, &vec![(CONFIG.to_owned(), bytes.to_vec())])?;

    let mut worker = b"---\n".to_vec();
    worker.extend_from_slice(bytes);
    worker.extend_from_slice(b"\n---\nGo.\n");
    for text in [bytes.to_vec(), worker] {
        let scratch = Scratch::new().file("workers/w.worker", &text);
        let list = findings(&scratch.sources());
        assert_places(&list, &vec![("workers/w.worker".to_owned(), text)])?;
    }

    let scratch = Scratch::new().file("user.yaml", bytes);
    let mut sources = scratch.sources();
    sources.user_file = Some(scratch.path().join("user.yaml"));
    let list = findings(&sources);
    assert_places(&list, &vec![("user.yaml".to_owned(), bytes.to_vec())])
}

const KEYS: &[&str] = &[
    "version",
    "name",
    "model",
    "entry",
    "worker_paths",
    "workerPaths",
    "sandbox",
    "network",
    "approval",
    "shell",
    "limits",
    "delegation",
    "execution",
    "execution_mode",
    "docker",
    "git",
    "log",
    "permissions",
    "mode",
    "root",
    "zones",
    "paths",
    "mounts",
    "read_paths",
    "write_paths",
    "default",
    "require_os_sandbox",
    "protect",
    "hide",
    "readonly",
    "restrict",
    "rebase",
    "path",
    "source",
    "target",
    "suffixes",
    "max_file_bytes",
    "read",
    "write",
    "delete",
    "rules",
    "pattern",
    "why",
    "examples",
    "match",
    "no_match",
    "env",
    "pass",
    "set",
    "allow",
    "deny",
    "max_turns",
    "max_depth",
    "max_children",
    "timeout_s_default",
    "timeout_s_max",
    "runners",
    "image",
    "description",
    "tools",
    "workers",
    "instructions",
    "use",
    "toolsets",
    "metadata",
    "x-y",
    "allowedTools",
    "data",
    "cache",
    "etc",
    "*",
    "",
    "nmae",
];

const WORDS: &[&str] = &[
    "ro",
    "rw",
    "ask",
    "blocked",
    "preApproved",
    "none",
    "inherit",
    "sandboxed",
    "direct",
    ".",
    "..",
    "/",
    "/src",
    "./data",
    "data",
    "cache",
    "~",
    "${HOME}",
    "${X:-y}",
    "${",
    "*",
    "a b",
    "git (log|show) *",
    "(",
    "*.md",
    ".md",
    "example.com:443",
    "*.x",
    "local_only",
    "w",
    "main",
    "\u{202e}",
    "\u{0}",
    "数据",
    "1e7",
    "yes",
    "",
];

/// Trees of known words, as JSON, which is YAML: all of them reach the walk.
fn tree() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::{Value, json};
    let leaf = prop_oneof![
        6 => proptest::sample::select(WORDS).prop_map(|word| json!(word)),
        1 => any::<bool>().prop_map(|on| json!(on)),
        1 => any::<i64>().prop_map(|number| json!(number)),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        let entries =
            proptest::collection::vec((proptest::sample::select(KEYS), inner.clone()), 0..6);
        prop_oneof![
            1 => proptest::collection::vec(inner, 0..4).prop_map(Value::Array),
            4 => entries.prop_map(|entries| {
                entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_everywhere(&bytes)?;
    }

    #[test]
    fn texts(text in "[ -~\\n\\r\\t\u{feff}\u{202e}\u{85}\u{2028}\u{e9}\u{6570}]{0,120}") {
        read_everywhere(text.as_bytes())?;
    }

    #[test]
    fn trees(tree in tree()) {
        read_everywhere(tree.to_string().as_bytes())?;
        let lines = serde_json::to_string_pretty(&tree).unwrap();
        read_everywhere(lines.as_bytes())?;
    }

    #[test]
    fn flags_and_variables(
        keys in proptest::collection::vec(proptest::sample::select(KEYS), 0..5),
        odd in "\\PC{0,20}",
        tree in tree(),
    ) {
        let scratch = Scratch::with_config("sandbox: { zones: { data: { path: ./data } } }\n");
        for value in [tree.to_string(), odd.clone()] {
            for key in [keys.join("."), odd.clone()] {
                let mut sources = scratch.sources();
                sources.overrides.push((key.clone(), value.clone()));
                sources.env.push((format!("FORGE__{}", key.to_uppercase().replace('.', "__")), value.clone()));
                let _ = findings(&sources);
            }
        }
    }

    #[test]
    fn patterns(pattern in "[a-z()|*'\" \\\\]{0,24}|\\PC{0,24}", words in proptest::collection::vec("\\PC{0,8}", 0..6)) {
        if let Ok(pattern) = CommandPattern::parse(&pattern) {
            let _ = pattern.matches(&words);
            prop_assert!(!pattern.matches(&[]));
        }
    }

    #[test]
    fn plain_words_match_themselves_and_nothing_else(
        words in proptest::collection::vec("[a-z][a-z0-9./=-]{0,8}", 1..5),
        more in "[a-z]{1,4}",
    ) {
        let pattern = CommandPattern::parse(&words.join(" ")).unwrap();
        prop_assert!(pattern.matches(&words));
        let mut longer = words.clone();
        longer.push(more.clone());
        prop_assert!(!pattern.matches(&longer));
        let mut other = words;
        other[0].push_str(&more);
        prop_assert!(!pattern.matches(&other));
    }
}

#[test]
fn a_flag_of_very_many_parts_is_refused() {
    let scratch = Scratch::new();
    let mut sources = scratch.sources();
    sources
        .overrides
        .push((vec!["a"; 200_000].join("."), "1".to_owned()));
    let said = load(&sources).unwrap_err().to_string();
    assert!(said.contains("config.too_complex"), "{said}");
}
