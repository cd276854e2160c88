//! `fixtures/escapes`: what is tried and what must come of it, as data.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

/// Compiled in, because a test that runs as another user may not be able to reach the files.
const FILES: &[(&str, &str)] = &[
    (
        "climbing.toml",
        include_str!("../../../../../fixtures/escapes/climbing.toml"),
    ),
    (
        "links.toml",
        include_str!("../../../../../fixtures/escapes/links.toml"),
    ),
    (
        "roots.toml",
        include_str!("../../../../../fixtures/escapes/roots.toml"),
    ),
    (
        "rules.toml",
        include_str!("../../../../../fixtures/escapes/rules.toml"),
    ),
    (
        "slashes.toml",
        include_str!("../../../../../fixtures/escapes/slashes.toml"),
    ),
    (
        "special.toml",
        include_str!("../../../../../fixtures/escapes/special.toml"),
    ),
    (
        "texts.toml",
        include_str!("../../../../../fixtures/escapes/texts.toml"),
    ),
];
const IDS: &str = include_str!("../../../../../fixtures/escapes/ids.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Row>,
}

/// Some paths that are tried in some ways, with one result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// `{x*N}` in them stands for `x`, N times.
    pub(crate) paths: Vec<String>,
    #[serde(rename = "do")]
    what: What,
    /// The code of an error, or `OK`.
    pub(crate) expect: String,
    why: String,
    #[serde(default)]
    ids: BTreeSet<String>,
    #[serde(default)]
    links: Vec<String>,
    /// Why memory cannot have it.
    #[serde(default)]
    pub(crate) host_only: Option<String>,
    /// Why only root can have it.
    #[serde(default)]
    pub(crate) root_only: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum What {
    Set(Set),
    List(Vec<Do>),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Set {
    Every,
    /// All but deleting: a link out may itself be deleted.
    Through,
    Reads,
    Changes,
    /// What can make something new.
    Makes,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Do {
    Read,
    ReadBytes,
    Write,
    Delete,
    List,
    Stat,
    Exists,
    Resolve,
}

const EVERY: &[Do] = &[
    Do::Read,
    Do::ReadBytes,
    Do::Write,
    Do::Delete,
    Do::List,
    Do::Stat,
    Do::Exists,
    Do::Resolve,
];
const READS: &[Do] = &[Do::Read, Do::ReadBytes];
const CHANGES: &[Do] = &[Do::Write, Do::Delete];
const MAKES: &[Do] = &[Do::Write];

impl Row {
    pub(crate) fn what(&self) -> Vec<Do> {
        match &self.what {
            What::List(list) => list.clone(),
            What::Set(Set::Every) => EVERY.to_vec(),
            What::Set(Set::Through) => {
                let through = |what: &&Do| **what != Do::Delete;
                EVERY.iter().filter(through).copied().collect()
            }
            What::Set(Set::Reads) => READS.to_vec(),
            What::Set(Set::Changes) => CHANGES.to_vec(),
            What::Set(Set::Makes) => MAKES.to_vec(),
        }
    }
}

pub(crate) fn all() -> Vec<Row> {
    let parse = |(name, text): &(&str, &str)| {
        let file: File = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        file.row
    };
    let mut rows: Vec<Row> = FILES.iter().flat_map(parse).collect();
    for row in &mut rows {
        for path in &mut row.paths {
            *path = repeated(path);
        }
    }
    rows
}

/// Writes `{x*N}` out.
fn repeated(text: &str) -> String {
    let group = || {
        let (before, rest) = text.split_once('{')?;
        let (body, after) = rest.split_once('}')?;
        let (part, times) = body.rsplit_once('*')?;
        let times: usize = times.parse().ok()?;
        Some(format!("{before}{}{after}", part.repeat(times)))
    };
    group().unwrap_or_else(|| text.to_owned())
}

#[test]
fn every_row_says_why_and_every_published_escape_has_one() {
    #[derive(Deserialize)]
    struct Ids {
        covered: BTreeSet<String>,
    }
    let rows = all();
    for row in &rows {
        assert!(!row.why.is_empty(), "{:?}", row.paths);
        assert!(row.links.iter().all(|link| link.starts_with("https://")));
    }
    let ids: Ids = toml::from_str(IDS).unwrap();
    let answered: BTreeSet<String> = rows.into_iter().flat_map(|row| row.ids).collect();
    assert_eq!(answered, ids.covered);
}

#[test]
fn no_file_of_the_directory_is_left_out() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/escapes");
    let here: BTreeSet<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let read = FILES.iter().map(|(name, _)| (*name).to_owned());
    let others = ["ids.toml", "tree.toml"].map(str::to_owned);
    assert_eq!(here, read.chain(others).collect());
}
