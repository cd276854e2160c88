//! What is to last goes into git repositories, with a person in between.
//!
//! Work of workers is ephemeral. A file that is to last is *staged* for a branch of a repository:
//! kept as it is now, outside every mount, with what it changes there. Nothing has left by then. A
//! person looks at the difference and *pushes* it, or *discards* it; or a file is *pulled* the
//! other way.
//!
//! * [`GitBackend`]: the six operations, as tools and commands see them. Assumes neither a path of
//!   the host nor that anything happens at once.
//! * [`GitService`]: all of them over a place that holds repositories ([`GitRepositories`]) and a place for
//!   what is staged ([`StagedStore`]). What may be staged, what a difference is, how local edits are
//!   merged and when a push is refused stands here once, for every such place.
//! * [`GitProgram`]: repositories of this machine, and those reached over https and ssh, by the git
//!   program, which `os-sandbox` confines. [`Credentials`] say who is asking.
//! * [`MemoryRepositories`]: repositories in memory.
//! * [`tools`]: pull, stage, look and discard for a model. A push is none of them.
//! * [`PushApproval`]: what a push needs. Only an answer of somebody who was shown the whole
//!   difference makes one.
#![expect(unexpected_cfgs, reason = "cargo-fuzz sets `fuzzing`")]

mod address;
mod backend;
mod collisions;
mod difference;
mod error;
#[cfg(fuzzing)]
pub mod fuzzed;
mod memory;
mod merge;
mod names;
mod program;
mod pull;
mod pulled;
mod push;
mod repo_path;
mod repositories;
mod secrets;
mod stage;
mod staged;
mod status;
mod store;
pub mod tools;

pub use address::{Repo, ServerOrigin};
pub use backend::{
    GitBackend, GitLimits, GitService, PullOutcome, PullRequest, Pulled, PulledFile, Pushed,
    StageRequest,
};
pub use error::{GitError, GitErrorKind, GitOperation};
pub use memory::MemoryRepositories;
pub use names::{Author, BranchName, ObjectId, StagedId};
pub use program::{Credential, Credentials, GitProgram};
pub use push::{OnDivergence, PushApproval, PushPreview};
pub use repo_path::RepoPath;
pub use repositories::{GitRepositories, NewCommit, NewFile, NewHead, TreeEntry, TreeKind};
pub use secrets::{AgreedSecrets, SecretPolicy};
pub use staged::{DamagedCommit, FileOperation, StagedCommit, StagedFile, StagedList};
pub use status::{FileState, Status, StatusFile};
pub use store::StagedStore;
