//! The end of a call: its result truncated, its record written, and the words for the model after a
//! refusal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::audit::{CallRecord, DecisionEntry, DecisionRecord, PolicyEvent};
use crate::call::ending::CommandProgress;
use crate::call::request::CallRequest;
use crate::call_result::{CallFailure, CallResult, ErrorBody, ExecutionInfo, FailureCode, Reply};
use crate::gate::Judgement;
use crate::output_store::Truncation;
use crate::redact::UnknownPlaceholder;
use crate::spec::Spec;
use crate::time::now_ms;
use crate::toolbox_inner::ToolboxInner;

/// The tool that reads truncated results.
pub(crate) const READ_OUTPUT: &str = "read_output";

/// The facts about a call so far; recorded even if it fails half-way.
pub(crate) struct CallDetails {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) intents: Vec<String>,
    pub(crate) decision: DecisionRecord,
}

/// A call under way. Records itself when it is closed.
pub(crate) struct CallRecordBuilder {
    inner: Arc<ToolboxInner>,
    pub(crate) details: CallDetails,
    at_ms: u64,
    started: Instant,
    /// The number of the decision in the recorder, once recorded.
    recorded: Option<u64>,
    /// It may be done.
    is_decided: bool,
    /// The decision could not be recorded, so nothing was done and nothing has to be withheld.
    not_made: bool,
    /// All secrets of the details are replaced.
    clean: bool,
    closed: bool,
    pub(crate) command: CommandProgress,
}

impl CallRecordBuilder {
    pub(crate) fn new(inner: &Arc<ToolboxInner>, call: &CallRequest) -> Self {
        CallRecordBuilder {
            inner: Arc::clone(inner),
            details: CallDetails {
                tool: call.tool.clone(),
                arguments: Value::Null,
                intents: Vec::new(),
                decision: DecisionRecord::not_reached("the call was malformed"),
            },
            at_ms: now_ms(),
            started: Instant::now(),
            recorded: None,
            is_decided: false,
            not_made: false,
            clean: false,
            closed: false,
            command: CommandProgress::None,
        }
    }

    /// Records the decision before anything is done: a kill in the middle does not hide an allowed
    /// call.
    pub(crate) fn decided(&mut self) -> Result<(), CallFailure> {
        if self.closed {
            // The caller has gone, and the record says so.
            return Err(CallFailure::cancelled());
        }
        self.inner.redact_details(&mut self.details);
        self.clean = true;
        let asked = DecisionEntry {
            at_ms: self.at_ms,
            workers: self.inner.context.caller.chain(),
            tool: &self.details.tool,
            arguments: &self.details.arguments,
            intents: &self.details.intents,
            decision: &self.details.decision,
        };
        match self.inner.recorder.decided(&asked) {
            Ok(recorded) => {
                self.recorded = recorded;
                self.is_decided = true;
                Ok(())
            }
            Err(_) => {
                self.not_made = true;
                Err(FailureCode::Internal.failure(
                    "The call could not be recorded in the audit log, so it was not made.",
                ))
            }
        }
    }

    sandbox_names::getters! {
        pub(crate) is_closed: bool = closed;
        /// Returns `true` if anything may have been done already.
        pub(crate) is_decided: bool = is_decided;
    }

    /// Closes the call because its caller does not wait any more. A command that runs closes it at
    /// its end.
    pub(crate) fn leave(&mut self) {
        if self.closed {
            return;
        }
        let cancelled = CallFailure::cancelled();
        let failure = match std::mem::take(&mut self.command) {
            CommandProgress::None => cancelled,
            CommandProgress::Running | CommandProgress::Left => {
                self.command = CommandProgress::Left;
                return;
            }
            CommandProgress::Ended(ran) => cancelled.ran(*ran),
        };
        let _nobody_waits = self.close(Err(failure));
    }

    pub(crate) fn close(&mut self, outcome: Result<Reply, CallFailure>) -> CallResult {
        self.closed = true;
        let outcome = self.inner.redact(outcome);
        if !self.clean {
            self.inner.redact_details(&mut self.details);
        }
        let decision = self.details.decision.clone();
        let result = finish(
            self.inner.cut(outcome),
            self.details.tool.clone(),
            decision,
            self.started,
        );
        let record = CallRecord {
            call: self.recorded,
            at_ms: self.at_ms,
            workers: self.inner.context.caller.chain().to_vec(),
            tool: result.tool.clone(),
            arguments: std::mem::take(&mut self.details.arguments),
            intents: std::mem::take(&mut self.details.intents),
            decision: result.decision.clone(),
            runner: result.runner,
            ok: result.ok,
            code: result.code.map(|code| code.as_str().to_owned()),
            exit_code: result
                .structured
                .as_ref()
                .and_then(|facts| facts["exit_code"].as_i64()),
            content_bytes: result.content.len(),
            content_sha256: sandbox_names::hex(Sha256::digest(result.content.as_bytes())),
            duration_us: u64::try_from(result.duration.as_micros()).unwrap_or(u64::MAX),
            enforcement: result.enforcement.clone(),
            artifacts: result.artifacts.clone(),
            events: result.events.clone(),
        };
        match self.inner.recorder.record(&record) {
            Ok(()) => result,
            Err(_) if self.not_made => result,
            Err(_) => unrecorded(result, self.inner.may_change(&self.details.tool)),
        }
    }
}

/// An outcome, and its truncation.
type CutOutcome = (Result<Reply, CallFailure>, Option<Truncation>);

impl ToolboxInner {
    /// Takes secrets out of everything that an outcome says, before it is cut: a half of a secret
    /// is not known as one.
    fn redact(&self, mut outcome: Result<Reply, CallFailure>) -> Result<Reply, CallFailure> {
        let redactor = &self.redactor;
        let ran = match &mut outcome {
            Ok(reply) => {
                redactor.redact_in_place(&mut reply.text);
                if let Some(facts) = &mut reply.structured {
                    redactor.redact_json(facts);
                }
                Some(&mut reply.ran)
            }
            Err(failure) => {
                redactor.redact_in_place(&mut failure.message);
                for text in [&mut failure.hint, &mut failure.path] {
                    text.iter_mut()
                        .for_each(|text| redactor.redact_in_place(text));
                }
                if let Some(facts) = &mut failure.structured {
                    redactor.redact_json(facts);
                }
                failure.ran.as_deref_mut()
            }
        };
        if let Some(ran) = ran {
            if let Some(receipt) = &mut ran.enforcement {
                redactor.redact_json(receipt);
            }
            for event in &mut ran.events {
                redactor.redact_in_place(&mut event.detail);
            }
            for artifact in &mut ran.artifacts {
                redactor.redact_in_place(&mut artifact.path);
            }
        }
        outcome
    }

    /// Returns `true` if a call of the tool leaves something behind.
    fn may_change(&self, name: &str) -> bool {
        let mut specs = self.tools.iter().map(|tool| tool.spec());
        specs.any(|spec| spec.name == name && !spec.annotations.read_only)
    }

    /// Replaces secrets in the recorded details of the call.
    fn redact_details(&self, details: &mut CallDetails) {
        let redactor = &self.redactor;
        redactor.redact_in_place(&mut details.tool);
        redactor.redact_json(&mut details.arguments);
        for intent in &mut details.intents {
            redactor.redact_in_place(intent);
        }
        let decision = &mut details.decision;
        for reason in &mut decision.reasons {
            redactor.redact_in_place(&mut reason.text);
            for text in [&mut reason.rule, &mut reason.origin, &mut reason.why] {
                text.iter_mut()
                    .for_each(|text| redactor.redact_in_place(text));
            }
        }
        for text in [&mut decision.runner, &mut decision.by] {
            text.iter_mut()
                .for_each(|text| redactor.redact_in_place(text));
        }
    }

    /// Truncates a result that is too long, and stores the whole where the worker can read it.
    fn cut(&self, mut outcome: Result<Reply, CallFailure>) -> CutOutcome {
        let outputs = &self.context.outputs;
        let readable = self.offers(READ_OUTPUT);
        let cut = match &mut outcome {
            Ok(reply) => outputs.cut(&mut reply.text, reply.structured.as_mut(), readable),
            Err(failure) => {
                let facts = failure.structured.as_deref_mut();
                outputs.cut(&mut failure.message, facts, readable)
            }
        };
        (outcome, cut)
    }
}

fn finish(
    (outcome, cut): CutOutcome,
    tool: String,
    decision: DecisionRecord,
    started: Instant,
) -> CallResult {
    match outcome {
        Ok(reply) => CallResult {
            ok: true,
            tool,
            content: reply.text,
            structured: reply.structured,
            error: None,
            code: None,
            runner: reply.ran.runner,
            decision,
            enforcement: reply.ran.enforcement,
            artifacts: reply.ran.artifacts,
            events: reply.ran.events,
            cut,
            duration: started.elapsed(),
        },
        Err(failure) => {
            let content = failure.to_string();
            let stopped = failure.code.stopped_by_policy();
            let stopped = stopped.map(|kind| PolicyEvent::new(kind, failure.message.clone()));
            let ran = failure.ran.map_or(ExecutionInfo::at("none"), |ran| *ran);
            let mut events = ran.events;
            events.extend(stopped);
            CallResult {
                ok: false,
                tool,
                content,
                error: Some(ErrorBody {
                    code: failure.code.as_str().to_owned(),
                    message: failure.message,
                    hint: failure.hint,
                    path: failure.path,
                }),
                structured: failure.structured.map(|facts| *facts),
                code: Some(failure.code),
                runner: ran.runner,
                decision,
                enforcement: ran.enforcement,
                artifacts: ran.artifacts,
                events,
                cut,
                duration: started.elapsed(),
            }
        }
    }
}

/// Reports a call that could not be recorded as failed, even if it succeeded: the log is the proof,
/// and work without proof must not look like work with it.
fn unrecorded(result: CallResult, may_have_changed: bool) -> CallResult {
    let mut failure = FailureCode::Internal
        .failure("The call could not be recorded in the audit log, so its result is withheld.");
    if result.ok && may_have_changed {
        failure = failure.hint("It has taken effect: do not repeat it.");
    }
    let decision = result.decision;
    let mut withheld = finish((Err(failure), None), result.tool, decision, Instant::now());
    withheld.duration = result.duration;
    withheld
}

/// The caller stopped waiting.
pub(crate) fn not_in_time(spec: &Spec, limit: Option<Duration>) -> CallFailure {
    let seconds = limit.unwrap_or_default().as_secs();
    let failure = FailureCode::TimeLimit.failure(format!(
        "{} was given up after {seconds} seconds.",
        spec.name
    ));
    if spec.annotations.read_only {
        failure.hint("Ask for less at once.")
    } else {
        failure.hint("It may still take effect: look before you repeat it.")
    }
}

pub(crate) fn placeholder_unknown(spec: &Spec, unknown: &UnknownPlaceholder) -> CallFailure {
    FailureCode::InvalidArguments.failure(format!("Cannot call {}: {unknown}.", spec.name))
    .hint(
        "It stands for a secret that is not shown. Take it as a result of this run shows it: read \
         the file again.",
    )
}

pub(crate) fn placeholder_in_command(spec: &Spec, placeholder: &str) -> CallFailure {
    FailureCode::InvalidArguments
        .failure(format!(
            "Cannot call {}: `{placeholder}` stands for a secret that is not shown, and would not \
             be put in its place here.",
            spec.name
        ))
        .hint("Let the command read it from its file, or write it with write_file or edit_file.")
}

pub(crate) fn blocked(spec: &Spec, judgement: &Judgement) -> CallFailure {
    let reason = judgement.reasons.first();
    let message = format!(
        "{} is blocked here: {}.",
        spec.name,
        reason.map_or("by a rule", |reason| reason.text.as_str())
    );
    let failure = FailureCode::Blocked.failure(message);
    match reason.and_then(|reason| reason.why.clone()) {
        Some(why) => failure.hint(format!("{why} Asking again does not change it.")),
        None => failure.hint("No approval changes this; do it another way."),
    }
}

pub(crate) fn denied(spec: &Spec, by: &str, reason: Option<String>) -> CallFailure {
    // The full name is for the record; process and user numbers say nothing to a model.
    let by = by.split(" (").next().unwrap_or_default();
    let (tool, by) = (&spec.name, crate::escape_controls(by));
    let message = match reason {
        Some(reason) => format!(
            "This call of {tool} was denied by {by}: {}",
            crate::escape_controls(&reason)
        ),
        None => format!("This call of {tool} was denied by {by}."),
    };
    FailureCode::Denied.failure(message).hint(
        "Asking again for the same is of no use. Other calls are open to you: ask what is wanted \
         instead, or go on without it.",
    )
}

pub(crate) fn unanswered(spec: &Spec, judgement: &Judgement, why_nobody: &str) -> CallFailure {
    let asked = asked_because(judgement);
    FailureCode::ApprovalRequired
        .failure(format!(
            "{} needs a person's approval ({asked}), and nobody could be asked: {why_nobody}.",
            spec.name
        ))
        .hint("Repeating the call does not help in this run; go on without it.")
}

/// The person agreed several times, each time to a state that had changed by then.
pub(crate) fn keeps_changing(spec: &Spec, judgement: &Judgement) -> CallFailure {
    let asked = asked_because(judgement);
    FailureCode::ApprovalRequired
        .failure(format!(
            "{} needs a person's approval ({asked}), and what it would change keeps changing while \
             a person looks at it. Nothing was done.",
            spec.name
        ))
        .hint("Repeat the call once nothing else changes the file.")
}

/// The question stays open; the approver that gave that answer knows how it is closed.
pub(crate) fn not_yet(spec: &Spec, judgement: &Judgement, why_not: &str) -> CallFailure {
    let asked = asked_because(judgement);
    FailureCode::ApprovalRequired.failure(format!(
        "{} needs a person's approval ({asked}): {why_not}.",
        spec.name
    ))
}

fn asked_because(judgement: &Judgement) -> &str {
    judgement
        .reasons
        .first()
        .map_or("it needs approval", |reason| reason.text.as_str())
}
