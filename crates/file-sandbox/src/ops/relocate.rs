//! Moving and copying. Both ends are checked, each by the rules of its own mount.

use std::ffi::{OsStr, OsString};

use crate::backend::{
    AnyDir, BackendDir as _, BackendError, FileId, FileKind, FileMeta, block_on_ready,
};
use crate::error::{CurrentContent, Error, ErrorReason, Verb};
use crate::hash::ContentHash;
use crate::mount::Mount;
use crate::mount::name_rules::{DirectoryRules, REPOSITORY, fold, strictest};
use crate::ops::file_hash::hash_of;
use crate::ops::tree_visitor::{TreeVisitor, visit};
use crate::ops::write::atomic_write::{AtomicWriteError, NewParentDirs, WriteMode, WriteSource};
use crate::ops::write::file_lock::{FileLock, check_unchanged};
use crate::ops::write::last_name;
use crate::path::SandboxPath;
use crate::resolve::content_rules::is_key_at;
use crate::resolve::location::MountLocation;
use crate::resolve::path_walk::{FinalLink, Lookup};
use crate::resolve::refusals::{holds_root, wrong_type};
use crate::resolve::{OpenedFile, check_size};
use crate::sandbox::FileSandbox;

/// Options of a move or copy.
///
/// ```
/// let options = file_sandbox::MoveOptions::new().overwrite(true);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveOptions {
    overwrite: bool,
    durable: bool,
    if_match: Option<ContentHash>,
    if_target_match: Option<ContentHash>,
}

impl MoveOptions {
    /// Refuses to replace anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    sandbox_names::setters! {
        /// Replaces a file or a link; a directory is never replaced.
        overwrite(yes: bool) = yes;
        /// Moves or copies only a file with this content.
        if_match(hash: ContentHash) = Some(hash);
        /// Replaces only a file with this content.
        if_target_match(hash: ContentHash) = Some(hash);
        /// Waits until the change is on the disk.
        durable(yes: bool) = yes;
    }
}

/// The result of a move or copy.
///
/// ```
/// # use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
/// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite);
/// let files = FileSandbox::new(vec![data])?;
/// let (a, b) = (files.path("/data/a.md")?, files.path("/data/new/b.md")?);
/// files.write(&a, "text", Default::default())?;
///
/// let moved = files.rename(&a, &b, Default::default())?;
/// assert_eq!(moved.path, b);
/// assert!(!moved.replaced);
/// files.copy(&b, &a, Default::default())?;
/// let denied = files.copy(&b, &a, Default::default()).unwrap_err();
/// assert_eq!(denied.kind(), ErrorKind::Exists);
/// # Ok::<(), file_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MoveOutcome {
    /// The new place, with all links resolved.
    pub path: SandboxPath,
    /// `true` if an existing file was replaced.
    pub replaced: bool,
}

impl FileSandbox {
    /// Moves a file, a link or a directory, and creates missing parent directories. A move to
    /// another mount copies the file by the rules of that mount, and then deletes the original.
    ///
    /// # Errors
    /// `NOT_FOUND`; `READ_ONLY` at either end, for a root, and for a directory with a root or
    /// protected names in it; `EXISTS` without `overwrite`, and for a directory always;
    /// `INVALID_PATH` into itself; and those of writing.
    pub fn rename(
        &self,
        from: &SandboxPath,
        to: &SandboxPath,
        options: MoveOptions,
    ) -> Result<MoveOutcome, Error> {
        self.retry_on_change(|| block_on_ready(self.rename_at(from, to, &options)))
    }

    /// Copies a file, and creates missing parent directories. Links are followed at both ends.
    ///
    /// # Errors
    /// Those of reading and of writing, and `EXISTS` without `overwrite`.
    pub fn copy(
        &self,
        from: &SandboxPath,
        to: &SandboxPath,
        options: MoveOptions,
    ) -> Result<MoveOutcome, Error> {
        self.retry_on_change(|| block_on_ready(self.copy_at(from, to, &options)))
    }

    async fn copy_at(
        &self,
        from: &SandboxPath,
        to: &SandboxPath,
        options: &MoveOptions,
    ) -> Result<MoveOutcome, Error> {
        let opened = self.open_file(from).await?;
        let location = self
            .locate_for_change(to, FinalLink::Follow, Verb::Write)
            .await?;
        let old = self.check_file_target(to, &location, Verb::Write)?;
        if let Some(old) = old {
            if !options.overwrite {
                return Err(to.error(ErrorReason::Exists));
            }
            if old.id == opened.meta.id {
                let (path, replaced) = (location.path(), true);
                return Ok(MoveOutcome { path, replaced });
            }
        }
        let hold = self.lock_target(to, &location, Verb::Write, old).await?;
        let old = hold.as_ref().map(|hold| hold.meta);
        self.copy_to_locked((from, opened), (to, location), old, options)
            .await
    }

    /// Copies an open file to a locked target.
    async fn copy_to_locked(
        &self,
        (from, opened): (&SandboxPath, OpenedFile<'_>),
        (to, location): (&SandboxPath, MountLocation<'_>),
        old: Option<FileMeta>,
        options: &MoveOptions,
    ) -> Result<MoveOutcome, Error> {
        let verb = Verb::Write;
        let moved = MoveOutcome {
            path: location.path(),
            replaced: old.is_some(),
        };
        let size = opened.meta.size;
        check_size(to, location.mount, verb, size)?;
        if let Some(expected) = options.if_match {
            self.check_hash(from, &opened, expected, Verb::Read).await?;
        }
        let target = options.if_target_match;
        self.check_match((to, &location), verb, old, target).await?;
        let _room = self.check_quota((to, &location), verb, old, size).await?;
        let how = WriteMode {
            create_new: !options.overwrite,
            durable: location.is_durable(options.durable),
            old,
            content: target,
            ..WriteMode::default()
        };
        let source = WriteSource::File(&opened.file, opened.meta);
        self.put_at((to, location), verb, source, how).await?;
        Ok(moved)
    }

    async fn check_hash(
        &self,
        path: &SandboxPath,
        opened: &OpenedFile<'_>,
        expected: ContentHash,
        verb: Verb,
    ) -> Result<(), Error> {
        let hash = hash_of(&opened.file, opened.meta.size, &self.cancel).await;
        let hash = hash.map_err(|fault| self.backend_error(path, verb, fault))?;
        if hash == expected {
            return Ok(());
        }
        let now = CurrentContent::Has(hash);
        Err(path.error(ErrorReason::Stale { verb, now }))
    }

    async fn rename_at(
        &self,
        from: &SandboxPath,
        to: &SandboxPath,
        options: &MoveOptions,
    ) -> Result<MoveOutcome, Error> {
        let source = self
            .locate_for_change(from, FinalLink::Keep, Verb::Move)
            .await?;
        let (parent, meta) = self.removable(from, &source, Verb::Move).await?;
        if meta.kind != FileKind::Directory {
            self.check_suffix(from, &source)?;
        }
        let target = self
            .locate_for_change(to, FinalLink::Keep, Verb::Write)
            .await?;
        if meta.kind == FileKind::Directory {
            self.check_directory_target(to, &target).await?;
        }
        if source.index == target.index && source.real == target.real {
            let (path, replaced) = (target.path(), false);
            return Ok(MoveOutcome { path, replaced });
        }
        let old = self.check_move_target(to, &target, meta, options)?;
        if meta.kind == FileKind::File {
            check_size(to, target.mount, Verb::Write, meta.size)?;
        }
        let moved = MoveOutcome {
            path: target.path(),
            replaced: old.is_some(),
        };
        let (name, _) = (last_name(from, &source)?, last_name(to, &target)?);
        let holds = self.lock_both((from, &source), (to, &target), old).await?;
        let (expected, replaced) = (options.if_match, options.if_target_match);
        self.check_match((from, &source), Verb::Move, holds.from, expected)
            .await?;
        self.check_match((to, &target), Verb::Write, holds.to, replaced)
            .await?;
        let source = MoveSource {
            path: from,
            location: &source,
            parent,
            name,
            meta,
        };
        if source.location.index == target.index
            && self.move_in_mount(&source, (to, &target), options).await?
        {
            return Ok(moved);
        }
        check_copyable(from, meta.kind)?;
        // Two mounts show one file: it needs no copy.
        if old.is_some() || !matches!(target.found, Lookup::Entry { .. }) {
            self.move_by_copy(&source, (to, target), holds.to, options)
                .await?;
        }
        Ok(moved)
    }

    /// Refuses a directory at a path that git's configuration or a rule for files protects.
    async fn check_directory_target(
        &self,
        to: &SandboxPath,
        target: &MountLocation<'_>,
    ) -> Result<(), Error> {
        // A move covers all entries of the directory.
        self.check_config_target(to, target, Verb::Move).await?;
        self.check_link_target(to, target, Verb::Move).await?;
        let Some(rule) = target.by_content else {
            return Ok(());
        };
        let (verb, name) = (Verb::Write, rule.text.to_owned());
        Err(to.error(ErrorReason::Protected { verb, name }))
    }

    /// Moves an object within its mount. `false` for a file whose target is on another volume.
    async fn move_in_mount(
        &self,
        source: &MoveSource<'_>,
        (to, target): (&SandboxPath, &MountLocation<'_>),
        options: &MoveOptions,
    ) -> Result<bool, Error> {
        let from = source.path;
        if source.meta.kind == FileKind::Directory {
            if target.real.starts_with(&source.location.real) {
                return Err(from.error(ErrorReason::IntoItself));
            }
            self.check_below(from, source.location, &target.real)
                .await?;
        }
        let new_name = last_name(to, target)?;
        let moved = self.move_within(source, (target, &new_name), options).await;
        match moved {
            Ok(moved) => self.settle(moved, source, (to, target), options).await,
            Err(BackendError::OtherVolume) if source.meta.kind == FileKind::File => Ok(false),
            Err(BackendError::OtherVolume) => Err(from.error(ErrorReason::OtherVolume)),
            Err(BackendError::Invalid) => Err(from.error(ErrorReason::IntoItself)),
            Err(fault @ BackendError::Exists) => Err(self.backend_error(to, Verb::Write, fault)),
            Err(fault) => Err(self.backend_error(from, Verb::Move, fault)),
        }
    }

    /// Looks at a moved object once it is in place, and takes it back if git would obey it.
    async fn settle(
        &self,
        moved: MovedObject<'_>,
        source: &MoveSource<'_>,
        (to, target): (&SandboxPath, &MountLocation<'_>),
        options: &MoveOptions,
    ) -> Result<bool, Error> {
        let MovedObject { dirs, old } = moved;
        let (parent, name, new_name) = (source.parent, &source.name, last_name(to, target)?);
        let at = dirs.innermost();
        let has = async |dir: &AnyDir, name: &OsStr, id: FileId| {
            dir.meta(name).await.is_ok_and(|meta| meta.id == id)
        };
        let placed = target.placed(Some(source.meta.id));
        if let Err(refusal) = self.check_placed(to, &placed, Verb::Write).await {
            if has(at, &new_name, source.meta.id).await {
                let _ = match old {
                    Some(_) => at.exchange(&new_name, parent, name).await,
                    None => at.rename(&new_name, parent, name, false).await,
                };
            }
            dirs.undo().await;
            return Err(refusal);
        }
        let done = async {
            if let Some(old) = old
                && has(parent, name, old).await
            {
                parent.remove_file(name).await?;
            }
            if target.is_durable(options.durable) {
                dirs.sync().await?;
                parent.sync().await?;
            }
            Ok(true)
        };
        let done = done.await;
        done.map_err(|fault| self.backend_error(source.path, Verb::Move, fault))
    }

    /// Copies a file to another mount, and deletes the original.
    async fn move_by_copy(
        &self,
        source: &MoveSource<'_>,
        (to, target): (&SandboxPath, MountLocation<'_>),
        held: Option<FileMeta>,
        options: &MoveOptions,
    ) -> Result<(), Error> {
        let MoveSource {
            path: from,
            parent,
            name,
            ..
        } = source;
        let opened = self.open_file(from).await?;
        if opened.meta.id != source.meta.id {
            return Err(from.error(ErrorReason::Changed { verb: Verb::Move }));
        }
        let before = opened.meta;
        self.copy_file_over((from, opened), (to, target), held, options)
            .await?;
        // The copy misses bytes that another process has written meanwhile.
        let same = check_unchanged(parent, name, &before, options.if_match, &self.cancel).await;
        same.map_err(|fault| self.backend_error(from, Verb::Move, fault))?;
        let mut gone = parent.remove_file(name).await;
        if gone.is_ok() && source.location.is_durable(options.durable) {
            gone = parent.sync().await;
        }
        gone.map_err(|fault| self.backend_error(from, Verb::Delete, fault))
    }

    /// Copies over `target`, which may be a link to the file.
    async fn copy_file_over(
        &self,
        (from, opened): (&SandboxPath, OpenedFile<'_>),
        (to, target): (&SandboxPath, MountLocation<'_>),
        held: Option<FileMeta>,
        options: &MoveOptions,
    ) -> Result<MoveOutcome, Error> {
        let is_link =
            matches!(&target.found, Lookup::Entry { meta, .. } if meta.kind == FileKind::Link);
        if is_link {
            return self.copy_at(from, to, options).await;
        }
        self.copy_to_locked((from, opened), (to, target), held, options)
            .await
    }

    /// Locks both files, always in one order.
    async fn lock_both(
        &self,
        (from, source): (&SandboxPath, &MountLocation<'_>),
        (to, target): (&SandboxPath, &MountLocation<'_>),
        old: Option<FileMeta>,
    ) -> Result<LockedPair, Error> {
        let file = |location: &MountLocation<'_>| match &location.found {
            Lookup::Entry { meta, .. } if meta.kind == FileKind::File => Some(*meta),
            Lookup::Root | Lookup::Missing { .. } | Lookup::Entry { .. } => None,
        };
        let first = file(source);
        let second = file(target)
            .filter(|meta| old.is_some() && first.is_none_or(|first| first.id != meta.id));
        let in_order = match (&first, &second) {
            (Some(first), Some(second)) => first.id < second.id,
            (Some(_) | None, None) | (None, Some(_)) => true,
        };
        let (from, to) = if in_order {
            let from = self.lock_entry(from, source, Verb::Move, first).await?;
            (
                from,
                self.lock_target(to, target, Verb::Write, second).await?,
            )
        } else {
            let to = self.lock_target(to, target, Verb::Write, second).await?;
            (self.lock_entry(from, source, Verb::Move, first).await?, to)
        };
        Ok(LockedPair {
            from: from.as_ref().map(|hold| hold.meta),
            to: to.as_ref().map(|hold| hold.meta),
            _holds: (from, to),
        })
    }

    fn check_move_target(
        &self,
        to: &SandboxPath,
        target: &MountLocation<'_>,
        meta: FileMeta,
        options: &MoveOptions,
    ) -> Result<Option<FileMeta>, Error> {
        if to.asks_for_directory() && meta.kind != FileKind::Directory {
            return Err(wrong_type(to, Verb::Write, FileKind::Directory));
        }
        if meta.kind != FileKind::Directory {
            self.check_file_place(to, target, Verb::Write)?;
        }
        match &target.found {
            Lookup::Root => Err(to.error(ErrorReason::Exists)),
            Lookup::Missing { .. } => Ok(None),
            // Source and target are one object: by one name, or by two that a folding file system
            // treats as equal. Two hard links are two names, and rename(2) would leave both.
            Lookup::Entry { meta: old, .. } if old.id == meta.id => {
                if meta.kind == FileKind::Directory || old.links <= 1 {
                    return Ok(None);
                }
                Err(to.error(ErrorReason::Exists))
            }
            Lookup::Entry { meta: old, .. } => {
                let replaceable = matches!(old.kind, FileKind::File | FileKind::Link)
                    && meta.kind != FileKind::Directory;
                if !(options.overwrite && replaceable) {
                    return Err(to.error(ErrorReason::Exists));
                }
                if old.kind == FileKind::File {
                    self.check_links_for_write(to, target, old)?;
                }
                Ok(Some(*old))
            }
        }
    }

    async fn move_within<'t>(
        &self,
        source: &MoveSource<'_>,
        (target, new_name): (&'t MountLocation<'_>, &OsStr),
        options: &MoveOptions,
    ) -> Result<MovedObject<'t>, BackendError> {
        let parent = source.parent;
        let (dir, rest) = match &target.found {
            Lookup::Entry { parent, .. } => (parent, &[][..]),
            Lookup::Missing { parent, rest } => (parent, &rest[..]),
            Lookup::Root => return Err(BackendError::Exists),
        };
        let made = NewParentDirs::make(dir.borrow(), rest).await;
        let dirs = made.map_err(|failure| match failure {
            AtomicWriteError::System(fault) => fault,
            AtomicWriteError::Ownership => BackendError::Invalid,
        })?;
        let at = dirs.innermost();
        // The old object stays until the new one has been looked at.
        let old = match &target.found {
            Lookup::Entry { meta, .. } if meta.id != source.meta.id => Some(meta.id),
            Lookup::Root | Lookup::Missing { .. } | Lookup::Entry { .. } => None,
        };
        let is_guarded = target.placed(None).is_guarded();
        // A file system without `RENAME_EXCHANGE` replaces.
        if old.is_some() && is_guarded && parent.exchange(&source.name, at, new_name).await.is_ok()
        {
            return Ok(MovedObject { dirs, old });
        }
        let replace = options.overwrite || matches!(target.found, Lookup::Entry { .. });
        let done = parent.rename(&source.name, at, new_name, replace).await;
        if let Err(fault) = done {
            dirs.undo().await;
            return Err(fault);
        }
        Ok(MovedObject { dirs, old: None })
    }

    /// Checks the content of a directory before it moves: no entry may be a root, protected or
    /// hidden, at the old or the new path.
    pub(crate) async fn check_below(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        new: &[OsString],
    ) -> Result<(), Error> {
        let verb = Verb::Move;
        let dir = self.open_found_dir(path, location, verb).await?;
        let mut check = SubtreeCheck::new(self, path, verb, location, new);
        visit(&dir, &mut check).await
    }

    pub(crate) async fn open_found_dir(
        &self,
        path: &SandboxPath,
        location: &MountLocation<'_>,
        verb: Verb,
    ) -> Result<AnyDir, Error> {
        let (Lookup::Entry { parent, .. }, Some(name)) = (&location.found, location.real.last())
        else {
            return Err(path.error(ErrorReason::IsRoot { verb }));
        };
        let dir = parent.open_dir(name).await;
        dir.map_err(|fault| self.backend_error(path, verb, fault))
    }
}

/// Refuses to copy anything but a file.
fn check_copyable(from: &SandboxPath, kind: FileKind) -> Result<(), Error> {
    match kind {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(from.error(ErrorReason::OtherVolume)),
        other => Err(wrong_type(from, Verb::Move, other)),
    }
}

/// An object at its new place.
struct MovedObject<'t> {
    dirs: NewParentDirs<'t>,
    /// The object that was there, which has the name of the source now.
    old: Option<FileId>,
}

/// The object of a move.
struct MoveSource<'s> {
    path: &'s SandboxPath,
    location: &'s MountLocation<'s>,
    parent: &'s AnyDir,
    name: OsString,
    meta: FileMeta,
}

/// Two locked files, with their metadata when they were locked.
struct LockedPair {
    from: Option<FileMeta>,
    to: Option<FileMeta>,
    _holds: (Option<FileLock>, Option<FileLock>),
}

fn is_repository(name: &OsStr) -> bool {
    fold(&name.to_string_lossy()) == REPOSITORY
}

/// Names below a directory that may be moved or deleted in one go.
pub(crate) const MAX_BELOW: usize = 200_000;

/// Checks that everything below a directory may be moved or deleted.
pub(crate) struct SubtreeCheck<'a> {
    files: &'a FileSandbox,
    path: &'a SandboxPath,
    verb: Verb,
    mount: &'a Mount,
    /// The path of the directory, and its new path, if it differs.
    places: Vec<&'a [OsString]>,
    /// The rules in each directory on the way down, for each place.
    rules: Vec<Vec<DirectoryRules<'a>>>,
    /// For each directory on the way down, `true` if it is a git directory or in one.
    in_git: Vec<bool>,
    seen: usize,
}

impl<'a> SubtreeCheck<'a> {
    pub(crate) fn new(
        files: &'a FileSandbox,
        path: &'a SandboxPath,
        verb: Verb,
        location: &'a MountLocation<'_>,
        new: &'a [OsString],
    ) -> Self {
        let mut places = vec![&location.real[..]];
        if new != location.real {
            places.push(new);
        }
        Self {
            files,
            path,
            verb,
            mount: location.mount,
            places,
            rules: Vec::new(),
            in_git: Vec::new(),
            seen: 0,
        }
    }

    fn refuse(&self, what: &'static str) -> Error {
        let verb = self.verb;
        self.path.error(ErrorReason::Holds { verb, what })
    }
}

impl TreeVisitor for SubtreeCheck<'_> {
    fn enter(&mut self, way: &[OsString]) {
        self.rules.truncate(way.len());
        let mount = self.mount;
        let rules = match (self.rules.last(), way.last()) {
            (Some(above), Some(name)) => above.iter().map(|rules| rules.step(name)).collect(),
            (None, _) | (_, None) => {
                let both = |place: &&'_ [OsString]| {
                    [&mount.protected, &mount.hidden]
                        .map(|rules| rules.in_dir(mount.rule_bases(), place))
                };
                self.places.iter().flat_map(both).collect()
            }
        };
        self.rules.push(rules);
        self.in_git.truncate(way.len());
        let in_git = match (self.in_git.last(), way.last()) {
            (Some(above), Some(name)) => *above || is_repository(name),
            (None, _) | (_, None) => {
                let mut bases = mount.rule_bases();
                let above = bases.any(|base| base.iter().any(|name| is_repository(name)));
                let mut places = self.places.iter().flat_map(|place| place.iter());
                above || places.any(|name| is_repository(name))
            }
        };
        self.in_git.push(in_git);
    }

    async fn meet(
        &mut self,
        at: &AnyDir,
        way: &[OsString],
        name: &OsStr,
        meta: &FileMeta,
    ) -> Result<(), Error> {
        self.files.check_cancelled(self.path, self.verb)?;
        self.seen += 1;
        if self.seen > MAX_BELOW {
            let (verb, limit) = (self.verb, MAX_BELOW);
            return Err(self.path.error(ErrorReason::TooMany { verb, limit }));
        }
        if self.files.table.ids.contains(&meta.id) {
            return Err(holds_root(self.path, self.verb));
        }
        // The system would refuse to delete it, after earlier entries are deleted.
        if self.verb == Verb::Delete && at.is_mount_point(name).await {
            return Err(self.refuse("a mount point"));
        }
        let limits = self.mount.limits();
        if meta.kind != FileKind::Directory && !limits.allows_name(&name.to_string_lossy()) {
            return Err(self.refuse("files with a suffix that is not allowed"));
        }
        let rules = self.rules.get(way.len()).into_iter().flatten();
        let rule = strictest(rules.filter_map(|rules| rules.matching(name)));
        if let Some(rule) = rule
            && (!rule.is_for_keys() || is_key_at(at, name, meta.kind).await)
        {
            return Err(self.refuse("a protected name"));
        }
        let is_git = is_repository(name);
        // Only git's own files need the check of their whole path.
        if is_git || self.in_git.get(way.len()) == Some(&true) {
            // A file `.git` has a path relative to itself.
            let moves = self.verb == Verb::Move && meta.kind != FileKind::Directory;
            for place in &self.places {
                let names = place.iter().chain(way).cloned().chain([name.to_owned()]);
                let names: Vec<OsString> = names.collect();
                let repository = moves && is_git && self.mount.is_repository(&names);
                if repository || self.mount.protected_by(&names).is_some() {
                    return Err(self.refuse("a protected name"));
                }
            }
        }
        Ok(())
    }

    async fn leave(&mut self, _at: &AnyDir, _name: &OsStr) -> Result<(), Error> {
        Ok(())
    }

    /// An unreadable directory cannot be checked, so the operation fails.
    fn closed(&mut self, fault: BackendError) -> Result<(), Error> {
        Err(self.files.backend_error(self.path, self.verb, fault))
    }
}
