//! Options of `forge preset`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/preset.txt"))]
pub(crate) struct PresetArgs {
    #[command(subcommand)]
    pub(crate) action: Option<PresetAction>,
}

/// An action on presets.
#[derive(Debug, Subcommand)]
pub(crate) enum PresetAction {
    /// The presets, and the programs that they are for, as `forge preset` alone.
    List,
    /// The text of a preset.
    Show {
        /// Its name.
        name: String,
        /// Everything that it gives, the presets that it includes counted.
        #[arg(long)]
        expanded: bool,
    },
    /// Look for mistakes in a preset: all of them at once.
    Check {
        /// A file, or the name of a preset.
        #[arg(value_name = "FILE|NAME", value_hint = clap::ValueHint::FilePath)]
        what: PathBuf,
    },
    /// Make a preset of your own from another one.
    Copy {
        /// The name of the other one.
        name: String,
        /// The name of yours.
        new: String,
    },
    /// The home directories that forge keeps for commands with presets.
    Home(PresetHomeArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/preset_home.txt"))]
pub(crate) struct PresetHomeArgs {
    #[command(subcommand)]
    pub(crate) action: Option<PresetHomeAction>,
}

/// An action on kept home directories.
#[derive(Debug, Subcommand)]
pub(crate) enum PresetHomeAction {
    /// The home directories with their size and age, as `forge preset home` alone.
    List,
    /// Remove home directories with everything in them. One that a command uses stays.
    Remove {
        /// The directory of a project, or the name of a home directory.
        #[arg(value_name = "PROJECT", required_unless_present = "all", value_hint = clap::ValueHint::DirPath)]
        projects: Vec<PathBuf>,
        /// All of them.
        #[arg(long, conflicts_with = "projects")]
        all: bool,
    },
}
