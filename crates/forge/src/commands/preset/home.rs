//! `forge preset home`: the home directories that are kept for commands with presets.

use std::path::Path;
use std::time::{Duration, SystemTime};

use forge_tools::rfc3339;

use crate::cli::{Global, PresetHomeAction, PresetHomeArgs};
use crate::commands::prelude::*;
use crate::output::byte_count::byte_count;
use crate::output::describe::table;
use crate::state::kept_homes::{HomeListing, KeptHomes};

pub(super) fn run(args: &PresetHomeArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let state = ambient.state.as_deref();
    let state = state.ok_or_else(|| CliError::negative("state", "missing home directory"))?;
    let homes = KeptHomes::in_state(state);
    let found = homes.list().map_err(|error| failed(&error))?;
    match args.action.as_ref().unwrap_or(&PresetHomeAction::List) {
        PresetHomeAction::List => list(&found, ambient),
        PresetHomeAction::Remove { projects, all } => {
            let mut chosen: Vec<&HomeListing> = Vec::new();
            match all {
                true => chosen.extend(&found),
                false => {
                    for named in projects {
                        chosen.extend(find(&ambient.global, &found, named)?);
                    }
                }
            }
            remove(&ambient.global, &homes, &chosen)
        }
    }
}

fn list(found: &[HomeListing], ambient: &Ambient) -> Result<ExitKind, CliError> {
    let sizes = found.iter().map(HomeListing::measure);
    let sizes = sizes.collect::<std::io::Result<Vec<_>>>();
    let sizes = sizes.map_err(|error| failed(&error))?;
    let objects = found.iter().zip(&sizes).map(|(home, size)| {
        json!({
            "name": home.name,
            "project": home.project.as_ref().map(|project| project.to_string_lossy()),
            "presets": home.owners().0,
            "shared": home.owners().1,
            "path": home.path.to_string_lossy(),
            "bytes": size.bytes,
            "files": size.files,
            "last_used": rfc3339(home.last_used),
            "in_use": home.in_use,
        })
    });
    let object = json!({ "homes": objects.collect::<Vec<Value>>() });
    if found.is_empty() {
        return print_result(&ambient.global, &object, "No home directory is kept.");
    }
    let head = ["project", "for", "size", "last used", "directory"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(found.iter().zip(&sizes).map(|(home, size)| {
        let used = match home.in_use {
            true => "in use".to_owned(),
            false => age(home.last_used),
        };
        vec![
            shown(home),
            owners(home),
            byte_count(size.bytes),
            used,
            escape_path(&home.path),
        ]
    }));
    print_result(
        &ambient.global,
        &object,
        table(&rows, "", ambient.layout()).trim_end(),
    )
}

/// Returns the project of a home directory, or else its own name.
fn shown(home: &HomeListing) -> String {
    match &home.project {
        Some(project) => escape_path(project),
        None => escape(&home.name),
    }
}

/// Returns the time since a moment, in one unit.
fn age(since: SystemTime) -> String {
    let passed = SystemTime::now().duration_since(since);
    let minutes = passed.unwrap_or(Duration::ZERO).as_secs() / 60;
    let (number, unit) = match minutes {
        0 => return "just now".to_owned(),
        1..60 => (minutes, "minute"),
        60..1440 => (minutes / 60, "hour"),
        _ => (minutes / 1440, "day"),
    };
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural} ago")
}

/// Returns the presets that a home directory is for: `claude, shared`.
fn owners(home: &HomeListing) -> String {
    let (mut words, shares) = home.owners();
    if words.is_empty() {
        words.push("others");
    }
    words.extend(shares.then_some("shared"));
    escape(&words.join(", "))
}

/// Returns the home directories of a project, whether or not the project still exists.
fn find<'a>(
    global: &Global,
    found: &'a [HomeListing],
    named: &Path,
) -> Result<Vec<&'a HomeListing>, CliError> {
    let base = global.directory.as_deref().unwrap_or(Path::new("."));
    let typed = std::path::absolute(base.join(named))
        .map_err(|error| CliError::usage(format!("{}: {error}", escape_path(named))))?;
    let project = typed.canonicalize().unwrap_or(typed);
    let is_one = |home: &&HomeListing| {
        home.project.as_ref() == Some(&project) || Path::new(&home.name) == named
    };
    let homes: Vec<&HomeListing> = found.iter().filter(is_one).collect();
    if homes.is_empty() {
        let text = format!("no home directory is kept for {}", escape_path(named));
        return Err(CliError::negative("preset.home_unknown", text)
            .hint("see which are kept: forge preset home list"));
    }
    Ok(homes)
}

fn remove(
    global: &Global,
    homes: &KeptHomes,
    chosen: &[&HomeListing],
) -> Result<ExitKind, CliError> {
    let (mut removed, mut in_use, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    // The other homes are removed nevertheless.
    let mut failures = Vec::new();
    for home in chosen {
        match homes.remove(&home.name) {
            Err(error) => failures.push(format!("{}: {error}", shown(home))),
            Ok(None) => in_use.push(shown(home)),
            Ok(Some(report)) if report.left_count > 0 => failures.push(format!(
                "{}: {} entries could not be removed",
                shown(home),
                report.left_count
            )),
            Ok(Some(report)) => {
                lines.push(format!(
                    "removed the home directory of {}, {} ({})",
                    shown(home),
                    owners(home),
                    byte_count(report.bytes)
                ));
                removed.push(json!({ "name": home.name, "bytes": report.bytes }));
            }
        }
    }
    homes.finish_removals().map_err(|error| failed(&error))?;
    if chosen.is_empty() {
        lines.push("No home directory is kept.".to_owned());
    }
    let object = json!({ "removed": removed, "in_use": in_use });
    if !lines.is_empty() || global.json {
        print_result(global, &object, &lines.join("\n"))?;
    }
    if !failures.is_empty() {
        return Err(failed(&failures.join("; ")));
    }
    match in_use.as_slice() {
        [] => Ok(ExitKind::Done),
        names => {
            let text = format!("commands use the home directory of {}", names.join(", "));
            let failure = CliError::negative("preset.home_in_use", text);
            Err(failure.hint("end them first"))
        }
    }
}

fn failed(error: &dyn std::fmt::Display) -> CliError {
    let text = format!("the kept home directories: {error}");
    CliError::negative("preset.home", text)
}
