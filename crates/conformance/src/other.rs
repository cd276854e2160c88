//! macOS: the profile under the real `sandbox-exec`. On any other system there is nothing to ask.

use crate::case::Case;
use crate::column::Column;
use crate::verdict::Seen;
use crate::world::{World, say};
use os_sandbox::{Assumed, Backend, Plan, Requirement, SeatbeltProfile, SeatbeltRun, Support};
use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// Whether this host has a column, or why not.
pub(crate) fn here(column: Column) -> Result<(), String> {
    match column {
        // There is no openat2, so both are the portable resolver.
        Column::Policy | Column::Files | Column::Walk | Column::Memory | Column::Judged => Ok(()),
        Column::Landlock(_) | Column::Bubblewrap | Column::Layered => Err("not Linux".to_owned()),
        Column::Seatbelt if Path::new(SANDBOX_EXEC).exists() => Ok(()),
        Column::Seatbelt => Err(format!("no {SANDBOX_EXEC}")),
        Column::Birdcage | Column::Docker => Err("not built".to_owned()),
    }
}

pub(crate) fn plan(_: Column, world: &World<'_>) -> Result<Plan, String> {
    let host = Support::assume(Assumed {
        seatbelt: true,
        ..Assumed::default()
    });
    let best = Requirement::BestEffort;
    Plan::with_mechanism(&world.policy, &host, best, Backend::Seatbelt).map_err(say)
}

pub(crate) fn attempt(
    _: Column,
    _: &Plan,
    world: &World<'_>,
    cases: &[&Case],
) -> Result<Vec<Seen>, String> {
    let private = tempfile::tempdir().map_err(say)?;
    let run = SeatbeltRun {
        tag: "conformance".to_owned(),
        private: vec![private.path().canonicalize().map_err(say)?],
        ..SeatbeltRun::default()
    };
    let profile = SeatbeltProfile::new(&world.policy, &run).map_err(say)?;
    let own = std::env::current_exe().map_err(say)?;
    let mut words = vec!["--probe".to_owned()];
    for case in cases {
        words.push(case.verb.word());
        words.extend(world.on_host(case));
    }
    let argv = profile.argv(own, words);
    let (program, args) = argv.split_first().ok_or("no program")?;
    let output = Command::new(program)
        .args(args)
        .current_dir(private.path())
        .env("TMPDIR", private.path())
        .output()
        .map_err(say)?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {errors}", output.status));
    }
    crate::probe::answers(&String::from_utf8_lossy(&output.stdout), cases.len())
}

/// There is none.
pub(crate) fn hide_openat2() -> Result<(), String> {
    Ok(())
}

/// There are none.
pub(crate) fn abstract_listener(_: &str) -> Result<Option<UnixListener>, String> {
    Ok(None)
}

pub(crate) fn abstract_connect(_: &str) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
