//! Prints the schemas that are made from the table of keys: `cargo xtask docs` keeps `schemas/` with it.

#![expect(clippy::print_stdout, reason = "printing is all that it does")]

use sandbox_config::schema;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("config") => print!("{}", schema::project()),
        Some("worker") => print!("{}", schema::worker()),
        _ => println!("usage: pages config|worker"),
    }
}
