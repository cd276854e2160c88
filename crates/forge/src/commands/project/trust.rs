//! `forge trust`: agrees to the keys of a project that widen the rights of its workers.

use std::io::Write;
use std::path::PathBuf;

use sandbox_config::{
    PresetSet, PrivilegedSetting, Project, TrustedSettings, Untrusted, WithoutDirectories,
};

use crate::cli::{Global, TrustArgs};
use crate::commands::prelude::*;
use crate::commands::preset::describe_contents;
use crate::setup;
use crate::state::trust_store::TrustStore;

pub(crate) fn run(args: &TrustArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    // Read as if everything were agreed to, so that all keys can be shown.
    let project = setup::project_trusting(
        ambient,
        None,
        WithoutDirectories::DefaultZones,
        TrustedSettings::Given,
    )?;
    let keys = privileged_settings(&project)?;
    let presets = project.presets();
    let state = ambient.state_dir()?;
    let store = TrustStore::in_state(state);
    let hashes = store.read()?;
    let before = |key: &PrivilegedSetting| hashes.contains(key.hash());
    let is_agreed = keys.iter().all(before);
    let asks = !(args.show || args.revoke || args.yes || is_agreed);
    match ambient.global.json {
        false if keys.is_empty() && project.file().is_none() => print_line(format_args!(
            "{} has no project file, so there is nothing to agree to.",
            escape_path(project.dir())
        ))?,
        false => {
            show(&mut std::io::stdout().lock(), &keys, presets, before).map_err(CliError::stdout)?
        }
        // Standard output is for the object; a question shows the keys all the same.
        true if asks => {
            show(&mut std::io::stderr().lock(), &keys, presets, before).map_err(terminal)?
        }
        true => {}
    }
    if args.show || keys.is_empty() || (is_agreed && !args.revoke) {
        return done(&ambient.global, &keys, presets, before);
    }
    if args.revoke {
        let count = keys.iter().filter(|key| before(key)).count();
        revoke(&ambient.global, &store, &keys, count)?;
        return done(&ambient.global, &keys, presets, |_| false);
    }
    if !args.yes && !agreed(ambient)? {
        done(&ambient.global, &keys, presets, before)?;
        return Ok(ExitKind::Negative);
    }
    store.change(|hashes| hashes.extend(keys.iter().map(|key| key.hash().to_owned())))?;
    let new = keys.iter().filter(|key| !before(key)).count();
    told(
        &ambient.global,
        "Agreed to",
        new,
        "`forge trust --revoke` takes it back",
    )?;
    done(&ambient.global, &keys, presets, |_| true)
}

/// Takes back the consent to `count` of the keys.
fn revoke(
    global: &Global,
    store: &TrustStore,
    keys: &[PrivilegedSetting],
    count: usize,
) -> Result<(), CliError> {
    store.change(|hashes| {
        for key in keys {
            hashes.remove(key.hash());
        }
    })?;
    match count {
        0 if !global.json => print_line("Nothing was agreed to."),
        count => told(global, "Revoked", count, "`forge trust` agrees again"),
    }
}

/// Prints the change that was made, and the command that undoes it.
fn told(global: &Global, done: &str, count: usize, undo: &str) -> Result<(), CliError> {
    if global.json {
        return Ok(());
    }
    let count = crate::run_view::count(count as u64, "setting");
    print_line(format_args!("{done} {count}; {undo}."))
}

/// Asks about the settings without which the project is unusable, and about those that it works
/// without, and stores a yes. `true` if there was one.
pub(crate) fn ask_now(
    ambient: &Ambient,
    start: Option<PathBuf>,
    without_directories: WithoutDirectories,
) -> Result<bool, CliError> {
    let project =
        setup::project_trusting(ambient, start, without_directories, TrustedSettings::Given)?;
    let Some(state) = &ambient.state else {
        return Ok(false);
    };
    let store = TrustStore::in_state(state);
    let known = store.read()?;
    let is_needed = |key: &PrivilegedSetting| *key.rule().untrusted() == Untrusted::Refused;
    let (mut keys, others): (Vec<_>, Vec<_>) = privileged_settings(&project)?
        .into_iter()
        .filter(|key| !known.contains(key.hash()))
        .partition(is_needed);
    if keys.is_empty() {
        return Ok(false);
    }
    let print = |keys: &[PrivilegedSetting]| {
        let mut screen = std::io::stderr().lock();
        show(&mut screen, keys, project.presets(), |_| false).map_err(terminal)
    };
    print(&keys)?;
    let yes = if others.is_empty() {
        agreed(ambient)?
    } else {
        stderr::print("\nThe project asks for more, and works without it:");
        print(&others)?;
        let explanation = "y: the first settings take effect, until one of them changes; a: all of \
                           them do; any other answer: nothing changes, and nothing runs. \
                           `forge trust --revoke` takes a yes back.";
        let question = "Agree? [y] to the first  [a] to all  [n, Enter] to nothing: ";
        let answer = setup::ask_line(question, explanation)?;
        keys.extend(others.into_iter().filter(|_| is_all(&answer)));
        is_yes(&answer) || is_all(&answer)
    };
    if yes {
        store.change(|hashes| hashes.extend(keys.iter().map(|key| key.hash().to_owned())))?;
    }
    Ok(yes)
}

fn is_yes(answer: &str) -> bool {
    matches!(answer, "y" | "Y" | "yes")
}

fn is_all(answer: &str) -> bool {
    matches!(answer, "a" | "A" | "all")
}

/// With `--json`, the keys as they stand at the end.
fn done(
    global: &Global,
    keys: &[PrivilegedSetting],
    presets: &PresetSet,
    is_trusted: impl Fn(&PrivilegedSetting) -> bool,
) -> Result<ExitKind, CliError> {
    if global.json {
        let keys: Vec<Value> = keys
            .iter()
            .map(|key| {
                let mut object = json!({
                    "key": key.key(),
                    "value": key.value(),
                    "origin": key.origin().to_string(),
                    "why": key.rule().why(),
                    "agreed": is_trusted(key),
                });
                if key.key() == PresetSet::KEY {
                    object["contents"] = presets.to_json();
                }
                object
            })
            .collect();
        print_json(&json!({ "widening": keys }))?;
    }
    Ok(ExitKind::Done)
}

fn privileged_settings(project: &Project) -> Result<Vec<PrivilegedSetting>, CliError> {
    let mut keys = project.privileged_settings().to_vec();
    for worker in project.workers()? {
        keys.extend_from_slice(worker.privileged_settings());
    }
    Ok(keys)
}

fn show(
    out: &mut impl Write,
    keys: &[PrivilegedSetting],
    presets: &PresetSet,
    is_trusted: impl Fn(&PrivilegedSetting) -> bool,
) -> std::io::Result<()> {
    if keys.is_empty() {
        return writeln!(out, "This project requests no additional permissions.");
    }
    keys.iter().try_for_each(|key| {
        let mark = if is_trusted(key) {
            "agreed"
        } else {
            "not agreed"
        };
        writeln!(
            out,
            "{}: {}  ({}, {mark})\n  {}",
            escape(key.key()),
            escape(key.value()),
            escape(&key.origin().to_string()),
            key.rule().why()
        )?;
        if key.key() == PresetSet::KEY {
            for line in describe_contents(presets).lines() {
                writeln!(out, "    {line}")?;
            }
        }
        Ok(())
    })
}

fn agreed(ambient: &Ambient) -> Result<bool, CliError> {
    let hint = "pass --yes to agree to exactly the keys shown";
    setup::require_person(ambient, "", hint)?;
    let explanation = "y: the settings above take effect, until one of them changes; any other answer: \
                       nothing changes. `forge trust --revoke` takes a yes back.";
    let answer = setup::ask_line("Agree to these keys, as they are now? [y/N] ", explanation)?;
    Ok(is_yes(&answer))
}

fn terminal(error: std::io::Error) -> CliError {
    CliError::negative("terminal", error.to_string())
}
