//! Options of `forge run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::{ApprovalFlags, RunnerName};

#[derive(Debug, Clone, Args)]
#[command(after_long_help = include_str!("help/run.txt"))]
pub(crate) struct RunArgs {
    /// A worker's name, a worker file, or a project's directory.
    #[arg(value_name = "WORKER")]
    pub(crate) worker: Option<String>,
    /// What the worker is to do. Standard input, if it is a pipe or a file, is added to it.
    #[arg(value_name = "INPUT")]
    pub(crate) input: Vec<String>,
    /// Take what the worker is to do from this file; `-` is standard input, also beside INPUT.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Hand the worker this file of text as well, within its `attachment_policy`.
    #[arg(short = 'A', long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,
    /// The model, as provider:model; `scripted:FILE` plays a playbook.
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Play a playbook; the same as `--model scripted:FILE`.
    #[arg(long, value_name = "FILE", conflicts_with = "model", value_hint = clap::ValueHint::FilePath)]
    pub(crate) replay: Option<String>,
    /// Write a playbook of what the models say and call, without secrets; `--replay` plays it.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Go on with a run that did not come to an answer: `last`, its name or the beginning of it, or
    /// its directory.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["worker", "input", "file", "attach", "dry_run", "ephemeral"])]
    pub(crate) resume: Option<String>,
    /// Go on although what the run may do, a worker's text or the model changed.
    #[arg(long, requires = "resume")]
    pub(crate) accept_changes: bool,
    /// Reach the model's provider here; its key goes there.
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Run all calls in containers, or here, whatever the project prefers.
    #[arg(long, value_name = "WHERE")]
    pub(crate) runner: Option<RunnerName>,
    /// Make all changes in a copy: the project is not touched, and the changes are listed at the end,
    /// for you to apply or discard (`forge review`). `sandbox.review: true` makes this the
    /// default. A run that is resumed goes on in its copy.
    #[arg(long, conflicts_with_all = ["no_os_sandbox", "resume"])]
    pub(crate) review: bool,
    /// Show what would run with which rights, and run nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Keep no transcript; the audit is kept in any case.
    #[arg(long)]
    pub(crate) ephemeral: bool,
    #[command(flatten)]
    pub(crate) answer: AnswerFlags,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    #[command(flatten)]
    pub(crate) approval: ApprovalFlags,
}

/// Options for the answer.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Answer")]
pub(crate) struct AnswerFlags {
    /// The answer must fit the JSON Schema in this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json_schema: Option<PathBuf>,
    /// Write the answer into this file, whole or not at all, and not to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output_file: Option<PathBuf>,
    /// Refusals that make a run with an answer exit with code 3.
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        value_delimiter = ',',
        default_value = "unanswered"
    )]
    pub(crate) fail_on: Vec<FailOn>,
}

/// Kinds of refused calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Calls that needed an approval nobody could give.
    Unanswered,
    /// Calls that a person refused.
    Denied,
    /// Calls that a rule blocked.
    Blocked,
    /// No call.
    Nothing,
}

/// Each the same as `-c limits.KEY=…`: your own file is above it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitFlags {
    /// Turns that a worker may take.
    #[arg(long, value_name = "TURNS")]
    pub(crate) max_turns: Option<u64>,
    /// Tool calls in the whole run.
    #[arg(long, value_name = "CALLS")]
    pub(crate) max_tool_calls: Option<u64>,
    /// Tokens in the whole run.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<u64>,
    /// US dollars for the whole run; needs prices.
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<f64>,
    /// Seconds from start to end.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) max_wall: Option<u64>,
}

impl LimitFlags {
    /// Returns the key, the option and the value of each that is given.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, &'static str, String)> {
        let whole = |number: Option<u64>| number.map(|number| number.to_string());
        let cost = self.max_cost.map(|cost| cost.to_string());
        [
            ("limits.max_turns", "--max-turns", whole(self.max_turns)),
            (
                "limits.max_tool_calls",
                "--max-tool-calls",
                whole(self.max_tool_calls),
            ),
            ("limits.max_tokens", "--max-tokens", whole(self.max_tokens)),
            ("limits.max_cost_usd", "--max-cost", cost),
            ("limits.max_wall_s", "--max-wall", whole(self.max_wall)),
        ]
        .into_iter()
        .filter_map(|(key, option, value)| Some((key, option, value?)))
    }
}
