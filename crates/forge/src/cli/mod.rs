//! The command line. The commands define its meaning.

mod approvals;
mod clean;
mod doctor;
mod exec;
mod image;
mod log;
mod preset;
mod project;
mod quarantine;
mod reference;
mod review;
mod run;
mod serve;
mod stage;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::exit::{self, CliError};
use crate::output::escape::escape;

pub(crate) use approvals::{ApprovalFlags, ApproveAll, ApproveArgs, ApproverName};
pub(crate) use clean::CleanArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use exec::{
    CommandRights, ExecArgs, MechanismName, ReviewLayer, RunnerName, TraceReport,
};
pub(crate) use image::{BuildArgs, ImageAction, ImageArgs};
pub(crate) use log::{LogAction, LogArgs, LogFormat, Selection};
pub(crate) use preset::{PresetAction, PresetArgs, PresetHomeAction, PresetHomeArgs};
pub(crate) use project::{
    AllowArgs, CheckArgs, CheckFormat, ConfigAction, ConfigArgs, ExplainArgs, InitArgs,
    ToolsAction, ToolsArgs, TrustArgs, WorkerAction, WorkerArgs,
};
pub(crate) use quarantine::{QuarantineAction, QuarantineArgs};
pub(crate) use reference::{CompletionsArgs, HelpArgs, ManArgs, SchemaArgs, SchemaKind};
pub(crate) use review::ReviewArgs;
#[cfg(target_os = "linux")]
pub(crate) use review::{ApplyArgs, ReviewAction};
pub(crate) use run::{FailOn, LimitFlags, RunArgs};
pub(crate) use serve::{InstallArgs, McpAction, McpArgs, NodeAction, NodeArgs};
pub(crate) use stage::{PushArgs, StageAction, StageArgs};

/// Run commands and AI agents in a sandbox.
#[derive(Debug, Parser)]
#[command(
    name = "forge",
    version,
    after_long_help = exit::TABLE,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: ForgeCommand,
}

impl Cli {
    /// Parses the arguments of this process.
    pub(crate) fn from_process() -> Result<Self, clap::Error> {
        Cli::of(std::env::args_os().collect())
    }

    fn of(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        Cli::try_parse_from(&arguments)
            .map_err(|error| match error.kind() {
                // Why: building the help of every command takes time, so only `--help` does it.
                ErrorKind::DisplayHelp => with_readable_help(
                    Cli::whole_command(),
                    arguments.iter().any(|word| word == "--help"),
                )
                .try_get_matches_from(&arguments)
                .err()
                .unwrap_or(error),
                ErrorKind::InvalidSubcommand => with_similar_command(error),
                // It would show the arguments that exclude each other.
                ErrorKind::ArgumentConflict => {
                    let mut error = error;
                    error.remove(ContextKind::Usage);
                    error
                }
                // Behind `--` it would be a program.
                ErrorKind::UnknownArgument => {
                    let mut error = error;
                    error.remove(ContextKind::Suggested);
                    if crate::foreign_flags::foreign_flag(&error).is_some() {
                        error.remove(ContextKind::SuggestedArg);
                        // It names the flag that was taken for a similar one.
                        error.remove(ContextKind::Usage);
                    }
                    error
                }
                _ => error,
            })
            .map_err(with_visible_words)
    }

    /// Returns the command line with the arguments of every command. Parsing sets up those of one.
    pub(crate) fn whole_command() -> clap::Command {
        let mut command = Cli::command();
        let named: Vec<clap::Command> = command.get_subcommands().cloned().collect();
        command.build();
        // Deferred arguments bring the description of the types that they consist of.
        named.iter().fold(command, |command, one| {
            let about = one.get_about().cloned().unwrap_or_default();
            let long = one.get_long_about().unwrap_or(&about).clone();
            command.mut_subcommand(one.get_name(), |below| below.about(about).long_about(long))
        })
    }

    /// Whether failures are for programs.
    pub(crate) fn wants_json(&self) -> bool {
        let by_format = if let ForgeCommand::Check(check) = &self.command {
            check.format == Some(CheckFormat::Json)
        } else {
            false
        };
        self.global.json || self.global.streams() || by_format
    }

    /// Merges options with two spellings, and refuses options that the command does not have.
    pub(crate) fn normalize(&mut self) -> Result<(), CliError> {
        match self.global.output {
            Some(OutputFormat::Json) => self.global.json = true,
            Some(OutputFormat::StreamJson) if !matches!(self.command, ForgeCommand::Run(_)) => {
                return Err(CliError::usage(
                    "--output stream-json is for `forge run` only",
                ));
            }
            Some(OutputFormat::StreamJson | OutputFormat::Text) | None => {}
        }
        if let ForgeCommand::Exec(exec) = &mut self.command
            && exec.receipt.as_deref() == Some(Path::new("-"))
        {
            exec.receipt = None;
            self.global.json = true;
        }
        let mut runner = None;
        if let ForgeCommand::Run(run) = &self.command {
            runner = run.runner;
        } else if let ForgeCommand::Exec(exec) = &self.command {
            runner = exec.runner;
        }
        let rights = if let ForgeCommand::Exec(exec) = &self.command {
            Some(&exec.rights)
        } else if let ForgeCommand::Explain(explain) = &self.command {
            Some(&explain.rights)
        } else {
            None
        };
        if let Some(rights) = rights.filter(|rights| !rights.hosts.is_empty()) {
            // The other keys of `network` stay, above all `deny`.
            let hosts = serde_json::Value::from(rights.hosts.clone());
            self.global.set.push(format!("network.allow={hosts}"));
        }
        if let ForgeCommand::Exec(exec) = &self.command {
            for variable in &exec.variables {
                self.global.set.push(variable_setting(variable)?);
            }
        }
        let settings = runner.map_or(&[][..], RunnerName::settings);
        let settings = settings.iter().map(|setting| (*setting).to_owned());
        self.global.set.extend(settings);
        Ok(())
    }
}

/// Returns the setting for a variable of a command: `NAME=VALUE`, or `NAME` for the caller's value.
fn variable_setting(variable: &str) -> Result<String, CliError> {
    let (name, value) = match variable.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => match std::env::var(variable) {
            Ok(value) => (variable, value),
            Err(problem) => {
                let told = format!("--env {}: {problem}", escape(variable));
                return Err(CliError::usage(told).hint("export it first, or write NAME=VALUE"));
            }
        },
    };
    let first = name.bytes().next().unwrap_or(b'0');
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if first.is_ascii_digit() || !name.bytes().all(is_name) {
        let told = format!("--env {}: `{}` is no name", escape(variable), escape(name));
        return Err(CliError::usage(told).hint("write NAME=VALUE, or NAME alone"));
    }
    let value = serde_json::Value::from(value);
    Ok(format!("shell.env.set.{name}={value}"))
}

/// Puts examples and notes before the options in the help of each command, and the global options,
/// which fill a screen of their own, after all others.
fn with_readable_help(command: clap::Command, is_long: bool) -> clap::Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .collect();
    names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |below| {
            let below = with_readable_help(below, is_long).help_template(
                "{before-help}{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}",
            );
            // Why: sections come in the order of the arguments, and a command that was built finds
            // its arguments by their number, so those of a copy are reordered.
            let (global, own): (Vec<Arg>, Vec<Arg>) =
                below.get_arguments().cloned().partition(Arg::is_global_set);
            let mut ordered = own.into_iter().chain(global);
            let mut shown = below.clone().mut_args(|arg| ordered.next().unwrap_or(arg));
            let help = match is_long {
                true => shown.render_long_help(),
                false => shown.render_help(),
            };
            below.override_help(help)
        })
    })
}

/// Escapes the words of the command line for a terminal.
fn with_visible_words(mut error: clap::Error) -> clap::Error {
    for kind in [
        ContextKind::InvalidArg,
        ContextKind::InvalidSubcommand,
        ContextKind::InvalidValue,
    ] {
        if let Some(ContextValue::String(word)) = error.get(kind) {
            let word = ContextValue::String(escape(word));
            error.insert(kind, word);
        }
    }
    error
}

/// Adds the nearest command to an error about an unknown one. Why: the parser's own measure finds no
/// `run` in `rnu`.
fn with_similar_command(mut error: clap::Error) -> clap::Error {
    let (None, Some(ContextValue::String(word))) = (
        error.get(ContextKind::SuggestedSubcommand),
        error.get(ContextKind::InvalidSubcommand),
    ) else {
        return error;
    };
    let command = Cli::command();
    let names = command.get_subcommands().map(clap::Command::get_name);
    if let Some(similar) = sandbox_config::nearest(word, names) {
        let names = ContextValue::Strings(vec![similar.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, names);
    }
    error
}

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Start here instead of in the working directory.
    #[arg(id = "start", short = 'C', value_name = "DIR", global = true)]
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
    /// The same as -c sandbox.root=DIR.
    #[arg(long, value_name = "DIR", global = true, value_hint = clap::ValueHint::DirPath)]
    pub(crate) sandbox_root: Option<String>,
    /// Accept the project's privileged settings for this run.
    #[arg(long, global = true)]
    pub(crate) trust: bool,
    /// Never ask anything.
    #[arg(long, global = true)]
    pub(crate) no_input: bool,
    /// Print one JSON object instead of text; the same as --output json.
    #[arg(long, global = true, conflicts_with = "output")]
    pub(crate) json: bool,
    /// How the result is printed.
    #[arg(long, value_name = "FORMAT", global = true)]
    pub(crate) output: Option<OutputFormat>,
    /// When to use colours; by default on a terminal, and as NO_COLOR and CLICOLOR_FORCE say.
    #[arg(long, value_name = "WHEN", global = true)]
    pub(crate) color: Option<Colors>,
    /// Print no progress and no warnings.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print progress in detail.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
}

impl Global {
    /// `true` if events are written as they happen, for programs.
    pub(crate) fn streams(&self) -> bool {
        self.output == Some(OutputFormat::StreamJson)
    }
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people.
    Text,
    /// One object.
    Json,
    /// `forge run`: one object a line as things happen, the result last (see `forge schema events`).
    StreamJson,
}

/// Whether there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colors {
    /// On a terminal that has them.
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// The commands.
// Why: to set up the arguments of all commands takes longer than to load a project.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ForgeCommand {
    /// Run commands of this project unasked: rules of your own, outside the project.
    Allow(AllowArgs),
    /// List, show and answer what waits for approval in this project.
    Approve(ApproveArgs),
    /// Check the project file and every worker; run nothing.
    Check(CheckArgs),
    /// Empty the ephemeral zones.
    Clean(CleanArgs),
    /// Print what completes forge's command line in a shell.
    Completions(CompletionsArgs),
    /// Show what holds, key by key, and who said it.
    Config(ConfigArgs),
    /// Say what this machine can enforce, and how to get what is missing.
    Doctor(DoctorArgs),
    /// Run one command, confined as the project says.
    Exec(ExecArgs),
    /// Say what would be decided about a path, a host, a tool or a command, and by which rule.
    Explain(ExplainArgs),
    /// Explain a command or a topic: exit-codes, errors, paths, approvals, security.
    Help(HelpArgs),
    /// Make images for containers.
    Image(ImageArgs),
    /// Write a first project file and a first worker.
    Init(InitArgs),
    /// Show the runs that are kept: what was asked, what was decided and why.
    Log(LogArgs),
    /// Write the manual pages into a directory.
    Man(ManArgs),
    /// Serve the tools to any MCP client, on standard input and output.
    Mcp(McpArgs),
    /// Run the calls of another forge process, in a container.
    #[command(hide = true)]
    Node(NodeArgs),
    /// List, show, check and copy the presets of `forge exec`, which name the needs of known programs, and
    /// list and remove the home directories that forge keeps for them.
    Preset(PresetArgs),
    /// List and restore files that commands created under protected names.
    Quarantine(QuarantineArgs),
    /// List, apply or discard the changes that runs with --review left.
    Review(ReviewArgs),
    /// Run a worker, and the workers that it calls.
    Run(Box<RunArgs>),
    /// Print the JSON Schema of project, worker, preset or playbook files, of audit records, transcripts or events.
    Schema(SchemaArgs),
    /// Look at what workers have staged for git repositories; push it, or discard it.
    Stage(StageArgs),
    /// List or call the tools, as a worker sees them.
    Tools(ToolsArgs),
    /// Agree to the keys of this project that widen what its workers may do.
    Trust(TrustArgs),
    /// List the workers, show one with all that it holds, or begin a new one.
    Worker(WorkerArgs),
}

impl ForgeCommand {
    /// `true` if the command reads or writes files in forge's state directory.
    pub(crate) fn uses_state_files(&self) -> bool {
        match self {
            ForgeCommand::Completions(_)
            | ForgeCommand::Help(_)
            | ForgeCommand::Man(_)
            | ForgeCommand::Node(_)
            | ForgeCommand::Schema(_) => false,
            ForgeCommand::Allow(_)
            | ForgeCommand::Approve(_)
            | ForgeCommand::Check(_)
            | ForgeCommand::Clean(_)
            | ForgeCommand::Config(_)
            | ForgeCommand::Doctor(_)
            | ForgeCommand::Exec(_)
            | ForgeCommand::Explain(_)
            | ForgeCommand::Image(_)
            | ForgeCommand::Init(_)
            | ForgeCommand::Log(_)
            | ForgeCommand::Mcp(_)
            | ForgeCommand::Preset(_)
            | ForgeCommand::Quarantine(_)
            | ForgeCommand::Review(_)
            | ForgeCommand::Run(_)
            | ForgeCommand::Stage(_)
            | ForgeCommand::Tools(_)
            | ForgeCommand::Trust(_)
            | ForgeCommand::Worker(_) => true,
        }
    }
}
