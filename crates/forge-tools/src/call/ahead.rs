//! The calls of one turn, prepared together: all questions about them are asked before any of them
//! is made.
//!
//! A question that depends on an earlier call of the turn (on an overlapping path, or in the
//! session of an earlier command) is asked when its turn comes: shown now, it would differ from the
//! actual change.

use std::sync::Arc;

use crate::call::approved::ApprovedCall;
use crate::call::judged::{JudgedCall, is_execution};
use crate::call::parsed::ParsedCall;
use crate::call::pending::PendingCall;
use crate::call::request::CallRequest;
use crate::call_result::CallResult;
use crate::deadline::within;
use crate::gate::{Intent, Verdict};
use crate::toolbox::{CancelOnDrop, Toolbox};
use crate::toolbox_inner::joined;

/// A call of a turn, on its way; see [`Toolbox::prepare`].
pub struct PreparedCall {
    toolbox: Toolbox,
    call: CallRequest,
    state: PreparedState,
}

enum PreparedState {
    /// Not asked about yet.
    Whole,
    /// The person was asked and agreed, or it only calls a worker. Made from here.
    Ready(Box<CallAhead>),
    /// The person was asked, and the call ended with the answer.
    Closed(Box<CallResult>),
}

/// A call that was asked about ahead, and allowed.
struct CallAhead {
    call: ApprovedCall,
    open: PendingCall,
    /// Cancels the work when the caller stops waiting.
    stop: CancelOnDrop,
}

/// The result of asking ahead.
enum AskAheadOutcome {
    Later,
    Ready(Box<ApprovedCall>, CancelOnDrop),
    Closed(Box<CallResult>),
}

impl Toolbox {
    /// Asks all questions about the calls of one turn, in their order, before any of them is made.
    /// [`PreparedCall::make`] then gives each result; a prepared call that is dropped instead is
    /// recorded as cancelled if it was asked about.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// use forge_tools::{CallRequest, Toolbox};
    /// let toolbox = Toolbox::builder().build().unwrap();
    /// let calls = vec![CallRequest::new("nothing", serde_json::json!({}))];
    /// rt.block_on(async {
    ///     for prepared in toolbox.prepare(calls).await {
    ///         assert_eq!(prepared.make().await.code, Some(forge_tools::FailureCode::UnknownTool));
    ///     }
    /// });
    /// ```
    pub async fn prepare(&self, calls: Vec<CallRequest>) -> Vec<PreparedCall> {
        let most = self.inner.turn.max_calls().unwrap_or(u64::MAX);
        let mut before: Vec<Arc<[Intent]>> = Vec::new();
        let mut all = Vec::with_capacity(calls.len());
        for (index, call) in calls.into_iter().enumerate() {
            let over = u64::try_from(index).map_or(true, |index| index >= most);
            let state = match over {
                // Refused at its turn, without a needless question.
                true => PreparedState::Whole,
                false => self.ahead(&call, &mut before).await,
            };
            all.push(PreparedCall {
                toolbox: self.clone(),
                call,
                state,
            });
        }
        all
    }

    async fn ahead(&self, call: &CallRequest, before: &mut Vec<Arc<[Intent]>>) -> PreparedState {
        let open = PendingCall::new(&self.inner, call);
        match self.ask_ahead(call, &open, before).await {
            AskAheadOutcome::Later => {
                open.discard();
                PreparedState::Whole
            }
            AskAheadOutcome::Ready(call, stop) => {
                let call = *call;
                PreparedState::Ready(Box::new(CallAhead { call, open, stop }))
            }
            AskAheadOutcome::Closed(result) => PreparedState::Closed(result),
        }
    }

    /// Asks about the call ahead. A call without a question is left for later: it is made whole
    /// then, with the knowledge of that moment.
    async fn ask_ahead(
        &self,
        call: &CallRequest,
        open: &PendingCall,
        before: &mut Vec<Arc<[Intent]>>,
    ) -> AskAheadOutcome {
        let Ok(parsed) = ParsedCall::parse(&self.inner, call, open).await else {
            return AskAheadOutcome::Later;
        };
        let stop = CancelOnDrop(parsed.cancellation());
        let judging = tokio::task::spawn_blocking(move || JudgedCall::judge(parsed));
        let Ok(judged) = within(self.inner.timeout, judging).await else {
            return AskAheadOutcome::Later;
        };
        let Ok(judged) = joined(judged).flatten() else {
            return AskAheadOutcome::Later;
        };
        let depends = depends(&judged, before);
        before.push(Arc::clone(&judged.intents));
        let verdict = judged.judgement.verdict;
        match verdict {
            Verdict::Allow if judged.delegates() => {}
            Verdict::Allow | Verdict::Block => return AskAheadOutcome::Later,
            Verdict::Ask if depends => return AskAheadOutcome::Later,
            Verdict::Ask => {
                if judged.check_capability().await.is_err() {
                    return AskAheadOutcome::Later;
                }
            }
        }
        let approver = call.approver.as_ref().unwrap_or(&self.inner.approver);
        let asked = async {
            self.inner.turn.count_call()?;
            if verdict != Verdict::Ask {
                return Ok(Vec::new());
            }
            judged.ask(&**approver, open).await
        };
        match asked.await {
            Ok(seen) => {
                let approved = judged.approved_by(approver, seen);
                AskAheadOutcome::Ready(Box::new(approved), stop)
            }
            Err(failure) => AskAheadOutcome::Closed(Box::new(open.lock().close(Err(failure)))),
        }
    }
}

impl PreparedCall {
    /// Makes the call and returns its result or failure.
    pub async fn make(self) -> CallResult {
        match self.state {
            PreparedState::Whole => self.toolbox.call(self.call).await,
            PreparedState::Closed(result) => *result,
            PreparedState::Ready(ready) => {
                let CallAhead { call, open, stop } = *ready;
                let place = self.call.place.as_ref();
                let made = self.toolbox.inner.make(call, place, &open).await;
                drop(stop);
                made.unwrap_or_else(|failure| open.lock().close(Err(failure)))
            }
        }
    }
}

/// `true` if the calls before this one may change the question about it.
fn depends(call: &JudgedCall, before: &[Arc<[Intent]>]) -> bool {
    let earlier = || before.iter().flat_map(|intents| intents.iter());
    if call.session().is_some() && earlier().any(is_execution) {
        return true;
    }
    call.intents.iter().any(|intent| {
        earlier().any(|other| match (intent.path(), other.path()) {
            (Some(a), Some(b)) if intent.changes() || other.changes() => {
                let (a, b) = (a.as_str(), b.as_str());
                is_at_or_below(a, b) || is_at_or_below(b, a)
            }
            (Some(_), Some(_)) | (None, _) | (_, None) => false,
        })
    })
}

fn is_at_or_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || dir.ends_with('/'))
}
