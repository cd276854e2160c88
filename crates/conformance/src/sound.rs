//! Checks the fixtures themselves: complete, without contradictions, and every gap listed by plans.
//! The check needs no host, so every machine gives equal results.

use crate::case::{Cell, Listed, is_promise};
use crate::column::Column;
use crate::fixtures::Fixtures;
use crate::run::assumed_listing;
use std::collections::BTreeSet;

/// Returns all mistakes in them.
pub(crate) fn complaints(fixtures: &Fixtures) -> Vec<String> {
    let mut out = Vec::new();
    let mut names = BTreeSet::new();
    let mut shown = BTreeSet::new();
    for case in &fixtures.cases {
        let mut wrong = |what: String| out.push(format!("{:?}: {what}", case.name));
        if !names.insert(&case.name) {
            wrong("two cases have this name".to_owned());
        }
        if case.why.trim().is_empty() {
            wrong("no why".to_owned());
        }
        if let Some(promise) = case.promise.as_deref().filter(|name| !is_promise(name)) {
            wrong(format!("no such promise: {promise}"));
        }
        if Column::ALL
            .iter()
            .all(|column| case.cell(*column) == Cell::NotPosed)
        {
            wrong("nobody can pose it".to_owned());
        }
        shown.extend(case.differences());
        for column in Column::ALL {
            let listed = assumed_listing(fixtures, column, case);
            if case.cell(column) == Cell::Gap && matches!(listed, None | Some(Listed::No)) {
                wrong(format!(
                    "{}: a gap that the plan does not list",
                    column.name()
                ));
            }
        }
    }
    for (index, difference) in fixtures.differences.iter().enumerate() {
        if !shown.contains(&index) {
            out.push(format!("no case shows the difference {}", difference.id));
        }
        if difference.why.is_empty() || difference.decision.is_empty() {
            out.push(format!("{}: no why, or nobody decided it", difference.id));
        }
    }
    for (index, tree) in fixtures.trees.iter().enumerate() {
        if !fixtures.cases.iter().any(|case| case.tree == index) {
            out.push(format!("no case is in the tree {}", tree.name));
        }
    }
    for (index, policy) in fixtures.policies.iter().enumerate() {
        if !fixtures.cases.iter().any(|case| case.policy == index) {
            out.push(format!("no case has the policy {}", policy.name));
        }
    }
    out
}
