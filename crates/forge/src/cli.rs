//! Arguments. What they mean is in the commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit;

/// Tools for AI workers, fenced.
#[derive(Debug, Parser)]
#[command(
    name = "forge",
    version,
    after_long_help = exit::TABLE,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Start here instead of in the working directory.
    #[arg(short = 'C', value_name = "DIR", global = true)]
    pub(crate) directory: Option<PathBuf>,
    /// Read this project file instead of looking for one.
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "no_config")]
    pub(crate) config: Option<PathBuf>,
    /// Read no project file, even if there is one.
    #[arg(long, global = true)]
    pub(crate) no_config: bool,
    /// Set one configuration key for this run.
    #[arg(short = 'c', value_name = "KEY=VALUE", global = true)]
    pub(crate) set: Vec<String>,
    /// Accept the project's widening keys for this run.
    #[arg(long, global = true)]
    pub(crate) trust: bool,
    /// Never ask anything.
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
    /// Print one JSON object instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no progress and no warnings.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check the project file and every worker; run nothing.
    Check(Check),
    /// Say what this machine can enforce, and how to get what is missing.
    Doctor(Doctor),
    /// Run one command, confined as the project says.
    Exec(Exec),
    /// Write a first project file and a first worker.
    Init(Init),
    /// Serve the tools to any MCP client, on standard input and output.
    Mcp(Mcp),
    /// Run a worker, and the workers that it calls.
    Run(Run),
    /// Print the JSON Schema of project or worker files.
    Schema(Schema),
    /// List or call the tools, as a worker sees them.
    Tools(Tools),
    /// Agree to the keys of this project that widen what its workers may do.
    Trust(Trust),
}

/// `forge check`
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  forge check\n  forge -C examples/dep-audit check --trust"
)]
pub(crate) struct Check {}

/// `forge doctor`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge doctor
  forge doctor --prove
  forge doctor --json

With --prove the exit code is 0 if everything held, and 6 if something got through
or nothing could be proved.")]
pub(crate) struct Doctor {
    /// Try to break each promise from inside, as a command of this project would.
    #[arg(long)]
    pub(crate) prove: bool,
}

/// A mechanism that `exec` can be told to use.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum MechanismName {
    /// Namespaces by bubblewrap, Landlock and seccomp inside.
    Bubblewrap,
    /// Landlock and seccomp.
    Landlock,
}

/// `forge exec`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge exec -- make test
  forge exec --read-only -- grep -rn TODO .
  forge exec --receipt receipt.json -- ./build.sh

Without a project file the working directory is all that the command may change.
The exit code is the command's own; 124 to 127 as env and docker use them.")]
pub(crate) struct Exec {
    /// Run under what this worker holds instead of what the project holds.
    #[arg(long, value_name = "WORKER")]
    pub(crate) worker: Option<String>,
    /// Nothing may be written.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Use this mechanism, or fail.
    #[arg(long, value_name = "NAME")]
    pub(crate) mechanism: Option<MechanismName>,
    /// End the command, and everything it started, after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,
    /// Write what was really enforced to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) receipt: Option<PathBuf>,
    /// Run without any OS sandbox: the command can do whatever you can.
    #[arg(long, conflicts_with = "mechanism")]
    pub(crate) no_os_sandbox: bool,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Who answers what has to be asked.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Approve {
    /// Everything that may be allowed is allowed. Never lifts a block.
    All,
}

/// How calls are approved; shared by `run` and `tools call`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Approval")]
pub(crate) struct Approval {
    /// Answer every question with yes. Never lifts a block.
    #[arg(long, value_name = "WHAT")]
    pub(crate) approve: Option<Approve>,
    /// Short for `--approve all`.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Let commands run without any OS sandbox, each one asked of a person.
    #[arg(long)]
    pub(crate) no_os_sandbox: bool,
}

/// `forge init`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge init
  forge init --yes my-project
  forge init --zones data:./data:ro,reports:./reports

On a terminal the proposal is shown and asked about. Nothing is overwritten.")]
pub(crate) struct Init {
    /// The project's directory; the working directory if left out.
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// One directory to work in, and no commands.
    #[arg(long, conflicts_with = "zones")]
    pub(crate) minimal: bool,
    /// These directories: NAME:PATH or NAME:PATH:MODE, with ro or rw.
    #[arg(long, value_name = "ZONE", value_delimiter = ',')]
    pub(crate) zones: Vec<String>,
    /// Write what is proposed, without asking.
    #[arg(long, conflicts_with_all = ["minimal", "zones"])]
    pub(crate) yes: bool,
}

/// `forge mcp`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge mcp
  forge -C ~/project mcp --worker reader

A project file that does not validate still starts the server; every call then
answers with the mistake.")]
pub(crate) struct Mcp {
    /// Serve what this worker holds instead of what the entry worker holds.
    #[arg(long, value_name = "WORKER")]
    pub(crate) worker: Option<String>,
    /// The host program asks before every call, so questions are answered with yes.
    #[arg(long, value_name = "WHO")]
    pub(crate) approver: Option<ApproverName>,
}

/// Who stands in for a terminal.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ApproverName {
    /// The program that started us, with prompts of its own.
    Host,
}

/// `forge run`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge run
  forge run reviewer 'look at the last change'
  forge run --trust examples/dep-audit

WORKER is a name; a directory runs the entry worker of the project in it.")]
pub(crate) struct Run {
    /// A worker's name, or a project's directory.
    #[arg(value_name = "WORKER")]
    pub(crate) worker: Option<String>,
    /// What the worker is to do.
    #[arg(value_name = "INPUT")]
    pub(crate) input: Vec<String>,
    /// The model, as provider:model; `scripted:FILE` plays a playbook.
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) approval: Approval,
}

/// A kind of file that has a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SchemaOf {
    /// golem-forge.config.yaml
    Config,
    /// The front matter of *.worker files.
    Worker,
}

/// `forge schema`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge schema config > .forge/config.schema.json
  forge schema worker | jq '.properties | keys'

Draft 2020-12. A schema knows keys, types and words; what depends on directories,
other files or trust only `forge check` finds.")]
pub(crate) struct Schema {
    /// Whose schema.
    #[arg(value_name = "FILE")]
    pub(crate) of: SchemaOf,
}

/// `forge tools`
#[derive(Debug, Args)]
pub(crate) struct Tools {
    #[command(subcommand)]
    pub(crate) action: ToolsAction,
}

/// What to do with the tools.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsAction {
    /// The tools that a worker sees.
    List {
        /// As this worker sees them.
        #[arg(long, value_name = "WORKER")]
        worker: Option<String>,
    },
    /// Call one, through the same checks and records as a model's call.
    #[command(after_long_help = "\
Examples:
  forge tools call list_files '{\"path\": \"/\"}'
  forge tools call read_file '{\"path\": \"/workspace/a.md\"}' --json")]
    Call {
        /// The tool.
        #[arg(value_name = "NAME")]
        name: String,
        /// Its arguments, as one JSON object.
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
        /// On behalf of this worker.
        #[arg(long, value_name = "WORKER")]
        worker: Option<String>,
        #[command(flatten)]
        approval: Approval,
    },
}

/// `forge trust`
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  forge trust --show
  forge trust

What is agreed to is bound to exactly the keys and values shown; if one changes, forge
asks again. It is kept in the state directory, outside the project.")]
pub(crate) struct Trust {
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
