//! Links with hidden names. Nothing can be mounted over a link, and a command reads its target, which is
//! hidden for that reason, under each of its paths in the mounts.
//!
//! Entry point: [`close`], between the walks and the start. The exceptions of a pattern hold for the
//! target too: a certificate, a template, a file of dependencies or one that git tracks is shown.

use super::super::host_mount::HostMount;
use super::MAX_HIDDEN_LISTED;
use super::names::ScanResult;
use super::secrets::Secrets;
use crate::enforcement::HiddenPath;
use crate::policy::Pattern;
use crate::promise::Promise;
use rustix::fs::FileType;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;

/// Hides the targets of links with hidden names. Returns the first of them, and a note for each link
/// whose target can be read.
pub(super) fn close(
    mounts: &[HostMount],
    names: &mut [ScanResult],
) -> (Vec<HiddenPath>, Vec<(Promise, String)>) {
    let (mut hidden, mut notes, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for (from, names) in mounts.iter().zip(&mut *names) {
        for link in std::mem::take(&mut names.hidden_links) {
            let target = from.host.join(&link).canonicalize();
            links.extend(target.map(|target| (from, link, target)));
        }
    }
    let last_names = links.iter().filter_map(|(.., target)| target.file_name());
    let last_names: HashSet<&OsStr> = last_names.collect();
    let secrets = |mount| Secrets::with_names(mount, last_names.clone());
    let mut each: Vec<_> = (mounts.iter().zip(names))
        .map(|(mount, names)| (mount, names, secrets(mount)))
        .collect();
    for (from, link, target) in &links {
        let named = from.named(link);
        for (mount, names, secrets) in &mut each {
            let below = target.strip_prefix(&mount.host);
            let Some(below) = below.ok().filter(|below| !mount.is_covered(below)) else {
                continue;
            };
            let mut patterns = from.guards.hide.iter();
            let Some(pattern) =
                patterns.find(|one| one.ends(&named) && is_held(mount, below, secrets, one))
            else {
                continue;
            };
            let path = mount.shown(below);
            if mounts.iter().any(|mount| mount.host.starts_with(target)) {
                let link = from.shown(link);
                let note = format!("{link} leads to {path}, which has a mount and can be read");
                notes.push((Promise::HiddenNames, note));
            } else if hide(mount, names, below) && hidden.len() < MAX_HIDDEN_LISTED {
                let pattern = pattern.written().to_owned();
                hidden.push(HiddenPath { path, pattern });
            }
        }
    }
    (hidden, notes)
}

/// Returns `true` if a pattern that hides a link applies to its target too.
fn is_held(mount: &HostMount, below: &Path, secrets: &Secrets<'_>, pattern: &Pattern) -> bool {
    let kind = mount.look(below);
    let kind = kind.map_or(FileType::Directory, |stat| {
        FileType::from_raw_mode(stat.st_mode)
    });
    let (parent, name) = (below.parent(), below.file_name().unwrap_or_default());
    let candidate = secrets.candidate(parent.unwrap_or(below), name, kind);
    !pattern.exempts(below) && candidate.is_held_by(pattern)
}

/// Hides a path below a mount. Returns `false` if it was hidden already.
fn hide(mount: &HostMount, names: &mut ScanResult, below: &Path) -> bool {
    let around = |hidden: &Path| below.starts_with(hidden);
    if names
        .found
        .iter()
        .any(|found| found.hide && around(&found.below))
    {
        return false;
    }
    match names.found.iter_mut().find(|found| found.below == below) {
        Some(found) => found.hide = true,
        None => {
            let Ok(stat) = mount.look(below) else {
                return false;
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            names.add(mount, below.to_owned(), kind, true);
        }
    }
    true
}
