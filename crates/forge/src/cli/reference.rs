//! Options of the commands that print pages about forge itself.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/help.txt"))]
pub(crate) struct HelpArgs {
    /// A topic (exit-codes, errors, paths, approvals, security), or a command.
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/schema.txt"))]
pub(crate) struct SchemaArgs {
    /// Whose schema.
    #[arg(value_name = "FILE")]
    pub(crate) of: SchemaKind,
}

/// A kind of file that has a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SchemaKind {
    /// One line of an audit log.
    Audit,
    /// The project file, forge.yaml.
    Config,
    /// One line of `forge run --output stream-json`.
    Events,
    /// A playbook, the file behind `scripted:FILE`.
    Playbook,
    /// A preset of `forge exec`.
    Preset,
    /// One line of the transcript of a run.
    Transcript,
    /// The front matter of *.worker files.
    Worker,
}

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/completions.txt"))]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/man.txt"))]
pub(crate) struct ManArgs {
    /// Where the pages go.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
