//! What `forge stage` takes.

use clap::{Args, Subcommand};

/// `forge stage`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge stage
  forge stage show 18a2c4d0f3b1
  forge stage push 18a2c4d0f3b1

Workers put files aside for a branch of a repository; the repository is not touched until
a person pushes them. Each command takes the beginning of an ID, as far as no other one
begins so.")]
pub(crate) struct Stage {
    #[command(subcommand)]
    pub(crate) action: Option<StageAction>,
}

/// What to do with what is staged.
#[derive(Debug, Subcommand)]
pub(crate) enum StageAction {
    /// What is staged in this project, the oldest first; the same as `forge stage`.
    Status,
}
