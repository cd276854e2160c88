//! A walk over everything below a directory that neither recurses nor runs out of descriptors.
//!
//! Other implementations of `remove_dir_all` have one open directory for each level and fail
//! half-way down a deep tree. Here the last [`KEPT`] stay open, and the way back up reopens the
//! rest, one by one: by `..` if that is the directory of the way down, and otherwise from the top
//! without following a link (CVE-2022-21658).

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};

use crate::backend::{
    AnyDir, BackendDir as _, BackendError, BackendNames as _, FileId, FileKind, FileMeta,
};
use crate::error::Error;

/// Open directories kept on the way.
const KEPT: usize = 24;

/// Callbacks of a walk. `way` are the names from the top to the directory `at`.
pub(crate) trait TreeVisitor {
    /// Called before the directory at `way` is read.
    fn enter(&mut self, way: &[OsString]) {
        let _ = way;
    }

    /// Called for each entry of `at`, for a directory before its entries.
    async fn meet(
        &mut self,
        at: &AnyDir,
        way: &[OsString],
        name: &OsStr,
        meta: &FileMeta,
    ) -> Result<(), Error>;

    /// Called after all entries of the directory `name`.
    async fn leave(&mut self, at: &AnyDir, name: &OsStr) -> Result<(), Error>;

    /// Called for an unreadable directory.
    fn closed(&mut self, fault: BackendError) -> Result<(), Error>;
}

/// Visits everything below `top`.
pub(crate) async fn visit(top: &AnyDir, visitor: &mut impl TreeVisitor) -> Result<(), Error> {
    let mut open = OpenDirs {
        top,
        ids: Vec::new(),
        kept: VecDeque::new(),
        first: 1,
    };
    let mut way: Vec<OsString> = Vec::new();
    visitor.enter(&way);
    let mut levels = vec![scan(top, &way, visitor).await?];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.pop() {
            way.push(name);
            let below = match open.at(&way).await {
                Ok(dir) => {
                    visitor.enter(&way);
                    scan(dir, &way, visitor).await?
                }
                Err(fault) => {
                    visitor.closed(fault)?;
                    Vec::new()
                }
            };
            levels.push(below);
            continue;
        }
        levels.pop();
        let Some(name) = way.pop() else {
            break;
        };
        match open.at(&way).await {
            Ok(dir) => visitor.leave(dir, &name).await?,
            Err(fault) => visitor.closed(fault)?,
        }
    }
    Ok(())
}

/// Reports all entries of one directory, and returns the directories among them.
async fn scan(
    dir: &AnyDir,
    way: &[OsString],
    visitor: &mut impl TreeVisitor,
) -> Result<Vec<OsString>, Error> {
    let mut dirs = Vec::new();
    let mut names = match dir.names().await {
        Ok(names) => names,
        Err(fault) => {
            visitor.closed(fault)?;
            return Ok(dirs);
        }
    };
    loop {
        let name = match names.next().await {
            Ok(Some((name, _))) => name,
            Ok(None) => return Ok(dirs),
            Err(fault) => {
                visitor.closed(fault)?;
                return Ok(dirs);
            }
        };
        match dir.meta(&name).await {
            Ok(meta) => {
                visitor.meet(dir, way, &name, &meta).await?;
                if meta.kind == FileKind::Directory {
                    dirs.push(name);
                }
            }
            // Gone since it was listed.
            Err(BackendError::Missing) => {}
            Err(fault) => visitor.closed(fault)?,
        }
    }
}

/// The directories from the top down, the deepest of them open.
struct OpenDirs<'t> {
    top: &'t AnyDir,
    /// Of each directory on the way, open or not.
    ids: Vec<FileId>,
    kept: VecDeque<AnyDir>,
    /// The depth of the first one kept; the top has 0.
    first: usize,
}

impl OpenDirs<'_> {
    async fn at(&mut self, way: &[OsString]) -> Result<&AnyDir, BackendError> {
        let depth = way.len();
        if depth > 0 && depth < self.first {
            self.climb(depth).await;
        }
        // Deeper handles belong to another branch.
        self.kept.truncate((depth + 1).saturating_sub(self.first));
        self.ids.truncate(depth);
        if depth < self.first {
            self.kept.clear();
            self.first = 1;
        }
        let known = self.first + self.kept.len() - 1;
        for name in &way[known.min(depth)..] {
            let dir = self.kept.back().unwrap_or(self.top).open_dir(name).await?;
            let level = self.first + self.kept.len();
            if self.ids.len() < level {
                self.ids.push(dir.own_meta().await?.id);
            }
            self.kept.push_back(dir);
            if self.kept.len() > KEPT {
                self.kept.pop_front();
                self.first += 1;
            }
        }
        Ok(match depth {
            0 => self.top,
            _ => self.kept.back().unwrap_or(self.top),
        })
    }

    /// Goes one step up from the first open directory, by `..`: reopening from the top for each
    /// step would make a deep tree cost the square of its depth. The result must be the directory
    /// of the way down; if it is not, it is dropped, and the directory is opened from the top.
    async fn climb(&mut self, depth: usize) {
        if depth + 1 != self.first {
            return;
        }
        let Some(lowest) = self.kept.front() else {
            return;
        };
        let Some(above) = lowest.open_parent().await else {
            return;
        };
        let same = match above.own_meta().await {
            Ok(meta) => self.ids.get(depth - 1) == Some(&meta.id),
            Err(_) => false,
        };
        if same {
            self.kept.push_front(above);
            self.first = depth;
        }
    }
}
