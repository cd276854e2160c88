//! One case: a tree, a policy, an attempt, and the expected result in each column.

use crate::column::Column;
use crate::fixtures::Fixtures;
use crate::verb::Verb;
use os_sandbox::{Promise, PromiseState, Requirement};
use serde::Deserialize;

/// The verdict of the policy on an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Expect {
    Allow,
    Deny,
}

/// A case as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaseText {
    pub(crate) name: String,
    pub(crate) tree: Option<String>,
    pub(crate) policy: Option<String>,
    #[serde(rename = "do")]
    attempt: Vec<String>,
    expect: Expect,
    /// The promise that covers the attempt; needed if it gets through in some column.
    pub(crate) promise: Option<String>,
    /// Text cannot decide it: the policy has no rule for it, or the attempt fails by its nature.
    #[serde(default)]
    beyond_text: bool,
    /// It fails by its nature, which an enforcer that only sees paths cannot know.
    #[serde(default)]
    shape: bool,
    why: String,
    #[serde(default)]
    except: Vec<Except>,
}

/// Columns with another result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Except {
    at: Vec<String>,
    is: Is,
    difference: Option<String>,
    /// Only where the caller is uid 0.
    #[serde(default)]
    as_root: bool,
    /// For every caller but uid 0.
    #[serde(default)]
    not_as_root: bool,
    /// The reason why it cannot be posed in these columns.
    because: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Is {
    Allow,
    Deny,
    /// It gets through, and the plan says that the promise is not fully kept.
    Gap,
    NotPosed,
}

/// A difference between enforcers that is meant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    pub(crate) id: String,
    pub(crate) why: String,
    /// Where it was decided.
    pub(crate) decision: String,
}

/// A case that was understood. Trees, policies and differences are indices.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) tree: usize,
    pub(crate) policy: usize,
    pub(crate) verb: Verb,
    pub(crate) words: Vec<String>,
    pub(crate) expect: Expect,
    pub(crate) promise: Option<String>,
    beyond_text: bool,
    shape: bool,
    pub(crate) why: String,
    cells: Vec<Cell>,
}

/// The expected result of a case in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Allow,
    Deny,
    /// Allowed or denied against the policy, by an intended difference.
    AllowBut(usize),
    DenyBut(usize),
    /// Allowed against the policy if the caller is uid 0, and denied otherwise.
    AllowRoot(usize),
    /// A gap for ordinary users; uid 0 is denied.
    GapNotRoot,
    /// Gets through, and the plan lists it.
    Gap,
    NotPosed,
}

impl Case {
    /// `true` if the attempt fails without a policy.
    pub(crate) fn fails_by_nature(&self) -> bool {
        self.shape
    }

    pub(crate) fn new(text: CaseText, fixtures: &Fixtures) -> Result<Case, String> {
        let known = |what: &str, name: Option<String>, names: Vec<&str>| -> Result<usize, String> {
            let name = name.ok_or_else(|| format!("no {what}"))?;
            names
                .iter()
                .position(|other| *other == name)
                .ok_or_else(|| format!("no such {what}: {name}"))
        };
        let trees = fixtures.trees.iter().map(|tree| tree.name.as_str());
        let policies = fixtures.policies.iter().map(|policy| policy.name.as_str());
        let (verb, words) = text.attempt.split_first().ok_or("nothing to do")?;
        let verb = Verb::parse(verb)?;
        if verb.words() != words.len() {
            return Err(format!("{verb:?} takes {} words", verb.words()));
        }
        let mut case = Case {
            tree: known("tree", text.tree, trees.collect())?,
            policy: known("policy", text.policy, policies.collect())?,
            verb,
            words: words.to_vec(),
            name: text.name,
            expect: text.expect,
            promise: text.promise,
            beyond_text: text.beyond_text || text.shape || !verb.is_about_files(),
            shape: text.shape,
            why: text.why,
            cells: Vec::new(),
        };
        case.cells = Column::ALL.map(|column| case.usual(column)).to_vec();
        for except in &text.except {
            case.except(except, fixtures)?;
        }
        Ok(case)
    }

    /// Without exceptions.
    fn usual(&self, column: Column) -> Cell {
        let silent = (column == Column::Policy && self.beyond_text)
            || (column == Column::Judged && self.shape);
        match self.expect {
            _ if silent || !column.has(self.verb) => Cell::NotPosed,
            Expect::Allow => Cell::Allow,
            Expect::Deny => Cell::Deny,
        }
    }

    fn except(&mut self, except: &Except, fixtures: &Fixtures) -> Result<(), String> {
        let difference = except
            .difference
            .as_ref()
            .map(|id| {
                let at = fixtures.differences.iter().position(|row| row.id == *id);
                at.ok_or_else(|| format!("no such difference: {id}"))
            })
            .transpose()?;
        if except.as_root && except.is != Is::Allow {
            return Err("uid 0 is never denied more".to_owned());
        }
        if except.not_as_root && except.is != Is::Gap {
            return Err("`not_as_root` is about a gap".to_owned());
        }
        let cell = match (except.is, self.expect, difference, &except.because) {
            (Is::Allow, Expect::Deny, Some(id), None) if except.as_root => Cell::AllowRoot(id),
            (Is::Allow, Expect::Deny, Some(id), None) => Cell::AllowBut(id),
            (Is::Deny, Expect::Allow, Some(id), None) => Cell::DenyBut(id),
            (Is::Gap, Expect::Deny, None, None) if self.promise.is_some() => {
                match except.not_as_root {
                    true => Cell::GapNotRoot,
                    false => Cell::Gap,
                }
            }
            (Is::NotPosed, _, None, Some(_)) => Cell::NotPosed,
            (Is::Allow | Is::Deny, _, None, _) => {
                return Err("another answer takes a difference".to_owned());
            }
            (Is::Gap, _, _, _) => {
                return Err("a gap is a promise that is not kept, of what is denied".to_owned());
            }
            (Is::NotPosed, _, _, _) => return Err("what is not posed has a because".to_owned()),
            (Is::Allow | Is::Deny, _, _, _) => {
                return Err("an exception that is none".to_owned());
            }
        };
        for word in &except.at {
            for column in Column::named(word)? {
                let at = index(column);
                match self.cells[at] {
                    // A word for several columns may name some that do not have the verb.
                    Cell::NotPosed => {}
                    Cell::Allow | Cell::Deny => self.cells[at] = cell,
                    Cell::AllowBut(_)
                    | Cell::DenyBut(_)
                    | Cell::AllowRoot(_)
                    | Cell::Gap
                    | Cell::GapNotRoot => {
                        return Err(format!("two exceptions for {}", column.name()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the expected result for the user that runs this process.
    pub(crate) fn cell(&self, column: Column) -> Cell {
        let is_root = nix::unistd::geteuid().is_root();
        match self.for_all(column) {
            Cell::AllowRoot(id) if is_root => Cell::AllowBut(id),
            Cell::AllowRoot(_) => Cell::Deny,
            Cell::GapNotRoot if is_root => Cell::Deny,
            Cell::GapNotRoot => Cell::Gap,
            cell => cell,
        }
    }

    /// Returns the expected result for all users.
    pub(crate) fn for_all(&self, column: Column) -> Cell {
        self.cells[index(column)]
    }

    /// Returns every difference that some column shows.
    pub(crate) fn differences(&self) -> impl Iterator<Item = usize> {
        self.cells.iter().filter_map(|cell| match cell {
            Cell::AllowBut(id) | Cell::DenyBut(id) | Cell::AllowRoot(id) => Some(*id),
            Cell::Allow | Cell::Deny | Cell::Gap | Cell::GapNotRoot | Cell::NotPosed => None,
        })
    }

    /// `true` if every column that poses it answers as the policy does.
    pub(crate) fn is_plain(&self) -> bool {
        self.cells.iter().all(|cell| match cell {
            Cell::Allow | Cell::Deny | Cell::NotPosed => true,
            Cell::AllowBut(_)
            | Cell::DenyBut(_)
            | Cell::AllowRoot(_)
            | Cell::Gap
            | Cell::GapNotRoot => false,
        })
    }

    pub(crate) fn attempt(&self) -> String {
        let verb = self.verb.word();
        let words = self.words.iter().map(|word| {
            if word.is_empty() || word.chars().any(|c| c.is_whitespace() || c.is_control()) {
                format!(" {word:?}")
            } else {
                format!(" {word}")
            }
        });
        std::iter::once(verb).chain(words).collect()
    }
}

fn index(column: Column) -> usize {
    Column::ALL
        .iter()
        .position(|other| *other == column)
        .unwrap_or(0)
}

/// The state of a promise in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// Kept, or not made.
    No,
    /// Absent, degraded or detected.
    Open,
    /// As `Open`, and `Requirement::Enforce` refuses the plan because of it.
    Refused,
}

impl Listed {
    pub(crate) fn of(plan: &os_sandbox::Plan, promise: &str) -> Listed {
        let open = plan
            .entries()
            .iter()
            .any(|entry| entry.promise.name() == promise && entry.state != PromiseState::Enforced);
        if !open {
            return Listed::No;
        }
        let enforced = os_sandbox::Plan::with_mechanism(
            plan.policy(),
            plan.support(),
            Requirement::Enforce,
            plan.backend(),
        );
        let refuses = |gap: &os_sandbox::Entry| gap.promise.name() == promise;
        match enforced {
            Err(refused) if refused.gaps().iter().any(refuses) => Listed::Refused,
            Err(_) | Ok(_) => Listed::Open,
        }
    }
}

/// `true` if a promise has this name.
pub(crate) fn is_promise(name: &str) -> bool {
    [
        Promise::ReadOutside,
        Promise::WriteOutside,
        Promise::ExecuteOutside,
        Promise::NarrowerInside,
        Promise::KernelSettings,
        Promise::SetIdBits,
        Promise::Network,
        Promise::UnixSockets,
        Promise::Descriptors,
        Promise::Environment,
        Promise::Signals,
        Promise::Tracing,
        Promise::ProtectedNames,
        Promise::HiddenNames,
        Promise::Metadata,
        Promise::ProcessList,
    ]
    .iter()
    .any(|promise| promise.name() == name)
}
