//! `forge node`: not for people.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    pub(crate) action: NodeAction,
}

/// What a node does.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeAction {
    /// Do the work of another forge's calls where this process is, until its input ends.
    Serve(ServeNode),
}

#[derive(Debug, Args)]
pub(crate) struct ServeNode {
    /// Speak over standard input and output.
    #[arg(long, required = true)]
    pub(crate) stdio: bool,
}
