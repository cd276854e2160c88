//! `forge mcp`: the tools, served to any MCP client on standard input and output, or over HTTP.

use std::io::IsTerminal as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use forge_mcp::{McpError, ServerInfo, Service, ServiceHandle, serve_beside, serve_http};
use forge_runtime::Isolation;
use forge_tools::{Approver, AuditLog, BlockingHandoff, Caller, HostApprover, Recorder, Toolbox};
use sandbox_config::{Project, WithoutDirectories, find_project_file};

use crate::cli::{ApproverName, McpArgs};
use crate::commands::prelude::*;
use crate::commands::serve::file_watch::{FileSnapshot, WatchedPaths};
use crate::commands::serve::stdio_stream::StdioStream;
use crate::queue::{Queue, WhenUnattended};
use crate::setup;
use crate::setup::host_programs::HostPrograms;
use crate::state::run_dir::{self, RunDir};

/// Interval at which the files of the project are compared.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &McpArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    if args.http.is_none() && std::io::stdin().is_terminal() && !ambient.global.quiet {
        stderr::print(
            "this speaks MCP with a client on standard input; `forge mcp install CLIENT` sets a \
             client up; Ctrl-D ends it",
        );
    }
    let wire = take_standard_output().map_err(CliError::stdout)?;
    let info = ServerInfo::new("forge", env!("CARGO_PKG_VERSION"))
        .instructions("List the files of / first: it shows what there is.");
    let server = McpServer::new(args, ambient)?;
    let mut places = server.places();
    let mut seen = FileSnapshot::default();
    let service = match server.toolbox(&mut places, &mut seen) {
        Ok(toolbox) => Service::Tools(toolbox),
        // A mistake in the configuration is reported to the client's calls; a server that does not
        // start leaves the person with "connection closed". Everything else is fatal. A missing
        // directory is reported in the same way: it may come, and is looked for again.
        Err(failure) if failure.is_configuration() || failure.is_mount() => {
            server.waits.store(failure.is_mount(), Ordering::Relaxed);
            failure.report(ambient.global.json);
            Service::Broken {
                message: failure.for_client(),
            }
        }
        Err(failure) => return Err(failure),
    };
    let live = ServiceHandle::new(service);
    let outcome = std::thread::scope(|scope| {
        let (served, until_served) = channel::<()>();
        scope.spawn(|| server.follow(&live, places, seen, until_served));
        let outcome = setup::until_stopped(serve(args, ambient, &live, info, wire));
        drop(served);
        outcome
    });
    let ending = match &outcome {
        Ok(Ok(())) => "closed",
        Ok(Err(_)) => "failed",
        Err(_) => "stopped",
    };
    if let Some(kept) = server.kept.get() {
        run_dir::seal(&kept.audit, ending)?;
    }
    outcome??;
    Ok(ExitKind::Done)
}

/// Serves one client on the standard streams, or any number over HTTP.
async fn serve(
    args: &McpArgs,
    ambient: &Ambient,
    live: &ServiceHandle,
    info: ServerInfo,
    output: OwnedFd,
) -> Result<(), CliError> {
    match &args.http {
        None => {
            let input = std::io::stdin().as_fd().try_clone_to_owned();
            let input = input.map_err(|error| failed(McpError::Read(error)))?;
            // In a task: there messages come without a detour over this thread.
            let served = tokio::spawn(one_client(live.clone(), info, input, output));
            match served.await {
                Ok(served) => served.map_err(failed),
                Err(_) => Err(failed(McpError::Stopped)),
            }
        }
        Some(place) => {
            // Removes its file when this ends.
            let (listener, _place) = place.listen(ambient).await?;
            serve_http(live, info, listener).await.map_err(failed)
        }
    }
}

/// One client is one conversation, of which one thread reads and writes the messages, and makes the
/// calls as long as that does not take long.
async fn one_client(
    live: ServiceHandle,
    info: ServerInfo,
    input: OwnedFd,
    output: OwnedFd,
) -> Result<(), McpError> {
    let (input, output) = (StdioStream::reader(input), StdioStream::writer(output));
    serve_beside(
        &live,
        info,
        input,
        output,
        BlockingHandoff::on_this_runtime(),
    )
    .await
}

fn failed(error: McpError) -> CliError {
    CliError::negative("mcp", error.to_string())
}

/// The parts that every state of the configuration shares.
struct McpServer<'a> {
    args: &'a McpArgs,
    ambient: &'a Ambient,
    /// With the project file that the first search found, or none. Why: a command that runs could make
    /// a nearer one.
    fixed: OnceLock<Ambient>,
    /// From the first configuration on that can be used, since that says where runs and
    /// questions are kept.
    kept: OnceLock<ServerRun>,
    isolation: Isolation,
    /// Nothing is served yet, since a directory of a mount is not there.
    waits: AtomicBool,
}

/// The parts that live as long as the server.
struct ServerRun {
    dir: RunDir,
    audit: Arc<AuditLog>,
    approver: Arc<dyn Approver>,
}

impl<'a> McpServer<'a> {
    fn new(args: &'a McpArgs, ambient: &'a Ambient) -> Result<Self, CliError> {
        Ok(McpServer {
            args,
            ambient,
            fixed: OnceLock::new(),
            kept: OnceLock::new(),
            isolation: setup::isolation(
                false,
                args.parent_proxy,
                &HostPrograms::around_caller(ambient),
                ambient,
            )?,
            waits: AtomicBool::new(false),
        })
    }

    /// Returns the surroundings with which the project is loaded.
    fn ambient(&self) -> Result<&Ambient, CliError> {
        if let Some(fixed) = self.fixed.get() {
            return Ok(fixed);
        }
        let file = setup::project_file(self.ambient)?;
        let mut fixed = self.ambient.clone();
        fixed.global.no_config = file.is_none();
        fixed.global.config = file;
        Ok(self.fixed.get_or_init(|| fixed))
    }

    /// Returns a project file that is nearer than the one of this server.
    fn other_file(&self) -> Option<PathBuf> {
        let is_named = self.named_file(self.ambient).is_some() || self.ambient.global.no_config;
        let own = &self.fixed.get().filter(|_| !is_named)?.global.config;
        let start = self.ambient.global.directory.as_deref();
        let start = start.unwrap_or(Path::new(".")).canonicalize().ok()?;
        let nearest = find_project_file(&start, self.ambient.home.as_deref())?;
        (own.as_ref() != Some(&nearest)).then_some(nearest)
    }

    fn named_file(&self, ambient: &Ambient) -> Option<PathBuf> {
        let named = ambient.global.config.clone();
        named.or_else(|| ambient.path("FORGE_CONFIG"))
    }

    /// Returns the files that determine the grant, as far as they are known before any is read.
    fn places(&self) -> WatchedPaths {
        let ambient = self.ambient().unwrap_or(self.ambient);
        let base = ambient.global.directory.clone().unwrap_or_default();
        let start = std::path::absolute(base.join(".")).ok();
        let named = self.named_file(ambient).map(|file| base.join(file));
        let trust = self
            .ambient
            .state
            .as_ref()
            .map(|state| state.join("trusted"));
        let user = self.ambient.user_file.clone();
        WatchedPaths {
            start: start.filter(|_| named.is_none() && !ambient.global.no_config),
            files: [named, user, trust].into_iter().flatten().collect(),
            worker_dirs: Vec::new(),
        }
    }

    /// Builds the toolbox from the present files. Each is watched before it is read, so that no
    /// change falls in between; the project's own directories join `places`.
    fn toolbox(
        &self,
        places: &mut WatchedPaths,
        seen: &mut FileSnapshot,
    ) -> Result<Toolbox, CliError> {
        let is_first = self.fixed.get().is_none();
        let ambient = self.ambient();
        if is_first && ambient.is_ok() {
            *places = self.places();
        }
        *seen = places.snapshot();
        let project = setup::project(ambient?, None, WithoutDirectories::DefaultZones)?;
        places.worker_dirs = project.worker_dirs().to_vec();
        places.snapshot_workers(seen);
        let (worker, grant) = setup::tool_owner(&project, self.args.worker.as_deref())?;
        let name = worker.as_ref().map_or("", |worker| worker.name());
        let ServerRun {
            dir,
            audit,
            approver,
        } = match self.kept.get() {
            Some(kept) => kept,
            None => {
                let kept = self.keep(&project)?;
                self.kept.get_or_init(|| kept)
            }
        };
        setup::toolbox(
            self.ambient,
            &project,
            &dir.mount_in_run(grant)?,
            Caller::new(name),
            &self.isolation,
            Arc::clone(approver),
            Some(Arc::clone(audit) as Arc<dyn Recorder>),
        )
    }

    fn keep(&self, project: &Project) -> Result<ServerRun, CliError> {
        let queue = |absent| {
            let place = self.ambient.queue(project.dir());
            let approval_timeout = setup::approval_timeout(project);
            Arc::new(Queue::new(
                place,
                approval_timeout,
                absent,
                self.ambient.global.quiet,
            ))
        };
        let dir = RunDir::create(project, self.ambient, "mcp", None)?;
        Ok(ServerRun {
            audit: Arc::new(dir.audit(project.ceiling().is_durable())?),
            dir,
            approver: match self.args.approver {
                Some(ApproverName::Host) => Arc::new(HostApprover),
                // Clients give up on a call before a person has looked, so it does not wait
                // for one.
                None => queue(WhenUnattended::Keep),
                Some(ApproverName::Queue) => queue(WhenUnattended::Wait),
            },
        })
    }

    /// Reads the files again each time they have changed, until the other end of `until` is
    /// gone. A mistake in them changes nothing: half a policy is worse than the old one.
    fn follow(
        &self,
        live: &ServiceHandle,
        mut places: WatchedPaths,
        mut seen: FileSnapshot,
        until: Receiver<()>,
    ) {
        let mut told = None;
        while let Err(RecvTimeoutError::Timeout) = until.recv_timeout(POLL_INTERVAL) {
            let other = self.other_file();
            if let Some(other) = other.as_ref().filter(|_| other != told) {
                stderr::print(format_args!(
                    "forge: {} is the nearest project file now; this server keeps the choice of its \
                     start until it is started again",
                    escape_path(other)
                ));
            }
            told = other;
            let waits = self.waits.load(Ordering::Relaxed);
            if places.snapshot() == seen && !waits {
                continue;
            }
            match self.toolbox(&mut places, &mut seen) {
                Ok(toolbox) => {
                    self.waits.store(false, Ordering::Relaxed);
                    live.replace(toolbox);
                    stderr::print("forge: the configuration changed and is in force");
                }
                // Said before.
                Err(failure) if waits && failure.is_mount() => {}
                Err(failure) => {
                    failure.report(self.ambient.global.json);
                    stderr::print(
                        "forge: the configuration changed and cannot be used, so the one before \
                         stays",
                    );
                }
            }
        }
    }
}

/// The wire, ours alone: descriptor 1 becomes standard error, so that a stray print of
/// any crate cannot get between two messages.
pub(super) fn take_standard_output() -> std::io::Result<OwnedFd> {
    let wire = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    Ok(wire)
}
