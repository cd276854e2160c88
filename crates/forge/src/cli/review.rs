//! Options of `forge review`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/review.txt"))]
pub(crate) struct ReviewArgs {
    #[command(subcommand)]
    pub(crate) action: Option<ReviewAction>,
}

/// What to do with the changes.
#[derive(Debug, Subcommand)]
pub(crate) enum ReviewAction {
    /// The reviews of this project, the oldest first; the same as `forge review`.
    List,
    /// The changes of a run and their differences, deletions first.
    #[command(after_long_help = include_str!("help/review_show.txt"))]
    Show {
        /// The run (`last`, or left out: the newest), then paths: all changes at or below them.
        #[arg(value_name = "RUN|PATH", value_hint = clap::ValueHint::AnyPath)]
        words: Vec<OsString>,
    },
    /// Make changes of a run in the project: all of them, or at and below the given paths.
    #[command(after_long_help = include_str!("help/review_apply.txt"))]
    Apply(ApplyArgs),
    /// Throw the changes of a run away. The project stays as it is.
    Discard {
        /// The run, or `last`; may be left out if only one review is left.
        #[arg(value_name = "RUN")]
        run: Option<OsString>,
        /// All reviews of this project.
        #[arg(long, conflicts_with = "run")]
        all: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The run (`last`, or left out: the newest), then paths: all changes at or below them.
    #[arg(value_name = "RUN|PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) words: Vec<OsString>,
    /// Single hunks of a modified text file, by the numbers that `forge review show` prints: the line in
    /// the run's file, so a hunk keeps its number when others are applied.
    #[arg(long = "hunk", value_name = "PATH:N[,N]")]
    pub(crate) hunks: Vec<OsString>,
    /// A protected name that is applied too, with everything below it.
    #[arg(long, value_name = "PATH")]
    pub(crate) include_protected: Vec<OsString>,
}
