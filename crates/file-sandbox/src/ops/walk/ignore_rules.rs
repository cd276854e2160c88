//! `.gitignore` files: the matcher of the `ignore` crate, on files that we opened ourselves.
//!
//! They exclude files from searches, and never affect permission to read. Only those below the root
//! of the mount count, with or without a repository (gitignore(5)).

use std::ffi::OsString;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::backend::{BackendDir as _, BackendFile as _, FileKind, Handle};
use crate::text::escape;

pub(crate) const FILE: &str = ".gitignore";
/// Git's own files are never searched.
const GIT: &str = ".git";

/// A larger file is not read as rules.
const MAX_BYTES: u64 = 256 * 1024;

/// The rules of one directory, and those above it.
#[derive(Debug)]
pub(crate) struct IgnoreRules {
    rules: Gitignore,
    /// Length of this directory's path below the mount.
    base: usize,
    above: Option<Arc<IgnoreRules>>,
}

impl IgnoreRules {
    /// Reads the rules of `dir`, whose path below the mount is `names`.
    ///
    /// # Errors
    /// The reason why the rules are not read.
    pub(crate) async fn read(
        dir: &Handle<'_>,
        names: &[OsString],
        above: Option<Arc<IgnoreRules>>,
    ) -> Result<Self, &'static str> {
        const UNREADABLE: &str = "the ignore rules cannot be read";
        let file = dir.open_file(FILE.as_ref()).await;
        let file = file.map_err(|_| UNREADABLE)?;
        let meta = file.meta().await.map_err(|_| UNREADABLE)?;
        if meta.kind != FileKind::File {
            return Err(UNREADABLE);
        }
        if meta.size > MAX_BYTES {
            return Err("the ignore rules are too long");
        }
        let size = usize::try_from(meta.size).map_err(|_| UNREADABLE)?;
        let mut bytes = vec![0; size];
        let mut got = 0;
        while got < size {
            let read = file.read_at(&mut bytes[got..], got as u64).await;
            match read.map_err(|_| UNREADABLE)? {
                0 => break,
                read => got += read,
            }
        }
        let text = String::from_utf8_lossy(&bytes[..got]);
        Ok(Self {
            rules: parse(&text),
            base: relative_path(names).len(),
            above,
        })
    }
}

/// Parses the rules. As in git, an invalid line matches nothing.
fn parse(text: &str) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Returns the path of a directory below its mount, with a slash at its end unless it is empty.
pub(crate) fn relative_path(names: &[OsString]) -> String {
    let mut way = String::new();
    for name in names {
        way.push_str(&escape::escape_name(name));
        way.push('/');
    }
    way
}

/// `true` if the nearest matching rule ignores the name. `way` is the path of the directory, and is
/// unchanged on return.
pub(crate) fn ignores(
    level: Option<&IgnoreRules>,
    way: &mut String,
    name: &str,
    is_dir: bool,
) -> bool {
    if name == GIT {
        return true;
    }
    let length = way.len();
    way.push_str(name);
    let mut at = level;
    let mut ignored = false;
    while let Some(level) = at {
        let below = way.get(level.base..).unwrap_or_default();
        match level.rules.matched(below, is_dir) {
            Match::None => at = level.above.as_deref(),
            Match::Ignore(_) => {
                ignored = true;
                break;
            }
            Match::Whitelist(_) => break,
        }
    }
    way.truncate(length);
    ignored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rule_decides() {
        let top = IgnoreRules {
            rules: parse("*.log\n/build/\n# no rule\n!kept.log\n[z-a]\n"),
            base: 0,
            above: None,
        };
        let sub = IgnoreRules {
            rules: parse("!loud.log\nlocal\n"),
            base: "sub/".len(),
            above: Some(Arc::new(top)),
        };
        let rows = [
            ("", "a.log", false, true),
            ("", "kept.log", false, false),
            ("", "build", true, true),
            ("", "build", false, false),
            ("other/", "build", true, false),
            ("", ".git", true, true),
            ("", "a.txt", false, false),
        ];
        let above = sub.above.as_deref();
        for (way, name, is_dir, expected) in rows {
            let got = ignores(above, &mut way.to_owned(), name, is_dir);
            assert_eq!(got, expected, "{way}{name}");
        }
        let rows = [
            ("sub/", "a.log", true),
            ("sub/", "loud.log", false),
            ("sub/deep/", "loud.log", false),
            ("sub/", "local", true),
            ("sub/", "build", false),
        ];
        for (way, name, expected) in rows {
            let got = ignores(Some(&sub), &mut way.to_owned(), name, false);
            assert_eq!(got, expected, "{way}{name}");
        }
    }
}
