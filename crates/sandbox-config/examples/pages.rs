//! Prints what is generated from the table of keys: `cargo xtask docs` keeps `schemas/` and
//! `docs/configuration.md` with it.

#![expect(clippy::print_stdout, reason = "printing is all that it does")]

use sandbox_config::schema;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("config") => print!("{}", schema::project()),
        Some("worker") => print!("{}", schema::worker()),
        Some("reference") => print!("{}", schema::reference()),
        Some("trust") => print!("{}", schema::trust()),
        Some("user-file") => print!("{}", schema::user_file()),
        _ => println!("usage: pages config|worker|reference|trust|user-file"),
    }
}
