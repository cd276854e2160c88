//! Names below a writable mount that a command should not change (`protect`) or read (`hide`),
//! written as patterns. Guards, not boundaries: a mount layer keeps them, Landlock alone cannot.

use crate::error::Error;
use sandbox_names::exempt::Exemption;
use std::ffi::OsStr;
use std::path::Path;

/// A pattern of one or more names: `.git/hooks`, `*.pem`, `.git/modules/*/hooks`. It matches at
/// any depth, and everything below what it matches. `*` stands for any run of bytes in one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pattern {
    text: String,
    /// Where its last name starts.
    last: usize,
    /// Where it does not hold. Such patterns have one name.
    exempt: Option<Exemption>,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let bad = text.is_empty()
            || text.len() > 4096
            || text.contains('\0')
            || text.split('/').any(|name| matches!(name, "" | "." | ".."));
        if bad {
            return Err(Error::invalid(format!("not a name pattern: {text:?}"))
                .with_hint("write names joined by single slashes, such as .git/hooks or *.pem"));
        }
        Ok(Pattern {
            text: text.to_owned(),
            last: text.rfind('/').map_or(0, |slash| slash + 1),
            exempt: Exemption::of(text),
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether `path` (relative to a mount) or one of its ancestors is named by the pattern.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        let names: Vec<&OsStr> = path.iter().collect();
        let wanted: Vec<&str> = self.text.split('/').collect();
        names
            .windows(wanted.len())
            .enumerate()
            .any(|(start, window)| {
                window
                    .iter()
                    .zip(&wanted)
                    .all(|(name, pattern)| wild(pattern.as_bytes(), name.as_encoded_bytes()))
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

    /// Whether `path` ends in what the pattern names: the same as [`Pattern::names`] for who
    /// never looks below something that is named, and without copies.
    pub(crate) fn ends(&self, path: &Path) -> bool {
        let mut names = path.iter().rev();
        let ends = self.text.rsplit('/').all(|pattern| {
            names
                .next()
                .is_some_and(|name| wild(pattern.as_bytes(), name.as_encoded_bytes()))
        });
        ends && !path
            .file_name()
            .is_some_and(|name| self.is_exempt(names, name))
    }

    /// Its last name.
    pub(crate) fn last_name(&self) -> &str {
        &self.text[self.last..]
    }

    /// Whether a name can be the last one of what the pattern names. Asked for every entry of a
    /// tree; the first byte answers in most cases.
    pub(crate) fn last(&self, name: &OsStr) -> bool {
        let pattern = &self.text.as_bytes()[self.last..];
        let name = name.as_encoded_bytes();
        let first = pattern.first();
        (first == Some(&b'*') || first == name.first()) && wild(pattern, name)
    }

    /// The path, if the pattern stands for exactly one name or run of names.
    pub(crate) fn exact(&self) -> Option<&Path> {
        (!self.text.contains('*')).then(|| Path::new(&self.text))
    }

    /// Whether `path` itself, not something below it, is what the pattern names.
    #[cfg(test)]
    pub(crate) fn names(&self, path: &Path) -> bool {
        self.covers(path) && !path.parent().is_some_and(|parent| self.covers(parent))
    }
}

/// `*` against any run of bytes; linear in practice, bounded by the product of both lengths.
fn wild(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, n));
            p += 1;
        } else if p < pattern.len() && pattern[p] == name[n] {
            p += 1;
            n += 1;
        } else if let Some((star_p, star_n)) = star {
            p = star_p + 1;
            n = star_n + 1;
            star = Some((star_p, n));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
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
        ] {
            let pattern = Pattern::parse(pattern).unwrap();
            assert_eq!(
                pattern.covers(Path::new(path)),
                covers,
                "{pattern:?} {path}"
            );
            assert_eq!(pattern.names(Path::new(path)), names, "{pattern:?} {path}");
            assert_eq!(pattern.ends(Path::new(path)), names, "{pattern:?} {path}");
            let last = Path::new(path)
                .file_name()
                .is_some_and(|name| pattern.last(name));
            assert!(last || !names, "{pattern:?} {path}");
        }
        for bad in ["", "/a", "a//b", "../x", "a/", "a\0"] {
            assert!(Pattern::parse(bad).is_err(), "{bad:?}");
        }
    }
}
