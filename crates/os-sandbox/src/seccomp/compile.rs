//! Table → BPF. A binary search over the ranges, so that a call costs a handful of instructions
//! instead of one per rule, and so that the kernel, which compiles the program and tries it for every
//! number at each start, is done soon. Conditional jumps reach 255 instructions; farther ones take
//! an unconditional one along.

use super::table::{Action, Range, Rule, Table, Test};

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

/// Load the word at `k` of `struct seccomp_data`.
pub(crate) const LOAD: u16 = 0x20;
pub(crate) const AND: u16 = 0x54;
pub(crate) const JUMP: u16 = 0x05;
pub(crate) const JUMP_EQUAL: u16 = 0x15;
pub(crate) const JUMP_GREATER_EQUAL: u16 = 0x35;
pub(crate) const JUMP_ANY: u16 = 0x45;
pub(crate) const RETURN: u16 = 0x06;

pub(crate) const OFFSET_NUMBER: u32 = 0;
pub(crate) const OFFSET_ARCH: u32 = 4;
/// Low word of the first argument; both architectures are little-endian.
pub(crate) const OFFSET_ARGS: u32 = 16;

pub(crate) const RETURN_KILL_PROCESS: u32 = 0x8000_0000;
pub(crate) const RETURN_ERRNO: u32 = 0x0005_0000;
pub(crate) const RETURN_USER_NOTIF: u32 = 0x7fc0_0000;
pub(crate) const RETURN_ALLOW: u32 = 0x7fff_0000;

/// The program, or `None` if the table is too large for the kernel.
pub(crate) fn compile(table: &Table) -> Option<Vec<Instruction>> {
    let mut program = vec![
        plain(LOAD, OFFSET_ARCH),
        Instruction {
            code: JUMP_EQUAL,
            jt: 1,
            jf: 0,
            k: table.arch.audit(),
        },
        give(Action::Kill),
        plain(LOAD, OFFSET_NUMBER),
    ];
    program.extend(search(&table.ranges));
    (program.len() <= MAX_INSTRUCTIONS).then_some(program)
}

/// The program as the kernel and the wire take it.
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

/// Code for the number in the accumulator; it always ends in a return.
fn search(ranges: &[Range]) -> Vec<Instruction> {
    match ranges {
        // Cannot be: a table has at least one range. Nothing is let through.
        [] => vec![give(Action::Kill)],
        [one] => decide(&one.rule),
        more => {
            let (left, right) = more.split_at(more.len() / 2);
            let left = search(left);
            let over = left.len() as u32;
            let mut out = match u8::try_from(over) {
                Ok(over) => vec![Instruction {
                    code: JUMP_GREATER_EQUAL,
                    jt: over,
                    jf: 0,
                    k: right[0].first,
                }],
                Err(_) => vec![
                    Instruction {
                        code: JUMP_GREATER_EQUAL,
                        jt: 0,
                        jf: 1,
                        k: right[0].first,
                    },
                    plain(JUMP, over),
                ],
            };
            out.extend(left);
            out.extend(search(right));
            out
        }
    }
}

fn decide(rule: &Rule) -> Vec<Instruction> {
    let mut out = Vec::new();
    for clause in &rule.clauses {
        // Each test falls through if it holds, else jumps over the rest of the clause.
        let mut code: Vec<Instruction> = vec![give(clause.action)];
        for test in clause.tests.iter().rev() {
            let (arg, keep, jump, k) = match *test {
                Test::Masked { arg, mask, value } => (arg, mask, JUMP_EQUAL, value),
                Test::Any { arg, mask } => (arg, u32::MAX, JUMP_ANY, mask),
            };
            let mut one = vec![plain(LOAD, OFFSET_ARGS + 8 * u32::from(arg))];
            if keep != u32::MAX {
                one.push(plain(AND, keep));
            }
            let conditional = |jt: u8, jf: u8| Instruction {
                code: jump,
                jt,
                jf,
                k,
            };
            match u8::try_from(code.len()) {
                Ok(skip) => one.push(conditional(0, skip)),
                Err(_) => one.extend([conditional(1, 0), plain(JUMP, code.len() as u32)]),
            }
            one.extend(code);
            code = one;
        }
        out.extend(code);
    }
    out.push(give(rule.otherwise));
    out
}

fn plain(code: u16, k: u32) -> Instruction {
    Instruction {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

fn give(action: Action) -> Instruction {
    plain(
        RETURN,
        match action {
            Action::Allow => RETURN_ALLOW,
            Action::Errno(errno) => RETURN_ERRNO | u32::from(errno),
            Action::Ask => RETURN_USER_NOTIF,
            Action::Kill => RETURN_KILL_PROCESS,
        },
    )
}
