//! Listing a directory, or with a pattern everything below it.
//!
//! A listing reports its omissions: `more` and `cut` at a limit, `skipped` with the reason for each
//! unreadable directory.

use crate::backend::block_on_ready;
use crate::error::{Error, Verb};
use crate::ops::walk::list_window::{ListKinds, ListWindow};
use crate::ops::walk::listing::{EntryKind, ListEntry, Listing, TruncationReason};
use crate::ops::walk::options::WalkOptions;
use crate::ops::walk::parse_glob;
use crate::ops::walk::tree_walker::TreeWalker;
use crate::path::SandboxPath;
use crate::sandbox::FileSandbox;

/// Options of a listing.
///
/// ```
/// let options = file_sandbox::ListOptions::new().pattern("**/*.md").max_entries(100);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOptions {
    pattern: Option<String>,
    max_entries: usize,
    max_depth: usize,
    after: Option<String>,
    kinds: Option<ListKinds>,
}

impl ListOptions {
    /// The names in the directory, at most 1 000.
    #[must_use]
    pub fn new() -> Self {
        Self {
            pattern: None,
            max_entries: 1_000,
            max_depth: 64,
            after: None,
            kinds: None,
        }
    }

    sandbox_names::setters! {
        /// Lists only entries after this name, from [`Listing::next`].
        after(name: impl Into<String>) = Some(name.into());
        /// Lists only these; with a pattern files otherwise, without one everything.
        kinds(kinds: ListKinds) = Some(kinds);
        /// Lists entries at any depth whose path below the directory matches: `*`, `?`, `[a-z]` and
        /// `{a,b}` within a name, `**` for any directories.
        pattern(pattern: impl Into<String>) = Some(pattern.into());
        /// Lists at most this many entries: the first ones by name.
        max_entries(entries: usize) = entries;
        /// With a pattern: descends through at most this many directories.
        max_depth(directories: usize) = directories;
    }
}

impl Default for ListOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl FileSandbox {
    /// Lists a directory. `/` shows the roots, if they have names.
    ///
    /// # Errors
    /// `NOT_A_FILE` for an object that is not a directory, `INVALID_PATH` for an invalid pattern,
    /// and those of resolving the path. An unreadable directory further down is not an error but in
    /// `skipped`.
    pub fn list(&self, path: &SandboxPath, options: ListOptions) -> Result<Listing, Error> {
        block_on_ready(self.list_at(path, &options))
    }

    async fn list_at(&self, path: &SandboxPath, options: &ListOptions) -> Result<Listing, Error> {
        let walk = WalkOptions::new().max_depth(options.max_depth);
        let glob = options.pattern.as_deref().map(parse_glob).transpose()?;
        let all = if glob.is_some() {
            ListKinds::Files
        } else {
            ListKinds::Any
        };
        let kinds = options.kinds.unwrap_or(all);
        let at = self.directory(path).await?;
        let mut descent = TreeWalker::new(self, at, glob.as_ref(), &walk).await;
        let window = ListWindow::new(options.after.clone(), options.max_entries, kinds);
        descent.window = Some(window.clone());
        let mut entries: Vec<ListEntry> = Vec::new();
        loop {
            let page = descent.next().await;
            let page = page.map_err(|fault| self.backend_error(path, Verb::List, fault))?;
            let Some(page) = page else { break };
            for child in page.children {
                if !child.hit || !kinds.takes(child.kind) {
                    continue;
                }
                let name = format!("{}{}", page.prefix, child.name);
                if !window.is_before(&name) {
                    let kind = EntryKind::of(child.kind);
                    entries.push(ListEntry { name, kind });
                }
            }
            if entries.len() > window.room() {
                entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                entries.truncate(options.max_entries.saturating_add(1));
                if let (Some(window), Some(last)) = (&mut descent.window, entries.last()) {
                    window.beyond = Some(last.name.clone());
                }
            }
            if glob.is_none() {
                break;
            }
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let ordered = descent.report.cut.is_none();
        let mut next = None;
        if entries.len() > options.max_entries {
            entries.truncate(options.max_entries);
            descent.cut(TruncationReason::Entries);
            next = entries.last().map(|entry| entry.name.clone());
        }
        let listing = Listing::new(entries, descent.report);
        let next = next.filter(|_| ordered);
        Ok(Listing { next, ..listing })
    }
}
