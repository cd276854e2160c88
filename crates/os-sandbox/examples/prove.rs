//! Proves the default plan under every mechanism of this machine:
//! `cargo run -p os-sandbox --example prove`.
#![expect(clippy::print_stdout, reason = "an example prints")]

use os_sandbox::{Backend, Directories, Plan, Policy, Requirement, Sandbox, Support};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let support = Support::detect();
    let policy = Policy::builder().build()?;
    for backend in [Backend::Namespaces, Backend::Bubblewrap, Backend::Landlock] {
        match Plan::with_mechanism(&policy, &support, Requirement::Enforce, backend) {
            Ok(plan) => print!("{}", Sandbox::open(plan, Directories::user()).prove()?),
            Err(refused) => println!("{backend}: {refused}"),
        }
        println!();
    }
    Ok(())
}
