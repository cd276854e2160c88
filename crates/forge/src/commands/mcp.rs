//! `forge mcp`: the tools, served to any MCP client on standard input and output.

use std::fs::File;
use std::sync::Arc;

use forge_tools::mcp::{ServerInfo, Service, serve};
use forge_tools::{Approver, AuditLog, Caller, HostAnswers, Recorder, Toolbox};
use sandbox_config::WithoutFile;

use crate::ambient::Ambient;
use crate::cli::{ApproverName, Global, Mcp};
use crate::exit::{Exit, Failure};
use crate::gather;
use crate::queue::{Absent, Queue};
use crate::run_dir::{self, RunDir};

pub(crate) fn run(global: &Global, args: &Mcp, ambient: &Ambient) -> Result<Exit, Failure> {
    let wire = take_standard_output()
        .map_err(|error| Failure::new(Exit::Negative, "stdout", error.to_string()))?;
    let info = ServerInfo::new("forge", env!("CARGO_PKG_VERSION"))
        .instructions("List the files of / first: it shows what there is.");
    let mut kept = None;
    let service = match toolbox(global, args, ambient) {
        Ok((toolbox, audit)) => {
            kept = Some(audit);
            Service::Tools(toolbox)
        }
        // A mistake in the configuration is told to whoever calls; a server that does
        // not start leaves the person with "connection closed". Everything else is
        // fatal.
        Err(failure) if failure.is_configuration() => {
            failure.report(global.json);
            Service::Broken {
                message: failure.for_client(),
            }
        }
        Err(failure) => return Err(failure),
    };
    let wire = tokio::fs::File::from_std(wire);
    let served =
        gather::until_stopped(async { serve(service, info, tokio::io::stdin(), wire).await });
    if let Some(audit) = kept {
        let ending = match &served {
            Ok(Ok(())) => "closed",
            Ok(Err(_)) => "failed",
            Err(_) => "stopped",
        };
        run_dir::seal(&audit, ending)?;
    }
    served?.map_err(|error| Failure::new(Exit::Negative, "mcp", error.to_string()))?;
    Ok(Exit::Done)
}

fn toolbox(
    global: &Global,
    args: &Mcp,
    ambient: &Ambient,
) -> Result<(Toolbox, Arc<AuditLog>), Failure> {
    let project = gather::project(global, ambient, None, WithoutFile::DefaultZones)?;
    let (worker, grant) = gather::holder(&project, args.worker.as_deref())?;
    let name = worker.as_ref().map_or("", |worker| worker.name());
    let audit = Arc::new(RunDir::create(&project, ambient, "mcp")?.audit()?);
    let queue = |absent| {
        let place = ambient.queue(project.dir());
        Arc::new(Queue::new(
            place,
            gather::patience(&project),
            absent,
            global.quiet,
        ))
    };
    let approver: Arc<dyn Approver> = match args.approver {
        Some(ApproverName::Host) => Arc::new(HostAnswers),
        // Clients give up on a call before a person has looked, so it does not wait for one.
        None => queue(Absent::Keep),
        Some(ApproverName::Queue) => queue(Absent::Wait),
    };
    let toolbox = gather::toolbox(
        global,
        &grant,
        Caller::new(name),
        &gather::os_sandbox(false),
        approver,
        Some(Arc::clone(&audit) as Arc<dyn Recorder>),
    )?;
    Ok((toolbox, audit))
}

/// The wire, ours alone: descriptor 1 becomes standard error, so that a stray print of
/// any crate cannot get between two messages.
fn take_standard_output() -> std::io::Result<File> {
    let wire = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    Ok(File::from(wire))
}
