//! Moving and copying. Both ends are checked, each by the rules of its own mount.

use std::ffi::{OsStr, OsString};

use crate::backend::{AnyDir, Directory as _, Fault, Kind, Meta, now};
use crate::error::{Error, Reason, Verb};
use crate::mount::Mount;
use crate::ops::put::{Created, Failure, How, Source};
use crate::ops::tree::{Visitor, visit};
use crate::ops::write::last_name;
use crate::path::SandboxPath;
use crate::resolve::{Spot, check_size, holds_root};
use crate::sandbox::{FileSandbox, wrong_type};
use crate::walk::{Found, Last};

/// How to move or copy.
///
/// ```
/// let options = file_sandbox::MoveOptions::new().overwrite(true);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveOptions {
    overwrite: bool,
    durable: bool,
}

impl MoveOptions {
    /// Refuses to replace anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces a file or a link; a directory is never replaced.
    #[must_use]
    pub fn overwrite(mut self, yes: bool) -> Self {
        self.overwrite = yes;
        self
    }

    /// Waits until the change is on the disk.
    #[must_use]
    pub fn durable(mut self, yes: bool) -> Self {
        self.durable = yes;
        self
    }
}

/// Where something went.
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
pub struct Moved {
    /// The new place, with all links resolved.
    pub path: SandboxPath,
    /// Whether something was there before.
    pub replaced: bool,
}

impl FileSandbox {
    /// Moves a file, a link or a directory, making the directories on the way. A file that goes to
    /// another mount is copied there, by the rules of that mount, and then deleted here.
    ///
    /// # Errors
    /// `NOT_FOUND`; `READ_ONLY` at either end, for a root, and for a directory that holds a root or
    /// protected names; `EXISTS` without `overwrite`, and for a directory always; `INVALID_PATH`
    /// into itself; and those of writing.
    pub fn rename(
        &self,
        from: &SandboxPath,
        to: &SandboxPath,
        options: MoveOptions,
    ) -> Result<Moved, Error> {
        let _turn = self.turn();
        now(self.rename_at(from, to, &options))
    }

    /// Copies a file, making the directories on the way. Links are followed at both ends.
    ///
    /// # Errors
    /// Those of reading and of writing, and `EXISTS` without `overwrite`.
    pub fn copy(
        &self,
        from: &SandboxPath,
        to: &SandboxPath,
        options: MoveOptions,
    ) -> Result<Moved, Error> {
        let _turn = self.turn();
        now(self.copy_at(from, to, &options))
    }

    async fn copy_at(
        &self,
        from: &SandboxPath,
        to: &SandboxPath,
        options: &MoveOptions,
    ) -> Result<Moved, Error> {
        let opened = self.open_file(from).await?;
        let verb = Verb::Write;
        let spot = self.locate_for_change(to, Last::Follow, verb).await?;
        let old = self.check_file_target(to, &spot, verb)?;
        let moved = Moved {
            path: spot.path(),
            replaced: old.is_some(),
        };
        if let Some(old) = old {
            if !options.overwrite {
                return Err(Error::new(to.asked(), Reason::Exists));
            }
            if old.id == opened.meta.id {
                return Ok(moved);
            }
        }
        let size = opened.meta.size;
        check_size(to, spot.mount, verb, size)?;
        self.check_quota(to, &spot, verb, old.map(|old| old.size), size)
            .await?;
        let how = How {
            create_new: !options.overwrite,
            durable: options.durable,
        };
        let source = Source::File(&opened.file, opened.meta);
        self.put_at(to, spot, source, old, how, verb).await?;
        Ok(moved)
    }

    async fn rename_at(
        &self,
        from: &SandboxPath,
        to: &SandboxPath,
        options: &MoveOptions,
    ) -> Result<Moved, Error> {
        let source = self.locate_for_change(from, Last::Keep, Verb::Move).await?;
        let (parent, meta) = self.removable(from, &source, Verb::Move).await?;
        if meta.kind != Kind::Directory {
            self.check_suffix(from, &source)?;
        }
        let target = self.locate_for_change(to, Last::Keep, Verb::Write).await?;
        if source.index == target.index && source.real == target.real {
            let (path, replaced) = (target.path(), false);
            return Ok(Moved { path, replaced });
        }
        let old = self.check_move_target(to, &target, meta, options)?;
        if meta.kind == Kind::File {
            check_size(to, target.mount, Verb::Write, meta.size)?;
        }
        let moved = Moved {
            path: target.path(),
            replaced: old.is_some(),
        };
        let (name, new_name) = (last_name(from, &source)?, last_name(to, &target)?);
        if source.index == target.index {
            if meta.kind == Kind::Directory {
                if target.real.starts_with(&source.real) {
                    return Err(Error::new(from.asked(), Reason::IntoItself));
                }
                self.check_below(from, &source, &target.real).await?;
            }
            match self
                .move_within(parent, &name, &target, &new_name, options)
                .await
            {
                Err(Fault::OtherVolume) if meta.kind == Kind::File => {}
                Err(Fault::OtherVolume) => {
                    return Err(Error::new(from.asked(), Reason::OtherVolume));
                }
                Err(Fault::Invalid) => return Err(Error::new(from.asked(), Reason::IntoItself)),
                Err(fault @ Fault::Exists) => return Err(self.system(to, Verb::Write, fault)),
                Err(fault) => return Err(self.system(from, Verb::Move, fault)),
                Ok(()) => return Ok(moved),
            }
        }
        match meta.kind {
            Kind::File => {}
            Kind::Directory => return Err(Error::new(from.asked(), Reason::OtherVolume)),
            other => return Err(wrong_type(from, Verb::Move, other)),
        }
        self.copy_at(from, to, options).await?;
        let gone = parent.remove_file(&name).await;
        gone.map_err(|fault| self.system(from, Verb::Delete, fault))?;
        Ok(moved)
    }

    fn check_move_target(
        &self,
        to: &SandboxPath,
        target: &Spot<'_>,
        meta: Meta,
        options: &MoveOptions,
    ) -> Result<Option<Meta>, Error> {
        if to.asks_for_directory() && meta.kind != Kind::Directory {
            return Err(wrong_type(to, Verb::Write, Kind::Directory));
        }
        if meta.kind != Kind::Directory {
            self.check_file_place(to, target, Verb::Write)?;
        }
        match &target.found {
            Found::Root => Err(Error::new(to.asked(), Reason::Exists)),
            Found::Missing { .. } => Ok(None),
            // The same object: by the same name, or by one that a folding file system takes for
            // the same. Two hard links are two names, and rename(2) would leave both.
            Found::Entry { meta: old, .. } if old.id == meta.id => {
                if meta.kind == Kind::Directory || old.links <= 1 {
                    return Ok(None);
                }
                Err(Error::new(to.asked(), Reason::Exists))
            }
            Found::Entry { meta: old, .. } => {
                let replaceable =
                    matches!(old.kind, Kind::File | Kind::Link) && meta.kind != Kind::Directory;
                if !(options.overwrite && replaceable) {
                    return Err(Error::new(to.asked(), Reason::Exists));
                }
                if old.kind == Kind::File {
                    self.check_links_for_write(to, target, old)?;
                }
                Ok(Some(*old))
            }
        }
    }

    async fn move_within(
        &self,
        parent: &AnyDir,
        name: &OsStr,
        target: &Spot<'_>,
        new_name: &OsStr,
        options: &MoveOptions,
    ) -> Result<(), Fault> {
        let (dir, rest) = match &target.found {
            Found::Entry { parent, .. } => (parent, &[][..]),
            Found::Missing { parent, rest } => (parent, &rest[..]),
            Found::Root => return Err(Fault::Exists),
        };
        let made = Created::make(dir.borrow(), rest).await;
        let dirs = made.map_err(|failure| match failure {
            Failure::System(fault) => fault,
            Failure::Ownership => Fault::Invalid,
        })?;
        let replace = options.overwrite || matches!(target.found, Found::Entry { .. });
        let done = parent
            .rename(name, dirs.innermost(), new_name, replace)
            .await;
        if let Err(fault) = done {
            dirs.undo().await;
            return Err(fault);
        }
        if options.durable {
            dirs.innermost().sync().await?;
            parent.sync().await?;
        }
        Ok(())
    }

    /// A directory takes everything in it along: nothing below may be a root, protected or hidden,
    /// neither where it was nor where it comes to lie.
    pub(crate) async fn check_below(
        &self,
        path: &SandboxPath,
        spot: &Spot<'_>,
        new: &[OsString],
    ) -> Result<(), Error> {
        let verb = Verb::Move;
        let dir = self.open_found_dir(path, spot, verb).await?;
        let mut check = Below {
            files: self,
            path,
            verb,
            mount: spot.mount,
            places: [&spot.real, new],
            seen: 0,
        };
        visit(&dir, &mut check).await
    }

    pub(crate) async fn open_found_dir(
        &self,
        path: &SandboxPath,
        spot: &Spot<'_>,
        verb: Verb,
    ) -> Result<AnyDir, Error> {
        let (Found::Entry { parent, .. }, Some(name)) = (&spot.found, spot.real.last()) else {
            return Err(Error::new(path.asked(), Reason::IsRoot { verb }));
        };
        let dir = parent.open_dir(name).await;
        dir.map_err(|fault| self.system(path, verb, fault))
    }
}

/// Names below a directory that may be moved or deleted in one go.
pub(crate) const MAX_BELOW: usize = 200_000;

/// Looks whether everything below a directory may go.
pub(crate) struct Below<'a> {
    pub(crate) files: &'a FileSandbox,
    pub(crate) path: &'a SandboxPath,
    pub(crate) verb: Verb,
    pub(crate) mount: &'a Mount,
    /// Where the directory lies, and where it will.
    pub(crate) places: [&'a [OsString]; 2],
    pub(crate) seen: usize,
}

impl Below<'_> {
    fn refuse(&self, what: &'static str) -> Error {
        let verb = self.verb;
        Error::new(self.path.asked(), Reason::Holds { verb, what })
    }
}

impl Visitor for Below<'_> {
    async fn meet(
        &mut self,
        _at: &AnyDir,
        way: &[OsString],
        name: &OsStr,
        meta: &Meta,
    ) -> Result<(), Error> {
        self.seen += 1;
        if self.seen > MAX_BELOW {
            let (verb, limit) = (self.verb, MAX_BELOW);
            return Err(Error::new(
                self.path.asked(),
                Reason::TooMany { verb, limit },
            ));
        }
        if self.files.table.ids.contains(&meta.id) {
            return Err(holds_root(self.path, self.verb));
        }
        let limits = self.mount.limits();
        if meta.kind != Kind::Directory && !limits.allows_name(&name.to_string_lossy()) {
            return Err(self.refuse("files with a suffix that is not allowed"));
        }
        if self.mount.protected.is_empty() && self.mount.hidden.is_empty() {
            return Ok(());
        }
        for place in self.places {
            let names: Vec<OsString> = place
                .iter()
                .chain(way)
                .cloned()
                .chain([name.to_owned()])
                .collect();
            if self.mount.protected_by(&names).is_some()
                || self.mount.falls_under(&self.mount.hidden, &names).is_some()
            {
                return Err(self.refuse("a protected name"));
            }
            // A file says where the repository is by a way from where it lies itself.
            let moves = matches!(self.verb, Verb::Move) && meta.kind != Kind::Directory;
            if moves && self.mount.is_repository(&names) {
                return Err(self.refuse("a protected name"));
            }
        }
        Ok(())
    }

    async fn leave(&mut self, _at: &AnyDir, _name: &OsStr) -> Result<(), Error> {
        Ok(())
    }

    /// What cannot be looked at cannot be vouched for.
    fn closed(&mut self, fault: Fault) -> Result<(), Error> {
        Err(self.files.system(self.path, self.verb, fault))
    }
}
