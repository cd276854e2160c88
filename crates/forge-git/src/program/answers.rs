//! Parses the answers of git.

use crate::address::Repo;
use crate::error::{GitError, GitErrorKind};
use crate::names::ObjectId;
use crate::repositories::{TreeEntry, TreeKind};

use super::refusals::unreadable;

const MAX_TREE_ENTRIES: usize = 500_000;

/// The rows of `git ls-tree -r -z`.
pub(super) fn tree(repo: &Repo, answer: &[u8]) -> Result<Vec<TreeEntry>, GitError> {
    let rows = answer.split(|byte| *byte == 0);
    let mut entries = Vec::new();
    for row in rows.filter(|row| !row.is_empty()) {
        if entries.len() >= MAX_TREE_ENTRIES {
            return Err(GitErrorKind::TooLarge
                .error(format!("{repo} has more than {MAX_TREE_ENTRIES} files.")));
        }
        entries.push(entry(&text_of(row)).ok_or_else(|| unreadable(repo))?);
    }
    Ok(entries)
}

/// Decodes a row of a tree. Bytes that are not text are written as in none of our paths: their file
/// is not pulled, and collides with nothing.
fn text_of(row: &[u8]) -> String {
    let mut text = String::with_capacity(row.len());
    for chunk in row.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// `MODE TYPE ID<tab>PATH`
fn entry(row: &str) -> Option<TreeEntry> {
    let (what, path) = row.split_once('\t')?;
    let mut words = what.split(' ');
    let kind = match words.next()? {
        "100755" => TreeKind::Executable,
        "120000" => TreeKind::Link,
        "160000" => TreeKind::Submodule,
        _ => TreeKind::File,
    };
    Some(TreeEntry {
        path: path.to_owned(),
        kind,
        id: words.nth(1).and_then(ObjectId::parse)?,
    })
}

/// Sums the rows of `git cat-file --batch-check='%(objecttype) %(objectsize)'`; `None` if one of
/// them is not a file's content.
pub(super) fn sizes(answer: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(answer);
    text.lines().try_fold(0_u64, |total, row| {
        let size: u64 = row.strip_prefix("blob ")?.parse().ok()?;
        Some(total.saturating_add(size))
    })
}

/// So many contents of `git cat-file --batch='%(objectsize)'`.
pub(super) fn contents(answer: &[u8], count: usize) -> Option<Vec<Vec<u8>>> {
    let mut rest = answer;
    let mut contents = Vec::with_capacity(count);
    for _ in 0..count {
        let (size, after) = rest.split_at(rest.iter().position(|byte| *byte == b'\n')?);
        let size: usize = std::str::from_utf8(size).ok()?.parse().ok()?;
        let end = size.checked_add(1)?;
        contents.push(after.get(1..end)?.to_vec());
        rest = after.get(end.checked_add(1)?..)?;
    }
    Some(contents)
}
