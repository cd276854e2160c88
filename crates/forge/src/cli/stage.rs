//! Options of `forge stage`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge stage
  forge stage show 18a2c4d0f3b1
  forge stage push 18a2c4d0f3b1

Workers put files aside for a branch of a repository; the repository is not touched until
a person pushes them. Each command takes the beginning of an ID, as long as no other one
begins so.")]
pub(crate) struct StageArgs {
    #[command(subcommand)]
    pub(crate) action: Option<StageAction>,
}

/// What to do with what is staged.
#[derive(Debug, Subcommand)]
pub(crate) enum StageAction {
    /// What is staged in this project, the oldest first; the same as `forge stage`.
    Status,
    /// All of a staged commit: where it would go, what it says, its files and what changes.
    Show {
        /// The commit; may be left out where there is one only.
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
    /// What a staged commit changes, and nothing else.
    #[command(after_long_help = "\
What is not seen in a terminal is shown as an escape. Programs take the diff of --json,
which is as it is.")]
    Diff {
        /// The commit; all of them if left out.
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
    /// Show a staged commit whole, ask, and make it the head of its branch.
    #[command(after_long_help = "\
Examples:
  forge stage push 18a2c4d0f3b1
  forge stage push 18a2c4d0f3b1 --rebase

The whole difference is shown, and the answer is to exactly that. Nothing but a person at
a terminal gives it: there is no --yes for a push, and no tool. A branch that has moved
since is refused, with what moved there; --rebase puts the commit on top of it if nobody
has changed the same files. Whatever goes wrong, the branch is as it was and the commit
stays staged.")]
    Push(PushArgs),
    /// Throw staged commits away.
    Discard {
        /// The commits.
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The commit; may be left out where there is one only.
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// If the branch has moved, put the commit on top of it.
    #[arg(long)]
    pub(crate) rebase: bool,
    /// Refused by name: who types it expects what there is not.
    #[arg(long, hide = true)]
    pub(crate) yes: bool,
}
