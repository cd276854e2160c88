//! `forge doctor --docker`: whether calls of the project here can run in containers, found out as they
//! would find it out.

use forge_runtime::NodeContainers;
use os_sandbox::mechanism::Scratch;
use sandbox_config::{Project, WithoutDirectories};

use crate::commands::prelude::*;
use crate::output::escape::{escape, escape_lines};
use crate::setup;
use crate::setup::engine;
use crate::setup::host_programs::HostPrograms;

/// The engine that runs containers of the project, or the reason for its failure and a hint.
type ContainerTrial = Result<NodeContainers, (String, Option<String>)>;

pub(crate) fn run(ambient: &Ambient) -> Result<ExitKind, CliError> {
    let project = setup::project(ambient, None, WithoutDirectories::WholeDirectory)?;
    let tried = try_containers(&project, ambient)?;
    let text = match ambient.global.json {
        true => as_json(&project, &tried).to_string(),
        false => as_text(&project, &tried),
    };
    print_line(text)?;
    Ok(match tried {
        Ok(_) => ExitKind::Done,
        Err(_) => ExitKind::Negative,
    })
}

fn try_containers(project: &Project, ambient: &Ambient) -> Result<ContainerTrial, CliError> {
    let docker = project.ceiling().execution().docker();
    let tried = engine::docker(ambient, &HostPrograms::of_project(ambient, project)).probe(docker);
    // A directory of each run is one like any other.
    let scratch = Scratch::in_state(engine::state_dir(ambient).as_deref()).map_err(|error| {
        CliError::negative("docker", format!("cannot make a directory: {error}"))
    })?;
    let grant = match project.ceiling() {
        grant if grant.awaits_run() => grant.in_run(&scratch.tmp()),
        grant => grant.clone(),
    };
    let tried = tried.map_err(|error| (error.to_string(), error.remediation().map(str::to_owned)));
    Ok(tried.and_then(|found| match found.try_for(&grant) {
        Ok(()) => Ok(found),
        Err(error) => {
            let failure = setup::not_equipped(error);
            Err((
                failure.message().to_owned(),
                failure.hint_text().map(str::to_owned),
            ))
        }
    }))
}

/// Describes the trial for programs. Both facts are reported: an engine that works is of no use to a project that does not look for it.
fn as_json(project: &Project, tried: &ContainerTrial) -> Value {
    let execution = project.ceiling().execution();
    json!({ "docker": {
        "usable": tried.is_ok(),
        "image": execution.docker().image(),
        "engine": tried.as_ref().ok().map(|found| found.engine_version()),
        "digest": tried.as_ref().ok().map(|found| found.digest()),
        "why": tried.as_ref().err().map(|(why, _)| why),
        "how_to_get_it": tried.as_ref().err().and_then(|(_, hint)| hint.as_ref()),
        "mode": execution.mode().to_string(),
        "not_used_because": execution.without_docker(),
    }})
}

fn as_text(project: &Project, tried: &ContainerTrial) -> String {
    let execution = project.ceiling().execution();
    let mode = execution.mode();
    let found = match tried {
        Ok(found) => format!(
            "Containers work: Docker {}, image {} ({}).\nA container of it was started with the \
             directories and the network of this project, and forge in it read a file of this \
             machine.",
            escape(found.engine_version()),
            escape(execution.docker().image()),
            escape(found.digest()),
        ),
        Err((why, hint)) => {
            let hint = hint.as_deref().unwrap_or("look at the engine's own log");
            format!(
                "Containers do not work: {}\n\nto do: {}",
                escape_lines(why),
                escape_lines(hint)
            )
        }
    };
    let network = project.ceiling().network();
    let network = match execution.network_in_containers(network) {
        Some(why) => format!("note: {why}.\n"),
        None => String::new(),
    };
    let used = match execution.without_docker() {
        Some(why) => format!("This project does not use them: {why}."),
        None => format!("This project says `execution.mode: {mode}`."),
    };
    format!("{found}\n{network}{used}")
}
