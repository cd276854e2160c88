//! The list of changes of one run, as it is kept in `review.json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::path::TreePath;
use crate::state::{FileTime, ObjectState};

/// The version of `review.json` and of the journal.
pub(crate) const VERSION: u32 = 1;

/// A run whose changes wait for a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReview {
    pub(crate) version: u32,
    /// The identification of the run, as it was given.
    pub run: String,
    /// The project's directory on the host.
    #[serde(with = "crate::path::path_as_json")]
    pub project: PathBuf,
    /// The command, for people.
    pub command: Vec<String>,
    /// Milliseconds since 1970, when the run was started.
    pub at_ms: u64,
    /// Objects of the project that changed after this time have changed below the run.
    pub(crate) started: FileTime,
    /// The progress.
    pub stage: ReviewStage,
    /// The mounts, in the order in which they were given.
    pub mounts: Vec<ReviewMount>,
    /// All applies until now, the oldest first.
    #[serde(default)]
    pub applied: Vec<ApplyRecord>,
}

impl RunReview {
    /// Returns all changes that are left, with the index of their mount.
    pub fn changes(&self) -> impl Iterator<Item = (usize, &ReviewedChange)> {
        let mounts = self.mounts.iter().enumerate();
        mounts.flat_map(|(index, mount)| mount.changes.iter().map(move |change| (index, change)))
    }
}

/// The progress of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewStage {
    /// The run has not ended, or ended without a list of its changes.
    Running,
    /// The changes are listed.
    Recorded,
}

/// One directory that a run saw through an overlay or as a copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReviewMount {
    /// The name of the mount, and of its directory in the review.
    pub name: String,
    /// The directory on the host, below which changes are applied.
    #[serde(with = "crate::path::path_as_json")]
    pub host: PathBuf,
    /// Its identity at the start of the run.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// The run's copy of the directory at its start; `None` for an overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<CopiedTree>,
    /// Patterns of protected names, for [`JudgeName`](crate::JudgeName).
    pub protected: Vec<String>,
    /// Directories of the copy with the names that a scan moved to the quarantine. They are never
    /// applied, and stay in the copy until the review is discarded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<TreePath>,
    /// Changes that are neither applied nor discarded, in the order of their paths.
    pub changes: Vec<ReviewedChange>,
}

/// The size of a copy, and its gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedTree {
    /// Objects below the directory.
    pub objects: u64,
    /// Bytes of files, without holes.
    pub bytes: u64,
    /// Number of objects that are not in the copy. The run does not see them, and its review does not
    /// list them.
    #[serde(default)]
    pub left_out: u64,
    /// The first of them.
    #[serde(default)]
    pub left_out_paths: Vec<LeftOutPath>,
}

/// An object that is not in a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutPath {
    /// The path below the mount.
    pub path: TreePath,
    /// The reason.
    pub reason: LeftOutReason,
}

/// Why an object is not in a copy.
///
/// ```
/// # #[cfg(target_os = "linux")]
/// assert_eq!(serde_json::json!(forge_review::LeftOutReason::Special), "special");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOutReason {
    /// It is a pipe, a socket or a device.
    Special,
    /// Something else is mounted there.
    Mounted,
    /// This user may not read it.
    Unreadable,
    /// It is the directory with the reviews themselves.
    Reviews,
}

/// The difference of one path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReviewedChange {
    /// The path below the mount.
    pub path: TreePath,
    /// The kind of difference.
    pub kind: ChangeKind,
    /// How it is listed, and whether it has to be named to be applied.
    pub class: ChangeClass,
    /// The state in the project when the list was made; an apply needs exactly this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ObjectState>,
    /// The state after the run; `None` for a deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ObjectState>,
    /// `true` if the project's object changed between the start of the run and the list, so that
    /// nobody knows the state that the run saw.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed_below: bool,
}

impl ReviewedChange {
    /// Returns `true` for a deletion and for everything that replaces a directory, or a file by
    /// another kind of object.
    pub fn removes(&self) -> bool {
        match self.kind {
            ChangeKind::Deleted | ChangeKind::Replaced | ChangeKind::TypeChanged => true,
            ChangeKind::Added | ChangeKind::Modified | ChangeKind::Metadata => false,
        }
    }

    /// Returns `true` if an apply can make the new state.
    pub fn is_applicable(&self) -> bool {
        let after = self.after.as_ref();
        after.is_none_or(|after| after.kind.is_applicable())
    }
}

/// The kind of difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It did not exist before.
    Added,
    /// A file has another content, or a link another target.
    Modified,
    /// Only mode or attributes differ.
    Metadata,
    /// It is deleted; a directory with everything below it.
    Deleted,
    /// A directory was removed and made again. Its differences are listed on their own; this entry
    /// is the directory's mode and attributes.
    Replaced,
    /// It is another kind of object, such as a link in place of a file.
    TypeChanged,
}

/// How a change is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "name")]
pub enum ChangeClass {
    /// A protected name, which is only applied if a person names it.
    Protected {
        /// The name or pattern that covers it.
        pattern: String,
    },
    /// A file that another program executes or obeys.
    Trigger {
        /// The program and the event.
        why: String,
    },
    /// An object in a directory of dependencies or build output in which git tracks nothing.
    Generated {
        /// That directory.
        below: TreePath,
    },
    /// Everything else.
    Ordinary,
}

/// A finished apply.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApplyRecord {
    /// A random name.
    pub id: String,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The person.
    pub by: String,
    /// The paths that have their new state.
    pub changes: Vec<AppliedChange>,
    /// Properties that the apply did not keep, such as set-id bits, each with its path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A path that an apply changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AppliedChange {
    /// The name of the mount.
    pub mount: String,
    /// The path below it.
    pub path: TreePath,
    /// The kind of difference.
    pub kind: ChangeKind,
    /// The state before, with the hash of its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ObjectState>,
    /// The state after, with the hash of its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ObjectState>,
}
