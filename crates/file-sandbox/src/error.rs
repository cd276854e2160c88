//! The one error of this crate: a stable kind for programs, a text for the model.
//!
//! This file has all messages. They show paths as they were asked for and roots as the sandbox
//! names them, never a path of the host. Tests fix the sentences
//! (`tests/it/texts.rs`). The line after a sentence is a hint.

use std::borrow::Cow;
use std::fmt;
use std::io;

use crate::hash::ContentHash;
use crate::path::PATH_MAX_BYTES;
use crate::text::escape;

mod match_texts;

#[cfg(feature = "edit")]
pub(crate) use match_texts::Difference;
pub(crate) use match_texts::{MatchExcerpt, NoMatch};
use match_texts::{excerpts_hint, the_text};

/// The reason why an operation was refused or failed. `Display` is the text for a model. `Debug`
/// adds the causes that the text does not name, for `unwrap()` and for a `main` that returns it.
///
/// ```
/// use file_sandbox::{ErrorKind, SandboxPath};
///
/// let error = SandboxPath::parse("~/notes").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidPath);
/// assert_eq!(error.kind().code(), "INVALID_PATH");
/// assert_eq!(error.path(), "~/notes");
/// ```
pub struct Error(Box<ErrorDetails>);

#[derive(Debug)]
struct ErrorDetails {
    path: String,
    reason: ErrorReason,
}

sandbox_names::word_enum! {
    /// The kinds of errors, each with a stable code.
    ///
    /// ```
    /// assert_eq!(file_sandbox::ErrorKind::ReadOnly.code(), "READ_ONLY");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum ErrorKind {
        /// The name does not exist, or it is hidden.
        NotFound = "NOT_FOUND",
        /// The text is not a path, not a pattern, or not a directory to mount.
        InvalidPath = "INVALID_PATH",
        /// No mount covers the path.
        OutsideSandbox = "OUTSIDE_SANDBOX",
        /// The path may be read but not changed: by mode, by a protected name, as a root, or as a file
        /// with further hard links.
        ReadOnly = "READ_ONLY",
        /// Nothing of the mount may be read.
        ReadBlocked = "READ_BLOCKED",
        /// The mount allows other suffixes only.
        SuffixNotAllowed = "SUFFIX_NOT_ALLOWED",
        /// Larger than the mount or the caller allows.
        TooLarge = "TOO_LARGE",
        /// The object is of the wrong type for the operation: a directory or a special file where a
        /// file is due, or the reverse.
        NotAFile = "NOT_A_FILE",
        /// The file is not text.
        NotText = "NOT_TEXT",
        /// A link leads out of the sandbox.
        Escape = "ESCAPE",
        /// The name already exists.
        Exists = "EXISTS",
        /// Too many symlinks in the path.
        Loop = "LOOP",
        /// A name above 255 bytes or a path above 4096.
        NameTooLong = "NAME_TOO_LONG",
        /// The file changed since the caller saw it.
        Stale = "STALE",
        /// The text to replace was not found.
        NoMatch = "NO_MATCH",
        /// The text to replace was found more than once.
        NotUnique = "NOT_UNIQUE",
        /// The mount's quota is used up.
        Quota = "QUOTA",
        /// A narrower sandbox asked for more than its parent has.
        PermissionEscalation = "PERMISSION_ESCALATION",
        /// Another program held the file for too long.
        Busy = "BUSY",
        /// The caller cancelled the operation.
        Cancelled = "CANCELLED",
        /// The system failed or refused.
        Io = "IO",
    }
    /// The stable code, such as `NOT_FOUND`.
    pub fn code
}

impl ErrorKind {
    /// Returns the kind with this code, as another process reported it.
    ///
    /// ```
    /// use file_sandbox::ErrorKind;
    /// assert_eq!(ErrorKind::from_code("STALE"), Some(ErrorKind::Stale));
    /// assert_eq!(ErrorKind::from_code("stale"), None);
    /// ```
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        let mut all = Self::VARIANTS.iter().copied();
        all.find(|kind| kind.code() == code)
    }
}

sandbox_names::display!(ErrorKind = code());

impl Error {
    pub(crate) fn new(path: impl Into<String>, reason: ErrorReason) -> Self {
        let mut path = path.into();
        if path.len() > PATH_MAX_BYTES {
            path.truncate(path.floor_char_boundary(PATH_MAX_BYTES));
        }
        Self(Box::new(ErrorDetails { path, reason }))
    }

    sandbox_names::getters! {
        /// The kind, for programs.
        pub kind: ErrorKind = 0.reason.kind();
        /// Returns the path in the caller's spelling.
        pub path: &str = &0.path;
        /// Returns the lines after the first one: an allowed alternative or something to try.
        pub hint: Option<String> = 0.reason.hint();
    }

    /// `true` if the file was replaced during the operation, so that a retry may succeed.
    pub(crate) fn is_change(&self) -> bool {
        matches!(self.0.reason, ErrorReason::Changed { .. })
    }

    /// Adds the readable roots to an error that arose before the sandbox was known.
    pub(crate) fn with_readable(mut self, roots: impl FnOnce() -> Vec<String>) -> Self {
        if let ErrorReason::Outside { readable } = &mut self.0.reason
            && readable.is_none()
        {
            *readable = Some(roots());
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = escape::for_display(&self.0.path);
        self.0.reason.write_message(&path, f)?;
        match self.hint() {
            Some(hint) => write!(f, "\n{hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_causes(self, f)
    }
}

/// Writes an error for `unwrap()` and for a `main` that returns it: the sentence, and below it each
/// cause that the sentence does not name.
fn write_with_causes(error: &dyn std::error::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let sentence = error.to_string();
        if !text.contains(&sentence) {
            text.push_str("\ncaused by: ");
            text.push_str(&sentence);
        }
        cause = error.source();
    }
    f.write_str(&text)
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.reason {
            ErrorReason::Io { source, .. }
            | ErrorReason::Mount {
                source: Some(source),
                ..
            } => Some(source),
            _ => None,
        }
    }
}

sandbox_names::word_enum! {
    /// The attempted operation, as the verb of a sentence.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Verb {
        Access = "access",
        Read = "read",
        Write = "write to",
        Append = "append to",
        Edit = "edit",
        Create = "create",
        Move = "move",
        Delete = "delete",
        List = "list",
    }
    fn word
}

impl Verb {
    /// `true` if it reveals something of an existing object, or moves it elsewhere.
    pub(crate) const fn reads(self) -> bool {
        match self {
            Self::Access | Self::Read | Self::List | Self::Edit | Self::Move => true,
            Self::Write | Self::Append | Self::Create | Self::Delete => false,
        }
    }

    /// `true` if the operation needs an existing entry, so that a hidden one is reported as absent.
    pub(crate) const fn sees(self) -> bool {
        matches!(self, Self::Delete | Self::Move | Self::Edit)
    }
}

sandbox_names::display!(Verb = word());

sandbox_names::word_enum! {
    /// The reason why a text is not a path.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum InvalidPath {
        Empty = "it is empty",
        Nul = "it contains a NUL character",
        Tilde = "'~' is not expanded here",
        Drive = "it starts with a drive letter",
        Backslash = "it contains a backslash; names are separated by '/'",
        Absolute = "it is not relative",
        DotDot = "'..' is not allowed here",
        Reserved = "the name is reserved for temporary files",
    }
    fn words
}

/// The state of a file that changed since the caller saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CurrentContent {
    Gone,
    Has(ContentHash),
    /// The caller may not read it.
    Untold,
}

/// The reason of an error, with all values that its message shows.
#[derive(Debug)]
pub(crate) enum ErrorReason {
    Outside {
        readable: Option<Vec<String>>,
    },
    ReadOnly {
        verb: Verb,
        writable: Vec<String>,
    },
    /// Reading in the mount `root` is not allowed.
    Closed {
        verb: Verb,
        root: String,
    },
    Protected {
        verb: Verb,
        name: String,
    },
    /// Git's configuration names the file.
    Obeyed {
        verb: Verb,
        name: String,
    },
    /// A protected link leads to the file; `None` if the links are too many to be known.
    LinkTarget {
        verb: Verb,
        name: Option<String>,
    },
    IsRoot {
        verb: Verb,
    },
    HardLinks {
        verb: Verb,
        links: u64,
    },
    Suffix {
        allowed: Vec<String>,
    },
    TooLarge {
        verb: Verb,
        bytes: u64,
        limit: u64,
        /// The setting that has the limit; empty if it is the mount's own.
        setting: &'static str,
    },
    NotFound {
        nearest: Vec<String>,
    },
    Invalid(InvalidPath),
    Pattern {
        why: &'static str,
    },
    Regex {
        why: String,
    },
    WrongType {
        verb: Verb,
        found: &'static str,
        hint: Option<&'static str>,
    },
    NotText,
    Escape {
        readable: Vec<String>,
    },
    Exists,
    Loop,
    NameTooLong {
        bytes: usize,
        limit: usize,
    },
    Upgrade,
    ChildMode {
        place: String,
    },
    ChildLacks {
        place: String,
        available: Vec<String>,
    },
    ChildLink {
        place: String,
    },
    Mount {
        why: &'static str,
        source: Option<io::Error>,
    },
    MountOverlap {
        other: String,
    },
    Ownership,
    /// A directory with an entry below that must not be deleted or moved.
    Holds {
        verb: Verb,
        what: &'static str,
    },
    IntoItself,
    OtherVolume,
    TooMany {
        verb: Verb,
        limit: usize,
    },
    Stale {
        verb: Verb,
        now: CurrentContent,
    },
    Quota {
        verb: Verb,
        what: &'static str,
        needed: u64,
        limit: u64,
        setting: &'static str,
    },
    Encoding {
        verb: Verb,
        encoding: &'static str,
        lost: Option<char>,
    },
    NoMatch(Box<NoMatch>),
    NotUnique {
        which: Option<usize>,
        total: usize,
        places: Vec<MatchExcerpt>,
        fuzzy: bool,
    },
    Edits {
        which: Option<usize>,
        why: &'static str,
    },
    Changed {
        verb: Verb,
    },
    Busy {
        verb: Verb,
        waited_s: u64,
    },
    Cancelled {
        verb: Verb,
    },
    Io {
        verb: Verb,
        source: io::Error,
    },
}

impl ErrorReason {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Outside { .. } => ErrorKind::OutsideSandbox,
            Self::ReadOnly { .. }
            | Self::Protected { .. }
            | Self::Obeyed { .. }
            | Self::LinkTarget { .. }
            | Self::IsRoot { .. } => ErrorKind::ReadOnly,
            Self::Closed { .. } => ErrorKind::ReadBlocked,
            // Another name of the file may be outside, so reading it is an escape.
            Self::HardLinks {
                verb: Verb::Read, ..
            } => ErrorKind::Escape,
            Self::HardLinks { .. } => ErrorKind::ReadOnly,
            Self::Suffix { .. } => ErrorKind::SuffixNotAllowed,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Invalid(_)
            | Self::Pattern { .. }
            | Self::Regex { .. }
            | Self::Mount { .. }
            | Self::MountOverlap { .. } => ErrorKind::InvalidPath,
            Self::WrongType { .. } => ErrorKind::NotAFile,
            Self::NotText => ErrorKind::NotText,
            Self::Escape { .. } => ErrorKind::Escape,
            Self::Exists => ErrorKind::Exists,
            Self::Loop => ErrorKind::Loop,
            Self::NameTooLong { .. } => ErrorKind::NameTooLong,
            Self::Upgrade
            | Self::ChildMode { .. }
            | Self::ChildLacks { .. }
            | Self::ChildLink { .. } => ErrorKind::PermissionEscalation,
            Self::Holds { .. } => ErrorKind::ReadOnly,
            Self::IntoItself | Self::Edits { .. } => ErrorKind::InvalidPath,
            Self::TooMany { .. } => ErrorKind::TooLarge,
            Self::Stale { .. } => ErrorKind::Stale,
            Self::Quota { .. } => ErrorKind::Quota,
            Self::Encoding { .. } => ErrorKind::NotText,
            Self::NoMatch(_) => ErrorKind::NoMatch,
            Self::NotUnique { .. } => ErrorKind::NotUnique,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::Cancelled { .. } => ErrorKind::Cancelled,
            Self::OtherVolume | Self::Ownership | Self::Changed { .. } | Self::Io { .. } => {
                ErrorKind::Io
            }
        }
    }

    fn write_message(&self, path: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside { .. } => write!(f, "Cannot access '{path}': path is outside sandbox."),
            Self::ReadOnly { verb, .. } => write!(f, "Cannot {verb} '{path}': path is read-only."),
            Self::Closed { verb, root } => {
                write!(f, "Cannot {verb} '{path}': nothing in {root} may be read.")
            }
            Self::Protected { verb, name } => write!(
                f,
                "Cannot {verb} '{path}': path is read-only, because '{name}' is a protected name."
            ),
            Self::Obeyed { verb, name } => write!(
                f,
                "Cannot {verb} '{path}': path is read-only, because git obeys it ('{name}')."
            ),
            Self::LinkTarget { verb, name } => {
                write!(f, "Cannot {verb} '{path}': path is read-only, because ")?;
                match name {
                    Some(name) => write!(f, "the protected link '{name}' leads to it."),
                    None => f.write_str("protected links may lead to it, too many to be known."),
                }
            }
            Self::IsRoot { verb } => {
                write!(f, "Cannot {verb} '{path}': it is a root of the sandbox.")
            }
            Self::HardLinks { verb, links } => write!(
                f,
                "Cannot {verb} '{path}': the file has {links} hard links, and another of its names may be outside sandbox."
            ),
            Self::Suffix { .. } => write!(f, "Cannot access '{path}': suffix not allowed."),
            Self::TooLarge { verb, bytes, .. } => {
                write!(f, "Cannot {verb} '{path}': file too large ({bytes} bytes).")
            }
            Self::NotFound { .. } => write!(f, "File not found: {path}"),
            Self::Invalid(why) => write!(f, "Invalid path '{path}': {}.", why.words()),
            Self::Pattern { why } => write!(f, "Invalid pattern '{path}': {why}."),
            Self::Regex { why } => write!(f, "Invalid regular expression '{}': {why}.", clip(path)),
            Self::WrongType { verb, found, .. } => {
                write!(f, "Cannot {verb} '{path}': it is {found}.")
            }
            Self::NotText => write!(f, "Cannot read '{path}': not a text file."),
            Self::Escape { .. } => {
                write!(f, "Cannot access '{path}': a link leads outside sandbox.")
            }
            Self::Exists => write!(f, "Cannot create '{path}': it already exists."),
            Self::Loop => write!(f, "Cannot access '{path}': too many links."),
            Self::NameTooLong { bytes, limit } => {
                let what = if *limit < PATH_MAX_BYTES {
                    "name"
                } else {
                    "path"
                };
                write!(
                    f,
                    "Cannot access '{}': {what} too long ({bytes} bytes).",
                    clip(path)
                )
            }
            Self::Upgrade => f.write_str("Cannot upgrade read-only sandbox to read-write"),
            Self::ChildMode { place } => write!(
                f,
                "Child requests 'rw' on '{place}' but parent only has 'ro'"
            ),
            Self::ChildLacks { place, .. } => {
                write!(f, "Child requests '{place}' but parent doesn't have it")
            }
            Self::ChildLink { place } => {
                write!(f, "Child requests '{place}' but a link is on the way")
            }
            Self::Mount { why, .. } => write!(f, "Cannot mount '{path}': {why}."),
            Self::MountOverlap { other } => write!(
                f,
                "Cannot mount '{path}': its directory is also reached as '{other}', with other rules."
            ),
            Self::Ownership => write!(
                f,
                "Cannot write to '{path}': it belongs to another user, and a new file could not be given back."
            ),
            Self::Holds { verb, what } => write!(f, "Cannot {verb} '{path}': it holds {what}."),
            Self::IntoItself => write!(f, "Cannot move '{path}': the new place lies in it."),
            Self::OtherVolume => write!(
                f,
                "Cannot move '{path}': a directory cannot be moved to another volume."
            ),
            Self::TooMany { verb, limit } => write!(
                f,
                "Cannot {verb} '{path}': it holds more than {limit} names."
            ),
            Self::Stale { verb, .. } => {
                write!(f, "Cannot {verb} '{path}': it is not what was read.")
            }
            Self::Quota { verb, what, .. } => {
                write!(f, "Cannot {verb} '{path}': no room for more {what}.")
            }
            Self::Encoding {
                verb,
                encoding,
                lost: Some(lost),
            } => write!(
                f,
                "Cannot {verb} '{path}': the file is in {encoding}, which has no '{}'.",
                escape::for_display(lost.encode_utf8(&mut [0; 4]))
            ),
            Self::Encoding {
                verb,
                encoding,
                lost: None,
            } => write!(
                f,
                "Cannot {verb} '{path}': its bytes are not all {encoding}."
            ),
            Self::NoMatch(no) => {
                write!(f, "Cannot edit '{path}': {} not found.", the_text(no.which))
            }
            Self::NotUnique {
                which,
                total,
                fuzzy,
                ..
            } => write!(
                f,
                "Cannot edit '{path}': {} found {total} times{}.",
                the_text(*which),
                if *fuzzy { " by likeness" } else { "" }
            ),
            Self::Edits { which, why } => {
                write!(f, "Cannot edit '{path}': {} {why}.", the_text(*which))
            }
            Self::Changed { verb } => write!(
                f,
                "Cannot {verb} '{path}': it was exchanged while being opened."
            ),
            Self::Busy { verb, waited_s } => write!(
                f,
                "Cannot {verb} '{path}': another program has locked it, for more than {waited_s} seconds."
            ),
            Self::Cancelled { verb } => {
                write!(f, "Cannot {verb} '{path}': the call was cancelled.")
            }
            Self::Io { verb, source } => write!(f, "Cannot {verb} '{path}': {}.", io_words(source)),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Outside { readable } => readable.as_deref().map(readable_paths),
            Self::Escape { readable } => Some(readable_paths(readable)),
            Self::ReadOnly { writable, .. } => Some(format!("Writable paths: {}", list(writable))),
            Self::Suffix { allowed } => Some(format!("Allowed suffixes: {}", list(allowed))),
            Self::TooLarge { limit, setting, .. } => Some(match *setting {
                "" => format!("Maximum allowed: {limit} bytes"),
                setting => format!("Maximum allowed: {limit} bytes (`{setting}`)"),
            }),
            Self::NameTooLong { limit, .. } => Some(format!("Maximum allowed: {limit} bytes")),
            Self::NotFound { nearest } if nearest.is_empty() => None,
            Self::NotFound { nearest } => {
                Some(format!("Nearest existing names: {}", nearest.join(", ")))
            }
            Self::WrongType { hint, .. } => hint.map(str::to_owned),
            Self::NotText => Some("Pass binary files as attachments instead.".to_owned()),
            Self::ChildLacks { available, .. } => Some(format!("Available: {}", list(available))),
            Self::ChildLink { .. } => Some("Name the directory that it leads to.".to_owned()),
            Self::Ownership => Some("It can be written in place.".to_owned()),
            Self::OtherVolume => Some("Move what is in it, file by file.".to_owned()),
            Self::TooMany { .. } => Some("Take what is in it first, part by part.".to_owned()),
            Self::Stale { now, .. } => Some(match now {
                CurrentContent::Has(hash) => format!("Read it again; its hash is now {hash}."),
                CurrentContent::Gone => "It no longer exists.".to_owned(),
                CurrentContent::Untold => "What is in it now may not be read.".to_owned(),
            }),
            Self::Quota {
                what,
                needed,
                limit,
                setting,
                ..
            } => Some(format!(
                "Needed: {needed} {what}, maximum allowed: {limit} (`{setting}`)"
            )),
            Self::Busy { .. } => Some("Try again later.".to_owned()),
            Self::NoMatch(no) => Some(no.hint()),
            Self::NotUnique { places, total, .. } => Some(excerpts_hint(places, *total)),
            Self::Protected { .. }
            | Self::Obeyed { .. }
            | Self::LinkTarget { .. }
            | Self::IsRoot { .. }
            | Self::HardLinks { .. }
            | Self::Invalid(_)
            | Self::Pattern { .. }
            | Self::Regex { .. }
            | Self::Exists
            | Self::Loop
            | Self::Upgrade
            | Self::ChildMode { .. }
            | Self::Mount { .. }
            | Self::MountOverlap { .. }
            | Self::Holds { .. }
            | Self::IntoItself
            | Self::Encoding { .. }
            | Self::Edits { .. }
            | Self::Changed { .. }
            | Self::Closed { .. }
            | Self::Cancelled { .. }
            | Self::Io { .. } => None,
        }
    }
}

fn readable_paths(roots: &[String]) -> String {
    format!("Readable paths: {}", list(roots))
}

fn list(items: &[String]) -> Cow<'static, str> {
    if items.is_empty() {
        Cow::Borrowed("none")
    } else {
        Cow::Owned(items.join(", "))
    }
}

/// A path that is too long is not worth its length in the text either.
fn clip(path: &str) -> Cow<'_, str> {
    const KEPT: usize = 80;
    if path.len() <= KEPT {
        return Cow::Borrowed(path);
    }
    Cow::Owned(format!("{}…", &path[..path.floor_char_boundary(KEPT)]))
}

/// The words of the error's kind: a message from elsewhere could carry a path of the host.
fn io_words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) if error.kind().to_string().starts_with("uncategorized") => {
            // Created from the number alone: `Input/output error (os error 5)`.
            io::Error::from_raw_os_error(code).to_string()
        }
        _ => error.kind().to_string(),
    }
}
