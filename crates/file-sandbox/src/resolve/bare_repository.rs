//! Git's own files. Below a `.git`, only paths that git's table permits are writable, by names
//! alone. Bare repositories need more: git treats any directory with the right names as a
//! repository, even unasked, and obeys its configuration (`core.fsmonitor` is a program). So if a
//! repository's names are protected, no operation adds the name that completes a repository, and in
//! an existing bare repository the names are protected as they are in `.git`.
//!
//! The names decide, as git checks little more. Operations of one sandbox run one after the other,
//! but another process adds its half when it likes. So each operation looks before, and again once
//! its name is in place: of two halves the later one is seen with the earlier. Half by a command
//! that still runs then is met by the scan after its end.

use std::ffi::{OsStr, OsString};

use sandbox_names::git::{GitPathClass, classify};

use crate::backend::{AnyDir, BackendDir as _, BackendError};
use crate::error::{Error, ErrorReason, Verb};
use crate::mount::Mount;
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
        for (index, name) in obeyed_names(&location.real, location.real.len()) {
            if lies_in_one(&location.mount.dir, &location.real[..index]).await {
                return Err(protected(path, verb, &name.to_string_lossy()));
            }
        }
        Ok(())
    }

    /// Refuses a name that is in place by now, if git obeys it there. The caller takes it out again.
    pub(crate) async fn check_placed(
        &self,
        path: &SandboxPath,
        placed: &PlacedName<'_>,
        verb: Verb,
    ) -> Result<(), Error> {
        let PlacedName { mount, real, .. } = *placed;
        let old = real.len().saturating_sub(placed.new);
        let mut asked = obeyed_names(real, old).peekable();
        if !mount.protects_repositories() || asked.peek().is_none() {
            return Ok(());
        }
        let around = placed.directories().await;
        let found = match &around {
            // It was moved away with its directory: the names around it now are unknown.
            None => asked.next(),
            Some(around) => {
                let mut found = None;
                for (index, name) in asked {
                    let dir = index.checked_sub(1).and_then(|at| around.get(at));
                    if is_whole(dir.unwrap_or(&mount.dir), None).await {
                        found = Some((index, name));
                        break;
                    }
                }
                found
            }
        };
        found.map_or(Ok(()), |(_, name)| {
            Err(protected(path, verb, &name.to_string_lossy()))
        })
    }
}

/// A name that an operation has put in place.
pub(crate) struct PlacedName<'a> {
    pub(crate) mount: &'a Mount,
    /// The names below the mount.
    pub(crate) real: &'a [OsString],
    /// The number of names at the end that are new.
    pub(crate) new: usize,
    /// The directory that has it.
    pub(crate) parent: &'a AnyDir,
}

impl PlacedName<'_> {
    /// Opens the directories on the way to it. `None` if it is no longer there.
    async fn directories(&self) -> Option<Vec<AnyDir>> {
        let (name, way) = self.real.split_last()?;
        let mut opened: Vec<AnyDir> = Vec::new();
        for name in way {
            let next = opened.last().unwrap_or(&self.mount.dir).open_dir(name);
            opened.push(next.await.ok()?);
        }
        let there = opened.last().unwrap_or(&self.mount.dir).meta(name).await;
        let put = self.parent.meta(name).await.ok()?;
        (there.ok()?.id == put.id).then_some(opened)
    }
}

/// Returns the names that git obeys if the directory around is a repository, with their places. From
/// `new` on also those that complete one.
fn obeyed_names(real: &[OsString], new: usize) -> impl Iterator<Item = (usize, &OsString)> {
    let is_obeyed = move |(index, name): &(usize, &OsString)| {
        let names: Vec<String> = real[*index..]
            .iter()
            .map(|name| fold(&name.to_string_lossy()))
            .collect();
        matches!(
            classify(&names),
            GitPathClass::Obeyed | GitPathClass::State | GitPathClass::GitOnly
        ) || *index >= new && one_of(&LAYOUT, name).is_some()
    };
    real.iter().enumerate().filter(is_obeyed)
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
