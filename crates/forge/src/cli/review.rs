//! Options of `forge review`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge exec --review make
  forge run --review 'fix the failing test'
  forge review show
  forge review apply

A run with --review writes into a layer or a copy of its own: the project is not touched until a
person applies the changes.")]
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
    #[command(after_long_help = "\
Examples:
  forge review show
  forge review show src/main.rs

Hunks are numbered for `forge review apply --hunk`. Invisible characters are shown as escapes;
programs take --json.")]
    Show {
        /// The run (`last`, or left out: the newest), then paths: all changes at or below them.
        #[arg(value_name = "RUN|PATH", value_hint = clap::ValueHint::AnyPath)]
        words: Vec<OsString>,
    },
    /// Make changes of a run in the project: all of them, or at and below the given paths.
    #[command(after_long_help = "\
Examples:
  forge review apply
  forge review apply src docs/guide.md
  forge review apply --hunk src/main.rs:1,3
  forge review apply --include-protected .vscode

Everything that is chosen is applied, or nothing: if one of the paths changed in the project
since the run started, all is refused. What is left can be applied later. Protected names (git
hooks, editor settings, keys) are applied only if --include-protected names them: programs
outside the sandbox obey them.")]
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
