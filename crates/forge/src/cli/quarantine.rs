//! Options of `forge quarantine`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct QuarantineArgs {
    #[command(subcommand)]
    pub(crate) action: Option<QuarantineAction>,
}

/// Actions on quarantined files.
#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineAction {
    /// Show what was moved to the quarantine, and when, as `forge quarantine` alone.
    #[command(after_long_help = include_str!("help/quarantine_list.txt"))]
    List,
    /// Move files back to where the command created them.
    #[command(after_long_help = include_str!("help/quarantine_restore.txt"))]
    Restore {
        /// Original path of the file, or its path in the quarantine. A directory selects every file
        /// that was taken from it.
        #[arg(value_name = "PATH", required_unless_present = "all", conflicts_with = "all",
              value_hint = clap::ValueHint::AnyPath)]
        paths: Vec<PathBuf>,
        /// Everything from directories of the project. Files from directories that presets share
        /// are named one by one.
        #[arg(long)]
        all: bool,
    },
    /// Remove files from the quarantine for good.
    #[command(after_long_help = include_str!("help/quarantine_discard.txt"))]
    Discard {
        /// Original path of the file, or its path in the quarantine. A directory selects every file
        /// that was taken from it.
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
