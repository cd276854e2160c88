//! The table: an action for each range of system call numbers. A rule is a list of clauses; the
//! first clause whose tests all match decides. Tests read the low 32 bits of an argument, because
//! the kernel truncates the arguments in question to that (a high bit would otherwise bypass the
//! test).

use super::numbers::Arch;

/// The call is not permitted.
pub const EPERM: u16 = 1;
pub(crate) const EACCES: u16 = 13;
pub(crate) const ENOTTY: u16 = 25;
/// The kernel does not have the call.
pub const ENOSYS: u16 = 38;
pub(crate) const ENOPROTOOPT: u16 = 92;
pub(crate) const EPROTONOSUPPORT: u16 = 93;
pub(crate) const EOPNOTSUPP: u16 = 95;
pub(crate) const EAFNOSUPPORT: u16 = 97;
pub(crate) const ENETUNREACH: u16 = 101;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The call is made.
    Allow,
    /// The call is not made and returns this error.
    Errno(u16),
    /// The call waits for the process that has the filter's listener, which answers it.
    UserNotify,
    /// The whole process ends: a call of another architecture.
    Kill,
}

/// A test of the low 32 bits of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// `argument & mask == value`
    Masked {
        /// The index of the argument.
        arg: u8,
        /// The bits that count.
        mask: u32,
        /// The value of those bits.
        value: u32,
    },
    /// `argument & mask != 0`
    Any {
        /// The index of the argument.
        arg: u8,
        /// The bits that count.
        mask: u32,
    },
}

impl Test {
    pub(super) fn masked(arg: u8, mask: u32, value: u32) -> Test {
        Test::Masked { arg, mask, value }
    }

    /// Tests an argument for equality.
    pub(super) fn is(arg: u8, value: u32) -> Test {
        Test::masked(arg, u32::MAX, value)
    }

    pub(super) fn any(arg: u8, mask: u32) -> Test {
        Test::Any { arg, mask }
    }

    fn holds(self, args: &[u64; 6]) -> bool {
        let low = |arg: u8| args[usize::from(arg)] as u32;
        match self {
            Test::Masked { arg, mask, value } => low(arg) & mask == value,
            Test::Any { arg, mask } => low(arg) & mask != 0,
        }
    }
}

/// An action for calls that pass all tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// The tests. All have to pass.
    pub tests: Vec<Test>,
    /// The action.
    pub action: Action,
}

impl Clause {
    pub(super) fn new(tests: impl Into<Vec<Test>>, action: Action) -> Clause {
        let tests = tests.into();
        Clause { tests, action }
    }
}

/// The outcomes of one call number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The clauses. The first one whose tests pass decides.
    pub clauses: Vec<Clause>,
    /// The action if none of the clauses decides.
    pub otherwise: Action,
}

/// A range of numbers, up to the start of the next range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first number.
    pub first: u32,
    /// The rule of each number.
    pub rule: Rule,
}

/// Ranges that cover every number, ascending, the first at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The machine.
    pub arch: Arch,
    /// The ranges, in ascending order.
    pub ranges: Vec<Range>,
}

impl Rule {
    pub(super) fn new(clauses: impl Into<Vec<Clause>>, otherwise: Action) -> Rule {
        let clauses = clauses.into();
        Rule { clauses, otherwise }
    }

    /// Returns a rule with one outcome.
    #[must_use]
    pub fn always(action: Action) -> Rule {
        Rule::new([], action)
    }

    fn decide(&self, args: &[u64; 6]) -> Action {
        self.clauses
            .iter()
            .find(|clause| clause.tests.iter().all(|test| test.holds(args)))
            .map_or(self.otherwise, |clause| clause.action)
    }
}

impl Table {
    /// Sorts rules by number and allows every number between them. Numbers from
    /// `Arch::forbidden_from` on are refused with `ENOSYS` (x32 numbers have a high bit). Numbers
    /// that do not exist yet are left to the kernel.
    pub(crate) fn new(arch: Arch, rules: Vec<(u32, Rule)>) -> Table {
        let allow = Rule::always(Action::Allow);
        let mut rules = rules;
        rules.sort_by_key(|(number, _)| *number);
        rules.dedup_by_key(|(number, _)| *number);
        if let Some(first) = arch.forbidden_from() {
            rules.retain(|(number, _)| *number < first);
        }
        let mut ranges = vec![Range {
            first: 0,
            rule: allow.clone(),
        }];
        for (number, rule) in rules {
            push(&mut ranges, number, rule);
            push(&mut ranges, number + 1, allow.clone());
        }
        if let Some(first) = arch.forbidden_from() {
            push(&mut ranges, first, Rule::always(Action::Errno(ENOSYS)));
        }
        // Neighbours with the same rule are one range.
        ranges.dedup_by(|next, kept| next.rule == kept.rule);
        Table { arch, ranges }
    }

    /// Returns the rule of a number.
    #[must_use]
    pub fn rule(&self, number: u32) -> Option<&Rule> {
        let mut ranges = self.ranges.iter().rev();
        let range = ranges.find(|range| range.first <= number)?;
        Some(&range.rule)
    }

    /// Returns the table's action for one call, clause by clause. Compiled filters are compared
    /// with it.
    #[must_use]
    pub fn decide(&self, audit_arch: u32, number: u32, args: &[u64; 6]) -> Action {
        if audit_arch != self.arch.audit() {
            return Action::Kill;
        }
        self.ranges
            .iter()
            .rev()
            .find(|range| range.first <= number)
            .map_or(Action::Kill, |range| range.rule.decide(args))
    }
}

/// Adds a range, and replaces one that starts at the same number.
fn push(ranges: &mut Vec<Range>, first: u32, rule: Rule) {
    if ranges.last().is_some_and(|last| last.first == first) {
        ranges.pop();
    }
    ranges.push(Range { first, rule });
}
