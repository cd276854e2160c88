//! `forge preset`: the presets of `forge exec`.

mod home;

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use sandbox_config::{HostGroup, PresetLibrary, PresetSet, PresetState, SeenName, StateMode};

use crate::cli::{Global, PresetAction, PresetArgs};
use crate::commands::prelude::*;
use crate::output::describe;
use crate::setup::presets;

pub(crate) fn run(args: &PresetArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let library = presets::library(ambient);
    match args.action.as_ref().unwrap_or(&PresetAction::List) {
        PresetAction::List => list(&library, ambient),
        PresetAction::Show { name, expanded } => show(&ambient.global, &library, name, *expanded),
        PresetAction::Check { what } => check(&ambient.global, &library, what),
        PresetAction::Copy { name, new } => copy(&library, name, new, ambient),
        PresetAction::Home(args) => home::run(args, ambient),
    }
}

fn list(library: &PresetLibrary, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let mut rows = vec![["preset", "for", "tried with"].map(str::to_owned).to_vec()];
    let mut objects = Vec::new();
    for name in library.names() {
        // One with mistakes does not hide the others; `check` shows its mistakes.
        let Ok(preset) = library.read(&name) else {
            rows.push(vec![
                name.clone(),
                "(has mistakes: forge preset check)".to_owned(),
                String::new(),
            ]);
            objects.push(json!({ "name": name, "valid": false }));
            continue;
        };
        let tried = preset
            .verified()
            .map(|tried| format!("{} {}", tried.tool, tried.version));
        rows.push(vec![
            name.clone(),
            escape(preset.about()),
            escape(tried.as_deref().unwrap_or("")),
        ]);
        objects.push(json!({
            "name": name,
            "valid": true,
            "about": preset.about(),
            "commands": preset.commands(),
            "built_in": preset.file().is_none(),
            "sha256": preset.sha256(),
            "verified": tried,
        }));
    }
    let text = describe::table(&rows, "", ambient.layout());
    print_result(&ambient.global, &Value::Array(objects), text.trim_end())
}

fn show(
    global: &Global,
    library: &PresetLibrary,
    name: &str,
    is_expanded: bool,
) -> Result<ExitKind, CliError> {
    let preset = library.read(name)?;
    if !is_expanded {
        let object = json!({ "name": name, "sha256": preset.sha256(), "text": preset.text() });
        return print_result(global, &object, preset.text().trim_end());
    }
    let set = library.compose(&[name.to_owned()])?;
    print_result(global, &set.to_json(), &describe_contents(&set))
}

/// Returns the keys that stay outside, each with its server.
fn outside_keys(set: &PresetSet) -> Vec<String> {
    let keys = set.credentials().map(|one| {
        let server = one.server.host().with_port(one.server.port());
        format!("{} for {server}", one.key)
    });
    keys.collect()
}

/// Returns the names of the person's that commands see.
fn seen_names(set: &PresetSet) -> Vec<String> {
    let names = set.identity().into_iter().zip(["this host", "your user"]);
    let names = names.filter(|(seen, _)| *seen == SeenName::Host);
    names.map(|(_, origin)| origin.to_owned()).collect()
}

/// Describes the rights of presets, with the file of each one of the person's.
pub(crate) fn describe_contents(set: &PresetSet) -> String {
    let mut lines = Vec::new();
    let mut say = |what: &str, list: Vec<String>| {
        if !list.is_empty() {
            lines.push(format!("{what}: {}", escape(&list.join(", "))));
        }
    };
    let texts = |list: &mut dyn Iterator<Item = &str>| list.map(str::to_owned).collect::<Vec<_>>();
    let names = set.presets().iter().map(|one| {
        let own = one.file().map(|file| format!(" ({})", file.display()));
        let own = own.unwrap_or_default();
        format!("{} {}{own}", one.name(), &one.sha256()[..12])
    });
    say("presets", names.collect());
    say("runs programs", texts(&mut set.programs()));
    for (group, key) in HostGroup::ALL {
        let suffix = if group.is_default() {
            ""
        } else {
            " (off: --host-group)"
        };
        let hosts = set.hosts(|one| one == group).collect();
        say(&format!("hosts, {key}{suffix}"), hosts);
    }
    let registries = set.registries();
    let registries = registries.flat_map(|one| one.env.iter().chain(&one.files).cloned());
    say("hosts of package registries, from", registries.collect());
    let state = |wanted: &dyn Fn(&PresetState) -> bool| -> Vec<String> {
        let state = set.state().filter(|one| wanted(one));
        state.map(|one| format!("~/{}", one.path)).collect()
    };
    say("reads", state(&|one| !one.needs_yes()));
    for (mode, what) in [
        (StateMode::Read, "reads after your yes"),
        (StateMode::Share, "reads and writes after your yes"),
        (StateMode::Copy, "gets a copy after your yes"),
    ] {
        say(what, state(&|one| one.mode == mode && one.needs_yes()));
    }
    let guarded = set.state().flat_map(|one| {
        let names = one.protect.iter();
        names.map(|name| format!("~/{}{name}", one.path))
    });
    say("but changes none of", guarded.collect());
    say("gets keys after your yes", texts(&mut set.keys()));
    say("keys that stay outside, for one server", outside_keys(set));
    say("gets variables of yours", texts(&mut set.passed()));
    say("sets variables", set.variables().collect());
    say("sees the names of", seen_names(set));
    say("may write in the project", texts(&mut set.unprotected()));
    say("but not", texts(&mut set.protected()));
    say("turns off the sandbox of", set.without_inner_sandbox());
    for note in set.notes() {
        lines.push(format!("note: {}", escape(note)));
    }
    lines.join("\n")
}

fn check(global: &Global, library: &PresetLibrary, what: &Path) -> Result<ExitKind, CliError> {
    let name = what.to_str().filter(|name| !name.contains(['/', '.']));
    let preset = match name {
        Some(name) => library.read(name)?,
        None => PresetLibrary::read_file(what)?,
    };
    // The presets that it includes have to exist, too.
    for included in preset.extends() {
        library.compose(std::slice::from_ref(included))?;
    }
    let object = json!({ "name": preset.name(), "sha256": preset.sha256(), "valid": true });
    print_result(
        global,
        &object,
        &format!("{}: no mistakes", escape(preset.name())),
    )
}

fn copy(
    library: &PresetLibrary,
    name: &str,
    new: &str,
    ambient: &Ambient,
) -> Result<ExitKind, CliError> {
    let preset = library.read(name)?;
    if library.names().iter().any(|known| known == new) {
        return Err(
            CliError::negative("preset", format!("preset `{new}` exists already"))
                .hint("choose another name; nothing was written"),
        );
    }
    let text: Vec<String> = preset
        .text()
        .lines()
        .map(|line| match line.starts_with("preset:") {
            true => format!("preset: {new}"),
            false => line.to_owned(),
        })
        .collect();
    let directory = presets::own_directory(ambient)
        .ok_or_else(|| CliError::negative("preset", "missing directory for presets of yours"))?;
    let file = directory.join(format!("{new}.yaml"));
    let failed = |error: std::io::Error| {
        let text = format!("{}: {error}", escape_path(&file));
        CliError::negative("preset", text)
    };
    // An invalid name is told before anything is written.
    PresetLibrary::parse(new, &text.join("\n"))?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(failed)?;
    let mut options = OpenOptions::new();
    let mut out = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&file)
        .map_err(failed)?;
    out.write_all(format!("{}\n", text.join("\n")).as_bytes())
        .map_err(failed)?;
    let object = json!({ "name": new, "file": file.display().to_string() });
    print_result(
        &ambient.global,
        &object,
        &format!("wrote {}", escape_path(&file)),
    )
}
