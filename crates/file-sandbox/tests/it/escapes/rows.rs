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
    /// What follows a link at the last name.
    Through,
    Reads,
    Lists,
    /// What changes what is there.
    Changes,
    Writes,
    Makes,
    /// What takes a name away.
    Names,
}

/// An operation. Those with two paths have the row's path at one end, and a good one at the other.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Do {
    Read,
    ReadBytes,
    Open,
    Hash,
    CopyFrom,
    Write,
    Append,
    Edit,
    CopyTo,
    CreateDir,
    RenameTo,
    RenameFrom,
    Delete,
    DeleteAll,
    List,
    Glob,
    Walk,
    Search,
    Stat,
    Exists,
    Resolve,
}

const READS: &[Do] = &[Do::Read, Do::ReadBytes, Do::Open, Do::Hash, Do::CopyFrom];
/// What can make something new.
const MAKES: &[Do] = &[
    Do::Write,
    Do::Append,
    Do::CopyTo,
    Do::CreateDir,
    Do::RenameTo,
];
/// What puts text into a file, whether or not it was there.
const WRITES: &[Do] = &[Do::Write, Do::Append, Do::CopyTo];
/// What changes the text of a file that is there.
const EDITS: &[Do] = &[Do::Edit];
/// What acts on the name itself, also if it is that of a link.
const NAMES: &[Do] = &[Do::Delete, Do::DeleteAll, Do::RenameFrom];
const LISTS: &[Do] = &[Do::List, Do::Glob, Do::Walk];
const ASKS: &[Do] = &[Do::Search, Do::Stat, Do::Exists, Do::Resolve];

impl Row {
    pub(crate) fn what(&self) -> Vec<Do> {
        match &self.what {
            What::List(list) => list.clone(),
            What::Set(set) => {
                let groups: &[&[Do]] = match set {
                    Set::Every => &[READS, MAKES, EDITS, NAMES, LISTS, ASKS],
                    Set::Through => &[READS, WRITES, EDITS, LISTS, ASKS],
                    Set::Reads => &[READS],
                    Set::Lists => &[LISTS],
                    Set::Changes => &[WRITES, EDITS, NAMES],
                    Set::Writes => &[WRITES],
                    Set::Makes => &[MAKES],
                    Set::Names => &[NAMES],
                };
                groups.concat()
            }
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
