//! `forge config`: the effective configuration, and the source of each value.

use std::path::Path;

use sandbox_config::{ConfigOrigin, EffectiveSettings, Project, WithoutDirectories};

use crate::cli::{ConfigAction, ConfigArgs, Global};
use crate::commands::prelude::*;
use crate::output::describe;
use crate::setup;

pub(crate) fn run(args: &ConfigArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let shown = ConfigAction::Show { origin: false };
    let load = || setup::project(ambient, None, WithoutDirectories::DefaultZones);
    let text = match args.action.as_ref().unwrap_or(&shown) {
        ConfigAction::Show { .. } if ambient.global.json => {
            let project = load()?;
            everything(&project, &project.settings()).to_string()
        }
        ConfigAction::Show { origin } => load()?.settings().to_yaml(*origin),
        // Why: the list of files gives no access, and helps a person decide whether to trust them.
        ConfigAction::Path => paths(setup::project_file(ambient)?.as_deref(), ambient),
        ConfigAction::Get { key } => value(&ambient.global, &load()?.settings(), key)?,
        ConfigAction::Set { .. } => {
            let own = ambient.user_file.as_deref();
            let own = own.map(|file| format!("your own {}", escape_path(file)));
            let project = setup::project_file(ambient)?;
            let file = project.as_deref().map(escape_path);
            let files: Vec<String> = file.into_iter().chain(own).collect();
            let told = CliError::usage("forge changes no settings");
            return Err(told.hint(format!("edit {}", files.join(", or "))));
        }
    };
    print_line(text.trim_end())?;
    Ok(ExitKind::Done)
}

fn value(global: &Global, settings: &EffectiveSettings, key: &str) -> Result<String, CliError> {
    let value = settings.get(key).map_err(|unknown| {
        let failure = CliError::misuse("config.unknown_key", unknown.to_string());
        match unknown.nearest() {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`forge config show` lists what holds"),
        }
    })?;
    Ok(match value {
        Value::Null if !global.json && !global.quiet => {
            stderr::print(format_args!("note: nothing sets `{}`", escape(key)));
            value.to_string()
        }
        // Plain text for a script.
        Value::String(text) if !global.json => escape(&text),
        other => other.to_string(),
    })
}

/// The files that are read, the project's first; a person's own file is named if it is absent, too.
fn paths(project: Option<&Path>, ambient: &Ambient) -> String {
    let user = ambient.user_file.as_deref();
    if ambient.global.json {
        return json!({
            "project": project.map(Path::to_string_lossy),
            "user": user.map(Path::to_string_lossy),
            "user_exists": user.is_some_and(Path::exists),
        })
        .to_string();
    }
    let mut lines = Vec::new();
    match project {
        Some(file) => lines.push(escape_path(file)),
        None => lines.push("no project file".to_owned()),
    }
    if let Some(file) = user {
        let mark = if file.exists() { "" } else { "  (absent)" };
        lines.push(format!("{}{mark}", escape_path(file)));
    }
    lines.join("\n")
}

fn everything(project: &Project, settings: &EffectiveSettings) -> Value {
    let list = settings.list();
    json!({
        "file": project.file().map(Path::to_string_lossy),
        "settings": list.iter().map(|one| json!({
            "key": one.key(),
            "value": one.value(),
            "origin": origin(one.origin()),
        })).collect::<Vec<_>>(),
        "ignored": settings.ignored().iter().map(|key| json!({
            "key": key.key(),
            "value": key.value(),
            "why": key.rule().why(),
            "origin": origin(key.origin()),
        })).collect::<Vec<_>>(),
        "mounts": project.ceiling().mounts().map(|mount| json!({
            "path": mount.target(),
            "mode": mount.mode_word(),
            "host": describe::host_json(mount),
            "origin": origin(mount.origin()),
        })).collect::<Vec<_>>(),
    })
}

/// Absent parts are null.
fn origin(origin: &ConfigOrigin) -> Value {
    let place = |number: u32| (number > 0).then_some(number);
    json!({
        "layer": origin.layer().word(),
        "file": origin.name(),
        "line": place(origin.line()),
        "column": place(origin.column()),
    })
}
