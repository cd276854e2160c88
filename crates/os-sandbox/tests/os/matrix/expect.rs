//! `fixtures/confinement`: what a command tries, what the policy says about it, and what each
//! enforcer must make of it. Data only; the words are explained in `fixtures/README.md`.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Compiled in, because a test that runs as another user, or in a container, cannot reach the files.
pub(crate) const FILES: &[(&str, &str)] = &[
    (
        "files",
        include_str!("../../../../../fixtures/confinement/files.toml"),
    ),
    (
        "kernel",
        include_str!("../../../../../fixtures/confinement/kernel.toml"),
    ),
    (
        "network",
        include_str!("../../../../../fixtures/confinement/network.toml"),
    ),
    (
        "processes",
        include_str!("../../../../../fixtures/confinement/processes.toml"),
    ),
    (
        "names",
        include_str!("../../../../../fixtures/confinement/names.toml"),
    ),
    (
        "works",
        include_str!("../../../../../fixtures/confinement/works.toml"),
    ),
];
const PROMISES: &str = include_str!("../../../../../fixtures/confinement/promises.toml");
const IDS: &str = include_str!("../../../../../fixtures/confinement/ids.toml");

/// What stands between a command and the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Enforcer {
    /// Namespaces and the filter: what a kernel without Landlock has.
    MountLayer,
    /// Landlock and the filter.
    Landlock,
    /// Namespaces, with Landlock and the filter inside.
    Both,
}

impl Enforcer {
    pub(crate) const ALL: [Enforcer; 3] =
        [Enforcer::MountLayer, Enforcer::Landlock, Enforcer::Both];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Enforcer::MountLayer => "namespaces alone",
            Enforcer::Landlock => "Landlock + seccomp",
            Enforcer::Both => "both",
        }
    }
}

/// What must come of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Outcome {
    /// It works.
    #[serde(rename = "allow")]
    Allow,
    /// It is refused.
    #[serde(rename = "deny")]
    Deny,
    /// It is refused although the policy allows it; the README says so.
    #[serde(rename = "closed")]
    Closed,
    /// It works although the policy denies it, and the plan lists the promise as not kept.
    #[serde(rename = "listed")]
    Listed,
    /// There is no plan, because of exactly this promise.
    #[serde(rename = "refused to plan")]
    RefusedToPlan,
    /// There is a plan, and the start is refused.
    #[serde(rename = "refused to start")]
    RefusedToStart,
}

impl Outcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Outcome::Allow => "allow",
            Outcome::Deny => "deny",
            Outcome::Closed => "closed",
            Outcome::Listed => "listed",
            Outcome::RefusedToPlan => "refused to plan",
            Outcome::RefusedToStart => "refused to start",
        }
    }
}

/// An outcome, or one that depends on Landlock's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Expect {
    Always(Outcome),
    From { deny_from: u32, before: Outcome },
    Works { allow_from: u32, before: Outcome },
}

impl Expect {
    pub(crate) fn at(self, abi: u32) -> Outcome {
        match self {
            Expect::Always(outcome) => outcome,
            Expect::From { deny_from, .. } if abi >= deny_from => Outcome::Deny,
            Expect::Works { allow_from, .. } if abi >= allow_from => Outcome::Allow,
            Expect::From { before, .. } | Expect::Works { before, .. } => before,
        }
    }
}

impl std::fmt::Display for Expect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expect::Always(outcome) => f.write_str(outcome.name()),
            Expect::From { deny_from, before } => {
                write!(f, "deny from ABI {deny_from}, before: {}", before.name())
            }
            Expect::Works { allow_from, before } => {
                write!(f, "allow from ABI {allow_from}, before: {}", before.name())
            }
        }
    }
}

/// What each enforcer does; one that is not named does what the level above says.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PerEnforcer {
    namespaces: Option<Expect>,
    landlock: Option<Expect>,
    both: Option<Expect>,
}

impl PerEnforcer {
    fn get(&self, enforcer: Enforcer) -> Option<Expect> {
        match enforcer {
            Enforcer::MountLayer => self.namespaces,
            Enforcer::Landlock => self.landlock,
            Enforcer::Both => self.both,
        }
    }
}

/// What the policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reference {
    Allow,
    Deny,
}

/// What the policy is, beyond the two mounts that every case has.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicySpec {
    /// The writable mount is the root mount.
    #[serde(default)]
    pub(crate) root: bool,
    /// `/name HOST rwx`
    #[serde(default)]
    pub(crate) mounts: Vec<String>,
    #[serde(default)]
    pub(crate) protect: Vec<String>,
    #[serde(default)]
    pub(crate) hide: Vec<String>,
    pub(crate) network: Option<String>,
    #[serde(default)]
    pub(crate) hosts: Vec<String>,
    #[serde(default)]
    pub(crate) unix_open: bool,
    /// Paths of the host.
    #[serde(default)]
    pub(crate) unix_named: Vec<String>,
    pub(crate) memory_mb: Option<u64>,
    pub(crate) processes: Option<u64>,
    #[serde(default)]
    pub(crate) pass: Vec<String>,
}

/// Something that is tried, in one way or several, with one outcome for each enforcer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(
        dead_code,
        reason = "cases are only run on Linux; elsewhere the page is printed"
    )
)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The promise that it is about; a case about what must work has none.
    pub(crate) promise: Option<String>,
    /// Words of the probe; each string is an attempt.
    #[serde(default, rename = "do")]
    pub(crate) attempts: Vec<String>,
    /// Or a script for `sh`.
    pub(crate) script: Option<String>,
    pub(crate) reference: Reference,
    #[serde(flatten)]
    level: PerEnforcer,
    /// Where the caller is uid 0 and it makes a difference.
    #[serde(default)]
    as_root: PerEnforcer,
    /// One of these, where it is refused.
    #[serde(default)]
    pub(crate) errno: Vec<String>,
    /// Exactly this, where it works.
    pub(crate) says: Option<String>,
    /// Programs that it takes.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// Why an ordinary user cannot pose it.
    pub(crate) root_only: Option<String>,
    /// What the host is like before.
    #[serde(default)]
    pub(crate) setup: Vec<String>,
    /// What must be so afterwards, seen from outside; where the policy denies, this decides.
    #[serde(default)]
    pub(crate) after: Vec<String>,
    #[serde(default)]
    pub(crate) policy: PolicySpec,
    pub(crate) cwd: Option<String>,
    pub(crate) stdin: Option<String>,
    /// In a process of its own: it changes the process that tries it.
    #[serde(default)]
    pub(crate) alone: bool,
    /// Text cannot decide it: links are what the kernel makes of them.
    #[serde(default)]
    pub(crate) beyond_text: bool,
    pub(crate) why: Option<String>,
    #[serde(default)]
    pub(crate) source: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// What the file is about, for the page.
    title: String,
    /// The policy of cases that name none.
    #[serde(default)]
    policy: PolicySpec,
    case: Vec<Case>,
}

/// A promise and how each enforcer keeps it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PromiseRow {
    pub(crate) name: String,
    #[serde(flatten)]
    level: PerEnforcer,
    #[serde(default)]
    as_root: PerEnforcer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promises {
    promise: Vec<PromiseRow>,
}

/// What was published or measured elsewhere, and where it is answered.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ids {
    /// Must have a case.
    pub(crate) covered: BTreeMap<String, String>,
    /// Answered by this file, which names it.
    pub(crate) elsewhere: BTreeMap<String, String>,
    /// Nothing that a command could try here.
    pub(crate) not_tried: BTreeMap<String, String>,
}

/// All fixtures, read.
pub(crate) struct Fixtures {
    /// Title and cases of each file, in the order of the page.
    pub(crate) files: Vec<(String, Vec<Case>)>,
    pub(crate) promises: Vec<PromiseRow>,
    pub(crate) ids: Ids,
}

impl Fixtures {
    pub(crate) fn read() -> Result<Fixtures, String> {
        let mut files = Vec::new();
        for (name, text) in FILES {
            let mut file: File = toml::from_str(text).map_err(|e| format!("{name}.toml: {e}"))?;
            for case in &mut file.case {
                if case.policy == PolicySpec::default() {
                    case.policy = file.policy.clone();
                }
            }
            files.push((file.title, file.case));
        }
        let promises: Promises =
            toml::from_str(PROMISES).map_err(|e| format!("promises.toml: {e}"))?;
        let ids = toml::from_str(IDS).map_err(|e| format!("ids.toml: {e}"))?;
        Ok(Fixtures {
            files,
            promises: promises.promise,
            ids,
        })
    }

    pub(crate) fn cases(&self) -> impl Iterator<Item = &Case> {
        self.files.iter().flat_map(|(_, cases)| cases)
    }

    pub(crate) fn promise(&self, name: &str) -> Option<&PromiseRow> {
        self.promises.iter().find(|row| row.name == name)
    }

    /// What a promise comes to as such.
    pub(crate) fn row(&self, row: &PromiseRow, enforcer: Enforcer, root: bool) -> Expect {
        row.as_root
            .get(enforcer)
            .filter(|_| root)
            .or(row.level.get(enforcer))
            .unwrap_or(Expect::Always(Outcome::Deny))
    }

    /// What a case must come to: its own word, else its promise's, else the policy's.
    pub(crate) fn expect(&self, case: &Case, enforcer: Enforcer, root: bool) -> Expect {
        let own = case
            .as_root
            .get(enforcer)
            .filter(|_| root)
            .or(case.level.get(enforcer));
        if let Some(expect) = own {
            return expect;
        }
        match case.reference {
            Reference::Allow => Expect::Always(Outcome::Allow),
            Reference::Deny => case
                .promise
                .as_deref()
                .and_then(|name| self.promise(name))
                .map_or(Expect::Always(Outcome::Deny), |row| {
                    self.row(row, enforcer, root)
                }),
        }
    }
}
