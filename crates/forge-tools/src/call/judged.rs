//! The second step of a call: its intents are found and judged. Reads files, and blocks.

use std::sync::Arc;

use crate::approval::Approver;
use crate::audit::DecisionRecord;
use crate::call::approved::{ApprovedCall, session};
use crate::call::outcome::{blocked, placeholder_in_command};
use crate::call::parsed::ParsedCall;
use crate::call::pending::PendingCall;
use crate::call_result::CallFailure;
use crate::change::ReviewedState;
use crate::gate::{Intent, Judgement, Verdict};
use crate::host_questions::HostQuestions;
use crate::question_clock::AskingCommand;
use crate::shell_session::ShellState;
use crate::spec::Spec;
use crate::toolbox_inner::ToolboxInner;

/// A call with the judgement about it.
pub(crate) struct JudgedCall {
    pub(super) parsed: ParsedCall,
    pub(super) intents: Arc<[Intent]>,
    /// How many of them the tool has named itself; the others are where those lead.
    named: usize,
    pub(super) judgement: Judgement,
}

impl JudgedCall {
    /// Finds the intents of the call and has them judged.
    pub(crate) fn judge(parsed: ParsedCall) -> Result<JudgedCall, CallFailure> {
        let (inner, open) = (&parsed.inner, &parsed.open);
        let intents = parsed.invocation.intents(&parsed.context.view());
        let intents = intents.inspect_err(|failure| {
            open.lock().details.decision = DecisionRecord::not_reached(format!(
                "the worker is not able to: {}",
                failure.code.as_str()
            ));
        })?;
        let named = intents.len();
        let intents: Arc<[Intent]> = inner.reach.all(intents).into();
        open.lock().details.intents = intents.iter().map(ToString::to_string).collect();
        if intents.iter().any(is_execution)
            && let Some(placeholder) = parsed.asked.placeholder()
        {
            return Err(placeholder_in_command(parsed.spec(), placeholder));
        }
        let mut judgement = inner.judge(parsed.spec(), &intents);
        if judgement.verdict != Verdict::Block {
            let context = parsed.context.for_person(&inner.reach);
            let doubts = parsed.invocation.confirmation_reasons(&context.view());
            judgement = judgement.with_confirmation(doubts);
        }
        open.lock().details.decision = DecisionRecord {
            runner: judgement.runner.clone(),
            ..DecisionRecord::new(Some(judgement.verdict), judgement.reasons.clone())
        };
        Ok(JudgedCall {
            parsed,
            intents,
            named,
            judgement,
        })
    }

    /// Asks a person where that is needed, or refuses.
    pub(crate) async fn approve(
        self,
        approver: &Arc<dyn Approver>,
        open: &PendingCall,
    ) -> Result<ApprovedCall, CallFailure> {
        let seen = match self.judgement.verdict {
            // No decision is needed: the operation itself checks the capability, in one step with
            // the opening.
            Verdict::Allow => Vec::new(),
            // Able first, then blocked, then asked: impossible calls raise no questions.
            Verdict::Block => {
                self.check_capability().await?;
                return Err(blocked(self.spec(), &self.judgement));
            }
            Verdict::Ask => {
                let able = self.check_capability().await;
                able.inspect_err(|_| open.record_not_asked())?;
                self.ask(&**approver, open).await?
            }
        };
        Ok(self.approved_by(approver, seen))
    }

    /// The call as it may be made, whose command may ask this approver about hosts.
    pub(super) fn approved_by(
        mut self,
        approver: &Arc<dyn Approver>,
        seen: Vec<(String, ReviewedState)>,
    ) -> ApprovedCall {
        self.let_command_ask(approver);
        self.approved(seen)
    }

    /// Lets the command of the call ask about hosts, if it has a list of them and a person can answer
    /// now.
    fn let_command_ask(&mut self, approver: &Arc<dyn Approver>) {
        let (inner, spec) = (self.inner(), self.spec());
        let processes = self.parsed.context.processes.as_ref();
        let Some(processes) = processes.filter(|one| one.names_hosts()) else {
            return;
        };
        let is_command = self.intents.iter().any(is_execution);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if !is_command || !approver.is_attended() {
            return;
        }
        let recorder = Arc::clone(&inner.recorder);
        let questions = HostQuestions::new(&spec.name, "", Arc::clone(approver), recorder)
            .of_worker(
                inner.context.caller.clone(),
                Arc::clone(&inner.allowed_for_run),
                Arc::clone(&inner.asking),
            )
            .redacted_by(Arc::clone(&inner.redactor))
            .of_call(self.parsed.asked.to_json(), inner.place(spec));
        self.parsed.context.host_questions = Some(AskingCommand {
            asker: questions.asker(processes.askable(), &runtime),
            clock: Arc::clone(questions.clock()),
        });
    }

    /// The call as it may be made, with the files as a person was shown them.
    pub(super) fn approved(self, seen: Vec<(String, ReviewedState)>) -> ApprovedCall {
        let ParsedCall {
            tool,
            args,
            invocation,
            mut context,
            ..
        } = self.parsed;
        context.seen = seen;
        ApprovedCall {
            tool,
            args,
            invocation,
            intents: self.intents,
            context,
        }
    }

    /// Checks that the worker is able to make the call.
    pub(super) async fn check_capability(&self) -> Result<(), CallFailure> {
        let (intents, named) = (Arc::clone(&self.intents), self.named);
        let (inner, invocation) = (self.inner(), &self.parsed.invocation);
        let (own, invocation) = (Arc::clone(inner), Arc::clone(invocation));
        let context = self.parsed.context.clone();
        let checking = move || {
            own.check_capability(&intents[..named])?;
            invocation.check(&context.view())
        };
        inner.spawn_blocking(checking).await.flatten()
    }

    sandbox_names::getters! {
        pub(super) inner: &Arc<ToolboxInner> = &parsed.inner;
        pub(super) spec: &Spec = parsed.spec();
    }

    pub(super) fn delegates(&self) -> bool {
        let delegates = |intent: &Intent| matches!(intent, Intent::Delegate(_));
        self.intents.iter().any(delegates)
    }

    /// Returns the session in whose directory its command begins.
    pub(super) fn session(&self) -> Option<Arc<ShellState>> {
        session(&self.intents)
    }

    /// Returns `true` if files are all that it touches, so that the time it takes is theirs.
    pub(super) fn is_about_files(&self) -> bool {
        !self.intents.is_empty() && self.intents.iter().all(|intent| intent.path().is_some())
    }

    /// The key of an approval "for the run": the arguments, with each path in its canonical
    /// spelling.
    pub(super) fn canonical(&self) -> String {
        self.parsed.asked.canonical_with(|text| {
            let mut paths = self.intents.iter().filter_map(Intent::path);
            paths.find_map(|path| (path.asked() == text).then(|| path.as_str()))
        })
    }
}

pub(super) fn is_execution(intent: &Intent) -> bool {
    matches!(intent, Intent::Execute(_))
}
