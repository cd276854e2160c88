//! Starting a program under each mechanism, beside starting it plainly and beside bwrap alone.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::{self, Command};
use std::time::Instant;

use os_sandbox::{
    Backend, Directories, Exit, Limits, Plan, Policy, Requirement, Sandbox, Stdio, Support,
    Survivors, System,
};

use crate::compare::{Measure, Outcome, Work, median, medians};

const ROUNDS: usize = 40;
const BATCH: u32 = 10;

/// What a broker may well have touched: page tables that a fork would have to copy.
const BROKER_BYTES: usize = 64 << 20;

const PROGRAM: &str = "/usr/bin/true";

const ALONE: &str = "spawn, landlock + seccomp, no init";
const LANDLOCK: &str = "spawn, landlock + seccomp + init";
const TREE: &str = "the same with limits of the tree";
const NAMESPACES: &str = "spawn, namespaces + landlock + seccomp";
const BUBBLEWRAP: &str = "spawn, bubblewrap + landlock + seccomp";

/// Commands at once, when memory is looked at.
const CHILDREN: usize = 50;
const MEMORY: [(&str, Backend); 3] = [
    ("memory, landlock", Backend::Landlock),
    ("memory, namespaces", Backend::Namespaces),
    ("memory, bubblewrap", Backend::Bubblewrap),
];

/// Rounds of a self-test.
const PROVEN: usize = 9;
const PROOFS: [(&str, Backend); 3] = [
    ("self-test, landlock", Backend::Landlock),
    ("self-test, namespaces", Backend::Namespaces),
    ("self-test, bubblewrap", Backend::Bubblewrap),
];

/// What os-sandbox asks of bwrap: the namespaces, /proc with its covers, private places. Written
/// by hand, so that the comparison is with bwrap and not with ourselves.
const BARE_BEFORE: &str = "--unshare-user --unshare-pid --unshare-ipc --unshare-uts \
    --unshare-cgroup-try --unshare-net --die-with-parent --as-pid-1 --clearenv --cap-drop ALL \
    --hostname sandbox --chdir / --proc /proc";
const BARE_AFTER: &str = "--dev /dev --perms 1777 --tmpfs /dev/shm --perms 1777 --tmpfs /tmp \
    --perms 0700 --tmpfs /home/sandbox --dir /work";

/// Directories of the host, or links as they are there.
const SHOWN: [&str; 9] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/srv", "/var/lib",
];
const READ_ONLY: [&str; 7] = [
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/acpi",
    "/proc/scsi",
];
const MASKED: [&str; 5] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/kallsyms",
];

pub(crate) fn measures() -> Result<Vec<Measure>, Box<dyn Error>> {
    let broker = vec![1u8; BROKER_BYTES];
    let support = Support::detect();
    let mut measures = vec![
        landlock(&support, ALONE, Survivors::Left, &each(), Some(1.5))?,
        landlock(&support, LANDLOCK, Survivors::Ended, &each(), Some(2.2))?,
        landlock(&support, TREE, Survivors::Ended, &Limits::default(), None)?,
        beside_bwrap(&support, NAMESPACES, Backend::Namespaces, 0.6)?,
        beside_bwrap(&support, BUBBLEWRAP, Backend::Bubblewrap, 1.2)?,
    ];
    for (name, backend) in MEMORY {
        measures.push(memory(&support, name, backend)?);
    }
    for (name, backend) in PROOFS {
        measures.push(proof(&support, name, backend)?);
    }
    black_box(&broker);
    Ok(measures)
}

/// What the broker has more in its memory while many commands run, for each of them. The most it
/// had at any time would be what reading libraries and detection took.
fn memory(
    support: &Support,
    name: &'static str,
    backend: Backend,
) -> Result<Measure, Box<dyn Error>> {
    let outcome = match plan(support, backend, Survivors::Ended, &Limits::default()) {
        Err(why) => Outcome::NotHere(why),
        Ok(sandbox) => {
            let sleep = || {
                os_sandbox::Command::new(&sandbox, "/usr/bin/sleep")
                    .arg("60")
                    .spawn()
            };
            // What is made once is there before.
            drop(sleep()?);
            let before = resident().ok_or("no /proc/self/status")?;
            let mut most = before;
            let mut children = Vec::new();
            for _ in 0..CHILDREN {
                children.push(sleep()?);
                most = most.max(resident().unwrap_or_default());
            }
            drop(children);
            Outcome::Amount {
                got: (most - before) as f64 / 1024.0 / CHILDREN as f64,
                unit: "MB",
                of: "resident in the broker for each of 50 commands at once",
                target: 1.0,
            }
        }
    };
    Ok(Measure { name, outcome })
}

/// Anonymous memory of this process, in KiB.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

fn proof(
    support: &Support,
    name: &'static str,
    backend: Backend,
) -> Result<Measure, Box<dyn Error>> {
    let outcome = match plan(support, backend, Survivors::Ended, &Limits::default()) {
        Err(why) => Outcome::NotHere(why),
        Ok(sandbox) => {
            let mut times = Vec::new();
            for _ in 0..PROVEN {
                let start = Instant::now();
                if !sandbox.prove()?.holds() {
                    return Err("the self-test failed".into());
                }
                times.push(start.elapsed());
            }
            Outcome::Amount {
                got: median(times).as_secs_f64() * 1e3,
                unit: "ms",
                of: "the whole self-test",
                target: 150.0,
            }
        }
    };
    Ok(Measure { name, outcome })
}

fn landlock(
    support: &Support,
    name: &'static str,
    survivors: Survivors,
    limits: &Limits,
    target: Option<f64>,
) -> Result<Measure, Box<dyn Error>> {
    let outcome = match plan(support, Backend::Landlock, survivors, limits) {
        Err(why) => Outcome::NotHere(why),
        Ok(sandbox) => {
            let [ours, other] = medians(ROUNDS, BATCH, [confined(&sandbox), plain(PROGRAM, &[])])?;
            Outcome::Ratio {
                ours,
                other,
                other_name: "std::process::Command",
                target,
            }
        }
    };
    Ok(Measure { name, outcome })
}

fn beside_bwrap(
    support: &Support,
    name: &'static str,
    backend: Backend,
    target: f64,
) -> Result<Measure, Box<dyn Error>> {
    let plan = plan(support, backend, Survivors::Ended, &each());
    let outcome = match (plan, support.bubblewrap()) {
        (Err(why), _) => Outcome::NotHere(why),
        (Ok(_), None) => Outcome::NotHere("no bwrap".to_owned()),
        (Ok(sandbox), Some(bwrap)) => {
            let program = bwrap.path().to_string_lossy().into_owned();
            let arguments = bare_arguments(&[]);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let [ours, other] = medians(
                ROUNDS,
                BATCH,
                [confined(&sandbox), plain(&program, &arguments)],
            )?;
            Outcome::Ratio {
                ours,
                other,
                other_name: "bwrap, same namespaces and mounts",
                target: Some(target),
            }
        }
    };
    Ok(Measure { name, outcome })
}

/// The arguments of a bubblewrap by hand, with `more` before its root becomes read-only.
pub(crate) fn bare_arguments(more: &[&str]) -> Vec<String> {
    let mut arguments: Vec<String> = BARE_BEFORE.split_whitespace().map(str::to_owned).collect();
    let mut show = |words: [&str; 3]| arguments.extend(words.map(str::to_owned));
    for path in SHOWN.iter().filter(|path| Path::new(path).exists()) {
        match std::fs::read_link(path) {
            Ok(to) => show(["--symlink", &to.to_string_lossy(), path]),
            Err(_) => show(["--ro-bind", path, path]),
        }
    }
    for path in READ_ONLY.iter().filter(|path| Path::new(path).exists()) {
        show(["--ro-bind", path, path]);
    }
    for path in MASKED.iter().filter(|path| Path::new(path).exists()) {
        show(["--ro-bind", "/dev/null", path]);
    }
    arguments.extend(
        BARE_AFTER
            .split_whitespace()
            .chain(more.iter().copied())
            .chain(["--remount-ro", "/", "--", PROGRAM])
            .map(str::to_owned),
    );
    arguments
}

/// Limits of each process; those of the whole tree take a control group, which bwrap does not make
/// and which has a row of its own.
fn each() -> Limits {
    Limits {
        memory_bytes: None,
        processes: None,
        ..Limits::default()
    }
}

fn plan(
    support: &Support,
    backend: Backend,
    survivors: Survivors,
    limits: &Limits,
) -> Result<Sandbox, String> {
    // Few and large mounts, which the comparison with bwrap has as well.
    let policy = Policy::builder()
        .system(System::BroadRead)
        .survivors(survivors)
        .limits(limits.clone())
        .build()
        .map_err(|error| error.to_string())?;
    Plan::with_mechanism(&policy, support, Requirement::Enforce, backend)
        .map(|plan| Sandbox::open(plan, Directories::user()))
        .map_err(|error| error.to_string())
}

fn confined(sandbox: &Sandbox) -> Work<'_> {
    Box::new(|| {
        let mut child = os_sandbox::Command::new(sandbox, PROGRAM)
            .stdout(Stdio::Null)
            .stderr(Stdio::Null)
            .spawn()?;
        match child.wait()? {
            Exit::Code(0) => Ok(()),
            other => Err(format!("{PROGRAM} ended with {other:?}").into()),
        }
    })
}

fn plain<'a>(program: &'a str, arguments: &'a [&'a str]) -> Work<'a> {
    Box::new(move || {
        let status = Command::new(program)
            .args(arguments)
            .stdin(process::Stdio::null())
            .stdout(process::Stdio::null())
            .stderr(process::Stdio::null())
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{program}: {status}").into())
        }
    })
}
