//! Each limit, seen from outside: the same command with it and without it. Those of the whole tree
//! once kept by control groups, where some can be made, and once by the supervisor's looks.

use crate::fixture::{Mechanism, World, said};
use crate::outcome::{ensure, say};
use crate::report::Report;
use os_sandbox::{
    Command, Enforcer as By, Exceeded, Exit, Limits, Output, Promise, Sandbox, Stdio, Support,
};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A watchdog, not a measure.
const WITHIN: Duration = Duration::from_secs(600);

type Done = Result<(), String>;

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    let world = World::new(mechanism);
    report.case("limit: time", time(&world));
    report.case("limit: processor time", processor(&world));
    report.case("limit: size of a file", file_size(&world));
    report.case("limit: open files", open_files(&world));
    report.case("limit: output", output(&world));
    let host = Support::detect();
    let mut hosts = vec![("looks", host.clone().without_cgroups())];
    if host.memory_cgroup() || host.process_cgroup() {
        hosts.push(("groups", host.clone()));
    }
    for (name, host) in &hosts {
        report.case(&format!("limit: memory, {name}"), memory(&world, host));
        report.case(
            &format!("limit: memory of one, {name}"),
            memory_of_one(&world, host),
        );
        report.case(
            &format!("limit: processes, {name}"),
            processes(&world, host),
        );
        report.case(
            &format!("limit: a fork bomb, {name}"),
            bomb(&world, *name == "looks"),
        );
        report.case(&format!("limit: many at once, {name}"), many(&world, host));
    }
    report.case("limit: more than the machine has", machine(&world));
    if host.memory_cgroup() || host.process_cgroup() {
        report.case("limit: a killed broker's group", orphan(mechanism));
        report.case("limit: no group is left", no_group_is_left());
    }
}

fn plan(world: &World, host: &Support, limits: Limits) -> Result<Sandbox, String> {
    let policy = world.policy().limits(limits).build().map_err(say)?;
    Ok(world.mechanism.plan_on(&policy, host.clone()))
}

fn here(world: &World, limits: Limits) -> Result<Sandbox, String> {
    plan(world, &Support::detect(), limits)
}

fn probe(plan: &Sandbox, op: &[&str]) -> Result<Output, String> {
    Command::new(plan, "/probe")
        .arg("--probe")
        .args(op.iter().copied())
        .timeout(WITHIN)
        .output()
        .map_err(say)
}

fn is(output: &Output, exit: Exit, text: &str, exceeded: Option<Exceeded>) -> Done {
    let same =
        output.exit == exit && output.stdout.text().trim() == text && output.exceeded == exceeded;
    ensure(same, || format!("{output:?}"))
}

fn time(world: &World) -> Done {
    let run = |wall| {
        let limits = Limits {
            wall,
            ..Limits::default()
        };
        world
            .sh(&here(world, limits)?, "sleep 1; echo done")
            .map_err(say)
    };
    let short = Duration::from_millis(50);
    is(
        &run(Some(short))?,
        Exit::TimedOut,
        "",
        Some(Exceeded::Wall(short)),
    )?;
    is(&run(None)?, Exit::Code(0), "done", None)
}

fn processor(world: &World) -> Done {
    let run = |cpu, wall| {
        let limits = Limits {
            cpu,
            wall: Some(wall),
            ..Limits::default()
        };
        world
            .sh(&here(world, limits)?, "while :; do :; done")
            .map_err(say)
    };
    let second = Duration::from_secs(1);
    let limited = run(Some(second), WITHIN)?;
    is(&limited, Exit::Signal(24), "", Some(Exceeded::Cpu(second)))?;
    let wall = Exceeded::Wall(second * 2);
    is(&run(None, second * 2)?, Exit::TimedOut, "", Some(wall))
}

fn file_size(world: &World) -> Done {
    let run = |file_bytes| {
        let limits = Limits {
            file_bytes,
            ..Limits::default()
        };
        let script = "exec head -c 100000 /dev/zero > {rw}/big";
        let output = world.sh(&here(world, limits)?, script).map_err(say)?;
        let size = std::fs::metadata(world.host("rw").join("big")).map_err(say)?;
        Ok::<_, String>((output, size.len()))
    };
    let (output, size) = run(Some(4096))?;
    is(
        &output,
        Exit::Signal(25),
        "",
        Some(Exceeded::FileSize(4096)),
    )?;
    ensure(size == 4096, || format!("{size} bytes"))?;
    let (output, size) = run(None)?;
    is(&output, Exit::Code(0), "", None)?;
    ensure(size == 100_000, || format!("{size} bytes"))
}

fn open_files(world: &World) -> Done {
    let run = |open_files| {
        let limits = Limits {
            open_files,
            ..Limits::default()
        };
        probe(&here(world, limits)?, &["files", "100"])
    };
    // Three of the 32 are its streams.
    is(&run(Some(32))?, Exit::Code(0), "ok 29", None)?;
    is(&run(Some(200))?, Exit::Code(0), "ok 100", None)
}

fn output(world: &World) -> Done {
    let run = |bytes| {
        let limits = Limits {
            stdout_bytes: bytes,
            stderr_bytes: bytes,
            ..Limits::default()
        };
        let script = "head -c 5000 /dev/zero; head -c 5000 /dev/zero >&2";
        world.sh(&here(world, limits)?, script).map_err(say)
    };
    for (limit, kept) in [(1000, 1000), (5000, 5000)] {
        let output = run(limit)?;
        for stream in [&output.stdout, &output.stderr] {
            ensure(
                stream.bytes().len() == kept
                    && stream.total_bytes() == 5000
                    && stream.truncated() == (kept < 5000),
                || format!("{} of {}", stream.bytes().len(), stream.total_bytes()),
            )?;
        }
    }
    Ok(())
}

/// Who keeps a promise of this plan.
fn keeps(plan: &Sandbox, promise: Promise, by: By) -> bool {
    plan.plan()
        .entries()
        .iter()
        .any(|entry| entry.promise == promise && entry.by.contains(&by))
}

/// Six processes of 40 MiB: none of them alone is over the limit.
fn memory(world: &World, host: &Support) -> Done {
    let limited = |bytes| {
        let limits = Limits {
            memory_bytes: bytes,
            ..Limits::default()
        };
        plan(world, host, limits)
    };
    let limit = 128 << 20;
    let over = Some(Exceeded::Memory(limit));
    let small = limited(Some(limit))?;
    if keeps(&small, Promise::MemoryLimit, By::Cgroup) {
        let output = probe(&small, &["hogs", "6", "40", "leave"])?;
        let text = output.stdout.text();
        let full: usize = text.trim().trim_start_matches("ok ").parse().unwrap_or(6);
        ensure(full < 4 && output.exceeded == over, || {
            format!("{output:?}")
        })?;
        // The next command of the plan may have the same group, and hit nothing.
        is(
            &probe(&small, &["hogs", "1", "40", "leave"])?,
            Exit::Code(0),
            "ok 1",
            None,
        )?;
    } else {
        is(
            &probe(&small, &["hogs", "6", "40", "stay"])?,
            Exit::Signal(9),
            "",
            over,
        )?;
    }
    nobody_left("hog")?;
    if world.mechanism.has_mount_layer() {
        // HOME and TMPDIR are memory there.
        for place in ["$HOME", "$TMPDIR", "/dev/shm"] {
            let fill = format!("head -c 300000000 /dev/zero > {place}/x || exit 9; exec sleep 60");
            let output = world.sh(&small, &fill).map_err(say)?;
            ensure(output.exceeded == over, || format!("{place}: {output:?}"))?;
        }
    }
    for enough in [Some(1 << 30), None] {
        let output = probe(&limited(enough)?, &["hogs", "6", "40", "leave"])?;
        is(&output, Exit::Code(0), "ok 6", None)?;
    }
    Ok(())
}

/// A single process, which may reserve what it likes: only what it uses counts.
fn memory_of_one(world: &World, host: &Support) -> Done {
    let limit = 64 << 20;
    let limits = Limits {
        memory_bytes: Some(limit),
        ..Limits::default()
    };
    let plan = plan(world, host, limits)?;
    is(
        &probe(&plan, &["reserve", "1024"])?,
        Exit::Code(0),
        "ok",
        None,
    )?;
    let then = match keeps(&plan, Promise::MemoryLimit, By::Cgroup) {
        true => "leave",
        false => "stay",
    };
    let output = probe(&plan, &["hogs", "1", "100", then])?;
    ensure(
        output.exceeded == Some(Exceeded::Memory(limit)) && output.stdout.text() != "ok 1\n",
        || format!("{output:?}"),
    )
}

fn processes(world: &World, host: &Support) -> Done {
    let limited = |processes| {
        let limits = Limits {
            processes,
            ..Limits::default()
        };
        plan(world, host, limits)
    };
    let few = limited(Some(20))?;
    let over = Some(Exceeded::Processes(20));
    if keeps(&few, Promise::ProcessLimit, By::Cgroup) {
        // The probe itself is the twentieth.
        is(
            &probe(&few, &["children", "60", "leave"])?,
            Exit::Code(0),
            "ok 19",
            over,
        )?;
        is(
            &probe(&few, &["children", "5", "leave"])?,
            Exit::Code(0),
            "ok 5",
            None,
        )?;
    } else if keeps(&few, Promise::ProcessLimit, By::Rlimits) {
        let output = probe(&few, &["children", "60", "leave"])?;
        let text = output.stdout.text();
        let count: usize = text.trim().trim_start_matches("ok ").parse().unwrap_or(60);
        ensure(count < 20, || format!("{output:?}"))?;
    } else {
        is(
            &probe(&few, &["children", "60", "stay"])?,
            Exit::Signal(9),
            "",
            over,
        )?;
    }
    nobody_left("spin")?;
    for enough in [Some(200), None] {
        let output = probe(&limited(enough)?, &["children", "60", "leave"])?;
        is(&output, Exit::Code(0), "ok 60", None)?;
    }
    Ok(())
}

/// It doubles until it cannot. Whatever becomes of it, nothing is left. Started by a broker of its
/// own, which is held itself, so that a failure here is not the end of the machine.
fn bomb(world: &World, looks: bool) -> Done {
    let guard = guard()?;
    let join = guard.as_ref().map_or("true".to_owned(), |guard| {
        format!("echo $$ > '{}/cgroup.procs'", guard.display())
    });
    // Shells disagree about the letter.
    let hold = "test $(id -u) = 0 || ulimit -u 4000 2>/dev/null || ulimit -p 4000";
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("{hold}; {join}; exec \"$0\" \"$@\"")])
        .arg(crate::fixture::probe_program())
        .args(["--bomber", world.mechanism.name()])
        .args([if looks { "looks" } else { "groups" }, &marker(world)])
        .output()
        .map_err(say)?;
    let left = nobody_left(&marker(world));
    if let Some(guard) = guard {
        remove(&guard)?;
    }
    left?;
    ensure(output.stdout == b"well\n", || format!("{output:?}"))
}

/// A control group for the broker that starts a bomb, where one can be made.
fn guard() -> Result<Option<PathBuf>, String> {
    let table = Support::detect().to_string();
    let parent = table.lines().find_map(|line| {
        let (_, path) = line.strip_prefix("processes")?.split_once(", in ")?;
        Some(PathBuf::from(path))
    });
    let Some(parent) = parent else {
        return Ok(None);
    };
    let guard = parent.join(format!("guard-of-tests-{}", std::process::id()));
    std::fs::create_dir(&guard).map_err(say)?;
    std::fs::write(guard.join("pids.max"), "4000").map_err(say)?;
    Ok(Some(guard))
}

/// Removes a control group. Until init has reaped the last orphan of the bomb, the group is busy.
fn remove(group: &Path) -> Done {
    let begun = Instant::now();
    loop {
        match std::fs::remove_dir(group) {
            Err(error)
                if error.kind() == std::io::ErrorKind::ResourceBusy && begun.elapsed() < WITHIN =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            removed => return removed.map_err(say),
        }
    }
}

/// The broker itself.
pub(crate) fn bomber(args: &[String]) -> ExitCode {
    let [name, how, marker] = args else {
        return ExitCode::FAILURE;
    };
    let mechanism = crate::fixture::mechanisms()
        .into_iter()
        .find(|one| one.name() == name)
        .expect("a mechanism of this host");
    let host = match how.as_str() {
        "looks" => Support::detect().without_cgroups(),
        _ => Support::detect(),
    };
    match bombed(&World::new(mechanism), &host, marker) {
        Ok(()) => println!("well"),
        Err(seen) => println!("{seen}"),
    }
    ExitCode::SUCCESS
}

fn bombed(world: &World, host: &Support, marker: &str) -> Done {
    let limits = |wall| Limits {
        processes: Some(200),
        wall: Some(wall),
        ..Limits::default()
    };
    // Where nobody looks, only the clock ends it.
    let hasty = plan(world, host, limits(Duration::from_secs(2)))?;
    let plan = match keeps(&hasty, Promise::ProcessLimit, By::Launcher) {
        true => plan(world, host, limits(WITHIN))?,
        false => hasty,
    };
    let script = "bomb() { bomb | bomb & }; bomb; sleep 600";
    let mut child = Command::new(&plan, "sh")
        .args(["-c", script, marker])
        .stdout(Stdio::Null)
        .stderr(Stdio::Null)
        .spawn()
        .map_err(say)?;
    let exit = child.wait().map_err(say)?;
    ensure(!exit.success(), || format!("{exit:?}"))?;
    if keeps(&plan, Promise::ProcessLimit, By::Launcher) {
        let seen = child.exceeded();
        ensure(seen == Some(Exceeded::Processes(200)), || {
            format!("{exit:?} {seen:?}")
        })?;
    }
    nobody_left(marker)?;
    // The host is as well as before.
    let after = world.sh(&plan, "echo well").map_err(say)?;
    is(&after, Exit::Code(0), "well", None)
}

fn marker(world: &World) -> String {
    world.host("bomb").display().to_string()
}

/// Nobody below us has this word in its command line.
fn nobody_left(word: &str) -> Done {
    for entry in std::fs::read_dir("/proc").map_err(say)?.flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        if words.any(|one| one == word.as_bytes()) && below_us(&entry.path()) {
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            return Err(format!("left: {line}"));
        }
    }
    Ok(())
}

/// Whether a process descends from this one, or is an orphan: other tests may run beside.
fn below_us(process: &Path) -> bool {
    let pid = process
        .file_name()
        .and_then(|name| name.to_str()?.parse().ok());
    pid.is_some_and(|pid| {
        let above = ancestors(pid);
        above == [1] || above.contains(&std::process::id())
    })
}

fn ancestors(pid: u32) -> Vec<u32> {
    std::iter::successors(Some(pid), |pid| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        line.trim().parse().ok().filter(|pid| *pid > 0)
    })
    .skip(1)
    .take(64)
    .collect()
}

fn many(world: &World, host: &Support) -> Done {
    let limits = Limits {
        memory_bytes: Some(256 << 20),
        processes: Some(64),
        ..Limits::default()
    };
    let plan = plan(world, host, limits)?;
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..50)
            .map(|_| {
                scope.spawn(|| {
                    said(
                        Command::new(&plan, "sh")
                            .args(["-c", "true; echo ok"])
                            .output(),
                    )
                })
            })
            .collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .filter(|said| said != "ok")
            .collect()
    });
    ensure(failures.is_empty(), || failures.join("; "))
}

/// A limit that would never be reached is none: the plan says so.
fn machine(world: &World) -> Done {
    let limits = Limits {
        memory_bytes: Some(1 << 50),
        ..Limits::default()
    };
    let plan = here(world, limits)?;
    let reason = plan
        .plan()
        .entries()
        .iter()
        .find(|entry| entry.promise == Promise::MemoryLimit)
        .and_then(|entry| entry.reason.clone())
        .unwrap_or_default();
    ensure(reason.contains("less than was asked for"), || {
        reason.clone()
    })?;
    is(
        &world.sh(&plan, "echo well").map_err(say)?,
        Exit::Code(0),
        "well",
        None,
    )
}

/// The groups of this host that nobody uses any more: their lock can be had.
fn stale() -> BTreeSet<PathBuf> {
    groups()
        .into_iter()
        .filter(|path| File::open(path).is_ok_and(|file| file.try_lock().is_ok()))
        .collect()
}

fn groups() -> BTreeSet<PathBuf> {
    // The table of the host says where they are made.
    let table = Support::detect().to_string();
    table
        .lines()
        .filter_map(|line| line.split_once(", in /"))
        .filter_map(|(_, path)| std::fs::read_dir(format!("/{path}")).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("os-sandbox."))
        })
        .collect()
}

/// What a broker left that was killed while its command ran, the next broker removes. The tests that
/// run beside this one start brokers, too: then another try tells.
fn orphan(mechanism: Mechanism) -> Done {
    for _ in 0..20 {
        if let OrphanedGroup::Removed = try_orphan(mechanism)? {
            return Ok(());
        }
    }
    Err("somebody else was faster each time".to_owned())
}

/// The end of a killed broker's group.
enum OrphanedGroup {
    /// By the broker that was started for it.
    Removed,
    /// By another one, before that.
    RemovedByOther,
}

fn try_orphan(mechanism: Mechanism) -> Result<OrphanedGroup, String> {
    let world = World::new(mechanism);
    let before = groups();
    let me = crate::fixture::probe_program();
    let mut broker = std::process::Command::new(&me)
        .args(["--broker", mechanism.name(), "self+stay"])
        .arg(world.host("rw"))
        // What a killed broker leaves behind goes with this world.
        .env("TMPDIR", world.host("."))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .map_err(say)?;
    let mut line = String::new();
    if let Some(stdout) = broker.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(say)?;
    }
    let until = Instant::now() + WITHIN;
    let mine: BTreeSet<PathBuf> = groups()
        .difference(&before)
        .filter(|group| holds_descendant(group, broker.id()))
        .cloned()
        .collect();
    broker.kill().map_err(say)?;
    broker.wait().map_err(say)?;
    ensure(!mine.is_empty(), || {
        "the command was in no group".to_owned()
    })?;
    // Ended by its supervisor, which takes a moment.
    while mine.iter().any(|group| {
        !std::fs::read_to_string(group.join("cgroup.procs"))
            .unwrap_or_default()
            .is_empty()
    }) {
        ensure(Instant::now() < until, || "it runs on".to_owned())?;
        std::thread::sleep(Duration::from_millis(2));
    }
    let there: Vec<_> = mine.iter().filter(|group| group.exists()).collect();
    if there.is_empty() {
        return Ok(OrphanedGroup::RemovedByOther);
    }
    let next = std::process::Command::new(&me)
        .args(["--caller", mechanism.name()])
        .output()
        .map_err(say)?;
    ensure(next.status.success(), || format!("{next:?}"))?;
    let left: Vec<_> = mine.iter().filter(|group| group.exists()).collect();
    ensure(left.is_empty(), || format!("still there: {left:?}"))?;
    Ok(OrphanedGroup::Removed)
}

fn holds_descendant(group: &Path, ancestor: u32) -> bool {
    let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut pids = members.lines().filter_map(|pid| pid.parse().ok());
    pids.any(|pid| ancestors(pid).contains(&ancestor))
}

fn no_group_is_left() -> Done {
    // Another program may be about to lock one that it just made.
    let until = Instant::now() + WITHIN;
    let first = stale();
    loop {
        let left: Vec<_> = stale().intersection(&first).cloned().collect();
        if left.is_empty() {
            return Ok(());
        }
        ensure(Instant::now() < until, || format!("{left:?}"))?;
        std::thread::sleep(Duration::from_millis(20));
    }
}
