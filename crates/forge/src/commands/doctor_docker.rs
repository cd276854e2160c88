//! `forge doctor --docker`: whether calls of the project here can run in containers, found out as they
//! would find it out.

use std::io::Write as _;

use sandbox_config::WithoutFile;
use serde_json::json;

use crate::ambient::Ambient;
use crate::cli::Global;
use crate::engine;
use crate::exit::{Exit, Failure};
use crate::gather;
use crate::visible::{visible, visible_lines};

pub(crate) fn run(global: &Global, ambient: &Ambient) -> Result<Exit, Failure> {
    let project = gather::project(global, ambient, None, WithoutFile::RootAtStart)?;
    let execution = project.ceiling().execution();
    let docker = execution.docker();
    let tried = engine::docker(ambient).try_out(docker);
    // Both are told: an engine that works is of no use to a project that does not look for it.
    let unused = execution.without_docker();
    let mode = execution.mode();
    let text = if global.json {
        json!({ "docker": {
            "usable": tried.is_ok(),
            "image": docker.image(),
            "engine": tried.as_ref().ok().map(|found| found.engine_version()),
            "digest": tried.as_ref().ok().map(|found| found.digest()),
            "why": tried.as_ref().err().map(ToString::to_string),
            "how_to_get_it": tried.as_ref().err().and_then(|error| error.what_to_do()),
            "mode": mode.to_string(),
            "not_used_because": unused,
        }})
        .to_string()
    } else {
        let found = match &tried {
            Ok(found) => format!(
                "Containers work: Docker {}, image {} ({}).\nA container of it was started, and forge \
                 in it read a file of this machine.",
                visible(found.engine_version()),
                visible(docker.image()),
                visible(found.digest()),
            ),
            Err(error) => {
                let hint = error.what_to_do().unwrap_or("look at the engine's own log");
                format!(
                    "Containers do not work: {}\n\nto do: {}",
                    visible_lines(&error.to_string()),
                    visible_lines(hint)
                )
            }
        };
        let used = match unused {
            Some(why) => format!("This project does not use them: {why}."),
            None => format!("This project says `execution.mode: {mode}`."),
        };
        format!("{found}\n{used}")
    };
    writeln!(std::io::stdout().lock(), "{text}").map_err(Failure::stdout)?;
    Ok(match tried {
        Ok(_) => Exit::Done,
        Err(_) => Exit::Negative,
    })
}
