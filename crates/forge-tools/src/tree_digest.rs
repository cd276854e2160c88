//! Everything below a directory, in a few rows and as one hash: the object of a person's agreement
//! to delete or move it.

use std::time::Duration;

use file_sandbox::{ContentHash, EntryKind, FileSandbox, SandboxPath, WalkOptions};

/// Most names below a directory. A larger directory cannot be deleted or moved in one call either.
const MAX_NAMES: usize = 200_000;

/// Bytes that are hashed of one tree; the rest is known by size and time of change.
const MAX_HASHED_BYTES: u64 = 64 * 1024 * 1024;

const MAX_LOOK: Duration = Duration::from_secs(20);

/// Names that are shown.
const MAX_SHOWN: usize = 20;

pub(crate) struct TreeDigest {
    pub(crate) hash: ContentHash,
    files: usize,
    directories: usize,
    bytes: u64,
    first: Vec<String>,
}

impl TreeDigest {
    /// Returns `None` if the directory could not be read whole.
    pub(crate) fn look(files: &FileSandbox, top: &SandboxPath) -> Option<TreeDigest> {
        let options = WalkOptions::new()
            .max_entries(MAX_NAMES)
            .max_names(MAX_NAMES)
            .max_depth(usize::MAX)
            .time_limit(Some(MAX_LOOK));
        let listing = files.walk(top, options).ok()?;
        if listing.more || !listing.skipped.is_empty() {
            return None;
        }
        let mut tree = TreeDigest {
            hash: ContentHash::of(b""),
            files: 0,
            directories: 0,
            bytes: 0,
            first: Vec::new(),
        };
        let mut facts = String::new();
        let mut left = MAX_HASHED_BYTES;
        for entry in &listing.entries {
            let path = top.join(&entry.name).ok()?;
            let name = &entry.name;
            facts.push_str(&format!("{:?} {name:?}", entry.kind));
            if entry.kind == EntryKind::Directory {
                tree.directories += 1;
            } else {
                tree.files += 1;
            }
            // Of a link the name alone counts: its target stays in place.
            if entry.kind == EntryKind::File {
                let stat = files.stat(&path).ok()?;
                tree.bytes += stat.size;
                facts.push_str(&format!(" {} {:?}", stat.size, stat.changed));
                if stat.size <= left {
                    left -= stat.size;
                    let hash = files.hash(&path).map(|hash| hash.to_string());
                    facts.push_str(&hash.unwrap_or_default());
                }
            }
            facts.push('\n');
            if tree.first.len() < MAX_SHOWN {
                tree.first.push(name.clone());
            }
        }
        tree.hash = ContentHash::of(facts.as_bytes());
        Some(tree)
    }

    pub(crate) fn rows(&self) -> String {
        let mut rows = format!(
            "(a directory: {} files, {} directories, {} bytes; known again by {})\n",
            self.files, self.directories, self.bytes, self.hash
        );
        for name in &self.first {
            rows.push_str(&format!("  {name}\n"));
        }
        let more = (self.files + self.directories).saturating_sub(self.first.len());
        if more > 0 {
            rows.push_str(&format!("  and {more} more\n"));
        }
        rows
    }
}
