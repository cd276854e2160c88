//! The fixtures themselves: complete, and without contradictions.

use super::expect::{Case, Enforcer, Expect, Fixtures, Outcome, Reference};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Everything that is wrong with them.
pub(crate) fn complaints(fixtures: &Fixtures) -> Vec<String> {
    let mut out = Vec::new();
    let mut names = BTreeSet::new();
    for case in fixtures.cases() {
        if !names.insert(&case.name) {
            out.push(format!("two cases are called {:?}", case.name));
        }
        out.extend(
            one(fixtures, case)
                .into_iter()
                .map(|what| format!("{:?}: {what}", case.name)),
        );
    }
    promises(fixtures, &mut out);
    ids(fixtures, &mut out);
    if let Some(root) = checkout() {
        listed(&root, &mut out);
        for (id, file) in &fixtures.ids.elsewhere {
            let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            let named = !id.starts_with("CVE-") || text.contains(id.as_str());
            if text.is_empty() || !named {
                out.push(format!("{id} is not in {file}"));
            }
        }
    }
    out
}

/// The repository, where this program can see it.
pub(crate) fn checkout() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("fixtures/confinement/ids.toml")
        .is_file()
        .then_some(root)
}

fn one(fixtures: &Fixtures, case: &Case) -> Vec<String> {
    let mut out = Vec::new();
    if case.attempts.is_empty() == case.script.is_none() {
        out.push("it takes either attempts or a script".to_owned());
    }
    match (case.reference, &case.promise) {
        (Reference::Deny, None) => out.push("what is denied has a promise".to_owned()),
        (Reference::Allow, Some(_)) => out.push("what is allowed has no promise".to_owned()),
        (Reference::Deny, Some(name)) if fixtures.promise(name).is_none() => {
            out.push(format!("no such promise: {name}"));
        }
        (Reference::Deny, Some(_)) | (Reference::Allow, None) => {}
    }
    for enforcer in Enforcer::ALL {
        for root in [false, true] {
            let expect = fixtures.expect(case, enforcer, root);
            let outcomes = match expect {
                Expect::Always(outcome) => vec![outcome],
                Expect::From { before, .. } => vec![Outcome::Deny, before],
                Expect::Works { before, .. } => vec![Outcome::Allow, before],
            };
            for outcome in outcomes {
                let sense = match (case.reference, outcome) {
                    (Reference::Deny, Outcome::Allow | Outcome::Closed)
                    | (Reference::Allow, Outcome::Deny | Outcome::Listed) => false,
                    (Reference::Allow, Outcome::Closed | Outcome::RefusedToPlan) => {
                        case.why.is_some()
                    }
                    (Reference::Deny, _) | (Reference::Allow, _) => true,
                };
                if !sense {
                    out.push(format!(
                        "{} while the policy says {:?} (silently, or without a why)",
                        outcome.name(),
                        case.reference
                    ));
                }
            }
        }
    }
    out
}

fn promises(fixtures: &Fixtures, out: &mut Vec<String>) {
    let known: BTreeSet<&str> = super::page::promises().into_iter().collect();
    let rows: BTreeSet<&str> = fixtures
        .promises
        .iter()
        .map(|row| row.name.as_str())
        .collect();
    for name in known.symmetric_difference(&rows) {
        out.push(format!(
            "the promise {name:?} is in promises.toml or in plans, not in both"
        ));
    }
    for name in rows {
        let tried = fixtures
            .cases()
            .any(|case| case.promise.as_deref() == Some(name));
        if !tried {
            out.push(format!("nothing is tried against the promise {name:?}"));
        }
    }
}

fn ids(fixtures: &Fixtures, out: &mut Vec<String>) {
    let used: BTreeSet<&str> = fixtures
        .cases()
        .flat_map(|case| &case.source)
        .map(String::as_str)
        .collect();
    let covered: BTreeSet<&str> = fixtures.ids.covered.keys().map(String::as_str).collect();
    for id in covered.difference(&used) {
        out.push(format!("{id} has no case"));
    }
    for id in used.difference(&covered) {
        out.push(format!("{id} is not in ids.toml"));
    }
}

/// Every file is compiled in.
fn listed(root: &Path, out: &mut Vec<String>) {
    let entries = std::fs::read_dir(root.join("fixtures/confinement"))
        .into_iter()
        .flatten();
    for entry in entries.flatten() {
        let name = entry.file_name().display().to_string();
        let stem = name.strip_suffix(".toml").unwrap_or(&name);
        let known = matches!(stem, "promises" | "ids")
            || super::expect::FILES.iter().any(|(file, _)| *file == stem);
        if !known {
            out.push(format!("{name} is not read"));
        }
    }
}
