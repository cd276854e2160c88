//! The generated parts of `docs/configuration.md`: a section for each table of keys with a line for
//! each key, what needs a person's yes, and the role of each key in the user file.
//! `FORGE_UPDATE_FIXTURES=1` writes them, as `cargo xtask docs` does.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::keys::{PROJECT, USER, WORKER};
use crate::syntax::fields::join;
use crate::syntax::key_table::shape::{KeyPattern, PORTS, ValueShape};
use crate::syntax::key_table::{KeySpec, KeyTable, MeetRule, MergeRule, UserKeyRole};
use crate::{TrustRule, Untrusted};

/// One section of the page.
struct PageSection {
    table: &'static KeyTable,
    title: String,
    /// The path of its keys: `sandbox.zones.NAME`.
    path: String,
}

/// The sections in the order of the page, each table once.
struct PageSections(Vec<PageSection>);

fn reference() -> String {
    let mut sections = PageSections(Vec::new());
    let tops = [
        (&PROJECT, "Project files", ""),
        (&WORKER, "Worker files", "worker: "),
        (&USER, "Keys of your own file", "user: "),
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

/// A line for each rule about privileged settings.
fn trust() -> String {
    let mut out = String::new();
    let _ = writeln!(out, "| key | effect | until trusted |\n|---|---|---|");
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
        let _ = writeln!(out, "| {keys} | {} | {until} |", rule.why());
    }
    out
}

/// The order of the user file's keys on the page; a key comes by its first prefix here, and the rest
/// at the end.
const USER_FILE_ORDER: &str = "model entry worker_paths runs_dir log.dir log.transcripts name \
    knowledge_base network approval shell.rules shell.default shell.allow shell.deny \
    shell.session shell sandbox.protect sandbox.hide sandbox.require_os_sandbox \
    sandbox.review sandbox.strict_paths sandbox.durable sandbox.programs sandbox require git log limits \
    execution_mode execution docker delegation";

/// Returns the keys of projects with their roles in the user file. A section of numbers alone is one
/// row.
fn user_roles() -> Vec<(String, UserKeyRole)> {
    let is_number =
        |role: &Option<UserKeyRole>| matches!(role, Some(UserKeyRole::Limit(MeetRule::Least)));
    let all = roles();
    let mut list: Vec<(String, UserKeyRole)> = Vec::new();
    for (path, role) in &all {
        let Some(role) = *role else { continue };
        let section = path.rsplit_once('.').map_or("", |(section, _)| section);
        let inside = |path: &str| path.rsplit_once('.').is_some_and(|(of, _)| of == section);
        let mut others = all.iter().filter(|(other, _)| inside(other));
        let pattern = match others.all(|(_, role)| is_number(role)) && inside(path) {
            true => format!("{section}.*"),
            false => path.clone(),
        };
        if list.last().is_none_or(|(last, _)| *last != pattern) {
            list.push((pattern, role));
        }
    }
    list.sort_by_key(|(path, _)| {
        let prefixes = USER_FILE_ORDER.split(' ').filter(|word| !word.is_empty());
        let comes_by = |prefix: &&str| {
            path.strip_prefix(*prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut prefixes = prefixes.enumerate();
        prefixes
            .find(|(_, prefix)| comes_by(prefix))
            .map_or(usize::MAX, |(at, _)| at)
    });
    list
}

/// Prints the role of each key of projects in the user file.
fn user_file() -> String {
    let rows = user_roles();
    let keys = |wanted: fn(&UserKeyRole) -> bool| {
        let keys: Vec<String> = rows
            .iter()
            .filter(|(_, role)| wanted(role))
            .map(|(pattern, _)| format!("`{pattern}`"))
            .collect();
        keys.join(", ")
    };
    let mut out = String::new();
    let limits = keys(|role| matches!(role, UserKeyRole::Limit(_)));
    let _ = writeln!(out, "- Limits: {limits}.");
    let preferences = keys(|role| matches!(role, UserKeyRole::Preference));
    let _ = writeln!(out, "- Preferences: {preferences}.");
    let whole = keys(|role| matches!(role, UserKeyRole::Whole));
    let _ = writeln!(
        out,
        "- Entries that replace the project's of the same name: {whole}.\n"
    );
    let _ = writeln!(
        out,
        "| key that your own file cannot set | reason |\n|---|---|"
    );
    for (pattern, role) in &rows {
        if let UserKeyRole::No(why) = role {
            let _ = writeln!(out, "| `{pattern}` | {why} |");
        }
    }
    out
}

impl PageSections {
    fn add(&mut self, table: &'static KeyTable, title: String, path: String, prefix: &str) {
        let known = self.0.iter().any(|known| std::ptr::eq(known.table, table));
        if known || !table.is_read() {
            return;
        }
        self.0.push(PageSection {
            table,
            title,
            path: path.clone(),
        });
        for key in table.list.iter().filter(|key| key.in_effect) {
            let path = join(&path, key.name);
            self.below(&key.shape, path, prefix);
        }
    }

    fn below(&mut self, shape: &ValueShape, path: String, prefix: &str) {
        match shape {
            ValueShape::Section(table) => {
                let title = format!("{prefix}`{path}`");
                self.add(table, title, path, prefix);
            }
            ValueShape::List(item) | ValueShape::NonEmpty(item) => {
                self.below(item, format!("{path}[]"), prefix);
            }
            ValueShape::Map(_, item) => self.below(item, format!("{path}.NAME"), prefix),
            ValueShape::OneOf(shapes) => {
                for shape in *shapes {
                    self.below(shape, path.clone(), prefix);
                }
            }
            _ => {}
        }
    }

    fn print(&self, section: &PageSection, out: &mut String) {
        let level = if section.path.is_empty() { "##" } else { "###" };
        let _ = writeln!(out, "{level} {}\n", section.title);
        let worker = section.title.contains("orker");
        let _ = writeln!(
            out,
            "| key | value | default |{} needs trust | meaning |\n|---|---|---|{}---|---|",
            if worker { "" } else { " layers |" },
            if worker { "" } else { "---|" }
        );
        for key in section.table.list.iter().filter(|key| key.in_effect) {
            self.row(key, worker, out);
        }
        out.push('\n');
        let later: Vec<String> = section
            .table
            .list
            .iter()
            .filter(|key| !key.in_effect)
            .map(|key| format!("`{}`", key.name))
            .collect();
        if !later.is_empty() {
            let later = later.join(", ");
            let _ = writeln!(
                out,
                "Reserved, and refused until they have an effect: {later}.\n"
            );
        }
        for example in examples(section.table) {
            let _ = writeln!(out, "```yaml\n{example}```\n");
        }
    }

    fn row(&self, key: &KeySpec, worker: bool, out: &mut String) {
        let names: Vec<String> = std::iter::once(&key.name)
            .chain(key.aliases)
            .map(|name| format!("`{name}`"))
            .collect();
        let default = match (key.required, key.default) {
            (true, _) => "required".to_owned(),
            (false, "") => String::new(),
            (false, default) => format!("`{default}`"),
        };
        let layers = match key.merge {
            _ if worker => "",
            MergeRule::Meet => " strictest |",
            MergeRule::LastLayer => " strongest |",
            MergeRule::Union => " united |",
        };
        let text = format!(
            "| {} | {} | {default} |{layers} {} | {} |",
            names.join(", "),
            self.shape(&key.shape),
            key.trust,
            key.doc.replace('|', "\\|"),
        );
        let _ = writeln!(out, "{text}");
    }

    fn shape(&self, shape: &ValueShape) -> String {
        match shape {
            ValueShape::Text => "text".to_owned(),
            ValueShape::Like(form) => form.noun.to_owned(),
            ValueShape::Bool => "`true`, `false`".to_owned(),
            ValueShape::True => "`true`".to_owned(),
            ValueShape::Count => "a whole number above 0".to_owned(),
            ValueShape::Port => format!("a port from {} to {}", PORTS.start(), PORTS.end()),
            ValueShape::Number => "a number".to_owned(),
            ValueShape::Exactly(number) => format!("`{number}`"),
            ValueShape::Words(words, also) => {
                let quoted = |words: &[&str]| {
                    let list: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                    list.join(", ")
                };
                match also {
                    [] => quoted(words),
                    also => format!("{}; also read: {}", quoted(words), quoted(also)),
                }
            }
            ValueShape::List(item) | ValueShape::NonEmpty(item) => {
                format!("a list: {}", self.shape(item))
            }
            ValueShape::Map(names, item) => {
                let of = match names {
                    KeyPattern::Any => "names",
                    KeyPattern::Like(form) => form.noun,
                    KeyPattern::Words(words) => {
                        return format!("`{}`, each: {}", words.join("`, `"), self.shape(item));
                    }
                };
                format!("{of}, each: {}", self.shape(item))
            }
            ValueShape::Section(table) => self.link(table),
            ValueShape::OneOf(shapes) => {
                let read = shapes.iter().filter(
                    |shape| !matches!(shape, ValueShape::Section(table) if !table.is_read()),
                );
                let list: Vec<String> = read.map(|shape| self.shape(shape)).collect();
                list.join(", or ")
            }
            ValueShape::Null => "`null`".to_owned(),
            ValueShape::Free => "a mapping".to_owned(),
            ValueShape::Schema => "a JSON Schema".to_owned(),
        }
    }

    fn link(&self, table: &'static KeyTable) -> String {
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

/// Returns every key that is read with its role, as deep as a role reaches (`*`: any name), in the
/// order of the reference page.
pub(super) fn roles() -> Vec<(String, Option<UserKeyRole>)> {
    let mut list = Vec::new();
    collect_roles(&PROJECT, "", &mut list);
    list
}

fn collect_roles(
    table: &'static KeyTable,
    above: &str,
    list: &mut Vec<(String, Option<UserKeyRole>)>,
) {
    for row in table.list.iter().filter(|row| row.in_effect) {
        let mut below = Vec::new();
        row.shape.tables(&mut below);
        let path = format!("{above}{}", row.name);
        match row.role() {
            Some(role) if row.user_each => list.push((format!("{path}.*"), Some(role))),
            None if !below.is_empty() => {
                for table in below {
                    collect_roles(table, &format!("{path}."), list);
                }
            }
            role => list.push((path, role)),
        }
    }
}

/// Whole files for the reference page, which together have every key of the table.
pub(super) fn examples(table: &KeyTable) -> Vec<String> {
    let file = |number: usize| match number {
        1 => format!("fixtures/config/keys/{}.yaml", table.id),
        _ => format!("fixtures/config/keys/{}.{number}.yaml", table.id),
    };
    let texts = (1..).map(|number| std::fs::read_to_string(repository(&file(number))));
    texts.map_while(Result::ok).collect()
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

#[test]
fn the_page_is_up_to_date() {
    let file = repository("docs/configuration.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let mut fresh = page.clone();
    for (part, text) in [
        ("your own file", user_file()),
        ("what needs a yes", trust()),
        ("every key", reference()),
    ] {
        let mark = format!("<!-- generated: {part} -->\n");
        let (before, rest) = fresh.split_once(&mark).unwrap();
        let (_, after) = rest.split_once("<!-- end of generated -->").unwrap();
        fresh = format!("{before}{mark}{text}<!-- end of generated -->{after}");
    }
    if std::env::var_os("FORGE_UPDATE_FIXTURES").is_some() && page != fresh {
        std::fs::write(&file, &fresh).unwrap();
    } else {
        assert!(page == fresh, "{}: run `cargo xtask docs`", file.display());
    }
}

#[test]
fn every_file_of_examples_belongs_to_a_table() {
    let tops = [&PROJECT, &WORKER, &USER];
    let used = tops.into_iter().flat_map(|top| top.reached());
    let used: BTreeSet<&str> = used.map(|table| table.id).collect();
    for file in std::fs::read_dir(repository("fixtures/config/keys")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let id = name.split('.').next().unwrap();
        assert!(used.contains(id), "{name}");
    }
}

/// The paths of all keys for which a row says that a yes is needed, without free names.
fn asking(table: &'static KeyTable, path: &str, found: &mut BTreeSet<String>) {
    for key in table.list.iter().filter(|key| key.in_effect) {
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
