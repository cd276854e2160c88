//! `forge worker list|show|new`: the workers of a project, with their grants.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use sandbox_config::{DelegationNode, Grant, Project, WithoutDirectories, Worker};

use crate::cli::{Global, WorkerAction, WorkerArgs};
use crate::commands::active_commands::check_new_file;
use crate::commands::prelude::*;
use crate::output::describe::{self, TextLayout};
use crate::setup;
use crate::setup::offered_tools;
use crate::state::private_dirs::make_below;

pub(crate) fn run(args: &WorkerArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let project = setup::project(ambient, None, WithoutDirectories::DefaultZones)?;
    let (object, text) = match args.action.as_ref().unwrap_or(&WorkerAction::List) {
        WorkerAction::List => list(&project, ambient.layout())?,
        WorkerAction::Show { name, tree } => {
            show(&project, name, *tree, &ambient.global, ambient.layout())?
        }
        WorkerAction::New { name, description } => {
            new(ambient, &project, name, description.as_deref())?
        }
    };
    print_result(&ambient.global, &object, text.trim_end())
}

fn list(project: &Project, layout: TextLayout) -> Result<(Value, String), CliError> {
    let workers = project.workers()?;
    let mut rows = Vec::new();
    let mut objects = Vec::new();
    for worker in &workers {
        let is_entry = worker.name() == project.entry();
        let granted = project.entry_grant(worker);
        let (rights, grant, refused) = match &granted {
            Ok(grant) => (describe::rights(grant), describe::grant_json(grant), None),
            Err(escalation) => {
                let why = escalation.to_string();
                (
                    format!("refused: {}", why.replace('\n', "; ")),
                    Value::Null,
                    Some(why),
                )
            }
        };
        rows.push(vec![
            format!(
                "{}{}",
                worker.name(),
                if is_entry { " (entry)" } else { "" }
            ),
            rights,
            worker.description().unwrap_or("").to_owned(),
        ]);
        objects.push(json!({
            "name": worker.name(),
            "entry": is_entry,
            "description": worker.description(),
            "file": worker.file().to_string_lossy(),
            "grant": grant,
            "refused": refused,
            "calls": describe::delegates_json(worker),
        }));
    }
    let text = if rows.is_empty() {
        "This project has no workers. `forge worker new main` begins one.".to_owned()
    } else {
        describe::table(&rows, "", layout)
    };
    Ok((json!({ "workers": objects }), text))
}

fn show(
    project: &Project,
    name: &str,
    tree: bool,
    global: &Global,
    layout: TextLayout,
) -> Result<(Value, String), CliError> {
    let worker = project.worker(name)?;
    let grant = setup::entry_grant(project, &worker)?;
    let tools = offered_tools::tools(&grant)
        .map_err(|error| CliError::misuse("config.tool_name", error))?;
    let names: Vec<&str> = tools.iter().map(|spec| spec.name.as_str()).collect();
    let narrowed = project.ceiling().excess_over(&grant);

    let mut text = worker_text(&worker, &grant, global.verbose > 0, layout);
    let confinement = describe::confinement(&grant);
    let facts = facts(project, &worker, &grant, &names, &narrowed);
    for (name, value) in confinement.iter().chain(&facts) {
        text.push_str(&layout.wrap(&format!("{name}: {value}"), "  "));
    }
    let mut object = json!({
        "name": worker.name(),
        "entry": worker.name() == project.entry(),
        "description": worker.description(),
        "file": worker.file().to_string_lossy(),
        "model": worker.model().or_else(|| project.model()),
        "grant": describe::grant_json(&grant),
        "narrowed": narrowed,
        "tools": names,
        "input_schema": worker.input_schema(),
        "output_schema": worker.output_schema(),
        "calls": describe::delegates_json(&worker),
    });
    if tree {
        let branch = subtree(project, &worker);
        if let Some(branch) = &branch {
            let _ = write!(
                text,
                "\n{}",
                describe::tree(std::slice::from_ref(branch), project.entry(), layout)
            );
        }
        object["tree"] = branch.as_ref().map(describe::tree_json).into();
    }
    Ok((object, text))
}

/// Describes a worker, its purpose and its mounts.
fn worker_text(worker: &Worker, grant: &Grant, verbose: bool, layout: TextLayout) -> String {
    let mut text = format!(
        "worker {} ({})\n",
        escape(worker.name()),
        escape(worker.shown())
    );
    if let Some(description) = worker.description() {
        text.push_str(&layout.wrap(&format!("description: {description}"), "  "));
    }
    let _ = writeln!(
        text,
        "\n{}",
        describe::mount_table(grant, "  ", layout, verbose).trim_end()
    );
    text.push('\n');
    text
}

fn facts(
    project: &Project,
    worker: &Worker,
    grant: &Grant,
    names: &[&str],
    narrowed: &[String],
) -> Vec<(&'static str, String)> {
    let or_none = |list: &[String]| match list {
        [] => "nothing".to_owned(),
        list => list.join(", "),
    };
    let tool_names = match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let model = worker.model().or_else(|| project.model()).unwrap_or("none");
    vec![
        ("shell", describe::shell(grant)),
        ("tools", tool_names),
        ("calls", describe::delegates(worker)),
        ("model", model.to_owned()),
        ("input", shape(worker.input_schema())),
        ("answer", shape(worker.output_schema())),
        ("narrower than the project", or_none(narrowed)),
    ]
}

fn shape(schema: Option<&Value>) -> String {
    let words = match schema {
        Some(_) => "JSON that fits its schema",
        None => "any text",
    };
    words.to_owned()
}

/// The tree below a worker, as if a person had started it.
fn subtree(project: &Project, worker: &Worker) -> Option<DelegationNode> {
    project.branch(worker.name())
}

fn new(
    ambient: &Ambient,
    project: &Project,
    name: &str,
    description: Option<&str>,
) -> Result<(Value, String), CliError> {
    let usage = |message: String| CliError::usage(message);
    if !sandbox_config::is_worker_name(name) {
        return Err(usage(format!("`{name}` cannot be a worker's name")).hint(
            "lower-case letters, digits, `_` and `-`, a letter first, at most 64 of them: it becomes a tool's name",
        ));
    }
    let file_name = format!("{name}.worker");
    // Read before anything is written: a broken neighbour would stop the next command anyway.
    if let Some(there) = project
        .workers()?
        .iter()
        .find(|worker| worker.name() == name)
    {
        return Err(exists(there.file()));
    }
    let Some(dir) = project.worker_dirs().first() else {
        return Err(usage(
            "`worker_paths` is empty, so there is no place for a worker".to_owned(),
        ));
    };
    let text = template(name, description.unwrap_or("Say here what it does."));
    check_new_file(&dir.join(&file_name), ambient)?;
    let path = write(project.dir(), dir, &file_name, &text)?;
    let shown = match (&ambient.global.directory, path.strip_prefix(project.dir())) {
        (None, Ok(below)) if std::env::current_dir().is_ok_and(|here| here == project.dir()) => {
            below.to_owned()
        }
        (_, _) => path.clone(),
    };
    Ok((
        json!({ "name": name, "file": path.to_string_lossy() }),
        escape_path(&shown),
    ))
}

fn exists(path: &Path) -> CliError {
    CliError::negative(
        "worker.exists",
        format!("{} is there already", escape_path(path)),
    )
    .hint("choose another name; nothing was written")
}

/// Returns a worker without rights, with the possible rights beside it.
fn template(name: &str, description: &str) -> String {
    // A JSON string is a valid YAML string.
    let description = Value::from(description);
    format!(
        "---
name: {name}
description: {description}
# What it may touch, at most what its caller holds. `none` makes it a pure function.
# sandbox:
#   zones:
#     - {{ name: workspace, mode: ro }}
sandbox: none
# Workers that it may call.
workers: []
---
Say here what {name} is to do, and when it is done.
"
    )
}

/// The file appears whole or not at all, and never in the place of another: written beside it
/// and linked (link(2) fails where something is).
fn write(project: &Path, dir: &Path, name: &str, text: &str) -> Result<PathBuf, CliError> {
    let path = dir.join(name);
    let failed = |error: &std::io::Error| {
        CliError::negative(
            "worker.not_written",
            format!("cannot write {}: {error}", escape_path(&path)),
        )
    };
    let outside = || {
        CliError::negative(
            "worker.not_written",
            format!("{} leads out of the project", escape_path(dir)),
        )
    };
    // An existing entry may be a link within the project.
    let there = dir
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok())
        .unwrap_or(project);
    let base = there.canonicalize().map_err(|error| failed(&error))?;
    if !base.starts_with(project) {
        return Err(outside());
    }
    let below = dir.strip_prefix(there).map_err(|_| outside())?;
    make_below(&base, below).map_err(|error| failed(&error))?;
    // A search path that is a link leads out of the project.
    let real = dir.canonicalize().map_err(|error| failed(&error))?;
    if !real.starts_with(project) {
        return Err(outside());
    }
    let unfinished = dir.join(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        std::fs::hard_link(&unfinished, &path)
    })();
    let _ = std::fs::remove_file(&unfinished);
    match written {
        Ok(()) => Ok(path),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(&path)),
        Err(error) => Err(failed(&error)),
    }
}
