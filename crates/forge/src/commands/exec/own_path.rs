//! The person's directories of programs that commands see anyway: those of the project, such as an active
//! virtual environment and `node_modules/.bin`. They stay in the search path, before all others: nothing
//! is granted by that, and without it a command runs another program of that name.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use os_sandbox::{Access, Policy};

use super::missing::{find, how_to_show};
use crate::ambient::Ambient;
use crate::output::escape::escape_path;

/// Returns `PATH` and `VIRTUAL_ENV` for a command that a person typed, where they differ from the
/// policy's.
pub(super) fn variables(policy: &Policy, ambient: &Ambient) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    let environment = ambient.var("VIRTUAL_ENV").map(Path::new);
    if let Some(directory) = environment.and_then(|path| seen(path, policy)) {
        variables.push(("VIRTUAL_ENV", directory.display().to_string()));
    }
    let path = ambient.var("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = Vec::new();
    for directory in std::env::split_paths(path) {
        let own = seen(&directory, policy).filter(|own| !directories.contains(own));
        directories.extend(own);
    }
    if !directories.is_empty() {
        directories.extend(std::env::split_paths(&policy.environment().search_path()));
        let joined = std::env::join_paths(directories).ok();
        let joined = joined.and_then(|path| path.into_string().ok());
        variables.extend(joined.map(|path| ("PATH", path)));
    }
    variables
}

/// Returns a directory in a mount, if commands see it at its own path and may run its programs.
fn seen(directory: &Path, policy: &Policy) -> Option<PathBuf> {
    let own = directory
        .is_absolute()
        .then(|| directory.canonicalize())?
        .ok()?;
    let mut mounts = policy.mounts().iter();
    let is_in_mount = mounts.any(|mount| own.starts_with(mount.host()));
    let is_seen = is_in_mount
        && own.is_dir()
        && policy.directory_inside(&own).map(PathBuf::from).as_ref() == Some(&own)
        && policy.allows(&own, Access::READ | Access::EXECUTE);
    is_seen.then_some(own)
}

/// Returns a note about a program that is another one than the person's shell would start. `path`: the
/// search path of the command.
pub(super) fn note(
    program: &OsStr,
    path: &str,
    policy: &Policy,
    ambient: &Ambient,
) -> Option<String> {
    let is_name = !program.as_encoded_bytes().contains(&b'/');
    let outside = is_name.then(|| find(program, ambient.var("PATH")?))??;
    let inside = find(program, path)?;
    let real = |path: &Path| path.canonicalize().ok();
    let is_another = real(&inside) != real(&outside);
    (is_another && !policy.allows(&outside, Access::EXECUTE)).then(|| {
        format!(
            "runs {}; yours is {}, which commands do not see; {}",
            escape_path(&inside),
            escape_path(&outside),
            how_to_show(&outside, ambient, false)
        )
    })
}
