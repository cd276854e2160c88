//! The last step of a call: its work is done, here or elsewhere, and its result recorded.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::call::approved::{ApprovedCall, session};
use crate::call::judged::{JudgedCall, is_execution};
use crate::call::outcome::not_in_time;
use crate::call::parsed::ParsedCall;
use crate::call::pending::PendingCall;
use crate::call_result::{CallFailure, CallResult, FailureCode, Reply};
use crate::deadline::{Elapsed, within};
use crate::gate::Verdict;
use crate::result_quota::ResultPermit;
use crate::spec::Spec;
use crate::tool::here;
use crate::toolbox_inner::ToolboxInner;

/// Most commands at once in this process. Each occupies a thread, of which a few hundred serve
/// files as well: commands that hang must not block every other call.
const MAX_COMMANDS: usize = 128;

/// How long a command waits for others to end before it is given up.
const QUEUE: Duration = Duration::from_secs(60);

static COMMANDS: Semaphore = Semaphore::const_new(MAX_COMMANDS);

/// A place among the commands that run.
async fn command_slot(spec: &Spec) -> Result<SemaphorePermit<'static>, CallFailure> {
    match within(Some(QUEUE), COMMANDS.acquire()).await {
        Ok(Ok(slot)) => Ok(slot),
        Ok(Err(_)) | Err(Elapsed) => Err(FailureCode::Limit
            .failure(format!(
                "{} was not called: {MAX_COMMANDS} commands run already.",
                spec.name
            ))
            .hint("Repeat it when some of them have ended.")),
    }
}

impl ToolboxInner {
    /// Makes a call that was allowed, and records it.
    pub(crate) async fn make(
        &self,
        call: ApprovedCall,
        place: Option<&ResultPermit>,
        open: &PendingCall,
    ) -> Result<CallResult, CallFailure> {
        open.lock().decided()?;
        let reply = self.run(call, place).await?;
        Ok(open.lock().close(Ok(reply)))
    }

    async fn run(
        &self,
        mut call: ApprovedCall,
        place: Option<&ResultPermit>,
    ) -> Result<Reply, CallFailure> {
        let (tool, intents) = (Arc::clone(&call.tool), Arc::clone(&call.intents));
        // A command has a limit of its own, and a worker those of its run.
        let limit = match intents.iter().any(|intent| intent.path().is_none()) {
            true => None,
            false => self.timeout,
        };
        let _command = match intents.iter().any(is_execution) {
            true => Some(command_slot(tool.spec()).await?),
            false => None,
        };
        if let Some(place) = place {
            place.acquire().await;
        }
        let work = async {
            call.context.may_read(&self.reach, &intents);
            call.context.session = session(&intents);
            call.context.writing = self.writing.lock(&intents).await;
            self.runner.run(call).await
        };
        within(limit, work)
            .await
            .unwrap_or_else(|Elapsed| Err(not_in_time(tool.spec(), limit)))
    }
}

/// The result of [`judge_and_run`].
pub(crate) enum InlineOutcome {
    /// The call needed neither an approval nor a wait, so it was made as well.
    Closed(Box<CallResult>),
    Judged(Box<JudgedCall>),
}

/// Judges the call and, if nothing else is needed, makes and records it on this thread: handing it
/// over again would cost more than many a call.
pub(crate) fn judge_and_run(parsed: ParsedCall) -> Result<InlineOutcome, CallFailure> {
    let open = parsed.open.share();
    let judged = JudgedCall::judge(parsed)?;
    let inner = Arc::clone(judged.inner());
    match judged.judgement.verdict {
        Verdict::Allow if judged.is_about_files() && inner.is_local(judged.spec()) => {}
        Verdict::Allow | Verdict::Ask | Verdict::Block => {
            return Ok(InlineOutcome::Judged(Box::new(judged)));
        }
    }
    // Waiting for other calls on the path, or for results to be taken, happens where it costs
    // no thread.
    let Ok(held) = inner.writing.try_lock(&judged.intents) else {
        return Ok(InlineOutcome::Judged(Box::new(judged)));
    };
    let place = judged.parsed.place.as_ref();
    if place.is_some_and(|place| !place.try_acquire()) {
        return Ok(InlineOutcome::Judged(Box::new(judged)));
    }
    let mut approved = judged.approved(Vec::new());
    approved.context.writing = held;
    approved.context.may_read(&inner.reach, &approved.intents);
    open.lock().decided()?;
    let outcome = here(inner.runner.run(approved));
    let mut open = open.lock();
    match open.is_closed() {
        true => Err(CallFailure::cancelled()),
        false => Ok(InlineOutcome::Closed(Box::new(open.close(outcome)))),
    }
}
