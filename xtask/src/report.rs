//! What the sandbox tests reported, held against what this host supports. The rule: a skip must
//! be earned. A mechanism that the host has must have passed cases and no skipped one.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::Failure;
use crate::table::Table;

/// What a host has: for each mechanism nothing, or why it cannot be used.
pub(crate) type Support = BTreeMap<String, Option<String>>;

/// How one case ended under one mechanism.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Passed,
    Failed(String),
    Skipped(String),
    /// The host lacks something that is not the mechanism: a program, or a user who could set it up.
    NotPosed(String),
}

/// A line of the file named by `FORGE_TEST_OS_REPORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) mechanism: String,
    pub(crate) case: String,
    pub(crate) ending: Ending,
}

/// All that is known of one user's run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) user: String,
    pub(crate) support: Support,
    pub(crate) records: Vec<Record>,
}

/// The records of a report, or the first line that is none.
pub(crate) fn parse(text: &str) -> Result<Vec<Record>, String> {
    text.lines()
        .enumerate()
        .map(|(at, line)| record(line).map_err(|why| format!("line {}: {why}: {line}", at + 1)))
        .collect()
}

fn record(line: &str) -> Result<Record, &'static str> {
    let value: serde_json::Value = serde_json::from_str(line).map_err(|_| "no JSON")?;
    let text = |key: &str| value.get(key).and_then(serde_json::Value::as_str);
    let reason = || text("reason").unwrap_or("no reason given").to_owned();
    let ending = match text("outcome") {
        Some("pass") => Ending::Passed,
        Some("fail") => Ending::Failed(reason()),
        Some("skip") => Ending::Skipped(reason()),
        Some("not posed") => Ending::NotPosed(reason()),
        _ => return Err("no known outcome"),
    };
    Ok(Record {
        mechanism: text("mechanism").ok_or("no mechanism")?.to_owned(),
        case: text("case").ok_or("no case")?.to_owned(),
        ending,
    })
}

/// Everything that makes the runs a failure, one sentence each.
pub(crate) fn complaints(runs: &[Run]) -> Vec<String> {
    let mut complaints = Vec::new();
    for run in runs {
        for record in &run.records {
            let place = format!("{}, {}: `{}`", record.mechanism, run.user, record.case);
            match (&record.ending, run.support.get(&record.mechanism)) {
                (Ending::Failed(why), _) => complaints.push(format!("{place} failed: {why}")),
                (Ending::Skipped(why), Some(None)) => {
                    complaints.push(format!(
                        "{place} was skipped although the host has it: {why}"
                    ));
                }
                (_, None) => complaints.push(format!(
                    "{place} is of a mechanism that Support does not know"
                )),
                (Ending::Passed | Ending::Skipped(_) | Ending::NotPosed(_), Some(_)) => {}
            }
        }
        for (mechanism, why_not) in &run.support {
            let passed = run
                .of(mechanism)
                .any(|record| record.ending == Ending::Passed);
            if why_not.is_none() && !passed {
                complaints.push(format!(
                    "{mechanism}, {}: the host has it, and no case passed",
                    run.user
                ));
            }
        }
    }
    complaints
}

/// Mechanisms down, users across, counts in the cells.
pub(crate) fn matrix(runs: &[Run]) -> Table {
    let mechanisms: BTreeSet<&String> = runs
        .iter()
        .flat_map(|run| {
            run.support
                .keys()
                .chain(run.records.iter().map(|record| &record.mechanism))
        })
        .collect();
    let header = std::iter::once("mechanism").chain(runs.iter().map(|run| run.user.as_str()));
    let mut table = Table::new(header);
    for mechanism in mechanisms {
        table.row(
            std::iter::once(mechanism.clone()).chain(runs.iter().map(|run| run.cell(mechanism))),
        );
    }
    table
}

impl Run {
    /// Cases that could not be posed here, once each: name without the mechanism, and why.
    pub(crate) fn not_posed(&self) -> BTreeSet<String> {
        self.records
            .iter()
            .filter_map(|record| match &record.ending {
                Ending::NotPosed(why) => {
                    let case = record.case.rsplit(": ").next().unwrap_or_default();
                    Some(format!("`{case}` as {}: {why}", self.user))
                }
                Ending::Passed | Ending::Failed(_) | Ending::Skipped(_) => None,
            })
            .collect()
    }

    fn of(&self, mechanism: &str) -> impl Iterator<Item = &Record> {
        self.records
            .iter()
            .filter(move |record| record.mechanism == mechanism)
    }

    fn cell(&self, mechanism: &str) -> String {
        let count = |wanted: fn(&Ending) -> bool| {
            self.of(mechanism)
                .filter(|record| wanted(&record.ending))
                .count()
        };
        let counts = [
            (count(|ending| matches!(ending, Ending::Passed)), "passed"),
            (
                count(|ending| matches!(ending, Ending::Failed(_))),
                "FAILED",
            ),
            (
                count(|ending| matches!(ending, Ending::Skipped(_))),
                "skipped",
            ),
            (
                count(|ending| matches!(ending, Ending::NotPosed(_))),
                "not posed",
            ),
        ];
        let shown: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let why_not = self.support.get(mechanism).and_then(Option::as_deref);
        match (shown.is_empty(), why_not) {
            (true, None) => "nothing ran".to_owned(),
            (true, Some(why)) => format!("not here: {why}"),
            (false, None) => shown.join(", "),
            (false, Some(why)) => format!("{} (not here: {why})", shown.join(", ")),
        }
    }
}

/// Splits what the program `support` prints: a table for people, a form feed, and for each
/// mechanism a line `name TAB reason`, without a reason where it can be used.
pub(crate) fn support(text: &str) -> Result<(String, Support), Failure> {
    let (table, lines) = text
        .split_once('\u{c}')
        .ok_or_else(|| Failure::new("the support table has no end"))?;
    let support: Support = lines
        .trim()
        .lines()
        .map(|line| {
            let (name, why) = line.split_once('\t').unwrap_or((line, ""));
            (
                name.to_owned(),
                Some(why.to_owned()).filter(|why| !why.is_empty()),
            )
        })
        .collect();
    if support.is_empty() {
        Err(Failure::new("the support table names no mechanism"))
    } else {
        Ok((table.to_owned(), support))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(support: &[(&str, Option<&str>)], lines: &str) -> Run {
        Run {
            user: "root".into(),
            support: support
                .iter()
                .map(|(name, why)| ((*name).into(), why.map(str::to_owned)))
                .collect(),
            records: parse(lines).expect("a valid report"),
        }
    }

    const PASSED: &str = r#"{"mechanism":"landlock","case":"write outside","outcome":"pass"}"#;
    const SKIPPED: &str =
        r#"{"mechanism":"landlock","case":"tcp","outcome":"skip","reason":"abi 3"}"#;
    const FAILED: &str =
        r#"{"mechanism":"landlock","case":"tcp","outcome":"fail","reason":"exit 1"}"#;

    #[test]
    fn what_a_report_amounts_to() {
        let both = format!("{PASSED}\n{SKIPPED}\n");
        let here = [("landlock", None)];
        let absent = [("landlock", Some("no such kernel"))];
        let not_posed = format!(
            "{PASSED}\n{}",
            r#"{"mechanism":"landlock","case":"both: npm","outcome":"not posed","reason":"no npm"}"#
        );
        for (name, support, lines, expected) in [
            ("all passed", &here[..], PASSED, vec![]),
            (
                "available, one skipped",
                &here,
                &both,
                vec!["landlock, root: `tcp` was skipped although the host has it: abi 3"],
            ),
            (
                "available, nothing ran",
                &here,
                "",
                vec!["landlock, root: the host has it, and no case passed"],
            ),
            (
                "available, only skips",
                &here,
                SKIPPED,
                vec![
                    "landlock, root: `tcp` was skipped although the host has it: abi 3",
                    "landlock, root: the host has it, and no case passed",
                ],
            ),
            ("available, one not posed", &here, &not_posed, vec![]),
            ("absent and skipped", &absent, SKIPPED, vec![]),
            ("absent, nothing ran", &absent, "", vec![]),
            (
                "absent, yet failed",
                &absent,
                FAILED,
                vec!["landlock, root: `tcp` failed: exit 1"],
            ),
            (
                "not in the table",
                &[],
                PASSED,
                vec![
                    "landlock, root: `write outside` is of a mechanism that Support does not know",
                ],
            ),
        ] {
            assert_eq!(complaints(&[run(support, lines)]), expected, "{name}");
        }
    }

    #[test]
    fn the_matrix_counts_and_says_what_is_not_here() {
        let mut root = run(
            &[("landlock", None), ("bubblewrap", None)],
            &format!("{PASSED}\n{PASSED}\n{FAILED}"),
        );
        root.user = "root".into();
        let mut nobody = run(
            &[
                ("landlock", None),
                ("bubblewrap", Some("no user namespaces")),
            ],
            PASSED,
        );
        nobody.user = "uid 65534".into();
        let expected = "\
mechanism   root                uid 65534
bubblewrap  nothing ran         not here: no user namespaces
landlock    2 passed, 1 FAILED  1 passed
";
        assert_eq!(matrix(&[root, nobody]).to_string(), expected);
    }

    #[test]
    fn a_line_that_is_no_record_is_an_error_with_its_number() {
        for (line, why) in [
            ("{", "no JSON"),
            (
                r#"{"mechanism":"x","case":"y","outcome":"maybe"}"#,
                "no known outcome",
            ),
            (r#"{"case":"y","outcome":"pass"}"#, "no mechanism"),
            (r#"{"mechanism":"x","outcome":"pass"}"#, "no case"),
        ] {
            let error = parse(&format!("{PASSED}\n{line}")).expect_err(line);
            assert_eq!(error, format!("line 2: {why}: {line}"));
        }
    }

    #[test]
    fn the_support_table_is_for_people_and_for_us() {
        let (table, support) =
            support("landlock yes\nbwrap no\n\u{c}\nlandlock\nbubblewrap\tno user namespaces\n")
                .expect("a table");
        assert_eq!(table, "landlock yes\nbwrap no\n");
        let expected = [
            (
                "bubblewrap".to_owned(),
                Some("no user namespaces".to_owned()),
            ),
            ("landlock".to_owned(), None),
        ];
        assert_eq!(support, BTreeMap::from(expected));
    }

    #[test]
    fn a_support_table_without_mechanisms_is_an_error() {
        for text in ["", "a table", "a table\n\u{c}\n"] {
            assert!(support(text).is_err(), "{text:?}");
        }
    }
}
