//! `cargo xtask bench`: what our layers cost, as ratios measured in one run. The variants of a
//! comparison take turns, so that whatever else the machine does falls on all of them alike.
//! Prints cells with tabs between them; the command makes a table of them.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "its output is its result")]

use std::error::Error;

mod agents;
mod amounts;
mod calls;
mod compare;
mod config;
#[cfg(target_os = "linux")]
mod containers;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "the tests of another crate use all of it")]
#[path = "../../../crates/os-sandbox-docker/tests/docker/daemon.rs"]
mod daemon;
#[cfg(target_os = "linux")]
mod exec;
mod files;
mod guards;
mod inside;
mod mcp;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod review;
mod spawn;
mod trees;

type Group = fn() -> Result<Vec<compare::Measure>, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, operation, dir] = arguments.as_slice()
        && flag == amounts::FLAG
    {
        return amounts::operate(operation, dir.as_ref());
    }
    if let [flag, dir] = arguments.as_slice()
        && flag == agents::FLAG
    {
        return agents::operate(dir.as_ref());
    }
    if let [flag, operation] = arguments.as_slice()
        && flag == inside::FLAG
    {
        return inside::operate(operation);
    }
    if arguments.as_slice() == [mcp::echo::FLAG] {
        return mcp::echo::serve();
    }
    #[cfg(target_os = "linux")]
    if arguments.as_slice() == [containers::FLAG] {
        return containers::node();
    }
    #[cfg(target_os = "linux")]
    if arguments.as_slice() == [exec::FLAG] {
        return exec::operate();
    }
    // Cargo adds a word of its own.
    let asked = |name: &str| {
        let mut words = arguments
            .iter()
            .filter(|word| !word.starts_with('-'))
            .peekable();
        words.peek().is_none() || words.any(|word| word == name)
    };
    #[cfg(target_os = "linux")]
    let of_containers: &[Group] = &[containers::measures];
    #[cfg(target_os = "linux")]
    let of_exec: &[Group] = &[exec::measures];
    #[cfg(target_os = "linux")]
    let of_network: &[Group] = &[network::measures];
    #[cfg(target_os = "linux")]
    let of_review: &[Group] = &[exec::review_measures, review::measures];
    // Only Linux starts an engine of its own, and has bubblewrap.
    #[cfg(not(target_os = "linux"))]
    let [of_containers, of_exec, of_network, of_review] = [const { &[] as &[Group] }; 4];
    let groups: [(&str, &[Group]); 9] = [
        (
            "files",
            &[files::measures, trees::measures, amounts::measures],
        ),
        ("os", &[spawn::measures, inside::measures, guards::measures]),
        ("exec", of_exec),
        ("network", of_network),
        ("review", of_review),
        ("config", &[config::measures]),
        ("mcp", &[calls::measures, mcp::measures]),
        ("loop", &[agents::measures]),
        ("docker", of_containers),
    ];
    for (_, measures) in groups.iter().filter(|(name, _)| asked(name)) {
        for measures in *measures {
            for measure in measures()? {
                println!("{}", measure.cells().join("\t"));
            }
        }
    }
    Ok(())
}
