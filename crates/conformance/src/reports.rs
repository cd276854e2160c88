//! Accuracy of the reports about refused attempts: each case runs alone, under each enforcer of commands
//! that reports. Attempts to change something or to reach a socket are measured at the level that
//! commands have by default, attempts to read and to execute at the level that reports them.

use crate::case::{Case, Cell};
use crate::column::Column;
use crate::commands;
use crate::fixtures::Fixtures;
use crate::host;
use crate::verb::Verb;
use crate::verdict::Seen;
use crate::world::{World, held};
use nix::unistd::{AccessFlags, access};
use os_sandbox::{Denial, ReportLevel};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// Columns that are measured: the newest Landlock, and both kinds of namespaces.
const COLUMNS: [Column; 4] = [
    Column::Landlock(7),
    Column::Bubblewrap,
    Column::Layered,
    Column::Namespaces,
];
/// The default of commands, and the level of `forge exec --trace --full`.
const LEVELS: [ReportLevel; 2] = [ReportLevel::Refused, ReportLevel::Full];
/// Share of the refused attempts that must be reported, in percent.
const WANTED_PERCENT: usize = 95;

/// The reports under one enforcer.
pub(crate) struct Accuracy {
    column: Column,
    level: ReportLevel,
    refused: usize,
    missed: Vec<String>,
    /// Attempts that got through and were reported, and reports about other objects.
    wrong: Vec<String>,
    through: usize,
}

impl Accuracy {
    pub(crate) fn complaints(&self) -> Vec<String> {
        let reported = self.refused - self.missed.len();
        let mut out = self.wrong.clone();
        if reported * 100 < self.refused * WANTED_PERCENT {
            out.push(format!("{self}; not reported: {}", self.missed.join(", ")));
        }
        out
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reported = self.refused - self.missed.len();
        write!(
            f,
            "reports of {}, {}: {} refused, {reported} reported; {} not refused; {} wrong",
            match self.level {
                ReportLevel::Full => "reads",
                _ => "changes",
            },
            self.column.name(),
            self.refused,
            self.through,
            self.wrong.len()
        )?;
        match self.missed.is_empty() {
            true => Ok(()),
            false => write!(f, "; missed: {}", self.missed.join(", ")),
        }
    }
}

/// Measures every column that this host has, on the cases with `filter` in their name.
pub(crate) fn all(fixtures: &Fixtures, filter: Option<&str>) -> Result<Vec<Accuracy>, String> {
    let here = COLUMNS
        .into_iter()
        .filter(|column| host::here(*column).is_ok());
    here.flat_map(|column| LEVELS.map(|level| (column, level)))
        .map(|(column, level)| one(fixtures, column, level, filter))
        .collect()
}

fn one(
    fixtures: &Fixtures,
    column: Column,
    level: ReportLevel,
    filter: Option<&str>,
) -> Result<Accuracy, String> {
    let mut accuracy = Accuracy {
        column,
        level,
        refused: 0,
        missed: Vec::new(),
        wrong: Vec::new(),
        through: 0,
    };
    for case in &fixtures.cases {
        let wanted = filter.is_none_or(|text| case.name.contains(text));
        if !wanted
            || reported_at(case, column) != Some(level)
            || case.cell(column) == Cell::NotPosed
        {
            continue;
        }
        let Tried {
            seen,
            denials,
            names,
            is_there,
        } = alone(fixtures, column, level, case)?;
        match &seen {
            // It exists, or is in another mount: no refusal of the policy.
            Seen::Denied(errno) if ["errno 17", "errno 18"].contains(&errno.as_str()) => continue,
            // Nothing that the caller could read, on this host or where its mount is.
            Seen::Denied(_) if level == ReportLevel::Full && !is_there => continue,
            Seen::Denied(_) if denials.is_empty() => {
                accuracy.refused += 1;
                accuracy.missed.push(case.name.clone());
            }
            Seen::Denied(_) => accuracy.refused += 1,
            Seen::Through(_) => accuracy.through += 1,
        }
        let is_wrong = match seen {
            Seen::Denied(_) => denials.iter().any(|denial| !is_about(&names, denial)),
            Seen::Through(_) => !denials.is_empty(),
        };
        if is_wrong {
            let name = &case.name;
            accuracy.wrong.push(format!(
                "{}: {name:?}: {seen:?}, and reported was {denials:?}",
                column.name()
            ));
        }
    }
    Ok(accuracy)
}

/// Returns the level at which an attempt is reported if the policy refuses it; `None` if it never is.
/// Cases that fail by their nature are not refused.
fn reported_at(case: &Case, column: Column) -> Option<ReportLevel> {
    // The files of a process outside are at no path of a policy.
    let is_of_process = case.words.iter().any(|word| word.starts_with("/proc/{"));
    if case.fails_by_nature() {
        return None;
    }
    match case.verb {
        Verb::Read | Verb::List if is_of_process => None,
        // The loopback of its own is not refused.
        Verb::Tcp | Verb::Listen | Verb::OwnLoopback if column != Column::Landlock(7) => None,
        Verb::Tcp
        | Verb::Listen
        | Verb::OwnLoopback
        | Verb::Write
        | Verb::Create
        | Verb::Append
        | Verb::Truncate
        | Verb::Delete
        | Verb::Rmdir
        | Verb::Mkdir
        | Verb::Rename
        | Verb::Hardlink
        | Verb::Symlink
        | Verb::Chmod
        | Verb::Setid
        | Verb::Unix
        | Verb::Bind => Some(ReportLevel::Refused),
        Verb::Read | Verb::List | Verb::Execute => Some(ReportLevel::Full),
        Verb::Copy
        | Verb::Stat
        | Verb::Readlink
        | Verb::Times
        | Verb::Udp
        | Verb::Abstract
        | Verb::Pair
        | Verb::Signal
        | Verb::SignalOwn
        | Verb::Descriptor
        | Verb::Variable => None,
    }
}

/// `true` if a report is about an object of the case, by its last name.
fn is_about(names: &[Option<OsString>], denial: &Denial) -> bool {
    let object = Path::new(&denial.object);
    let is_path = object.is_absolute();
    !is_path
        || names
            .iter()
            .any(|name| name.as_deref() == object.file_name())
}

/// An attempt, and what was reported about it.
struct Tried {
    seen: Seen,
    denials: Vec<Denial>,
    /// The last names of the case's paths, and of what its links lead to.
    names: Vec<Option<OsString>>,
    /// A process of the caller without a sandbox could read its object.
    is_there: bool,
}

fn alone(
    fixtures: &Fixtures,
    column: Column,
    level: ReportLevel,
    case: &Case,
) -> Result<Tried, String> {
    let world = World::in_place(fixtures.tree(case), fixtures.policy(case))?;
    let places = world.places(case);
    let named = world.on_host(case);
    let is_there = named
        .first()
        .is_some_and(|path| access(path.as_str(), AccessFlags::R_OK).is_ok());
    let words = case.words.iter().map(PathBuf::from);
    let leads = places.iter().flatten().map(|place| {
        let leads = place.read_link().unwrap_or_else(|_| place.clone());
        place.canonicalize().unwrap_or(leads)
    });
    let last = |path: PathBuf| path.file_name().map(OsStr::to_owned);
    let names = words.chain(leads).map(last).collect();
    let _held = held(&places);
    let plan = commands::plan(column, &world)?;
    let (mut seen, denials) = commands::attempt_reported(&plan, &world, level, &[case])?;
    let seen = seen.pop().ok_or("an answer is missing")?;
    Ok(Tried {
        seen,
        denials,
        names,
        is_there,
    })
}
