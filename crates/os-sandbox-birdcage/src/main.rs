//! `os-sandbox-birdcage`: becomes birdcage for one command of os-sandbox.
//!
//! birdcage confines who calls it, wants that to be a process of one thread, takes its variables
//! away and hands on every descriptor that is open. So nobody calls it but this program, which the
//! launcher becomes after it has closed what was not meant for it. Inside, birdcage starts the
//! launcher again, which does the rest: Landlock, the system call filter, the command.
//!
//! This program is linked with birdcage and is therefore, other than the library, a work under
//! the GNU General Public License, version 3 or later.
//!
//! <https://docs.rs/birdcage>
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "other.rs"]
mod system;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match system::run() {
        Ok(code) => code,
        Err(reason) => {
            // If nobody listens, nobody is told.
            let _ = writeln!(std::io::stderr(), "birdcage: {reason}");
            ExitCode::from(125)
        }
    }
}
