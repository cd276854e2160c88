//! `cargo xtask bench`: what our layers cost, as ratios measured in one run. The variants of a
//! comparison take turns, so that whatever else the machine does falls on all of them alike.
//! Prints cells with tabs between them; the command makes a table of them.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "its output is its result")]

use std::error::Error;

mod compare;
mod files;
mod spawn;

fn main() -> Result<(), Box<dyn Error>> {
    for measure in files::measures()?.into_iter().chain(spawn::measures()?) {
        println!("{}", measure.cells().join("\t"));
    }
    Ok(())
}
