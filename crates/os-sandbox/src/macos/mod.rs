//! macOS: starts commands under `sandbox-exec`. The module `seatbelt` decides the arguments and is
//! tested on every system. This module contains only the code that uses macOS.

mod spawn;

use crate::access::Access;
use crate::backend::{Backend, Starter};
use crate::command::{Command, Session};
use crate::error::{Error, ErrorKind};
use crate::findings::StartNotes;
use crate::plain;
use crate::plan::{Plan, Requirement};
use crate::policy::{
    DEFAULT_PATH, Limits, LinkPolicy, Mount, MountPlacement, Network, Policy, Survivors,
    UnixSockets, check_not_kernel,
};
use crate::process::StartedCommand;
use crate::proof::ProofCheck;
use crate::sandbox::{Directories, Sandbox};
use crate::scratch::Scratch;
use crate::seatbelt::start::{LinkView, SHELL, judged, steps};
use crate::seatbelt::{SeatbeltProfile, SeatbeltRun};
use crate::streams::Pipes;
use crate::streams::streams;
use crate::support::{Availability, Support};
use nix::sys::stat::{SFlag, fstat};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(feature = "birdcage")]
pub(crate) use crate::plain::birdcage;
pub(crate) use crate::plain::layout;
pub use crate::plain::{Cleanup, MountSources, serve_own_namespace, static_program};
pub use crate::plain::{
    NoActiveCommand as ActiveCommand, NoStartLock as StartLock, QuarantineRecords,
    find_possible_writer,
};
pub(crate) use crate::plain::{ProbeScope, remove, survey, warm_up};

/// A running command, and the directories that it works in.
pub(crate) type Running = plain::Running<Scratch>;

/// The resources that a plan stores for its next commands: none, because a process can remain in a
/// directory.
#[derive(Debug, Default)]
pub(crate) struct ScratchPool;

/// Clears no cache. A probe runs each time a process first asks, so nothing is remembered.
pub(crate) fn forget() {}

pub(crate) fn detect_fresh() -> Support {
    detect()
}

pub(crate) fn detect() -> Support {
    let mut support = Support::without_mechanisms("a part of Linux", "");
    support.seatbelt = Some(Availability::Works(()));
    support.seatbelt = Some(probe(&support).unwrap_or_else(|error| {
        Availability::missing(error.to_string(), error.hint().unwrap_or_default())
    }));
    support
}

/// Refuses the self-test. Its probe is a part of the launcher, which macOS does not have.
pub(crate) fn prove(_: &Sandbox, _: ProbeScope) -> Result<(Vec<ProofCheck>, StartNotes), Error> {
    Err(ErrorKind::Unsupported.error("there is no self-test on macOS yet"))
}

/// Returns `true` if `sandbox-exec` starts the commands of a plan.
fn is_confined(backend: Backend) -> Result<bool, Error> {
    let properties = backend.properties();
    match properties.starter {
        Starter::SandboxExec => Ok(true),
        _ if !properties.confines => Ok(false),
        Starter::Launcher | Starter::Program | Starter::Engine => {
            let what = format!("sandbox-exec starts no command under {backend}");
            Err(ErrorKind::Unsupported.error(what))
        }
    }
}

pub(crate) fn start(command: Command) -> Result<StartedCommand, Error> {
    let policy = command.plan().policy();
    let confined = is_confined(command.plan().backend())?;
    let real: Vec<PathBuf> = policy.mounts().iter().map(real).collect::<Result<_, _>>()?;
    let private = Scratch::create()?.with(&links(policy, &real))?;
    let (home, tmp, work) = (private.home(), private.tmp(), private.work());
    let view = LinkView {
        policy,
        real: &real,
        links: &work,
    };
    let exists = |path: &Path| path.exists();
    let directory = view.directory(command.cwd.as_deref(), &exists);
    if !directory.is_dir() {
        let named = command.cwd.as_deref().unwrap_or("/work");
        return Err(Error::invalid(format!(
            "no such working directory: {named}"
        )));
    }
    let variables = command.variables(home.as_os_str(), tmp.as_os_str());
    let path = variables.get(OsStr::new("PATH")).cloned();
    let path = path.unwrap_or_else(|| DEFAULT_PATH.into());
    let program = program(
        &command.program,
        view.candidates(&command.program, &path, &directory, &exists),
    )?;
    let inner: Vec<OsString> = if confined {
        let run = SeatbeltRun {
            tag: tag(),
            real: real.clone(),
            private: vec![home, tmp],
            shown: vec![work.clone()],
            proxy_port: None,
        };
        SeatbeltProfile::new(policy, &run)?.argv(program, command.args.clone())
    } else {
        std::iter::once(program.into_os_string())
            .chain(command.args.iter().cloned())
            .collect()
    };
    let argv = steps(&directory, policy.limits(), &variables, inner);

    let (ends, pipes) = streams(&command.stdio)?;
    if confined {
        refuse_directories(&ends)?;
    }
    let session = match command.session {
        Session::New => true,
        // `Session::Terminal` was refused.
        Session::Inherit | Session::Terminal => false,
    };
    let pid = spawn::spawn(Path::new(SHELL), argv, &ends, session)?;
    // A session is a process group too. The group is not ended if background processes may stay.
    let group = session
        && match policy.survivors() {
            Survivors::Ended => true,
            Survivors::Left => false,
        };
    Ok(Running::new(pid, group, (command.wall(), command.grace), private).started(pipes))
}

/// Runs a probe that prints a file inside and one outside, under a profile with every kind of rule,
/// so that it fails on a macOS that does not know one of them.
fn probe(support: &Support) -> Result<Availability<()>, Error> {
    const INSIDE: &str = "inside";
    const OUTSIDE: &str = "outside";
    let (shown, hidden) = (Scratch::create()?, Scratch::create()?);
    let (inside, outside) = (shown.home().join("probe"), hidden.home().join("probe"));
    for (path, text) in [(&inside, INSIDE), (&outside, OUTSIDE)] {
        std::fs::write(path, text).map_err(|error| Error::io("could not make a probe", error))?;
    }
    let policy = Policy::builder()
        .mount(shown.home(), "/", Access::ALL)
        .protect(".git/hooks")
        .hide(".env*")
        .network(Network::Unrestricted)
        .unix_sockets(UnixSockets::Open)
        .limits(Limits {
            wall: Some(Duration::from_secs(30)),
            ..Limits::default()
        })
        .build()?;
    let plan = Plan::with_mechanism(&policy, support, Requirement::BestEffort, Backend::Seatbelt)?;
    let sandbox = Sandbox::open(plan, Directories::user());
    let output = Command::new(&sandbox, "/bin/cat")
        .arg(inside)
        .arg(outside)
        .output()?;
    Ok(judged(
        output.exit,
        &output.stdout.text(),
        &output.stderr.text(),
        INSIDE,
        OUTSIDE,
    ))
}

/// Returns the mount's directory with links followed, if the policy allows links. The profile names
/// this path, and the kernel compares it with the resolved path of each access. A link created
/// later leads to a path that the profile does not name.
fn real(mount: &Mount) -> Result<PathBuf, Error> {
    let named = || format!("{} ({})", mount.host().display(), mount.shown_at());
    let real = std::fs::canonicalize(mount.host()).map_err(|error| {
        Error::io(format!("could not open {}", named()), error)
            .with_hint("create the directory, or take the mount out")
    })?;
    check_not_kernel(&real)?;
    match mount.links() {
        LinkPolicy::Refused if real != mount.host() => Err(ErrorKind::Enforcement
            .error(format!("{} runs through a link now", named()))
            .with_hint("another program has replaced a directory of the path; put it back")),
        LinkPolicy::Refused | LinkPolicy::Followed => Ok(real),
    }
}

/// Returns the links for the working directory. Empty if the policy has a root mount.
fn links(policy: &Policy, real: &[PathBuf]) -> Vec<(String, PathBuf)> {
    let mounts = || policy.mounts().iter().zip(real);
    if mounts().any(|(mount, _)| mount.place() == MountPlacement::Root) {
        return Vec::new();
    }
    mounts()
        .filter_map(|(mount, real)| Some((mount.in_work()?.to_owned(), real.clone())))
        .collect()
}

/// Returns the first candidate that is a program. The sandbox decides if it may start, and reports
/// a refusal with exit code 71 (`EX_OSERR`).
fn program(named: &OsStr, candidates: Vec<PathBuf>) -> Result<PathBuf, Error> {
    let mut found = None;
    for path in candidates {
        let Ok(meta) = std::fs::metadata(&path) else {
            continue;
        };
        if meta.is_file() && meta.permissions().mode() & 0o111 != 0 {
            return Ok(path);
        }
        found = Some(path);
    }
    let shown = named.display();
    Err(match found {
        Some(_) => ErrorKind::NotExecutable.error(format!("{shown}: cannot be started")),
        None => ErrorKind::NotFound.error(format!("{shown}: no such program in the sandbox")),
    }
    .with_hint("it must lie in the system's directories or in a mount that allows execution"))
}

/// Refuses directories as streams. A directory of the host bypasses the sandbox
/// (`openat(0, "..")`).
fn refuse_directories(streams: &[OwnedFd; 3]) -> Result<(), Error> {
    for (stream, name) in streams.iter().zip(["input", "output", "error"]) {
        let stat = fstat(stream)
            .map_err(|errno| Error::io("could not look at the command's streams", errno.into()))?;
        if stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits() {
            return Err(Error::invalid(format!("standard {name} is a directory")));
        }
    }
    Ok(())
}

/// Returns a tag that identifies a run in the kernel's log.
fn tag() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("os-sandbox-{}-{count}", std::process::id())
}
