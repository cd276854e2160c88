//! A pending call, shared by its caller and the thread that looks at files for it. The one that
//! closes it first writes its record, and only one record is written.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::audit::DecisionRecord;
use crate::call::ending::{CommandCall, CommandProgress};
use crate::call::outcome::CallRecordBuilder;
use crate::call::request::CallRequest;
use crate::call_result::{CallFailure, CallResult, FailureCode};
use crate::toolbox_inner::ToolboxInner;

/// The record of a call, for its command.
#[derive(Clone)]
struct SharedCall(Arc<Mutex<CallRecordBuilder>>);

impl SharedCall {
    fn lock(&self) -> MutexGuard<'_, CallRecordBuilder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CommandCall for SharedCall {
    fn started(&self) {
        self.lock().command = CommandProgress::Running;
    }

    fn is_left(&self) -> bool {
        matches!(self.lock().command, CommandProgress::Left)
    }

    fn ended(&self, progress: CommandProgress) -> bool {
        let mut call = self.lock();
        let is_left = matches!(call.command, CommandProgress::Left);
        call.command = progress;
        if is_left {
            call.leave();
        }
        is_left
    }
}

impl fmt::Debug for SharedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedCall")
    }
}

pub(crate) struct PendingCall {
    call: SharedCall,
    /// The waiting caller closes it when the waiting ends, for any reason.
    waits: bool,
}

impl PendingCall {
    pub(crate) fn new(inner: &Arc<ToolboxInner>, call: &CallRequest) -> Self {
        PendingCall {
            call: SharedCall(Arc::new(Mutex::new(CallRecordBuilder::new(inner, call)))),
            waits: true,
        }
    }

    /// For the thread that works on it.
    pub(crate) fn share(&self) -> Self {
        PendingCall {
            call: self.call.clone(),
            waits: false,
        }
    }

    /// For the command of the call.
    pub(crate) fn of_command(&self) -> Arc<dyn CommandCall> {
        Arc::new(self.call.clone())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, CallRecordBuilder> {
        self.call.lock()
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
            FailureCode::TimeLimit.failure("The files did not answer in time; nothing was done.")
        };
        Some(call.close(Err(failure)))
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if self.waits {
            self.lock().leave();
        }
    }
}
