//! `forge doctor --docker`: whether calls of the project here can run in containers, found out as they
//! would find it out.

use std::io::Write as _;

use sandbox_config::WithoutFile;
use serde_json::json;

use crate::ambient::Ambient;
use crate::cli::Global;
use crate::exit::{CliError, ExitKind};
use crate::output::escape::{escape, escape_lines};
use crate::setup;
use crate::setup::engine;

pub(crate) fn run(global: &Global, ambient: &Ambient) -> Result<ExitKind, CliError> {
    let project = setup::project(global, ambient, None, WithoutFile::RootAtStart)?;
    let execution = project.ceiling().execution();
    let docker = execution.docker();
    let tried = engine::docker(ambient).probe(docker);
    // A directory of each run is one like any other.
    let scratch = tempfile::tempdir().map_err(|error| {
        CliError::new(
            ExitKind::Negative,
            "docker",
            format!("cannot make a directory: {error}"),
        )
    })?;
    let grant = match project.ceiling() {
        grant if grant.awaits_run() => grant.in_run(scratch.path()),
        grant => grant.clone(),
    };
    let tried = tried.map_err(|error| (error.to_string(), error.remediation().map(str::to_owned)));
    let tried = tried.and_then(|found| match found.try_for(&grant) {
        Ok(()) => Ok(found),
        Err(error) => {
            let failure = setup::not_equipped(error);
            Err((
                failure.message().to_owned(),
                failure.hint_text().map(str::to_owned),
            ))
        }
    });
    // Both are told: an engine that works is of no use to a project that does not look for it.
    let unused = execution.without_docker();
    let mode = execution.mode();
    let text = if global.json {
        json!({ "docker": {
            "usable": tried.is_ok(),
            "image": docker.image(),
            "engine": tried.as_ref().ok().map(|found| found.engine_version()),
            "digest": tried.as_ref().ok().map(|found| found.digest()),
            "why": tried.as_ref().err().map(|(why, _)| why),
            "how_to_get_it": tried.as_ref().err().and_then(|(_, hint)| hint.as_ref()),
            "mode": mode.to_string(),
            "not_used_because": unused,
        }})
        .to_string()
    } else {
        let found = match &tried {
            Ok(found) => format!(
                "Containers work: Docker {}, image {} ({}).\nA container of it was started with the \
                 directories and the network of this project, and forge in it read a file of this \
                 machine.",
                escape(found.engine_version()),
                escape(docker.image()),
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
        let used = match unused {
            Some(why) => format!("This project does not use them: {why}."),
            None => format!("This project says `execution.mode: {mode}`."),
        };
        format!("{found}\n{network}{used}")
    };
    writeln!(std::io::stdout().lock(), "{text}").map_err(CliError::stdout)?;
    Ok(match tried {
        Ok(_) => ExitKind::Done,
        Err(_) => ExitKind::Negative,
    })
}
