//! The one executor. Every call of every tool goes through [`Toolbox::call`], in
//! one order: schema, capability, block, ask, preview, run, redact and cap, record.
//!
//! All work that may wait for a file system runs off the threads that serve other calls.

use std::sync::Arc;

use file_sandbox::CancellationToken;

use crate::approval::Approver;
use crate::blocking_handoff::BlockingHandoff;
use crate::call::outcome::not_in_time;
use crate::call::parsed::ParsedCall;
use crate::call::pending::PendingCall;
use crate::call::request::CallRequest;
use crate::call::run::{InlineOutcome, judge_and_run};
use crate::call_result::{CallFailure, CallResult, Caller};
use crate::deadline::{Elapsed, within};
use crate::spec::Spec;
use crate::toolbox_inner::{ToolboxInner, joined};

/// A worker's tools, and everything they may touch.
///
/// Cheap to clone; calls may run in parallel, questions to a person come one at a
/// time.
///
/// ```
/// let toolbox = forge_tools::Toolbox::builder().build().unwrap();
/// // Nothing was given, so nothing is offered.
/// assert_eq!(toolbox.specs().count(), 0);
/// ```
#[derive(Clone)]
pub struct Toolbox {
    pub(crate) inner: Arc<ToolboxInner>,
}

/// Cancels background work when its caller stops waiting.
pub(crate) struct CancelOnDrop(pub(crate) CancellationToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Toolbox {
    /// Takes the place of `earlier`: the handles of long results that it gave out remain valid.
    pub fn follow(&self, earlier: &Toolbox) {
        (self.inner.context.outputs).follow(&earlier.inner.context.outputs);
    }

    /// The tools that the worker may call, in a fixed order (files first, then commands, then
    /// workers; each group by name as built).
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.inner.offered_tools().map(|tool| tool.spec())
    }

    sandbox_names::getters! {
        /// The worker on whose behalf calls are made.
        pub caller: &Caller = &inner.context.caller;
        /// The approver of calls that bring none of their own.
        pub approver: &Arc<dyn Approver> = &inner.approver;
    }

    /// Makes one call and returns its result or failure. A call that is dropped half-way leaves a
    /// record as well.
    pub async fn call(&self, call: CallRequest) -> CallResult {
        let open = PendingCall::new(&self.inner, &call);
        match self.execute(&call, &open).await {
            Ok(result) => result,
            Err(failure) => open.lock().close(Err(failure)),
        }
    }

    /// Starts a new turn of the model with at most `max_calls` calls. Without a turn calls have no
    /// limit.
    pub fn begin_turn_of(&self, max_calls: u64) {
        self.inner.turn.begin(max_calls);
    }

    /// The result, recorded; a failure is still to be.
    async fn execute(
        &self,
        call: &CallRequest,
        open: &PendingCall,
    ) -> Result<CallResult, CallFailure> {
        let begun = self.inner.turn.count_call();
        let parsed = match begun {
            Ok(()) => ParsedCall::parse(&self.inner, call, open).await,
            Err(over) => Err(over),
        };
        let parsed = parsed.inspect_err(|_| {
            let arguments = &mut open.lock().details.arguments;
            // As they came.
            if arguments.is_null() {
                *arguments = call.arguments.clone();
            }
        })?;
        let tool = parsed.tool();
        // Cancels the work when the caller stops waiting.
        let stop = CancelOnDrop(parsed.cancellation());
        let mut working = match call.handoff.as_ref().and_then(BlockingHandoff::permit) {
            Some(seat) => tokio::spawn(async move {
                let begun = judge_and_run(parsed);
                drop(seat);
                begun
            }),
            None => tokio::task::spawn_blocking(move || judge_and_run(parsed)),
        };
        let begun = match within(self.inner.timeout, &mut working).await {
            Ok(begun) => joined(begun)?,
            Err(Elapsed) => match open.give_up(not_in_time(tool.spec(), self.inner.timeout)) {
                Some(result) => return Ok(result),
                // It ended in this moment.
                None => joined(working.await)?,
            },
        };
        let judged = match begun? {
            InlineOutcome::Closed(result) => return Ok(*result),
            InlineOutcome::Judged(judged) => judged,
        };
        let approver = call.approver.as_ref().unwrap_or(&self.inner.approver);
        let approved = judged.approve(approver, open).await?;
        let place = call.place.as_ref();
        let result = self.inner.make(approved, place, open).await?;
        drop(stop);
        Ok(result)
    }
}
