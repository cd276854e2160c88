//! Lines that match a regular expression, in the files below a directory.
//!
//! Each file is opened by its name in an open directory and searched through that handle, in
//! bounded pieces that end at a line. The expressions are those of the `regex` crate, which take
//! linear time on any text (`grep-regex` and `grep-searcher` are the parts that ripgrep is made of).

mod file_search;
mod line_excerpt;

use std::ffi::OsString;

use crate::backend::{
    BackendDir as _, BackendError, BackendFile as _, FileKind, FileMeta, block_on_ready,
};
use crate::cancellation::CancellationToken;
use crate::error::{Error, Verb};
use crate::mount::Mount;
use crate::mount::limits::HardLinks;
use crate::ops::search::file_search::FileSearch;
use crate::ops::walk::listing::{IgnoredEntries, SkippedEntry, TruncationReason};
use crate::ops::walk::options::WalkOptions;
use crate::ops::walk::parse_glob;
use crate::ops::walk::tree_walker::{DirEntry, DirListing, DirRef, TreeWalker};
use crate::path::SandboxPath;
use crate::resolve::content_rules::is_secret;
use crate::resolve::location::Resolution;
use crate::resolve::path_walk::{FinalLink, Lookup};
use crate::sandbox::FileSandbox;

/// Options of a search.
///
/// ```
/// let options = file_sandbox::SearchOptions::new().files("**/*.rs").ignore_case(true).max_hits(50);
/// ```
#[derive(Clone, Debug)]
pub struct SearchOptions {
    files: Option<String>,
    pub(crate) literal: bool,
    pub(crate) ignore_case: bool,
    pub(crate) max_hits: usize,
    pub(crate) max_line_chars: usize,
    pub(crate) max_answer_bytes: usize,
    pub(crate) max_read_bytes: u64,
    walk: WalkOptions,
}

impl SearchOptions {
    /// At most 1 000 lines of 300 characters, 256 KiB in all, out of 1 GiB read; in files that no
    /// `.gitignore` names; for 30 seconds.
    #[must_use]
    pub fn new() -> Self {
        Self {
            files: None,
            literal: false,
            ignore_case: false,
            max_hits: 1_000,
            max_line_chars: 300,
            max_answer_bytes: 256 * 1024,
            max_read_bytes: 1 << 30,
            walk: WalkOptions::new().gitignore(true),
        }
    }

    sandbox_names::setters! {
        /// Searches only files whose path below the directory matches, as in
        /// [`glob`](FileSandbox::glob).
        files(pattern: impl Into<String>) = Some(pattern.into());
        /// Takes the pattern for a plain text.
        literal(yes: bool) = yes;
        /// Matches in any case.
        ignore_case(yes: bool) = yes;
    }

    /// Searches ignored files too. An ignored file or directory that is itself asked for is
    /// searched anyway.
    #[must_use]
    pub fn gitignore(mut self, yes: bool) -> Self {
        self.walk = self.walk.gitignore(yes);
        self
    }

    sandbox_names::setters! {
        /// Stops after this many lines.
        max_hits(lines: usize) = lines;
        /// Shows this many characters of a longer line, around the match.
        max_line_chars(chars: usize) = chars;
        /// Stops when the lines found have this many bytes in all.
        max_answer_bytes(bytes: usize) = bytes;
        /// Stops when this many bytes have been read.
        max_read_bytes(bytes: u64) = bytes;
    }

    /// Descends through at most this many directories.
    #[must_use]
    pub fn max_depth(mut self, directories: usize) -> Self {
        self.walk = self.walk.max_depth(directories);
        self
    }

    /// Stops after this time; `None` for never.
    #[must_use]
    pub fn time_limit(mut self, limit: Option<std::time::Duration>) -> Self {
        self.walk = self.walk.time_limit(limit);
        self
    }

    /// Stops when the token is cancelled.
    #[must_use]
    pub fn cancel(mut self, cancel: &CancellationToken) -> Self {
        self.walk = self.walk.cancel(cancel);
        self
    }
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The answer to a search.
///
/// ```
/// # use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath, SearchOptions};
/// let files = FileSandbox::new(vec![Mount::memory(SandboxPath::parse("/a")?, Mode::ReadWrite)])?;
/// files.write(&SandboxPath::parse("/a/b/c.md")?, "one\ntwo 2\nthree", Default::default())?;
/// let found = files.search(&SandboxPath::root(), r"\d", SearchOptions::new())?;
/// assert_eq!(found.hits[0].path.as_str(), "/a/b/c.md");
/// assert_eq!((found.hits[0].line, found.hits[0].text.as_str()), (2, "two 2"));
/// assert!(!found.more);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchResults {
    /// The lines found, by path and line.
    pub hits: Vec<SearchHit>,
    /// `true` if more matches may exist.
    pub more: bool,
    /// The reason why the search is truncated.
    pub cut: Option<TruncationReason>,
    /// Files and directories that could not be searched, at most 100 of them.
    pub skipped: Vec<SkippedEntry>,
    /// The entries that ignore rules excluded.
    pub ignored: IgnoredEntries,
    /// Files that were searched.
    pub files: u64,
    /// The number of files that are not text, which were not searched.
    pub binary: u64,
    /// Files that the mount does not let be read, for their suffix or their hard links.
    pub not_allowed: u64,
    /// Bytes that were read.
    pub bytes: u64,
}

/// One line of [`SearchResults`].
///
/// ```
/// fn line(hit: &file_sandbox::SearchHit) -> String {
///     let more = if hit.clipped { " […]" } else { "" };
///     format!("{}:{}: {}{more}", hit.path, hit.line, hit.text)
/// }
/// # let _ = line;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchHit {
    /// The file.
    pub path: SandboxPath,
    /// The number of the line, from 1.
    pub line: u64,
    /// The column of the first match in the line, in characters from 1.
    pub column: u64,
    /// The line without its end, or the part of it around the first match.
    pub text: String,
    /// `true` if `text` is only a part of the line.
    pub clipped: bool,
}

impl FileSandbox {
    /// Searches a file, or the files below a directory, line by line. Links are not followed,
    /// except in `path` itself.
    ///
    /// # Errors
    /// `INVALID_PATH` for an invalid expression or pattern, and those of resolving the path. An
    /// unreadable object further down is not an error but in `skipped`.
    pub fn search(
        &self,
        path: &SandboxPath,
        pattern: &str,
        options: SearchOptions,
    ) -> Result<SearchResults, Error> {
        block_on_ready(self.search_at(path, pattern, &options))
    }

    async fn search_at(
        &self,
        path: &SandboxPath,
        pattern: &str,
        options: &SearchOptions,
    ) -> Result<SearchResults, Error> {
        let mut search = FileSearch::new(pattern, options, self.mask.as_ref())?;
        let glob = options.files.as_deref().map(parse_glob).transpose()?;
        if self.is_file(path).await? {
            let opened = self.open_file(path).await?;
            let nowhere = DirRef::Virtual(path.clone());
            let mut descent = TreeWalker::new(self, nowhere, None, &options.walk).await;
            let piece = search.file(path, &opened.file, &opened.meta, &mut descent);
            if let Err(why) = piece.await {
                descent.skip(path.file_name().unwrap_or_default(), why);
            }
            return Ok(search.finish(descent));
        }
        let at = self.directory(path).await?;
        let mut descent = TreeWalker::new(self, at, glob.as_ref(), &options.walk).await;
        loop {
            let page = descent.next().await;
            let page = page.map_err(|fault| self.backend_error(path, Verb::List, fault))?;
            let Some(page) = page else { break };
            self.search_page(path, &page, &mut search, &mut descent)
                .await;
        }
        Ok(search.finish(descent))
    }

    async fn is_file(&self, path: &SandboxPath) -> Result<bool, Error> {
        Ok(
            match self.locate(path, FinalLink::Follow, Verb::Read).await? {
                Resolution::Virtual(_) => false,
                Resolution::In(location) => match &location.found {
                    Lookup::Entry { meta, .. } => meta.kind != FileKind::Directory,
                    Lookup::Root | Lookup::Missing { .. } => false,
                },
            },
        )
    }

    async fn search_page(
        &self,
        path: &SandboxPath,
        page: &DirListing<'_>,
        search: &mut FileSearch<'_>,
        descent: &mut TreeWalker<'_>,
    ) {
        let (Some(dir), DirRef::In { mount, names }) = (&page.dir, &page.at) else {
            return;
        };
        let mount = &self.table.mounts[*mount];
        let below = |child: &DirEntry| -> Vec<OsString> {
            (names.iter().cloned())
                .chain([child.raw().to_owned()])
                .collect()
        };
        for child in &page.children {
            if !child.hit || child.kind != FileKind::File {
                continue;
            }
            if descent.is_over() {
                return;
            }
            let name = format!("{}{}", page.prefix, child.name);
            if !mount.limits().allows_name(&child.name) {
                search.answer.not_allowed += 1;
                continue;
            }
            let opened = async {
                let file = dir.open_file(child.raw()).await?;
                let meta = file.meta().await?;
                // Exchanged since it was listed.
                if let Some(content) = child.by_content
                    && is_secret(&file, content, (mount, &below(child))).await
                {
                    return Err(BackendError::Missing);
                }
                Ok::<_, BackendError>((file, meta))
            };
            let (file, meta) = match opened.await {
                Ok(opened) => opened,
                Err(fault) => {
                    descent.skip(&name, &fault.into_io().kind().to_string());
                    continue;
                }
            };
            match refusal(mount, &meta) {
                Some(SkipCause::Silent) => search.answer.not_allowed += 1,
                Some(SkipCause::Told(why)) => descent.skip(&name, why),
                None => {
                    let place = path.child(&name);
                    if let Err(why) = search.file(&place, &file, &meta, descent).await {
                        descent.skip(&name, why);
                    }
                }
            }
        }
    }
}

enum SkipCause {
    Silent,
    Told(&'static str),
}

/// Returns the reason why reading the open file would be refused.
fn refusal(mount: &Mount, meta: &FileMeta) -> Option<SkipCause> {
    if meta.kind != FileKind::File {
        return Some(SkipCause::Told("it was exchanged"));
    }
    if mount.limits().hard_link_policy() == HardLinks::Deny && meta.links > 1 {
        return Some(SkipCause::Silent);
    }
    match mount.limits().file_byte_limit() {
        Some(limit) if meta.size > limit => Some(SkipCause::Told("file too large")),
        _ => None,
    }
}
