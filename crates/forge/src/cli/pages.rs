//! Options of the commands that print pages about forge itself.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge help exit-codes
  forge help errors
  forge help tools call")]
pub(crate) struct HelpArgs {
    /// A topic (exit-codes, errors, paths, approvals, security), or a command.
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge schema config > config.schema.json
  forge schema worker | jq '.properties | keys'

Draft 2020-12. A schema knows keys, types and words; what depends on directories,
other files or trust only `forge check` finds.")]
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
#[command(after_long_help = "\
Examples:
  forge completions bash > ~/.local/share/bash-completion/completions/forge
  forge completions zsh > ~/.zfunc/_forge
  forge completions fish > ~/.config/fish/completions/forge.fish

In bash, zsh and fish, workers, runs, mounts, tools and configuration keys of the project are
completed as well. Nothing is run for it, and a project that cannot be loaded or that you do not
trust has no names.")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge man ~/.local/share/man/man1

One page a command, forge.1 and forge-COMMAND.1. The directory is made if it is not there;
pages of these names in it are replaced.")]
pub(crate) struct ManArgs {
    /// Where the pages go.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
