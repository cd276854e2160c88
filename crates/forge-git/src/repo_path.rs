//! Paths inside a repository, and which of them no commit of ours may contain.
//!
//! A commit is checked out on other machines, with other file systems: HFS+ ignores some
//! characters, NTFS ignores dots and spaces at the end and knows short names, both ignore case. A
//! name that is `.git` to any of them is refused everywhere.

use forge_tools::escape_controls;
use unicode_normalization::UnicodeNormalization as _;

use super::error::{GitError, GitErrorKind};

/// Most bytes of a path, and names in it.
const MAX_PATH_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 255;
const MAX_NAMES: usize = 64;

/// A file's place in a repository.
///
/// ```
/// use forge_git::RepoPath;
///
/// assert_eq!(RepoPath::parse("analyses/topic.md")?.as_str(), "analyses/topic.md");
/// for refused in ["", "/etc/passwd", "../x", "a//b", ".GIT/hooks/x", "git~1", ".gitmodules",
///                 ".g\u{200c}it/config", "a/.git /config", ".git::$INDEX_ALLOCATION", "a\\b"] {
///     assert!(RepoPath::parse(refused).is_err(), "{refused:?}");
/// }
/// # Ok::<(), forge_git::GitError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoPath(String);

impl RepoPath {
    /// Parses names between single slashes.
    ///
    /// # Errors
    /// It leaves the repository, or is a part of git's own files to some file system.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        match fault(text) {
            None => Ok(RepoPath(text.to_owned())),
            Some(why) => {
                let shown: String = text.chars().take(200).collect();
                let shown = escape_controls(&shown);
                Err(GitErrorKind::Refused
                    .error(format!("Not a path in a repository: '{shown}' ({why}).")))
            }
        }
    }

    sandbox_names::getters! {
        /// The path.
        pub as_str: &str = &0;
        /// The names, from the top down.
        pub names: impl Iterator<Item = &str> = 0.split('/');
    }

    /// Returns `true` if it is that path, or one below it.
    pub(super) fn is_at_or_below(&self, above: &RepoPath) -> bool {
        let rest = self.0.strip_prefix(above.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the reason why programs on other machines run this file, if they do.
    pub fn runs(&self) -> Option<String> {
        let names: Vec<String> = self.names().map(as_opened).collect();
        sandbox_names::autoloaded::find(&names).map(sandbox_names::autoloaded::AutoloadedFile::why)
    }

    /// Returns the reason why Windows cannot make a file of this path, if it cannot: a clone on
    /// Windows then gets no files at all.
    ///
    /// ```
    /// use forge_git::RepoPath;
    /// assert!(RepoPath::parse("a/AUX.txt")?.unfit_for_windows().is_some());
    /// assert!(RepoPath::parse("a/auxiliary.txt")?.unfit_for_windows().is_none());
    /// # Ok::<(), forge_git::GitError>(())
    /// ```
    pub fn unfit_for_windows(&self) -> Option<&'static str> {
        self.names().find_map(|name| {
            if name.contains(['<', '>', ':', '"', '|', '?', '*', '\\']) {
                return Some("Windows has no names with any of < > : \" | ? * \\");
            }
            if name.ends_with(['.', ' ']) {
                return Some("Windows has no names with a dot or a space at the end");
            }
            let name = folded(name);
            let stem = name.split('.').next().unwrap_or_default().trim_end();
            let numbered = |device: &str| {
                let number = stem.strip_prefix(device);
                number.is_some_and(|number| matches!(number.as_bytes(), [b'0'..=b'9']))
            };
            let device = ["con", "prn", "aux", "nul", "conin$", "conout$"].contains(&stem);
            (device || numbered("com") || numbered("lpt"))
                .then_some("it is a device to Windows, whatever comes after a dot")
        })
    }
}

sandbox_names::display!(RepoPath = &0);

fn fault(text: &str) -> Option<&'static str> {
    if text.is_empty() || text.len() > MAX_PATH_BYTES {
        return Some("it must have 1 to 4096 bytes");
    }
    if text.starts_with('/') {
        return Some("it is absolute");
    }
    if text.chars().any(|c| c.is_control() || c == '\\') {
        return Some("it contains control characters or a backslash");
    }
    if text.split('/').count() > MAX_NAMES {
        return Some("it is deeper than 64 directories");
    }
    text.split('/').find_map(|name| match name {
        "" => Some("it has an empty name"),
        "." | ".." => Some("it climbs"),
        name if name.len() > MAX_NAME_BYTES => Some("one of its names has more than 255 bytes"),
        name if as_opened(name).is_empty() => Some("it is nothing, or climbs, to some file system"),
        name => of_git(name),
    })
}

/// Why a name belongs to git, on some file system.
fn of_git(name: &str) -> Option<&'static str> {
    let name = as_opened(name);
    let short = |stem: &str| {
        let rest = name
            .strip_prefix(stem)
            .and_then(|rest| rest.strip_prefix('~'));
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    if name == ".git" || short("git") {
        return Some("it is git's own directory");
    }
    // NTFS makes `gi7eba~1` of it once the first four short names are taken.
    let hashed = name.starts_with("gi7eba") && name.contains('~');
    if name == ".gitmodules" || short("gitmod") || hashed {
        return Some("it tells git where to fetch from");
    }
    None
}

/// A name as the most lenient file system opens it: to NTFS, the text after a colon is a stream of
/// the file before it, and dots and spaces at the end are nothing.
fn as_opened(name: &str) -> String {
    let mut name = folded(name);
    name.truncate(name.find(':').unwrap_or(name.len()));
    name.truncate(name.trim_end_matches(['.', ' ']).len());
    name
}

/// A name as the most lenient file system compares it.
pub(crate) fn folded(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    // Default_Ignorable_Code_Point of Unicode 16.0: HFS+ ignores some of it, ext4 with `casefold`
    // all of it.
    let ignored = |c: &char| {
        matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
    };
    let kept = name.chars().filter(|c| !ignored(c));
    kept.nfkd().flat_map(char::to_lowercase).nfkc().collect()
}
