//! The events of a run, and its outcome.

use forge_tools::Caller;
use sandbox_config::MountSource;
use serde::{Deserialize, Serialize};

use crate::model::{Message, ModelError, ModelEvent, ToolCall, ToolDescription, ToolResult, Usage};

/// An event of a run. The [number](Caller::run) of its caller identifies the worker run: the entry
/// worker's is 1.
///
/// ```
/// fn worker(event: &forge_runtime::RunEvent<'_>) -> String {
///     match event {
///         forge_runtime::RunEvent::Started { caller, .. }
///         | forge_runtime::RunEvent::Prepared { caller, .. }
///         | forge_runtime::RunEvent::TurnStarted { caller, .. }
///         | forge_runtime::RunEvent::Streamed { caller, .. }
///         | forge_runtime::RunEvent::Used { caller, .. }
///         | forge_runtime::RunEvent::CallStarted { caller, .. }
///         | forge_runtime::RunEvent::CallEnded { caller, .. }
///         | forge_runtime::RunEvent::Said { caller, .. }
///         | forge_runtime::RunEvent::ContextTrimmed { caller, .. }
///         | forge_runtime::RunEvent::Ended { caller, .. } => caller.worker().to_owned(),
///         forge_runtime::RunEvent::Warning { .. } => String::new(),
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub enum RunEvent<'a> {
    /// A worker began.
    Started {
        /// The worker and its callers.
        caller: &'a Caller,
        /// The source against which its declaration of directories was met.
        drawn_from: MountSource,
    },
    /// A worker has its model and its tools.
    Prepared {
        /// The worker.
        caller: &'a Caller,
        /// `provider:model`.
        model: &'a str,
        /// The instructions of the model.
        instructions: &'a str,
        /// Its tools.
        tools: &'a [ToolDescription],
    },
    /// A model is asked for its next turn.
    TurnStarted {
        /// The worker.
        caller: &'a Caller,
        /// The worker's first turn is 1.
        turn: u64,
        /// `provider:model`.
        model: &'a str,
        /// The worker's time so far.
        time: ElapsedTime,
    },
    /// A piece of a turn arrived. The whole turn follows as `Said`.
    Streamed {
        /// The worker of the turn.
        caller: &'a Caller,
        /// The piece.
        event: &'a ModelEvent,
    },
    /// A turn is over, and used this.
    Used {
        /// The worker of the turn.
        caller: &'a Caller,
        /// The turn alone.
        usage: Usage,
        /// The cost of the turn in billionths of a US dollar; `None` if no prices are known.
        cost_nano_usd: Option<u64>,
    },
    /// A call begins.
    CallStarted {
        /// The calling worker.
        caller: &'a Caller,
        /// The call.
        call: &'a ToolCall,
    },
    /// A call has ended. The result for the model follows as `Said`, in the order of the calls.
    CallEnded {
        /// The calling worker.
        caller: &'a Caller,
        /// The result.
        result: &'a ToolResult,
    },
    /// Another entry of a worker's conversation.
    Said {
        /// The worker of the conversation.
        caller: &'a Caller,
        /// The entry.
        message: &'a Message,
    },
    /// The conversation approached the size of the model's context: the oldest results are left out
    /// of all later requests.
    ContextTrimmed {
        /// The worker of the conversation.
        caller: &'a Caller,
        /// The ids of the calls whose results were removed.
        calls: &'a [String],
        /// Approximate tokens of the conversation before.
        tokens: u64,
    },
    /// A worker ended.
    Ended {
        /// The worker.
        caller: &'a Caller,
        /// How.
        end: &'a RunOutcome,
        /// The worker's time.
        time: ElapsedTime,
    },
    /// Something a person should know.
    Warning {
        /// The text.
        text: &'a str,
    },
}

impl<'a> RunEvent<'a> {
    /// Returns the worker of the event; `None` for a warning.
    pub fn caller(&self) -> Option<&'a Caller> {
        match *self {
            RunEvent::Started { caller, .. }
            | RunEvent::Prepared { caller, .. }
            | RunEvent::TurnStarted { caller, .. }
            | RunEvent::Streamed { caller, .. }
            | RunEvent::Used { caller, .. }
            | RunEvent::CallStarted { caller, .. }
            | RunEvent::CallEnded { caller, .. }
            | RunEvent::Said { caller, .. }
            | RunEvent::ContextTrimmed { caller, .. }
            | RunEvent::Ended { caller, .. } => Some(caller),
            RunEvent::Warning { .. } => None,
        }
    }
}

/// Time of a worker, summed over all programs that continued its run.
///
/// ```
/// let time = forge_runtime::ElapsedTime { wall_ms: 1_500, working_ms: 900 };
/// assert_eq!(serde_json::to_value(time).unwrap()["working_ms"], 900);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElapsedTime {
    /// From start to end, in milliseconds.
    pub wall_ms: u64,
    /// As `wall_ms`, without the time of questions to a person and of pauses for a provider.
    pub working_ms: u64,
}

impl ElapsedTime {
    /// After so much more work.
    pub(crate) fn plus_ms(self, more: u64) -> ElapsedTime {
        ElapsedTime {
            wall_ms: self.wall_ms.saturating_add(more),
            working_ms: self.working_ms.saturating_add(more),
        }
    }
}

/// Receives the events of a run as they happen.
///
/// ```
/// # let _: &dyn forge_runtime::Observer = &
/// forge_runtime::NoObserver;
/// ```
pub trait Observer: Send + Sync + 'static {
    /// One thing happened.
    fn observe(&self, event: RunEvent<'_>);
}

/// An observer that ignores all events.
///
/// ```
/// let observer = forge_runtime::NoObserver;
/// # let _ = observer;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&self, _: RunEvent<'_>) {}
}

/// The outcome of a worker.
///
/// ```
/// let end = forge_runtime::RunOutcome::TurnLimit { turns: 50 };
/// assert_eq!(end.to_string(), "the limit of 50 turns was reached");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The model ended its turn.
    Answered {
        /// Its last text.
        answer: String,
    },
    /// The model refused.
    Refused {
        /// Its words.
        text: String,
    },
    /// The model ran out of output tokens without a call or an answer.
    #[serde(rename = "out_of_tokens")]
    MaxTokens,
    /// Too many turns.
    TurnLimit {
        /// The limit.
        turns: u64,
    },
    /// Too many tool calls in the whole tree.
    CallLimit {
        /// The limit.
        calls: u64,
    },
    /// Too many tokens, of the worker and those it called or of a caller.
    TokenLimit {
        /// The limit.
        tokens: u64,
    },
    /// Too long, from start to end.
    WallLimit {
        /// The limit.
        seconds: u64,
    },
    /// Too long, without the time in which a person was asked.
    WorkingLimit {
        /// The limit.
        seconds: u64,
    },
    /// Too much money, of the worker and those it called or of a caller.
    CostLimit {
        /// The limit, in billionths of a US dollar.
        nano_usd: u64,
    },
    /// The conversation does not fit into the model's context, even with old results
    /// left out.
    ContextFull {
        /// The size of the context.
        tokens: u64,
    },
    /// The answer does not fit the worker's `output_schema`, also after a second try.
    #[serde(rename = "unfit_answer")]
    SchemaMismatch {
        /// Its last text.
        answer: String,
        /// The mismatches.
        problems: Vec<String>,
    },
    /// A person stopped it.
    Cancelled,
    /// One call was repeated with an unchanged result.
    Repeated {
        /// Number of repetitions in a row.
        calls: u64,
    },
    /// The model failed.
    ModelFailed {
        /// Why.
        reason: String,
        /// The kind of failure.
        cause: ModelFailure,
    },
    /// The worker lists its models, and this one is not among them.
    WrongModel {
        /// The session's model.
        model: String,
    },
    /// The cost is limited, and the prices of this model are unknown.
    NoPrices {
        /// The model.
        model: String,
    },
    /// The worker could not be set up.
    #[serde(rename = "not_equipped")]
    SetupFailed {
        /// Why.
        reason: String,
        /// The remediation.
        hint: Option<String>,
        /// `true` if a required OS sandbox is missing.
        isolation: bool,
    },
}

/// The kind of model failure that ended a worker.
///
/// ```
/// let cause = forge_runtime::ModelFailure::Unreachable;
/// assert_eq!(serde_json::to_value(cause).unwrap(), "unreachable");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailure {
    /// The playbook's own.
    Playbook,
    /// No key, or a wrong one.
    Credentials,
    /// The provider does not take the request, or its answer cannot be read.
    Rejected,
    /// Not reached, busy, or cut off, after all retries.
    Unreachable,
}

impl From<&ModelError> for ModelFailure {
    fn from(error: &ModelError) -> Self {
        match error {
            ModelError::Expectation(_) | ModelError::Playbook(_) => ModelFailure::Playbook,
            ModelError::Credentials(_) => ModelFailure::Credentials,
            ModelError::Rejected { .. } | ModelError::Malformed(_) => ModelFailure::Rejected,
            ModelError::Cut
            | ModelError::Busy { .. }
            | ModelError::NoConnection(_)
            | ModelError::Unreachable(_) => ModelFailure::Unreachable,
        }
    }
}

impl RunOutcome {
    /// Returns `true` for an answer.
    pub fn is_answer(&self) -> bool {
        matches!(self, RunOutcome::Answered { .. })
    }

    /// The key that sets the limit that ended it, if one did and a key sets it.
    pub fn limit_key(&self) -> Option<&'static str> {
        match self {
            RunOutcome::TurnLimit { .. } => Some("limits.max_turns"),
            RunOutcome::TokenLimit { .. } => Some("limits.max_tokens"),
            RunOutcome::WallLimit { .. } => Some("limits.max_wall_s"),
            RunOutcome::WorkingLimit { .. } => Some("limits.max_working_s"),
            RunOutcome::CostLimit { .. } => Some("limits.max_cost_usd"),
            RunOutcome::Repeated { .. } => Some("limits.repeat_calls"),
            RunOutcome::CallLimit { .. } => Some("limits.max_tool_calls"),
            _ => None,
        }
    }
}

impl From<ModelError> for RunOutcome {
    fn from(error: ModelError) -> Self {
        RunOutcome::ModelFailed {
            cause: ModelFailure::from(&error),
            reason: error.to_string(),
        }
    }
}

impl std::fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunOutcome::Answered { .. } => f.write_str("done"),
            RunOutcome::Refused { text } => write!(f, "the model refused: {text}"),
            RunOutcome::MaxTokens => f.write_str("the model ran out of output tokens"),
            RunOutcome::TurnLimit { turns } => reached(f, *turns, "turn"),
            RunOutcome::CallLimit { calls } => reached(f, *calls, "tool call"),
            RunOutcome::TokenLimit { tokens } => reached(f, *tokens, "token"),
            RunOutcome::WallLimit { seconds } => write!(f, "the limit of {seconds} s was reached"),
            RunOutcome::WorkingLimit { seconds } => {
                write!(f, "the limit of {seconds} s of work was reached")
            }
            RunOutcome::CostLimit { nano_usd } => {
                write!(f, "the limit of {} was reached", Dollars(*nano_usd))
            }
            RunOutcome::ContextFull { tokens } => write!(
                f,
                "the conversation does not fit into the model's context of {tokens} tokens"
            ),
            RunOutcome::SchemaMismatch { problems, .. } => write!(
                f,
                "the answer does not fit the output schema: {}",
                problems.join("; ")
            ),
            RunOutcome::Cancelled => f.write_str("it was stopped"),
            RunOutcome::Repeated { calls } => write!(
                f,
                "the same call was made {calls} times in a row with the same result"
            ),
            RunOutcome::ModelFailed { reason, .. } => f.write_str(reason),
            RunOutcome::WrongModel { model } => write!(f, "it does not run on the model `{model}`"),
            RunOutcome::NoPrices { model } => write!(
                f,
                "the cost is limited, and no prices are known for the model `{model}`"
            ),
            RunOutcome::SetupFailed { reason, .. } => f.write_str(reason),
        }
    }
}

fn reached(f: &mut std::fmt::Formatter<'_>, limit: u64, unit: &str) -> std::fmt::Result {
    let plural = if limit == 1 { "" } else { "s" };
    write!(f, "the limit of {limit} {unit}{plural} was reached")
}

/// Money, as people read it.
///
/// ```
/// assert_eq!(forge_runtime::Dollars(4_500_000).to_string(), "$0.0045");
/// assert_eq!(forge_runtime::Dollars(2_000_000_000).to_string(), "$2.00");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dollars(
    /// Billionths of a US dollar.
    pub u64,
);

impl std::fmt::Display for Dollars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        // At least cents, and further digits as needed.
        let digits = format!("{rest:09}");
        let (cents, below) = digits.split_at(2);
        write!(f, "${whole}.{cents}{}", below.trim_end_matches('0'))
    }
}

/// The result of a run.
///
/// ```
/// fn answer(report: &forge_runtime::RunReport) -> bool {
///     report.end.is_answer()
/// }
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// The outcome of the entry worker.
    #[serde(flatten)]
    pub end: RunOutcome,
    /// Turns taken in the whole tree.
    pub turns: u64,
    /// Tool calls made in the whole tree.
    pub calls: u64,
    /// Tokens used in the whole tree, as far as the model reports them.
    pub tokens: u64,
    /// Their cost in billionths of a US dollar, as far as prices are known.
    pub cost_nano_usd: u64,
    /// Calls that needed an approval and got no answer: `worker: tool`.
    pub unanswered: Vec<String>,
}
