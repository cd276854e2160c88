//! Git's own files. Below a `.git`, only paths that git's table permits are writable, by names
//! alone. Bare repositories need more: git treats any directory with the right names as a
//! repository, even unasked, and obeys its configuration (`core.fsmonitor` is a program). So if a
//! repository's names are protected, no operation adds the name that completes a repository, and in
//! an existing bare repository the names are protected as they are in `.git`.
//!
//! The names decide, as git checks little more. Operations of one sandbox run one after the other,
//! so no two of them can each add half of the names.

use std::ffi::{OsStr, OsString};

use sandbox_names::git::{GitPathClass, classify};

use crate::backend::{AnyDir, BackendDir as _, BackendError};
use crate::error::{Error, ErrorReason, Verb};
use crate::mount::name_rules::fold;
use crate::path::SandboxPath;
use crate::resolve::location::MountLocation;
use crate::resolve::path_walk::Lookup;
use crate::sandbox::FileSandbox;

/// Names that make a directory a repository: `HEAD`, and the next two or `commondir`.
const LAYOUT: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

impl FileSandbox {
    /// Refuses a change that would turn a directory into a repository, or that writes a file which
    /// git obeys in one.
    pub(crate) async fn check_bare_repository(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        verb: Verb,
    ) -> Result<(), Error> {
        if !location.mount.protects_repositories() {
            return Ok(());
        }
        if let Lookup::Missing { parent, rest } = &location.found
            && let Some(new) = one_of(&LAYOUT, &rest[0])
            && !is_whole(parent, None).await
            && is_whole(parent, Some(new)).await
        {
            return Err(protected(path, verb, new));
        }
        for (index, name) in location.real.iter().enumerate() {
            let names: Vec<String> = location.real[index..]
                .iter()
                .map(|name| fold(&name.to_string_lossy()))
                .collect();
            let kept = matches!(
                classify(&names),
                GitPathClass::Obeyed | GitPathClass::State | GitPathClass::GitOnly
            );
            if kept && lies_in_one(&location.mount.dir, &location.real[..index]).await {
                return Err(protected(path, verb, &name.to_string_lossy()));
            }
        }
        Ok(())
    }
}

fn protected(path: &SandboxPath, verb: Verb, name: &str) -> Error {
    let name = name.to_owned();
    path.error(ErrorReason::Protected { verb, name })
}

/// In one spelling, since the file system may fold case.
fn one_of(names: &[&'static str], name: &OsStr) -> Option<&'static str> {
    let name = fold(&name.to_string_lossy());
    names.iter().copied().find(|known| fold(known) == name)
}

/// `true` if a directory has the names of a repository, together with `new`.
async fn is_whole(dir: &AnyDir, new: Option<&str>) -> bool {
    let mut has = [false; LAYOUT.len()];
    for (has, name) in has.iter_mut().zip(LAYOUT) {
        // A name that cannot be inspected counts as present.
        *has = new == Some(name)
            || !matches!(dir.meta(OsStr::new(name)).await, Err(BackendError::Missing));
    }
    let [head, objects, refs, elsewhere] = has;
    head && (objects && refs || elsewhere)
}

/// `true` if the directory at `names`, which contain no symlink, is a repository.
async fn lies_in_one(top: &AnyDir, names: &[OsString]) -> bool {
    let mut own: Option<AnyDir> = None;
    for name in names {
        let next = own.as_ref().unwrap_or(top).open_dir(name).await;
        match next {
            Ok(dir) => own = Some(dir),
            // A missing directory is not a repository.
            Err(BackendError::Missing) => return false,
            Err(_) => return true,
        }
    }
    is_whole(own.as_ref().unwrap_or(top), None).await
}
