//! `forge mcp install`: what a client has to be told to start our server, printed or written to
//! its settings.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::ambient::Ambient;
use crate::cli::{Global, Install};
use crate::exit::{Exit, Failure};
use crate::install::{
    Audience, EditError, EditOutcome, McpClient, Scope, ServerCommand, ServerEntry, SettingsFile,
    SettingsFileError, SettingsPath, SettingsRoots, absolute, edit, in_path, own_places, start,
};
use crate::stderr::say;
use crate::visible::{shell_word, visible, visible_lines, visible_path};

pub(crate) fn run(global: &Global, args: &Install, ambient: &Ambient) -> Result<Exit, Failure> {
    let start = start(global)?;
    let scope = args.scope.unwrap_or(args.client.usual_scope());
    let audience = match args.file {
        Some(_) => Audience::ThisUser,
        None => Audience::of(args.client, scope),
    };
    let server = ServerCommand::here(
        global,
        ambient,
        &args.name,
        args.worker.as_deref(),
        args.approver,
        audience,
    )?;
    let entry = ServerEntry::new(args.client, &server);
    let target = target(args, scope, &start, ambient)?;
    let path = target.path();
    let alone = alone(args.client, &entry)?;
    let notes = match audience {
        Audience::Team(client) => team_notes(client, &server, ambient)?,
        Audience::ThisUser => Vec::new(),
    };
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
    if !args.write {
        hints(global, args, scope, &server, &path);
        print(global, &facts, alone.trim_end())?;
        return Ok(show_notes(global, &notes));
    }
    let unusable = |error| not_used(&path, error);
    let found = target.read().map_err(unusable)?;
    let old = found.as_ref().map(|found| found.text.as_str());
    let new = match edit(args.client.format(), old, &entry, args.replace) {
        Err(error) => return Err(not_edited(&path, &server.name, error)),
        Ok(EditOutcome::Unchanged) => {
            facts["state"] = json!("unchanged");
            let text = format!(
                "unchanged: {}: `{}` is there already",
                visible_path(&path),
                server.name
            );
            print(global, &facts, &text)?;
            return Ok(show_notes(global, &notes));
        }
        Ok(EditOutcome::New(new)) => new,
    };
    target.write(found.as_ref(), &new).map_err(unusable)?;
    let diff = diff(&path, old, &new);
    facts["state"] = json!("written");
    facts["diff"] = json!(diff);
    let text = format!("written: {}\n{}", visible_path(&path), visible_lines(&diff));
    print(global, &facts, text.trim_end())?;
    Ok(show_notes(global, &notes))
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

fn print(global: &Global, facts: &Value, text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match global.json {
        true => writeln!(out, "{facts}"),
        false => writeln!(out, "{text}"),
    }
    .map_err(Failure::stdout)
}

fn target(
    args: &Install,
    scope: Scope,
    start: &Path,
    ambient: &Ambient,
) -> Result<SettingsFile, Failure> {
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
            Failure::usage(format!(
                "{} has no settings of scope {} here",
                args.client.word(),
                scope.word()
            ))
            .hint("another --scope, or --file FILE")
        })
}

/// The entry as it stands in a file of its own.
fn alone(client: McpClient, entry: &ServerEntry) -> Result<String, Failure> {
    match edit(client.format(), None, entry, false) {
        Ok(EditOutcome::New(text)) => Ok(text),
        Ok(EditOutcome::Unchanged) | Err(_) => Err(Failure::new(
            Exit::Negative,
            "client.file",
            "the entry cannot be written in this format",
        )),
    }
}

fn own_command(args: &Install, scope: Scope, server: &ServerCommand) -> Option<Vec<String>> {
    // Clients pass variables in different ways and know no other file: those are left to the file.
    if !server.env.is_empty() || args.file.is_some() {
        return None;
    }
    let mut words = args.client.own_command(&server.name, scope)?;
    words.push(server.program.clone());
    words.extend(server.arguments.iter().cloned());
    Some(words)
}

fn hints(global: &Global, args: &Install, scope: Scope, server: &ServerCommand, path: &Path) {
    if global.quiet {
        return;
    }
    say(format_args!(
        "goes into {}; `--write` puts it there",
        visible_path(path)
    ));
    if let Some(words) = own_command(args, scope, server) {
        let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        say(format_args!("or: {}", visible(&words.join(" "))));
    }
}

/// Returns notes for a person about an entry in a file that a team commits.
fn team_notes(
    client: McpClient,
    server: &ServerCommand,
    ambient: &Ambient,
) -> Result<Vec<String>, Failure> {
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
            visible(word)
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

fn show_notes(global: &Global, notes: &[String]) -> Exit {
    let shown = if global.quiet { &[] } else { notes };
    for note in shown {
        say(format_args!("note: {note}"));
    }
    Exit::Done
}

fn not_used(path: &Path, error: SettingsFileError) -> Failure {
    let shown = visible_path(path);
    let failure = |message: String| Failure::new(Exit::Negative, "client.file", message);
    match error {
        SettingsFileError::Link { at, to } => failure(format!(
            "{} is a link to {}, and was left alone",
            visible_path(&at),
            visible_path(&to)
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

fn not_edited(path: &Path, name: &str, error: EditError) -> Failure {
    let shown = visible_path(path);
    match error {
        EditError::Syntax {
            line,
            column,
            message,
        } => Failure::new(
            Exit::Usage,
            "client.syntax",
            format!("{shown}:{line}:{column}: {message}"),
        )
        .at(path, line, column)
        .hint("the file was left alone; correct it first"),
        EditError::Shape(what) => {
            Failure::new(Exit::Negative, "client.file", format!("{shown}: {what}"))
                .hint("it was left alone; without `--write` the settings are printed")
        }
        EditError::Other(command) => Failure::new(
            Exit::Negative,
            "client.exists",
            format!("{shown}: `{name}` is there already, and starts: {command}"),
        )
        .hint("another --name, or --replace to put this one in its place"),
    }
}
