//! Named hosts, from outside: `forge exec --host`, and the shell of a worker, against servers with
//! public addresses in a network namespace that the test makes.

mod asking;
mod decisions;
mod parent_proxy;
mod programs;
mod servers;
mod termination;

use std::io::Write as _;

use servers::Servers;

/// Returns servers, or says why they cannot be had.
fn servers() -> Option<Servers> {
    match Servers::start() {
        Ok(servers) => Some(servers),
        Err(why) => {
            skipped(&why);
            None
        }
    }
}

/// Not by a macro, whose words cargo keeps to itself if a test passes.
fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "{name}: skipped: {why}");
}
