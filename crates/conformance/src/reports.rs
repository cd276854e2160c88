//! Accuracy of the reports about refused attempts: each case that changes something or reaches for a
//! socket runs alone, under each enforcer of commands that reports.

use crate::case::{Case, Cell};
use crate::column::Column;
use crate::commands;
use crate::fixtures::Fixtures;
use crate::host;
use crate::verb::Verb;
use crate::verdict::Seen;
use crate::world::{World, held};
use os_sandbox::Denial;
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
/// Share of the refused attempts that must be reported, in percent.
const WANTED_PERCENT: usize = 95;

/// The reports under one enforcer.
pub(crate) struct Accuracy {
    column: Column,
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
            "reports, {}: {} refused, {reported} reported; {} not refused; {} wrong",
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
    here.map(|column| one(fixtures, column, filter)).collect()
}

fn one(fixtures: &Fixtures, column: Column, filter: Option<&str>) -> Result<Accuracy, String> {
    let mut accuracy = Accuracy {
        column,
        refused: 0,
        missed: Vec::new(),
        wrong: Vec::new(),
        through: 0,
    };
    for case in &fixtures.cases {
        let wanted = filter.is_none_or(|text| case.name.contains(text));
        if !wanted || !is_reported(case, column) || case.cell(column) == Cell::NotPosed {
            continue;
        }
        let Tried {
            seen,
            denials,
            names,
        } = alone(fixtures, column, case)?;
        match &seen {
            // It exists, or is in another mount: no refusal of the policy.
            Seen::Denied(errno) if ["errno 17", "errno 18"].contains(&errno.as_str()) => continue,
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

/// `true` for an attempt that is reported if the policy refuses it. Cases that fail by their nature
/// are not refused.
fn is_reported(case: &Case, column: Column) -> bool {
    let verb = match case.verb {
        // The loopback of its own is not refused.
        Verb::Tcp | Verb::Listen | Verb::OwnLoopback => column == Column::Landlock(7),
        Verb::Write
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
        | Verb::Bind => true,
        Verb::Read
        | Verb::List
        | Verb::Stat
        | Verb::Readlink
        | Verb::Copy
        | Verb::Times
        | Verb::Execute
        | Verb::Udp
        | Verb::Abstract
        | Verb::Pair
        | Verb::Signal
        | Verb::SignalOwn
        | Verb::Descriptor
        | Verb::Variable => false,
    };
    verb && !case.fails_by_nature()
}

/// `true` if a report is about an object of the case, by its last name.
fn is_about(names: &[OsString], denial: &Denial) -> bool {
    let object = Path::new(&denial.object);
    let is_path = object.is_absolute();
    !is_path
        || object
            .file_name()
            .is_some_and(|last| names.iter().any(|name| name == last))
}

/// An attempt, and what was reported about it.
struct Tried {
    seen: Seen,
    denials: Vec<Denial>,
    /// The last names of the case's paths, and of what its links lead to.
    names: Vec<OsString>,
}

fn alone(fixtures: &Fixtures, column: Column, case: &Case) -> Result<Tried, String> {
    // Commands have a /tmp of their own, where nothing is refused.
    let world = World::below(
        Path::new("/var/tmp"),
        fixtures.tree(case),
        fixtures.policy(case),
    )?;
    let places = world.places(case);
    let words = case.words.iter().map(PathBuf::from);
    let leads = places.iter().flatten().map(|place| {
        let leads = place.read_link().unwrap_or_else(|_| place.clone());
        place.canonicalize().unwrap_or(leads)
    });
    let last = |path: PathBuf| path.file_name().map(OsStr::to_owned);
    let names = words.chain(leads).filter_map(last).collect();
    let _held = held(&places);
    let plan = commands::plan(column, &world)?;
    let (mut seen, denials) = commands::attempt_reported(&plan, &world, &[case])?;
    let seen = seen.pop().ok_or("an answer is missing")?;
    Ok(Tried {
        seen,
        denials,
        names,
    })
}
