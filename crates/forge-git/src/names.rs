//! The names that git is given. Each is parsed once, so that git never receives an option, or two
//! lines.

use std::fmt;

use forge_tools::escape_controls;

use super::error::{GitError, GitErrorKind};

/// Most bytes of a branch's name; the longest that a file system takes as one name.
const MAX_BRANCH_BYTES: usize = 255;

pub(super) fn invalid(what: &str, text: &str, why: &str) -> GitError {
    let shown: String = text.chars().take(200).collect();
    let shown = escape_controls(&shown);
    GitErrorKind::Invalid.error(format!("Not the {what}: '{shown}' ({why})."))
}

/// The name of a branch, as git accepts it.
///
/// ```
/// use forge_git::BranchName;
///
/// assert_eq!(BranchName::default().as_str(), "main");
/// assert!(BranchName::parse("feature/one").is_ok());
/// for bad in ["", "-d", "a b", "a..b", "x.lock", "a\nb", "refs/heads/x", "@{0}", "a:b",
///             "a\u{202e}b"] {
///     assert!(BranchName::parse(bad).is_err(), "{bad:?}");
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BranchName(String);

impl Default for BranchName {
    fn default() -> Self {
        BranchName("main".to_owned())
    }
}

impl BranchName {
    /// Parses the name of a branch, without `refs/heads/`.
    ///
    /// # Errors
    /// Git has no such branches, or it could be read as something else.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        let bad = |why: &str| Err(invalid("name of a branch", text, why));
        if text.is_empty() || text.len() > MAX_BRANCH_BYTES {
            return bad("it must have 1 to 255 bytes");
        }
        let never = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
        if text.contains(never) || text.contains("..") || text.contains("@{") {
            return bad("it has characters that git does not allow in one");
        }
        if escape_controls(text) != text {
            return bad("it has characters that are not seen");
        }
        if text.starts_with('-') || text == "@" || text == "HEAD" || text.starts_with("refs/") {
            return bad("it would be read as something else");
        }
        let part_is_bad = |part: &str| {
            part.is_empty()
                || part.starts_with('.')
                || part.ends_with('.')
                || part.to_ascii_lowercase().ends_with(".lock")
        };
        if text.split('/').any(part_is_bad) {
            return bad("one of its parts is not allowed in one");
        }
        Ok(BranchName(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

sandbox_names::display!(BranchName = &0);

/// Git's id of an object: a commit, or the content of a file.
///
/// ```
/// use forge_git::ObjectId;
/// assert!(ObjectId::parse("4b825dc642cb6eb9a060e54bf8d69288fbee4904").is_some());
/// assert!(ObjectId::parse("--help").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(String);

impl ObjectId {
    /// Parses 40 or 64 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        (digits && matches!(text.len(), 40 | 64)).then(|| ObjectId(text.to_owned()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

sandbox_names::display!(ObjectId = &0);

/// The name of a staged commit: its time, and a number that cannot be guessed.
///
/// ```
/// use forge_git::StagedId;
/// assert!(StagedId::parse("00000000000000000123456789abcdef").is_ok());
/// assert!(StagedId::parse("../x").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StagedId(String);

impl StagedId {
    /// Parses 32 hexadecimal digits in lower case.
    ///
    /// # Errors
    /// It is something else.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !digits || text.len() != 32 {
            return Err(invalid(
                "id of a staged commit",
                text,
                "32 hexadecimal digits",
            ));
        }
        Ok(StagedId(text.to_owned()))
    }

    /// One for a commit of this time; those of later times come after it.
    pub(crate) fn new(nanoseconds: u64, random: [u8; 8]) -> Self {
        let random = sandbox_names::hex(random);
        StagedId(format!("{nanoseconds:016x}{random}"))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

sandbox_names::display!(StagedId = &0);

/// The author of a commit.
///
/// ```
/// use forge_git::Author;
/// assert_eq!(Author::default().to_string(), "forge <forge@localhost>");
/// assert!(Author::parse("me\n<a@b>").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    name: String,
    address: String,
}

impl Default for Author {
    fn default() -> Self {
        Author {
            name: "forge".to_owned(),
            address: "forge@localhost".to_owned(),
        }
    }
}

impl Author {
    /// Parses `name <address>`.
    ///
    /// # Errors
    /// It is something else.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        let bad = || invalid("author of a commit", text, "name <address>");
        if text.contains(char::is_control) {
            return Err(bad());
        }
        let (name, rest) = text.split_once('<').ok_or_else(bad)?;
        let address = rest.strip_suffix('>').ok_or_else(bad)?;
        let (name, address) = (name.trim(), address.trim());
        let plain =
            |part: &str| !part.is_empty() && part.len() <= 200 && !part.contains(['<', '>']);
        if !plain(name) || !plain(address) {
            return Err(bad());
        }
        Ok(Author {
            name: name.to_owned(),
            address: address.to_owned(),
        })
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <{}>", self.name, self.address)
    }
}
