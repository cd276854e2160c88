//! Changes that a run left in the upper layer of an overlay, or in a copy: listed, compared, applied
//! to the directory of the project, or discarded.
//!
//! - [`ReviewDir`] is the directory of one run's review, with a lock. `create` makes the layers or
//!   copies before the run, `record` lists the changes after it.
//! - [`RunReview`] is that list, with the class of each [`ReviewedChange`].
//! - [`OpenReview`] compares ([`FileDiff`]), applies a [`ChangeSelection`] and recovers from an
//!   interrupted apply.
//!
//! This crate knows the format of overlayfs' upper layers and directories as handles. It does not
//! know policies, tools, configuration, or how the overlay was mounted; the mount has to have the
//! option `userxattr`. Overlays exist on Linux only, and so does this crate.
//!
//! Commands chose all names and contents, so no link is followed anywhere, each limit that is met
//! is an error, and texts have to be escaped for a terminal.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod apply;
mod budget;
mod classify;
mod copy;
mod diff;
mod error;
mod foreign;
mod generated;
mod git_dirs;
mod git_index;
mod journal;
mod link_targets;
mod own_files;
mod path;
mod quarantine;
mod record;
mod review;
mod review_dir;
mod settle;
mod staging;
mod state;
mod tree;
mod usage;

pub use apply::{ApplyReport, ChangeSelection, ChosenChanges, MountedPath, OpenReview};
pub use budget::{LayerLimits, ReviewLimits};
pub use classify::{JudgeName, ProtectedName};
pub use diff::{DiffHunk, FileDiff};
pub use error::ReviewError;
pub use foreign::first_foreign;
pub use path::TreePath;
pub use review::{
    AppliedChange, ApplyRecord, ChangeClass, ChangeKind, CopiedTree, LeftOutPath, LeftOutReason,
    ReviewMount, ReviewStage, ReviewedChange, RunReview,
};
pub use review_dir::{NewMount, ReviewDir, RunInfo, open_host_dir};
pub use state::{LinkTarget, ObjectState, PathKind, TreeSum};
pub use usage::LayerUsage;
