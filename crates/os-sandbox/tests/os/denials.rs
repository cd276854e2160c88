//! Reports of refused attempts: each row is a shell line and exactly what is reported about it.

use crate::fixture::{Mechanism, World};
use crate::outcome::{ensure, say};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use os_sandbox::{Command, Denial, Exit, ReportLevel, Sandbox};
use std::time::Duration;

type Done = Result<(), String>;

/// The mechanisms under which a row is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    All,
    /// Only a mount layer enforces it.
    MountLayer,
    /// Landlock controls it for uid 0 only.
    MountLayerOrRoot,
    /// A mount layer shows another file there.
    Landlock,
}

/// Name, shell line, and reports; `{rw}` and `{ro}` are paths as the command has them.
const LINES: [(&str, &str, &[&str], Under); 27] = [
    (
        "outside",
        "echo x > /etc/hosts",
        &["write /etc/hosts (outside)"],
        Under::All,
    ),
    (
        "made outside",
        "mkdir /usr/new",
        &["create /usr/new (outside)"],
        Under::All,
    ),
    (
        "removed outside",
        "rm -f /etc/passwd",
        &["remove /etc/passwd (outside)"],
        Under::All,
    ),
    (
        "read-only",
        "echo x > {ro}/file",
        &["write /ro/file (/ro is read-only)"],
        Under::All,
    ),
    (
        "appended",
        "echo x >> {ro}/file",
        &["write /ro/file (/ro is read-only)"],
        Under::All,
    ),
    (
        "truncated",
        "truncate -s 0 {ro}/file",
        &["write /ro/file (/ro is read-only)"],
        Under::All,
    ),
    (
        "made",
        "touch {ro}/new",
        &["create /ro/new (/ro is read-only)"],
        Under::All,
    ),
    (
        "a directory",
        "mkdir {ro}/new",
        &["create /ro/new (/ro is read-only)"],
        Under::All,
    ),
    (
        "a link",
        "ln -s a {ro}/new",
        &["create /ro/new (/ro is read-only)"],
        Under::All,
    ),
    (
        "another name",
        "ln {ro}/file {ro}/new",
        &["create /ro/new (/ro is read-only)"],
        Under::All,
    ),
    (
        "a FIFO",
        "mkfifo {ro}/new",
        &["create /ro/new (/ro is read-only)"],
        Under::All,
    ),
    (
        "removed",
        "rm -f {ro}/file",
        &["remove /ro/file (/ro is read-only)"],
        Under::All,
    ),
    (
        "moved within",
        "mv {ro}/file {ro}/new",
        &[
            "move /ro/file (/ro is read-only)",
            "move /ro/new (/ro is read-only)",
        ],
        Under::All,
    ),
    (
        "from a directory",
        "cd {ro} && touch ./../ro/new",
        &["create /ro/new (/ro is read-only)"],
        Under::All,
    ),
    (
        "once",
        "for i in 1 2 3; do echo x > {ro}/file; done",
        &["write /ro/file (/ro is read-only)"],
        Under::All,
    ),
    (
        "a name with a line end",
        "mkdir '{ro}/a\nrefused: b'",
        &["create /ro/a\\nrefused: b (/ro is read-only)"],
        Under::All,
    ),
    (
        "a mode",
        "chmod 600 {ro}/file",
        &["change the mode of /ro/file (/ro is read-only)"],
        Under::MountLayerOrRoot,
    ),
    (
        "below a protected name",
        "touch {rw}/pinned/new",
        &["create /rw/pinned/new (protected name pinned)"],
        Under::MountLayer,
    ),
    (
        "a protected name",
        "mv {rw}/pinned {rw}/other",
        &["move /rw/pinned (protected name pinned)"],
        Under::MountLayer,
    ),
    (
        "through a link",
        "echo x > {rw}/link",
        &["write {outside}/file (outside)"],
        Under::Landlock,
    ),
    (
        "what works",
        "cd {rw} && touch a && mv a b && chmod 600 b && rm b && mkdir -p c/d",
        &[],
        Under::All,
    ),
    (
        "files without a name",
        "for d in {rw} \"$TMPDIR\"; do python3 -c 'import os, sys; os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR)' \"$d\" || mkdir /usr/new; done",
        &[],
        Under::All,
    ),
    (
        "a file without a name, read-only",
        "python3 -c 'import os, sys; os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR)' {ro}",
        &["write /ro (/ro is read-only)"],
        Under::All,
    ),
    (
        "devices and streams",
        "echo x > /dev/null; echo x > /dev/stderr; echo x > /dev/fd/1",
        &[],
        Under::All,
    ),
    (
        "private places",
        "touch \"$TMPDIR/a\" \"$HOME/a\" && rm \"$HOME/a\"",
        &[],
        Under::All,
    ),
    (
        "what exists",
        "mkdir -p {ro}; mkdir {ro} 2>/dev/null; cat {ro}/file",
        &[],
        Under::All,
    ),
    (
        "what is missing",
        "rm -f {ro}/none {rw}/none; touch {ro}/none/new; mv {rw}/none {rw}/x",
        &[],
        Under::All,
    ),
];

pub(crate) fn all(mechanism: Mechanism, report: &mut crate::report::Report) {
    for (name, line, wanted, under) in LINES {
        let world = World::new(mechanism);
        let holds = match under {
            Under::All => true,
            Under::MountLayer => mechanism.has_mount_layer(),
            Under::MountLayerOrRoot => mechanism.has_mount_layer() || geteuid().is_root(),
            Under::Landlock => !mechanism.has_mount_layer(),
        };
        let wanted = if holds { wanted } else { &[] };
        let outcome = reported(&world, line, wanted);
        report.case(&format!("denials: {name}"), outcome);
    }
    let world = World::new(mechanism);
    report.case("denials: sockets", sockets(&world));
    report.case("denials: bound", bound(&world));
    report.case("denials: off", off(&world));
    report.case("denials: the program", program(&world));
    report.case("denials: a silent listener", silent(&world));
    let outcome = limits(&world, report);
    report.case("denials: limits of the supervisor", outcome);
}

fn denials(world: &World, plan: &Sandbox, line: &str) -> Result<Vec<Denial>, String> {
    let output = world.sh(plan, line).map_err(say)?;
    Ok(output.enforcement.denials)
}

fn reported(world: &World, line: &str, wanted: &[&str]) -> Done {
    let found = denials(world, &world.plan(), line)?;
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    let outside = world.host("outside").display().to_string();
    let wanted: Vec<String> = wanted
        .iter()
        .map(|line| line.replace("{outside}", &outside))
        .collect();
    ensure(found == wanted, || format!("{found:?} and not {wanted:?}"))
}

/// With a network namespace a socket can be made, and the connect is refused; without one the socket
/// is.
fn sockets(world: &World) -> Done {
    let plan = world.plan();
    let command = Command::new(&plan, "/probe").args(["--probe", "each"]);
    let command = command.args(["reach 192.0.2.1:80", "reach 127.0.0.1:9", "unix /nowhere"]);
    let output = command.output().map_err(say)?;
    let found = output.enforcement.denials.iter().map(ToString::to_string);
    let found: Vec<String> = found.collect();
    let wanted: &[&str] = match world.mechanism.moves() {
        true => &[
            "connect 192.0.2.1:80 (the network is off)",
            "make a local socket (local sockets are closed)",
        ],
        false => &[
            "make an IPv4 socket (the network is off)",
            "make a local socket (local sockets are closed)",
        ],
    };
    ensure(found == wanted, || {
        format!("{found:?}, {}", output.stdout.text())
    })
}

/// The bound is told, and more attempts than that neither block the command nor change what it gets.
fn bound(world: &World) -> Done {
    let line =
        "i=0; while [ $i -lt 2000 ]; do mkdir {ro}/$i 2>/dev/null && exit 3; i=$((i+1)); done";
    let output = world.sh(&world.plan(), line).map_err(say)?;
    ensure(output.exit == Exit::Code(0), || {
        format!("{:?}", output.exit)
    })?;
    let receipt = output.enforcement;
    let listed = receipt.denials.len();
    ensure(
        receipt.more_denials && listed > 200 && listed < 2000,
        || format!("{listed} are listed, more: {}", receipt.more_denials),
    )
}

fn off(world: &World) -> Done {
    let plan = world.plan();
    let line = world.fill("echo x > {ro}/file");
    let command = Command::new(&plan, "sh").args(["-c", &line]);
    let output = command.reports(ReportLevel::Off).output().map_err(say)?;
    ensure(output.exit == Exit::Code(2), || {
        format!("{:?}", output.exit)
    })?;
    let found = output.enforcement.denials;
    ensure(found.is_empty(), || format!("{found:?}"))
}

/// A stopped listener keeps a call of the command waiting, and neither the time limit nor the end of
/// the tree.
fn silent(world: &World) -> Done {
    let before = children()?;
    let plan = world.plan();
    let line = world.fill("sleep 1; (sleep 600; :) & echo x > {rw}/late; echo done");
    let command = Command::new(&plan, "sh").args(["-c", &line]);
    let mut child = command
        .timeout(Duration::from_secs(4))
        .spawn()
        .map_err(say)?;
    let listeners: Vec<Pid> = children()?
        .into_iter()
        .filter(|pid| !before.contains(pid))
        .collect();
    ensure(listeners.len() == 1, || format!("{listeners:?} are new"))?;
    kill(listeners[0], Signal::SIGSTOP).map_err(say)?;
    let exit = child.wait().map_err(say)?;
    ensure(exit == Exit::TimedOut, || format!("{exit:?}"))?;
    let left = children()?.into_iter().any(|pid| !before.contains(&pid));
    ensure(!left && !world.host("rw/late").exists(), || {
        "something is left".to_owned()
    })
}

/// The processes that this one started.
fn children() -> Result<Vec<Pid>, String> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").map_err(say)? {
        let list = task.map_err(say)?.path().join("children");
        let list = std::fs::read_to_string(list).map_err(say)?;
        let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
        found.extend(pids.map(Pid::from_raw));
    }
    Ok(found)
}

/// A command that takes the descriptors of its supervisor would never end.
fn limits(world: &World, report: &mut crate::report::Report) -> Done {
    let line = "command -v prlimit >/dev/null || exit 5; prlimit --pid 1 --nofile=0:0 2>/dev/null; \
                chrt --idle --pid 0 1 2>/dev/null; touch {rw}/made";
    let output = world.sh(&world.plan(), line).map_err(say)?;
    if output.exit == Exit::Code(5) {
        report.not_posed("denials: prlimit", "not installed");
        return Ok(());
    }
    ensure(output.exit == Exit::Code(0), || {
        format!("{:?}", output.exit)
    })
}

fn program(world: &World) -> Done {
    let found = denials(world, &world.plan(), "mkdir {ro}/new")?;
    let names: Vec<&str> = found.iter().map(|one| one.program.as_str()).collect();
    ensure(names == ["mkdir"], || format!("{names:?}"))
}
