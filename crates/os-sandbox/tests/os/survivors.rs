//! Nothing of a command is left: whichever way it detaches, whichever way it ends. A holder keeps
//! a lock on a file; if the lock can be had, the holder is gone. No clock is involved.

use crate::fixture::{Mechanism, World};
use crate::report::Report;
use os_sandbox::{Child, Command, Exit, Sandbox};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A watchdog, not a measure.
const WITHIN: Duration = Duration::from_secs(600);

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    for detach in ["background", "setsid", "double"] {
        for end in ["exit", "kill", "drop", "timeout", "broker"] {
            report.case(
                &format!("survivors: {detach}, {end}"),
                one(mechanism, detach, end, false),
            );
        }
    }
    if !mechanism.names_sockets() {
        report.not_posed(
            "survivors: with named sockets",
            "they cannot be connected from outside here",
        );
        return;
    }
    // With a connector, which is the parent of everything else.
    for end in ["exit", "kill", "drop", "timeout", "broker", "connector"] {
        report.case(
            &format!("survivors: double, {end}, with named sockets"),
            one(mechanism, "double", end, true),
        );
    }
}

fn one(mechanism: Mechanism, detach: &str, end: &str, named: bool) -> Result<(), String> {
    let world = World::new(mechanism);
    let mut policy = world.policy();
    if named {
        policy = policy.unix_socket(world.host("outside").join("socket"));
    }
    let plan = mechanism.plan(&policy.build().map_err(|error| error.to_string())?);
    let stay = if end == "exit" { "exit" } else { "stay" };
    let how = format!("{detach}+{stay}");
    let mut waits = false;
    match end {
        "exit" => {
            let mut child = hold(&world, &plan, &how, None)?;
            expect(child.wait(), Exit::Code(0))?;
        }
        "kill" => {
            let mut child = hold(&world, &plan, &how, None)?;
            ready(&world)?;
            child.kill();
            expect(child.wait(), Exit::Signal(9))?;
        }
        "drop" => {
            let child = hold(&world, &plan, &how, None)?;
            ready(&world)?;
            drop(child);
        }
        "timeout" => {
            // Long enough for the holder on a busy machine; if not, the case proves less, not wrong.
            let mut child = hold(&world, &plan, &how, Some(Duration::from_millis(700)))?;
            expect(child.wait(), Exit::TimedOut)?;
        }
        "connector" => {
            let before = children();
            let mut child = hold(&world, &plan, &how, None)?;
            ready(&world)?;
            let mut new = children();
            new.retain(|pid| !before.contains(pid));
            let [connector] = new[..] else {
                return Err(format!("{new:?}"));
            };
            let connector = nix::unistd::Pid::from_raw(connector);
            nix::sys::signal::kill(connector, nix::sys::signal::Signal::SIGKILL)
                .map_err(|error| error.to_string())?;
            match child.wait() {
                Err(error) if error.kind() == os_sandbox::ErrorKind::Enforcement => {}
                other => return Err(format!("{other:?}")),
            }
            // bubblewrap is ended by the kernel, which takes its time.
            waits = mechanism.has_mount_layer();
        }
        _ => {
            let me = crate::fixture::probe_program();
            let mut broker = std::process::Command::new(me)
                .args(["--broker", mechanism.name(), &how])
                .arg(world.host("rw"))
                .args(named.then(|| world.host("outside").join("socket")))
                // What a killed broker leaves behind goes with this world.
                .env("TMPDIR", world.host("."))
                .stdout(std::process::Stdio::piped())
                .spawn()
                .map_err(|error| error.to_string())?;
            let mut line = String::new();
            if let Some(stdout) = broker.stdout.take() {
                BufReader::new(stdout)
                    .read_line(&mut line)
                    .map_err(|error| error.to_string())?;
            }
            ready(&world)?;
            broker.kill().map_err(|error| error.to_string())?;
            broker.wait().map_err(|error| error.to_string())?;
            waits = true;
        }
    }
    let path = world.host("rw").join("lock");
    if !path.exists() {
        return if end == "timeout" {
            Ok(())
        } else {
            Err("the holder never ran".to_owned())
        };
    }
    let file = OpenOptions::new()
        .write(true)
        .open(&path)
        .map_err(|error| error.to_string())?;
    let until = Instant::now() + WITHIN;
    while file.try_lock().is_err() {
        // Only a killed broker cannot wait for the end of its tree itself.
        if !waits || Instant::now() > until {
            return Err("the holder lives on".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The processes that this one has started.
fn children() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a list");
    tasks
        .flatten()
        .flat_map(|task| {
            let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            text.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

fn hold(
    world: &World,
    plan: &Sandbox,
    how: &str,
    timeout: Option<Duration>,
) -> Result<Child, String> {
    let lock = format!("{}/lock", world.inside("rw"));
    let mut command = Command::new(plan, "/probe").args(["--probe", "hold", &lock, how]);
    if let Some(timeout) = timeout {
        command = command.timeout(timeout);
    }
    command
        .stdout(os_sandbox::Stdio::Null)
        .stderr(os_sandbox::Stdio::Null)
        .spawn()
        .map_err(|e| e.to_string())
}

fn ready(world: &World) -> Result<(), String> {
    let until = Instant::now() + WITHIN;
    while !world.host("rw").join("lock.ready").exists() {
        if Instant::now() > until {
            return Err("the holder never ran".to_owned());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn expect(got: Result<Exit, os_sandbox::Error>, want: Exit) -> Result<(), String> {
    match got {
        Ok(exit) if exit == want => Ok(()),
        other => Err(format!("{other:?} instead of {want:?}")),
    }
}

/// A broker that starts a holder and waits to be killed.
pub(crate) fn broker(args: &[String]) -> ExitCode {
    let [mechanism, how, rw, named @ ..] = args else {
        return ExitCode::FAILURE;
    };
    let mechanism = crate::fixture::mechanisms()
        .into_iter()
        .find(|one| one.name() == mechanism)
        .expect("a mechanism of this host");
    let policy = named
        .iter()
        .fold(os_sandbox::Policy::builder(), |policy, path| {
            policy.unix_socket(path)
        })
        .mount(rw, "/rw", os_sandbox::Access::ALL)
        .mount(
            crate::fixture::probe_program(),
            "/probe",
            os_sandbox::Access::READ | os_sandbox::Access::EXECUTE,
        )
        .build()
        .expect("a policy");
    let lock = if mechanism.moves() {
        "/rw/lock".to_owned()
    } else {
        format!("{rw}/lock")
    };
    let mut child = Command::new(&mechanism.plan(&policy), "/probe")
        .args(["--probe", "hold", &lock, how])
        .stdout(os_sandbox::Stdio::Null)
        .stderr(os_sandbox::Stdio::Null)
        .spawn()
        .expect("a child");
    println!("started");
    child.wait().expect("never");
    ExitCode::FAILURE
}
