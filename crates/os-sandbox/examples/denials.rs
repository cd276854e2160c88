//! Runs a shell line in a directory, and prints what the policy refused:
//! `cargo run --example denials -- DIRECTORY LINE`.

use os_sandbox::{Access, Command, Directories, Plan, Policy, Requirement, Sandbox, Support};
use std::error::Error;
use std::io::{self, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(directory), Some(line)) = (args.next(), args.next()) else {
        return Err("usage: denials DIRECTORY LINE".into());
    };
    let policy = Policy::builder()
        .mount(directory, "/", Access::ALL)
        .protect(".envrc")
        .build()?;
    let plan = Plan::new(&policy, &Support::detect(), Requirement::Enforce)?;
    let sandbox = Sandbox::open(plan, Directories::user());
    let output = Command::new(&sandbox, "sh").args(["-c", &line]).output()?;
    let mut out = io::stdout().lock();
    out.write_all(output.stderr.bytes().as_ref())?;
    writeln!(out, "exit: {}", output.exit)?;
    for denial in &output.enforcement.denials {
        writeln!(out, "refused: {denial} by {}", denial.program)?;
    }
    Ok(())
}
