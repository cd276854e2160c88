//! The language of protected and hidden names. A pattern is a name, or names joined by `/`; in
//! each, `*` matches any text, and names are compared as a case-folding file system does. A pattern
//! applies at any depth, or, with a leading `/`, from a worker's `/`. The language has only forms
//! that every enforcer reads alike.

use std::ffi::OsStr;

use crate::fold;

/// Characters that some readers of patterns take literally and others as syntax.
const UNCLEAR: [char; 6] = ['?', '[', ']', '{', '}', '\\'];

/// Returns the byte at which a pattern leaves the language, and why; `None` if it does not.
///
/// ```
/// use sandbox_names::pattern::problem;
/// assert_eq!(problem("*.pem"), None);
/// assert_eq!(problem("/data/p/private"), None);
/// assert_eq!(problem("key?.txt").unwrap().0, 3);
/// assert!(problem("a/**/b").is_some());
/// assert!(problem("~/x*").is_some());
/// ```
#[must_use]
pub fn problem(text: &str) -> Option<(usize, &'static str)> {
    if let Some(at) = text.find('\0') {
        return Some((at, "a NUL is in no name"));
    }
    if let Some(at) = text.find(UNCLEAR) {
        return Some((
            at,
            "commands cannot be held to this sign: write `*` for any text, or one pattern for each name",
        ));
    }
    if text.starts_with('~') {
        return Some((
            0,
            "`~` is not expanded here: write a path as workers see it",
        ));
    }
    let names = text.strip_prefix('/').unwrap_or(text);
    let mut at = text.len() - names.len();
    for name in names.split('/') {
        let why = match name {
            "" => "a name is missing",
            "." | ".." => "`.` and `..` are not followed",
            _ if name.contains("**") => {
                "`*` counts inside one name, and a name at any depth already"
            }
            _ => {
                at += name.len() + 1;
                continue;
            }
        };
        return Some((at.min(text.len()), why));
    }
    None
}

/// `true` if a name matches one name of a pattern, which is already folded ([`fold`]). Linear for
/// realistic patterns, and bounded by the product of both lengths.
///
/// ```
/// use sandbox_names::pattern::fits;
/// assert!(fits("*.pem", "KEY.Pem".as_ref()));
/// assert!(!fits("*.pem", "key.pem2".as_ref()));
/// ```
#[must_use]
pub fn fits(folded: &str, name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    if bytes.is_ascii() {
        return wild(folded.as_bytes(), bytes);
    }
    wild(folded.as_bytes(), fold(&name.to_string_lossy()).as_bytes())
}

/// `*` against any run of bytes; upper case in the name is lower case.
fn wild(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, n));
            p += 1;
        } else if p < pattern.len() && pattern[p] == name[n].to_ascii_lowercase() {
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

/// Returns a pattern that matches the literal text: characters outside of the language become `*`.
///
/// ```
/// assert_eq!(sandbox_names::pattern::covering("a/[id].ts"), "a/*id*.ts");
/// ```
#[must_use]
pub fn covering(path: &str) -> String {
    path.replace(UNCLEAR, "*").replace("**", "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form() {
        for good in [
            "a", ".env*", "*.pem", "a/b", "a/*/b", "/a", "/a/b*", "*", "a b", "é", "a*b*c",
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
        for (bad, at) in [
            ("", 0),
            ("/", 1),
            ("a//b", 2),
            ("a/", 2),
            ("../x", 0),
            ("a/./b", 2),
            ("a/..", 2),
            ("key?.txt", 3),
            ("[ab]", 0),
            ("a/{b,c}", 2),
            ("**", 0),
            ("a/**/b", 2),
            ("~/x*", 0),
            ("C:\\*", 2),
            ("a\0", 1),
        ] {
            assert_eq!(problem(bad).map(|(at, _)| at), Some(at), "{bad:?}");
        }
    }
}
