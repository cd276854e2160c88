//! `forge init`: writes a first project file, a first worker, and help for editors. The proposal
//! fits the detected files, is shown first, and never overwrites a file.

mod detect;
mod plan;
mod write;

use std::path::{Path, PathBuf};

use sandbox_config::{Mode, Project, TrustedSettings, WithoutDirectories, find_project_file};

use crate::cli::InitArgs;
use crate::commands::prelude::*;
use crate::commands::project::init::detect::DetectedProject;
use crate::commands::project::init::plan::{InitPlan, InitZone};
use crate::setup;
use crate::setup::home_dir;
use crate::setup::program_dirs::PathDirs;
use crate::state::trust_store::TrustStore;

pub(crate) fn run(args: &InitArgs, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let base = ambient
        .global
        .directory
        .clone()
        .unwrap_or_else(|| ".".into());
    let shown = args.directory.clone().unwrap_or_default();
    let dir = base.join(&shown);
    write::nothing_there(&dir, ambient)?;
    let zones = zones(&args.zones)?;
    refuse_home(&dir, ambient)?;
    tell_of_project_above(&dir, ambient);
    tell_of_repository_outside(&dir, ambient);
    let programs = match (ambient.var("PATH"), &ambient.home) {
        (Some(path), Some(home)) => PathDirs::of_path(path, home),
        _ => PathDirs::default(),
    };
    let found = DetectedProject::detect(&dir, programs);
    let plan = if !zones.is_empty() {
        Some(InitPlan::of_zones(&found, zones))
    } else if args.minimal {
        Some(InitPlan::minimal(&found))
    } else if args.yes {
        Some(InitPlan::proposed(&found))
    } else {
        ask(ambient, &found)?
    };
    let Some(plan) = plan else {
        stderr::print("Nothing was written.");
        return Ok(ExitKind::Negative);
    };
    let written = write::all(&dir, &plan, ambient)?;
    let project = written_project(ambient, &shown)?;
    let stored = trust(ambient, &project);
    report(ambient, &shown, &written, &project)?;
    if let Err(failure) = stored {
        let hint = failure
            .hint_text()
            .unwrap_or("set FORGE_STATE_DIR to a directory of yours");
        stderr::print_diagnostic(&format!(
            "warning: the files are written, but your consent to them cannot be stored: {}\n  hint: \
             {hint}, and run `{} trust`",
            failure.message(),
            forge_there(&shown),
        ));
    }
    Ok(ExitKind::Done)
}

/// A project there would hold everything that the person has, and govern every directory below, or
/// would hold credentials.
fn refuse_home(dir: &Path, ambient: &Ambient) -> Result<(), CliError> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // A directory that does not exist yet is in the nearest one that does.
    let typed = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let existing = typed.ancestors().find(|above| above.exists());
    let nearest = existing.map_or_else(|| typed.clone(), real);
    let credentials = ambient.home.as_deref().and_then(|home| {
        let below = nearest.strip_prefix(real(home)).ok()?;
        let rest = typed.strip_prefix(existing?).ok()?;
        sandbox_names::credentials(&below.join(rest))
    });
    let of_home = home_dir::describe(dir, ambient.home.as_deref());
    let what = match (of_home, credentials) {
        (Some(what), _) => what.to_owned(),
        (None, Some(place)) => format!("in ~/{place}, where credentials are stored"),
        (None, None) => return Ok(()),
    };
    Err(CliError::misuse(
        "init",
        format!("{} is {what}: a project cannot be there", dir.display()),
    )
    .hint("go to the project, or name it: forge init DIR"))
}

/// Says that the directory is in a project, which its new project file replaces there.
fn tell_of_project_above(dir: &Path, ambient: &Ambient) {
    let existing = dir
        .ancestors()
        .find_map(|dir| match dir.as_os_str().is_empty() {
            true => Path::new(".").canonicalize().ok(),
            false => dir.canonicalize().ok(),
        });
    let above = existing.and_then(|dir| find_project_file(&dir, ambient.home.as_deref()));
    if let Some(above) = above.filter(|_| !ambient.global.quiet) {
        stderr::print(format_args!(
            "note: this directory belongs to the project of {}; a project file here takes its \
             place for this directory and those below",
            escape_path(&above)
        ));
    }
}

/// Says that the repository of the directory is outside of it, and that the file has no rules for git
/// for this reason.
fn tell_of_repository_outside(dir: &Path, ambient: &Ambient) {
    let Some(dir) = dir.canonicalize().ok().filter(|_| !ambient.global.quiet) else {
        return;
    };
    let is_repository = |git: &Path| git.is_file() || git.join("HEAD").is_file();
    let mut above = dir.ancestors();
    let top = above.find(|above| is_repository(&above.join(".git")));
    let Some(top) = top.filter(|top| top.join(".git").is_file() || *top != dir) else {
        return;
    };
    let is_above = match *top == dir {
        true => String::new(),
        false => {
            let shown = escape_path(top);
            format!(", at {shown}; a project there has both: forge init {shown}")
        }
    };
    stderr::print(format_args!(
        "note: git finds no repository in this project, which has no rules for git therefore: the \
         repository is outside of this directory{is_above}"
    ));
}

/// Loads the project as if it were trusted.
fn written_project(ambient: &Ambient, shown: &Path) -> Result<Project, CliError> {
    let start = Some(shown.to_path_buf());
    let trust = TrustedSettings::Given;
    setup::project_trusting(ambient, start, WithoutDirectories::DefaultZones, trust)
}

/// Trusts the project: agreement to a shown file is agreement to its content.
fn trust(ambient: &Ambient, project: &Project) -> Result<(), CliError> {
    let keys = project
        .privileged_settings()
        .iter()
        .chain(project.empty_places());
    let hashes: Vec<String> = keys.map(|key| key.hash().to_owned()).collect();
    match hashes.is_empty() {
        true => Ok(()),
        false => TrustStore::in_state(ambient.state_dir()?).change(|known| known.extend(hashes)),
    }
}

/// `NAME:PATH` or `NAME:PATH:MODE`.
fn zones(texts: &[String]) -> Result<Vec<InitZone>, CliError> {
    let zone = |text: &String| {
        let parts: Vec<&str> = text.split(':').collect();
        let (name, path, mode) = match parts[..] {
            [name, path] | [name, path, "rw"] => (name, path, Mode::ReadWrite),
            [name, path, "ro"] => (name, path, Mode::ReadOnly),
            _ => {
                let message = format!("--zones {text}: expected NAME:PATH or NAME:PATH:MODE");
                return Err(CliError::usage(message).hint("MODE is ro or rw: data:./data:ro"));
            }
        };
        Ok(InitZone {
            name: name.to_owned(),
            path: path.to_owned(),
            mode,
        })
    };
    texts.iter().map(zone).collect()
}

/// Shows the proposal and asks. `None` if nothing is to be written.
fn ask(ambient: &Ambient, found: &DetectedProject) -> Result<Option<InitPlan>, CliError> {
    let proposed = InitPlan::proposed(found);
    stderr::print(format_args!(
        "Found: {}.\n\n{}",
        found.described(),
        proposed.config
    ));
    if let Some(reason) = ambient.reason_not_to_ask(ambient.global.no_input) {
        return Err(
            CliError::usage(format!("nobody can be asked what to write: {reason}"))
                .hint("pass --yes to write what is proposed, --minimal, or --zones NAME:PATH:MODE"),
        );
    }
    stderr::print("[y] write it  [m] write the smallest one instead  [n, Enter] write nothing");
    let explanation = "y: the file above and a first worker are written, and you agree to what they \
                       allow; m: the same with the smallest file; any other answer: nothing is written.";
    let answer = setup::ask_line("> ", explanation)?;
    Ok(match answer.as_str() {
        "y" | "Y" | "yes" => Some(proposed),
        "m" | "M" => Some(InitPlan::minimal(found)),
        _ => None,
    })
}

/// Returns the command of forge for the project.
fn forge_there(shown: &Path) -> String {
    match shown.as_os_str().is_empty() {
        true => "forge".to_owned(),
        false => format!("forge -C {}", shown.display()),
    }
}

fn report(
    ambient: &Ambient,
    shown: &Path,
    written: &[PathBuf],
    project: &Project,
) -> Result<(), CliError> {
    let forge = forge_there(shown);
    let text = if ambient.global.json {
        let files: Vec<String> = written
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        json!({ "written": files, "next": format!("{forge} check") }).to_string()
    } else {
        let mut text: String = written
            .iter()
            .map(|file| format!("written: {}\n", file.display()))
            .collect();
        text +=
            &format!("next:\n  {forge} check\n  {forge} run 'Say what this project is about'\n");
        if project.model().is_none() && ambient.var("FORGE_MODEL").is_none() {
            text += &format!(
                "There is no model yet: {}\n",
                crate::commands::run::model::suggest_models(ambient)
            );
        }
        text.trim_end().to_owned()
    };
    print_line(text)
}
