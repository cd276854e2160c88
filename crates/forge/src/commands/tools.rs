//! `forge tools list|call`: the tools, exactly as a worker sees them.

use std::io::Write as _;
use std::sync::Arc;

use forge_tools::{Call, CallResult, Caller, Code, Recorder, Toolbox};
use sandbox_config::{Project, WithoutFile};
use serde_json::{Value, json};

use crate::ambient::Ambient;
use crate::cli::{Approval, Global, Tools, ToolsAction};
use crate::exit::{Exit, Failure};
use crate::gather;
use crate::run_dir::{self, RunDir};
use crate::stderr::say;
use crate::visible::visible_lines;

pub(crate) fn run(global: &Global, args: &Tools, ambient: &Ambient) -> Result<Exit, Failure> {
    match &args.action {
        ToolsAction::List { worker } => list(global, worker.as_deref(), ambient),
        ToolsAction::Call {
            name,
            arguments,
            worker,
            approval,
        } => call(
            global,
            &Request {
                name,
                arguments,
                worker: worker.as_deref(),
                approval,
            },
            ambient,
        ),
    }
}

fn list(global: &Global, worker: Option<&str>, ambient: &Ambient) -> Result<Exit, Failure> {
    let project = gather::project(global, ambient, None, WithoutFile::DefaultZones)?;
    // Nothing is done there: what a worker holds is opened to say which tools it has.
    let stand_in = tempfile::tempdir().map_err(|error| {
        let why = format!("cannot make a temporary directory: {error}");
        Failure::new(Exit::Negative, "state", why)
    })?;
    let run = RunDir::at(stand_in.path());
    let toolbox = toolbox(
        global,
        &project,
        worker,
        &no_approval(),
        ambient,
        &run,
        None,
    )?;
    let mut out = std::io::stdout().lock();
    let written = if global.json {
        let specs: Vec<Value> = toolbox.specs().map(|spec| spec.to_json()).collect();
        writeln!(out, "{}", json!({ "tools": specs }))
    } else {
        toolbox.specs().try_for_each(|spec| {
            writeln!(
                out,
                "{}  ({})\n    {}",
                spec.name, spec.risk, spec.description
            )
        })
    };
    written.map_err(Failure::stdout)?;
    Ok(Exit::Done)
}

struct Request<'a> {
    name: &'a str,
    arguments: &'a str,
    worker: Option<&'a str>,
    approval: &'a Approval,
}

fn call(global: &Global, request: &Request<'_>, ambient: &Ambient) -> Result<Exit, Failure> {
    let arguments: Value = serde_json::from_str(request.arguments).map_err(|error| {
        Failure::usage(format!(
            "the arguments of {} are not JSON: {error}",
            request.name
        ))
        .hint("pass one JSON object, for example '{\"path\": \"/\"}'")
    })?;
    let project = gather::project(global, ambient, None, WithoutFile::DefaultZones)?;
    let run = RunDir::create(&project, ambient, "tools-call")?;
    let audit = Arc::new(run.audit(project.ceiling().is_durable())?);
    let toolbox = toolbox(
        global,
        &project,
        request.worker,
        request.approval,
        ambient,
        &run,
        Some(Arc::clone(&audit) as Arc<dyn Recorder>),
    )?;
    let result = gather::until_stopped(toolbox.call(Call::new(request.name, arguments)));
    let ending = match &result {
        Ok(result) => result.code.map_or("done", Code::as_str),
        Err(_) => "stopped",
    };
    run_dir::seal(&audit, ending)?;
    let result = result?;
    let mut out = std::io::stdout().lock();
    if global.json {
        writeln!(out, "{}", result.to_json()).map_err(Failure::stdout)?;
    } else if result.ok {
        writeln!(out, "{}", result.content).map_err(Failure::stdout)?;
    }
    if result.ok {
        return Ok(Exit::Done);
    }
    if global.json {
        return Err(Failure::new(
            exit_of(&result),
            "tool.failed",
            &result.content,
        ));
    }
    // A refusal is not the result that stdout promises.
    say(&result.content);
    if result.code == Some(Code::IsolationUnavailable) {
        let events = result.events.iter();
        for event in events.filter(|event| !result.content.contains(&event.detail)) {
            say(format_args!("note: {}", visible_lines(&event.detail)));
        }
    }
    Ok(exit_of(&result))
}

fn exit_of(result: &CallResult) -> Exit {
    match result.code {
        None => Exit::Done,
        Some(code) if code.is_usage() => Exit::Usage,
        Some(Code::ApprovalRequired) => Exit::Unanswered,
        Some(Code::IsolationUnavailable) => Exit::Isolation,
        Some(_) => Exit::Negative,
    }
}

fn no_approval() -> Approval {
    Approval {
        approve: None,
        yes: false,
        approver: None,
        no_os_sandbox: false,
    }
}

/// What the worker sees, delegation tools left out: they need a model.
fn toolbox(
    global: &Global,
    project: &Project,
    worker: Option<&str>,
    approval: &Approval,
    ambient: &Ambient,
    run: &RunDir,
    recorder: Option<Arc<dyn Recorder>>,
) -> Result<Toolbox, Failure> {
    let (worker, grant) = gather::holder(project, worker)?;
    let grant = run.holds(grant)?;
    let name = worker.as_ref().map_or("", |worker| worker.name());
    gather::toolbox(
        global,
        ambient,
        project,
        &grant,
        Caller::new(name),
        &gather::isolation(approval.no_os_sandbox, ambient),
        gather::approver(approval, global, ambient, project),
        recorder,
    )
}
