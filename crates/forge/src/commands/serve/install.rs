//! `forge mcp install`: the entry that starts our server, printed or written to a client's
//! settings.

use std::path::{Path, PathBuf};

use sandbox_config::{Diagnostic, DiagnosticCode, WithoutDirectories};

use crate::cli::{Global, InstallArgs};
use crate::commands::active_commands::check_new_file;
use crate::commands::prelude::*;
use crate::install::{
    Audience, EditError, McpClient, Scope, ServerCommand, ServerEntry, SettingsEdit, SettingsFile,
    SettingsFileError, SettingsPath, SettingsRoots, absolute, edit, in_path, own_places, start,
};
use crate::output::escape::{escape, escape_lines, escape_path, shell_word};
use crate::setup;

pub(crate) fn run(args: &InstallArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let start = start(&ambient.global)?;
    let scope = args.scope.unwrap_or(args.client.usual_scope());
    let audience = match args.file {
        Some(_) => Audience::ThisUser,
        None => Audience::of(args.client, scope),
    };
    let server = ServerCommand::here(
        ambient,
        &args.name,
        args.worker.as_deref(),
        args.approver,
        audience,
    )?;
    check_worker(args, ambient)?;
    let entry = ServerEntry::new(args.client, &server);
    let target = target(args, scope, &start, ambient)?;
    let path = target.path();
    let alone = entry_as_file(args.client, &entry)?;
    let mut notes = match audience {
        Audience::Team(client) => team_notes(client, &server, ambient)?,
        Audience::ThisUser => Vec::new(),
    };
    notes.extend(setup::describe_missing_project(ambient));
    let mut facts = json!({
        "client": args.client.word(),
        "name": server.name,
        "scope": args.file.is_none().then_some(scope.word()),
        "format": args.client.format().word(),
        "file": path.to_string_lossy(),
        "entry": entry.value(),
        "text": alone,
        "command": own_command(args, scope, &server),
        "notes": notes,
        "state": "shown",
        "diff": null,
    });
    let text = if args.write {
        check_new_file(&path, ambient)?;
        write(args, &target, &entry, &mut facts)?
    } else {
        hints(&ambient.global, args, scope, &server, &path);
        alone.trim_end().to_owned()
    };
    print_result(&ambient.global, &facts, &text)?;
    Ok(show_notes(&ambient.global, &notes))
}

/// Refuses a worker that is none of the project's. A project that does not load yet, or a directory
/// without a project file and workers, decides nothing.
fn check_worker(args: &InstallArgs, ambient: &Ambient) -> Result<(), CliError> {
    let Some(name) = &args.worker else {
        return Ok(());
    };
    let defaults = WithoutDirectories::DefaultZones;
    let Ok(project) = setup::project_silently(ambient, defaults) else {
        return Ok(());
    };
    let has_workers = project.workers().is_ok_and(|workers| !workers.is_empty());
    let decides = has_workers || project.file().is_some();
    let is_unknown = |one: &Diagnostic| one.code() == DiagnosticCode::UnknownWorker;
    match project.worker(name) {
        Err(mistakes) if decides && mistakes.iter().any(is_unknown) => Err(mistakes.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Writes the entry into the client's settings, adds the result to `facts`, and describes it.
fn write(
    args: &InstallArgs,
    target: &SettingsFile,
    entry: &ServerEntry,
    facts: &mut Value,
) -> Result<String, CliError> {
    let path = target.path();
    let unusable = |error| not_used(&path, error);
    let found = target.read().map_err(unusable)?;
    let old = found.as_ref().map(|found| found.text.as_str());
    let new = match edit(args.client.format(), old, entry, args.replace) {
        Err(error) => return Err(not_edited(&path, &entry.name, error)),
        Ok(SettingsEdit::Unchanged) => {
            facts["state"] = json!("unchanged");
            return Ok(format!(
                "unchanged: {}: `{}` is there already",
                escape_path(&path),
                entry.name
            ));
        }
        Ok(SettingsEdit::New(new)) => new,
    };
    target.write(found.as_ref(), &new).map_err(unusable)?;
    let diff = diff(&path, old, &new);
    facts["state"] = json!("written");
    facts["diff"] = json!(diff);
    let text = format!("written: {}\n{}", escape_path(&path), escape_lines(&diff));
    Ok(text.trim_end().to_owned())
}

/// Only the lines that change: those around them may hold others' keys.
fn diff(path: &Path, old: Option<&str>, new: &str) -> String {
    let path = path.to_string_lossy();
    let from = old.map_or("(new file)", |_| &*path);
    similar::TextDiff::from_lines(old.unwrap_or_default(), new)
        .unified_diff()
        .context_radius(0)
        .header(from, &path)
        .to_string()
}

fn target(
    args: &InstallArgs,
    scope: Scope,
    start: &Path,
    ambient: &Ambient,
) -> Result<SettingsFile, CliError> {
    let place = match &args.file {
        Some(file) => {
            let file = absolute(&start.join(file))?;
            let name = file.file_name().map(PathBuf::from);
            name.zip(file.parent()).map(|(below, base)| SettingsPath {
                base: base.to_owned(),
                below,
            })
        }
        None => {
            let places = SettingsRoots::here(ambient.home.as_deref(), &ambient.env);
            args.client.place(scope, start, &places)
        }
    };
    place
        .and_then(|place| SettingsFile::new(place, scope))
        .ok_or_else(|| {
            CliError::usage(format!(
                "{} has no settings of scope {} here",
                args.client.word(),
                scope.word()
            ))
            .hint("another --scope, or --file FILE")
        })
}

/// Returns the entry as the only one of a file.
fn entry_as_file(client: McpClient, entry: &ServerEntry) -> Result<String, CliError> {
    match edit(client.format(), None, entry, false) {
        Ok(SettingsEdit::New(text)) => Ok(text),
        Ok(SettingsEdit::Unchanged) | Err(_) => Err(CliError::negative(
            "client.file",
            "the entry cannot be written in this format",
        )),
    }
}

fn own_command(args: &InstallArgs, scope: Scope, server: &ServerCommand) -> Option<Vec<String>> {
    // Clients pass variables in different ways and know no other file: those are left to the file.
    if !server.env.is_empty() || args.file.is_some() {
        return None;
    }
    let mut words = args.client.own_command(&server.name, scope)?;
    words.push(server.program.clone());
    words.extend(server.arguments.iter().cloned());
    Some(words)
}

fn hints(global: &Global, args: &InstallArgs, scope: Scope, server: &ServerCommand, path: &Path) {
    if global.quiet {
        return;
    }
    let whose = match (&args.file, scope) {
        (None, Scope::User) => ", so every session of the client has this project",
        (Some(_), _) | (None, Scope::Project) => "",
    };
    stderr::print(format_args!(
        "goes into {}{whose}; `--write` puts it there",
        escape_path(path)
    ));
    if let Some(words) = own_command(args, scope, server) {
        let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        stderr::print(format_args!("or: {}", escape(&words.join(" "))));
    }
}

/// Returns notes for a person about an entry in a file that a team commits.
fn team_notes(
    client: McpClient,
    server: &ServerCommand,
    ambient: &Ambient,
) -> Result<Vec<String>, CliError> {
    let mut notes = Vec::new();
    if in_path(ambient)?.is_none() {
        notes.push(
            "the entry starts `forge`, and PATH leads to no or another one here: install this one, \
             or use --scope user"
                .to_owned(),
        );
    }
    let has_host_path = |word: &&String| word.starts_with('/') || word.contains("=/");
    for word in server.arguments.iter().filter(has_host_path) {
        notes.push(format!(
            "the file is the project's, and `{}` is a path of this machine",
            escape(word)
        ));
    }
    for (name, _) in own_places(ambient) {
        notes.push(format!(
            "{name} is set here and not written into the project: set it where the client starts, \
             or use --scope user"
        ));
    }
    notes.extend(client.trust().map(str::to_owned));
    Ok(notes)
}

fn show_notes(global: &Global, notes: &[String]) -> ExitKind {
    let shown = if global.quiet { &[] } else { notes };
    for note in shown {
        stderr::print(format_args!("note: {note}"));
    }
    ExitKind::Done
}

fn not_used(path: &Path, error: SettingsFileError) -> CliError {
    let shown = escape_path(path);
    let failure = |message: String| CliError::negative("client.file", message);
    match error {
        SettingsFileError::Link { at, to } => failure(format!(
            "{} is a link to {}, and was left alone",
            escape_path(&at),
            escape_path(&to)
        ))
        .hint("if that is the file you mean, say so: `--file` with its own path"),
        SettingsFileError::Changed => {
            failure(format!("{shown} was changed meanwhile, and left alone")).hint("run it again")
        }
        SettingsFileError::Io(error) => {
            failure(format!("{shown}: {error}")).hint("without `--write` the settings are printed")
        }
    }
}

fn not_edited(path: &Path, name: &str, error: EditError) -> CliError {
    let shown = escape_path(path);
    match error {
        EditError::Syntax {
            line,
            column,
            message,
        } => CliError::misuse(
            "client.syntax",
            format!("{shown}:{line}:{column}: {message}"),
        )
        .at(path, line, column)
        .hint("the file was left alone; correct it first"),
        EditError::Shape(what) => CliError::negative("client.file", format!("{shown}: {what}"))
            .hint("it was left alone; without `--write` the settings are printed"),
        EditError::Other(command) => CliError::negative(
            "client.exists",
            format!("{shown}: `{name}` is there already, and starts: {command}"),
        )
        .hint("another --name, or --replace to put this one in its place"),
    }
}
