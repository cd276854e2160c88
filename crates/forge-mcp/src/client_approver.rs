//! The person at the client, as an approver of one call. A question that the client cannot or will
//! not ask goes to the toolbox's own approver.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, BoxFuture};
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequiredResult, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleServer};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::questions::{Fingerprint, NO_PERSON, QuestionStore, fingerprint};

/// Longest wait for a client of the older kind. Some give up on a call after a minute, and the next
/// approver is to have the rest of it.
const WAIT: Duration = Duration::from_secs(45);

/// Longest question to a client, in bytes. A client may cut a longer one, and a question that is
/// not seen whole cannot be agreed to.
const MAX_QUESTION_BYTES: usize = 8 * 1024;

/// The answerer, in the record of a call, if the client refused sooner than a person can read.
///
/// Some clients declare that they can ask and refuse by themselves.
pub const REFUSED_AT_ONCE: &str = "the client, at once";

/// The one form in a result that asks for input.
const FORM: &str = "approval";

/// How the client of this call can be asked.
pub(super) enum ElicitationRoute {
    /// It did not say that it can be.
    None,
    /// By a request of ours, while the call waits.
    Request(Peer<RoleServer>),
    /// By the result of the call, which is then made again.
    Result {
        /// The answer that came back with this call, if it is a repeated one.
        given: Option<ReturnedAnswer>,
        /// Ties an answer to this call.
        call: Fingerprint,
    },
}

/// An answer that came back.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReturnedAnswer {
    /// The question that the person was shown.
    pub(super) shown: Fingerprint,
    pub(super) decision: ElicitedDecision,
    /// Faster than a person can read.
    pub(super) hasty: bool,
}

/// The decision of a person. Anything but an agreement is a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElicitedDecision {
    AllowOnce,
    AllowRun,
    Deny,
}

impl ElicitedDecision {
    /// Of the answer as it is on the wire.
    pub(super) fn of(answer: &ElicitResult) -> Self {
        let chosen = answer
            .content
            .as_ref()
            .and_then(|content| content.get("decision"))
            .and_then(Value::as_str);
        match (&answer.action, chosen) {
            (ElicitationAction::Accept, Some("allow_once")) => ElicitedDecision::AllowOnce,
            (ElicitationAction::Accept, Some("allow_run")) => ElicitedDecision::AllowRun,
            _ => ElicitedDecision::Deny,
        }
    }
}

/// The answer to the one form, among the answers that came with a call.
pub(super) fn answer_in(responses: Option<&BTreeMap<String, Value>>) -> Option<ElicitedDecision> {
    let answer = responses?.get(FORM)?;
    // An unintelligible answer is not an agreement.
    Some(
        serde_json::from_value::<ElicitResult>(answer.clone())
            .map_or(ElicitedDecision::Deny, |answer| {
                ElicitedDecision::of(&answer)
            }),
    )
}

/// Asks on behalf of one call.
pub(super) struct ClientApprover {
    questions: Arc<QuestionStore>,
    line: ElicitationRoute,
    /// Which policy the call is judged under.
    policy: u64,
    next: Arc<dyn Approver>,
    /// The question that is to be the result of the call.
    asked: Mutex<Option<InputRequiredResult>>,
}

impl ClientApprover {
    pub(super) fn new(
        questions: Arc<QuestionStore>,
        line: ElicitationRoute,
        policy: u64,
        next: Arc<dyn Approver>,
    ) -> Self {
        ClientApprover {
            questions,
            line,
            policy,
            next,
            asked: Mutex::default(),
        }
    }

    /// The question that has to go out in place of the call's result.
    pub(super) fn take_question(&self) -> Option<InputRequiredResult> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Asks the person at the client; `None` if the client cannot or will not ask.
    async fn ask_client(&self, request: &ApprovalRequest) -> Option<ApprovalAnswer> {
        let call = json!([
            self.policy,
            request.caller.chain(),
            request.tool,
            request.arguments,
        ]);
        let done = fingerprint(&json!([call, "done"]));
        let key = fingerprint(&json!([call, "shown", request.preview()]));
        let is_agreed = || {
            self.questions.is_agreed(&key)
                || request.changes_nothing() && self.questions.is_agreed(&done)
        };
        if !request.only_a_person && is_agreed() {
            return Some(ApprovalAnswer::allow_once(
                "a person at the client, for a while",
            ));
        }
        // A question in the result of a call would start its command a second time.
        let by_result = matches!(self.line, ElicitationRoute::Result { .. });
        if request.host.is_some() && by_result {
            return None;
        }
        let question = ElicitationForm::about(request)?;
        let keys = [key, done];
        if let ElicitationRoute::Result {
            given: Some(given), ..
        } = &self.line
            && given.shown == question.shown()
        {
            let answer = self.take(request, keys, given.decision, given.hasty);
            return Some(answer.await);
        }
        if self.questions.client_is_hasty() {
            match self.next.ask(request).await {
                ApprovalAnswer::Unanswered { .. } => {}
                answer => return Some(answer),
            }
        }
        match &self.line {
            ElicitationRoute::None => None,
            ElicitationRoute::Result { call, .. } => {
                let state = self.questions.seal(call, &question.shown())?;
                *self.asked.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(question.into_result(state));
                Some(ApprovalAnswer::unanswered(
                    "the client has the question, and calls again with the answer",
                ))
            }
            ElicitationRoute::Request(peer) => {
                let asked = Instant::now();
                let answer = question.send(peer).await?;
                let hasty = asked.elapsed() < NO_PERSON;
                let decision = ElicitedDecision::of(&answer);
                Some(self.take(request, keys, decision, hasty).await)
            }
        }
    }

    async fn take(
        &self,
        request: &ApprovalRequest,
        keys: [Fingerprint; 2],
        decision: ElicitedDecision,
        hasty: bool,
    ) -> ApprovalAnswer {
        let by = "a person at the client".to_owned();
        match decision {
            // The client has a preference; this one is only for people.
            ElicitedDecision::AllowOnce | ElicitedDecision::AllowRun
                if hasty && request.only_a_person =>
            {
                self.next.ask(request).await
            }
            ElicitedDecision::AllowRun if !request.only_a_person && !request.counts_once() => {
                for key in keys {
                    self.questions.agree(key);
                }
                ApprovalAnswer::allow_once(format!("{by}, for a while"))
            }
            ElicitedDecision::AllowOnce | ElicitedDecision::AllowRun => {
                ApprovalAnswer::AllowOnce { by }
            }
            ElicitedDecision::Deny => {
                self.questions.note_refusal(hasty);
                if hasty {
                    ApprovalAnswer::Deny {
                        by: REFUSED_AT_ONCE.to_owned(),
                        reason: Some(
                            "the client program refused at once, so perhaps nobody saw the question"
                                .to_owned(),
                        ),
                    }
                } else {
                    ApprovalAnswer::Deny { by, reason: None }
                }
            }
        }
    }
}

impl Approver for ClientApprover {
    fn is_attended(&self) -> bool {
        matches!(self.line, ElicitationRoute::Request(_)) || self.next.is_attended()
    }

    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async {
            match self.ask_client(request).await {
                Some(answer) => answer,
                None => self.next.ask(request).await,
            }
        })
    }
}

/// The question to a person, and the form for the answer.
struct ElicitationForm {
    message: String,
    schema: ElicitationSchema,
}

impl ElicitationForm {
    /// Returns `None` if it is too long to be surely seen whole.
    fn about(request: &ApprovalRequest) -> Option<Self> {
        let mut message = request.preview();
        message.push_str(match &request.host {
            Some(_) => "\nallow_once  this command reaches it, until the command ends\n",
            None => "\nallow_once  this call, as it is shown\n",
        });
        let mut choices = vec!["allow_once"];
        if !request.only_a_person && !request.counts_once() {
            message.push_str(&format!(
                "allow_run   also every further {}, until this server ends, for 30 minutes at most\n",
                request.scope()
            ));
            choices.push("allow_run");
        }
        message.push_str("deny        not at all\n");
        choices.push("deny");
        if message.len() > MAX_QUESTION_BYTES {
            return None;
        }
        let schema = serde_json::from_value(json!({
            "type": "object",
            "properties": {
                "decision": {"type": "string", "enum": choices, "default": "deny"},
            },
            "required": ["decision"],
        }));
        Some(ElicitationForm {
            message,
            schema: schema.ok()?,
        })
    }

    fn shown(&self) -> Fingerprint {
        fingerprint(&Value::from(self.message.as_str()))
    }

    /// Sends the question; `None` if it took too long, or the client cannot do as it announced.
    async fn send(self, peer: &Peer<RoleServer>) -> Option<ElicitResult> {
        let request = ServerRequest::ElicitRequest(self.into_request());
        let options = PeerRequestOptions::with_timeout(WAIT);
        let sent = peer.send_request_with_option(request, options).await;
        match sent.ok()?.await_response().await {
            Ok(ClientResult::ElicitResult(answer)) => Some(answer),
            Ok(_) | Err(_) => None,
        }
    }

    fn into_request(self) -> ElicitRequest {
        ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: self.message,
            requested_schema: self.schema,
        })
    }

    fn into_result(self, state: String) -> InputRequiredResult {
        let form = InputRequest::Elicitation(self.into_request());
        let forms = BTreeMap::from([(FORM.to_owned(), form)]);
        InputRequiredResult::new(Some(forms), Some(state))
    }
}
