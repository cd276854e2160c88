//! Rules that depend on the content of a file: `*.pem` is protected and hidden if the file holds a
//! private key, and a hidden file is shown if git tracks exactly its content.
//!
//! The open file is judged, not its name, so that exchanging the file changes nothing. An entry that
//! is not a regular file, or that cannot be read completely, counts as a secret. An absent name is
//! free: a key that a worker creates is hidden from the next call on.

use std::ffi::{OsStr, OsString};

use sandbox_names::git_index::{MAX_INDEX_BYTES, TrackedFiles};
use sandbox_names::secret::{MAX_JUDGED_BYTES, holds_private_key};

use crate::backend::{AnyDir, AnyFile, BackendDir as _, BackendError, BackendFile as _, FileKind};
use crate::error::{Error, ErrorReason, Verb};
use crate::mount::name_rules::{ContentCondition, NameRuleMatch, REPOSITORY};
use crate::mount::{Mount, hidden_by, path_in};
use crate::path::SandboxPath;
use crate::resolve::location::MountLocation;
use crate::resolve::path_walk::{FinalLink, Lookup};
use crate::resolve::refusals::not_found;
use crate::sandbox::FileSandbox;

/// A rule against a change that the content decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentGuard<'m> {
    pub(crate) rule: NameRuleMatch<'m>,
    pub(crate) is_hidden: bool,
}

/// Returns the bytes of a file, `None` if it has more than `most` or cannot be read.
async fn content_of(file: &AnyFile, most: u64) -> Option<Vec<u8>> {
    let most = usize::try_from(most).ok()?;
    let size = usize::try_from(file.meta().await.ok()?.size).unwrap_or(most);
    let mut content = vec![0; size.min(most) + 1];
    let mut filled = 0;
    while filled <= most {
        if filled == content.len() {
            // It has grown, or its size is not known.
            content.resize(most + 1, 0);
        }
        match file.read_at(&mut content[filled..], filled as u64).await {
            Ok(0) => {
                content.truncate(filled);
                return Some(content);
            }
            Ok(bytes) => filled += bytes,
            Err(_) => return None,
        }
    }
    None
}

/// Returns `true` if an open file holds a private key.
pub(crate) async fn is_key(file: &AnyFile) -> bool {
    let content = content_of(file, MAX_JUDGED_BYTES).await;
    content.is_none_or(|content| holds_private_key(&content))
}

/// Returns `true` if a rule hides an open file. `names` is its real path in the mount.
pub(crate) async fn is_secret(
    file: &AnyFile,
    rule: ContentCondition,
    (mount, names): (&Mount, &[OsString]),
) -> bool {
    let Some(content) = content_of(file, MAX_JUDGED_BYTES).await else {
        return true;
    };
    let is_named = match rule {
        ContentCondition::Key => holds_private_key(&content),
        ContentCondition::Untracked => true,
    };
    is_named && !is_tracked(mount, names, &content).await
}

/// Returns `true` if the innermost repository around a file, in the same mount, has it in its
/// index with this content.
async fn is_tracked(mount: &Mount, names: &[OsString], content: &[u8]) -> bool {
    for depth in (0..names.len()).rev() {
        let git: Vec<&OsStr> = (names[..depth].iter().map(OsString::as_os_str))
            .chain([OsStr::new(REPOSITORY)])
            .collect();
        let index = match read_index(&mount.dir, &git).await {
            Err(BackendError::Missing) => continue,
            index => index.ok().flatten(),
        };
        // Why: a worker that cannot read the objects cannot read the content there either.
        let objects = git.iter().copied().chain([OsStr::new("objects")]);
        let objects: Vec<OsString> = objects.map(OsStr::to_owned).collect();
        if hidden_by(mount, &objects).is_some() {
            return false;
        }
        let Some(path) = index.as_ref().and_then(|_| joined(&names[depth..])) else {
            return false;
        };
        let is_it = |name: &[u8]| name == path;
        let tracked = index.and_then(|index| TrackedFiles::read(&index, &is_it).ok());
        return tracked.is_some_and(|tracked| tracked.has(&path, content));
    }
    false
}

/// Reads the index of a git directory. `Missing` if the directory does not exist.
async fn read_index(top: &AnyDir, git: &[&OsStr]) -> Result<Option<Vec<u8>>, BackendError> {
    let mut dir: Option<AnyDir> = None;
    for name in git {
        dir = Some(dir.as_ref().unwrap_or(top).open_dir(name).await?);
    }
    let Some(dir) = dir else {
        return Err(BackendError::Missing);
    };
    match dir.open_file(OsStr::new("index")).await {
        Ok(file) => Ok(content_of(&file, MAX_INDEX_BYTES).await),
        Err(_) => Ok(None),
    }
}

/// A path as git writes it.
fn joined(names: &[OsString]) -> Option<Vec<u8>> {
    let names: Option<Vec<&str>> = names.iter().map(|name| name.to_str()).collect();
    Some(names?.join("/").into_bytes())
}

/// Returns `true` if a name in an open directory is a key; a link is not followed.
pub(crate) async fn is_key_at(dir: &AnyDir, name: &OsStr, kind: FileKind) -> bool {
    if kind != FileKind::File {
        return true;
    }
    match dir.open_file(name).await {
        Ok(file) => is_key(&file).await,
        Err(_) => true,
    }
}

impl FileSandbox {
    /// Returns `true` if a rule hides the entry at a location. An absent entry is not hidden.
    pub(crate) async fn is_secret_in(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        rule: ContentCondition,
    ) -> bool {
        let (Lookup::Entry { parent, meta }, Some(name)) = (&location.found, location.real.last())
        else {
            return matches!(location.found, Lookup::Root);
        };
        match meta.kind {
            FileKind::Link => {
                let names = location.real.clone();
                self.leads_to_secret(path, location.index, names, rule)
                    .await
            }
            FileKind::File => match parent.open_file(name).await {
                Ok(file) => is_secret(&file, rule, (location.mount, &location.real)).await,
                Err(_) => true,
            },
            _ => true,
        }
    }

    /// Returns `true` if a rule hides an entry of a directory listing.
    pub(crate) async fn is_listed_secret(
        &self,
        mount: usize,
        rule: ContentCondition,
        (names, name): (&[OsString], &OsStr),
        (dir, kind): (&AnyDir, FileKind),
    ) -> bool {
        let names: Vec<OsString> = names.iter().cloned().chain([name.to_owned()]).collect();
        let whole = &self.table.mounts[mount];
        match kind {
            FileKind::Link => {
                let path = path_in(whole, &names);
                self.leads_to_secret(&path, mount, names, rule).await
            }
            FileKind::File => match dir.open_file(name).await {
                Ok(file) => is_secret(&file, rule, (whole, &names)).await,
                Err(_) => true,
            },
            _ => true,
        }
    }

    /// Returns `true` if the target of a link is hidden, by the rule for its own name or by the rule
    /// for the name of the link, or if the target is not a file.
    async fn leads_to_secret(
        &self,
        path: &SandboxPath,
        mount: usize,
        names: Vec<OsString>,
        rule: ContentCondition,
    ) -> bool {
        let walked = self.walk_mounts(path, (mount, names), FinalLink::Follow, Verb::Read);
        let Ok(location) = Box::pin(walked).await else {
            return true;
        };
        let (Lookup::Entry { parent, meta }, Some(name)) = (&location.found, location.real.last())
        else {
            return true;
        };
        let own = hidden_by(location.mount, &location.real);
        let rule = match own.map(|own| own.by_content) {
            Some(None) => return true,
            Some(Some(ContentCondition::Untracked)) => ContentCondition::Untracked,
            Some(Some(ContentCondition::Key)) | None => rule,
        };
        match (meta.kind, parent.open_file(name).await) {
            (FileKind::File, Ok(file)) => {
                is_secret(&file, rule, (location.mount, &location.real)).await
            }
            _ => true,
        }
    }

    /// Refuses to change a private key or a hidden file, and to create a directory under a name
    /// whose rule depends on content.
    pub(crate) async fn check_content_guard(
        &self,
        path: &SandboxPath,
        guard: Option<ContentGuard<'_>>,
        location: &MountLocation<'_>,
        verb: Verb,
    ) -> Result<(), Error> {
        let Some(guard) = guard else { return Ok(()) };
        let rule = guard.rule.by_content.unwrap_or(ContentCondition::Untracked);
        let refused = match (&location.found, rule) {
            (_, ContentCondition::Untracked) => true,
            (Lookup::Missing { .. }, ContentCondition::Key) => verb == Verb::Create,
            (Lookup::Entry { parent, meta }, ContentCondition::Key)
                if meta.kind != FileKind::Link =>
            {
                let name = location
                    .real
                    .last()
                    .map_or(OsStr::new(""), OsString::as_os_str);
                is_key_at(parent, name, meta.kind).await
            }
            (Lookup::Entry { .. } | Lookup::Root, ContentCondition::Key) => {
                self.is_secret_in(path, location, rule).await
            }
        };
        if !refused {
            return Ok(());
        }
        let is_absent = guard.is_hidden
            && verb.sees()
            && (matches!(location.found, Lookup::Missing { .. })
                || self.is_secret_in(path, location, rule).await);
        if is_absent {
            return Err(not_found(path, Vec::new()));
        }
        let name = guard.rule.text.to_owned();
        Err(path.error(ErrorReason::Protected { verb, name }))
    }
}
