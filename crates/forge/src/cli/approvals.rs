//! Options for approvals and approvers.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/approve.txt"))]
pub(crate) struct ApproveArgs {
    /// The request, or how its ID begins.
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Yes, this call.
    #[arg(long, requires = "id", conflicts_with_all = ["run", "deny"])]
    pub(crate) allow: bool,
    /// Yes, and the same call again until its process ends.
    #[arg(long, requires = "id", conflicts_with = "deny")]
    pub(crate) run: bool,
    /// No.
    #[arg(long, requires = "id")]
    pub(crate) deny: bool,
    /// Why not; the model is told.
    #[arg(long, value_name = "TEXT", requires = "deny")]
    pub(crate) reason: Option<String>,
    /// Stay, and ask about each request as it comes.
    #[arg(long, conflicts_with = "id")]
    pub(crate) watch: bool,
}

/// How calls are approved; shared by `run` and `tools call`.
#[derive(Debug, Clone, Args, Default)]
#[command(next_help_heading = "Approval")]
pub(crate) struct ApprovalFlags {
    /// Answer every question with yes. Never lifts a block.
    #[arg(long, value_name = "WHAT")]
    pub(crate) approve: Option<ApproveAll>,
    /// Short for `--approve all`.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Who is asked instead of whoever sits at the terminal.
    #[arg(long, value_name = "WHO", conflicts_with_all = ["approve", "yes"])]
    pub(crate) approver: Option<ApproverName>,
    /// Let commands run without any OS sandbox, each one asked of a person.
    #[arg(long)]
    pub(crate) no_os_sandbox: bool,
    /// Let commands reach named hosts through the proxy of HTTPS_PROXY, ALL_PROXY or HTTP_PROXY,
    /// except those in NO_PROXY. It resolves their names, so private addresses behind them are not
    /// refused.
    #[arg(long, conflicts_with = "no_os_sandbox")]
    pub(crate) parent_proxy: bool,
}

/// What is approved without a question.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ApproveAll {
    /// Everything that may be allowed is allowed. Never lifts a block.
    All,
}

/// Who stands in for a terminal.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ApproverName {
    /// The program that started us, with prompts of its own.
    Host,
    /// Whoever runs `forge approve` in this project; a call waits for them.
    Queue,
}
