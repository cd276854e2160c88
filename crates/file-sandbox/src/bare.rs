//! Git's own files. Below a `.git` only what git's table gives to everybody is written, by names
//! alone. Repositories that are not called so: git takes any directory with these names for one,
//! also without being told to, and obeys what stands in it (`core.fsmonitor` is a program). So where
//! a repository's names are protected, no operation puts together the last of them, and in a
//! directory that is one already they are protected as they are in `.git`.
//!
//! By names alone, as git asks for little more. Operations of one sandbox come one after the
//! other, so no two of them can each make a half.

use std::ffi::{OsStr, OsString};

use sandbox_names::git::{GitPathClass, classify};

use crate::backend::{AnyDir, BackendDir as _, BackendError};
use crate::error::{Error, ErrorReason, Verb};
use crate::path::SandboxPath;
use crate::resolve::MountLocation;
use crate::rules::fold;
use crate::sandbox::FileSandbox;
use crate::walk::Lookup;

/// What makes a directory a repository: `HEAD`, and the two others or a way to them.
const LAYOUT: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// What of `names` below `base` lies in a `.git` and is not for files. What is a repository's
/// directory itself, or on the way to another one, can be there.
pub(crate) fn kept_in_git(base: &[OsString], names: &[OsString]) -> Option<&'static str> {
    let is_git = |name: &&OsString| fold(&name.to_string_lossy()) == ".git";
    let mut all = base.iter().chain(names);
    // The outermost: what lies in it is git's, whatever it is called.
    all.find(is_git)?;
    let below: Vec<String> = all.map(|name| fold(&name.to_string_lossy())).collect();
    match classify(&below) {
        GitPathClass::Data | GitPathClass::Container => None,
        GitPathClass::GitOnly
        | GitPathClass::State
        | GitPathClass::Obeyed
        | GitPathClass::Unknown => Some(".git"),
    }
}

impl FileSandbox {
    /// Refuses what would make a repository of a directory, or change what git obeys in one.
    pub(crate) async fn check_bare(
        &self,
        path: &SandboxPath,
        spot: &MountLocation<'_>,
        verb: Verb,
    ) -> Result<(), Error> {
        if !spot.mount.protects_repositories() {
            return Ok(());
        }
        if let Lookup::Missing { parent, rest } = &spot.found
            && let Some(new) = one_of(&LAYOUT, &rest[0])
            && !is_whole(parent, None).await
            && is_whole(parent, Some(new)).await
        {
            return Err(protected(path, verb, new));
        }
        for (index, name) in spot.real.iter().enumerate() {
            let names: Vec<String> = spot.real[index..]
                .iter()
                .map(|name| fold(&name.to_string_lossy()))
                .collect();
            let kept = matches!(
                classify(&names),
                GitPathClass::Obeyed | GitPathClass::State | GitPathClass::GitOnly
            );
            if kept && lies_in_one(&spot.mount.dir, &spot.real[..index]).await {
                return Err(protected(path, verb, &name.to_string_lossy()));
            }
        }
        Ok(())
    }
}

fn protected(path: &SandboxPath, verb: Verb, name: &str) -> Error {
    let name = name.to_owned();
    Error::new(path.asked(), ErrorReason::Protected { verb, name })
}

/// In one spelling, since the file system may fold case.
fn one_of(names: &[&'static str], name: &OsStr) -> Option<&'static str> {
    let name = fold(&name.to_string_lossy());
    names.iter().copied().find(|known| fold(known) == name)
}

/// Whether a directory has what makes a repository, with one more name.
async fn is_whole(dir: &AnyDir, new: Option<&str>) -> bool {
    let mut has = [false; LAYOUT.len()];
    for (has, name) in has.iter_mut().zip(LAYOUT) {
        // What cannot be looked at may be there.
        *has = new == Some(name)
            || !matches!(dir.meta(OsStr::new(name)).await, Err(BackendError::Missing));
    }
    let [head, objects, refs, elsewhere] = has;
    head && (objects && refs || elsewhere)
}

/// Whether the directory at `names`, which holds no links, is a repository.
async fn lies_in_one(top: &AnyDir, names: &[OsString]) -> bool {
    let mut own: Option<AnyDir> = None;
    for name in names {
        let next = own.as_ref().unwrap_or(top).open_dir(name).await;
        match next {
            Ok(dir) => own = Some(dir),
            // What is not there yet is none.
            Err(BackendError::Missing) => return false,
            Err(_) => return true,
        }
    }
    is_whole(own.as_ref().unwrap_or(top), None).await
}
