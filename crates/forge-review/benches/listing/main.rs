//! The time to list and compare 1 000 changed files in a project of 100 000: at most 0.5 s.
//! `cargo bench -p forge-review`
#![cfg_attr(
    target_os = "linux",
    expect(clippy::print_stdout, reason = "its output is its result")
)]

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
