//! The walk of a start, run for a user before any command starts.

use super::super::below;
use super::super::host_mount::{HostMount, host_mounts};
use super::names::{Held, ScanResult};
use super::walk;
use crate::error::Error;
use crate::git_config::{self, MAX_BYTES};
use crate::policy::Policy;
use crate::survey::Survey;
use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

pub(crate) fn survey(policy: &Policy) -> Result<Vec<Survey>, Error> {
    let mounts = host_mounts(policy)?;
    Ok(mounts.iter().map(|mount| one(policy, mount)).collect())
}

fn one(policy: &Policy, mount: &HostMount) -> Survey {
    let names = walk::find(policy, mount, Held::ByMounts);
    let shown = |list: &mut dyn Iterator<Item = &Path>| list.map(|one| mount.shown(one)).collect();
    let closed = names.found.iter().filter(|found| found.unlisted);
    Survey {
        mount: mount.inside.clone(),
        entries: names.entries,
        names: names.found.len(),
        links: shown(&mut names.links.iter().map(AsRef::as_ref)),
        unlisted: shown(&mut closed.map(|found| found.below.as_path())),
        git: git(mount, &names),
        incomplete: names.incomplete,
    }
}

/// Returns the harmful settings in the configuration of each existing repository.
fn git(mount: &HostMount, names: &ScanResult) -> Vec<String> {
    let repositories = names.repositories.iter().chain(&names.bare);
    let said = repositories.filter_map(|git| {
        let directory = below::directory(mount.handle.as_fd(), git).ok()?;
        let file = below::file(directory.as_fd(), OsStr::new("config")).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .ok()?;
        let why = git_config::config(&bytes)?;
        let why = crate::escape::visible(&why);
        Some(format!("{}: {why}", mount.shown(&git.join("config"))))
    });
    said.collect()
}
