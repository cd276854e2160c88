//! `SandboxPath`: the normalised path on which every check is made.
//!
//! A path is parsed once. `.`, doubled and trailing slashes are removed and `..` is resolved by
//! text, because models use it so; POSIX resolves `missing/../f` on disk and says "not found"
//! (`path_resolution(7)`). A parsed path cannot climb, so no later check has to look for `..`
//! again. Trailing slashes matter: `O_NOFOLLOW` has no effect on `link/` (cap-std#383,
//! GHSA-hp8f-xmx4-4qrg), so none of them may reach a system call.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::error::{Error, ErrorReason, InvalidPath};
use crate::text::escape;

/// Longest name, in bytes: `NAME_MAX` of Linux and macOS.
pub(crate) const NAME_MAX_BYTES: usize = 255;
/// Longest path of a caller, in bytes: `PATH_MAX` of Linux.
pub(crate) const PATH_MAX_BYTES: usize = 4096;

/// An absolute path inside a sandbox, normalised, that cannot climb above `/`.
///
/// Two paths are equal when their normalised forms are equal. Names with control characters or
/// bytes that are not UTF-8 are spelled with `\u{…}` and `\x{…}`.
///
/// ```
/// use file_sandbox::{ErrorKind, SandboxPath};
///
/// let path = SandboxPath::parse("data/../data/./a.md/")?;
/// assert_eq!(path.as_str(), "/data/a.md");
/// assert_eq!(path, SandboxPath::parse("/data/a.md")?);
///
/// let denied = SandboxPath::parse("data/../../etc/passwd").unwrap_err();
/// assert_eq!(denied.kind(), ErrorKind::OutsideSandbox);
/// # Ok::<(), file_sandbox::Error>(())
/// ```
#[derive(Clone)]
pub struct SandboxPath {
    /// `/`, or `/` and the names between single slashes, in their escaped spelling.
    normal: String,
    /// Shared with open files, for the texts of later errors.
    asked: Arc<str>,
}

impl SandboxPath {
    /// Returns the error of an operation on this path, as it was requested.
    pub(crate) fn error(&self, reason: ErrorReason) -> Error {
        Error::new(self.asked(), reason)
    }

    /// Parses `/data/a`, `data/a` or `./data/a`, which are equal.
    ///
    /// # Errors
    /// `INVALID_PATH` for an empty path, a NUL, `~`, a drive letter or a backslash;
    /// `OUTSIDE_SANDBOX` for a `..` that climbs above `/`; `NAME_TOO_LONG` for a name above
    /// 255 bytes or a path above 4096.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match normalise("/", text) {
            Ok(normal) => Ok(Self {
                normal,
                asked: text.into(),
            }),
            Err(reason) => Err(Error::new(text, reason)),
        }
    }

    /// Like [`parse`](Self::parse), but refuses every `..`, even one that stays inside.
    ///
    /// # Errors
    /// Those of `parse`, and `INVALID_PATH` for any `..`.
    pub fn parse_strict(text: &str) -> Result<Self, Error> {
        if text.split('/').any(|name| name == "..") {
            return Err(Error::new(text, ErrorReason::Invalid(InvalidPath::DotDot)));
        }
        Self::parse(text)
    }

    /// The top, `/`.
    #[must_use]
    pub fn root() -> Self {
        Self::from_normal("/".to_owned())
    }

    sandbox_names::getters! {
        /// Returns the path in the caller's spelling, which messages show.
        pub asked: &str = &asked;
        /// The normalised path, such as `/data/a.md`.
        pub as_str: &str = &normal;
    }

    pub(crate) fn asked_shared(&self) -> Arc<str> {
        Arc::clone(&self.asked)
    }

    /// The names from the top down; none for `/`.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.normal.split('/').filter(|name| !name.is_empty())
    }

    /// `true` for `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.normal == "/"
    }

    /// The directory above; `None` for `/`.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (above, _) = self.split()?;
        let above = if above.is_empty() { "/" } else { above };
        Some(Self::from_normal(above.to_owned()))
    }

    /// The last name; `None` for `/`.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        self.split().map(|(_, name)| name)
    }

    /// The place that `relative` names from here; `..` climbs by text, at most to `/`.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse), and `INVALID_PATH` for an absolute path.
    pub fn join(&self, relative: &str) -> Result<Self, Error> {
        if relative.starts_with('/') {
            return Err(Error::new(
                relative,
                ErrorReason::Invalid(InvalidPath::Absolute),
            ));
        }
        match normalise(&self.normal, relative) {
            Ok(normal) => Ok(Self::from_normal(normal)),
            Err(reason) => Err(Error::new(relative, reason)),
        }
    }

    /// `true` if this is `above` or below it. Names count whole: `/data_evil` is not below `/data`.
    #[must_use]
    pub fn starts_with(&self, above: &Self) -> bool {
        self.below(above).is_some()
    }

    /// Returns the rest of this path below `above`: without a leading slash, empty for `above`
    /// itself.
    #[inline]
    pub(crate) fn below(&self, above: &Self) -> Option<&str> {
        if above.is_root() {
            return Some(&self.normal[1..]);
        }
        let rest = self.normal.strip_prefix(above.as_str())?;
        if rest.is_empty() {
            return Some("");
        }
        rest.strip_prefix('/')
    }

    /// `true` if the path was asked for with a slash at its end, which only fits a directory.
    pub(crate) fn asks_for_directory(&self) -> bool {
        self.asked.ends_with('/') || self.asked.ends_with("/.")
    }

    /// Returns the path of a normalised text.
    pub(crate) fn from_normal(normal: String) -> Self {
        Self {
            asked: normal.as_str().into(),
            normal,
        }
    }

    /// The path of an existing name in this directory.
    pub(crate) fn child(&self, spelled: &str) -> Self {
        let slash = if self.is_root() { "" } else { "/" };
        Self::from_normal(format!("{}{slash}{spelled}", self.normal))
    }

    fn split(&self) -> Option<(&str, &str)> {
        if self.is_root() {
            return None;
        }
        self.normal.rsplit_once('/')
    }
}

impl fmt::Display for SandboxPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape::for_display(&self.asked))
    }
}

impl fmt::Debug for SandboxPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SandboxPath({:?})", self.normal)
    }
}

impl std::str::FromStr for SandboxPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl PartialEq for SandboxPath {
    fn eq(&self, other: &Self) -> bool {
        self.normal == other.normal
    }
}

impl Eq for SandboxPath {}

impl Hash for SandboxPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.normal.hash(state);
    }
}

impl PartialOrd for SandboxPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SandboxPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.normal.cmp(&other.normal)
    }
}

/// Resolves `text` by text alone, from `base`.
fn normalise(base: &str, text: &str) -> Result<String, ErrorReason> {
    refuse_foreign(text)?;
    let mut normal = if base == "/" {
        String::with_capacity(text.len() + 1)
    } else {
        base.to_owned()
    };
    for name in text.split('/') {
        match name {
            "" | "." => {}
            ".." => match normal.rfind('/') {
                Some(slash) => normal.truncate(slash),
                None => return Err(ErrorReason::Outside { readable: None }),
            },
            name => {
                normal.push('/');
                normal.push_str(&unescape_component(name)?);
            }
        }
    }
    if normal.len() > PATH_MAX_BYTES {
        return Err(ErrorReason::NameTooLong {
            bytes: normal.len(),
            limit: PATH_MAX_BYTES,
        });
    }
    if normal.is_empty() {
        normal.push('/');
    }
    Ok(normal)
}

/// Refuses paths of other systems and shells. Why: a guess would read or write a file that the
/// caller did not name.
fn refuse_foreign(text: &str) -> Result<(), ErrorReason> {
    let invalid = if text.is_empty() {
        InvalidPath::Empty
    } else if text.contains('\0') {
        InvalidPath::Nul
    } else if text.len() > PATH_MAX_BYTES {
        return Err(ErrorReason::NameTooLong {
            bytes: text.len(),
            limit: PATH_MAX_BYTES,
        });
    } else if text.starts_with('~') {
        InvalidPath::Tilde
    } else if is_drive(text) {
        InvalidPath::Drive
    } else {
        return Ok(());
    };
    Err(ErrorReason::Invalid(invalid))
}

fn is_drive(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic()) && chars.next() == Some(':')
}

/// Returns the canonical spelling of a name: escapes are read and written back.
fn unescape_component(name: &str) -> Result<String, ErrorReason> {
    let raw = escape::unescape_name(name).ok_or(ErrorReason::Invalid(InvalidPath::Backslash))?;
    let bytes = raw.as_encoded_bytes().len();
    if bytes > NAME_MAX_BYTES {
        return Err(ErrorReason::NameTooLong {
            bytes,
            limit: NAME_MAX_BYTES,
        });
    }
    Ok(escape::escape_name(&raw).into_owned())
}

/// Returns the names of `path` below `above`; `None` if it is not below.
pub(crate) fn names_below(path: &SandboxPath, above: &SandboxPath) -> Option<Vec<OsString>> {
    path.below(above)?
        .split('/')
        .filter(|name| !name.is_empty())
        .map(|name| escape::unescape_name(name).map(|name| name.into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use proptest::prelude::*;

    #[test]
    fn spellings_of_one_place() {
        let rows = [
            ("/", "/"),
            (".", "/"),
            ("./", "/"),
            ("data", "/data"),
            ("/data/", "/data"),
            ("//data///a//", "/data/a"),
            ("./data/./a", "/data/a"),
            ("data/../a", "/a"),
            ("missing/../data/a", "/data/a"),
            ("/data/..", "/"),
            ("/data/~x", "/data/~x"),
            ("/data/a:b", "/data/a:b"),
            ("/data/a\u{1b}b", "/data/a\\u{1b}b"),
            ("/data/a\\u{1b}b", "/data/a\\u{1b}b"),
            ("/data/...", "/data/..."),
        ];
        for (asked, normal) in rows {
            let path = SandboxPath::parse(asked).expect(asked);
            assert_eq!(path.as_str(), normal, "{asked}");
            assert_eq!(path.asked(), asked);
        }
    }

    #[test]
    fn refused_by_the_right_kind() {
        let long = "n".repeat(256);
        let longer = format!("/{}", "a/".repeat(2500));
        let rows = [
            ("", ErrorKind::InvalidPath),
            ("a\0b", ErrorKind::InvalidPath),
            ("~", ErrorKind::InvalidPath),
            ("~/x", ErrorKind::InvalidPath),
            ("~root/x", ErrorKind::InvalidPath),
            ("C:\\x", ErrorKind::InvalidPath),
            ("c:/x", ErrorKind::InvalidPath),
            ("C:", ErrorKind::InvalidPath),
            ("\\\\server\\share", ErrorKind::InvalidPath),
            ("..\\..\\x", ErrorKind::InvalidPath),
            ("data\\new.txt", ErrorKind::InvalidPath),
            ("/data/\\u{2f}", ErrorKind::InvalidPath),
            ("/data/\\u{2e}\\u{2e}/x", ErrorKind::InvalidPath),
            ("/data/\\u{0}", ErrorKind::InvalidPath),
            ("/data/\\x{41}", ErrorKind::InvalidPath),
            ("..", ErrorKind::OutsideSandbox),
            ("/..", ErrorKind::OutsideSandbox),
            ("../x", ErrorKind::OutsideSandbox),
            ("data/../../x", ErrorKind::OutsideSandbox),
            (long.as_str(), ErrorKind::NameTooLong),
            (longer.as_str(), ErrorKind::NameTooLong),
        ];
        for (asked, kind) in rows {
            let error = SandboxPath::parse(asked).expect_err(asked);
            assert_eq!(error.kind(), kind, "{asked}");
        }
    }

    #[test]
    fn relations() {
        let data = SandboxPath::parse("/data").unwrap();
        let file = SandboxPath::parse("/data/a/b").unwrap();
        assert!(file.starts_with(&data) && data.starts_with(&data));
        assert!(file.starts_with(&SandboxPath::root()));
        assert!(!SandboxPath::parse("/data_evil").unwrap().starts_with(&data));
        assert_eq!(file.parent().unwrap().as_str(), "/data/a");
        assert_eq!(data.parent().unwrap().as_str(), "/");
        assert_eq!(SandboxPath::root().parent(), None);
        assert_eq!(file.file_name(), Some("b"));
        assert_eq!(data.join("x/../y").unwrap().as_str(), "/data/y");
        assert!(data.join("../..").is_err());
        assert!(data.join("/etc").is_err());
        assert!(SandboxPath::parse_strict("a/../b").is_err());
        assert!(SandboxPath::parse_strict("a..b/..c").is_ok());
    }

    proptest! {
        #[test]
        fn any_text_parses_to_a_fixed_point_or_an_error(text in "\\PC{0,40}|[./a~\\\\:\\x00-\\x1f]{0,20}") {
            if let Ok(path) = SandboxPath::parse(&text) {
                prop_assert!(path.as_str().starts_with('/'));
                prop_assert!(path.components().all(|name| name != ".." && name != "."));
                let again = SandboxPath::parse(path.as_str());
                prop_assert_eq!(again.ok(), Some(path));
            }
        }
    }
}
