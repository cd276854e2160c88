//! Table → BPF. The program searches the numbers that have a rule, so that a call costs a handful
//! of instructions instead of one per rule. It has few instructions altogether, because the kernel
//! compiles the program and tries it for every number at each start, which takes as long as all
//! other steps of the confinement together. Conditional jumps reach 255 instructions; farther ones
//! add an unconditional jump.

use super::table::{Action, Clause, Rule, Table, Test};

/// One instruction, `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jt: u8,
    pub(crate) jf: u8,
    pub(crate) k: u32,
}

/// The kernel's bound on one program (`BPF_MAXINSNS`).
pub(crate) const MAX_INSTRUCTIONS: usize = 4096;

/// Loads the word at `k` of `struct seccomp_data`.
pub(crate) const LOAD: u16 = 0x20;
pub(crate) const AND: u16 = 0x54;
pub(crate) const JUMP: u16 = 0x05;
pub(crate) const JUMP_EQUAL: u16 = 0x15;
pub(crate) const JUMP_GREATER_EQUAL: u16 = 0x35;
pub(crate) const JUMP_ANY: u16 = 0x45;
pub(crate) const RETURN: u16 = 0x06;

pub(crate) const OFFSET_NUMBER: u32 = 0;
pub(crate) const OFFSET_ARCH: u32 = 4;
/// Offset of the low word of the first argument. Both architectures are little-endian.
pub(crate) const OFFSET_ARGS: u32 = 16;

pub(crate) const RETURN_KILL_PROCESS: u32 = 0x8000_0000;
pub(crate) const RETURN_ERRNO: u32 = 0x0005_0000;
pub(crate) const RETURN_USER_NOTIF: u32 = 0x7fc0_0000;
pub(crate) const RETURN_ALLOW: u32 = 0x7fff_0000;

/// The number of rules that are tested one after the other at the end of the search.
const BUCKET: usize = 4;

/// Returns the program, or `None` if the table is too large for the kernel.
pub(crate) fn compile(table: &Table) -> Option<Vec<Instruction>> {
    let mut code = ReverseAssembler::default();
    let allow = Rule::always(Action::Allow);
    let mut ruled = Vec::new();
    for (at, range) in table.ranges.iter().enumerate() {
        if range.rule != allow {
            let end = table.ranges.get(at + 1).map(|next| next.first);
            let to = code.rule(&range.rule);
            ruled.push(Ruled {
                first: range.first,
                end,
                to,
            });
        }
    }
    let kill = code.give(Action::Kill);
    let allow = code.give(Action::Allow);
    let search = code.search(&ruled, allow);
    let number = code.push(LOAD, OFFSET_NUMBER, search);
    let arch = code.branch(JUMP_EQUAL, table.arch.audit(), number, kill);
    code.push(LOAD, OFFSET_ARCH, arch);
    let program = code.forwards();
    (program.len() <= MAX_INSTRUCTIONS).then_some(program)
}

/// Returns the program in the format of the kernel and the wire.
pub(crate) fn bytes(program: &[Instruction]) -> Vec<u8> {
    let mut out = Vec::with_capacity(program.len() * 8);
    for one in program {
        out.extend_from_slice(&one.code.to_ne_bytes());
        out.push(one.jt);
        out.push(one.jf);
        out.extend_from_slice(&one.k.to_ne_bytes());
    }
    out
}

/// Numbers from `first` up to `end`, and the label of their rule.
struct Ruled {
    first: u32,
    end: Option<u32>,
    to: Label,
}

/// An instruction, identified by the number of instructions written before it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Label(usize);

/// A program that is written from its end, because jumps lead forwards only: each target exists
/// already and can be shared. Parts that many rules share, answers above all, are written once.
#[derive(Default)]
struct ReverseAssembler {
    code: Vec<Instruction>,
    answers: Vec<(Action, Label)>,
    rules: Vec<(Rule, Label)>,
}

impl ReverseAssembler {
    fn forwards(mut self) -> Vec<Instruction> {
        self.code.reverse();
        self.code
    }

    /// Writes an instruction that continues at `next`.
    fn push(&mut self, code: u16, k: u32, next: Label) -> Label {
        self.near(next, 0);
        self.write(code, 0, 0, k)
    }

    fn branch(&mut self, code: u16, k: u32, yes: Label, no: Label) -> Label {
        // The detour of one label may put the other out of reach.
        let yes = self.near(yes, 254);
        let no = self.near(no, 255);
        let yes = self.near(yes, 255);
        let offset = |to: Label| (self.code.len() - to.0 - 1) as u8;
        let (jt, jf) = (offset(yes), offset(no));
        self.write(code, jt, jf, k)
    }

    /// Returns a label that the next instruction reaches over `reach` others.
    fn near(&mut self, to: Label, reach: usize) -> Label {
        let over = self.code.len() - to.0 - 1;
        if over <= reach {
            return to;
        }
        self.write(JUMP, 0, 0, over as u32)
    }

    fn write(&mut self, code: u16, jt: u8, jf: u8, k: u32) -> Label {
        self.code.push(Instruction { code, jt, jf, k });
        Label(self.code.len() - 1)
    }

    fn give(&mut self, action: Action) -> Label {
        if let Some((_, label)) = self.answers.iter().find(|(known, _)| *known == action) {
            return *label;
        }
        let label = self.write(RETURN, 0, 0, answer(action));
        self.answers.push((action, label));
        label
    }

    /// Writes the search for the number in the accumulator.
    fn search(&mut self, ruled: &[Ruled], allow: Label) -> Label {
        if ruled.len() > BUCKET {
            let (left, right) = ruled.split_at(ruled.len() / 2);
            let from = right[0].first;
            let right = self.search(right, allow);
            let left = self.search(left, allow);
            return self.branch(JUMP_GREATER_EQUAL, from, right, left);
        }
        let mut next = allow;
        for one in ruled.iter().rev() {
            next = match one.end {
                Some(end) if end == one.first + 1 => {
                    self.branch(JUMP_EQUAL, one.first, one.to, next)
                }
                Some(end) => {
                    let inside = self.branch(JUMP_GREATER_EQUAL, one.first, one.to, next);
                    self.branch(JUMP_GREATER_EQUAL, end, next, inside)
                }
                None => self.branch(JUMP_GREATER_EQUAL, one.first, one.to, next),
            };
        }
        next
    }

    fn rule(&mut self, rule: &Rule) -> Label {
        if let Some((_, label)) = self.rules.iter().find(|(known, _)| known == rule) {
            return *label;
        }
        let mut next = self.give(rule.otherwise);
        for (at, clause) in rule.clauses.iter().enumerate().rev() {
            let before = at.checked_sub(1).map(|before| &rule.clauses[before]);
            let loaded = before.is_some_and(|before| leaves_loaded(before, clause));
            // A test that passes leads to the next test, and one that fails to the next clause.
            let mut yes = self.give(clause.action);
            for test in clause.tests.iter().rev() {
                let ((arg, keep), jump, k) = match *test {
                    Test::Masked { value, .. } => (looked_at(*test), JUMP_EQUAL, value),
                    Test::Any { mask, .. } => (looked_at(*test), JUMP_ANY, mask),
                };
                yes = self.branch(jump, k, yes, next);
                if loaded {
                    continue;
                }
                if keep != u32::MAX {
                    yes = self.push(AND, keep, yes);
                }
                yes = self.push(LOAD, OFFSET_ARGS + 8 * u32::from(arg), yes);
            }
            next = yes;
        }
        self.rules.push((rule.clone(), next));
        next
    }
}

/// Returns the argument, and the part of it that a test has in the accumulator.
fn looked_at(test: Test) -> (u8, u32) {
    match test {
        Test::Masked { arg, mask, .. } => (arg, mask),
        Test::Any { arg, .. } => (arg, u32::MAX),
    }
}

/// Returns `true` if a failed clause leaves the argument of the next clause in the accumulator.
fn leaves_loaded(before: &Clause, after: &Clause) -> bool {
    match (&before.tests[..], &after.tests[..]) {
        ([before], [after]) => looked_at(*before) == looked_at(*after),
        _ => false,
    }
}

fn answer(action: Action) -> u32 {
    match action {
        Action::Allow => RETURN_ALLOW,
        Action::UserNotify => RETURN_USER_NOTIF,
        Action::Errno(errno) => RETURN_ERRNO | u32::from(errno),
        Action::Kill => RETURN_KILL_PROCESS,
    }
}
