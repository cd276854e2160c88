//! The kernel's side of the filter, for tests: runs a program over one `struct seccomp_data`.

use crate::seccomp::compile::{self, Instruction};
use crate::seccomp::table::Action;

/// Returns the action that the kernel would take; `None` if it would refuse the program.
pub(crate) fn run(
    program: &[Instruction],
    arch: u32,
    number: u32,
    args: &[u64; 6],
) -> Option<Action> {
    let mut data = [0u32; 16];
    data[0] = number;
    data[1] = arch;
    for (index, arg) in args.iter().enumerate() {
        data[4 + 2 * index] = *arg as u32;
        data[5 + 2 * index] = (*arg >> 32) as u32;
    }
    let mut accumulator = 0u32;
    let mut at = 0usize;
    for _ in 0..compile::MAX_INSTRUCTIONS {
        let one = program.get(at)?;
        at += 1;
        let conditional = |holds: bool| usize::from(if holds { one.jt } else { one.jf });
        match one.code {
            compile::LOAD => accumulator = *data.get(one.k as usize / 4)?,
            compile::AND => accumulator &= one.k,
            compile::JUMP => at += one.k as usize,
            compile::JUMP_EQUAL => at += conditional(accumulator == one.k),
            compile::JUMP_GREATER_EQUAL => at += conditional(accumulator >= one.k),
            compile::JUMP_ANY => at += conditional(accumulator & one.k != 0),
            compile::RETURN => {
                return Some(match one.k {
                    compile::RETURN_ALLOW => Action::Allow,
                    compile::RETURN_USER_NOTIF => Action::UserNotify,
                    compile::RETURN_KILL_PROCESS => Action::Kill,
                    k if k & 0xffff_0000 == compile::RETURN_ERRNO => Action::Errno(k as u16),
                    _ => return None,
                });
            }
            _ => return None,
        }
    }
    None
}
