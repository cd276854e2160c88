//! Options of `forge tools`.

use clap::{Args, Subcommand};

use crate::cli::ApprovalFlags;

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    pub(crate) action: Option<ToolsAction>,
}

/// What to do with the tools.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsAction {
    /// The tools that a worker sees, as `forge tools` alone.
    List {
        /// As this worker sees them.
        #[arg(long, value_name = "WORKER")]
        worker: Option<String>,
    },
    /// Call one, through the same checks and records as a model's call.
    #[command(after_long_help = include_str!("help/tools_call.txt"))]
    Call {
        /// The tool.
        #[arg(value_name = "NAME")]
        name: String,
        /// Its arguments: one JSON object, or NAME=VALUE for each.
        #[arg(value_name = "ARGUMENTS")]
        arguments: Vec<String>,
        /// On behalf of this worker.
        #[arg(long, value_name = "WORKER")]
        worker: Option<String>,
        /// The model of a worker that is called, as provider:model; `scripted:FILE` plays a playbook.
        #[arg(short, long, value_name = "MODEL")]
        model: Option<String>,
        #[command(flatten)]
        approval: ApprovalFlags,
    },
}
