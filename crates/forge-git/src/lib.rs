//! Staged commits: workers propose files for a git branch; a person reviews and pushes them.
//!
//! Work of workers is ephemeral. A file that is to last is *staged* for a branch of a repository:
//! copied in its present state, outside every mount, with its difference from the branch. Nothing
//! has left by then. A person looks at the difference and *pushes* it, or *discards* it; or a file
//! is *pulled* the other way.
//!
//! * [`GitBackend`]: the six operations, as tools and commands see them. Assumes neither a path of
//!   the host nor that anything happens at once.
//! * [`GitService`]: all of them over a backend of repositories ([`GitRepositories`]) and a store
//!   of staged commits ([`StagedStore`]). The rules for staging, differences, merges of local edits
//!   and refused pushes are here once, for every backend.
//! * [`GitProgram`]: repositories of this machine, and those reached over https and ssh, by the git
//!   program, which `os-sandbox` confines. [`Credentials`] authenticate it.
//! * [`NoRepositories`]: none, for the staged commits alone.
//! * [`tools`]: pull, stage, look and discard for a model. A push is none of them.
//! * [`PushApproval`]: required for a push. Only the answer of a person who was shown the whole
//!   difference makes one.
#![forbid(unsafe_code)]
#![expect(unexpected_cfgs, reason = "cargo-fuzz sets `fuzzing`")]

mod address;
mod backend;
mod collisions;
mod difference;
mod error;
#[cfg(fuzzing)]
pub mod fuzzed;
mod merge;
mod names;
mod program;
mod pull;
mod pull_index;
mod push;
mod repo_path;
mod repositories;
mod secrets;
mod service;
mod stage;
mod staged;
mod status;
mod store;
pub mod tools;

pub use address::{Repo, ServerOrigin};
pub use backend::GitBackend;
pub use error::{GitError, GitErrorKind, GitOperation};
pub use names::{Author, BranchName, ObjectId, StagedId};
pub use program::{Credential, Credentials, GitProgram};
pub use push::{OnDivergence, PushApproval, PushPreview};
pub use repo_path::RepoPath;
pub use repositories::{
    GitRepositories, NewCommit, NewFile, NewHead, NoRepositories, TreeEntry, TreeKind,
};
pub use secrets::{AgreedSecrets, SecretPolicy};
pub use service::{
    GitLimits, GitService, PullOutcome, PullReport, PullRequest, PulledFile, PushReport,
    StageRequest,
};
pub use staged::{DamagedCommit, FileOperation, StagedCommit, StagedFile, StagedList};
pub use status::{FileState, Status, StatusFile};
pub use store::StagedStore;
