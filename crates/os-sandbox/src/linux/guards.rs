//! Names below the mounts that are kept from the command: found, and held where they are absent.

use super::hold;
use super::names::{self, Names};
use super::state::Held;
use super::view::HostMount;
use crate::error::{Error, ErrorKind};
use crate::policy::Policy;
use crate::promise::Promise;
use std::path::Path;

/// Protected and hidden names below the mounts, as they were found or are held.
pub(super) struct Guarded {
    pub(super) names: Vec<Names>,
    pub(super) held: Option<Held>,
    pub(super) notes: Vec<(Promise, String)>,
}

pub(super) fn guard(
    policy: &Policy,
    mounts: &[HostMount],
    state_dir: Option<&Path>,
) -> Result<Guarded, Error> {
    let mut names: Vec<Names> = mounts
        .iter()
        .map(|mount| names::find(policy, mount))
        .collect();
    if names.iter().any(|names| names.unsettled) {
        return Err(Error::new(
            ErrorKind::Enforcement,
            "directories in a mount are moved about, so that protected names could be missed",
        )
        .with_hint("try again when what moves them is done"));
    }
    let (held, reasons) = hold::hold(state_dir, policy, mounts, &mut names);
    let mut notes: Vec<(Promise, String)> = reasons
        .into_iter()
        .map(|reason| (Promise::ProtectedNames, reason))
        .collect();
    if names.iter().any(|names| !names.complete) {
        let reason = "a mount is too large to look everywhere before the start".to_owned();
        notes.push((Promise::ProtectedNames, reason.clone()));
        notes.push((Promise::HiddenNames, reason));
    }
    Ok(Guarded { names, held, notes })
}
