//! Options of `forge log`.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    pub(crate) action: Option<LogAction>,
}

/// Bound on the runs that are listed, unless another one is given.
const LISTED_RUNS: usize = 50;

impl LogAction {
    /// The action of `forge log` alone.
    pub(crate) const DEFAULT: LogAction = LogAction::List {
        worker: None,
        since: None,
        all: false,
        limit: LISTED_RUNS,
    };
}

/// What to do with the runs that are kept.
#[derive(Debug, Subcommand)]
pub(crate) enum LogAction {
    /// The runs, the newest first, and what they came to, as `forge log` alone.
    #[command(after_long_help = include_str!("help/log_list.txt"))]
    List {
        /// Runs of this worker (`mcp`, `exec`, `tools-call` and `stage` for those commands).
        #[arg(long, value_name = "WORKER")]
        worker: Option<String>,
        /// Runs that began since then: 2h, 3d, 2026-11-21, 2026-11-21T18:40:05Z.
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Runs of every project, not of this one alone.
        #[arg(long)]
        all: bool,
        /// At most so many, the newest.
        #[arg(long, value_name = "COUNT", default_value_t = LISTED_RUNS)]
        limit: usize,
    },
    /// Every call of a run with its reasons.
    #[command(after_long_help = include_str!("help/log_show.txt"))]
    Show {
        /// The run.
        #[arg(value_name = "RUN", default_value = "last")]
        run: String,
        #[command(flatten)]
        selection: Selection,
        /// Go on for as long as the run does.
        #[arg(short, long)]
        follow: bool,
    },
    /// Verify that logs are unchanged: exit code 1 if one was changed, 8 if one has no end.
    #[command(after_long_help = include_str!("help/log_verify.txt"))]
    Verify {
        /// The runs; those of this project if left out.
        #[arg(value_name = "RUN")]
        runs: Vec<String>,
        /// Runs of every project, not of this one alone.
        #[arg(long, conflicts_with = "runs")]
        all: bool,
    },
    /// The calls of a run for other programs.
    #[command(after_long_help = include_str!("help/log_export.txt"))]
    Export {
        /// The run.
        #[arg(value_name = "RUN", default_value = "last")]
        run: String,
        /// The form.
        #[arg(long, value_name = "FORMAT", default_value = "csv")]
        format: LogFormat,
        #[command(flatten)]
        selection: Selection,
    },
}

/// Which calls of a log.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which calls")]
pub(crate) struct Selection {
    /// Only calls that a rule or a person stopped, or about which no person could be asked.
    #[arg(long)]
    pub(crate) denied: bool,
    /// Those since then: 2h, 3d, 2026-11-21, 2026-11-21T18:40:05Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Those of this tool.
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Those of this worker.
    #[arg(long, value_name = "WORKER")]
    pub(crate) worker: Option<String>,
}

/// The forms of `forge log export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A table with a head, one row a call.
    Csv,
    /// Spans of OpenTelemetry, one line a call.
    Otel,
}
