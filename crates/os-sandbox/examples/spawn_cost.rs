//! What a confined start costs beside a plain one, in one run:
//! `cargo run --release -p os-sandbox --example spawn_cost`.
#![expect(clippy::print_stdout, reason = "an example prints")]

use os_sandbox::{
    Access, Backend, Command, Directories, Limits, Plan, Policy, Requirement, Sandbox, Stdio,
    Support, Survivors,
};
use std::time::{Duration, Instant};

const ROUNDS: usize = 300;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A broker of some size: what a fork would pay for.
    let ballast = vec![1u8; 64 << 20];
    let support = Support::detect();
    // Those of the whole tree take a control group, which costs as much as a start.
    let limits = Limits {
        memory_bytes: None,
        processes: None,
        ..Limits::default()
    };
    let policy = |survivors: Survivors| {
        Policy::builder()
            .mount(std::env::temp_dir(), "/", Access::ALL)
            .survivors(survivors)
            .limits(limits.clone())
            .build()
    };

    let only = std::env::args().nth(1);
    let mut plain = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        std::process::Command::new("true").status()?;
        plain.push(start.elapsed());
    }
    let plain = typical(plain);
    println!("{:<12} {:>8.0} µs", "plain", micros(plain));
    for (name, backend, survivors) in [
        ("none", Backend::None, Survivors::Ended),
        ("no init", Backend::Landlock, Survivors::Left),
        ("landlock", Backend::Landlock, Survivors::Ended),
        ("namespaces", Backend::Namespaces, Survivors::Ended),
        ("bubblewrap", Backend::Bubblewrap, Survivors::Ended),
    ] {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let policy = policy(survivors)?;
        let Ok(plan) = Plan::with_mechanism(&policy, &support, Requirement::BestEffort, backend)
        else {
            continue;
        };
        let sandbox = Sandbox::open(plan, Directories::user());
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let command = Command::new(&sandbox, "true")
                .stdout(Stdio::Null)
                .stderr(Stdio::Null);
            command.spawn()?.wait()?;
            times.push(start.elapsed());
        }
        let time = typical(times);
        let ratio = time.as_secs_f64() / plain.as_secs_f64();
        println!("{name:<12} {:>8.0} µs  {ratio:.2} × plain", micros(time));
    }
    drop(ballast);
    Ok(())
}

/// Low in the order: the cost itself, not what else the machine was doing.
fn typical(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 5]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
