//! The change that a call would make to a file, and the change that it made: a person is shown the
//! first, the record has the second.

use file_sandbox::ContentHash;
use serde::{Deserialize, Serialize};

use crate::redact::Redactor;

/// Stands for files that a command runs and its line does not name. No file has such a path.
const UNNAMED: &str = "(other files)";

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
    /// `true` if the file is as it would be already.
    nothing: bool,
    /// `true` if its secrets are replaced.
    is_redacted: bool,
    seen: Vec<(String, ReviewedState)>,
}

/// The state of a file when a person was shown its change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewedState {
    /// There was none.
    Missing,
    /// It had these bytes.
    Bytes(ContentHash),
    /// It was a directory with this below it: names, sizes, times, and bytes as far as they are
    /// looked at.
    Tree(ContentHash),
}

impl FileChange {
    /// The change of the file at `path`, from `before` (`None` if it does not exist) to `after`.
    pub fn new(path: impl Into<String>, before: Option<String>, after: impl Into<String>) -> Self {
        let (path, after) = (path.into(), after.into());
        let from = match &before {
            Some(_) => path.as_str(),
            None => "(new file)",
        };
        let old = before.as_deref().unwrap_or_default();
        let diff = match crate::unified::diff_hunks(old, &after, None) {
            none if none.is_empty() => none,
            hunks => format!("--- {from}\n+++ {path}\n{hunks}"),
        };
        FileChange {
            nothing: before.is_some_and(|before| before == after),
            ..FileChange::shown(path, diff)
        }
    }

    fn shown(path: String, diff: String) -> Self {
        FileChange {
            path,
            diff,
            whole: true,
            nothing: false,
            is_redacted: false,
            seen: Vec::new(),
        }
    }

    /// The change of the file at `path`, with a unified diff made elsewhere.
    pub fn of_diff(path: impl Into<String>, hunks: impl AsRef<str>) -> Self {
        let path = path.into();
        let diff = format!("--- {path}\n+++ {path}\n{}", hunks.as_ref());
        FileChange {
            nothing: hunks.as_ref().is_empty(),
            ..FileChange::shown(path, diff)
        }
    }

    /// As [`new`](Self::new), with the redactor of a question.
    pub(crate) fn between(
        path: &str,
        before: Option<&str>,
        after: &str,
        redactor: &Redactor,
    ) -> Self {
        let nothing = before.is_some_and(|before| before == after);
        let before = before.map(|before| redactor.redact_blocks(before).into_owned());
        let change = FileChange::new(path, before, redactor.redact_blocks(after));
        FileChange { nothing, ..change }.redacted(redactor)
    }

    /// The removal of the file at `path`: its text, or a summary in a few rows.
    pub(crate) fn removed(path: impl Into<String>, text: Option<&str>, rows: &str) -> Self {
        let path = path.into();
        let hunks = match text {
            Some(text) => crate::unified::diff_hunks(text, "", None),
            None => rows.to_owned(),
        };
        let diff = format!("--- {path}\n+++ (deleted)\n{hunks}");
        FileChange::shown(path, diff)
    }

    /// A file at `from` that moves to `to`, or that a command runs.
    pub(crate) fn used(from: &str, to: &str, rows: &str) -> Self {
        let diff = format!("--- {from}\n+++ {to}\n{rows}");
        FileChange::shown(from.to_owned(), diff)
    }

    /// The files that a command runs and its line does not name.
    pub(crate) fn unnamed() -> Self {
        let rows = " (the line does not say which files it runs)\n";
        FileChange::used(UNNAMED, "(run by the command)", rows)
    }

    pub(crate) fn is_unnamed(&self) -> bool {
        self.path == UNNAMED
    }

    /// A change of the file at `path` that cannot be shown whole: its content is binary or too
    /// long.
    pub fn unseen(path: impl Into<String>) -> Self {
        let path = path.into();
        let diff = format!("--- {path}\n+++ {path}\n(no diff of this file can be shown)\n");
        FileChange {
            whole: false,
            ..FileChange::shown(path, diff)
        }
    }

    /// Adds the state of a file that the change is based on.
    pub fn based_on(mut self, path: &str, seen: ReviewedState) -> Self {
        self.seen.push((path.to_owned(), seen));
        self
    }

    /// `true` if both read alike, even if the files differ by now.
    pub(crate) fn reads_as(&self, other: &FileChange) -> bool {
        let FileChange {
            path,
            diff,
            whole,
            nothing,
            is_redacted: _,
            seen: _,
        } = self;
        (path, diff, *whole, *nothing) == (&other.path, &other.diff, other.whole, other.nothing)
    }

    sandbox_names::getters! {
        /// The files that were looked at for it.
        pub(crate) seen: &[(String, ReviewedState)] = &seen;
        /// Returns `true` if the file is as it would be already.
        pub(crate) is_nothing: bool = nothing;
        /// Returns `true` if the diff shows all of it.
        pub is_whole: bool = whole;
        /// The file.
        pub path: &str = &path;
        /// The change as a unified diff with three lines around each hunk. The text is not escaped: the
        /// caller escapes it for display.
        pub diff: &str = &diff;
    }

    /// Replaces each secret by its placeholder. The first redactor decides.
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        if !std::mem::replace(&mut self.is_redacted, true) {
            redactor.redact_in_place(&mut self.path);
            redactor.redact_in_place(&mut self.diff);
        }
        self
    }
}

/// The effect of a call on a file.
///
/// ```
/// assert_eq!(serde_json::json!(forge_tools::Effect::Created), "created");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its sandbox path.
    pub path: String,
    /// The effect on it.
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
