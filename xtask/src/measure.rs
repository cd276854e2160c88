//! Figures about the sources, from their texts alone: read line by line and not parsed, since they
//! are only compared with earlier ones.

use std::collections::{BTreeMap, BTreeSet};

/// Crates that are not shipped.
const TOOLS: [&str; 5] = [
    "conformance",
    "mock-provider",
    "seatbelt-eval",
    "test-sample",
    "xtask",
];

/// Lines of a function that needs no exception.
const MAX_FUNCTION: usize = 60;

/// Words that make a reader start a sentence again. Behind a last blank a word must follow.
#[rustfmt::skip]
const PHRASES: [(&str, &[&str]); 8] = [
    ("what", &["what", "whatever"]),
    ("who", &["who", "whoever", "whom", "whose"]),
    ("nobody", &["nobody", "somebody", "everybody", "anybody"]),
    ("there is", &["there is", "there are"]),
    ("stands/lies", &["stand", "stands", "lies", "lay", "come to", "comes to", "come of", "comes of"]),
    ("is no X", &["is no ", "are no "]),
    ("none:", &["none:"]),
    ("the same", &["the same"]),
];

/// A tracked file; its path is below the root of the repository.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// One measured number; less is better. The places are what was counted, each with its file.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) places: Vec<String>,
}

/// The modules of one source directory with their texts.
type Modules<'a> = BTreeMap<String, &'a str>;

pub(crate) fn figures(sources: &[Source]) -> Vec<Figure> {
    let mut counts = Counts::default();
    for source in sources {
        counts.add(source);
    }
    counts.figures()
}

/// What is counted; places by the name of a type, a crate or a phrase.
#[derive(Default)]
struct Counts<'a> {
    code: usize,
    words: usize,
    types: BTreeMap<&'a str, Vec<String>>,
    functions: BTreeMap<&'a str, Vec<String>>,
    phrases: [Vec<String>; PHRASES.len()],
    trees: BTreeMap<(&'a str, &'a str), Modules<'a>>,
}

impl<'a> Counts<'a> {
    fn add(&mut self, Source { path, text }: &'a Source) {
        let is_page = path.starts_with("docs/") && path.ends_with(".md");
        let lines = code_lines(text);
        let mut is_shipped = false;
        if let Some((name, tree, module)) = module_of(path) {
            is_shipped = !TOOLS.contains(&name);
            self.trees
                .entry((name, tree))
                .or_default()
                .insert(module, text);
            let long = long_functions(&lines).into_iter();
            let long = long.map(|(at, text)| format!("{path}:{at} {text}"));
            self.functions.entry(name).or_default().extend(long);
        } else if !is_page {
            return;
        }
        for (at, line) in lines.iter().enumerate() {
            let place = || format!("{path}:{}", at + 1);
            if is_page || line.trim_start().starts_with("//") {
                let line = line.trim_start_matches([' ', '/', '!']);
                self.words += line.split_whitespace().count();
                for (places, (_, texts)) in self.phrases.iter_mut().zip(PHRASES) {
                    places.extend((0..occurrences(line, texts)).map(|_| place()));
                }
            } else if is_shipped && !line.trim().is_empty() {
                self.code += 1;
                let name = type_name(line).into_iter();
                name.for_each(|name| self.types.entry(name).or_default().push(place()));
            }
        }
    }

    fn figures(self) -> Vec<Figure> {
        let figure = |name: &str, of: &str, value, places| Figure {
            name: format!("{name}{of}"),
            value,
            places,
        };
        let thousands = count(self.code.div_ceil(100)) / 10.0;
        let shared = self.types.iter().filter(|(_, places)| places.len() > 1);
        let sharing = count(shared.clone().map(|(_, places)| places.len()).sum());
        let shared = shared
            .map(|(name, at)| format!("{name}: {}", at.join(" ")))
            .collect();
        let mut figures = vec![
            figure("thousand lines of shipping code", "", thousands, Vec::new()),
            figure("types that share a name", "", sharing, shared),
        ];
        let mut circles: BTreeMap<&str, Vec<Vec<String>>> = BTreeMap::new();
        for ((name, _), modules) in &self.trees {
            circles.entry(name).or_default().extend(cycles(modules));
        }
        figures.extend(circles.iter().map(|(name, circles)| {
            let largest = count(circles.iter().map(Vec::len).max().unwrap_or(0));
            let places = circles.iter().map(|circle| circle.join(" ")).collect();
            figure("largest circle, ", name, largest, places)
        }));
        figures.extend(
            self.functions
                .into_iter()
                .map(|(name, at)| figure("functions over 60 lines, ", name, count(at.len()), at)),
        );
        let phrases = self.phrases.into_iter().zip(PHRASES);
        figures.extend(phrases.map(|(at, (name, _))| {
            let rate = (count(at.len()) * 10_000.0 / count(self.words)).round() / 10.0;
            figure("per 1 000 words: ", name, rate, at)
        }));
        figures
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "lines and words of a repository"
)]
fn count(number: usize) -> f64 {
    number as f64
}

/// Crate, source directory and module of a Rust file. Tests are in none.
fn module_of(path: &str) -> Option<(&str, &str, String)> {
    let parts: Vec<&str> = path.strip_suffix(".rs")?.split('/').collect();
    let (name, tree, module) = match &parts[..] {
        ["crates", name, tree @ ("src" | "launcher"), module @ ..] => (name, tree, module),
        [name @ "xtask", tree @ "src", module @ ..] => (name, tree, module),
        _ => return None,
    };
    let module = match module {
        ["lib" | "main"] => &[],
        [above @ .., "mod"] => above,
        module => module,
    };
    (!module.contains(&"tests")).then(|| (*name, *tree, module.join("::")))
}

/// The lines before the tests of a file.
fn code_lines(text: &str) -> Vec<&str> {
    let lines = text.lines().zip(text.lines().skip(1).chain([""]));
    let starts_tests = |line: &str, next: &str| {
        let is_module = without_visibility(next).starts_with("mod ") && next.ends_with('{');
        line.trim() == "#[cfg(test)]" && is_module
    };
    let code = lines.take_while(|(line, next)| !starts_tests(line, next));
    code.map(|(line, _)| line).collect()
}

fn without_visibility(line: &str) -> &str {
    let line = line.trim_start();
    match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(line, |(_, rest)| rest),
        rest => rest.and_then(|rest| rest.strip_prefix(' ')).unwrap_or(line),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The word at the start of a text.
fn first_word(text: &str) -> &str {
    text.split(|c| !is_word(c)).next().unwrap_or_default()
}

/// How often one of the phrases is in a line, whatever its case.
fn occurrences(line: &str, phrases: &[&str]) -> usize {
    let line = line.to_lowercase();
    let is_noun = |word: &str| {
        let excepted = ["longer", "more", "less"]
            .iter()
            .any(|w| word.starts_with(w));
        !word.is_empty() && !excepted
    };
    let found = phrases.iter().flat_map(|phrase| {
        let line = line.as_str();
        line.match_indices(phrase).filter(move |(at, _)| {
            let next = first_word(&line[at + phrase.len()..]);
            let ends = if phrase.ends_with(' ') {
                is_noun(next)
            } else {
                next.is_empty()
            };
            !line[..*at].ends_with(is_word) && (ends || phrase.ends_with(':'))
        })
    });
    found.count()
}

/// The name of the type that a line defines. An associated type is not one.
fn type_name(line: &str) -> Option<&str> {
    let (keyword, rest) = without_visibility(line).split_once(' ')?;
    let defines = matches!(keyword, "struct" | "enum" | "trait" | "union" | "type");
    let is_associated = line.starts_with("    type ");
    Some(first_word(rest)).filter(|name| defines && !is_associated && !name.is_empty())
}

/// Line, name and length of each long function.
fn long_functions(lines: &[&str]) -> Vec<(usize, String)> {
    let lines: Vec<String> = lines.iter().map(|line| without_literals(line)).collect();
    let function = |at: usize| {
        let mut head = without_visibility(&lines[at]);
        for word in ["const ", "async ", "unsafe ", "extern \"\" "] {
            head = head.strip_prefix(word).unwrap_or(head);
        }
        let name = first_word(head.strip_prefix("fn ")?);
        let ends = |line: &&String| line.contains('{') || line.trim_end().ends_with(';');
        lines[at..]
            .iter()
            .find(ends)
            .filter(|line| line.contains('{'))?;
        let (mut open, mut closed) = (0, 0);
        let end = lines[at..].iter().position(|line| {
            open += line.matches('{').count();
            closed += line.matches('}').count();
            open > 0 && open <= closed
        });
        let length = end.unwrap_or(lines.len() - at) + 1;
        (length > MAX_FUNCTION).then(|| (at + 1, format!("{name}, {length} lines")))
    };
    (0..lines.len()).filter_map(function).collect()
}

/// The line without literals and comment: each brace left is code. A string of several lines is
/// left as it is.
fn without_literals(line: &str) -> String {
    let quoted = ["\\\\", "\\\"", "'\"'", "'{'", "'}'"];
    let line = quoted
        .iter()
        .fold(line.to_owned(), |line, text| line.replace(text, ""));
    let outside: Vec<&str> = line.split('"').step_by(2).collect();
    let is_closed = line.matches('"').count() % 2 == 0;
    let code = if is_closed {
        outside.join("\"\"")
    } else {
        line
    };
    code.split("//").next().unwrap_or_default().to_owned()
}

/// Groups of modules that name each other in a circle.
fn cycles(modules: &Modules) -> BTreeSet<Vec<String>> {
    let mut reached = BTreeMap::new();
    for (name, text) in modules {
        reached.insert(name, named_modules(name, text, modules));
    }
    // Warshall: behind a round, each way over the modules so far is known.
    for via in modules.keys() {
        let further = reached[via].clone();
        let before = reached.values_mut().filter(|set| set.contains(via));
        before.for_each(|set| set.extend(&further));
    }
    let circles = reached.iter().filter(|(name, set)| set.contains(*name));
    let circles = circles.map(|(name, set)| {
        let back = set.iter().filter(|other| reached[*other].contains(name));
        back.map(|other| (*other).clone()).collect()
    });
    circles.collect()
}

/// The modules that a module names by `crate::` or `super::`, without the one above it. The names
/// in a list (`crate::{a, b}`) are not seen.
fn named_modules<'a>(module: &str, text: &str, modules: &'a Modules) -> BTreeSet<&'a String> {
    let here: Vec<&str> = module.split("::").collect();
    let above = |levels: usize| &here[..here.len().saturating_sub(levels)];
    let text = code_lines(text).join("\n");
    let paths = text.split(|c| !is_word(c) && c != ':').filter_map(|path| {
        let parts: Vec<&str> = path.split("::").collect();
        let up = parts.iter().take_while(|part| **part == "super").count();
        let base = match parts[0] {
            "crate" => &[],
            "super" => above(up),
            _ => return None,
        };
        let parts = [base, &parts[up.max(1)..]].concat();
        let mut prefixes = (1..=parts.len()).rev().map(|end| parts[..end].join("::"));
        prefixes.find_map(|path| Some(modules.get_key_value(&path)?.0))
    });
    let is_other = |name: &&String| *name != module && **name != above(1).join("::");
    paths
        .filter(is_other)
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(files: &[(&str, &str)]) -> BTreeMap<String, (f64, Vec<String>)> {
        let source = |(path, text): &(&str, &str)| Source {
            path: (*path).into(),
            text: (*text).into(),
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        figures(&sources)
            .into_iter()
            .map(|f| (f.name, (f.value, f.places)))
            .collect()
    }

    #[test]
    fn tests_and_tools_are_not_shipping_code() {
        let code = "struct A;\n\n// a comment\npub(crate) enum B {}\n    type Item = A;\n#[cfg(test)]\nmod tests {\n struct A;\n}\n";
        let found = measured(&[
            ("crates/x/src/lib.rs", code),
            ("crates/y/src/a.rs", "pub trait A {}\n"),
            ("crates/y/src/tests.rs", "struct B;\n"),
            ("xtask/src/main.rs", "struct B;\n"),
            ("crates/y/tests/it/main.rs", "struct B;\n"),
        ]);
        assert_eq!(found["thousand lines of shipping code"].0, 0.1);
        let places = vec!["A: crates/x/src/lib.rs:1 crates/y/src/a.rs:1".to_owned()];
        assert_eq!(found["types that share a name"], (2.0, places));
        assert!(!found.contains_key("largest circle, tests"));
    }

    #[test]
    fn circles_are_found_by_crate_and_super() {
        let found = measured(&[
            (
                "crates/x/src/lib.rs",
                "mod a;\n#[cfg(test)]\nmod samples;\n",
            ),
            ("crates/x/src/a/mod.rs", "use crate::b::B;\n"),
            (
                "crates/x/src/a/c.rs",
                "use super::super::a::A;\nuse super::d::D;\n",
            ),
            ("crates/x/src/a/d.rs", "use super::A;\n"),
            (
                "crates/x/src/b.rs",
                "use crate::a::c::C;\nuse crate::e::E;\n",
            ),
            ("crates/x/src/e.rs", "use crate::b::{B, C};\n"),
            ("crates/x/src/samples.rs", "use crate::a::A;\n"),
        ]);
        assert_eq!(found["largest circle, x"], (2.0, vec!["b e".to_owned()]));
    }

    #[test]
    fn braces_in_literals_are_not_code() {
        let line = r#"f("{\"\\", '{', '"', "}") { // {"#;
        assert_eq!(without_literals(line), r#"f("", , , "") { "#);
        assert_eq!(without_literals("} of two lines\","), "} of two lines\",");
        let long = format!(
            "pub(crate) async fn f(\n) {{\n{}}}\nfn g();\n",
            "x('}');\n".repeat(60)
        );
        let found = measured(&[("crates/x/src/lib.rs", &long)]);
        let places = vec!["crates/x/src/lib.rs:1 f, 63 lines".to_owned()];
        assert_eq!(found["functions over 60 lines, x"], (1.0, places));
    }

    #[test]
    fn phrases_are_whole_words_of_comments_and_pages() {
        let page = "What is somewhat, whatever.\nThere is no longer a way; it is no name.\nIt comes to this.\n";
        let found = measured(&[
            ("docs/a.md", page),
            ("crates/x/src/lib.rs", "let what = 1; // what\n"),
        ]);
        let rate = |name: &str| found[&format!("per 1 000 words: {name}")].0;
        let expected = [
            ("what", 111.1),
            ("there is", 55.6),
            ("is no X", 55.6),
            ("stands/lies", 55.6),
            ("who", 0.0),
        ];
        for (name, value) in expected {
            assert_eq!(rate(name), value, "{name}");
        }
    }
}
