//! What a run tells while it goes on, and what it comes to.

use forge_tools::Caller;
use sandbox_config::DrawnFrom;
use serde::Serialize;

use crate::model::{Message, ModelError};

/// Something that happened in a run.
///
/// ```
/// fn worker(event: &forge_runtime::RunEvent<'_>) -> String {
///     match event {
///         forge_runtime::RunEvent::Started { caller, .. }
///         | forge_runtime::RunEvent::Said { caller, .. }
///         | forge_runtime::RunEvent::Ended { caller, .. } => caller.worker().to_owned(),
///         forge_runtime::RunEvent::Warning { .. } => String::new(),
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub enum RunEvent<'a> {
    /// A worker began.
    Started {
        /// Which, and who called it.
        caller: &'a Caller,
        /// What its declaration of directories was met with.
        drawn_from: DrawnFrom,
    },
    /// Another entry of a worker's conversation.
    Said {
        /// Whose conversation.
        caller: &'a Caller,
        /// The entry.
        message: &'a Message,
    },
    /// A worker ended.
    Ended {
        /// Which.
        caller: &'a Caller,
        /// How.
        end: &'a End,
    },
    /// Something a person should know.
    Warning {
        /// The text.
        text: &'a str,
    },
}

/// Is told what happens, as it happens.
///
/// ```
/// # let _: &dyn forge_runtime::Observer = &
/// forge_runtime::NoObserver;
/// ```
pub trait Observer: Send + Sync + 'static {
    /// One thing happened.
    fn observe(&self, event: RunEvent<'_>);
}

/// Is told, and does not care.
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

/// How a worker ended.
///
/// ```
/// let end = forge_runtime::End::TurnLimit { turns: 50 };
/// assert_eq!(end.to_string(), "the limit of 50 turns was reached");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum End {
    /// The model ended its turn.
    Answered {
        /// What it said last.
        answer: String,
    },
    /// The model refused.
    Refused {
        /// Its words.
        text: String,
    },
    /// The model ran out of output tokens without a call or an answer.
    OutOfTokens,
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
    /// The same call with the same result again and again.
    Repeated {
        /// How often in a row.
        calls: u64,
    },
    /// The model failed.
    ModelFailed {
        /// Why.
        reason: String,
    },
    /// The worker names the models it runs on, and this is none of them.
    WrongModel {
        /// The session's model.
        model: String,
    },
    /// The worker could not be given what it needs.
    NotEquipped {
        /// Why.
        reason: String,
        /// How to get it.
        hint: Option<String>,
        /// Whether it is a required OS sandbox that is missing.
        isolation: bool,
    },
}

impl End {
    /// Whether there is an answer.
    pub fn is_answer(&self) -> bool {
        matches!(self, End::Answered { .. })
    }

    /// Whether a limit ended it.
    pub fn is_limit(&self) -> bool {
        match self {
            End::TurnLimit { .. }
            | End::CallLimit { .. }
            | End::TokenLimit { .. }
            | End::WallLimit { .. }
            | End::WorkingLimit { .. }
            | End::Repeated { .. } => true,
            End::Answered { .. }
            | End::Refused { .. }
            | End::OutOfTokens
            | End::ModelFailed { .. }
            | End::WrongModel { .. }
            | End::NotEquipped { .. } => false,
        }
    }

    /// The key that sets the limit that ended it, if one did and a key sets it.
    pub fn limit_key(&self) -> Option<&'static str> {
        match self {
            End::TurnLimit { .. } => Some("limits.max_turns"),
            End::TokenLimit { .. } => Some("limits.max_tokens"),
            End::WallLimit { .. } => Some("limits.max_wall_s"),
            End::WorkingLimit { .. } => Some("limits.max_working_s"),
            End::Repeated { .. } => Some("limits.repeat_calls"),
            End::CallLimit { .. }
            | End::Answered { .. }
            | End::Refused { .. }
            | End::OutOfTokens
            | End::ModelFailed { .. }
            | End::WrongModel { .. }
            | End::NotEquipped { .. } => None,
        }
    }
}

impl From<ModelError> for End {
    fn from(error: ModelError) -> Self {
        End::ModelFailed {
            reason: error.to_string(),
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Answered { .. } => f.write_str("done"),
            End::Refused { text } => write!(f, "the model refused: {text}"),
            End::OutOfTokens => f.write_str("the model ran out of output tokens"),
            End::TurnLimit { turns } => write!(f, "the limit of {turns} turns was reached"),
            End::CallLimit { calls } => write!(f, "the limit of {calls} tool calls was reached"),
            End::TokenLimit { tokens } => write!(f, "the limit of {tokens} tokens was reached"),
            End::WallLimit { seconds } => write!(f, "the limit of {seconds} s was reached"),
            End::WorkingLimit { seconds } => {
                write!(f, "the limit of {seconds} s of work was reached")
            }
            End::Repeated { calls } => write!(
                f,
                "the same call was made {calls} times in a row with the same result"
            ),
            End::ModelFailed { reason } => f.write_str(reason),
            End::WrongModel { model } => write!(f, "it does not run on the model `{model}`"),
            End::NotEquipped { reason, .. } => f.write_str(reason),
        }
    }
}

/// What a run came to.
///
/// ```
/// fn answer(report: &forge_runtime::RunReport) -> bool {
///     report.end.is_answer()
/// }
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// How the entry worker ended.
    #[serde(flatten)]
    pub end: End,
    /// Turns taken in the whole tree.
    pub turns: u64,
    /// Tool calls made in the whole tree.
    pub calls: u64,
    /// Tokens used in the whole tree, as far as the model reports them.
    pub tokens: u64,
    /// Calls that needed an approval nobody could give: `worker: tool`.
    pub unanswered: Vec<String>,
}
