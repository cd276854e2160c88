//! Generates `docs/conformance.md` from the fixtures and from plans for assumed hosts, so that
//! every machine generates equal pages; the run verifies them. Also prints the results on a
//! terminal.

use crate::case::{Case, Cell, Expect, Listed};
use crate::column::Column;
use crate::fixtures::Fixtures;
use crate::policy::assumed_top;
use crate::run::{All, assumed_listing};
use os_sandbox::{Plan, Requirement};
use std::fmt::Write as _;

const HEAD: &str = "\
# Conformance

One policy, every enforcer. Written by `cargo xtask conformance` from [fixtures/conformance](../fixtures/README.md#conformance) and from plans for assumed hosts; the same command, a step of `cargo xtask test`, tries every case under every enforcer that the host has and fails if one answers otherwise.

What a case expects is what the policy means. An enforcer may answer otherwise only by a *gap*, which its plan lists for exactly this policy, or by a *difference* that is named below. After everything that is denied the whole tree is as it was: names, types, bytes, modes, owners, times of files, and everything about what lies outside; whatever is allowed is looked for from outside.

| sign | means |
|---|---|
| `+` | allowed |
| `-` | denied, and nothing has changed |
| **gap** | it gets through, and the plan lists the promise as not fully kept (a guard) |
| **ref** | it gets through on best effort, and by default there is no plan because of it |
| **+** *(name)*, **-** *(name)* | allowed or denied otherwise than the policy says, by that difference |
| `.` | not posed: the enforcer has no such operation |
| `nb` | not built |

";

/// Columns that the matrix of all cases shows.
fn shown() -> impl Iterator<Item = Column> {
    // The real macOS is expected to answer like the judge.
    Column::ALL
        .into_iter()
        .filter(|column| *column != Column::Seatbelt)
}

pub(crate) fn page(fixtures: &Fixtures) -> Result<String, String> {
    let mut out = String::from(HEAD);
    enforcers(&mut out, fixtures);
    planned(&mut out, fixtures)?;
    let _ = write!(out, "## Differences\n\n");
    matrix_head(&mut out);
    for case in fixtures.cases.iter().filter(|case| !case.is_plain()) {
        row(&mut out, fixtures, case);
    }
    let _ = write!(
        out,
        "\nWhat the names mean:\n\n| difference | why | decided in |\n|---|---|---|\n"
    );
    for difference in &fixtures.differences {
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            difference.id,
            markdown(&difference.why),
            markdown(&difference.decision)
        );
    }
    let _ = write!(out, "\n## All cases\n");
    for (at, (title, first)) in fixtures.titles.iter().enumerate() {
        let _ = write!(out, "\n### {title}\n\n");
        matrix_head(&mut out);
        let end = fixtures
            .titles
            .get(at + 1)
            .map_or(fixtures.cases.len(), |next| next.1);
        for case in &fixtures.cases[*first..end] {
            row(&mut out, fixtures, case);
        }
        out.push('\n');
        for case in &fixtures.cases[*first..end] {
            let policy = &fixtures.policy(case).name;
            let _ = writeln!(
                out,
                "- **{}** (`{}`, policy {policy}): {}",
                case.name,
                case.attempt().replace('`', "'"),
                case.why
            );
        }
    }
    Ok(out)
}

/// Writes the table of columns, with the number of deviating answers of each.
fn enforcers(out: &mut String, fixtures: &Fixtures) {
    let _ = write!(
        out,
        "{} cases.\n\n| enforcer | is | posed | as the policy | differences | gap | ref |\n|---|---|---|---|---|---|---|\n",
        fixtures.cases.len()
    );
    for column in Column::ALL {
        let mut count = [0; 4];
        for case in &fixtures.cases {
            match sign(fixtures, case, column) {
                Sign::Plain(_) => count[0] += 1,
                Sign::Difference(..) => count[1] += 1,
                Sign::Gap => count[2] += 1,
                Sign::Refused => count[3] += 1,
                Sign::NotPosed => {}
            }
        }
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            column.name(),
            column.about(),
            count.iter().sum::<usize>(),
            count[0],
            count[1],
            count[2],
            count[3]
        );
    }
}

/// Which policy is refused where by default.
fn planned(out: &mut String, fixtures: &Fixtures) -> Result<(), String> {
    let columns: Vec<Column> = shown()
        .filter(|column| column.backend().is_some())
        .collect();
    let _ = write!(
        out,
        "\nWhether there is a plan by default (`Requirement::Enforce`), or which boundaries refuse it; the matrix shows what best effort comes to:\n\n| policy |"
    );
    for column in &columns {
        let _ = write!(out, " {} |", column.short());
    }
    let _ = write!(out, "\n|---|{}\n", "---|".repeat(columns.len()));
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    for spec in &fixtures.policies {
        let policy = spec.policy(&assumed_top(), None)?;
        let mut row = String::new();
        for column in &columns {
            let plan = column.assumed_plan(&policy).ok_or("no plan")?;
            let enforced = Plan::with_mechanism(
                &policy,
                plan.support(),
                Requirement::Enforce,
                plan.backend(),
            );
            let text = match enforced {
                Ok(_) => "plan".to_owned(),
                Err(refused) => {
                    let gaps = refused.gaps().iter();
                    let names: Vec<&str> = gaps.map(|gap| gap.promise.name()).collect();
                    names.join(", ")
                }
            };
            let _ = write!(row, " {text} |");
        }
        match rows.iter_mut().find(|(other, _)| *other == row) {
            Some((_, names)) => names.push(&spec.name),
            None => rows.push((row, vec![&spec.name])),
        }
    }
    for (row, names) in rows {
        let _ = writeln!(out, "| {} |{row}", names.join(", "));
    }
    out.push('\n');
    Ok(())
}

fn matrix_head(out: &mut String) {
    out.push_str("| case |");
    for column in shown() {
        let _ = write!(out, " {} |", column.short());
    }
    let _ = write!(out, "\n|---|{}\n", "---|".repeat(shown().count()));
}

fn row(out: &mut String, fixtures: &Fixtures, case: &Case) {
    let _ = write!(out, "| {} |", case.name);
    for column in shown() {
        let text = match sign(fixtures, case, column) {
            Sign::Plain(text) => format!("`{text}`"),
            Sign::Difference(text, name) => format!("**{text}** *({name})*"),
            Sign::Gap => "**gap**".to_owned(),
            Sign::Refused => "**ref**".to_owned(),
            Sign::NotPosed => "`.`".to_owned(),
        };
        let _ = write!(out, " {text} |");
    }
    out.push('\n');
}

enum Sign<'a> {
    Plain(char),
    Difference(char, &'a str),
    Gap,
    Refused,
    NotPosed,
}

/// Returns the sign of a case for all users.
fn sign<'a>(fixtures: &'a Fixtures, case: &Case, column: Column) -> Sign<'a> {
    sign_of(fixtures, case, column, case.for_all(column))
}

fn sign_of<'a>(fixtures: &'a Fixtures, case: &Case, column: Column, cell: Cell) -> Sign<'a> {
    match cell {
        Cell::Allow => Sign::Plain('+'),
        Cell::Deny => Sign::Plain('-'),
        // The name of the difference says for which user.
        Cell::AllowBut(id) | Cell::AllowRoot(id) => {
            Sign::Difference('+', &fixtures.differences[id].id)
        }
        Cell::DenyBut(id) => Sign::Difference('-', &fixtures.differences[id].id),
        Cell::Gap | Cell::GapNotRoot => match assumed_listing(fixtures, column, case) {
            Some(Listed::Refused) => Sign::Refused,
            Some(Listed::Open | Listed::No) | None => Sign::Gap,
        },
        Cell::NotPosed => Sign::NotPosed,
    }
}

fn markdown(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Returns the results of the run, differences first.
pub(crate) fn matrix(fixtures: &Fixtures, all: &All) -> String {
    let mut out = String::new();
    let mut order: Vec<usize> = (0..fixtures.cases.len()).collect();
    order.sort_by_key(|index| fixtures.cases[*index].is_plain());
    let tried = |index: &usize| {
        all.columns
            .iter()
            .filter_map(|done| done.here.as_ref().ok())
            .any(|ran| ran.0.contains_key(index))
    };
    let width = 44;
    let _ = write!(out, "{:width$}", "");
    for done in &all.columns {
        let _ = write!(out, " {:>7.7}", done.column.short());
    }
    out.push('\n');
    for index in order.into_iter().filter(tried) {
        let case = &fixtures.cases[index];
        let name: String = case.name.chars().take(width).collect();
        let _ = write!(out, "{name:width$}");
        for done in &all.columns {
            let cell = case.cell(done.column);
            let text = match (&done.here, sign_of(fixtures, case, done.column, cell)) {
                (Err(_), _) => "",
                (Ok(_), Sign::NotPosed) => ".",
                (Ok(ran), sign) => match (ran.0.get(&index), sign) {
                    (None, _) => ".",
                    (Some(Err(_)), _) => "WRONG",
                    (Some(Ok(())), Sign::Gap) => "gap",
                    (Some(Ok(())), Sign::Refused) => "refused",
                    (Some(Ok(())), Sign::Difference('+', _)) => "ALLOW",
                    (Some(Ok(())), Sign::Difference(..)) => "DENY",
                    (Some(Ok(())), _) if case.expect == Expect::Allow => "allow",
                    (Some(Ok(())), _) => "deny",
                },
            };
            let _ = write!(out, " {text:>7}");
        }
        out.push('\n');
    }
    out
}

/// A line for each column.
pub(crate) fn summary(all: &All) -> String {
    let mut out = String::new();
    for done in &all.columns {
        match &done.here {
            Err(why) => {
                let _ = writeln!(out, "not here: {}: {why}", done.column.name());
            }
            Ok(ran) => {
                let wrong = ran.0.values().filter(|result| result.is_err()).count();
                let name = done.column.name();
                let _ = writeln!(out, "{name}: {} cases, {wrong} wrong", ran.0.len());
            }
        }
    }
    out
}
