//! The history of a run: from a transcript the conversation of the entry worker, each of its calls
//! with a result, and the usage of the whole tree.
//!
//! No call is repeated silently. A call without a recorded result gets one that says so: that
//! nothing of it was done, if it did not begin, and else that its effect is unknown. A worker below
//! the entry worker is not resumed; its caller's call is one of these.

use std::io::Write;

use super::entry::TranscriptEntry;
use super::read::{ENTRY, Transcript};
use super::write::TranscriptWriter;
use crate::model::{Message, ToolCall, ToolResult, Usage};
use crate::report::{ElapsedTime, RunOutcome, RunReport};
use crate::session::{Conversation, UsageTotals};

/// The code of a call without a recorded result.
const INTERRUPTED: &str = "INTERRUPTED";

/// The point from which a run is resumed.
///
/// ```
/// fn shown(past: &forge_runtime::transcript::History) -> String {
///     format!("{} turns, {} calls interrupted", past.used().turns, past.interrupted().len())
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    conversation: Conversation,
    /// Results of calls of the last turn that the model has not seen.
    results: Vec<ToolResult>,
    interrupted: Vec<InterruptedCall>,
}

/// A call without a recorded result.
///
/// ```
/// use forge_runtime::transcript::InterruptedCall;
/// let call = InterruptedCall { id: "c1".into(), tool: "shell".into(), begun: true };
/// assert_eq!(call.to_string(), "shell: it began, and what it did is not known");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptedCall {
    /// The id that the model gave it.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// `true` if the call may have had an effect.
    pub begun: bool,
}

impl std::fmt::Display for InterruptedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.begun {
            "it began, and what it did is not known"
        } else {
            "it did not begin"
        };
        write!(f, "{}: {what}", self.tool)
    }
}

/// Why a run cannot go on.
///
/// ```
/// use forge_runtime::transcript::NotResumable;
/// assert_eq!(NotResumable::Answered.to_string(), "it ended with an answer");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotResumable {
    /// The run is complete.
    #[error("it ended with an answer")]
    Answered,
}

impl History {
    /// Returns the point from which `transcript` can be resumed; `same_model` says whether the
    /// model is unchanged.
    ///
    /// # Errors
    ///
    /// If the run is complete.
    pub fn of(transcript: &Transcript, same_model: bool) -> Result<History, NotResumable> {
        let worker_runs = transcript.runs.keys().next_back().copied().unwrap_or(0);
        let Some(entry) = transcript.entry().filter(|run| !run.messages.is_empty()) else {
            // The program was stopped before the worker got its input.
            return Ok(History {
                conversation: Conversation::asked(&*transcript.begin.input).behind(worker_runs),
                results: Vec::new(),
                interrupted: Vec::new(),
            });
        };
        if entry.end.as_ref().is_some_and(RunOutcome::is_answer) {
            return Err(NotResumable::Answered);
        }
        let mut entry = entry.clone();
        entry.resume(transcript.last_ms);
        let mut results = Vec::new();
        let mut interrupted = Vec::new();
        for call in &entry.open {
            results.push(match entry.came.remove(&call.id) {
                Some(result) => result,
                None => {
                    let begun = entry.begun.contains(&call.id);
                    interrupted.push(InterruptedCall {
                        id: call.id.clone(),
                        tool: call.tool.clone(),
                        begun,
                    });
                    result_of_interrupted(call, begun)
                }
            });
        }
        let mut messages = entry.messages;
        // The program was stopped before this answer was accepted: the model is asked again, which
        // repeats no call.
        let is_last_word =
            |message: &Message| matches!(message, Message::Model { calls, .. } if calls.is_empty());
        if entry.end.is_none() && messages.last().is_some_and(is_last_word) {
            messages.pop();
        }
        messages.extend(results.iter().cloned().map(Message::ToolResult));
        if !same_model {
            messages.iter_mut().for_each(forget_thoughts);
        }
        let used = UsageTotals {
            time: entry.time,
            ..used(transcript)
        };
        Ok(History {
            conversation: Conversation::earlier(messages, used).behind(worker_runs),
            results,
            interrupted,
        })
    }

    sandbox_names::getters! {
        /// Returns the usage of the whole tree.
        pub used: UsageTotals = conversation.used();
        /// Returns the calls without a recorded result.
        pub interrupted: &[InterruptedCall] = &interrupted;
        /// The conversation to give to [`Session::resume`](crate::Session::resume).
        pub conversation: Conversation = conversation.clone();
    }

    /// Writes the added results to the transcript, after the line about the resumption.
    ///
    /// # Errors
    ///
    /// It could not be written.
    pub fn keep<W: Write>(&self, writer: &TranscriptWriter<W>) -> std::io::Result<()> {
        for result in &self.results {
            writer.add(TranscriptEntry::Said {
                run: ENTRY,
                message: Message::ToolResult(result.clone()),
            })?;
        }
        Ok(())
    }
}

fn result_of_interrupted(call: &ToolCall, begun: bool) -> ToolResult {
    let (content, effects) = if begun {
        (
            "The program that made this call was stopped before its result was kept. Whether the \
             call did anything is not known. Look before you make it again.",
            "unknown",
        )
    } else {
        (
            "The program was stopped before this call was made: nothing of it was done. Make it \
             again if it is still wanted.",
            "none",
        )
    };
    ToolResult {
        id: call.id.clone(),
        tool: call.tool.clone(),
        content: content.to_owned(),
        is_error: true,
        detail: serde_json::json!({
            "ok": false,
            "content": content,
            "structured": { "effects": effects },
            "error": { "code": INTERRUPTED, "message": content },
        }),
    }
}

/// Blocks sealed by one provider mean nothing to another.
fn forget_thoughts(message: &mut Message) {
    if let Message::Model { thinking, .. } = message {
        thinking.clear();
    }
}

impl Transcript {
    /// Returns the report of a run that ended with an answer. Its unanswered approvals are not
    /// known any more.
    ///
    /// ```
    /// fn is_over(transcript: &forge_runtime::transcript::Transcript) -> bool {
    ///     transcript.answered().is_some()
    /// }
    /// ```
    pub fn answered(&self) -> Option<RunReport> {
        let end = self.entry()?.end.clone().filter(RunOutcome::is_answer)?;
        let used = used(self);
        Some(RunReport {
            end,
            turns: used.turns,
            calls: used.calls,
            tokens: used.usage.total(),
            cost_nano_usd: used.cost_nano_usd,
            unanswered: Vec::new(),
        })
    }
}

fn used(transcript: &Transcript) -> UsageTotals {
    transcript
        .runs
        .values()
        .fold(UsageTotals::default(), |sum, run| UsageTotals {
            turns: sum.turns.saturating_add(run.turns),
            calls: sum.calls.saturating_add(run.calls),
            begun: sum.begun.saturating_add(run.calls_begun),
            usage: Usage::saturating_add(sum.usage, run.usage),
            cost_nano_usd: sum
                .cost_nano_usd
                .saturating_add(run.cost_nano_usd.unwrap_or(0)),
            time: ElapsedTime::default(),
        })
}
