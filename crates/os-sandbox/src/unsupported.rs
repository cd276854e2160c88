//! Systems without any mechanism. The plan lists every promise as absent. A best-effort command
//! runs unconfined, with the same environment, directories, limits on time and end of its process
//! group.

use crate::command::{Command, Session};
use crate::error::{Error, ErrorKind};
use crate::findings::StartNotes;
use crate::plain;
use crate::process::StartedCommand;
use crate::proof::ProofCheck;
use crate::sandbox::Sandbox;
use crate::streams::Pipes;
use crate::streams::streams;
use crate::support::Support;
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

#[cfg(feature = "birdcage")]
pub(crate) use crate::plain::birdcage;
pub(crate) use crate::plain::layout;
pub use crate::plain::{Cleanup, MountSources, serve_own_namespace, static_program};
pub use crate::plain::{
    NoActiveCommand as ActiveCommand, NoStartLock as StartLock, QuarantineRecords,
    find_possible_writer,
};
pub(crate) use crate::plain::{ProbeScope, remove, survey, warm_up};

/// A running command, without further resources.
pub(crate) type Running = plain::Running<()>;

/// Clears no cache, because nothing is cached.
pub(crate) fn forget() {}

pub(crate) fn detect_fresh() -> Support {
    detect()
}

pub(crate) fn detect() -> Support {
    let reason = format!("not available on {}", std::env::consts::OS);
    Support::without_mechanisms(&reason, "run on Linux or macOS")
}

/// Refuses the self-test, because this system has no confinement to prove.
pub(crate) fn prove(_: &Sandbox, _: ProbeScope) -> Result<(Vec<ProofCheck>, StartNotes), Error> {
    let what = format!("nothing can be proved on {}", std::env::consts::OS);
    Err(ErrorKind::Unsupported.error(what))
}

/// The directories that a plan stores for its commands: none here.
#[derive(Debug, Default)]
pub(crate) struct ScratchPool;

pub(crate) fn start(command: Command) -> Result<StartedCommand, Error> {
    let temp = std::env::temp_dir();
    let ([stdin, stdout, stderr], pipes) = streams(&command.stdio)?;
    let mut plain = std::process::Command::new(&command.program);
    plain
        .args(&command.args)
        .env_clear()
        .envs(command.variables(temp.as_os_str(), temp.as_os_str()))
        .current_dir(directory(&command))
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    let group = match command.session {
        Session::New => {
            plain.process_group(0);
            true
        }
        Session::Inherit | Session::Terminal => false,
    };
    let child = plain.spawn().map_err(|error| {
        let program = command.program.display();
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                ErrorKind::NotFound.error(format!("{program}: no such program"))
            }
            std::io::ErrorKind::PermissionDenied => ErrorKind::NotExecutable
                .error(format!("{program}: cannot be started"))
                .with_source(error),
            _ => Error::io(format!("{program}: cannot be started"), error),
        }
    })?;
    let pid = i32::try_from(child.id())
        .map(Pid::from_raw)
        .map_err(|_| ErrorKind::Io.error("a process without a number"))?;
    let running = Running::new(pid, group, (command.wall(), command.grace), ());
    Ok(running.started(pipes))
}

/// Returns the host directory of a sandbox path; the root or first mount by default.
fn directory(command: &Command) -> PathBuf {
    let mounts = command.plan().policy().mounts();
    let root = mounts
        .iter()
        .find(|mount| mount.shown_at() == "/")
        .or(mounts.first());
    let base = root.map_or_else(std::env::temp_dir, |mount| mount.host().to_owned());
    let Some(cwd) = &command.cwd else { return base };
    let named = mounts
        .iter()
        .filter_map(|mount| {
            let rest = std::path::Path::new(cwd)
                .strip_prefix(mount.seen_as())
                .ok()?;
            Some((mount, rest))
        })
        .max_by_key(|(mount, _)| mount.seen_as().len());
    match named {
        Some((mount, rest)) => mount.host().join(rest),
        None => base.join(cwd.trim_start_matches("/work").trim_start_matches('/')),
    }
}
