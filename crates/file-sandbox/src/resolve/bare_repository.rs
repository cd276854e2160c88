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

use crate::backend::{AnyDir, BackendDir as _, BackendError, FileId};
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
        {
            let parts = LayoutParts::of(parent).await;
            if !parts.are_whole() && parts.with(&rest[0]).are_whole() {
                return Err(protected(path, verb, new));
            }
        }
        for (index, name) in obeyed_names(&location.real, location.real.len()) {
            if lies_in_one(&location.mount.dir, &location.real[..index]).await {
                return Err(protected(path, verb, &name.to_string_lossy()));
            }
        }
        Ok(())
    }

    /// Refuses a name that is in place by now, if git obeys it there. The caller takes it back.
    pub(crate) async fn check_placed(
        &self,
        path: &SandboxPath,
        placed: &PlacedName<'_>,
        verb: Verb,
    ) -> Result<(), Error> {
        let PlacedName { mount, real, .. } = *placed;
        if !placed.is_guarded() {
            return Ok(());
        }
        let Some(around) = placed.directories().await else {
            // It was moved away with its directory, or replaced: the names around it are unknown.
            return Err(path.error(ErrorReason::Changed { verb }));
        };
        for (index, name) in obeyed_names(real, placed.old_names()) {
            let dir = index.checked_sub(1).and_then(|at| around.get(at));
            let parts = LayoutParts::of(dir.unwrap_or(&mount.dir)).await;
            // A part that the table permits must not be the last one.
            let is_last = !parts.without(name).are_whole();
            if parts.are_whole() && (is_last || is_kept(&real[index..])) {
                return Err(protected(path, verb, &name.to_string_lossy()));
            }
        }
        Ok(())
    }
}

/// A name that an operation puts in place.
pub(crate) struct PlacedName<'a> {
    pub(crate) mount: &'a Mount,
    /// The names below the mount.
    pub(crate) real: &'a [OsString],
    /// The number of names at the end that are new.
    pub(crate) new: usize,
    /// The object that has it. `None` if it is gone already.
    pub(crate) id: Option<FileId>,
}

impl PlacedName<'_> {
    fn old_names(&self) -> usize {
        self.real.len().saturating_sub(self.new)
    }

    /// `true` if git could obey the name, depending on the directories around it.
    pub(crate) fn is_guarded(&self) -> bool {
        self.mount.protects_repositories()
            && obeyed_names(self.real, self.old_names()).next().is_some()
    }

    /// Opens the directories on the way to it. `None` if it was moved away or replaced.
    async fn directories(&self) -> Option<Vec<AnyDir>> {
        let (name, way) = self.real.split_last()?;
        let mut opened: Vec<AnyDir> = Vec::new();
        for name in way {
            let next = opened.last().unwrap_or(&self.mount.dir).open_dir(name);
            opened.push(next.await.ok()?);
        }
        let there = opened.last().unwrap_or(&self.mount.dir).meta(name).await;
        (Some(there.ok()?.id) == self.id).then_some(opened)
    }
}

/// Returns the names that git obeys if the directory around is a repository, with their places. From
/// `new` on also those that complete one.
fn obeyed_names(real: &[OsString], new: usize) -> impl Iterator<Item = (usize, &OsString)> {
    let is_obeyed = move |(index, name): &(usize, &OsString)| {
        is_kept(&real[*index..]) || *index >= new && one_of(&LAYOUT, name).is_some()
    };
    real.iter().enumerate().filter(is_obeyed)
}

/// `true` if commands and tools do not change a path below a git directory.
fn is_kept(names: &[OsString]) -> bool {
    let names: Vec<String> = names
        .iter()
        .map(|name| fold(&name.to_string_lossy()))
        .collect();
    matches!(
        classify(&names),
        GitPathClass::Obeyed | GitPathClass::State | GitPathClass::GitOnly
    )
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

/// The names of [`LAYOUT`] that a directory has.
#[derive(Clone, Copy)]
struct LayoutParts([bool; LAYOUT.len()]);

impl LayoutParts {
    async fn of(dir: &AnyDir) -> LayoutParts {
        let mut has = [false; LAYOUT.len()];
        for (has, name) in has.iter_mut().zip(LAYOUT) {
            // A name that cannot be inspected counts as present.
            *has = !matches!(dir.meta(OsStr::new(name)).await, Err(BackendError::Missing));
        }
        LayoutParts(has)
    }

    fn set(mut self, name: &OsStr, is_there: bool) -> LayoutParts {
        let name = one_of(&LAYOUT, name);
        for (has, known) in self.0.iter_mut().zip(LAYOUT) {
            if Some(known) == name {
                *has = is_there;
            }
        }
        self
    }

    fn with(self, name: &OsStr) -> LayoutParts {
        self.set(name, true)
    }

    fn without(self, name: &OsStr) -> LayoutParts {
        self.set(name, false)
    }

    /// `true` if git takes the directory for a repository.
    fn are_whole(self) -> bool {
        let [head, objects, refs, elsewhere] = self.0;
        head && (objects && refs || elsewhere)
    }
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
    let parts = LayoutParts::of(own.as_ref().unwrap_or(top)).await;
    parts.are_whole()
}
