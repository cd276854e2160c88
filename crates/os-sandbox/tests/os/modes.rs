//! Modes and owners, for uid 0 under Landlock alone: modes are changed in what the command may write and
//! nowhere else, and owners stay.

use crate::fixture::{Mechanism, World, set_mode};
use crate::outcome::{ensure, say};
use crate::report::Report;
use os_sandbox::{Access, Command, Exit};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

type Done = Result<(), String>;

const SCRIPT: &str = include_str!("modes.py");

/// The result of each attempt of the script, in order.
const EXPECTED: &str = "\
own file ok
own directory ok
the mount ok
private file ok
link within ok
relative ok
by directory ok
by descriptor ok
without a name ok
by place ok
descriptor of a place EBADF
link itself ENOTSUP
unknown flag EINVAL
missing ENOENT
empty ENOENT
long ENAMETOOLONG
set-id EPERM
outside EPERM
read-only mount EPERM
descriptor of it EPERM
link out EPERM
climbing EPERM
climbing in path EPERM
by root of proc ELOOP
by directory of proc ELOOP
by place outside EPERM
by directory outside EPERM
by name of proc ELOOP
beside the mount EPERM
own owner ok
no owner ok
own owner by descriptor ok
own owner by directory ok
own owner of a link ok
own owner without a name ok
another owner EPERM
another group EPERM
another owner by descriptor EPERM
another owner of a link EPERM
owner outside EPERM
owner of a link out EPERM
owner in a read-only mount EPERM
owner of a missing file ENOENT
race ok
";

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    let name = "modes: inside and outside";
    let reason = if mechanism != Mechanism::Landlock {
        "a mount layer keeps them"
    } else if !nix::unistd::geteuid().is_root() {
        "takes root: an ordinary user's are a gap"
    } else if !mechanism.names_sockets() {
        "takes a connector, which does not work here"
    } else if !Path::new("/usr/bin/python3").exists() {
        "needs /usr/bin/python3"
    } else {
        report.case(name, attempts());
        return;
    };
    report.not_posed(name, reason);
}

fn attempts() -> Done {
    let world = World::new(Mechanism::Landlock);
    // Its name begins with a mount's.
    std::fs::create_dir(world.host("rw2")).map_err(say)?;
    let untouched = ["outside/file", "ro/file", "rw2/file"].map(|name| world.host(name));
    std::fs::write(&untouched[2], "").map_err(say)?;
    for path in &untouched {
        set_mode(path, 0o640);
    }
    let script = world.host("script.py");
    std::fs::write(&script, SCRIPT).map_err(say)?;
    let policy = world
        .policy()
        .mount(&script, "/script.py", Access::READ)
        // To open it for nothing takes no right.
        .build()
        .map_err(say)?;
    let plan = world.mechanism.plan(&policy);
    let output = Command::new(&plan, "sh")
        .args(["-c", "exec /usr/bin/python3 \"$@\" \"$TMPDIR\"", "sh"])
        .arg(&script)
        .args(["rw", "ro", "outside"].map(|name| world.host(name)))
        .timeout(Duration::from_secs(600))
        .output()
        .map_err(say)?;
    let seen = output.stdout.text();
    ensure(output.exit == Exit::Code(0) && seen == EXPECTED, || {
        let wrong: Vec<_> = seen
            .lines()
            .zip(EXPECTED.lines())
            .filter(|(seen, expected)| seen != expected)
            .collect();
        format!("{wrong:?} {}", output.stderr.text())
    })?;
    for path in &untouched {
        let mode = std::fs::metadata(path).map_err(say)?.permissions().mode() & 0o7777;
        ensure(mode == 0o640, || format!("{}: {mode:o}", path.display()))?;
    }
    // The last one that changed it.
    let mode = std::fs::metadata(world.host("rw/file")).map_err(say)?;
    let mode = mode.permissions().mode() & 0o7777;
    ensure(mode == 0o602, || format!("{mode:o}"))
}
