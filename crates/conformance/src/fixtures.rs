//! `fixtures/conformance`, read. `fixtures/README.md` explains the words.

use crate::case::{Case, CaseText, Difference};
use crate::policy::PolicySpec;
use crate::tree::Tree;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Files that hold no cases.
const TREES: &str = "trees.toml";
const POLICIES: &str = "policies.toml";
const DIFFERENCES: &str = "differences.toml";

/// All fixtures, in the order of the page: files by name, cases in the order of their file.
pub(crate) struct Fixtures {
    pub(crate) trees: Vec<Tree>,
    pub(crate) policies: Vec<PolicySpec>,
    pub(crate) differences: Vec<Difference>,
    /// The title of each file, and the index of its first case.
    pub(crate) titles: Vec<(String, usize)>,
    pub(crate) cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trees {
    tree: Vec<Tree>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Policies {
    policy: Vec<PolicySpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Differences {
    difference: Vec<Difference>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    /// Those of cases that name none.
    tree: Option<String>,
    policy: Option<String>,
    promise: Option<String>,
    case: Vec<CaseText>,
}

impl Fixtures {
    pub(crate) fn read(dir: &Path) -> Result<Fixtures, String> {
        let Trees { tree } = parse(&dir.join(TREES))?;
        let Policies { policy } = parse(&dir.join(POLICIES))?;
        let Differences { difference } = parse(&dir.join(DIFFERENCES))?;
        let mut fixtures = Fixtures {
            trees: tree,
            policies: policy,
            differences: difference,
            titles: Vec::new(),
            cases: Vec::new(),
        };
        let mut names: Vec<PathBuf> = std::fs::read_dir(dir)
            .map_err(|error| format!("{}: {error}", dir.display()))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
            .filter(|path| {
                ![TREES, POLICIES, DIFFERENCES]
                    .iter()
                    .any(|other| path.ends_with(other))
            })
            .collect();
        names.sort();
        for path in names {
            let file: File = parse(&path)?;
            fixtures.titles.push((file.title, fixtures.cases.len()));
            for mut text in file.case {
                text.tree = text.tree.or_else(|| file.tree.clone());
                text.policy = text.policy.or_else(|| file.policy.clone());
                text.promise = text.promise.or_else(|| file.promise.clone());
                let name = text.name.clone();
                let case = Case::new(text, &fixtures)
                    .map_err(|error| format!("{}: {name:?}: {error}", path.display()))?;
                fixtures.cases.push(case);
            }
        }
        Ok(fixtures)
    }

    pub(crate) fn tree(&self, case: &Case) -> &Tree {
        &self.trees[case.tree]
    }

    pub(crate) fn policy(&self, case: &Case) -> &PolicySpec {
        &self.policies[case.policy]
    }
}

fn parse<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The repository that this program was built from.
pub(crate) fn checkout() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize()
        .map_err(|error| format!("{}: {error}", root.display()))
}
