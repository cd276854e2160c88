//! Runs columns. Cases that must not change the tree share one tree and one process; each of the
//! others has a fresh tree. If a shared tree has changed, all its cases are tried again alone, to
//! find the case that changed it.

use crate::case::{Case, Cell, Listed};
use crate::column::Column;
use crate::fixtures::Fixtures;
use crate::tree::{Picture, changed};
use crate::verb::Verb;
use crate::verdict::{Seen, judge};
use crate::world::{World, done, held};
use crate::{commands, files, host, memory, reference, seatbelt};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The results of a column.
pub(crate) struct Done {
    pub(crate) column: Column,
    pub(crate) here: Result<Ran, String>,
}

/// Results by case number; an error describes the deviation.
#[derive(Default)]
pub(crate) struct Ran(pub(crate) BTreeMap<usize, Result<(), String>>);

/// All columns.
pub(crate) struct All {
    pub(crate) columns: Vec<Done>,
}

impl Done {
    /// `true` if this host has the column. Only macOS needs the Seatbelt column.
    pub(crate) fn was_here(&self) -> bool {
        self.here.is_ok() || self.column == Column::Seatbelt
    }
}

impl All {
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.columns
            .iter()
            .filter_map(|done| done.here.as_ref().ok())
            .flat_map(|ran| ran.0.values())
            .filter_map(|result| result.as_ref().err().cloned())
            .collect()
    }
}

/// Runs every column that this host has on the cases with `filter` in their name.
pub(crate) fn all(
    fixtures: &Fixtures,
    filter: Option<&str>,
    dir: Option<&Path>,
) -> Result<All, String> {
    let mut columns = Vec::new();
    for column in Column::ALL {
        let here = match host::here(column) {
            Err(why) => Err(why),
            Ok(()) if column == Column::Walk => Ok(elsewhere(column, filter, dir)?),
            Ok(()) => Ok(one(fixtures, column, filter)),
        };
        columns.push(Done { column, here });
    }
    Ok(All { columns })
}

/// Runs a column in a child process, because it disables a system call of its process for good.
fn elsewhere(column: Column, filter: Option<&str>, dir: Option<&Path>) -> Result<Ran, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    command.args(["--column", &column.name()]);
    if let Some(dir) = dir {
        command.arg("--fixtures").arg(dir);
    }
    let output = command
        .args(filter)
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut ran = Ran::default();
    for line in text.lines() {
        let Some((index, what)) = line.split_once('\t') else {
            continue;
        };
        let index = index
            .parse()
            .map_err(|_| format!("not an answer: {line}"))?;
        let result = match what {
            "ok" => Ok(()),
            wrong => Err(wrong.to_owned()),
        };
        ran.0.insert(index, result);
    }
    if output.status.success() {
        Ok(ran)
    } else {
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}: {}: {errors}", column.name(), output.status))
    }
}

/// The other end of [`elsewhere`].
pub(crate) fn child(
    fixtures: &Fixtures,
    column: Column,
    filter: Option<&str>,
) -> Result<bool, String> {
    if column == Column::Walk {
        host::hide_openat2()?;
    }
    for (index, result) in one(fixtures, column, filter).0 {
        let what = result.map_or_else(
            |wrong| wrong.replace(['\n', '\t'], " "),
            |()| "ok".to_owned(),
        );
        println!("{index}\t{what}");
    }
    Ok(true)
}

fn one(fixtures: &Fixtures, column: Column, filter: Option<&str>) -> Ran {
    let mut ran = Ran::default();
    let mut shared: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (index, case) in fixtures.cases.iter().enumerate() {
        let posed = case.cell(column) != Cell::NotPosed;
        let wanted = filter.is_none_or(|text| case.name.contains(text));
        if !posed || !wanted {
            continue;
        }
        match column {
            Column::Policy => {
                let seen = reference::ask(fixtures, case);
                ran.0.insert(index, asked(case, column, seen, None));
            }
            Column::Memory => {
                let seen = memory::attempt(fixtures.tree(case), fixtures.policy(case), case);
                ran.0.insert(index, asked(case, column, seen, None));
            }
            Column::Judged => {
                let listed = assumed_listing(fixtures, column, case);
                let seen = seatbelt::ask(fixtures, case);
                ran.0.insert(index, asked(case, column, seen, listed));
            }
            Column::Files
            | Column::Walk
            | Column::Landlock(_)
            | Column::Bubblewrap
            | Column::Layered
            | Column::Namespaces
            | Column::Birdcage
            | Column::Docker
            | Column::Seatbelt => {
                if disturbs(case, column) {
                    alone(fixtures, column, index, &mut ran);
                } else {
                    shared
                        .entry((case.tree, case.policy))
                        .or_default()
                        .push(index);
                }
            }
        }
    }
    for cases in shared.values() {
        together(fixtures, column, cases, &mut ran);
    }
    ran
}

/// Returns the state of the case's promise in the plan for an assumed host.
pub(crate) fn assumed_listing(fixtures: &Fixtures, column: Column, case: &Case) -> Option<Listed> {
    let top = crate::policy::assumed_top();
    let policy = fixtures.policy(case).policy(&top, None).ok()?;
    let plan = column.assumed_plan(&policy)?;
    Some(Listed::of(&plan, case.promise.as_deref()?))
}

fn asked(
    case: &Case,
    column: Column,
    seen: Result<Seen, String>,
    listed: Option<Listed>,
) -> Result<(), String> {
    let seen = seen.map_err(|error| format!("{}: {:?}: {error}", column.name(), case.name))?;
    judge(case, column, &seen, listed)
}

/// `true` if the attempt changes the world when it goes as the case says.
fn disturbs(case: &Case, column: Column) -> bool {
    match case.cell(column) {
        Cell::Allow | Cell::AllowBut(_) | Cell::Gap => {
            case.verb.changes()
                || matches!(case.verb, Verb::Signal | Verb::Tcp | Verb::Udp | Verb::Unix)
        }
        Cell::Deny | Cell::DenyBut(_) | Cell::AllowRoot(_) | Cell::GapNotRoot | Cell::NotPosed => {
            false
        }
    }
}

fn together(fixtures: &Fixtures, column: Column, cases: &[usize], ran: &mut Ran) {
    let result = tried(fixtures, column, cases);
    match result {
        Ok(results) => ran.0.extend(cases.iter().copied().zip(results)),
        Err(_) => {
            for index in cases {
                alone(fixtures, column, *index, ran);
            }
        }
    }
}

fn alone(fixtures: &Fixtures, column: Column, index: usize, ran: &mut Ran) {
    let case = &fixtures.cases[index];
    let result = match tried(fixtures, column, &[index]) {
        Ok(mut results) => results.pop().unwrap_or(Ok(())),
        Err(error) => Err(format!("{}: {:?}: {error}", column.name(), case.name)),
    };
    ran.0.insert(index, result);
}

/// Tries cases with one tree and one policy in one world. An error concerns all of them.
fn tried(
    fixtures: &Fixtures,
    column: Column,
    indices: &[usize],
) -> Result<Vec<Result<(), String>>, String> {
    let cases: Vec<&Case> = indices
        .iter()
        .map(|index| &fixtures.cases[*index])
        .collect();
    let first = cases.first().ok_or("no cases")?;
    let mut world = World::new(fixtures.tree(first), fixtures.policy(first))?;
    let places: Vec<_> = cases.iter().map(|case| world.places(case)).collect();
    let held: Vec<_> = places.iter().map(|places| held(places)).collect();
    let before = world.picture()?;
    let (seen, plan) = match column.backend() {
        None => (files::attempt(&world, &cases)?, None),
        Some(_) => {
            let plan = commands::plan(column, &world)?;
            (commands::attempt(&plan, &world, &cases)?, Some(plan))
        }
    };
    let after = world.picture()?;
    let difference = changed(&before, &after);
    let meant = |cell| matches!(cell, Cell::Allow | Cell::AllowBut(_) | Cell::Gap);
    let moves = |case: &&Case| meant(case.cell(column)) && disturbs(case, column);
    if !cases.iter().any(moves) {
        if let Some(what) = &difference {
            return Err(format!("nothing was to be changed, and {what}; {seen:?}"));
        }
        if let Some(what) = world.reached() {
            return Err(format!("{what}; {seen:?}"));
        }
    }
    let mut out = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let Some(seen) = seen.get(at) else {
            return Err("an answer is missing".to_owned());
        };
        let promise = plan.as_ref().zip(case.promise.as_deref());
        let listed = promise.map(|(plan, promise)| Listed::of(plan, promise));
        let mut result = judge(case, column, seen, listed);
        if result.is_ok() && matches!(seen, Seen::Through(_)) && case.cell(column) != Cell::Gap {
            let unexpected = match &difference {
                Some(_) if case.verb.changes() => {
                    changed_outside(&world, &places[at], &before, &after)
                }
                Some(_) | None => None,
            };
            result = says_true(case, seen, &places[at])
                .and_then(|()| done(case, &places[at], &held[at]))
                .and_then(|()| match unexpected {
                    Some(path) => Err(format!("{} was changed", path.display())),
                    None => Ok(()),
                })
                .map_err(|error| format!("{}: {:?}: {error}", column.name(), case.name));
        }
        out.push(result);
    }
    Ok(out)
}

/// Returns an object outside every mount that changed, and is not another name of a file of the case.
fn changed_outside<'p>(
    world: &World<'_>,
    places: &[Option<PathBuf>],
    before: &'p Picture,
    after: &Picture,
) -> Option<&'p Path> {
    let outside = world.top.join("outside");
    let own: Vec<u64> = places
        .iter()
        .flatten()
        .filter_map(|place| before.get(place))
        .map(|seen| seen.inode)
        .collect();
    before
        .iter()
        .filter(|(path, then)| path.starts_with(&outside) && !own.contains(&then.inode))
        .find(|(path, then)| after.get(*path) != Some(then))
        .map(|(path, _)| path.as_path())
}

/// Checks that the text read, or the output of the started program, is correct.
fn says_true(case: &Case, seen: &Seen, places: &[Option<PathBuf>]) -> Result<(), String> {
    let Seen::Through(text) = seen else {
        return Ok(());
    };
    let wanted = match case.verb {
        Verb::Read => {
            let place = places.first().and_then(Option::as_deref);
            match place.filter(|place| place.is_file() && !place.starts_with("/proc")) {
                Some(place) => fs::read_to_string(place).map_err(|error| error.to_string())?,
                None => return Ok(()),
            }
        }
        Verb::Execute => "ran".to_owned(),
        Verb::Variable => "passed".to_owned(),
        _ => return Ok(()),
    };
    if *text == wanted.escape_debug().to_string() || *text == wanted {
        Ok(())
    } else {
        Err(format!("it said {text:?} and not {wanted:?}"))
    }
}
