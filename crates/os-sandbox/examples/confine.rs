//! One allowed and one denied command: `cargo run -p os-sandbox --example confine`.
#![expect(clippy::print_stdout, reason = "an example prints")]

use os_sandbox::{Access, Command, Directories, Plan, Policy, Requirement, Sandbox, Support};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let support = Support::detect();
    print!("{support}");

    let here = std::env::current_dir()?;
    let policy = Policy::builder()
        .mount(here, "/", Access::READ | Access::EXECUTE)
        .build()?;
    let plan = Plan::new(&policy, &support, Requirement::Enforce)?;
    print!("\n{plan}");

    let sandbox = Sandbox::open(plan, Directories::user());
    let allowed = Command::new(&sandbox, "ls").output()?;
    println!("\nls: {}\n{}", allowed.exit, allowed.stdout.text());
    let denied = Command::new(&sandbox, "sh")
        .args([
            "-c",
            "cat /etc/shadow; echo > new; exec 3<>/dev/tcp/127.0.0.1/80",
        ])
        .output()?;
    println!("sh: {}\n{}", denied.exit, denied.stderr.text());
    Ok(())
}
