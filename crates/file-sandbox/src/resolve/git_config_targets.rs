//! Files that git executes or obeys because of a repository's configuration: `core.hooksPath`,
//! includes, programs for files. If a repository's names are protected, these are too.
//!
//! Every change reads the configuration again, from the top down to the path: a repository may be
//! at any depth, and the user may have changed its configuration meanwhile.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

use sandbox_names::git::{ReferenceKind, gitfile_target};
use sandbox_names::git_config::{entries, references};

use crate::backend::{
    AnyDir, BackendDir as _, BackendError, BackendFile as _, BackendNames as _, FileKind,
};
use crate::error::{Error, ErrorReason, Verb};
use crate::path::SandboxPath;
use crate::resolve::location::{MountLocation, MountPlace};
use crate::resolve::path_walk::Lookup;
use crate::sandbox::FileSandbox;

/// The largest configuration file that is read. With a larger one, every change is refused.
const MAX_BYTES: u64 = 256 << 10;
/// The most included configuration files.
const MAX_INCLUDED: usize = 32;

/// The directories of a git directory in which others are.
const IN_GIT_DIRECTORY: [&str; 2] = ["modules", "worktrees"];
/// The most git directories of modules and worktrees of one repository. With more of them, every
/// change is refused.
const MAX_DIRECTORIES: usize = 1_000;

impl FileSandbox {
    /// Refuses to change a file that the configuration of a repository around it names.
    pub(crate) async fn check_config_target(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        verb: Verb,
    ) -> Result<(), Error> {
        if !location.mount.protects_repositories() {
            return Ok(());
        }
        let mut own: Option<AnyDir> = None;
        for (index, name) in location.real.iter().enumerate() {
            let here = own.as_ref().unwrap_or(&location.mount.dir);
            let above = &location.real[..index];
            if let Some(git) = self.repository(location.index, here, above).await
                && let Some(name) = self.obeyed_by(&git, above, location, verb).await
            {
                return Err(path.error(ErrorReason::Obeyed { verb, name }));
            }
            match here.open_dir(name).await {
                Ok(next) => own = Some(next),
                // A file or a missing name contains no repository.
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Returns the place of the git directory, if `here` has a `.git`.
    async fn repository(
        &self,
        mount: usize,
        here: &AnyDir,
        above: &[OsString],
    ) -> Option<MountPlace> {
        let name = OsStr::new(".git");
        let mut place = (mount, [above, &[name.to_owned()]].concat());
        let mut kind = here.meta(name).await.ok()?.kind;
        if kind == FileKind::Link {
            let end = self.led_to(place).await.end?;
            let Lookup::Entry { meta, .. } = end.found else {
                return None;
            };
            (place, kind) = ((end.index, end.real), meta.kind);
        }
        match kind {
            FileKind::Directory => Some(place),
            FileKind::File => {
                let text = self.text(place.clone()).await?.ok()?;
                place.1.pop();
                let own = {
                    let target = gitfile_target(text.as_bytes())?;
                    self.place(&place, str::from_utf8(target).ok()?)?
                };
                // A worktree has the main repository's configuration.
                match self.text(below(&own, "commondir")).await {
                    Some(Ok(common)) => self.place(&own, common.trim()),
                    Some(Err(())) | None => Some(own),
                }
            }
            _ => None,
        }
    }

    /// Returns the configuration key that names the file of a change.
    async fn obeyed_by(
        &self,
        git: &MountPlace,
        above: &[OsString],
        location: &MountLocation<'_>,
        verb: Verb,
    ) -> Option<String> {
        let Some(directories) = self.git_directories(git).await else {
            return Some(".git/modules".to_owned());
        };
        for directory in directories {
            let top = match &directory == git {
                true => Some((location.index, above.to_vec())),
                false => self.worktree(&directory).await,
            };
            for name in ["config", "config.worktree"] {
                let file = below(&directory, name);
                let leads = self.config_leads_to(file, top.as_ref(), location, verb);
                if let Some(by) = leads.await {
                    return Some(by);
                }
            }
        }
        None
    }

    /// Returns the top of the worktree that a git directory in `worktrees` is for.
    async fn worktree(&self, directory: &MountPlace) -> Option<MountPlace> {
        let pointer = self.text(below(directory, "gitdir")).await?.ok()?;
        Some(parent(&self.place(directory, pointer.trim())?))
    }

    /// Returns a git directory, and those of its modules and worktrees; `None` if they are too many.
    async fn git_directories(&self, git: &MountPlace) -> Option<Vec<MountPlace>> {
        let mut found = vec![git.clone()];
        let mut pending = IN_GIT_DIRECTORY.map(|name| below(git, name)).to_vec();
        let mut left = MAX_DIRECTORIES;
        while let Some(place) = pending.pop() {
            let Some(dir) = self.open_place(&place).await else {
                continue;
            };
            left = left.checked_sub(1)?;
            if dir.meta(OsStr::new("HEAD")).await.is_ok() {
                pending.extend(IN_GIT_DIRECTORY.map(|name| below(&place, name)));
                found.push(place);
                continue;
            }
            // The name of a module can have slashes.
            let Ok(mut names) = dir.names().await else {
                continue;
            };
            while let Ok(Some((name, _))) = names.next().await {
                pending.push((place.0, [&place.1[..], &[name]].concat()));
                (pending.len() <= MAX_DIRECTORIES).then_some(())?;
            }
        }
        Some(found)
    }

    /// Returns the key, in a configuration or those that it includes, that names the file of a
    /// change. `top`: the top of the working tree, unless the configuration names it.
    async fn config_leads_to(
        &self,
        config: MountPlace,
        top: Option<&MountPlace>,
        location: &MountLocation<'_>,
        verb: Verb,
    ) -> Option<String> {
        let is_there = matches!(location.found, Lookup::Entry { .. });
        let git = parent(&config);
        let mut trees: Vec<MountPlace> = top.cloned().into_iter().collect();
        let mut files = vec![config];
        let mut at = 0;
        while let Some(file) = files.get(at).cloned() {
            at += 1;
            let text = match self.text(file.clone()).await {
                None => continue,
                Some(Ok(text)) => text,
                Some(Err(())) => return Some(".git/config".to_owned()),
            };
            for entry in entries(&text) {
                if entry.section == "core" && entry.key == "worktree" {
                    trees.extend(self.place(&git, &entry.value));
                }
            }
            if trees.is_empty() {
                trees.push(git.clone());
            }
            for lead in references(&text).paths {
                // A word of a command need not be a file.
                let counts = match lead.kind {
                    ReferenceKind::None => false,
                    ReferenceKind::Program => is_there || lead.path.contains('/'),
                    ReferenceKind::File | ReferenceKind::Configuration => true,
                };
                let of_file = [parent(&file)];
                let bases = match lead.kind {
                    ReferenceKind::Configuration => &of_file[..],
                    _ => &trees[..],
                };
                for base in bases.iter().filter(|_| counts) {
                    let Some(place) = self.place(base, &lead.path) else {
                        continue;
                    };
                    if lead.kind == ReferenceKind::Configuration && at < MAX_INCLUDED {
                        files.push(place.clone());
                    }
                    if self.led_to(place).await.is_changed_at(location, verb) {
                        return Some(lead.by);
                    }
                }
            }
        }
        None
    }

    /// Returns the place that a path names, read from `base`; `None` if no mount has it.
    fn place(&self, base: &MountPlace, path: &str) -> Option<MountPlace> {
        let path = Path::new(path);
        if path.is_absolute() {
            return self.table.by_host(path);
        }
        let names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        });
        Some((base.0, base.1.iter().cloned().chain(names).collect()))
    }

    async fn open_place(&self, place: &MountPlace) -> Option<AnyDir> {
        let end = self.led_to(place.clone()).await.end?;
        match (&end.found, end.real.last()) {
            (Lookup::Entry { parent, .. }, Some(name)) => parent.open_dir(name).await.ok(),
            _ => None,
        }
    }

    /// Returns the text of a file; `None` if it is missing.
    async fn text(&self, place: MountPlace) -> Option<Result<String, ()>> {
        let end = self.led_to(place).await.end?;
        let (Lookup::Entry { parent, .. }, Some(name)) = (&end.found, end.real.last()) else {
            return None;
        };
        match text_of(parent, name).await {
            Err(BackendError::Missing | BackendError::NotDirectory | BackendError::Link) => None,
            Err(_) => Some(Err(())),
            Ok(text) => Some(Ok(text)),
        }
    }
}

fn below(place: &MountPlace, name: &str) -> MountPlace {
    (place.0, [&place.1[..], &[name.into()]].concat())
}

fn parent(place: &MountPlace) -> MountPlace {
    let names = place.1.len().saturating_sub(1);
    (place.0, place.1[..names].to_vec())
}

async fn text_of(dir: &AnyDir, name: &OsStr) -> Result<String, BackendError> {
    let file = dir.open_file(name).await?;
    let size = file.meta().await?.size;
    let size = usize::try_from(size.min(MAX_BYTES + 1)).unwrap_or(0);
    let mut bytes = vec![0; size];
    let mut got = 0;
    while got < size {
        match file.read_at(&mut bytes[got..], got as u64).await? {
            0 => break,
            read => got += read,
        }
    }
    if got as u64 > MAX_BYTES {
        return Err(BackendError::Kind(std::io::ErrorKind::FileTooLarge));
    }
    Ok(String::from_utf8_lossy(&bytes[..got]).into_owned())
}
