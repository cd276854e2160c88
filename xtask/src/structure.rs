//! `cargo xtask structure`: measures the sources as a reader meets them and compares the figures
//! with `xtask/structure.tsv`. A rise fails; a fall is told, and `--record` writes it. A rise that
//! is meant is an edit of the table, argued for in its commit.

use std::collections::BTreeMap;
use std::fs;

use crate::checkout;
use crate::failure::{Context, Failure};
use crate::measure::{self, Figure, Source};
use crate::process;
use crate::table::Table;
use crate::workspace;

pub(crate) const ABOUT: &str = "measure code, circles of modules, shared names, long functions and prose against xtask/structure.tsv (--record: write lower figures)";

const TABLE: &str = "xtask/structure.tsv";
const HEAD: &str =
    "# The most that `cargo xtask structure` accepts. `--record` writes lower figures.\n";

/// The largest file of the repository. A program or a trace that is committed by accident is larger.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Places printed for one figure.
const MAX_PLACES: usize = 60;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let record = match arguments {
        [] => false,
        [flag] if flag == "--record" => true,
        _ => return Err(Failure::Usage("expected nothing or `--record`".into())),
    };
    let file = workspace::root().join(TABLE);
    let text = match fs::read_to_string(&file) {
        Err(_) if record => String::new(),
        text => text.context(file.display())?,
    };
    let limits = Limits::parse(&text)?;
    let figures = measure::figures(&sources()?);
    let mut table = Table::new(["figure", "now", "at most"]);
    for figure in &figures {
        let cells = [figure.value, limits.of(figure)].map(|number| number.to_string());
        table.row([figure.name.clone()].into_iter().chain(cells));
    }
    println!("{table}");
    let fallen = figures.iter().filter(|f| f.value < limits.recorded(f));
    match fallen.count() {
        0 => {}
        _ if record => fs::write(&file, limits.lowered(&figures)).context(file.display())?,
        count => println!("{count} figures fell: `cargo xtask structure --record` writes them"),
    }
    let changed = changed_since_recorded();
    let mut rises = Vec::new();
    for figure in figures.iter().filter(|f| f.value > limits.of(f)) {
        let (name, value, limit) = (&figure.name, figure.value, limits.of(figure));
        rises.push(format!("{name}: {value}, at most {limit}"));
        println!("{name}: {value}, at most {limit}:");
        for place in suspects(&figure.places, &changed) {
            println!("  {place}");
        }
    }
    match rises.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(rises.join("; "))),
    }
}

/// The recorded figures.
struct Limits(BTreeMap<String, f64>);

impl Limits {
    fn parse(text: &str) -> Result<Self, Failure> {
        let rows = text.lines().filter(|line| !line.starts_with('#'));
        let limits = rows.map(|row| {
            let (name, value) = row.split_once('\t').unwrap_or((row, ""));
            let value = value.parse().context(format!("{TABLE}: {row}"))?;
            Ok((name.to_owned(), value))
        });
        limits.collect::<Result<_, Failure>>().map(Limits)
    }

    fn recorded(&self, figure: &Figure) -> f64 {
        // A new crate starts without exceptions; a table that is written anew takes all.
        let unknown = if self.0.is_empty() {
            f64::INFINITY
        } else {
            0.0
        };
        self.0.get(&figure.name).copied().unwrap_or(unknown)
    }

    fn of(&self, figure: &Figure) -> f64 {
        let is_circle = figure.name.starts_with("largest circle");
        self.recorded(figure).max(if is_circle { 2.0 } else { 0.0 })
    }

    /// The table with every figure that fell. Rows of removed crates go.
    fn lowered(&self, figures: &[Figure]) -> String {
        let row = |f: &Figure| format!("{}\t{}\n", f.name, f.value.min(self.recorded(f)));
        HEAD.to_owned() + &figures.iter().map(row).collect::<String>()
    }
}

/// The Rust sources and pages that git knows.
fn sources() -> Result<Vec<Source>, Failure> {
    let root = workspace::root();
    let mut sources = Vec::new();
    for path in checkout::files(&root)? {
        let size = fs::symlink_metadata(root.join(&path)).map_or(0, |meta| meta.len());
        if size > MAX_FILE_BYTES {
            let path = path.display();
            return Err(Failure::new(format!(
                "{path}: {size} bytes, at most {MAX_FILE_BYTES}"
            )));
        }
        if path.extension().is_some_and(|e| e == "rs" || e == "md") {
            let text = fs::read_to_string(root.join(&path)).context(path.display())?;
            let path = path.to_string_lossy().into_owned();
            sources.push(Source { path, text });
        }
    }
    Ok(sources)
}

/// Files that differ from the commit that wrote the table last. None in a shallow clone.
fn changed_since_recorded() -> Vec<String> {
    let git = |arguments: &[&str]| process::output(process::command("git").args(arguments));
    let commit = git(&["log", "-1", "--format=%H", "--", TABLE]).unwrap_or_default();
    let files = match commit.trim() {
        "" => String::new(),
        commit => git(&["diff", "--name-only", commit]).unwrap_or_default(),
    };
    files.lines().map(str::to_owned).collect()
}

/// The places in `changed` files, or all if none is in one.
fn suspects<'a>(places: &'a [String], changed: &[String]) -> impl Iterator<Item = &'a String> {
    let is_changed = |place: &String| changed.iter().any(|file| place.contains(file.as_str()));
    let some_are = places.iter().any(is_changed);
    let shown: Vec<_> = places
        .iter()
        .filter(|p| !some_are || is_changed(p))
        .collect();
    shown.into_iter().take(MAX_PLACES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lower_figures_are_recorded_and_a_new_crate_has_no_exceptions() {
        let limits = Limits::parse("# head\nfell\t9\nrose\t3.5\ngone\t1\n").expect("a table");
        let figure = |name: &str, value| Figure {
            name: name.into(),
            value,
            places: Vec::new(),
        };
        let circle = "largest circle, new";
        let figures = [
            figure("fell", 7.0),
            figure("rose", 4.0),
            figure("new", 2.0),
            figure(circle, 2.0),
        ];
        let expected = format!("{HEAD}fell\t7\nrose\t3.5\nnew\t0\n{circle}\t0\n");
        assert_eq!(limits.lowered(&figures), expected);
        assert_eq!(
            figures.each_ref().map(|figure| limits.of(figure)),
            [9.0, 3.5, 0.0, 2.0]
        );
        assert!(Limits::parse("no number\n").is_err());
    }

    #[test]
    fn places_in_changed_files_are_shown_alone() {
        let places = ["a.rs:1".to_owned(), "b.rs:2".to_owned()];
        assert!(suspects(&places, &["b.rs".to_owned()]).eq(["b.rs:2"]));
        assert!(suspects(&places, &[]).eq(["a.rs:1", "b.rs:2"]));
    }
}
