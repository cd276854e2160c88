//! Full reports: each row is a shell line and exactly the refused reads and executions that are
//! reported about it.

use crate::fixture::{Mechanism, World, set_mode};
use crate::outcome::{ensure, say};
use os_sandbox::{Command, Enforcement, Exit, ReportLevel, Sandbox};

type Done = Result<(), String>;

/// The mechanisms under which a row is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    All,
    MountLayer,
    Landlock,
    /// A mount layer alone does not control executions.
    WithLandlock,
}

/// Name, shell line, and reports; `{outside}` and the like are paths as the command has them, and
/// `{why}` is the reason for a path that no mount has.
const LINES: [(&str, &str, &[&str], Under); 16] = [
    (
        "outside",
        "cat {outside}/file",
        &["read {outside}/file ({why})"],
        Under::All,
    ),
    ("missing everywhere", "cat {outside}/none", &[], Under::All),
    (
        "missing with its directory",
        "cat {outside}/none/file",
        &[],
        Under::All,
    ),
    (
        "missing in a mount",
        "cat {ro}/none {rw}/none",
        &[],
        Under::All,
    ),
    (
        "missing in the system",
        "cat /usr/none /usr/none/none",
        &[],
        Under::All,
    ),
    (
        "a directory outside",
        "ls {outside}",
        &["read {outside} (outside)"],
        Under::Landlock,
    ),
    (
        "through a link",
        "cat {rw}/link",
        &["read {outside}/file ({why})"],
        Under::All,
    ),
    (
        "from a directory",
        "cd {rw} && cat ../outside/file",
        &["read {outside}/file (outside)"],
        Under::Landlock,
    ),
    (
        "executed outside",
        "{outside}/tool",
        &["execute {outside}/tool ({why})"],
        Under::All,
    ),
    (
        "executed in a mount",
        "{ro}/script",
        &["execute /ro/script (/ro is not executable)"],
        Under::WithLandlock,
    ),
    (
        "a search that succeeds",
        "env PATH={outside}:/usr/bin:/bin true",
        &[],
        Under::All,
    ),
    (
        "a search that fails",
        "env PATH={outside}:{rw} tool",
        &["execute {outside}/tool ({why})"],
        Under::All,
    ),
    (
        "a search by another program",
        "cat {outside}/file; cat {ro}/file",
        &["read {outside}/file ({why})"],
        Under::All,
    ),
    (
        "a hidden name",
        "cat {rw}/hidden {rw}/hide/file",
        &[
            "read /rw/hidden (hidden name hidden)",
            "read /rw/hide/file (hidden name hide)",
        ],
        Under::MountLayer,
    ),
    ("a protected name", "ls {rw}/pinned", &[], Under::All),
    (
        "devices and the kernel",
        "cat /dev/null /proc/self/status /proc/1/none; head -c 1 /dev/urandom",
        &[],
        Under::All,
    ),
];

pub(crate) fn all(mechanism: Mechanism, report: &mut crate::report::Report) {
    for (name, line, wanted, under) in LINES {
        let has_landlock = mechanism == Mechanism::Landlock || !mechanism.name().contains("alone");
        let holds = match under {
            Under::All => true,
            Under::MountLayer => mechanism.has_mount_layer(),
            Under::Landlock => !mechanism.has_mount_layer(),
            Under::WithLandlock => has_landlock,
        };
        let wanted = if holds { wanted } else { &[] };
        report.case(&format!("reads: {name}"), reported(mechanism, line, wanted));
    }
    report.case("reads: touched objects", touched(mechanism));
    report.case("reads: bound", bound(mechanism));
    report.case("reads: only on request", on_request(mechanism));
}

/// A world with programs outside, and hidden names.
fn world(mechanism: Mechanism) -> Result<(World, Sandbox), String> {
    let world = World::new(mechanism);
    for name in ["tool", "true"] {
        let program = world.host("outside").join(name);
        std::fs::write(&program, "#!/bin/sh\n").map_err(say)?;
        set_mode(&program, 0o755);
    }
    std::fs::write(world.host("rw/hidden"), "hidden").map_err(say)?;
    std::fs::create_dir(world.host("rw/hide")).map_err(say)?;
    std::fs::write(world.host("rw/hide/file"), "hidden").map_err(say)?;
    let policy = world.policy().hide("hidden").hide("hide");
    let plan = mechanism.plan(&policy.build().map_err(say)?);
    Ok((world, plan))
}

fn run(world: &World, plan: &Sandbox, line: &str) -> Result<Enforcement, String> {
    let command = Command::new(plan, "sh").args(["-c", &world.fill(line)]);
    let output = command.reports(ReportLevel::Full).output().map_err(say)?;
    Ok(output.enforcement)
}

fn reported(mechanism: Mechanism, line: &str, wanted: &[&str]) -> Done {
    let (world, plan) = world(mechanism)?;
    let receipt = run(&world, &plan, line)?;
    let found: Vec<String> = receipt.denials.iter().map(ToString::to_string).collect();
    let why = match mechanism.has_mount_layer() {
        true => "no mount shows it",
        false => "outside",
    };
    let wanted: Vec<String> = wanted
        .iter()
        .map(|line| world.fill(line).replace("{why}", why))
        .collect();
    ensure(found == wanted && !receipt.more_denials, || {
        format!("{found:?} and not {wanted:?}")
    })
}

fn touched(mechanism: Mechanism) -> Done {
    let (world, plan) = world(mechanism)?;
    let line = "cd {rw}; cat {ro}/file {ro}/file > made; mkdir dir; ls dir; cat {outside}/file";
    let receipt = run(&world, &plan, line)?;
    let touched = receipt.touched.ok_or("nothing was reported")?;
    let has = |list: &[String], wanted: &str| list.iter().filter(|one| *one == wanted).count() == 1;
    let cat = std::fs::canonicalize("/bin/cat").map_err(say)?;
    ensure(
        has(&touched.read, "/ro/file")
            && has(&touched.read, "/rw/dir")
            && !touched
                .read
                .iter()
                .any(|path| path.ends_with("outside/file"))
            && has(&touched.written, "/rw/made")
            && has(&touched.written, "/rw/dir")
            && has(&touched.executed, &cat.display().to_string())
            && touched.connected.is_empty()
            && !touched.more,
        || format!("{touched:?}"),
    )
}

/// The bound is told, and neither blocks the command nor changes what it gets.
fn bound(mechanism: Mechanism) -> Done {
    let (world, plan) = world(mechanism)?;
    let line = "cd {rw}; i=0; while [ $i -lt 5000 ]; do : > $i || exit 3; i=$((i+1)); done";
    let receipt = run(&world, &plan, line)?;
    let touched = receipt.touched.ok_or("nothing was reported")?;
    let listed = touched.read.len() + touched.written.len() + touched.executed.len();
    let last = world.host("rw/4999").exists();
    ensure(touched.more && listed == 4096 && last, || {
        format!("{listed} are listed, more: {}", touched.more)
    })
}

fn on_request(mechanism: Mechanism) -> Done {
    let (world, plan) = world(mechanism)?;
    let output = world
        .sh(&plan, "cat {ro}/file && ! cat {outside}/file")
        .map_err(say)?;
    let receipt = output.enforcement;
    ensure(
        output.exit == Exit::Code(0) && receipt.touched.is_none() && receipt.denials.is_empty(),
        || format!("{:?}: {:?}", output.exit, receipt.denials),
    )
}
