//! `forge stage discard`: throws staged commits away, all that are named or none.

use std::path::Path;

use forge_git::{GitBackend as _, GitError};

use super::{StagedSelection, all, failed, find_selection, log, place, print_json};
use crate::commands::prelude::*;
use crate::setup;
use crate::state::staging::Staging;

pub(super) fn discard(
    ambient: &Ambient,
    project: &Path,
    staging: &Staging,
    ids: &[String],
) -> Result<ExitKind, CliError> {
    let list = all(staging)?;
    let mut named: Vec<StagedSelection<'_>> = Vec::new();
    for id in ids {
        let one = find_selection(&list, Some(id))?;
        if !named.iter().any(|known| known.id() == one.id()) {
            named.push(one);
        }
    }
    let mut log = log(project, "stage_discard", &named, ambient, &[])?;
    log.typed()?;
    match setup::until_stopped(thrown_away(staging, &named)) {
        Ok(Ok(())) => log.close("discarded", None)?,
        Ok(Err(failure)) | Err(failure) => {
            log.close(failure.code(), Some(failure.code()))?;
            return Err(failure);
        }
    }
    if ambient.global.json {
        let ids: Vec<&str> = named.iter().map(|one| one.id().as_str()).collect();
        print_json(&json!({ "discarded": ids }))?;
    } else {
        for one in named {
            print_line(format_args!("discarded {}", one.id()))?;
        }
    }
    Ok(ExitKind::Done)
}

/// Not while one of them is being pushed.
async fn thrown_away(staging: &Staging, named: &[StagedSelection<'_>]) -> Result<(), CliError> {
    let turn = staging.turn().await?;
    let done = async {
        if let Some(git) = place(staging)? {
            for one in named {
                let gone: Result<(), GitError> = git.discard(one.id()).await;
                gone.map_err(|error| failed(&error))?;
            }
        }
        Ok(())
    }
    .await;
    drop(turn);
    done
}
