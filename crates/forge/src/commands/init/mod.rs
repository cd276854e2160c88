//! `forge init`: a first project file, a first worker, and help for editors. Proposes what fits
//! what is found, shows it, and never overwrites anything.

mod detect;
mod plan;
mod write;

use std::collections::BTreeSet;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use sandbox_config::{Code, Mode, Trust, WithoutFile};
use serde_json::json;

use crate::ambient::Ambient;
use crate::cli::{Global, Init as Args};
use crate::commands::init::detect::Found;
use crate::commands::init::plan::{Plan, Zone};
use crate::exit::{Exit, Failure};
use crate::gather;
use crate::stderr::say;

pub(crate) fn run(global: &Global, args: &Args, ambient: &Ambient) -> Result<Exit, Failure> {
    let base = global.directory.clone().unwrap_or_else(|| ".".into());
    let shown = args.directory.clone().unwrap_or_default();
    let dir = base.join(&shown);
    write::nothing_there(&dir)?;
    let zones = zones(&args.zones)?;
    let found = Found::look(&dir);
    let plan = if !zones.is_empty() {
        Some(Plan::of_zones(&found, zones))
    } else if args.minimal {
        Some(Plan::minimal(&found))
    } else if args.yes {
        Some(Plan::proposed(&found))
    } else {
        ask(global, ambient, &found)?
    };
    let Some(plan) = plan else {
        return Ok(Exit::Negative);
    };
    // A yes to what is proposed is `forge trust`'s to ask for; what somebody types is refused.
    let trust = match args.zones.as_slice() {
        [] => Trust::Given,
        _ => Trust::Store(BTreeSet::new()),
    };
    let written = write::all(&dir, &plan, trust)?;
    let command = next(global, ambient, &shown);
    report(global, &shown, &written, command)?;
    Ok(Exit::Done)
}

/// `NAME:PATH` or `NAME:PATH:MODE`.
fn zones(texts: &[String]) -> Result<Vec<Zone>, Failure> {
    let zone = |text: &String| {
        let parts: Vec<&str> = text.split(':').collect();
        let (name, path, mode) = match parts[..] {
            [name, path] | [name, path, "rw"] => (name, path, Mode::ReadWrite),
            [name, path, "ro"] => (name, path, Mode::ReadOnly),
            _ => {
                let message = format!("--zones {text}: expected NAME:PATH or NAME:PATH:MODE");
                return Err(Failure::usage(message).hint("MODE is ro or rw: data:./data:ro"));
            }
        };
        Ok(Zone {
            name: name.to_owned(),
            path: path.to_owned(),
            mode,
        })
    };
    texts.iter().map(zone).collect()
}

/// Shows the proposal and asks. None: nothing is to be written.
fn ask(global: &Global, ambient: &Ambient, found: &Found) -> Result<Option<Plan>, Failure> {
    if let Some(reason) = ambient.nobody_to_ask(global.no_input) {
        return Err(Failure::new(
            Exit::Usage,
            "usage",
            format!("nobody can be asked what to write: {reason}"),
        )
        .hint("pass --yes to write what is proposed, --minimal, or --zones NAME:PATH:MODE"));
    }
    let proposed = Plan::proposed(found);
    say(format_args!(
        "Found: {}.\n\n{}\n{}",
        found.described(),
        proposed.config,
        "[y] write it  [m] write the smallest one instead  [n] write nothing"
    ));
    let answer = (|| {
        let mut screen = std::io::stderr().lock();
        write!(screen, "> ")?;
        screen.flush()?;
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line)?;
        Ok(line)
    })();
    let answer = answer.map_err(|error: std::io::Error| {
        Failure::new(Exit::Negative, "terminal", error.to_string())
    })?;
    Ok(match answer.trim() {
        "y" | "Y" | "yes" => Some(proposed),
        "m" | "M" => Some(Plan::minimal(found)),
        _ => None,
    })
}

/// What to type next. Outside of any repository, files that workers may write need a yes first:
/// nothing would bring them back.
fn next(global: &Global, ambient: &Ambient, shown: &Path) -> &'static str {
    let start = Some(shown.to_path_buf());
    let loaded = gather::silently(global, ambient, start, WithoutFile::DefaultZones);
    let needs_yes = loaded.is_err_and(|failure| {
        let mistakes = failure.diagnostics();
        mistakes.is_some_and(|mistakes| mistakes.iter().any(|one| one.code() == Code::Untrusted))
    });
    if needs_yes { "trust" } else { "check" }
}

fn report(
    global: &Global,
    shown: &Path,
    written: &[PathBuf],
    command: &str,
) -> Result<(), Failure> {
    let next = if shown.as_os_str().is_empty() {
        format!("forge {command}")
    } else {
        format!("forge -C {} {command}", shown.display())
    };
    let mut out = std::io::stdout().lock();
    let text = if global.json {
        let files: Vec<String> = written
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        json!({ "written": files, "next": next }).to_string()
    } else {
        let mut text: String = written
            .iter()
            .map(|file| format!("written: {}\n", file.display()))
            .collect();
        text += &format!("next: {next}");
        text
    };
    writeln!(out, "{text}").map_err(Failure::stdout)
}
