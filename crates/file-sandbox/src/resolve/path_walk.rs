//! From the root of a mount to an object, name by name, links read and never followed.
//!
//! Decide and open are one step: every name is looked up on the handle of the directory that the
//! names before it led to, so a directory exchanged for a link in between changes nothing. A link's
//! text is put in front of the names still to go. Its `..` starts again from the root with the
//! real names so far, so that one handle is enough however deep the tree, and climbing above the
//! root is seen by counting, not by asking the system.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::backend::{AnyDir, BackendDir as _, BackendError, FileId, FileKind, FileMeta, Handle};

/// The start of a walk, and the directories below it that belong to other mounts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkRoot<'r> {
    pub(crate) root: &'r AnyDir,
    pub(crate) nested: &'r [NestedMount],
}

/// A mount with a target below that of another one.
#[derive(Clone, Debug)]
pub(crate) struct NestedMount {
    /// Its target, as names below the outer mount.
    pub(crate) names: Vec<OsString>,
    pub(crate) id: FileId,
    /// Its index in the sandbox's table.
    pub(crate) mount: usize,
}

/// The handling of a link at the last name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinalLink {
    Follow,
    Keep,
}

/// Limits of a walk: links as in Linux (`MAXSYMLINKS`, `path_resolution(7)`), names more than any
/// valid path has.
#[derive(Debug)]
pub(crate) struct WalkBudget {
    links: u32,
    names: u32,
    /// The links that were followed, by their real names, since they were last taken.
    pub(crate) followed: Vec<Vec<OsString>>,
}

impl WalkBudget {
    pub(crate) fn new() -> Self {
        Self {
            links: 40,
            names: 16_384,
            followed: Vec::new(),
        }
    }

    fn link(&mut self, names: Vec<OsString>) -> Result<(), WalkError> {
        self.links = self.links.checked_sub(1).ok_or(WalkError::Loop)?;
        self.followed.push(names);
        Ok(())
    }

    fn name(&mut self) -> Result<(), WalkError> {
        self.names = self.names.checked_sub(1).ok_or(WalkError::Loop)?;
        Ok(())
    }
}

/// The end of a walk and the real names of the path to it.
#[derive(Debug)]
pub(crate) struct WalkedPath<'r> {
    pub(crate) real: Vec<OsString>,
    pub(crate) found: Lookup<'r>,
}

/// The result of a walk.
#[derive(Debug)]
pub(crate) enum Lookup<'r> {
    /// The root of the mount.
    Root,
    /// An object: at the last of the real names, in `parent`.
    Entry { parent: Handle<'r>, meta: FileMeta },
    /// A missing object: `rest`, at least one name, does not exist in `parent`. The real names
    /// include it.
    Missing {
        parent: Handle<'r>,
        rest: Vec<OsString>,
    },
}

/// The reason why a walk ended early.
#[derive(Debug)]
pub(crate) enum WalkError {
    Escape,
    Loop,
    /// A name on the way is not a directory.
    NotADirectory,
    /// A link's text climbs out of a directory that does not exist.
    Broken,
    /// An absolute link: only the sandbox knows the mount of its target.
    Absolute {
        text: PathBuf,
        rest: Vec<OsString>,
    },
    /// A name that belongs to another mount.
    Enters {
        mount: usize,
        rest: Vec<OsString>,
    },
    System(BackendError),
}

impl From<BackendError> for WalkError {
    fn from(error: BackendError) -> Self {
        Self::System(error)
    }
}

/// Walks `names` from the root of `tree`.
pub(crate) async fn walk<'r>(
    tree: WalkRoot<'r>,
    names: Vec<OsString>,
    last: FinalLink,
    budget: &mut WalkBudget,
) -> Result<WalkedPath<'r>, WalkError> {
    let mut walk = PathWalk {
        tree,
        at: Handle::Root(tree.root),
        real: Vec::with_capacity(names.len()),
        pending: names.into(),
    };
    walk.skip_ahead().await;
    walk.run(last, budget).await
}

struct PathWalk<'r> {
    tree: WalkRoot<'r>,
    at: Handle<'r>,
    real: Vec<OsString>,
    pending: VecDeque<OsString>,
}

impl<'r> PathWalk<'r> {
    /// Lets the kernel walk all names but the last, if no link is among them.
    async fn skip_ahead(&mut self) {
        let climbs = self.pending.iter().any(|name| name == "..");
        if self.pending.len() < 2 || climbs || !self.tree.nested.is_empty() {
            return;
        }
        let way = self.pending.len() - 1;
        let Some(text) = joined(self.pending.iter().take(way)) else {
            return;
        };
        if let Some(dir) = self.tree.root.open_dir_beneath(&text).await {
            self.at = Handle::Own(dir);
            self.real.extend(self.pending.drain(..way));
        }
    }

    async fn run(
        mut self,
        last: FinalLink,
        budget: &mut WalkBudget,
    ) -> Result<WalkedPath<'r>, WalkError> {
        while let Some(name) = self.pending.pop_front() {
            budget.name()?;
            if name == ".." {
                self.climb()?;
                continue;
            }
            self.enters_by_name(&name)?;
            if !self.pending.is_empty() {
                match self.at.open_dir(&name).await {
                    Ok(dir) => self.step_into(name, dir).await?,
                    Err(BackendError::Missing) => return self.missing(name),
                    Err(BackendError::NotDirectory | BackendError::Link)
                        if self.is_above_nested(&name) =>
                    {
                        return self.missing(name);
                    }
                    Err(BackendError::NotDirectory | BackendError::Link) => {
                        self.expand(&name, budget).await?
                    }
                    Err(error) => return Err(error.into()),
                }
                continue;
            }
            let meta = match self.at.meta(&name).await {
                Ok(meta) => meta,
                Err(BackendError::Missing) => return self.missing(name),
                Err(error) => return Err(error.into()),
            };
            if meta.kind != FileKind::Directory && self.is_above_nested(&name) {
                return self.missing(name);
            }
            if meta.kind == FileKind::Link && last == FinalLink::Follow {
                self.expand(&name, budget).await?;
                continue;
            }
            self.enters_by_id(meta.id)?;
            self.real.push(name);
            let found = Lookup::Entry {
                parent: self.at,
                meta,
            };
            return Ok(WalkedPath {
                real: self.real,
                found,
            });
        }
        Ok(WalkedPath {
            real: self.real,
            found: Lookup::Root,
        })
    }

    fn climb(&mut self) -> Result<(), WalkError> {
        self.real.pop().ok_or(WalkError::Escape)?;
        let rest = std::mem::take(&mut self.pending);
        self.pending = self.real.drain(..).chain(rest).collect();
        self.at = Handle::Root(self.tree.root);
        Ok(())
    }

    async fn step_into(&mut self, name: OsString, dir: AnyDir) -> Result<(), WalkError> {
        if !self.tree.nested.is_empty() {
            self.enters_by_id(dir.own_meta().await?.id)?;
        }
        self.at = Handle::Own(dir);
        self.real.push(name);
        Ok(())
    }

    /// Puts a link's text in front of the pending names.
    async fn expand(&mut self, name: &OsStr, budget: &mut WalkBudget) -> Result<(), WalkError> {
        budget.link([&self.real[..], &[name.to_owned()]].concat())?;
        let text = match self.at.read_link(name).await {
            Ok(text) => text,
            Err(BackendError::Invalid) => return Err(WalkError::NotADirectory),
            Err(error) => return Err(error.into()),
        };
        if text.as_bytes().starts_with(b"/") {
            return Err(WalkError::Absolute {
                text: text.into(),
                rest: self.pending.drain(..).collect(),
            });
        }
        // Slashes at the end go away with the empty names: see the trap in `path.rs`.
        let names = text
            .as_bytes()
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty() && *name != b".");
        let rest = std::mem::take(&mut self.pending);
        self.pending = names
            .map(|name| OsStr::from_bytes(name).to_owned())
            .chain(rest)
            .collect();
        Ok(())
    }

    fn missing(mut self, name: OsString) -> Result<WalkedPath<'r>, WalkError> {
        let mut rest = vec![name];
        rest.extend(self.pending);
        if rest.iter().any(|name| name == "..") {
            return Err(WalkError::Broken);
        }
        self.real.extend(rest.iter().cloned());
        let found = Lookup::Missing {
            parent: self.at,
            rest,
        };
        Ok(WalkedPath {
            real: self.real,
            found,
        })
    }

    /// A link may lead to the place below this mount that another mount covers.
    fn enters_by_name(&mut self, name: &OsStr) -> Result<(), WalkError> {
        let covers = |nested: &&NestedMount| {
            nested.names.len() == self.real.len() + 1
                && nested.names.last().is_some_and(|last| last == name)
                && nested.names.starts_with(&self.real)
        };
        match self.tree.nested.iter().find(covers) {
            Some(nested) => Err(self.enter(nested.mount)),
            None => Ok(()),
        }
    }

    /// `true` if a mount point is below `name`. The sandbox shows a directory there, so a file or a
    /// link of that name in the outer mount is covered: it counts as missing.
    fn is_above_nested(&self, name: &OsStr) -> bool {
        self.tree.nested.iter().any(|nested| {
            nested.names.len() > self.real.len() + 1
                && nested.names.starts_with(&self.real)
                && nested.names[self.real.len()] == name
        })
    }

    /// Ends the walk at another mount's directory under another spelling, on a file system that
    /// folds case.
    fn enters_by_id(&mut self, id: FileId) -> Result<(), WalkError> {
        match self.tree.nested.iter().find(|nested| nested.id == id) {
            Some(nested) => Err(self.enter(nested.mount)),
            None => Ok(()),
        }
    }

    fn enter(&mut self, mount: usize) -> WalkError {
        WalkError::Enters {
            mount,
            rest: self.pending.drain(..).collect(),
        }
    }
}

/// Joins names with slashes, if they are text.
pub(crate) fn joined<'n>(names: impl Iterator<Item = &'n OsString>) -> Option<String> {
    let mut text = String::new();
    for name in names {
        if !text.is_empty() {
            text.push('/');
        }
        text.push_str(name.to_str()?);
    }
    Some(text)
}
