//! Files that git executes or obeys because of a repository's configuration: `core.hooksPath`,
//! includes, programs for files. If a repository's names are protected, these are too.
//!
//! Every change reads the configuration again, from the top down to the path: a repository may be
//! at any depth, and the user may have changed its configuration meanwhile.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

use sandbox_names::git::ReferenceKind;
use sandbox_names::git_config::references;

use crate::backend::{AnyDir, BackendDir as _, BackendError, BackendFile as _, FileKind};
use crate::error::{Error, ErrorReason, Verb};
use crate::mount::Mount;
use crate::mount::name_rules::fold;
use crate::path::SandboxPath;
use crate::resolve::location::MountLocation;
use crate::resolve::path_walk::Lookup;
use crate::sandbox::FileSandbox;

/// The largest configuration file that is read. With a larger one, every change is refused.
const MAX_BYTES: u64 = 256 << 10;
/// The most included configuration files.
const MAX_INCLUDED: usize = 32;

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
        let top = &location.mount.dir;
        let mut own: Option<AnyDir> = None;
        for (index, name) in location.real.iter().enumerate() {
            let here = own.as_ref().unwrap_or(top);
            let above = &location.real[..index];
            if let Some(git) = repository(location.mount, here, above).await
                && let Some(name) = leads_to(top, &git, above, location, verb).await
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
}

/// Returns the path of the git directory below the top, if `here` has a `.git`.
async fn repository(mount: &Mount, here: &AnyDir, above: &[OsString]) -> Option<Vec<OsString>> {
    let top = &mount.dir;
    let name = OsStr::new(".git");
    let inside = |above: &[OsString], way: &str| match Path::new(way) {
        way if way.is_absolute() => names_at(&[], mount.below_host(way)?),
        way => names_at(above, way),
    };
    match here.meta(name).await.ok()?.kind {
        FileKind::Directory => Some([above, &[name.to_owned()]].concat()),
        FileKind::File => {
            let text = text_of(here, name).await.ok()?;
            let own = inside(above, text.strip_prefix("gitdir:")?.trim())?;
            // A worktree has the main repository's configuration.
            match text_at(top, &own, "commondir").await {
                Some(Ok(common)) => inside(&own, common.trim()),
                Some(Err(())) | None => Some(own),
            }
        }
        FileKind::Link
        | FileKind::Pipe
        | FileKind::Socket
        | FileKind::Device
        | FileKind::Unknown => None,
    }
}

/// Returns the configuration key whose file the change would write.
async fn leads_to(
    top: &AnyDir,
    git: &[OsString],
    above: &[OsString],
    location: &MountLocation<'_>,
    verb: Verb,
) -> Option<String> {
    let place = folded(&location.real);
    let is_there = matches!(location.found, Lookup::Entry { .. });
    let takes_all = matches!(verb, Verb::Move | Verb::Delete);
    let mut files: Vec<Vec<OsString>> = ["config", "config.worktree"]
        .map(|name| [git, &[name.into()]].concat())
        .into();
    let mut at = 0;
    while let Some(file) = files.get(at).cloned() {
        at += 1;
        let (name, base) = file.split_last()?;
        let text = match text_at(top, base, &name.to_string_lossy()).await {
            None => continue,
            Some(Ok(text)) => text,
            Some(Err(())) => return Some(".git/config".to_owned()),
        };
        for lead in references(&text).paths {
            let base = match lead.kind {
                ReferenceKind::Configuration => base,
                ReferenceKind::File | ReferenceKind::Program | ReferenceKind::None => above,
            };
            let path = Path::new(&lead.path);
            let way = match path.is_absolute() {
                true => location
                    .mount
                    .below_host(path)
                    .and_then(|way| names_at(&[], way)),
                false => names_at(base, path),
            };
            let Some(way) = way.filter(|way| !way.is_empty()) else {
                continue;
            };
            let target = folded(&way);
            // A word of a command need not be a file.
            let counts = match lead.kind {
                ReferenceKind::None => false,
                ReferenceKind::Program => is_there || lead.path.contains('/'),
                ReferenceKind::File | ReferenceKind::Configuration => true,
            };
            let hit = place.starts_with(&target) || takes_all && target.starts_with(&place);
            if counts && hit {
                return Some(lead.by);
            }
            if lead.kind == ReferenceKind::Configuration && at < MAX_INCLUDED {
                files.push(way);
            }
        }
    }
    None
}

fn folded(names: &[OsString]) -> Vec<String> {
    let names = names.iter();
    names.map(|name| fold(&name.to_string_lossy())).collect()
}

/// A path's names from the top, read from `base`, by the names alone; `None` above the top.
fn names_at(base: &[OsString], path: &Path) -> Option<Vec<OsString>> {
    let mut out = base.to_vec();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name.to_owned()),
            Component::CurDir => {}
            Component::ParentDir => drop(out.pop()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}

/// Returns the text of a file in the directory at `names`; `None` if it is missing.
async fn text_at(top: &AnyDir, names: &[OsString], file: &str) -> Option<Result<String, ()>> {
    let mut own: Option<AnyDir> = None;
    for name in names {
        own = Some(own.as_ref().unwrap_or(top).open_dir(name).await.ok()?);
    }
    match text_of(own.as_ref().unwrap_or(top), OsStr::new(file)).await {
        Err(BackendError::Missing | BackendError::NotDirectory | BackendError::Link) => None,
        Err(_) => Some(Err(())),
        Ok(text) => Some(Ok(text)),
    }
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
