//! Proves the default plan under every mechanism of this machine:
//! `cargo run -p os-sandbox --example prove`.
#![expect(clippy::print_stdout, reason = "an example prints")]

use os_sandbox::{Backend, Plan, Policy, Requirement, Support};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let support = Support::detect();
    let policy = Policy::builder().build()?;
    for backend in [Backend::Bubblewrap, Backend::Landlock] {
        match Plan::with_mechanism(&policy, &support, Requirement::Enforce, backend) {
            Ok(plan) => print!("{}", Support::prove(&plan)?),
            Err(refused) => println!("{backend}: {refused}"),
        }
        println!();
    }
    Ok(())
}
