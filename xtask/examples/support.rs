//! What this host can enforce, once for people and once for `cargo xtask test-os`, which runs
//! this program as each user: what root can do says nothing about what others can.
//!
//! The table comes first. After a form feed follows one line for each mechanism: its name, and
//! where it cannot be used a tab and the reason.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "its output is its result")]

use os_sandbox::Support;

/// The mechanisms that the sandbox tests report on.
const MECHANISMS: [&str; 2] = ["bubblewrap", "landlock"];

/// What every mechanism is built on.
const PARTS: [&str; 2] = ["launcher", "seccomp"];

fn main() {
    let support = Support::detect();
    print!("{support}\u{c}");
    let missing = support.missing();
    for mechanism in MECHANISMS {
        let reason = missing
            .iter()
            .find(|(what, ..)| *what == mechanism || PARTS.contains(what));
        match reason {
            None => println!("{mechanism}"),
            Some((what, why, _)) if *what == mechanism => println!("{mechanism}\t{why}"),
            Some((what, why, _)) => println!("{mechanism}\tno {what}: {why}"),
        }
    }
}
