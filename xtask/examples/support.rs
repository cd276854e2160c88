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

/// What every mechanism is built on. Reported on only where it is missing.
const PARTS: [&str; 2] = ["launcher", "seccomp"];

/// Below this version Landlock cannot keep signals in, and a plan with it alone is refused.
const LANDLOCK_ABI: u32 = 6;

fn main() {
    let support = Support::detect_fresh();
    print!("{support}\u{c}");
    let missing = support.missing();
    for (part, why, _) in missing.iter().filter(|(what, ..)| PARTS.contains(what)) {
        println!("{part}\t{why}");
    }
    for mechanism in MECHANISMS {
        let reason = missing
            .iter()
            .find(|(what, ..)| *what == mechanism || PARTS.contains(what));
        match reason {
            Some((what, why, _)) => println!("{mechanism}\tno {what}: {why}"),
            // On macOS nobody misses them.
            None if !cfg!(target_os = "linux") => println!("{mechanism}\tnot on this system"),
            None if mechanism == "landlock" && support.landlock_abi() < LANDLOCK_ABI => {
                println!(
                    "landlock\tits ABI is {}, it takes {LANDLOCK_ABI}",
                    support.landlock_abi()
                );
            }
            None => println!("{mechanism}"),
        }
    }
}
