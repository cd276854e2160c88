//! Typed reads of a tree that note each mistake and go on.

use std::collections::BTreeMap;

use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, Diagnostics};
use crate::syntax::escape::{is_hidden, yaml_text};
use crate::syntax::key_table::{KeySpec, KeyTable};
use crate::syntax::other_tools::our_words;
use crate::syntax::text::Span;
use crate::syntax::yaml::{YamlEntry, YamlNode, YamlValue};

/// The diagnostics of a load.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    errors: ReportedDiagnostic,
    warnings: ReportedDiagnostic,
}

#[derive(Debug, Default)]
struct ReportedDiagnostic {
    list: Vec<Diagnostic>,
    left_out: usize,
}

/// A file full of mistakes tells no more after this many; of errors and of warnings each, so that
/// neither can hide the other.
const MAX_REPORTS: usize = 200;

impl Reports {
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        let of_its_kind = if diagnostic.is_error() {
            &mut self.errors
        } else {
            &mut self.warnings
        };
        if of_its_kind.list.len() < MAX_REPORTS {
            of_its_kind.list.push(diagnostic);
        } else {
            of_its_kind.left_out += 1;
        }
    }

    /// Returns `true` if the mistake is reported at its place already.
    pub(crate) fn has(&self, mistake: &Diagnostic) -> bool {
        let text = mistake.to_string();
        self.errors.list.iter().any(|one| one.to_string() == text)
    }

    /// Reports the mistake that is read in place of a value.
    pub(crate) fn refuse<T>(&mut self, mistake: Diagnostic) -> Option<T> {
        self.add(mistake);
        None
    }

    /// Returns the value, or reports the mistake.
    pub(crate) fn take<T>(&mut self, read: Result<T, Box<Diagnostic>>) -> Option<T> {
        read.map_err(|mistake| self.add(*mistake)).ok()
    }

    /// Returns the value, or reports the mistake at `span`.
    pub(crate) fn take_at<T>(
        &mut self,
        read: Result<T, Box<Diagnostic>>,
        span: &Span,
    ) -> Option<T> {
        read.map_err(|mistake| self.add(mistake.at(span))).ok()
    }

    /// Returns `true` if a further error would be counted and not shown: its explanation need not
    /// be worked out.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.list.len() >= MAX_REPORTS
    }

    pub(crate) fn extend(&mut self, list: impl IntoIterator<Item = Diagnostic>) {
        for diagnostic in list {
            self.add(diagnostic);
        }
    }

    /// Returns the number of errors so far.
    pub(crate) fn errors(&self) -> usize {
        self.errors.list.len() + self.errors.left_out
    }

    /// Everything, errors first.
    pub(crate) fn into_list(self) -> Vec<Diagnostic> {
        let mut list = self.errors.list;
        list.extend(self.warnings.list);
        list
    }

    /// Returns the warnings, or everything if it contains an error.
    pub(crate) fn finish(self) -> Result<Vec<Diagnostic>, Diagnostics> {
        let Reports { errors, warnings } = self;
        let mut list = errors.list;
        list.extend(warnings.list);
        // In the order of the file; a diagnostic without a location keeps its position.
        list.sort_by_cached_key(|one| (one.file().map(str::to_owned), one.line(), one.column()));
        if errors.left_out > 0 {
            let text = format!("{} more mistakes are not shown", errors.left_out);
            list.push(DiagnosticCode::TooComplex.error(text));
        }
        if warnings.left_out > 0 {
            let text = format!("{} more warnings are not shown", warnings.left_out);
            list.push(DiagnosticCode::TooComplex.warning(text));
        }
        if list.iter().any(Diagnostic::is_error) {
            Diagnostics::of(list).map_or(Ok(Vec::new()), Err)
        } else {
            Ok(list)
        }
    }
}

/// The entries of a mapping whose keys are known.
#[derive(Debug)]
pub(crate) struct MappingFields<'n> {
    /// `sandbox.zones.data`; empty at the top.
    pub(crate) path: String,
    pub(crate) span: &'n Span,
    entries: BTreeMap<&'static str, &'n YamlEntry>,
}

impl<'n> MappingFields<'n> {
    /// Check a mapping's keys. `None`: not a mapping (and that has been noted).
    pub(crate) fn open(
        reports: &mut Reports,
        node: &'n YamlNode,
        path: &str,
        keys: &'static KeyTable,
    ) -> Option<MappingFields<'n>> {
        if let Some(help) = as_mapping(node, path, keys) {
            return reports.refuse(wrong_type(node, path, "a mapping").help(help));
        }
        let entries = mapping(reports, node, path)?;
        let mut fields = MappingFields {
            path: path.to_owned(),
            span: &node.span,
            entries: BTreeMap::new(),
        };
        for entry in entries {
            fields.add_entry(reports, entry, keys);
        }
        for key in keys.list.iter().filter(|key| key.required) {
            if fields.get(key.name).is_none() {
                reports.add(fields.missing(key));
            }
        }
        Some(fields)
    }

    fn missing(&self, key: &KeySpec) -> Diagnostic {
        let message = format!("missing `{}`", self.dotted(key.name));
        let missing = DiagnosticCode::MissingKey.at(self.span, message);
        let name = self.path.splitn(3, '.').last().unwrap_or_default();
        match key.if_absent.replace("{name}", name) {
            help if help.is_empty() => missing,
            help => missing.help(help),
        }
    }

    fn add_entry(&mut self, reports: &mut Reports, entry: &'n YamlEntry, keys: &'static KeyTable) {
        let key = entry.key.as_str();
        let known = keys
            .list
            .iter()
            .find(|known| known.name == key || known.aliases.contains(&key));
        if let Some(known) = known.filter(|known| known.in_effect) {
            match self.entries.insert(known.name, entry) {
                None => {}
                Some(first) => reports.add(twice(entry, first)),
            }
            return;
        }
        if known.is_some() {
            let dotted = self.dotted(key);
            let help = "remove it: forge does not support this key";
            let message = format!("`{dotted}` has no effect yet");
            let mistake = DiagnosticCode::NotYet.at(&entry.key_span, message);
            reports.add(mistake.help(help));
            return;
        }
        if !key.starts_with("x-") {
            self.report_unknown(reports, entry, keys);
        }
    }

    fn report_unknown(&self, reports: &mut Reports, entry: &YamlEntry, keys: &'static KeyTable) {
        let key = entry.key.as_str();
        // An entry `api_key: …` of a provider contains a key.
        let placed = |diagnostic: Diagnostic| {
            let diagnostic = diagnostic.at(&entry.key_span);
            match self.path.starts_with("providers.") || self.path.starts_with("git.credentials.") {
                true => diagnostic.hiding(),
                false => diagnostic,
            }
        };
        let accepted: Vec<&str> = keys
            .list
            .iter()
            .filter(|known| known.in_effect)
            .map(|known| known.name)
            .collect();
        let here = keys.foreign.iter().find(|(foreign, _)| *foreign == key);
        let elsewhere = || our_words(key).filter(|_| only_continuation(key, &accepted).is_none());
        if let Some(help) = here.map(|(_, help)| *help).or_else(elsewhere) {
            reports.add(
                placed(DiagnosticCode::ForeignKey.error(format!("unknown key `{key}`"))).help(help),
            );
            return;
        }
        if reports.is_full() {
            reports.add(DiagnosticCode::UnknownKey.error(""));
            return;
        }
        let verb = if keys.plural.ends_with("have") || keys.plural.ends_with("has") {
            ":"
        } else {
            " have:"
        };
        let unknown = DiagnosticCode::UnknownKey.error(format!("unknown key `{key}`"));
        let unknown = placed(unknown).label(if accepted.is_empty() {
            keys.plural.to_owned()
        } else {
            format!("{}{verb} {}", keys.plural, accepted.join(", "))
        });
        let unknown = match lookalikes(key) {
            Some(note) => unknown.note(note),
            None => unknown,
        };
        reports.add(unknown.suggest(key, accepted));
    }

    pub(crate) fn get(&self, key: &'static str) -> Option<&'n YamlEntry> {
        self.entries.get(key).copied()
    }

    /// Returns the location of a key's value, or of the mapping itself if the key is absent.
    pub(crate) fn span_of(&self, key: &'static str) -> &'n Span {
        self.get(key).map_or(self.span, |entry| &entry.node.span)
    }

    /// `sandbox.zones.data` + `path`.
    pub(crate) fn dotted(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// The entries of a section below this one.
    pub(crate) fn section(
        &self,
        reports: &mut Reports,
        key: &'static str,
        table: &'static KeyTable,
    ) -> Option<MappingFields<'n>> {
        let entry = self.get(key)?;
        MappingFields::open(reports, &entry.node, &self.dotted(key), table)
    }

    pub(crate) fn string(&self, reports: &mut Reports, key: &'static str) -> Option<&'n str> {
        let entry = self.get(key)?;
        string(reports, &entry.node, &self.dotted(&entry.key))
    }

    pub(crate) fn boolean(&self, reports: &mut Reports, key: &'static str) -> Option<bool> {
        let entry = self.get(key)?;
        boolean(reports, &entry.node, &self.dotted(&entry.key))
    }

    /// A whole number of at least 1.
    pub(crate) fn count(&self, reports: &mut Reports, key: &'static str) -> Option<u64> {
        let entry = self.get(key)?;
        count(reports, &entry.node, &self.dotted(&entry.key))
    }

    /// One of a list of words.
    pub(crate) fn word<T: Copy>(
        &self,
        reports: &mut Reports,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let entry = self.get(key)?;
        word(reports, &entry.node, &self.dotted(&entry.key), words)
    }

    /// A list of strings with their places.
    pub(crate) fn strings(
        &self,
        reports: &mut Reports,
        key: &'static str,
    ) -> Option<Vec<(&'n str, &'n YamlNode)>> {
        let entry = self.get(key)?;
        strings(reports, &entry.node, &self.dotted(&entry.key))
    }
}

/// Returns the only key of a mapping that is a word with a unit, which is then no other tool's word.
fn only_continuation<'k>(word: &str, keys: &[&'k str]) -> Option<&'k str> {
    let word = word.trim_end_matches('_');
    let mut longer = keys
        .iter()
        .filter(|key| key.starts_with(word) && key.len() <= word.len() + 2);
    longer.next().copied().filter(|_| longer.next().is_none())
}

/// Returns how to write a string in place of a mapping that has to have a key.
fn as_mapping(node: &YamlNode, path: &str, keys: &KeyTable) -> Option<String> {
    let YamlValue::Str(text) = &node.value else {
        return None;
    };
    // A string that could be a key of a person is not repeated.
    let is_secret = path.starts_with("providers.") || path.starts_with("git.credentials.");
    let mut required = keys.list.iter().filter(|key| key.required);
    let first = required.next().filter(|_| !is_secret && !text.is_empty())?;
    let more: String = required.map(|key| format!(", {}: …", key.name)).collect();
    Some(format!(
        "write `{{ {}: {}{more} }}`",
        first.name,
        yaml_text(text)
    ))
}

/// Our keys and words are ASCII: a character that is not may look like one that is.
fn lookalikes(word: &str) -> Option<String> {
    let foreign: Vec<String> = word
        .chars()
        .filter(|c| !c.is_ascii())
        .take(4)
        .map(|c| match is_hidden(c) {
            true => format!("U+{:04X}", u32::from(c)),
            false => format!("`{c}` (U+{:04X})", u32::from(c)),
        })
        .collect();
    (!foreign.is_empty()).then(|| format!("not ASCII: {}", foreign.join(", ")))
}

pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The entries of a mapping; an empty value is an empty mapping.
pub(crate) fn mapping<'n>(
    reports: &mut Reports,
    node: &'n YamlNode,
    path: &str,
) -> Option<&'n [YamlEntry]> {
    match &node.value {
        YamlValue::Map(entries) => Some(entries),
        YamlValue::Null => Some(&[]),
        _ => reports.refuse(wrong_type(node, path, "a mapping")),
    }
}

/// The entries of a mapping with free keys (zone names, tools), each key once.
pub(crate) fn free_mapping<'n>(
    reports: &mut Reports,
    node: &'n YamlNode,
    path: &str,
) -> Option<Vec<&'n YamlEntry>> {
    let entries = mapping(reports, node, path)?;
    let mut first: BTreeMap<&str, &YamlEntry> = BTreeMap::new();
    let mut list = Vec::new();
    for entry in entries {
        match first.insert(&entry.key, entry) {
            None => list.push(entry),
            Some(earlier) => reports.add(twice(entry, earlier)),
        }
    }
    Some(list)
}

fn twice(entry: &YamlEntry, first: &YamlEntry) -> Diagnostic {
    DiagnosticCode::DuplicateKey
        .at(
            &entry.key_span,
            format!("`{}` stands here a second time", entry.key),
        )
        .related(&first.key_span, "the first one")
        .help("remove one of them: which one holds must not depend on the order")
}

pub(crate) fn string<'n>(reports: &mut Reports, node: &'n YamlNode, path: &str) -> Option<&'n str> {
    match &node.value {
        YamlValue::Str(text) => Some(text),
        YamlValue::Int(_) | YamlValue::Float(_) | YamlValue::Bool(_) => {
            reports.refuse(wrong_type(node, path, "a string").help("put it in quotes"))
        }
        _ => reports.refuse(wrong_type(node, path, "a string")),
    }
}

pub(crate) fn boolean(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<bool> {
    match &node.value {
        YamlValue::Bool(value) => Some(*value),
        // A word that YAML 1.1 took for a boolean.
        YamlValue::Str(word) if let Some(meant) = old_boolean(word) => {
            reports.refuse(wrong_type(node, path, "true or false").help(format!("write `{meant}`")))
        }
        _ => reports.refuse(wrong_type(node, path, "true or false")),
    }
}

pub(crate) fn old_boolean(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "yes" | "y" | "on" | "true" => Some(true),
        "no" | "n" | "off" | "false" => Some(false),
        _ => None,
    }
}

pub(crate) fn count(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<u64> {
    /// Up to here every whole number has an exact f64.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = match &node.value {
        YamlValue::Int(number) => u64::try_from(*number).ok(),
        // `1e7`: written as a float, meant as a count.
        YamlValue::Float(number) if number.fract() == 0.0 && (0.0..EXACT).contains(number) => {
            Some(*number as u64)
        }
        YamlValue::Float(_) => None,
        _ => {
            return reports.refuse(wrong_type(node, path, "a whole number above 0"));
        }
    };
    let positive = number.filter(|number| *number > 0);
    if positive.is_none() {
        let message = format!("`{path}` must be a whole number above 0");
        reports.add(DiagnosticCode::BadValue.at(&node.span, message));
    }
    positive
}

/// A number that is not negative.
pub(crate) fn number(reports: &mut Reports, node: &YamlNode, path: &str) -> Option<f64> {
    let number = match &node.value {
        YamlValue::Int(number) => *number as f64,
        YamlValue::Float(number) => *number,
        _ => {
            return reports.refuse(wrong_type(node, path, "a number"));
        }
    };
    let fits = number.is_finite() && number >= 0.0;
    if !fits {
        let message = format!("`{path}` must be a number that is not negative");
        reports.add(DiagnosticCode::BadValue.at(&node.span, message));
    }
    fits.then_some(number)
}

pub(crate) fn word<T: Copy>(
    reports: &mut Reports,
    node: &YamlNode,
    path: &str,
    words: &[(&'static str, T)],
) -> Option<T> {
    let text = string(reports, node, path)?;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Some(*value);
    }
    let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let bad = DiagnosticCode::BadValue
        .at(&node.span, format!("`{text}` is not a value of `{path}`"))
        .label(format!("allowed: {}", allowed.join(", ")));
    let bad = match lookalikes(text) {
        Some(note) => bad.note(note),
        None => bad,
    };
    reports.refuse(bad.suggest(text, allowed))
}

pub(crate) fn list<'n>(
    reports: &mut Reports,
    node: &'n YamlNode,
    path: &str,
) -> Option<&'n [YamlNode]> {
    match &node.value {
        YamlValue::List(items) => Some(items),
        _ => {
            let wrong = wrong_type(node, path, "a list");
            reports.refuse(match &node.value {
                YamlValue::Str(text) => wrong.help(format!("write `[{text}]`")),
                _ => wrong,
            })
        }
    }
}

/// Returns the beginning of a list that is searched again and again: its length bounds the cost.
pub(crate) fn at_most<'l, T>(
    reports: &mut Reports,
    node: &YamlNode,
    path: &str,
    items: &'l [T],
    most: usize,
) -> &'l [T] {
    if items.len() > most {
        let message = format!("`{path}` has more than {most} entries");
        reports.add(DiagnosticCode::TooComplex.at(&node.span, message));
    }
    items.get(..most).unwrap_or(items)
}

pub(crate) fn strings<'n>(
    reports: &mut Reports,
    node: &'n YamlNode,
    path: &str,
) -> Option<Vec<(&'n str, &'n YamlNode)>> {
    let items = list(reports, node, path)?;
    let read = items
        .iter()
        .enumerate()
        .filter_map(|(index, item)| {
            let text = string(reports, item, &format!("{path}[{index}]"))?;
            Some((text, item))
        })
        .collect();
    Some(read)
}

pub(crate) fn wrong_type(node: &YamlNode, path: &str, expected: &str) -> Diagnostic {
    let subject = if path.is_empty() {
        "the file".to_owned()
    } else {
        format!("`{path}`")
    };
    let wrong = DiagnosticCode::WrongType.at(
        &node.span,
        format!("{subject} must be {expected}, not {}", node.kind()),
    );
    let is_joined = |text: &str| {
        let (key, value) = text.split_once(':').unwrap_or_default();
        !value.is_empty()
            && !value.starts_with('/')
            && key.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    match &node.value {
        _ if path.is_empty() => wrong.help("the file is YAML: write `key: value` lines"),
        YamlValue::Str(text) if expected == "a mapping" && is_joined(text) => {
            wrong.help("put a space after the colon: `key: value`")
        }
        _ => wrong,
    }
}
