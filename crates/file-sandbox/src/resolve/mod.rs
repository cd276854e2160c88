//! Resolves a path to an object: finds the mount, follows the links, and checks the name rules.

pub(crate) mod bare_repository;
pub(crate) mod content_rules;
mod git_config_targets;
mod led_to;
mod link_targets;
pub(crate) mod location;
pub(crate) mod path_walk;
pub(crate) mod refusals;
#[cfg_attr(not(feature = "edit"), path = "no_suggestions.rs")]
mod suggestions;

use std::ffi::OsString;

use crate::backend::{
    AnyFile, BackendDir as _, BackendError, BackendFile as _, FileKind, FileMeta,
};
use crate::error::{Error, ErrorReason, InvalidPath, Verb};
use crate::mount::limits::HardLinks;
use crate::mount::name_rules::{TEMP_PREFIX, strictest};
use crate::mount::{Mount, hidden_by, is_temp, path_in};
use crate::path::{SandboxPath, names_below};
use crate::resolve::content_rules::{ContentGuard, is_secret};
use crate::resolve::location::{MountLocation, MountPlace, Resolution};
use crate::resolve::path_walk::{FinalLink, Lookup, WalkBudget, WalkError, WalkRoot, walk};
use crate::resolve::refusals::{holds_root, not_found, wrong_type};
use crate::sandbox::FileSandbox;

impl FileSandbox {
    /// Resolves `path`.
    ///
    /// # Errors
    /// `OUTSIDE_SANDBOX`, `ESCAPE`, `LOOP` and so on; `NOT_FOUND` for hidden names only: a missing
    /// object is `Lookup::Missing`.
    pub(crate) async fn locate(
        &self,
        path: &SandboxPath,
        last: FinalLink,
        verb: Verb,
    ) -> Result<Resolution<'_>, Error> {
        let Some((index, names)) = self.enter(path) else {
            if self.table.is_virtual(path) {
                return Ok(Resolution::Virtual(path.clone()));
            }
            return Err(self.outside_error(path));
        };
        self.check_open(path, index, verb)?;
        let asked = hidden_by(&self.table.mounts[index], &names);
        if asked.is_some_and(|rule| rule.by_content.is_none()) {
            return self.hidden_place(path, path.clone());
        }
        let mut location = self.walk_mounts(path, (index, names), last, verb).await?;
        let real = hidden_by(location.mount, &location.real);
        if let Some(rule) = strictest(asked.into_iter().chain(real)) {
            let is_secret = match rule.by_content {
                Some(content) => self.is_secret_in(path, &location, content).await,
                None => true,
            };
            if is_secret {
                return self.hidden_place(path, location.path());
            }
            location.by_content = Some(rule);
        }
        if path.asks_for_directory()
            && let Lookup::Entry { meta, .. } = &location.found
            && !matches!(meta.kind, FileKind::Directory | FileKind::Link)
        {
            let found = meta.kind.words();
            let hint = Some("Leave out the slash at its end.");
            return Err(path.error(ErrorReason::WrongType { verb, found, hint }));
        }
        if self.is_only_shown(&location) {
            return Ok(Resolution::Virtual(location.path()));
        }
        Ok(Resolution::In(location))
    }

    /// Reports a hidden path as absent, except for a directory above a mount point.
    fn hidden_place(&self, path: &SandboxPath, real: SandboxPath) -> Result<Resolution<'_>, Error> {
        match self.table.is_virtual(&real) {
            true => Ok(Resolution::Virtual(real)),
            false => Err(not_found(path, Vec::new())),
        }
    }

    /// `true` if a mount point is below the path and the outer mount has no directory there.
    fn is_only_shown(&self, location: &MountLocation<'_>) -> bool {
        matches!(location.found, Lookup::Missing { .. })
            && !self.table.nested[location.index].is_empty()
            && self.table.is_virtual(&location.path())
    }

    /// Like `locate`, for an operation that changes the object.
    pub(crate) async fn locate_for_change(
        &self,
        path: &SandboxPath,
        last: FinalLink,
        verb: Verb,
    ) -> Result<MountLocation<'_>, Error> {
        let Some((index, names)) = self.enter(path) else {
            return Err(if self.table.is_virtual(path) {
                path.error(ErrorReason::IsRoot { verb })
            } else {
                self.outside_error(path)
            });
        };
        let asked = self.check_changeable(path, index, &names, verb)?;
        let mut location = self.walk_mounts(path, (index, names), last, verb).await?;
        let real = self.check_changeable(path, location.index, &location.real, verb)?;
        if self.is_only_shown(&location) {
            return Err(holds_root(path, verb));
        }
        let guard = match asked {
            Some(asked) if asked.is_hidden => Some(asked),
            asked => real.or(asked),
        };
        self.check_content_guard(path, guard, &location, verb)
            .await?;
        location.by_content = guard.map(|guard| guard.rule);
        self.check_bare_repository(path, &location, verb).await?;
        self.check_config_target(path, &location, verb).await?;
        Box::pin(self.check_link_target(path, &location, verb)).await?;
        Ok(location)
    }

    /// Opens a regular file for reading, and checks the open file itself.
    pub(crate) async fn open_file(&self, path: &SandboxPath) -> Result<OpenedFile<'_>, Error> {
        // In one step, if the path contains no link.
        if let Some((mount, way)) = self.plain_way(path)
            && let Some(file) = mount.dir.open_file_beneath(way).await
        {
            let meta = file.meta().await;
            let meta = meta.map_err(|fault| self.backend_error(path, Verb::Read, fault))?;
            // Without a link the requested name is that of the file.
            check_opened(path, mount, None, &meta)?;
            return Ok(OpenedFile { file, meta, mount });
        }
        // Boxed, so that the future of the fast path does not contain the state of the slow one.
        Box::pin(self.open_by_walk(path)).await
    }

    async fn open_by_walk(&self, path: &SandboxPath) -> Result<OpenedFile<'_>, Error> {
        let location = match self.locate(path, FinalLink::Follow, Verb::Read).await? {
            Resolution::Virtual(_) => {
                return Err(wrong_type(path, Verb::Read, FileKind::Directory));
            }
            Resolution::In(location) => location,
        };
        let Lookup::Entry { parent, meta } = &location.found else {
            return Err(match location.found {
                Lookup::Missing { .. } => {
                    self.check_suffix(path, &location)?;
                    self.missing_error(path, &location).await
                }
                Lookup::Root | Lookup::Entry { .. } => {
                    wrong_type(path, Verb::Read, FileKind::Directory)
                }
            });
        };
        // Before the open, because opening a device can already do something.
        if meta.kind != FileKind::File {
            return Err(wrong_type(path, Verb::Read, meta.kind));
        }
        self.check_suffix(path, &location)?;
        let (file, name) = match location.real.last() {
            Some(name) => (parent.open_file(name).await, name.to_string_lossy()),
            None => return Err(wrong_type(path, Verb::Read, FileKind::Directory)),
        };
        let file = file.map_err(|fault| self.backend_error(path, Verb::Read, fault))?;
        let meta = file.meta().await;
        let meta = meta.map_err(|fault| self.backend_error(path, Verb::Read, fault))?;
        let mount = location.mount;
        check_opened(path, mount, Some(&name), &meta)?;
        // The check is repeated on the open file, because the file found may have been replaced.
        if let Some(content) = location.by_content.and_then(|rule| rule.by_content)
            && is_secret(&file, content, (mount, &location.real)).await
        {
            return Err(not_found(path, Vec::new()));
        }
        Ok(OpenedFile { file, meta, mount })
    }

    /// Returns the metadata of the object at a path without links.
    pub(crate) async fn meta_without_links(&self, path: &SandboxPath) -> Option<FileMeta> {
        let (mount, way) = self.plain_way(path)?;
        mount.dir.meta_beneath(way).await
    }

    /// Returns the path below a mount as text, if its names are plain and no rule applies to it.
    #[inline]
    fn plain_way<'p>(&self, path: &'p SandboxPath) -> Option<(&Mount, &'p str)> {
        let (index, way) = self.table.mount_and_way(path)?;
        let mount = &self.table.mounts[index];
        // A slash at the end asks for a directory, whose type must be checked.
        let plain = !way.is_empty()
            && !mount.closed
            && !path.asks_for_directory()
            && self.table.nested[index].is_empty()
            && has_plain_names(way);
        if !plain {
            return None;
        }
        if !mount.hidden.is_empty() {
            let names: Vec<OsString> = way.split('/').map(OsString::from).collect();
            if hidden_by(mount, &names).is_some() {
                return None;
            }
        }
        Some((mount, way))
    }

    /// Returns the mount that covers a path and the names below it.
    fn enter(&self, path: &SandboxPath) -> Option<(usize, Vec<OsString>)> {
        let index = self.table.mount_of(path)?;
        let names = names_below(path, self.table.mounts[index].target())?;
        Some((index, names))
    }

    /// Refuses to read in a closed mount. Every operation that reads a file or lists a directory
    /// calls it; no other code checks this.
    fn check_open(&self, path: &SandboxPath, index: usize, verb: Verb) -> Result<(), Error> {
        let mount = &self.table.mounts[index];
        match mount.closed && verb.reads() {
            true => {
                let root = self.table.show(mount.target());
                Err(path.error(ErrorReason::Closed { verb, root }))
            }
            false => Ok(()),
        }
    }

    pub(crate) async fn mounts_on_the_way(
        &self,
        path: &SandboxPath,
        last: FinalLink,
    ) -> Vec<SandboxPath> {
        let mut way = Vec::new();
        let Some(start) = self.enter(path) else {
            return way;
        };
        let enters = |index: usize, names: &[OsString]| {
            way.push(path_in(&self.table.mounts[index], names));
            Ok(())
        };
        let mut links = Vec::new();
        let walked = self.walk_noting(path, start, (last, Verb::Access), enters, &mut links);
        if let Ok(location) = walked.await
            && let Some(end) = way.last_mut()
        {
            *end = location.path();
        }
        way
    }

    /// Walks from mount to mount along links, on one budget. `start`: a mount, and names below it.
    pub(crate) async fn walk_mounts(
        &self,
        path: &SandboxPath,
        start: MountPlace,
        last: FinalLink,
        verb: Verb,
    ) -> Result<MountLocation<'_>, Error> {
        let enters = |index, _: &[OsString]| self.check_open(path, index, verb);
        self.walk_noting(path, start, (last, verb), enters, &mut Vec::new())
            .await
    }

    /// Like `walk_mounts`. Calls `enters` before it enters a mount, and adds the links on the way to
    /// `links`.
    async fn walk_noting(
        &self,
        path: &SandboxPath,
        (mut index, mut names): MountPlace,
        (last, verb): (FinalLink, Verb),
        mut enters: impl FnMut(usize, &[OsString]) -> Result<(), Error>,
        links: &mut Vec<MountPlace>,
    ) -> Result<MountLocation<'_>, Error> {
        let mut budget = WalkBudget::new();
        // Every turn but the last costs a link or enters a deeper mount, and the budget ends.
        loop {
            enters(index, &names)?;
            let mount = &self.table.mounts[index];
            let tree = WalkRoot {
                root: &mount.dir,
                nested: &self.table.nested[index],
            };
            let walked = walk(tree, names, last, &mut budget).await;
            links.extend(budget.followed.drain(..).map(|link| (index, link)));
            match walked {
                Ok(walked) => {
                    return Ok(MountLocation {
                        mount,
                        index,
                        real: walked.real,
                        found: walked.found,
                        by_content: None,
                    });
                }
                Err(WalkError::Absolute { text, rest }) => {
                    let Some((target, mut way)) = self.table.by_host(&text) else {
                        return Err(self.escape_error(path));
                    };
                    way.extend(rest);
                    (index, names) = (target, way);
                }
                Err(WalkError::Enters { mount, rest }) => (index, names) = (mount, rest),
                Err(WalkError::Escape) => return Err(self.escape_error(path)),
                Err(WalkError::Loop) => return Err(path.error(ErrorReason::Loop)),
                Err(WalkError::Broken) => return Err(not_found(path, Vec::new())),
                Err(WalkError::NotADirectory) => {
                    let found = "below a file, not a directory";
                    let reason = ErrorReason::WrongType {
                        verb,
                        found,
                        hint: None,
                    };
                    return Err(path.error(reason));
                }
                Err(WalkError::System(fault)) => return Err(self.backend_error(path, verb, fault)),
            }
        }
    }

    /// Refuses a change that the names alone forbid. Returns the guard that depends on the content.
    fn check_changeable(
        &self,
        path: &SandboxPath,
        index: usize,
        names: &[OsString],
        verb: Verb,
    ) -> Result<Option<ContentGuard<'_>>, Error> {
        let mount = &self.table.mounts[index];
        if !mount.mode().can_write() {
            let writable = self.writable_roots();
            return Err(path.error(ErrorReason::ReadOnly { verb, writable }));
        }
        if is_temp(names) {
            return Err(path.error(ErrorReason::Invalid(InvalidPath::Reserved)));
        }
        let hidden = mount.falls_under(&mount.hidden, names);
        if let Some(rule) = hidden.filter(|rule| verb.sees() && !rule.is_for_keys()) {
            let is_hidden = true;
            return match rule.by_content {
                Some(_) => Ok(Some(ContentGuard { rule, is_hidden })),
                None => Err(not_found(path, Vec::new())),
            };
        }
        let rules = [mount.protected_by(names), hidden];
        match strictest(rules.into_iter().flatten()) {
            Some(rule) if rule.is_for_keys() => Ok(Some(ContentGuard {
                rule,
                is_hidden: hidden.is_some(),
            })),
            Some(rule) => {
                // A rule with a leading `/` counts from the mount's top.
                let is_path = rule.text.starts_with('/') && mount.base.is_empty();
                let name = match is_path {
                    true => {
                        let target = mount.target().as_str().trim_end_matches('/');
                        format!("{target}{}", rule.text)
                    }
                    false => rule.text.to_owned(),
                };
                Err(path.error(ErrorReason::Protected { verb, name }))
            }
            None => Ok(None),
        }
    }

    pub(crate) fn check_suffix(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
    ) -> Result<(), Error> {
        let real = location.real.last().map(|name| name.to_string_lossy());
        check_suffix(path, location.mount, real.as_deref())
    }

    /// Refuses a file at `location` whose suffix is not allowed, and a file `.git`, which would point
    /// to a repository.
    pub(crate) fn check_file_place(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        verb: Verb,
    ) -> Result<(), Error> {
        if location.mount.is_repository(&location.real) {
            let name = ".git".to_owned();
            return Err(path.error(ErrorReason::Protected { verb, name }));
        }
        self.check_suffix(path, location)
    }

    pub(crate) fn check_links_for_read(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        meta: &FileMeta,
    ) -> Result<(), Error> {
        check_links_for_read(path, location.mount, meta)
    }

    pub(crate) fn check_links_for_write(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        meta: &FileMeta,
    ) -> Result<(), Error> {
        match location.mount.limits().hard_link_policy() {
            HardLinks::Deny | HardLinks::ReadOnly => check_links(path, Verb::Write, meta),
            HardLinks::Allow => Ok(()),
        }
    }

    /// Returns `NOT_FOUND` with the nearest names.
    pub(crate) async fn missing_error(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
    ) -> Error {
        let Lookup::Missing { parent, rest } = &location.found else {
            return not_found(path, Vec::new());
        };
        // The names in a closed mount are not revealed.
        if location.mount.closed {
            return not_found(path, Vec::new());
        }
        let there = &location.real[..location.real.len() - rest.len()];
        let place = path_in(location.mount, there);
        let visible = |name: &OsString| {
            let mut names = there.to_vec();
            names.push(name.clone());
            // A name whose rule depends on content is left out: no file is opened for a suggestion.
            hidden_by(location.mount, &names).is_none()
        };
        let names = suggestions::suggest(parent, &rest[0], visible).await;
        let nearest = names.iter().map(|name| self.table.show(&place.child(name)));
        not_found(path, nearest.collect())
    }

    pub(crate) fn outside_error(&self, path: &SandboxPath) -> Error {
        let readable = Some(self.readable_roots());
        path.error(ErrorReason::Outside { readable })
    }

    fn escape_error(&self, path: &SandboxPath) -> Error {
        let readable = self.readable_roots();
        path.error(ErrorReason::Escape { readable })
    }

    pub(crate) fn backend_error(
        &self,
        path: &SandboxPath,
        verb: Verb,
        fault: BackendError,
    ) -> Error {
        let reason = match fault {
            BackendError::Missing => return not_found(path, Vec::new()),
            BackendError::NameTooLong => ErrorReason::NameTooLong {
                bytes: path.asked().len(),
                limit: crate::path::PATH_MAX_BYTES,
            },
            BackendError::Exists => ErrorReason::Exists,
            BackendError::Cancelled => ErrorReason::Cancelled { verb },
            // Only a replacement since the check can cause these.
            BackendError::Link | BackendError::NotServed => ErrorReason::Changed { verb },
            BackendError::NotDirectory
            | BackendError::IsDirectory
            | BackendError::NotEmpty
            | BackendError::Invalid
            | BackendError::OtherVolume
            | BackendError::System(_)
            | BackendError::Kind(_) => ErrorReason::Io {
                verb,
                source: fault.into_io(),
            },
        };
        path.error(reason)
    }
}

/// An open regular file with permission to read it.
pub(crate) struct OpenedFile<'s> {
    pub(crate) file: AnyFile,
    pub(crate) meta: FileMeta,
    pub(crate) mount: &'s Mount,
}

/// `true` if no name has an escape or is one of our temporary files. Why one pass: every read calls
/// it.
#[inline]
fn has_plain_names(way: &str) -> bool {
    let (bytes, temp) = (way.as_bytes(), TEMP_PREFIX.as_bytes());
    let mut starts = true;
    for (at, byte) in bytes.iter().enumerate() {
        let ours = starts && *byte == temp[0] && bytes[at..].starts_with(temp);
        if ours || *byte == b'\\' {
            return false;
        }
        starts = *byte == b'/';
    }
    true
}

/// Checks an open file: type, suffix, hard links and size.
#[inline]
fn check_opened(
    path: &SandboxPath,
    mount: &Mount,
    real: Option<&str>,
    meta: &FileMeta,
) -> Result<(), Error> {
    if meta.kind != FileKind::File {
        return Err(wrong_type(path, Verb::Read, meta.kind));
    }
    check_suffix(path, mount, real)?;
    check_links_for_read(path, mount, meta)?;
    check_size(path, mount, Verb::Read, meta.size)
}

/// Checks both names: the requested one, and that of the file it leads to.
#[inline]
fn check_suffix(path: &SandboxPath, mount: &Mount, real: Option<&str>) -> Result<(), Error> {
    let limits = mount.limits();
    let Some(allowed) = limits.allowed_suffixes() else {
        return Ok(());
    };
    if [path.file_name(), real]
        .into_iter()
        .flatten()
        .all(|name| limits.allows_name(name))
    {
        return Ok(());
    }
    let allowed = allowed.to_vec();
    Err(path.error(ErrorReason::Suffix { allowed }))
}

#[inline]
fn check_links_for_read(path: &SandboxPath, mount: &Mount, meta: &FileMeta) -> Result<(), Error> {
    match mount.limits().hard_link_policy() {
        HardLinks::Deny => check_links(path, Verb::Read, meta),
        HardLinks::Allow | HardLinks::ReadOnly => Ok(()),
    }
}

#[inline]
pub(crate) fn check_size(
    path: &SandboxPath,
    mount: &Mount,
    verb: Verb,
    bytes: u64,
) -> Result<(), Error> {
    let of_file = mount.limits().file_byte_limit().map(|limit| (limit, ""));
    let of_write = mount.limits().write_limit().filter(|_| verb != Verb::Read);
    let limits = [of_file, of_write].into_iter().flatten();
    match limits.min_by_key(|(limit, _)| *limit) {
        Some((limit, setting)) if bytes > limit => Err(path.error(ErrorReason::TooLarge {
            verb,
            bytes,
            limit,
            setting,
        })),
        _ => Ok(()),
    }
}

fn check_links(path: &SandboxPath, verb: Verb, meta: &FileMeta) -> Result<(), Error> {
    if meta.links <= 1 {
        return Ok(());
    }
    let links = meta.links;
    Err(path.error(ErrorReason::HardLinks { verb, links }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names() {
        for (way, plain) in [
            ("a", true),
            (".a/.b", true),
            ("a.forge-tmp-1", true),
            (".forge-tmp", true),
            (".forge-tmp-1", false),
            ("a/.forge-tmp-/b", false),
            ("a/b\\u{a}", false),
        ] {
            assert_eq!(has_plain_names(way), plain, "{way}");
        }
    }
}
