//! Options of `forge doctor`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/doctor.txt"))]
pub(crate) struct DoctorArgs {
    /// Try to break each promise from inside, as a command of this project would.
    #[arg(long)]
    pub(crate) prove: bool,
    /// Say whether an MCP client can use this project, and what to look out for.
    #[arg(long, conflicts_with = "prove")]
    pub(crate) mcp: bool,
    /// Ask a model for a tool call, and say what came of it.
    #[arg(long, value_name = "PROVIDER:MODEL", num_args = 0..=1, conflicts_with_all = ["prove", "mcp"])]
    pub(crate) model: Option<Option<String>>,
    /// Run a container as calls of this project would, and say what is in the way.
    #[arg(long, conflicts_with_all = ["prove", "mcp", "model"])]
    pub(crate) docker: bool,
    /// Say whether the repositories of this project can be worked with, and what is in the way.
    #[arg(long, conflicts_with_all = ["prove", "mcp", "model", "docker"])]
    pub(crate) git: bool,
}
