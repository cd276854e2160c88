//! Names below a writable mount that a command should not change (`protect`) or read (`hide`),
//! written as patterns. Guards, not boundaries: a mount layer keeps them, Landlock alone cannot.

use crate::error::Error;
use sandbox_names::exempt::Exemption;
use sandbox_names::pattern::fits;
use std::ffi::OsStr;
use std::path::Path;

/// A pattern of one or more names: `.git/hooks`, `*.pem`, `.git/modules/*/hooks`. It matches at any
/// depth, or with a leading `/` at the top of a mount only, and everything below a match. `*`
/// matches any run of bytes in one name. Case does not matter, because the file system may ignore
/// it (casefold, vfat, APFS).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    text: String,
    /// The text by which reports name it, if that is another one.
    written: Option<String>,
    /// The pattern without the leading `/`.
    folded: String,
    from_top: bool,
    /// The start of the last name in `folded`.
    last: usize,
    /// The exemption. Patterns with one have one name.
    exempt: Option<Exemption>,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If the text is not a pattern.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let names = text.strip_prefix('/');
        let (from_top, names) = (names.is_some(), names.unwrap_or(text));
        let bad = names.is_empty()
            || text.len() > 4096
            || text.contains('\0')
            || names.split('/').any(|name| matches!(name, "" | "." | ".."));
        if bad {
            return Err(
                Error::invalid(format!("not a name pattern: {text:?}")).with_hint(
                    "write names joined by single slashes, such as .git/hooks, *.pem or /private",
                ),
            );
        }
        let folded = sandbox_names::fold(names);
        Ok(Pattern {
            text: text.to_owned(),
            written: None,
            from_top,
            last: folded.rfind('/').map_or(0, |slash| slash + 1),
            folded,
            exempt: Exemption::of(text),
        })
    }

    sandbox_names::getters! {
        /// Returns the pattern as it was written.
        pub text: &str = &text;
        /// Returns `true` if the pattern matches at the top of a mount only.
        pub(crate) is_from_top: bool = from_top;
        /// Returns `true` if the pattern applies to a regular file only if the file contains a private
        /// key.
        pub is_by_content: bool = exempt.is_some_and(Exemption::is_by_content);
    }

    /// Returns the text by which reports name the pattern.
    #[must_use]
    pub(crate) fn written(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.text)
    }

    /// Returns the pattern with another text for reports.
    pub(crate) fn written_as(mut self, text: Option<&String>) -> Self {
        self.written = text.cloned();
        self
    }

    /// Returns the names of the pattern, outermost first.
    pub(crate) fn each_name(&self) -> impl Iterator<Item = &str> {
        self.relative().split('/')
    }

    fn relative(&self) -> &str {
        self.text.strip_prefix('/').unwrap_or(&self.text)
    }

    /// Returns `true` if `path` (relative to a mount) or one of its ancestors is named by the
    /// pattern.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        let names: Vec<&OsStr> = path.iter().collect();
        let wanted: Vec<&str> = self.folded.split('/').collect();
        names
            .windows(wanted.len())
            .enumerate()
            .take(if self.from_top { 1 } else { usize::MAX })
            .any(|(start, window)| {
                window
                    .iter()
                    .zip(&wanted)
                    .all(|(name, pattern)| fits(pattern, name))
                    && !self.is_exempt(names.iter().take(start).copied(), names[start])
            })
    }

    fn is_exempt<'n>(&self, above: impl Iterator<Item = &'n OsStr>, name: &OsStr) -> bool {
        self.exempt.is_some_and(|exempt| {
            let folded = |name: &OsStr| sandbox_names::fold(&name.to_string_lossy());
            let above: Vec<String> = above.map(folded).collect();
            exempt.holds(above.iter().map(String::as_str), &folded(name))
        })
    }

    /// Returns `true` if the pattern does not apply to files at `path`, whatever matches it: templates,
    /// and those in dependencies.
    pub(crate) fn exempts(&self, path: &Path) -> bool {
        let name = path.file_name();
        name.is_some_and(|name| self.is_exempt(path.iter().rev().skip(1), name))
    }

    /// Returns `true` if `path` ends in a name that the pattern matches. This equals
    /// `Pattern::names` for callers that never look below a match, and copies nothing.
    #[must_use]
    pub fn ends(&self, path: &Path) -> bool {
        let mut names = path.iter().rev();
        let ends = self
            .folded
            .rsplit('/')
            .all(|pattern| names.next().is_some_and(|name| fits(pattern, name)));
        ends && (!self.from_top || names.clone().next().is_none())
            && !path
                .file_name()
                .is_some_and(|name| self.is_exempt(names, name))
    }

    /// Returns the last name of the pattern, folded.
    pub(crate) fn last_name(&self) -> &str {
        &self.folded[self.last..]
    }

    /// Returns `true` if a name matches the last name of the pattern.
    pub(crate) fn last(&self, name: &OsStr) -> bool {
        fits(self.last_name(), name)
    }

    /// Returns `true` if the pattern does not apply to a file that git tracks unchanged.
    #[cfg(target_os = "linux")]
    pub(crate) fn spares_tracked(&self) -> bool {
        self.exempt.is_some_and(Exemption::spares_tracked)
    }

    /// Returns the path, if the pattern matches exactly one name or run of names.
    pub(crate) fn exact(&self) -> Option<&Path> {
        (!self.text.contains('*')).then(|| Path::new(self.relative()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, path, covers, names) in [
            (".git/hooks", ".git/hooks", true, true),
            (".git/hooks", "sub/.git/hooks/pre-commit", true, false),
            (".git/hooks", ".git/hooksx", false, false),
            ("*.pem", "a/b/key.pem", true, true),
            ("*.pem", "a/b/key.pem2", false, false),
            (".env*", ".env.local", true, true),
            (
                ".git/modules/*/hooks",
                ".git/modules/x/hooks/y",
                true,
                false,
            ),
            (".env*", "vendor/x/.env", false, false),
            (".env*", "vendor/x", false, false),
            (".env*", ".env/vendor/x", true, false),
            (".env*", "a/.env.example", false, false),
            ("*.pem", "VENV/lib/cacert.pem", false, false),
            (
                ".vscode",
                "node_modules/a/.vscode/settings.json",
                false,
                false,
            ),
            (".git/hooks", "node_modules/a/.git/hooks", true, true),
            ("*.key", "node_modules/a.key", true, true),
            ("*a*b*", "xxaxxbxx", true, true),
            ("*a*b*", "xxbxxaxx", false, false),
            ("/private", "private", true, true),
            ("/private", "Private/a", true, false),
            ("/private", "src/private", false, false),
            ("/a/*.json", "a/b.json", true, true),
            ("/a/*.json", "a/b.json/c", true, false),
            ("/a/*.json", "x/a/b.json", false, false),
        ] {
            let (pattern, path) = (Pattern::parse(pattern).unwrap(), Path::new(path));
            assert_eq!(pattern.covers(path), covers, "{pattern:?} {path:?}");
            let is_within = path.parent().is_some_and(|parent| pattern.covers(parent));
            assert_eq!(covers && !is_within, names, "{pattern:?} {path:?}");
            assert_eq!(pattern.ends(path), names, "{pattern:?} {path:?}");
            let last = path.file_name().is_some_and(|name| pattern.last(name));
            assert!(last || !names, "{pattern:?} {path:?}");
        }
        let table = include_str!("../../../../fixtures/name-patterns.tsv");
        for row in table.lines().filter(|line| !line.starts_with('#')) {
            let [pattern, path, covers] = row.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{row:?}");
            };
            let pattern = Pattern::parse(pattern).unwrap();
            assert_eq!(pattern.covers(Path::new(path)), covers == "yes", "{row}");
        }
        for bad in [
            "", "/", "//a", "/a/", "/a/../b", "a//b", "../x", "a/", "a\0",
        ] {
            assert!(Pattern::parse(bad).is_err(), "{bad:?}");
        }
    }
}
