//! Options of `forge stage`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/stage.txt"))]
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
    #[command(after_long_help = include_str!("help/stage_diff.txt"))]
    Diff {
        /// The commit; all of them if left out.
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
    /// Show a staged commit whole, ask, and make it the head of its branch.
    #[command(after_long_help = include_str!("help/stage_push.txt"))]
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
