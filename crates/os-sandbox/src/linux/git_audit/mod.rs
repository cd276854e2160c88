//! Repositories in mounts: which directories git takes for one, which of their files git executes or
//! obeys, and which of those a command may leave behind.

pub(super) mod bare;
pub(super) mod fresh;
pub(super) mod pointer;
pub(super) mod repository;
pub(super) mod worktree;
