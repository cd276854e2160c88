//! What `forge run` takes.

use std::path::PathBuf;

use clap::Args;

use crate::cli::Approval;

/// `forge run`
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  forge run
  forge run reviewer 'look at the last change'
  forge run --trust examples/dep-audit
  forge run --resume last

WORKER is a name; a directory runs the entry worker of the project in it. A worker file that
belongs to no project runs without files and commands.")]
pub(crate) struct Run {
    /// A worker's name, a worker file, or a project's directory.
    #[arg(value_name = "WORKER")]
    pub(crate) worker: Option<String>,
    /// What the worker is to do.
    #[arg(value_name = "INPUT")]
    pub(crate) input: Vec<String>,
    /// The model, as provider:model; `scripted:FILE` plays a playbook.
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Play a playbook; the same as `--model scripted:FILE`.
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub(crate) replay: Option<String>,
    /// Write a playbook of what the models say and call, without secrets; `--replay` plays it.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Go on with a run that did not come to an answer: `last`, its name or the beginning of it, or
    /// its directory.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["worker", "input"])]
    pub(crate) resume: Option<String>,
    /// Go on although what the run may do, a worker's text or the model changed.
    #[arg(long, requires = "resume")]
    pub(crate) accept_changes: bool,
    #[command(flatten)]
    pub(crate) approval: Approval,
}
