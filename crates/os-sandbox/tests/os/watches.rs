//! Watches (inotify(7)) under Landlock alone, which does not control them: of what the command may read,
//! and of nothing else.

use crate::fixture::{Mechanism, World};
use crate::outcome::{ensure, say};
use crate::report::Report;
use os_sandbox::{Access, Command, Exit, ReportLevel};
use std::path::Path;
use std::time::Duration;

const SCRIPT: &str = include_str!("watches.py");

/// The result of each attempt of the script, in order.
const EXPECTED: &str = "\
own directory ok
own file ok
the mount ok
read-only mount ok
file in it ok
private directory ok
link within ok
relative ok
again ok
link itself ok
a file as a directory ENOTDIR
no events EINVAL
another kind of descriptor EINVAL
no descriptor EBADF
missing ENOENT
empty ENOENT
outside EACCES
file outside EACCES
link out EACCES
climbing EACCES
root EACCES
system EACCES
temporary directory EACCES
beside the mount EACCES
by root of proc ELOOP
";

pub(crate) fn all(mechanism: Mechanism, report: &mut Report) {
    let name = "watches: inside and outside";
    let reason = if mechanism != Mechanism::Landlock {
        "a mount layer keeps them"
    } else if !Path::new("/usr/bin/python3").exists() {
        "needs /usr/bin/python3"
    } else if !mechanism.names_sockets() {
        // No process of ours can make the call.
        let refused: String = EXPECTED
            .lines()
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(attempt, _)| format!("{attempt} EACCES\n"))
            .collect();
        report.case(
            "watches: nothing, without a process that sets them",
            attempts(ReportLevel::Off, &refused),
        );
        return;
    } else {
        // Made by the supervisor, and by the connector, which observes as well.
        for level in [ReportLevel::Off, ReportLevel::Full] {
            report.case(
                &format!("{name}, reports {level:?}"),
                attempts(level, EXPECTED),
            );
        }
        return;
    };
    report.not_posed(name, reason);
}

fn attempts(level: ReportLevel, expected: &str) -> Result<(), String> {
    let world = World::new(Mechanism::Landlock);
    // Its name begins with a mount's.
    std::fs::create_dir(world.host("rw2")).map_err(say)?;
    let script = world.host("script.py");
    std::fs::write(&script, SCRIPT).map_err(say)?;
    let policy = world
        .policy()
        .mount(&script, "/script.py", Access::READ)
        .reports(level)
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
    ensure(output.exit == Exit::Code(0) && seen == expected, || {
        let wrong: Vec<_> = seen
            .lines()
            .zip(expected.lines())
            .filter(|(seen, expected)| seen != expected)
            .collect();
        format!("{wrong:?} {}", output.stderr.text())
    })
}
