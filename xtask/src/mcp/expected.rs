//! The checks of the conformance suite that are expected to fail, each with its reason. One that
//! fails without being listed is a failure, and so is one that is listed and does not fail.

use std::collections::{BTreeMap, BTreeSet};

/// One check of the suite: revision, scenario, id.
pub(super) type Check = (String, String, String);

/// In place of an id: whatever of the scenario fails.
const ANY: &str = "*";

/// The list, as `xtask/mcp/expected-failures.txt` has it.
#[derive(Debug)]
pub(super) struct Expected {
    checks: BTreeSet<Check>,
}

impl Expected {
    /// From lines `REVISION SCENARIO CHECK: REASON`; `#` begins a remark.
    ///
    /// # Errors
    ///
    /// Every line that cannot be read, has no reason, or says what another one said.
    pub(super) fn parse(text: &str, revisions: &[&str]) -> Result<Self, Vec<String>> {
        let mut checks = BTreeSet::new();
        let mut wrong = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut complain = |what: &str| wrong.push(format!("line {number}: {what}: {line}"));
            let Some((what, reason)) = line.split_once(": ") else {
                complain("no reason");
                continue;
            };
            let words: Vec<&str> = what.split_whitespace().collect();
            let [revision, scenario, id] = words[..] else {
                complain("not a revision, a scenario and a check");
                continue;
            };
            if reason.trim().is_empty() {
                complain("no reason");
            }
            if !revisions.contains(&revision) {
                complain("not a revision that is judged");
            }
            let covering = [revision.to_owned(), scenario.to_owned(), ANY.to_owned()];
            let check = (revision.to_owned(), scenario.to_owned(), id.to_owned());
            if checks.contains(&covering.into()) || !checks.insert(check) {
                complain("said before");
            }
        }
        if wrong.is_empty() {
            Ok(Expected { checks })
        } else {
            Err(wrong)
        }
    }

    pub(super) fn len(&self) -> usize {
        self.checks.len()
    }

    /// What did not go as expected, given what failed and why.
    pub(super) fn compare(&self, failed: &BTreeMap<Check, String>) -> Vec<String> {
        let covering = |(revision, scenario, _): &Check| -> Check {
            (revision.clone(), scenario.clone(), ANY.to_owned())
        };
        let unexpected = failed
            .iter()
            .filter(|(check, _)| {
                !self.checks.contains(*check) && !self.checks.contains(&covering(check))
            })
            .map(|((revision, scenario, id), why)| {
                format!("{revision} {scenario} {id} failed: {why}")
            });
        let shows = |check: &Check| {
            failed.contains_key(check)
                || (check.2 == ANY && failed.keys().any(|other| covering(other) == *check))
        };
        let stale = self.checks.iter().filter(|check| !shows(check)).map(
            |(revision, scenario, id)| {
                format!(
                    "{revision} {scenario} {id} was expected to fail and did not: take it out of \
                     the list"
                )
            },
        );
        unexpected.chain(stale).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

    fn check(scenario: &str, id: &str) -> Check {
        ("2026-07-28".into(), scenario.into(), id.into())
    }

    #[test]
    fn the_list_in_the_repository_can_be_read() {
        let text = include_str!("../../mcp/expected-failures.txt");
        let expected = Expected::parse(text, &REVISIONS).expect("no line is wrong");
        assert!(expected.len() > 0);
    }

    #[test]
    fn every_wrong_line_is_named() {
        let text = "\
# a remark

2026-07-28 a b: why
2026-07-28 a b: why
2026-07-28 a b
2026-07-28 a: why
2026-07-28 a b:
2024-01-01 a b: why
2026-07-28 t *: why
2026-07-28 t u: why
";
        let wrong = Expected::parse(text, &REVISIONS).expect_err("most of it is wrong");
        let expected = [
            "line 4: said before: 2026-07-28 a b: why",
            "line 5: no reason: 2026-07-28 a b",
            "line 6: not a revision, a scenario and a check: 2026-07-28 a: why",
            "line 7: no reason: 2026-07-28 a b:",
            "line 8: not a revision that is judged: 2024-01-01 a b: why",
            "line 10: said before: 2026-07-28 t u: why",
        ];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn what_fails_and_what_is_expected_to_are_the_same() {
        let text = "2026-07-28 a one: why\n2026-07-28 t *: why\n";
        let expected = Expected::parse(text, &REVISIONS).expect("it can be read");
        let (one, any, two) = (check("a", "one"), check("t", "x"), check("a", "two"));
        let unexpected = "2026-07-28 a two failed: no";
        let gone = "2026-07-28 a one was expected to fail and did not: take it out of the list";
        let all_gone = "2026-07-28 t * was expected to fail and did not: take it out of the list";
        for (failed, complaints) in [
            (vec![&one, &any], vec![]),
            (vec![&one, &any, &two], vec![unexpected]),
            (vec![&any], vec![gone]),
            (vec![&one], vec![all_gone]),
            (vec![], vec![gone, all_gone]),
        ] {
            let failed = failed
                .into_iter()
                .map(|check| (check.clone(), "no".to_owned()))
                .collect();
            assert_eq!(expected.compare(&failed), complaints, "{failed:?}");
        }
    }
}
