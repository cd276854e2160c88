//! Options of `forge clean`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/clean.txt"))]
pub(crate) struct CleanArgs {
    /// Count, and remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The directory that is meant, where `sandbox.root` is not `.sandbox`.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) root: Option<PathBuf>,
}
