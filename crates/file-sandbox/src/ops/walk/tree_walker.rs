//! Going down a tree, one directory at a time, for everything that lists, globs or searches.
//!
//! Links are shown and never descended into, so a walk ends. Pending directories are remembered as
//! names: one directory is open at a time, in a tree of any depth and width. An entry is not opened
//! to learn its type; the directory entry has it, or one `stat`.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Instant;

use crate::backend::{AnyDir, BackendDir as _, BackendError, BackendNames as _, FileKind, Handle};
use crate::cancellation::CancellationToken;
use crate::error::{Error, Verb};
use crate::mount::name_rules::ContentCondition;
use crate::mount::{hidden_by, path_in};
use crate::ops::walk::ignore_rules::{self, IgnoreRules};
use crate::ops::walk::list_window::ListWindow;
use crate::ops::walk::listing::{IgnoredEntries, SkippedEntry, TruncationReason};
use crate::ops::walk::options::WalkOptions;
use crate::path::SandboxPath;
use crate::resolve::location::Resolution;
use crate::resolve::path_walk::{FinalLink, Lookup, WalkBudget, WalkRoot, joined, walk};
use crate::resolve::refusals::wrong_type;
use crate::sandbox::FileSandbox;
use crate::text::escape;
use crate::text::glob::{Glob, GlobState};

/// Directories named in an answer because they could not be read.
const MAX_SKIPPED: usize = 100;
/// Ignored names that an answer gives as examples.
const MAX_IGNORED_NAMES: usize = 20;
/// Names of one directory in memory, and pending directories: they bound the memory of a walk of
/// any tree.
const MAX_HELD: usize = 65_536;
const MAX_PENDING: usize = 32_768;
/// Names read between two checks of the clock.
const NAMES_PER_LOOK: usize = 256;

/// A directory of the sandbox.
#[derive(Clone, Debug)]
pub(crate) enum DirRef {
    Virtual(SandboxPath),
    In { mount: usize, names: Vec<OsString> },
}

/// A walk below one directory.
pub(crate) struct TreeWalker<'s> {
    files: &'s FileSandbox,
    options: &'s WalkOptions,
    glob: Option<&'s Glob>,
    pending: Vec<PendingDir>,
    names: usize,
    until: Option<Instant>,
    /// Set if only a part of all names is requested.
    pub(crate) window: Option<ListWindow>,
    pub(crate) report: WalkReport,
}

/// The omissions of an answer.
#[derive(Debug, Default)]
pub(crate) struct WalkReport {
    pub(crate) cut: Option<TruncationReason>,
    pub(crate) more_skipped: bool,
    pub(crate) skipped: Vec<SkippedEntry>,
    pub(crate) ignored: IgnoredEntries,
}

/// One directory that was read.
pub(crate) struct DirListing<'s> {
    pub(crate) at: DirRef,
    /// Its path below the start, with a slash at its end unless it is empty.
    pub(crate) prefix: String,
    /// `None` for a virtual directory.
    pub(crate) dir: Option<Handle<'s>>,
    /// Sorted by name; without hidden and ignored entries.
    pub(crate) children: Vec<DirEntry>,
}

pub(crate) struct DirEntry {
    /// As shown.
    pub(crate) name: String,
    /// The name in the backend, if it differs.
    raw: Option<OsString>,
    pub(crate) kind: FileKind,
    /// `true` if the pattern matches, or without a pattern.
    pub(crate) hit: bool,
    /// Set if the content has decided that it is shown.
    pub(crate) by_content: Option<ContentCondition>,
    /// Its directory, if it is not below the listed one.
    elsewhere: Option<Box<DirRef>>,
}

impl DirEntry {
    /// As the backend knows it.
    pub(crate) fn raw(&self) -> &OsStr {
        self.raw.as_deref().unwrap_or(OsStr::new(&self.name))
    }
}

struct PendingDir {
    at: DirRef,
    prefix: String,
    state: Option<GlobState>,
    depth: usize,
    ignores: Option<Arc<IgnoreRules>>,
}

impl<'s> TreeWalker<'s> {
    /// Starts a walk at `at`. Ignore rules above it apply below it, but not to itself, because the
    /// caller named it.
    pub(crate) async fn new(
        files: &'s FileSandbox,
        at: DirRef,
        glob: Option<&'s Glob>,
        options: &'s WalkOptions,
    ) -> Self {
        let ignores = match &at {
            DirRef::In { mount, names } if options.gitignore => {
                files.ignores_above(*mount, names).await
            }
            DirRef::In { .. } | DirRef::Virtual(_) => None,
        };
        let top = PendingDir {
            at,
            prefix: String::new(),
            state: glob.map(Glob::start),
            depth: 0,
            ignores,
        };
        Self {
            files,
            options,
            glob,
            pending: vec![top],
            names: 0,
            until: options
                .time_limit
                .and_then(|limit| Instant::now().checked_add(limit)),
            window: None,
            report: WalkReport::default(),
        }
    }

    /// The next directory; `None` at the end, or when the walk was cut short.
    ///
    /// # Errors
    /// When the directory that the walk begins at cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<DirListing<'s>>, BackendError> {
        while let Some(dir) = self.pending.pop() {
            if self.is_over() {
                return Ok(None);
            }
            let window = self.window.as_ref();
            if window.is_some_and(|window| window.leaves_out(&dir.prefix)) {
                continue;
            }
            let is_top = dir.depth == 0;
            if dir.depth > self.options.max_depth {
                self.skip(&dir.prefix, "too deep");
                continue;
            }
            if self.is_closed(&dir.at) {
                self.skip(&dir.prefix, "it may not be read");
            }
            match self.read(dir).await {
                Ok(page) => return Ok(Some(page)),
                Err((_, fault)) if is_top => return Err(fault),
                Err((prefix, fault)) => self.skip(&prefix, &words(fault)),
            }
        }
        Ok(None)
    }

    /// `true` after the time limit or a cancellation, for the rest of the walk.
    pub(crate) fn is_over(&mut self) -> bool {
        if self.report.cut.is_none() {
            let told = self.options.cancel.as_ref();
            if self.files.cancel.is_cancelled() || told.is_some_and(CancellationToken::is_cancelled)
            {
                self.report.cut = Some(TruncationReason::Cancelled);
            } else if self.until.is_some_and(|until| Instant::now() >= until) {
                self.report.cut = Some(TruncationReason::Time);
            }
        }
        self.report.cut.is_some()
    }

    fn is_closed(&self, at: &DirRef) -> bool {
        match at {
            DirRef::In { mount, .. } => self.files.table.mounts[*mount].closed,
            DirRef::Virtual(_) => false,
        }
    }

    pub(crate) fn cut(&mut self, why: TruncationReason) {
        self.report.cut.get_or_insert(why);
    }

    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        if self.report.skipped.len() < MAX_SKIPPED {
            // The directory in which the walk begins.
            let name = match name.trim_end_matches('/') {
                "" => ".",
                name => name,
            };
            self.report.skipped.push(SkippedEntry {
                name: name.to_owned(),
                reason: reason.to_owned(),
            });
        } else {
            self.report.more_skipped = true;
        }
    }

    async fn read(
        &mut self,
        mut dir: PendingDir,
    ) -> Result<DirListing<'s>, (String, BackendError)> {
        let mut children = Vec::new();
        let mut handle = None;
        // Of a closed mount only those are shown that lie in it and are open.
        if let DirRef::In { mount, names } = &dir.at
            && !self.is_closed(&dir.at)
        {
            let opened = match self.files.open_dir(*mount, names).await {
                Ok(opened) => opened,
                Err(fault) => return Err((dir.prefix, fault)),
            };
            if let Err(fault) = self.fill(&dir, &opened, &mut children).await {
                return Err((dir.prefix, fault));
            }
            if self.options.gitignore {
                let own = children
                    .iter()
                    .find(|child| child.name == ignore_rules::FILE);
                if own.is_some_and(|own| own.kind == FileKind::File) {
                    match IgnoreRules::read(&opened, names, dir.ignores.clone()).await {
                        Ok(level) => dir.ignores = Some(Arc::new(level)),
                        Err(why) => {
                            self.skip(&format!("{}{}", dir.prefix, ignore_rules::FILE), why)
                        }
                    }
                }
            }
            handle = Some(opened);
        }
        self.files.add_roots(&dir.at, &mut children);
        children.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if self.options.gitignore {
            self.drop_ignored(&dir, &mut children);
        }
        self.note(&dir, &mut children);
        Ok(DirListing {
            at: dir.at,
            prefix: dir.prefix,
            dir: handle,
            children,
        })
    }

    /// Reads the entries of a directory of a mount.
    async fn fill(
        &mut self,
        pending: &PendingDir,
        dir: &Handle<'_>,
        children: &mut Vec<DirEntry>,
    ) -> Result<(), BackendError> {
        let DirRef::In { mount, names } = &pending.at else {
            return Ok(());
        };
        let (index, mount) = (*mount, &self.files.table.mounts[*mount]);
        let hidden = mount.hidden.in_dir(mount.rule_bases(), names);
        let mut entries = dir.names().await?;
        let mut directories = 0;
        while let Some((raw, kind)) = entries.next().await? {
            if self.count_name() {
                return Ok(());
            }
            let rule = hidden.hiding(&raw);
            if rule.is_some_and(|rule| rule.by_content.is_none()) {
                continue;
            }
            let kind = match kind {
                Some(kind) => kind,
                None => kind_of(dir, &raw).await,
            };
            let by_content = rule.and_then(|rule| rule.by_content);
            if self
                .is_unlisted(index, (names, &raw), (dir, kind), by_content)
                .await
            {
                continue;
            }
            let (name, raw) = shown_name(raw);
            if self.is_unmatched(pending.state.as_ref(), &name, kind) {
                continue;
            }
            if let Some(window) = &self.window {
                let walks = self.glob.is_some() && kind == FileKind::Directory;
                if !walks && !window.shows(&pending.prefix, &name, kind) {
                    continue;
                }
                if children.len() >= window.room() && children.len() >= 2 * directories {
                    directories = keep_first(children, window.kept(), self.glob.is_some());
                }
            }
            if children.len() == MAX_HELD {
                self.cut(TruncationReason::Names);
                return Ok(());
            }
            children.push(DirEntry {
                name,
                raw,
                kind,
                hit: true,
                by_content,
                elsewhere: None,
            });
        }
        Ok(())
    }

    /// Counts a name. Returns `true` if the walk ends here.
    fn count_name(&mut self) -> bool {
        self.names += 1;
        if self.names > self.options.max_names {
            self.cut(TruncationReason::Names);
        }
        let look = self.names.is_multiple_of(NAMES_PER_LOOK);
        self.report.cut.is_some() || (look && self.is_over())
    }

    /// `true` for an entry that the pattern excludes and the walk does not need.
    fn is_unmatched(&self, state: Option<&GlobState>, name: &str, kind: FileKind) -> bool {
        let (Some(glob), Some(state)) = (self.glob, state) else {
            return false;
        };
        kind != FileKind::Directory
            && name != ignore_rules::FILE
            && !glob.accepts_child(state, name)
    }

    /// `true` for a placeholder of the OS sandbox, and for a file that its content hides.
    async fn is_unlisted(
        &self,
        mount: usize,
        (names, name): (&[OsString], &OsStr),
        (dir, kind): (&AnyDir, FileKind),
        by_content: Option<ContentCondition>,
    ) -> bool {
        // While a command runs, its OS sandbox occupies missing protected names with placeholder
        // sockets. They are not part of the tree, and are removed soon.
        if kind == FileKind::Socket && self.files.table.mounts[mount].protects(names, name) {
            return true;
        }
        let Some(content) = by_content else {
            return false;
        };
        let place = (names, name);
        let secret = self
            .files
            .is_listed_secret(mount, content, place, (dir, kind));
        secret.await
    }

    fn drop_ignored(&mut self, dir: &PendingDir, children: &mut Vec<DirEntry>) {
        let DirRef::In { names, .. } = &dir.at else {
            return;
        };
        let (prefix, ignores) = (&dir.prefix, dir.ignores.as_deref());
        let mut way = ignore_rules::relative_path(names);
        let report = &mut self.report.ignored;
        let (files, mut asked) = (self.files, 0_usize);
        children.retain(|child| {
            asked += 1;
            // Many rules on many names are slow: after a cancellation, the remaining names are not
            // checked.
            if asked.is_multiple_of(NAMES_PER_LOOK) && files.cancel.is_cancelled() {
                return true;
            }
            // A root of the sandbox is named by its mount, not by the directory.
            if child.elsewhere.is_some() {
                return true;
            }
            let is_dir = child.kind == FileKind::Directory;
            let keep = !ignore_rules::ignores(ignores, &mut way, &child.name, is_dir);
            if !keep {
                report.count += 1;
                if report.first.len() < MAX_IGNORED_NAMES {
                    let slash = if is_dir { "/" } else { "" };
                    report.first.push(format!("{prefix}{}{slash}", child.name));
                }
            }
            keep
        });
    }

    /// Marks matching entries, and adds directories that may contain more to the pending ones.
    fn note(&mut self, dir: &PendingDir, children: &mut [DirEntry]) {
        let first_new = self.pending.len();
        for child in children {
            let next = match (self.glob, &dir.state) {
                (Some(glob), Some(state)) if child.kind == FileKind::Directory => {
                    let next = glob.step(state, &child.name);
                    child.hit = glob.accepts(&next);
                    if !glob.may_go_on(&next) {
                        continue;
                    }
                    Some(next)
                }
                (Some(glob), Some(state)) => {
                    child.hit = glob.accepts_child(state, &child.name);
                    continue;
                }
                _ => None,
            };
            if child.kind != FileKind::Directory {
                continue;
            }
            let (below, ignores) = match (child.elsewhere.take(), &dir.at) {
                (Some(elsewhere), _) => (*elsewhere, None),
                (None, DirRef::In { mount, names }) => {
                    let mut way = Vec::with_capacity(names.len() + 1);
                    way.extend_from_slice(names);
                    way.push(child.raw().to_owned());
                    let below = DirRef::In {
                        mount: *mount,
                        names: way,
                    };
                    (below, dir.ignores.clone())
                }
                // All entries of a virtual directory are in other directories.
                (None, DirRef::Virtual(_)) => continue,
            };
            if self.pending.len() == MAX_PENDING {
                self.cut(TruncationReason::Names);
                break;
            }
            self.pending.push(PendingDir {
                at: below,
                prefix: format!("{}{}/", dir.prefix, child.name),
                state: next,
                depth: dir.depth + 1,
                ignores,
            });
        }
        // The last one is taken first.
        self.pending[first_new..].reverse();
    }
}

/// Returns the name of an entry as shown, and as the backend knows it, if that differs.
fn shown_name(raw: OsString) -> (String, Option<OsString>) {
    match escape::escape_name(&raw) {
        Cow::Borrowed(name) => (name.to_owned(), None),
        Cow::Owned(name) => (name, Some(raw)),
    }
}

/// Returns the type of an entry, on a file system whose directories do not have it.
async fn kind_of(dir: &Handle<'_>, name: &OsStr) -> FileKind {
    let meta = dir.meta(name).await;
    meta.map_or(FileKind::Unknown, |meta| meta.kind)
}

impl FileSandbox {
    /// The directory that a path leads to.
    pub(crate) async fn directory(&self, path: &SandboxPath) -> Result<DirRef, Error> {
        let location = match self.locate(path, FinalLink::Follow, Verb::List).await? {
            Resolution::Virtual(path) => return Ok(DirRef::Virtual(path)),
            Resolution::In(location) => location,
        };
        match &location.found {
            Lookup::Missing { .. } => return Err(self.missing_error(path, &location).await),
            Lookup::Entry { meta, .. } if meta.kind != FileKind::Directory => {
                return Err(wrong_type(path, Verb::List, meta.kind));
            }
            Lookup::Root | Lookup::Entry { .. } => {}
        }
        Ok(DirRef::In {
            mount: location.index,
            names: location.real,
        })
    }

    /// Adds the roots, and the virtual directories above them, that a directory shows.
    fn add_roots(&self, at: &DirRef, children: &mut Vec<DirEntry>) {
        let here = match at {
            DirRef::Virtual(path) => path.clone(),
            DirRef::In { mount, .. } if self.table.nested[*mount].is_empty() => return,
            DirRef::In { mount, names } => path_in(&self.table.mounts[*mount], names),
        };
        for (mount, below) in self.table.mounts.iter().enumerate() {
            let Some(way) = below.target().below(&here) else {
                continue;
            };
            let mut way = way.splitn(2, '/').filter(|name| !name.is_empty());
            let Some(name) = way.next() else { continue };
            let there = children.iter().position(|child| child.name == name);
            let elsewhere = match way.next() {
                None => DirRef::In {
                    mount,
                    names: Vec::new(),
                },
                // The outer mount's directory shows the mount points below it. Anything else of
                // that name is covered.
                Some(_) if there.is_some_and(|at| children[at].kind == FileKind::Directory) => {
                    continue;
                }
                Some(_) => DirRef::Virtual(here.child(name)),
            };
            let root = DirEntry {
                name: name.to_owned(),
                raw: None,
                kind: FileKind::Directory,
                hit: true,
                by_content: None,
                elsewhere: Some(Box::new(elsewhere)),
            };
            match there {
                Some(there) => children[there] = root,
                None => children.push(root),
            }
        }
    }

    /// Opens a directory by the names it was found under. A link that has replaced it is not
    /// followed.
    pub(crate) async fn open_dir(
        &self,
        mount: usize,
        names: &[OsString],
    ) -> Result<Handle<'_>, BackendError> {
        let root = &self.table.mounts[mount];
        if root.closed {
            return Err(BackendError::NotServed);
        }
        let Some(last) = names.last() else {
            return Ok(Handle::Root(&root.dir));
        };
        if let Some(way) = joined(names.iter())
            && let Some(dir) = root.dir.open_dir_beneath(&way).await
        {
            return Ok(Handle::Own(dir));
        }
        let tree = WalkRoot {
            root: &root.dir,
            nested: &self.table.nested[mount],
        };
        match walk(
            tree,
            names.to_vec(),
            FinalLink::Keep,
            &mut WalkBudget::new(),
        )
        .await
        {
            Ok(walked) if walked.real == names => match &walked.found {
                Lookup::Entry { parent, .. } => parent.open_dir(last).await.map(Handle::Own),
                Lookup::Root | Lookup::Missing { .. } => Err(BackendError::Missing),
            },
            Ok(_) | Err(_) => Err(BackendError::Missing),
        }
    }

    /// The ignore rules of the directories above a place, within its mount.
    async fn ignores_above(&self, mount: usize, names: &[OsString]) -> Option<Arc<IgnoreRules>> {
        let mut ignores = None;
        for depth in 0..names.len() {
            let above = &names[..depth];
            let Ok(dir) = self.open_dir(mount, above).await else {
                continue;
            };
            let mut own = above.to_vec();
            own.push(ignore_rules::FILE.into());
            if hidden_by(&self.table.mounts[mount], &own).is_some() {
                continue;
            }
            // Unreadable rules above the start affect the ignored entries only, not permission to
            // read.
            if let Ok(level) = IgnoreRules::read(&dir, above, ignores.clone()).await {
                ignores = Some(Arc::new(level));
            }
        }
        ignores
    }
}

/// Drops all entries but the first `kept` by name and the directories that a walk descends into.
/// Returns the number of those directories.
fn keep_first(children: &mut Vec<DirEntry>, kept: usize, walks: bool) -> usize {
    children.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let mut index = 0;
    children.retain(|child| {
        let walked = walks && child.kind == FileKind::Directory;
        if !walked {
            index += 1;
        }
        walked || index <= kept
    });
    match walks {
        true => children.len().saturating_sub(kept),
        false => 0,
    }
}

fn words(fault: BackendError) -> String {
    fault.into_io().kind().to_string()
}
