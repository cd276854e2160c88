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
    /// Run the calls of another forge process in this one, until its input ends.
    Serve(ServeNode),
}

#[derive(Debug, Args)]
pub(crate) struct ServeNode {
    /// Speak over standard input and output.
    #[arg(long, required = true)]
    pub(crate) stdio: bool,
}
