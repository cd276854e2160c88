//! Paths of program and working directory inside a container, translated from sandbox paths.

use super::container_requests::text;
use os_sandbox::mechanism::MountPlacement;
use os_sandbox::{Command, Error, Policy};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// HOME inside a container.
pub(super) const HOME: &str = "/home/sandbox";
/// TMPDIR inside a container.
pub(super) const TMP: &str = "/tmp";
/// Working directory inside a container.
pub(super) const WORK: &str = "/work";

/// Returns the working directory. The broker refuses a directory that is missing in a mount,
/// because an engine would create it.
pub(super) fn directory(policy: &Policy, cwd: Option<&str>) -> Result<String, Error> {
    let Some(named) = cwd else {
        return Ok(WORK.to_owned());
    };
    let inside = match named.strip_prefix('/') {
        Some(_) => place(policy, Path::new(named)).unwrap_or_else(|| named.into()),
        None => Path::new(WORK).join(named),
    };
    let there = match host_of(policy, &inside) {
        Some(host) => host.is_dir(),
        // The directory of links has no other directories.
        None => inside == Path::new(WORK) || !inside.starts_with(WORK),
    };
    if !there {
        return Err(Error::invalid(format!(
            "no such working directory: {named}"
        )));
    }
    text(inside.as_os_str(), "the working directory")
}

/// Returns the program: a program in a mount by its path inside, a program of the image by its own
/// path.
pub(super) fn program(command: &Command) -> OsString {
    let path = Path::new(command.program());
    let placed = path
        .is_absolute()
        .then(|| place(command.plan().policy(), path))
        .flatten();
    let is_there = |inside: &PathBuf| {
        host_of(command.plan().policy(), inside).is_some_and(|host| host.exists())
    };
    match placed.filter(is_there) {
        Some(inside) => inside.into_os_string(),
        None => command.program().to_owned(),
    }
}

/// Returns the path inside for an absolute sandbox path; `None` if neither a mount nor `/work` has
/// it.
fn place(policy: &Policy, path: &Path) -> Option<PathBuf> {
    if path.starts_with(WORK) {
        return Some(path.to_owned());
    }
    let mounts = policy.mounts().iter();
    let mount = mounts
        .filter(|mount| path.starts_with(mount.seen_as()))
        .max_by_key(|mount| mount.seen_as().len())?;
    let rest = path.strip_prefix(mount.seen_as()).ok()?;
    let placed: PathBuf = Path::new(mount.inside()).join(rest).components().collect();
    match mount.place() {
        // Every absolute path could mean this mount or the image, so the path counts only if it
        // exists in the mount.
        MountPlacement::Root | MountPlacement::InWork => {
            mount.host().join(rest).exists().then_some(placed)
        }
        MountPlacement::Named | MountPlacement::NestedIn(_) | MountPlacement::Covers(_) => {
            Some(placed)
        }
    }
}

/// Returns the host's path for a path inside.
fn host_of(policy: &Policy, inside: &Path) -> Option<PathBuf> {
    let below = |path: &Path| {
        let mounts = policy.mounts().iter();
        let mount = mounts
            .filter(|mount| path.starts_with(mount.inside()))
            .max_by_key(|mount| mount.inside().len())?;
        let rest = path.strip_prefix(mount.inside()).ok()?;
        Some(mount.host().join(rest))
    };
    // In a directory of links, a path below `/work` starts with the mount's own name.
    below(inside).or_else(|| below(&Path::new("/").join(inside.strip_prefix(WORK).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use os_sandbox::Access;
    use std::fs;

    #[test]
    fn working_directories() {
        let scratch = tempfile::tempdir().unwrap();
        let host = |name: &str| scratch.path().join(name);
        fs::create_dir_all(host("project/sub")).unwrap();
        fs::create_dir_all(host("data/deep")).unwrap();
        fs::write(host("project/file"), "").unwrap();
        let root = Policy::builder()
            .mount(host("project"), "/", Access::ALL)
            .mount(host("data"), "/data", Access::READ);
        let named = Policy::builder().mount(host("data"), "/data", Access::READ);
        let (root, named) = (root.build().unwrap(), named.build().unwrap());
        for (policy, cwd, want) in [
            (&root, None, Some("/work")),
            (&root, Some("sub"), Some("/work/sub")),
            (&root, Some("/sub"), Some("/work/sub")),
            (&root, Some("/work/sub"), Some("/work/sub")),
            (&root, Some("/data/deep"), Some("/data/deep")),
            (&root, Some("/tmp"), Some("/tmp")),
            (&root, Some("absent"), None),
            (&root, Some("file"), None),
            (&root, Some("/data/absent"), None),
            (&named, None, Some("/work")),
            (&named, Some("data/deep"), Some("/work/data/deep")),
            (&named, Some("/data/deep"), Some("/data/deep")),
            (&named, Some("other"), None),
        ] {
            assert_eq!(directory(policy, cwd).ok().as_deref(), want, "{cwd:?}");
        }
    }
}
