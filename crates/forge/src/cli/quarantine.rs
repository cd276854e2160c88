//! Options of `forge quarantine`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct QuarantineArgs {
    #[command(subcommand)]
    pub(crate) action: Option<QuarantineAction>,
}

/// What to do with what was taken.
#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineAction {
    /// Show what was moved to the quarantine, and when, as `forge quarantine` alone.
    #[command(after_long_help = "\
Examples:
  forge quarantine list
  forge quarantine list --json

Git and other programs obey some files: hooks, editor tasks, shell profiles. A command in
the sandbox may not create them. If it does, forge moves them to `.os-sandbox-quarantine`
in the same directory before the command's result is returned. The list has those of the
project, and those of the directories that presets share, such as `~/.claude`.")]
    List,
    /// Move files back to where the command created them.
    #[command(after_long_help = "\
Examples:
  forge quarantine list
  forge quarantine restore .vscode
  forge quarantine restore --all

Look at the files first: programs outside the sandbox obey them. Nothing is overwritten: if
one of the paths exists again, nothing is moved.")]
    Restore {
        /// Where the command created it, or where it is in the quarantine. A directory stands
        /// for everything that was taken from it.
        #[arg(value_name = "PATH", required_unless_present = "all", conflicts_with = "all",
              value_hint = clap::ValueHint::AnyPath)]
        paths: Vec<PathBuf>,
        /// Everything from directories of the project. Files from directories that presets share
        /// are named one by one.
        #[arg(long)]
        all: bool,
    },
    /// Remove files from the quarantine for good.
    #[command(after_long_help = "\
Examples:
  forge quarantine list
  forge quarantine discard .vscode
  forge quarantine discard --all --yes

At a terminal it shows what goes, and asks. Elsewhere nothing is removed without --yes.")]
    Discard {
        /// Where the command created it, or where it is in the quarantine. A directory stands
        /// for everything that was taken from it.
        #[arg(value_name = "PATH", required_unless_present = "all", conflicts_with = "all",
              value_hint = clap::ValueHint::AnyPath)]
        paths: Vec<PathBuf>,
        /// Everything from directories of the project. Files from directories that presets share
        /// are named one by one.
        #[arg(long)]
        all: bool,
        /// Remove it without a question.
        #[arg(long)]
        yes: bool,
    },
}
