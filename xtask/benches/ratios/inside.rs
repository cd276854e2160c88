//! What confinement costs while a command works: programs started, files read and a crate built
//! inside, each beside the same without a sandbox. The work is timed by the process that does it,
//! since what a start costs is told by `spawn.rs`.

use std::cell::Cell;
use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::{Duration, Instant};

use os_sandbox::{
    Access, Backend, Directories, Environment, Limits, Plan, Policy, ReportLevel, Requirement,
    Sandbox, Support,
};

use crate::compare::{Measure, Outcome, median};

pub(crate) const FLAG: &str = "--inside";

const ROUNDS: usize = 7;
/// A build takes a second.
const BUILD_ROUNDS: usize = 5;
const SPAWNS: usize = 1_000;
const DIRS: usize = 100;
const FILES_IN_EACH: usize = 100;
/// One pass takes less than the scheduler's own unrest.
const PASSES: usize = 5;

/// Names that are made and removed.
const CHANGES: usize = 20_000;

/// Work that is timed with reports and without, and how much longer it may take with them.
const REPORTED: [(&str, &str, ReportLevel, Option<f64>); 4] = [
    (
        "50 000 files read, with reports",
        "read",
        ReportLevel::Refused,
        Some(1.05),
    ),
    (
        "20 000 files made and removed, with reports",
        "change",
        ReportLevel::Refused,
        None,
    ),
    // The time of one call is the target: see `PER_CALL`.
    (
        "50 000 files read, full reports",
        "read",
        ReportLevel::Full,
        None,
    ),
    (
        "20 000 files made and removed, full reports",
        "change",
        ReportLevel::Full,
        None,
    ),
];

const WITHOUT_REPORTS: &str = "it without reports";

/// Name of the row about one reported call, in nanoseconds beside the target.
const PER_CALL: &str = "one read with full reports, added";
const MAX_PER_CALL: Duration = Duration::from_micros(12);

/// How a command is confined here.
#[derive(Clone, Copy)]
enum Layer {
    Landlock,
    Both,
    NamespacesAlone,
}

/// Each amount of work, and how much longer it may take under each layer.
const ROWS: [(&str, &str, Layer, f64); 6] = [
    ("1 000 spawns, landlock", "spawn", Layer::Landlock, 1.2),
    ("1 000 spawns, both layers", "spawn", Layer::Both, 1.2),
    (
        "1 000 spawns, namespaces alone",
        "spawn",
        Layer::NamespacesAlone,
        1.2,
    ),
    ("10 000 files read, landlock", "read", Layer::Landlock, 1.35),
    ("10 000 files read, both layers", "read", Layer::Both, 1.35),
    (
        "10 000 files read, namespaces alone",
        "read",
        Layer::NamespacesAlone,
        1.1,
    ),
];

/// A build in an overlay, beside the same without; and how much longer it may take.
const OVERLAY_BUILD: (&str, f64) = ("cargo build in an overlay", 1.10);

/// Names of a build: without reports, with those about refusals, and with full ones.
const BUILDS: [([&str; 3], Layer); 2] = [
    (
        [
            "cargo build, landlock",
            "cargo build with reports, landlock",
            "cargo build with full reports, landlock",
        ],
        Layer::Landlock,
    ),
    (
        [
            "cargo build, both layers",
            "cargo build with reports, both layers",
            "cargo build with full reports, both layers",
        ],
        Layer::Both,
    ),
];

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let support = Support::detect();
    let dir = tempfile::tempdir()?;
    let mut measures = work(&support, dir.path())?;
    measures.extend(builds(&support, dir.path())?);
    measures.extend(detection()?);
    Ok(measures)
}

/// The other side: does it, and prints how many nanoseconds it took.
pub(crate) fn operate(operation: &str) -> Result<(), Box<dyn Error>> {
    let start;
    match operation {
        "spawn" => {
            start = Instant::now();
            for _ in 0..SPAWNS {
                if !Command::new("/usr/bin/true").status()?.success() {
                    return Err("true is not".into());
                }
            }
        }
        "read" => {
            let names: Vec<PathBuf> = (0..DIRS * FILES_IN_EACH).map(name).collect();
            let mut text = Vec::new();
            start = Instant::now();
            for name in names.iter().cycle().take(PASSES * names.len()) {
                text.clear();
                fs::File::open(name)?.read_to_end(&mut text)?;
            }
        }
        "change" => {
            start = Instant::now();
            for number in 0..CHANGES {
                let name = format!("made{number}");
                fs::write(&name, "a small file\n")?;
                fs::remove_file(&name)?;
            }
        }
        "detect" => {
            start = Instant::now();
            std::hint::black_box(Support::detect_cached(&Directories::user()));
        }
        "detect-anew" => {
            Support::forget(&Directories::user());
            start = Instant::now();
            std::hint::black_box(Support::detect_cached(&Directories::user()));
        }
        other => return Err(format!("there is no operation {other}").into()),
    }
    println!("{}", start.elapsed().as_nanos());
    Ok(())
}

fn name(number: usize) -> PathBuf {
    PathBuf::from(format!(
        "d{}/f{}",
        number / FILES_IN_EACH,
        number % FILES_IN_EACH
    ))
}

fn work(support: &Support, dir: &Path) -> Result<Vec<Measure>, Box<dyn Error>> {
    let data = dir.join("data");
    for number in 0..DIRS * FILES_IN_EACH {
        let path = data.join(name(number));
        if number.is_multiple_of(FILES_IN_EACH) {
            fs::create_dir_all(path.parent().ok_or("no directory")?)?;
        }
        fs::write(path, "a small file\n")?;
    }
    let program = std::env::current_exe()?;
    let tools = program.parent().ok_or("no directory")?.to_owned();
    let name = program
        .file_name()
        .ok_or("no name")?
        .to_string_lossy()
        .into_owned();
    let policy = Policy::builder()
        .mount(&tools, "/tools", Access::READ | Access::EXECUTE)
        .mount(&data, "/data", Access::ALL)
        .limits(unlimited())
        .build()?;
    let mut measures = Vec::new();
    for (row, operation, layer, target) in ROWS {
        let outcome = match plan(support, &policy, layer) {
            Err(why) => Outcome::NotHere(why),
            Ok(plan) => {
                let sandbox = Sandbox::open(plan, Directories::user());
                let confined = || {
                    let output = os_sandbox::Command::new(&sandbox, format!("/tools/{name}"))
                        .args([FLAG, operation])
                        .cwd("/data")
                        .output()?;
                    let printed = output.stdout.text();
                    nanoseconds(&printed, &output.stderr.text())
                };
                let plain = || {
                    let mut command = Command::new(&program);
                    let output = command
                        .args([FLAG, operation])
                        .current_dir(&data)
                        .env_clear()
                        .stdin(process::Stdio::null())
                        .output()?;
                    let printed = String::from_utf8_lossy(&output.stdout);
                    nanoseconds(&printed, &String::from_utf8_lossy(&output.stderr))
                };
                ratio(ROUNDS, confined, plain, target)?
            }
        };
        measures.push(Measure { name: row, outcome });
    }
    for (row, operation, level, target) in REPORTED {
        let outcome = match plan(support, &policy, Layer::Both) {
            Err(why) => Outcome::NotHere(why),
            Ok(plan) => {
                let sandbox = Sandbox::open(plan, Directories::user());
                let time = |level| {
                    let output = os_sandbox::Command::new(&sandbox, format!("/tools/{name}"))
                        .args([FLAG, operation])
                        .cwd("/data")
                        .reports(level)
                        .output()?;
                    nanoseconds(&output.stdout.text(), &output.stderr.text())
                };
                let silent = || time(ReportLevel::Off);
                let outcome = ratio(ROUNDS, || time(level), silent, 1.0)?;
                if (operation, level) == ("read", ReportLevel::Full) {
                    measures.extend(per_call(&outcome));
                }
                beside(outcome, WITHOUT_REPORTS, target)
            }
        };
        measures.push(Measure { name: row, outcome });
    }
    Ok(measures)
}

/// The time that full reports add to one read, beside the target.
fn per_call(outcome: &Outcome) -> Option<Measure> {
    let Outcome::Ratio { ours, other, .. } = outcome else {
        return None;
    };
    let reads = u32::try_from(PASSES * DIRS * FILES_IN_EACH).ok()?;
    Some(Measure {
        name: PER_CALL,
        outcome: Outcome::Ratio {
            ours: ours.saturating_sub(*other) / reads,
            other: MAX_PER_CALL,
            other_name: "the bound of 12 µs",
            target: Some(1.0),
        },
    })
}

/// Names what the work was compared with.
fn beside(outcome: Outcome, other_name: &'static str, target: Option<f64>) -> Outcome {
    match outcome {
        Outcome::Ratio { ours, other, .. } => Outcome::Ratio {
            ours,
            other,
            other_name,
            target,
        },
        outcome => outcome,
    }
}

fn builds(support: &Support, dir: &Path) -> Result<Vec<Measure>, Box<dyn Error>> {
    let project = dir.join("crate");
    fs::create_dir_all(project.join("src"))?;
    fs::write(
        project.join("Cargo.toml"),
        "[package]\nname = \"small\"\nversion = \"0.0.0\"\nedition = \"2024\"\n",
    )?;
    let modules = (0..12).map(|number| {
        format!(
            "pub mod m{number} {{\n    use std::collections::BTreeMap;\n    \
             pub fn count(text: &str) -> BTreeMap<String, usize> {{\n        \
             let mut out = BTreeMap::new();\n        \
             for word in text.split_whitespace() {{\n            \
             *out.entry(word.to_lowercase()).or_default() += {number};\n        }}\n        \
             out\n    }}\n}}\n"
        )
    });
    let calls =
        (0..12).map(|number| format!("    println!(\"{{:?}}\", m{number}::count(\"a b a\"));\n"));
    let main = format!("fn main() {{\n{}}}\n", calls.collect::<String>());
    fs::write(
        project.join("src/main.rs"),
        modules.collect::<String>() + &main,
    )?;

    let sysroot = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()?;
    let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout)?.trim());
    let policy = Policy::builder()
        .mount(&sysroot, "/toolchain", Access::READ | Access::EXECUTE)
        .mount(&project, "/crate", Access::ALL)
        .env(Environment::clean().set("CARGO_NET_OFFLINE", "true"))
        .limits(unlimited())
        .build()?;
    let path = format!("/toolchain/bin:{}/bin:/usr/bin:/bin", sysroot.display());
    let home = dir.join("home");
    fs::create_dir(&home)?;
    let upper = dir.join("upper");
    let work = dir.join("work");
    for dir in [&upper, &work] {
        fs::create_dir(dir)?;
    }
    let of_overlay = policy.clone().with_overlay("/crate", &upper, work)?;
    let of_overlay = plan(support, &of_overlay, Layer::Both);
    let mut measures = Vec::new();
    for ([row, reported_row, full_row], layer) in BUILDS {
        let outcome = match plan(support, &policy, layer) {
            Err(why) => Outcome::NotHere(why),
            Ok(plan) => {
                let sandbox = Sandbox::open(plan, Directories::user());
                let built = Cell::new(0);
                let build_in = |sandbox: &Sandbox, made_in: &Path, level: ReportLevel| {
                    built.set(built.get() + 1);
                    let built = built.get();
                    let start = Instant::now();
                    let output = os_sandbox::Command::new(sandbox, "/toolchain/bin/cargo")
                        .args([
                            "build",
                            "--quiet",
                            "--target-dir",
                            &format!("inside-{built}"),
                        ])
                        .env("PATH", path.as_str())
                        .cwd("/crate")
                        .reports(level)
                        .output()?;
                    if !output.exit.success() {
                        return Err(output.stderr.text().into());
                    }
                    let took = start.elapsed();
                    fs::remove_dir_all(made_in.join(format!("inside-{built}")))?;
                    Ok(took)
                };
                let confined_with = |level| build_in(&sandbox, &project, level);
                let mut built = 0;
                let mut plain = || {
                    built += 1;
                    let start = Instant::now();
                    let output = Command::new(sysroot.join("bin/cargo"))
                        .args([
                            "build",
                            "--quiet",
                            "--target-dir",
                            &format!("plain-{built}"),
                        ])
                        .current_dir(&project)
                        .env_clear()
                        .env("PATH", &path)
                        .env("HOME", &home)
                        .env("CARGO_NET_OFFLINE", "true")
                        .stdin(process::Stdio::null())
                        .output()?;
                    if !output.status.success() {
                        return Err(String::from_utf8_lossy(&output.stderr).into());
                    }
                    let took = start.elapsed();
                    fs::remove_dir_all(project.join(format!("plain-{built}")))?;
                    Ok(took)
                };
                let mut confined = || confined_with(ReportLevel::Refused);
                let mut silent = || confined_with(ReportLevel::Off);
                let full = || confined_with(ReportLevel::Full);
                if let (Layer::Both, Ok(of_overlay)) = (layer, &of_overlay) {
                    let sandbox = Sandbox::open(of_overlay.clone(), Directories::user());
                    let inside = || build_in(&sandbox, &upper, ReportLevel::Off);
                    let (name, target) = OVERLAY_BUILD;
                    let outcome = ratio(BUILD_ROUNDS, inside, &mut silent, target)?;
                    let outcome = beside(outcome, "it without an overlay", Some(target));
                    measures.push(Measure { name, outcome });
                }
                let traced = ratio(BUILD_ROUNDS, full, &mut silent, 2.0)?;
                measures.push(Measure {
                    name: full_row,
                    outcome: beside(traced, WITHOUT_REPORTS, Some(2.0)),
                });
                let reported = ratio(BUILD_ROUNDS, &mut confined, &mut silent, 1.05)?;
                measures.push(Measure {
                    name: reported_row,
                    outcome: beside(reported, WITHOUT_REPORTS, Some(1.05)),
                });
                ratio(BUILD_ROUNDS, &mut confined, &mut plain, 1.05)?
            }
        };
        measures.push(Measure { name: row, outcome });
    }
    Ok(measures)
}

/// Detection in a process that asks for the first time.
fn detection() -> Result<Vec<Measure>, Box<dyn Error>> {
    let ask = |operation: &str| {
        let output = Command::new(std::env::current_exe()?)
            .args([FLAG, operation])
            .output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        nanoseconds(&printed, &String::from_utf8_lossy(&output.stderr))
    };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[1].push(ask("detect-anew")?);
        times[0].push(ask("detect")?);
    }
    let [ours, other] = times.map(median);
    Ok(vec![Measure {
        name: "detection, remembered",
        outcome: Outcome::Ratio {
            ours,
            other,
            other_name: "detection by trying",
            target: None,
        },
    }])
}

/// Turns taken, so that whatever else the machine does falls on both.
fn ratio(
    rounds: usize,
    mut confined: impl FnMut() -> Result<Duration, Box<dyn Error>>,
    mut plain: impl FnMut() -> Result<Duration, Box<dyn Error>>,
    target: f64,
) -> Result<Outcome, Box<dyn Error>> {
    let mut times = [Vec::new(), Vec::new()];
    // The first round warms caches and is thrown away.
    for round in 0..=rounds {
        let (ours, other) = if round.is_multiple_of(2) {
            let ours = confined()?;
            (ours, plain()?)
        } else {
            let other = plain()?;
            (confined()?, other)
        };
        if round > 0 {
            times[0].push(ours);
            times[1].push(other);
        }
    }
    let [ours, other] = times.map(median);
    Ok(Outcome::Ratio {
        ours,
        other,
        other_name: "the same without a sandbox",
        target: Some(target),
    })
}

fn nanoseconds(printed: &str, errors: &str) -> Result<Duration, Box<dyn Error>> {
    let number = printed.trim().parse();
    Ok(Duration::from_nanos(number.map_err(|_| {
        format!("no time was printed: {printed:?} {errors:?}")
    })?))
}

/// No limits that the other side does not have.
fn unlimited() -> Limits {
    Limits {
        memory_bytes: None,
        processes: None,
        ..Limits::default()
    }
}

fn plan(support: &Support, policy: &Policy, layer: Layer) -> Result<Plan, String> {
    let (support, backend, requirement) = match layer {
        Layer::Landlock => (support.clone(), Backend::Landlock, Requirement::Enforce),
        Layer::Both => (support.clone(), Backend::Namespaces, Requirement::Enforce),
        // Without Landlock a mount cannot be kept from execution, which is measured all the same.
        Layer::NamespacesAlone => (
            support.clone().with_landlock_at_most(0),
            Backend::Namespaces,
            Requirement::BestEffort,
        ),
    };
    Plan::with_mechanism(policy, &support, requirement, backend).map_err(|error| error.to_string())
}
