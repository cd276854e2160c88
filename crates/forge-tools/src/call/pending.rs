//! A pending call, shared by its caller and the thread that looks at files for it. The one that
//! closes it first writes its record, and only one record is written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::audit::DecisionRecord;
use crate::call::outcome::CallRecordBuilder;
use crate::call::request::CallRequest;
use crate::call_result::{CallFailure, CallResult, FailureCode};
use crate::toolbox_inner::ToolboxInner;

pub(crate) struct PendingCall {
    call: Arc<Mutex<CallRecordBuilder>>,
    /// The waiting caller closes it when the waiting ends, for any reason.
    waits: bool,
}

impl PendingCall {
    pub(crate) fn new(inner: &Arc<ToolboxInner>, call: &CallRequest) -> Self {
        PendingCall {
            call: Arc::new(Mutex::new(CallRecordBuilder::new(inner, call))),
            waits: true,
        }
    }

    /// For the thread that works on it.
    pub(crate) fn share(&self) -> Self {
        PendingCall {
            call: Arc::clone(&self.call),
            waits: false,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, CallRecordBuilder> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the answer of the approver.
    pub(crate) fn record_answer(&self, answer: &'static str, by: String) {
        let decision = &mut self.lock().details.decision;
        decision.answer = Some(answer);
        decision.by = Some(by);
    }

    /// It was to be asked about, and cannot be carried out.
    pub(crate) fn record_not_asked(&self) {
        let why = "the call cannot be carried out, so nobody was asked";
        let decision = &mut self.lock().details.decision;
        let runner = decision.runner.take();
        *decision = DecisionRecord {
            runner,
            ..DecisionRecord::not_reached(why)
        };
    }

    /// Drops the call without a record: it starts anew later.
    pub(crate) fn discard(mut self) {
        self.waits = false;
    }

    /// Closes it since it takes too long, with `late` if something may have been done; none if it
    /// was closed in time after all.
    pub(crate) fn give_up(&self, late: CallFailure) -> Option<CallResult> {
        let mut call = self.lock();
        if call.is_closed() {
            return None;
        }
        let failure = if call.is_decided() {
            late
        } else {
            CallFailure::new(
                FailureCode::TimeLimit,
                "The files did not answer in time; nothing was done.",
            )
        };
        Some(call.close(Err(failure)))
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if self.waits {
            let mut call = self.lock();
            if !call.is_closed() {
                let _nobody_waits = call.close(Err(CallFailure::cancelled()));
            }
        }
    }
}
