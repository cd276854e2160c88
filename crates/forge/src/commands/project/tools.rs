//! `forge tools list|call`: the tools, exactly as a worker sees them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_runtime::{CALL_WORKER, Session};
use forge_tools::{CallRequest, CallResult, Caller, FailureCode, NoRecord, Recorder, Toolbox};
use sandbox_config::{Grant, Mount, Project, WithoutDirectories, Worker};

use crate::cli::{ApprovalFlags, Global, ToolsAction, ToolsArgs};
use crate::commands::prelude::*;
use crate::commands::run::model::{RunModels as Models, choose_for_call, missing};
use crate::output::escape::escape_lines;
use crate::setup;
use crate::setup::host_programs::HostPrograms;
use crate::setup::offered_tools;
use crate::setup::repositories;
use crate::state::run_dir::{self, RunDir};

pub(crate) fn run(args: &ToolsArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let listing = ToolsAction::List { worker: None };
    match args.action.as_ref().unwrap_or(&listing) {
        ToolsAction::List { worker } => list(worker.as_deref(), ambient),
        ToolsAction::Call {
            name,
            arguments,
            worker,
            model,
            approval,
        } => call(
            &ToolRequest {
                name,
                arguments,
                worker: worker.as_deref(),
                model: model.as_deref(),
                approval,
            },
            ambient,
        ),
    }
}

fn list(worker: Option<&str>, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let project = setup::project(ambient, None, WithoutDirectories::DefaultZones)?;
    // No file is changed there: the worker's mounts are opened only to list its tools.
    let stand_in = tempfile::tempdir().map_err(|error| {
        let why = format!("cannot make a temporary directory: {error}");
        CliError::state(why)
    })?;
    let run = RunDir::at(stand_in.path());
    let holder = ToolOwner::find(&project, worker)?;
    let absent = absent_dirs(&project);
    let toolbox = holder.toolbox(&no_approval(), ambient, &run, None, None);
    remove_empty(&absent);
    let toolbox = toolbox?;
    if ambient.global.json {
        let specs: Vec<Value> = toolbox.specs().map(|spec| spec.to_json()).collect();
        print_json(&json!({ "tools": specs }))?;
    } else {
        for spec in toolbox.specs() {
            let (name, risk) = (&spec.name, spec.risk);
            print_line(format_args!("{name}  ({risk})\n    {}", spec.description))?;
        }
        if toolbox.specs().next().is_none() && !ambient.global.quiet {
            stderr::print(
                "note: this worker has no tools: `sandbox: inherit` in its file gives it the \
                 project's directories, `shell: {}` its commands, `workers:` other workers",
            );
        }
    }
    Ok(ExitKind::Done)
}

struct ToolRequest<'a> {
    name: &'a str,
    arguments: &'a [String],
    worker: Option<&'a str>,
    model: Option<&'a str>,
    approval: &'a ApprovalFlags,
}

fn call(request: &ToolRequest<'_>, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let arguments = arguments(request)?;
    let project = setup::project(ambient, None, WithoutDirectories::DefaultZones)?;
    let holder = ToolOwner::find(&project, request.worker)?;
    let models = holder.models(request, &arguments, ambient)?;
    let absent = absent_dirs(&project);
    let run = RunDir::create(&project, ambient, "tools-call", Some(request.name))?;
    let audit = Arc::new(run.audit(project.ceiling().is_durable())?);
    let recorder = Arc::clone(&audit) as Arc<dyn Recorder>;
    let toolbox = holder.toolbox(request.approval, ambient, &run, Some(recorder), models)?;
    let result = setup::until_stopped(toolbox.call(CallRequest::new(request.name, arguments)));
    let ending = match &result {
        Ok(result) => result.code.map_or("done", FailureCode::as_str),
        Err(_) => "stopped",
    };
    run_dir::seal(&audit, ending)?;
    if !matches!(&result, Ok(result) if result.code.is_none()) {
        remove_empty(&absent);
    }
    tell(&ambient.global, &result?)
}

/// Returns the directories of mounts that do not exist yet, and those around them. They are made
/// before a call, and nothing of a call that failed is to stay.
fn absent_dirs(project: &Project) -> BTreeSet<PathBuf> {
    let mounts = project
        .ceiling()
        .mounts()
        .filter(|mount| !mount.awaits_run());
    let around = |mount: &'_ Mount| -> Vec<PathBuf> {
        let around = mount.host().ancestors();
        let absent = around.take_while(|dir| !dir.exists());
        absent.map(Path::to_owned).collect()
    };
    mounts.flat_map(around).collect()
}

/// Removes directories, except those that have content.
fn remove_empty(dirs: &BTreeSet<PathBuf>) {
    // Children first.
    for dir in dirs.iter().rev() {
        let _is_kept = std::fs::remove_dir(dir);
    }
}

/// Returns the arguments of a call as one object.
fn arguments(request: &ToolRequest<'_>) -> Result<Value, CliError> {
    let not_json = |error: serde_json::Error| {
        CliError::usage(format!(
            "the arguments of {} are not JSON: {error}",
            request.name
        ))
        .hint("pass one JSON object such as '{\"path\": \"/\"}', or path=/")
    };
    let pair = |word: &String| {
        let (name, value) = word.split_once('=')?;
        let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (!name.is_empty() && is_name(name)).then(|| (name.to_owned(), value.to_owned()))
    };
    match request.arguments {
        [] => return Ok(json!({})),
        [one] if pair(one).is_none() => return serde_json::from_str(one).map_err(not_json),
        _ => {}
    }
    let tools = offered_tools::all_tools()?;
    let spec = tools.iter().find(|spec| spec.answers_to(request.name));
    let mut object = serde_json::Map::new();
    for word in request.arguments {
        let Some((name, value)) = pair(word) else {
            let word = escape_lines(word);
            let message = format!(
                "invalid argument `{word}` of {}: not NAME=VALUE",
                request.name
            );
            return Err(CliError::usage(message).hint("or pass one JSON object"));
        };
        let kind =
            spec.map(|spec| spec.to_json()["input_schema"]["properties"][&name]["type"].clone());
        // A text is used literally; `count=3` and `all=true` are JSON.
        let is_text = kind.is_none_or(|kind| kind.is_null() || kind == "string");
        let parsed = match is_text {
            true => None,
            false => serde_json::from_str(&value).ok(),
        };
        if object
            .insert(name.clone(), parsed.unwrap_or(Value::String(value)))
            .is_some()
        {
            let message = format!("`{name}` is given twice");
            return Err(CliError::usage(message));
        }
    }
    Ok(Value::Object(object))
}

fn tell(global: &Global, result: &CallResult) -> Result<ExitKind, CliError> {
    if global.json {
        print_json(&result.to_json())?;
    } else if result.ok {
        print_line(&result.content)?;
    }
    if result.ok {
        return Ok(exit_of(result));
    }
    if global.json {
        return Err(CliError::new(
            exit_of(result),
            "tool.failed",
            &result.content,
        ));
    }
    // A refusal is not the result that stdout promises.
    stderr::print(&result.content);
    if result.code == Some(FailureCode::IsolationUnavailable) {
        let events = result.events.iter();
        for event in events.filter(|event| !result.content.contains(&event.detail)) {
            stderr::print(format_args!("note: {}", escape_lines(&event.detail)));
        }
    }
    Ok(exit_of(result))
}

fn exit_of(result: &CallResult) -> ExitKind {
    match result.code {
        None => match &result.structured {
            Some(facts) if facts["exit_code"].as_i64().unwrap_or(0) != 0 => ExitKind::Negative,
            _ => ExitKind::Done,
        },
        Some(code) if code.is_usage() => ExitKind::Usage,
        Some(FailureCode::ApprovalRequired) => ExitKind::Unanswered,
        Some(FailureCode::IsolationUnavailable) => ExitKind::Isolation,
        Some(_) => ExitKind::Negative,
    }
}

fn no_approval() -> ApprovalFlags {
    ApprovalFlags {
        ..ApprovalFlags::default()
    }
}

/// The owner of the tools: a worker, or the project itself without an entry worker.
struct ToolOwner<'a> {
    project: &'a Project,
    worker: Option<Worker>,
    grant: Grant,
}

impl<'a> ToolOwner<'a> {
    fn find(project: &'a Project, name: Option<&str>) -> Result<Self, CliError> {
        let (worker, grant) = setup::tool_owner(project, name)?;
        Ok(ToolOwner {
            project,
            worker,
            grant,
        })
    }

    /// Returns the models for the worker that the request calls; `None` if it calls none that the
    /// holder may call.
    fn models(
        &self,
        request: &ToolRequest<'_>,
        arguments: &Value,
        ambient: &Ambient,
    ) -> Result<Option<Models>, CliError> {
        let Some(caller) = &self.worker else {
            return Ok(None);
        };
        let called = match request.name {
            CALL_WORKER => arguments.get("worker").and_then(Value::as_str),
            name => Some(name),
        };
        let workers = self.project.workers()?;
        let called = workers.iter().find(|worker| {
            let name = worker.name();
            Some(name) == called && name != caller.name() && caller.delegates().allows(name)
        });
        let Some(called) = called else {
            return Ok(None);
        };
        let pair = [caller, called];
        choose_for_call(request.model, ambient, self.project, pair, &workers).map(Some)
    }

    /// Returns the worker's toolbox. Without `models` no worker that it calls gets an answer.
    fn toolbox(
        &self,
        approval: &ApprovalFlags,
        ambient: &Ambient,
        run: &RunDir,
        recorder: Option<Arc<dyn Recorder>>,
        models: Option<Models>,
    ) -> Result<Toolbox, CliError> {
        let grant = run.mount_in_run(self.grant.clone())?;
        let programs = HostPrograms::of_project(ambient, self.project);
        let (no_sandbox, proxy) = (approval.no_os_sandbox, approval.parent_proxy);
        let isolation = setup::isolation(no_sandbox, proxy, &programs, ambient)?;
        let approver = setup::approver(approval, ambient, self.project);
        let Some(worker) = &self.worker else {
            let nobody = Caller::new("");
            return setup::toolbox(
                ambient,
                self.project,
                &grant,
                nobody,
                &isolation,
                approver,
                recorder,
            );
        };
        let (model, own, secrets) = models.map_or_else(
            || (missing(), None, Vec::new()),
            |models| (models.others, models.own, models.secrets),
        );
        let unseen = repositories::secrets_of(self.project, ambient);
        let mut session = Session::builder(model)
            .workers(self.project.workers()?)
            .max_depth(self.project.max_depth())
            .max_children(self.project.max_children())
            .os_sandbox(isolation.os)
            .docker(isolation.docker)
            .parent_proxy(isolation.parent_proxy)
            .repositories(repositories::repositories(self.project, ambient)?)
            .approver(approver)
            .recorder(recorder.unwrap_or_else(|| Arc::new(NoRecord)))
            .redactor(ambient.redactor(&[unseen, secrets].concat()));
        if let Some(own) = own {
            session = session.models(own);
        }
        let equipped = session.build().tools_of(worker, &grant);
        let equipped = equipped.map_err(setup::not_equipped)?;
        setup::print_warnings(&ambient.global, &equipped.warnings);
        Ok(equipped.toolbox)
    }
}
