//! Asking for approval: the question, the scope of the answer, and the check that the files are
//! unchanged when the answer arrives.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard};

use sha2::{Digest as _, Sha256};

use crate::approval::{ApprovalAnswer, ApprovalRequest, Approver};
use crate::call::judged::JudgedCall;
use crate::call::outcome::{denied, keeps_changing, not_yet, unanswered};
use crate::call::pending::PendingCall;
use crate::call_result::CallFailure;
use crate::change::{FileChange, ReviewedState};
use crate::gate::Judgement;
use crate::run_answers::ApprovalKey;
use crate::spec::Spec;
use crate::toolbox_inner::ToolboxInner;

/// Replaces a text that the difference shows.
const SHOWN_BELOW: &str = "(shown below)";

/// Most questions about one call with files that keep changing.
const MAX_QUESTIONS: usize = 3;

impl JudgedCall {
    /// Returns the files as they were shown to the person who agreed; a stored answer counts where
    /// everything that would be shown is equal.
    pub(super) async fn ask(
        &self,
        approver: &dyn Approver,
        open: &PendingCall,
    ) -> Result<Vec<(String, ReviewedState)>, CallFailure> {
        let (inner, spec, judgement) = (self.inner(), self.spec(), &self.judgement);
        let key = self.key();
        let _turn = inner.asking.lock().await;
        let changes = self.preview().await;
        let mut changes = changes.inspect_err(|_| open.record_not_asked())?;
        for _ in 0..MAX_QUESTIONS {
            let request = self.question(&changes);
            let shown = ApprovalKey::Shown(key.clone(), digest(&request, &changes));
            if inner.is_allowed(&shown)
                || request.changes_nothing() && inner.is_allowed(&ApprovalKey::Done(key.clone()))
            {
                open.record_answer("allowed", "an earlier answer".to_owned());
                return Ok(seen(&changes));
            }
            let answer = match request.truncation_reason().filter(|_| approver.shows()) {
                Some(reason) => ApprovalAnswer::Unanswered { reason },
                None => approver.ask(&request).await,
            };
            let (by, for_run) = agreement(answer, spec, judgement, open)?;
            // An approver that is not shown the change agrees to any change.
            if approver.shows() {
                let before = std::mem::replace(&mut changes, self.preview().await?);
                let same = before.len() == changes.len()
                    && before.iter().zip(&changes).all(|(a, b)| a.reads_as(b));
                if !same {
                    continue;
                }
            }
            if for_run && !request.counts_once() {
                let mut allowed = inner.lock_allowed();
                allowed.insert(shown);
                allowed.insert(ApprovalKey::Done(key));
            }
            open.record_answer("allowed", by);
            return Ok(match approver.shows() {
                true => seen(&changes),
                false => Vec::new(),
            });
        }
        open.record_answer(
            "unanswered",
            "what it would change kept changing".to_owned(),
        );
        Err(keeps_changing(spec, judgement))
    }

    /// The text that stored answers about a call are found by.
    fn key(&self) -> String {
        format!(
            "{}\n{}\n{}{}",
            self.inner().context.caller,
            self.spec().name,
            self.canonical(),
            // The command in another session state is another one.
            self.session()
                .map(|state| state.describe())
                .unwrap_or_default()
        )
    }

    async fn preview(&self) -> Result<Vec<FileChange>, CallFailure> {
        let invocation = Arc::clone(&self.parsed.invocation);
        let context = self.parsed.context.for_person(&self.inner().reach);
        let looking = move || invocation.preview(&context.view());
        self.inner().spawn_blocking(looking).await
    }

    fn question(&self, changes: &[FileChange]) -> ApprovalRequest {
        let (inner, spec, judgement) = (self.inner(), self.spec(), &self.judgement);
        let written = self.parsed.context.written.to_json();
        ApprovalRequest {
            caller: inner.context.caller.clone(),
            tool: spec.name.clone(),
            // As the model wrote them: known values are shown whole, placeholders stay
            // placeholders.
            arguments: self.parsed.asked.to_json_but(|name| {
                let shown = !changes.is_empty() && changes.iter().all(FileChange::is_whole);
                (shown && spec.params.is_of_a_file(name)).then(|| SHOWN_BELOW.to_owned())
            }),
            intents: self
                .intents
                .iter()
                .map(|intent| {
                    let text = intent.to_string();
                    let redactor = inner.redactor.for_question(&written, &[&text]);
                    redactor.redact(&text).into_owned()
                })
                .collect(),
            changes: changes
                .iter()
                .map(|change| change.clone().redacted(&inner.redactor))
                .collect(),
            runner: inner.place(spec),
            network: inner.network(spec),
            reasons: judgement.deciding().to_vec(),
            confined: inner.confined(),
            only_a_person: judgement.only_a_person,
            rules_to_allow: inner.rules_to_allow(judgement),
            host: None,
        }
    }
}

impl ToolboxInner {
    /// Returns the rules that would answer this question, unless one of them would show a secret.
    fn rules_to_allow(&self, judgement: &Judgement) -> Vec<String> {
        let rules = &judgement.rules_to_allow;
        let shows_secret = |rule: &String| self.redactor.redact(rule) != rule.as_str();
        match judgement.only_a_person || rules.iter().any(shows_secret) {
            true => Vec::new(),
            false => rules.clone(),
        }
    }

    fn is_allowed(&self, agreed: &ApprovalKey) -> bool {
        self.lock_allowed().contains(agreed)
    }

    fn lock_allowed(&self) -> MutexGuard<'_, HashSet<ApprovalKey>> {
        self.allowed_for_run.lock()
    }
}

/// Returns who agreed, and if it was for the whole run; records and returns any other answer.
fn agreement(
    answer: ApprovalAnswer,
    spec: &Spec,
    judgement: &Judgement,
    open: &PendingCall,
) -> Result<(String, bool), CallFailure> {
    let (answer, by, failure) = match answer {
        ApprovalAnswer::AllowOnce { by } => return Ok((by, false)),
        ApprovalAnswer::AllowForRun { by } => return Ok((by, true)),
        ApprovalAnswer::Deny { by, reason } => {
            let failure = denied(spec, &by, reason);
            ("denied", by, failure)
        }
        ApprovalAnswer::Unanswered { reason } => {
            let failure = unanswered(spec, judgement, &reason);
            ("unanswered", reason, failure)
        }
        ApprovalAnswer::Pending { reason, hint } => {
            let failure = not_yet(spec, judgement, &reason).hint(hint);
            ("unanswered", reason, failure)
        }
    };
    open.record_answer(answer, by);
    Err(failure)
}

/// Hashes everything that is shown of a call beside its arguments, which have more than one
/// spelling; of its changes also the values behind placeholders.
fn digest(request: &ApprovalRequest, changes: &[FileChange]) -> String {
    let mut shown = ApprovalRequest {
        arguments: serde_json::Value::Null,
        ..request.clone()
    };
    shown.changes = changes.to_vec();
    sandbox_names::hex(Sha256::digest(shown.preview().as_bytes()))
}

fn seen(changes: &[FileChange]) -> Vec<(String, ReviewedState)> {
    changes.iter().flat_map(FileChange::seen).cloned().collect()
}
