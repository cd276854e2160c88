//! Patterns prepared for a test against every entry of a tree.

use crate::policy::Pattern;
use sandbox_names::pattern::fits;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Excludes names that no pattern of a list can end in, by one lookup in a table and a test of the
/// few patterns with a `*`; used for every entry of a tree.
pub(super) struct LastNames {
    /// By first byte: `true` if a name without `*` starts with it.
    starts: [bool; 256],
    exact: HashSet<Vec<u8>>,
    wild: Vec<WildName>,
}

/// A last name with a `*`, with the first and last byte of every name that fits it.
struct WildName {
    text: String,
    /// `None` for any byte, and for a byte beyond ASCII, which folding could change.
    first: Option<u8>,
    last: Option<u8>,
}

impl WildName {
    fn new(text: String) -> WildName {
        let literal = |byte: Option<u8>| byte.filter(|byte| byte.is_ascii() && *byte != b'*');
        WildName {
            first: literal(text.bytes().next()),
            last: literal(text.bytes().next_back()),
            text,
        }
    }

    /// Returns the same as [`fits`] for an ASCII name.
    fn fits(&self, name: &[u8]) -> bool {
        let agrees = |wanted: Option<u8>, byte: Option<&u8>| {
            wanted.is_none_or(|wanted| byte.is_some_and(|byte| byte.eq_ignore_ascii_case(&wanted)))
        };
        agrees(self.first, name.first())
            && agrees(self.last, name.last())
            && fits(&self.text, OsStr::from_bytes(name))
    }
}

impl LastNames {
    /// Collects the last names of `patterns`, and `more` names.
    pub(super) fn new<'p>(
        patterns: impl Iterator<Item = &'p Pattern>,
        more: impl Iterator<Item = &'static str>,
    ) -> LastNames {
        let mut names = LastNames {
            starts: [false; 256],
            exact: HashSet::new(),
            wild: Vec::new(),
        };
        let patterns = patterns.map(|pattern| pattern.last_name().to_owned());
        for name in patterns.chain(more.map(sandbox_names::fold)) {
            if name.contains('*') {
                if !names.wild.iter().any(|wild| wild.text == name) {
                    names.wild.push(WildName::new(name));
                }
            } else if let Some(first) = name.bytes().next() {
                names.starts[usize::from(first)] = true;
                names.exact.insert(name.into_bytes());
            }
        }
        names
    }

    /// `false` only if no pattern can end in the name. Always `true` for names beyond ASCII, whose
    /// bytes do not decide about equality.
    pub(super) fn may_have(&self, name: &[u8]) -> bool {
        if !name.is_ascii() {
            return true;
        }
        let starts = name
            .first()
            .is_some_and(|byte| self.starts[usize::from(byte.to_ascii_lowercase())]);
        starts && self.exact.contains(&name.to_ascii_lowercase())
            || self.wild.iter().any(|wild| wild.fits(name))
    }
}

/// Patterns with a table of their last names.
pub(super) struct Guards<'p> {
    patterns: &'p [Pattern],
    last: LastNames,
}

impl<'p> Guards<'p> {
    pub(super) fn new(patterns: &'p [Pattern]) -> Guards<'p> {
        Guards {
            patterns,
            last: LastNames::new(patterns.iter(), std::iter::empty()),
        }
    }

    /// Returns `true` if a pattern names `name` in the directory `below`. The last name decides in
    /// most cases, without a path. `holds` decides last.
    pub(super) fn has(&self, below: &Path, name: &OsStr, holds: &dyn Fn(&Pattern) -> bool) -> bool {
        self.last.may_have(name.as_bytes())
            && (self.patterns.iter()).any(|pattern| {
                pattern.last(name) && pattern.ends(&below.join(name)) && holds(pattern)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_as_each_pattern() {
        let patterns = [
            ".git/hooks",
            "*.pem",
            ".env*",
            "Work.yaml",
            "a/*/b",
            "\u{e9}",
            "\u{212a}",
        ];
        let patterns = patterns.map(|text| Pattern::parse(text).unwrap());
        let guards = Guards::new(&patterns);
        let notable = LastNames::new(patterns.iter(), ["HEAD"].into_iter());
        for (path, has) in [
            (".git/hooks", true),
            ("sub/.GIT/Hooks", true),
            ("hooks", false),
            ("KEY.Pem", true),
            ("key.pem2", false),
            (".env", true),
            ("x.env", false),
            ("WORK.yaml", true),
            ("a/x/b", true),
            ("x/b", false),
            ("\u{c9}", true),
            ("\u{ea}", false),
            ("k", true),
            ("\u{212a}", true),
        ] {
            let path = Path::new(path);
            let (parent, name) = (path.parent().unwrap(), path.file_name().unwrap());
            assert_eq!(guards.has(parent, name, &|_| true), has, "{path:?}");
            assert!(!guards.has(parent, name, &|_| false), "{path:?}");
            assert_eq!(patterns.iter().any(|one| one.ends(path)), has, "{path:?}");
            assert!(notable.may_have(name.as_bytes()) || !has, "{path:?}");
        }
        assert!(notable.may_have(b"head"));
        assert!(!notable.may_have(b"heads"));
    }
}
