//! Lists everything below a directory, or the matches of a pattern.

#[cfg_attr(not(feature = "search"), path = "no_ignore_rules.rs")]
mod ignore_rules;
pub(crate) mod list;
pub(crate) mod list_window;
pub(crate) mod listing;
pub(crate) mod options;
pub(crate) mod tree_walker;

use crate::backend::{FileKind, block_on_ready};
use crate::error::{Error, ErrorReason, Verb};
use crate::ops::walk::listing::{EntryKind, ListEntry, Listing, TruncationReason};
use crate::ops::walk::options::WalkOptions;
use crate::ops::walk::tree_walker::{TreeWalker, WalkReport};
use crate::path::SandboxPath;
use crate::sandbox::FileSandbox;
use crate::text::glob::Glob;

impl FileSandbox {
    /// Lists everything below a directory: files, links and directories, sorted by name.
    ///
    /// ```
    /// # use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath, WalkOptions};
    /// let files = FileSandbox::new(vec![Mount::memory(SandboxPath::parse("/a")?, Mode::ReadWrite)])?;
    /// files.write(&SandboxPath::parse("/a/b/c.md")?, "", Default::default())?;
    /// let all = files.walk(&SandboxPath::root(), WalkOptions::new())?;
    /// let names: Vec<_> = all.entries.iter().map(|entry| entry.name.as_str()).collect();
    /// assert_eq!(names, ["a", "a/b", "a/b/c.md"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NOT_A_FILE` for an object that is not a directory, and those of resolving the path. An
    /// unreadable directory further down is not an error but in `skipped`.
    pub fn walk(&self, path: &SandboxPath, options: WalkOptions) -> Result<Listing, Error> {
        block_on_ready(self.entries_below(path, None, &options))
    }

    /// Lists the files and links below a directory whose path below it matches: `*`, `?`, `[a-z]`
    /// and `{a,b}` within a name, `**` for any directories.
    ///
    /// ```
    /// # use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath, WalkOptions};
    /// let files = FileSandbox::new(vec![Mount::memory(SandboxPath::parse("/a")?, Mode::ReadWrite)])?;
    /// for name in ["/a/x.md", "/a/b/y.md", "/a/b/z.txt"] {
    ///     files.write(&SandboxPath::parse(name)?, "", Default::default())?;
    /// }
    /// let found = files.glob(&SandboxPath::parse("/a")?, "**/*.md", WalkOptions::new())?;
    /// let names: Vec<_> = found.entries.iter().map(|entry| entry.name.as_str()).collect();
    /// assert_eq!(names, ["b/y.md", "x.md"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`walk`](Self::walk), and `INVALID_PATH` for a pattern that cannot be read.
    pub fn glob(
        &self,
        path: &SandboxPath,
        pattern: &str,
        options: WalkOptions,
    ) -> Result<Listing, Error> {
        let glob = parse_glob(pattern)?;
        block_on_ready(self.entries_below(path, Some(&glob), &options))
    }

    /// With a pattern, directories themselves are not listed.
    pub(crate) async fn entries_below(
        &self,
        path: &SandboxPath,
        glob: Option<&Glob>,
        options: &WalkOptions,
    ) -> Result<Listing, Error> {
        let at = self.directory(path).await?;
        let mut descent = TreeWalker::new(self, at, glob, options).await;
        let mut entries = Vec::new();
        'pages: loop {
            let page = descent.next().await;
            let page = page.map_err(|fault| self.backend_error(path, Verb::List, fault))?;
            let Some(page) = page else { break };
            for child in page.children {
                if !child.hit || (glob.is_some() && child.kind == FileKind::Directory) {
                    continue;
                }
                if entries.len() == options.max_entries {
                    descent.cut(TruncationReason::Entries);
                    break 'pages;
                }
                entries.push(ListEntry {
                    name: format!("{}{}", page.prefix, child.name),
                    kind: EntryKind::of(child.kind),
                });
            }
        }
        Ok(Listing::new(entries, descent.report))
    }
}

pub(crate) fn parse_glob(pattern: &str) -> Result<Glob, Error> {
    Glob::parse(pattern).map_err(|why| Error::new(pattern, ErrorReason::Pattern { why }))
}

impl Listing {
    pub(crate) fn new(mut entries: Vec<ListEntry>, report: WalkReport) -> Self {
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Self {
            entries,
            more: report.cut.is_some() || report.more_skipped,
            cut: report.cut,
            next: None,
            skipped: report.skipped,
            ignored: report.ignored,
        }
    }
}
