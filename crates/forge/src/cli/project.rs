//! Options of the commands about a project's files.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::{ApprovalFlags, CommandRights};

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/init.txt"))]
pub(crate) struct InitArgs {
    /// The project's directory; the working directory if left out.
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// One directory to work in, and no commands.
    #[arg(long, conflicts_with = "zones")]
    pub(crate) minimal: bool,
    /// These directories: NAME:PATH or NAME:PATH:MODE, with ro or rw.
    #[arg(long, value_name = "ZONE", value_delimiter = ',')]
    pub(crate) zones: Vec<String>,
    /// Write what is proposed, without asking; `--minimal` and `--zones` never ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/check.txt"))]
pub(crate) struct CheckArgs {
    /// Report what is found in these files only; the whole project is looked at anyway.
    #[arg(value_name = "FILES")]
    pub(crate) files: Vec<PathBuf>,
    /// How findings are written; `--json` is short for json.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<CheckFormat>,
}

/// The formats of `forge check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// For people.
    Text,
    /// One object: mounts, workers, tree, findings.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// Workflow commands that annotate a pull request.
    Github,
}

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true).args(["subject", "command", "from_run"]),
    after_long_help = include_str!("help/explain.txt")
)]
pub(crate) struct ExplainArgs {
    /// A sandbox path, a host (`host:NAME[:PORT]`, or a name with a dot or a port), a repository
    /// (`repo:NAME`), a tool, or a worker that would be called.
    #[arg(value_name = "SUBJECT")]
    pub(crate) subject: Option<String>,
    /// For this worker, started by a person; without it for the entry worker.
    #[arg(long, value_name = "WORKER", conflicts_with_all = ["chain", "presets"])]
    pub(crate) worker: Option<String>,
    /// For the last of these workers, each called by the one before it.
    #[arg(long = "as", value_name = "A>B>C", conflicts_with_all = ["read_only", "presets", "hosts"])]
    pub(crate) chain: Option<String>,
    #[command(flatten)]
    pub(crate) rights: CommandRights,
    /// Whether the path may be written (else: read), or the repository staged for (else: pulled from).
    #[arg(long, conflicts_with_all = ["delete", "command"])]
    pub(crate) write: bool,
    /// Whether the path may be deleted.
    #[arg(long, conflicts_with = "command")]
    pub(crate) delete: bool,
    /// The refusals of a recorded run, and the smallest grants that would let them pass: `last`, or
    /// the beginning of its id.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["worker", "chain", "write", "delete", "read_only", "presets", "hosts"])]
    pub(crate) from_run: Option<String>,
    /// A command and its arguments, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) action: Option<ConfigAction>,
}

/// What to show of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Everything that holds, as a project file that means the same, as `forge config` alone.
    #[command(after_long_help = include_str!("help/show.txt"))]
    Show {
        /// With the layer, file, line and column of each value.
        #[arg(long)]
        origin: bool,
    },
    /// The files that are read.
    Path,
    /// The value of one key, or a whole section.
    #[command(after_long_help = include_str!("help/get.txt"))]
    Get {
        /// A dotted key: sandbox.mode
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Names the files to edit, as an error.
    #[command(hide = true, aliases = ["edit", "unset"])]
    Set {
        /// The key and its value.
        #[arg(value_name = "WORD", num_args = 0.., allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[command(subcommand)]
    pub(crate) action: Option<WorkerAction>,
}

/// What to do with the workers.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerAction {
    /// Every worker, and what it holds when a person starts it, as `forge worker` alone.
    #[command(after_long_help = "Examples:\n  forge worker list\n  forge worker list --json")]
    List,
    /// One worker: what it holds and why, its tools, whom it calls.
    #[command(
        after_long_help = "Examples:\n  forge worker show main\n  forge worker show main --tree"
    )]
    Show {
        /// The worker.
        #[arg(value_name = "NAME")]
        name: String,
        /// Everybody whom it comes to call, too.
        #[arg(long)]
        tree: bool,
    },
    /// Write a worker file that asks for nothing yet, and print its path.
    #[command(after_long_help = include_str!("help/new.txt"))]
    New {
        /// Its name: lower-case letters, digits, `_` and `-`, a letter first.
        #[arg(value_name = "NAME")]
        name: String,
        /// What it is for; what its callers are told.
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
}

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/trust.txt"))]
pub(crate) struct TrustArgs {
    /// Show the keys and change nothing.
    #[arg(long, conflicts_with_all = ["revoke", "yes"])]
    pub(crate) show: bool,
    /// Take the agreement back.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) revoke: bool,
    /// Agree without being asked.
    #[arg(long)]
    pub(crate) yes: bool,
}

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

#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help/allow.txt"))]
pub(crate) struct AllowArgs {
    /// The commands, as in `shell.rules` of a project file, hosts, as `host:NAME`, and directories, as
    /// `read:PATH`, `write:PATH` or `programs:PATH`.
    #[arg(value_name = "RULE", required_unless_present_any = ["list", "remove", "last"])]
    pub(crate) rules: Vec<String>,
    /// Choose among the hosts, directories and programs that the last run of this project was refused.
    #[arg(long, conflicts_with_all = ["rules", "list", "remove"])]
    pub(crate) last: bool,
    /// List your rules for this project, and where they stand.
    #[arg(long, conflicts_with_all = ["rules", "remove", "yes"])]
    pub(crate) list: bool,
    /// Take a rule back.
    #[arg(long, value_name = "RULE", conflicts_with = "rules")]
    pub(crate) remove: Option<String>,
    /// Write without being asked.
    #[arg(long)]
    pub(crate) yes: bool,
}
