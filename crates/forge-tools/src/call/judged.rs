//! The part of a call that runs on a blocking thread: it finds the intents, has them judged and, if
//! no approval is needed, makes the call and records it.

use std::sync::Arc;

use tokio::task::JoinError;

use crate::audit::DecisionRecord;
use crate::call::approved::ApprovedCall;
use crate::call::outcome::placeholder_in_command;
use crate::call::pending::PendingCall;
use crate::call_result::{CallFailure, CallResult};
use crate::gate::{Intent, Judgement, Verdict};
use crate::params::Arguments;
use crate::result_quota::ResultPermit;
use crate::shell_session::ShellState;
use crate::tool::{Invocation, here};
use crate::tool_context::ToolContext;
use crate::toolbox_inner::ToolboxInner;

/// A call as it was understood.
pub(crate) struct ResolvedCall {
    pub(crate) index: usize,
    /// The arguments as the model wrote them.
    pub(crate) asked: Arc<Arguments>,
    /// The arguments with the values behind placeholders.
    pub(crate) args: Arc<Arguments>,
    /// The tool with these arguments.
    pub(crate) invocation: Arc<dyn Invocation>,
    pub(crate) intents: Arc<[Intent]>,
    /// How many of them the tool has named itself; the others are where those lead.
    pub(crate) named: usize,
}

impl ResolvedCall {
    pub(crate) fn executes(&self) -> bool {
        let executes = |intent: &Intent| matches!(intent, Intent::Execute(_));
        self.intents.iter().any(executes)
    }

    pub(crate) fn delegates(&self) -> bool {
        let delegates = |intent: &Intent| matches!(intent, Intent::Delegate(_));
        self.intents.iter().any(delegates)
    }

    /// Where its command begins, in a session.
    pub(crate) fn session(&self) -> Option<Arc<ShellState>> {
        self.intents.iter().find_map(|intent| match intent {
            Intent::Execute(line) => line.session().cloned(),
            Intent::Read(_)
            | Intent::ReadBelow(_)
            | Intent::Write(_)
            | Intent::Delete(_)
            | Intent::CreateDir(_)
            | Intent::Delegate(_) => None,
        })
    }

    /// Returns `true` if files are all that it touches, so that the time it takes is theirs.
    fn is_about_files(&self) -> bool {
        !self.intents.is_empty() && self.intents.iter().all(|intent| intent.path().is_some())
    }

    /// The key of an approval "for the run": the arguments, with each path in its canonical
    /// spelling.
    pub(crate) fn canonical(&self) -> String {
        self.asked.canonical_with(|text| {
            let mut paths = self.intents.iter().filter_map(Intent::path);
            paths.find_map(|path| (path.asked() == text).then(|| path.as_str()))
        })
    }
}

/// The result of [`ParsedCall::run_inline`].
pub(crate) enum InlineOutcome {
    /// The call needed neither an approval nor a wait, so it was made as well.
    Closed(Box<CallResult>),
    Judged(ResolvedCall, Judgement),
}

/// A call that is understood, on its way to a thread that may wait for files.
pub(crate) struct ParsedCall {
    pub(crate) inner: Arc<ToolboxInner>,
    pub(crate) index: usize,
    pub(crate) asked: Arc<Arguments>,
    pub(crate) args: Arc<Arguments>,
    pub(crate) invocation: Arc<dyn Invocation>,
    pub(crate) context: ToolContext,
    pub(crate) open: PendingCall,
    /// The permit for the result, until the client has taken it.
    pub(crate) place: Option<ResultPermit>,
}

/// A call that was judged, with everything that is needed to make it.
pub(crate) struct JudgedCall {
    pub(crate) inner: Arc<ToolboxInner>,
    pub(crate) wanted: ResolvedCall,
    pub(crate) judgement: Judgement,
    pub(crate) context: ToolContext,
    pub(crate) open: PendingCall,
    place: Option<ResultPermit>,
}

impl ParsedCall {
    /// Finds the intents of the call and has them judged.
    pub(crate) fn judge(self) -> Result<JudgedCall, CallFailure> {
        let tool = self.inner.tool(self.index);
        let intents = self
            .invocation
            .intents(&self.context.view())
            .inspect_err(|failure| {
                self.open.lock().details.decision = DecisionRecord::not_reached(format!(
                    "the worker is not able to: {}",
                    failure.code.as_str()
                ));
            })?;
        let named = intents.len();
        let intents = self.inner.reach.all(intents);
        self.open.lock().details.intents = intents.iter().map(ToString::to_string).collect();
        let wanted = ResolvedCall {
            index: self.index,
            asked: self.asked,
            args: self.args,
            invocation: self.invocation,
            intents: intents.into(),
            named,
        };
        if wanted.executes()
            && let Some(placeholder) = wanted.asked.placeholder()
        {
            return Err(placeholder_in_command(tool.spec(), placeholder));
        }
        let mut judgement = self.inner.judge(tool.spec(), &wanted.intents);
        if judgement.verdict != Verdict::Block {
            let context = self.context.for_person(&self.inner.reach);
            let doubts = wanted.invocation.confirmation_reasons(&context.view());
            judgement = judgement.with_confirmation(doubts);
        }
        self.open.lock().details.decision = DecisionRecord {
            verdict: Some(judgement.verdict),
            reasons: judgement.reasons.clone(),
            runner: judgement.runner.clone(),
            answer: None,
            by: None,
        };
        Ok(JudgedCall {
            inner: self.inner,
            wanted,
            judgement,
            context: self.context,
            open: self.open,
            place: self.place,
        })
    }

    /// Judges the call and, if nothing else is needed, makes and records it on this thread: handing
    /// it over again would cost more than many a call.
    pub(crate) fn run_inline(self) -> Result<InlineOutcome, CallFailure> {
        let JudgedCall {
            inner,
            wanted,
            judgement,
            mut context,
            open,
            place,
        } = self.judge()?;
        match judgement.verdict {
            Verdict::Allow if wanted.is_about_files() && inner.is_local(wanted.index) => {}
            Verdict::Allow | Verdict::Ask | Verdict::Block => {
                return Ok(InlineOutcome::Judged(wanted, judgement));
            }
        }
        // Waiting for other calls on the path, or for results to be taken, happens where it costs
        // no thread.
        let Ok(held) = inner.writing.try_lock(&wanted.intents) else {
            return Ok(InlineOutcome::Judged(wanted, judgement));
        };
        if place.is_some_and(|place| !place.try_acquire()) {
            return Ok(InlineOutcome::Judged(wanted, judgement));
        }
        context.writing = held;
        context.may_read(&inner.reach, &wanted.intents);
        open.lock().decided()?;
        let approved = ApprovedCall::new(&inner, wanted, context);
        let outcome = here(inner.runner.run(approved));
        let mut open = open.lock();
        match open.is_closed() {
            true => Err(CallFailure::cancelled()),
            false => Ok(InlineOutcome::Closed(Box::new(open.close(outcome)))),
        }
    }
}

/// Returns the result of another thread; continues a panic of that thread here.
pub(crate) fn joined<T>(found: Result<T, JoinError>) -> Result<T, CallFailure> {
    found.map_err(|stopped| match stopped.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => CallFailure::cancelled(),
    })
}
