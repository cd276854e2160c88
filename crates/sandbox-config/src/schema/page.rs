//! The reference page: a section for each table of keys, a line for each key.

use std::fmt::Write as _;

use crate::project::user_keys::{ROWS, Role};
use crate::schema::examples;
use crate::syntax::keys::{Key, Keys, Merge, Names, PROJECT, Shape, USER, WORKER};
use crate::{TrustRule, Untrusted};

/// One section of the page.
struct Section {
    table: &'static Keys,
    title: String,
    /// Where its keys stand: `sandbox.zones.NAME`.
    path: String,
}

/// The sections in the order of the page, each table once.
struct Sections(Vec<Section>);

pub(super) fn reference() -> String {
    let mut sections = Sections(Vec::new());
    let tops = [
        (&PROJECT, "Project files", ""),
        (&WORKER, "Worker files", "worker: "),
        (&USER, "The person's own file", "user: "),
    ];
    for (top, title, prefix) in tops {
        sections.add(top, title.to_owned(), String::new(), prefix);
    }
    let mut out = String::new();
    for section in &sections.0 {
        sections.print(section, &mut out);
    }
    out
}

/// A line for each rule about widening keys.
pub(super) fn trust() -> String {
    let mut out = String::new();
    line(
        &mut out,
        format_args!("| key | what it does | until trusted |\n|---|---|---|"),
    );
    for rule in TrustRule::all() {
        let mut keys: Vec<String> = Vec::new();
        for key in rule.keys().map(|key| format!("`{key}`")) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let until = match rule.untrusted() {
            Untrusted::Refused => "nothing is loaded".to_owned(),
            Untrusted::Ignored(instead) => format!("it is ignored: {instead}"),
        };
        let keys = keys.join(", ");
        line(
            &mut out,
            format_args!("| {keys} | {} | {until} |", rule.why()),
        );
    }
    out
}

/// What each key of projects is in the person's own file.
pub(super) fn user_file() -> String {
    let rows = || ROWS.iter().filter(|(pattern, _)| is_read(pattern));
    let keys = |wanted: fn(&Role) -> bool| {
        let keys: Vec<String> = rows()
            .filter(|(_, role)| wanted(role))
            .map(|(pattern, _)| format!("`{pattern}`"))
            .collect();
        keys.join(", ")
    };
    let mut out = String::new();
    let limits = keys(|role| matches!(role, Role::Limit(_)));
    line(&mut out, format_args!("- Limits: {limits}."));
    let preferences = keys(|role| matches!(role, Role::Preference));
    line(&mut out, format_args!("- Preferences: {preferences}."));
    let whole = keys(|role| matches!(role, Role::Whole));
    line(
        &mut out,
        format_args!("- Yours alone where your own file names it: {whole}.\n"),
    );
    line(
        &mut out,
        format_args!("| not for your own file | because |\n|---|---|"),
    );
    for (pattern, role) in rows() {
        if let Role::No(why) = role {
            line(&mut out, format_args!("| `{pattern}` | {why} |"));
        }
    }
    out
}

/// Whether a key that a row speaks of is read.
fn is_read(pattern: &str) -> bool {
    let mut tables = vec![&PROJECT];
    for name in pattern.split('.').filter(|name| *name != "*") {
        let found = tables.iter().flat_map(|table| table.list);
        let found = found.filter(|key| key.now).find(|key| key.name == name);
        let Some(key) = found else {
            return false;
        };
        tables = Vec::new();
        key.shape.tables(&mut tables);
    }
    true
}

impl Sections {
    fn add(&mut self, table: &'static Keys, title: String, path: String, prefix: &str) {
        let known = self.0.iter().any(|known| std::ptr::eq(known.table, table));
        if known || !table.is_read() {
            return;
        }
        self.0.push(Section {
            table,
            title,
            path: path.clone(),
        });
        for key in table.list.iter().filter(|key| key.now) {
            let path = if path.is_empty() {
                key.name.to_owned()
            } else {
                format!("{path}.{}", key.name)
            };
            self.below(&key.shape, path, prefix);
        }
    }

    fn below(&mut self, shape: &Shape, path: String, prefix: &str) {
        match shape {
            Shape::Section(table) => {
                let title = format!("{prefix}`{path}`");
                self.add(table, title, path, prefix);
            }
            Shape::List(item) | Shape::Some(item) => {
                self.below(item, format!("{path}[]"), prefix);
            }
            Shape::Map(_, item) => self.below(item, format!("{path}.NAME"), prefix),
            Shape::OneOf(shapes) => {
                for shape in *shapes {
                    self.below(shape, path.clone(), prefix);
                }
            }
            Shape::Text
            | Shape::Like(_)
            | Shape::Bool
            | Shape::True
            | Shape::Count
            | Shape::Number
            | Shape::Exactly(_)
            | Shape::Words(..)
            | Shape::Null
            | Shape::Free
            | Shape::Schema => {}
        }
    }

    fn print(&self, section: &Section, out: &mut String) {
        let level = if section.path.is_empty() { "##" } else { "###" };
        line(out, format_args!("{level} {}\n", section.title));
        let worker = section.title.contains("orker");
        line(
            out,
            format_args!(
                "| key | value | without it |{} needs trust | what it says |\n|---|---|---|{}---|---|",
                if worker { "" } else { " layers |" },
                if worker { "" } else { "---|" },
            ),
        );
        for key in section.table.list.iter().filter(|key| key.now) {
            self.row(key, worker, out);
        }
        out.push('\n');
        let later: Vec<String> = section
            .table
            .list
            .iter()
            .filter(|key| !key.now)
            .map(|key| format!("`{}`", key.name))
            .collect();
        if !later.is_empty() {
            let later = later.join(", ");
            line(
                out,
                format_args!("Not yet, and refused by name: {later}.\n"),
            );
        }
        for example in examples::of(section.table.id) {
            line(out, format_args!("```yaml\n{example}```\n"));
        }
    }

    fn row(&self, key: &Key, worker: bool, out: &mut String) {
        let names: Vec<String> = std::iter::once(&key.name)
            .chain(key.aliases)
            .map(|name| format!("`{name}`"))
            .collect();
        let without = match (key.required, key.default) {
            (true, _) => "a mistake".to_owned(),
            (false, "") => String::new(),
            (false, default) => format!("`{default}`"),
        };
        let layers = match key.merge {
            _ if worker => "",
            Merge::Meet => " what all allow |",
            Merge::Strongest => " the strongest |",
            Merge::Union => " all of them |",
        };
        let text = format!(
            "| {} | {} | {without} |{layers} {} | {} |",
            names.join(", "),
            self.shape(&key.shape),
            key.trust,
            key.doc.replace('|', "\\|"),
        );
        line(out, format_args!("{text}"));
    }

    fn shape(&self, shape: &Shape) -> String {
        match shape {
            Shape::Text => "text".to_owned(),
            Shape::Like(form) => form.what.to_owned(),
            Shape::Bool => "`true`, `false`".to_owned(),
            Shape::True => "`true`".to_owned(),
            Shape::Count => "a whole number above 0".to_owned(),
            Shape::Number => "a number".to_owned(),
            Shape::Exactly(number) => format!("`{number}`"),
            Shape::Words(words, also) => {
                let quoted = |words: &[&str]| {
                    let list: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                    list.join(", ")
                };
                match also {
                    [] => quoted(words),
                    also => format!("{}; also read: {}", quoted(words), quoted(also)),
                }
            }
            Shape::List(item) | Shape::Some(item) => format!("a list: {}", self.shape(item)),
            Shape::Map(names, item) => {
                let of = match names {
                    Names::Any => "names",
                    Names::Like(form) => form.what,
                    Names::Words(words) => {
                        return format!("`{}`, each: {}", words.join("`, `"), self.shape(item));
                    }
                };
                format!("{of}, each: {}", self.shape(item))
            }
            Shape::Section(table) => self.link(table),
            Shape::OneOf(shapes) => {
                let read = shapes
                    .iter()
                    .filter(|shape| !matches!(shape, Shape::Section(table) if !table.is_read()));
                let list: Vec<String> = read.map(|shape| self.shape(shape)).collect();
                list.join(", or ")
            }
            Shape::Null => "`null`".to_owned(),
            Shape::Free => "a mapping".to_owned(),
            Shape::Schema => "a JSON Schema".to_owned(),
        }
    }

    fn link(&self, table: &'static Keys) -> String {
        let found = self.0.iter().find(|known| std::ptr::eq(known.table, table));
        found.map_or_else(String::new, |section| {
            let anchor: String = section
                .title
                .to_lowercase()
                .chars()
                .filter_map(|c| match c {
                    ' ' => Some('-'),
                    c if c.is_alphanumeric() || matches!(c, '_' | '-') => Some(c),
                    _ => None,
                })
                .collect();
            format!("[{}](#{anchor})", section.title)
        })
    }
}

/// Writing to a string cannot fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The paths of all keys for which a row says that a yes is needed, without free names.
    fn asking(table: &'static Keys, path: &str, found: &mut BTreeSet<String>) {
        for key in table.list.iter().filter(|key| key.now) {
            let path = format!("{path}.{}", key.name);
            if !key.trust.is_empty() {
                found.insert(path.trim_start_matches('.').to_owned());
            }
            let mut tables = Vec::new();
            key.shape.tables(&mut tables);
            for table in tables {
                asking(table, &path, found);
            }
        }
    }

    #[test]
    fn the_rows_name_the_keys_that_need_a_yes() {
        let (mut project, mut worker) = (BTreeSet::new(), BTreeSet::new());
        asking(&PROJECT, "", &mut project);
        // A second spelling of `network`; and where deleting is unasked anyway, saying so widens
        // nothing.
        project.remove("sandbox.network");
        project.remove("sandbox.paths.approval.delete");
        asking(&WORKER, "workers", &mut worker);
        let (of_workers, of_projects): (BTreeSet<String>, BTreeSet<String>) = TrustRule::all()
            .flat_map(TrustRule::keys)
            .map(|key| key.replace("[*]", "").replace(".*", ""))
            .partition(|key| key.starts_with("workers."));
        assert_eq!(project, of_projects);
        // Workers share tables with projects; where they can only tighten nobody is asked.
        assert!(worker.is_superset(&of_workers), "{of_workers:?}");
    }
}
