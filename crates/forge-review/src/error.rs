//! Errors of reviews.

use std::fmt::Display;
use std::io;

use rustix::io::Errno;

use crate::path::TreePath;

/// A failed operation on a review. Texts contain names that a command chose: escape them for a
/// terminal.
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// let error = forge_review::ReviewError::Busy;
/// assert_eq!(error.to_string(), "another forge process uses this review");
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// An operation of the file system failed.
    #[error("cannot {operation} `{path}`: {source}")]
    Io {
        /// The operation, as an infinitive.
        operation: &'static str,
        /// The object of the operation, relative to its mount or to the review's directory.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// A limit was met. Nothing was changed, and no list was written.
    #[error("the review has more than {limit} {unit}{}", place(path))]
    Limit {
        /// The limit.
        limit: u64,
        /// The unit that it counts: such as `files`, `bytes` or `nested directories`.
        unit: &'static str,
        /// The path at which it was met.
        path: String,
    },
    /// The reviews that wait for a person leave no room for another one.
    #[error("the reviews that wait hold {limit} {unit} together, the largest of them `{largest}`")]
    Full {
        /// The limit on all of them.
        limit: u64,
        /// The unit that it counts, `files` or `bytes`.
        unit: &'static str,
        /// The run with the most of it.
        largest: String,
    },
    /// Chosen paths changed in the project since the run started. Nothing was changed.
    #[error("{} chosen paths changed in the project since the run started, `{}` among them", .0.len(), .0.first().map(ToString::to_string).unwrap_or_default())]
    ChangedBelow(Vec<TreePath>),
    /// Another program replaced or changed an object that was prepared for a path.
    #[error("another program changed what was prepared for `{0}`")]
    PreparedChanged(TreePath),
    /// A path or hunk that the review does not have, or that cannot be chosen in this way.
    #[error("{path}: {reason}")]
    Selection {
        /// The path.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The layer or the directory of the review has an object that this version cannot interpret.
    #[error("unsupported layer: `{path}` {reason}")]
    Unsupported {
        /// The path.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// `review.json` or the journal cannot be read.
    #[error("invalid {file} of the review: {reason}")]
    Damaged {
        /// The file.
        file: &'static str,
        /// The reason.
        reason: String,
    },
    /// Another process holds the lock.
    #[error("another forge process uses this review")]
    Busy,
    /// The directory of a mount is missing or is another one than at the start of the run.
    #[error("the directory of mount `{0}` is missing or was replaced")]
    LowerGone(String),
    /// An apply failed half-way. Each listed path has its new state; all others have the old one.
    #[error("{cause}; {} paths could not be restored and have their new content", .kept.len())]
    PartlyApplied {
        /// The failure.
        cause: Box<ReviewError>,
        /// The paths that are new.
        kept: Vec<TreePath>,
    },
}

impl ReviewError {
    pub(crate) fn damaged(file: &'static str, reason: impl Display) -> ReviewError {
        let reason = reason.to_string();
        ReviewError::Damaged { file, reason }
    }

    pub(crate) fn selection(path: impl Display, reason: impl Display) -> ReviewError {
        let (path, reason) = (path.to_string(), reason.to_string());
        ReviewError::Selection { path, reason }
    }
}

fn place(path: &str) -> String {
    match path {
        "" => String::new(),
        path => format!(" (at `{path}`)"),
    }
}

/// Returns a conversion of system errors.
pub(crate) fn failed<'a>(
    operation: &'static str,
    path: &'a TreePath,
) -> impl FnOnce(Errno) -> ReviewError + 'a {
    move |error| ReviewError::Io {
        operation,
        path: path.to_string(),
        source: error.into(),
    }
}

/// Like [`failed`], for a file of the review's directory.
pub(crate) fn failed_own(
    operation: &'static str,
    path: &'static str,
) -> impl FnOnce(Errno) -> ReviewError {
    move |error| ReviewError::Io {
        operation,
        path: path.to_owned(),
        source: error.into(),
    }
}
