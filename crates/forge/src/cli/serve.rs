//! Options of `forge mcp` and `forge node`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::ApproverName;
use crate::commands::serve::http_endpoint::HttpEndpoint;
use crate::install::{McpClient, Scope};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = include_str!("help/mcp.txt")
)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) action: Option<McpAction>,
    /// Serve what this worker holds instead of what the entry worker holds.
    #[arg(long, value_name = "WORKER")]
    pub(crate) worker: Option<String>,
    /// Who answers, where the client cannot ask its user.
    #[arg(long, value_name = "WHO")]
    pub(crate) approver: Option<ApproverName>,
    /// Serve over HTTP: on an address of this machine, to whoever has the token, or on a
    /// Unix socket (unix:PATH) that no command sees, to this user.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<HttpEndpoint>,
    /// Let commands reach named hosts through the proxy of HTTPS_PROXY, ALL_PROXY or HTTP_PROXY,
    /// except those in NO_PROXY. It resolves their names, so private addresses behind them are not
    /// refused.
    #[arg(long)]
    pub(crate) parent_proxy: bool,
}

/// What to do beside serving.
#[derive(Debug, Subcommand)]
pub(crate) enum McpAction {
    /// Print, or with --write put into its settings, what a client needs to start this server.
    Install(InstallArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/mcp_install.txt"))]
pub(crate) struct InstallArgs {
    /// The client.
    #[arg(value_name = "CLIENT")]
    pub(crate) client: McpClient,
    /// Put it into the client's settings.
    #[arg(long)]
    pub(crate) write: bool,
    /// Whose settings; which is usual differs by client.
    #[arg(long, value_name = "SCOPE", conflicts_with = "file")]
    pub(crate) scope: Option<Scope>,
    /// These settings instead of where the client keeps them by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// What the client calls the server.
    #[arg(long, value_name = "NAME", default_value = "forge")]
    pub(crate) name: String,
    /// Put it in the place of another server of that name.
    #[arg(long, requires = "write")]
    pub(crate) replace: bool,
    /// Serve what this worker holds instead of what the entry worker holds.
    #[arg(long, value_name = "WORKER")]
    pub(crate) worker: Option<String>,
    /// Who answers, where the client cannot ask its user.
    #[arg(long, value_name = "WHO")]
    pub(crate) approver: Option<ApproverName>,
}

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
