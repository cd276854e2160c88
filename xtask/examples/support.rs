//! What this host can enforce, once for people and once for `cargo xtask test-os`, which runs
//! this program as each user: what root can do says nothing about what others can.
//!
//! The table comes first. After a form feed follows one line for each mechanism: its name, and
//! where it cannot be used a tab and the reason.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "its output is its result")]

use os_sandbox::Support;

/// The mechanisms that the sandbox tests report on.
#[cfg(not(feature = "birdcage"))]
const MECHANISMS: &[&str] = &["namespaces", "bubblewrap", "landlock"];
#[cfg(feature = "birdcage")]
const MECHANISMS: &[&str] = &["namespaces", "bubblewrap", "landlock", "birdcage"];

/// What every mechanism is built on. Reported on only where it is missing.
const PARTS: [&str; 2] = ["launcher", "seccomp"];

/// Below this version Landlock cannot keep signals in, and a plan with it alone is refused.
const LANDLOCK_ABI: u32 = 6;

fn main() {
    let support = support();
    print!("{support}\u{c}");
    let missing = support.missing();
    for (part, why, _) in missing.iter().filter(|(what, ..)| PARTS.contains(what)) {
        println!("{part}\t{why}");
    }
    for mechanism in MECHANISMS {
        let reason = missing
            .iter()
            .find(|(what, ..)| what == mechanism || PARTS.contains(what));
        match reason {
            Some((what, why, _)) => println!("{mechanism}\tno {what}: {why}"),
            // On macOS nobody misses them.
            None if !cfg!(target_os = "linux") => println!("{mechanism}\tnot on this system"),
            None if *mechanism == "landlock" && support.landlock_abi() < LANDLOCK_ABI => {
                println!(
                    "landlock\tits ABI is {}, it takes {LANDLOCK_ABI}",
                    support.landlock_abi()
                );
            }
            None => println!("{mechanism}"),
        }
    }
}

#[cfg(not(feature = "birdcage"))]
fn support() -> Support {
    Support::detect_fresh()
}

/// Its program lies where cargo puts programs, one above its examples.
#[cfg(feature = "birdcage")]
fn support() -> Support {
    let me = std::env::current_exe().unwrap_or_default();
    let above = me.ancestors().nth(2).unwrap_or(&me);
    Support::detect_fresh().with_birdcage(Some(&above.join("os-sandbox-birdcage")))
}
