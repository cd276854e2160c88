//! What a call would change in a file, and what it did change: the one is shown to a person before
//! it happens, the other is kept in the record.

use file_sandbox::ContentHash;
use serde::Serialize;

/// A file as it would be after a call.
///
/// ```
/// let change = forge_tools::FileChange::new("/a.md", Some("one\n".into()), "two\n");
/// assert_eq!(change.diff(), "--- /a.md\n+++ /a.md\n@@ -1 +1 @@\n-one\n+two\n");
/// let new = forge_tools::FileChange::new("/b.md", None, "x\n");
/// assert!(new.diff().starts_with("--- (new file)\n+++ /b.md\n"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    path: String,
    diff: String,
    whole: bool,
    /// Whether the file is as it would be already.
    nothing: bool,
    seen: Vec<(String, ReviewedState)>,
}

/// A file as it was when somebody was shown what would become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReviewedState {
    /// There was none.
    Missing,
    /// It had these bytes.
    Bytes(ContentHash),
    /// It was a directory with this below it: names, sizes, times, and bytes as far as they are
    /// looked at.
    Tree(ContentHash),
}

impl FileChange {
    /// The file at `path`, before (none: there is no such file) and after.
    pub fn new(path: impl Into<String>, before: Option<String>, after: impl Into<String>) -> Self {
        let (path, after) = (path.into(), after.into());
        let from = match &before {
            Some(_) => path.as_str(),
            None => "(new file)",
        };
        let old = before.as_deref().unwrap_or_default();
        let diff = match crate::unified::hunks(old, &after, None) {
            none if none.is_empty() => none,
            hunks => format!("--- {from}\n+++ {path}\n{hunks}"),
        };
        FileChange {
            path,
            diff,
            whole: true,
            nothing: before.is_some_and(|before| before == after),
            seen: Vec::new(),
        }
    }

    /// The file at `path`, with a unified diff that somebody else has made.
    pub fn of_diff(path: impl Into<String>, hunks: impl AsRef<str>) -> Self {
        let path = path.into();
        let diff = format!("--- {path}\n+++ {path}\n{}", hunks.as_ref());
        FileChange {
            path,
            diff,
            whole: true,
            nothing: hunks.as_ref().is_empty(),
            seen: Vec::new(),
        }
    }

    /// The file at `path`, which a call takes away: its text, or in a few rows what it is.
    pub(crate) fn removed(path: impl Into<String>, text: Option<&str>, rows: &str) -> Self {
        let path = path.into();
        let hunks = match text {
            Some(text) => crate::unified::hunks(text, "", None),
            None => rows.to_owned(),
        };
        let diff = format!("--- {path}\n+++ (deleted)\n{hunks}");
        FileChange {
            path,
            diff,
            whole: true,
            nothing: false,
            seen: Vec::new(),
        }
    }

    /// What is at `from` and comes to `to`, or what at `from` a command runs.
    pub(crate) fn used(from: &str, to: &str, rows: &str) -> Self {
        FileChange {
            path: from.to_owned(),
            diff: format!("--- {from}\n+++ {to}\n{rows}"),
            whole: true,
            nothing: false,
            seen: Vec::new(),
        }
    }

    /// The file at `path`, of which no diff can be shown whole: it is no text, or too long.
    pub fn unseen(path: impl Into<String>) -> Self {
        let path = path.into();
        let diff = format!("--- {path}\n+++ {path}\n(no diff of this file can be shown)\n");
        FileChange {
            path,
            diff,
            whole: false,
            nothing: false,
            seen: Vec::new(),
        }
    }

    /// The same, of files that looked so.
    pub(crate) fn of(mut self, path: &str, seen: ReviewedState) -> Self {
        self.seen.push((path.to_owned(), seen));
        self
    }

    /// Whether it reads the same, whatever else the files are by now.
    pub(crate) fn reads_as(&self, other: &FileChange) -> bool {
        let FileChange {
            path,
            diff,
            whole,
            nothing,
            seen: _,
        } = self;
        (path, diff, *whole, *nothing) == (&other.path, &other.diff, other.whole, other.nothing)
    }

    /// The files that were looked at for it.
    pub(crate) fn seen(&self) -> &[(String, ReviewedState)] {
        &self.seen
    }

    /// Whether the file is as it would be already.
    pub(crate) fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Whether the diff shows all of it.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// The same with a placeholder for each secret.
    pub(crate) fn redacted(mut self, redactor: &crate::Redactor) -> Self {
        redactor.redact_in_place(&mut self.path);
        redactor.redact_in_place(&mut self.diff);
        self
    }

    /// The file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A unified diff with three lines around each change. Nothing is escaped here: whoever shows
    /// it does that.
    pub fn diff(&self) -> &str {
        &self.diff
    }
}

/// What became of a file.
///
/// ```
/// assert_eq!(serde_json::json!(forge_tools::Effect::Created), "created");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// There was none before.
    Created,
    /// Replaced, edited or appended to.
    Updated,
    /// Removed, or moved away.
    Deleted,
}

/// A file that a call left behind or took away.
///
/// ```
/// use forge_tools::{Artifact, Effect};
/// let artifact = Artifact::deleted("/a.md");
/// assert_eq!((artifact.path.as_str(), artifact.effect), ("/a.md", Effect::Deleted));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// Its sandbox path.
    pub path: String,
    /// What became of it.
    pub effect: Effect,
    /// Its size afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// SHA-256 of its content afterwards, in hex, where the tool knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Artifact {
    /// A file that now holds `bytes` bytes with this hash, and whether there was none before.
    pub fn written(
        path: impl Into<String>,
        created: bool,
        bytes: u64,
        sha256: Option<String>,
    ) -> Self {
        Artifact {
            path: path.into(),
            effect: match created {
                true => Effect::Created,
                false => Effect::Updated,
            },
            bytes: Some(bytes),
            sha256,
        }
    }

    /// A file that is gone.
    pub fn deleted(path: impl Into<String>) -> Self {
        Artifact {
            path: path.into(),
            effect: Effect::Deleted,
            bytes: None,
            sha256: None,
        }
    }
}
