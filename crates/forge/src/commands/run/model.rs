//! Which model a run has: the flag, else the environment, else the worker's own, else the
//! project's.

use std::path::{Component, Path};

use forge_runtime::{Playbook, Scripted};
use sandbox_config::{Project, Worker};

use crate::ambient::Ambient;
use crate::bounded::read_text;
use crate::cli::Run;
use crate::exit::{Exit, Failure};

/// A playbook above this is refused when it is parsed; no need to read more.
const MAX_PLAYBOOK_BYTES: u64 = 2 * 1024 * 1024;

/// The model of this run.
pub(crate) fn choose(
    args: &Run,
    ambient: &Ambient,
    project: &Project,
    worker: &Worker,
) -> Result<Scripted, Failure> {
    // A file named on the command line or in the environment is found from here, one
    // named in a project from the project.
    let here = Path::new(".");
    let (named, base) = if let Some(model) = &args.model {
        (model.as_str(), here)
    } else if let Some(model) = ambient.var("FORGE_MODEL") {
        (model, here)
    } else if let Some(model) = worker.model().or_else(|| project.model()) {
        (model, project.dir())
    } else {
        return Err(
            Failure::new(Exit::Usage, "model.missing", "no model is configured")
                .hint("set `model:` in the project file, or pass --model scripted:FILE"),
        );
    };
    let Some(file) = named.strip_prefix("scripted:") else {
        return Err(Failure::new(
            Exit::Usage,
            "model.unknown",
            format!("the model `{named}` is not one that this forge can run"),
        )
        .hint("scripted:FILE plays a playbook; live providers are not in this version yet"));
    };
    // A file that came with a repository does not point forge at the person's others.
    let climbs = Path::new(file)
        .components()
        .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir));
    if base != here && climbs {
        return Err(Failure::new(
            Exit::Usage,
            "model.playbook",
            format!("the project's playbook `{file}` is not inside the project"),
        )
        .hint("name it yourself with --model if you want it"));
    }
    let path = base.join(file);
    let text = read_text(&path, MAX_PLAYBOOK_BYTES).map_err(|error| {
        Failure::new(
            Exit::Usage,
            "model.playbook",
            format!("cannot read the playbook {}: {error}", path.display()),
        )
    })?;
    let playbook = Playbook::parse(&text).map_err(|error| {
        Failure::new(
            Exit::Usage,
            "model.playbook",
            format!("{}: {error}", path.display()),
        )
    })?;
    Ok(Scripted::new(file, playbook))
}
