//! Questions of a running command about hosts that no rule names. They go to the approver of the
//! call, and each answer is recorded before the connection is made.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use sandbox_network::{AskHost, AskableHosts, Host, HostAnswer, HostPattern};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::approval::{ApprovalAnswer, ApprovalRequest, Approver};
use crate::audit::{CallRecord, DecisionRecord, EventKind, PolicyEvent, Recorder};
use crate::call_result::{Caller, FailureCode};
use crate::gate::{Verdict, VerdictReason};
use crate::question_clock::QuestionClock;
use crate::redact::Redactor;
use crate::run_answers::{ApprovalKey, RunAnswers};

/// The tool of the record of an answer.
const CONNECT: &str = "connect";

/// The reason for a question.
const NO_RULE: &str = "no rule of `network` names it";

/// Asks an approver about the hosts that a running command wants to reach, and records the answers.
///
/// ```no_run
/// # fn example(sandbox: &os_sandbox::Sandbox, runtime: &tokio::runtime::Handle) {
/// use std::sync::Arc;
/// use forge_tools::{HostQuestions, NamedHostProxy, NoApprover, NoRecord};
/// use sandbox_network::AskableHosts;
///
/// let nobody = Arc::new(NoApprover::because("this is an example"));
/// let questions = HostQuestions::new("exec", "curl example.com", nobody, Arc::new(NoRecord));
/// let asker = questions.asker(&AskableHosts::default(), runtime);
/// let proxy = NamedHostProxy::new(sandbox.plan()).unwrap();
/// let command = os_sandbox::Command::new(sandbox, "curl").host_proxy(proxy.asking(asker));
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct HostQuestions {
    caller: Caller,
    tool: String,
    /// The arguments of the call, as the model wrote them.
    arguments: Value,
    runner: &'static str,
    approver: Arc<dyn Approver>,
    recorder: Arc<dyn Recorder>,
    redactor: Arc<Redactor>,
    /// Answers "for this run".
    answers: Arc<RunAnswers>,
    /// One question at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
    clock: Arc<QuestionClock>,
}

sandbox_names::debug!(HostQuestions { tool });

impl HostQuestions {
    /// Returns the questions of a command that a person typed.
    pub fn new(
        tool: &str,
        command: &str,
        approver: Arc<dyn Approver>,
        recorder: Arc<dyn Recorder>,
    ) -> HostQuestions {
        HostQuestions {
            caller: Caller::default(),
            tool: tool.to_owned(),
            arguments: json!({ "command": command }),
            runner: "os",
            approver,
            recorder,
            redactor: Arc::default(),
            answers: Arc::default(),
            turn: Arc::default(),
            clock: Arc::default(),
        }
    }

    /// Replaces secrets in the log.
    pub fn redacted_by(self, redactor: Arc<Redactor>) -> HostQuestions {
        HostQuestions { redactor, ..self }
    }

    /// Returns the questions of a command that a worker's call runs.
    pub(crate) fn of_worker(
        self,
        caller: Caller,
        answers: Arc<RunAnswers>,
        turn: Arc<tokio::sync::Mutex<()>>,
    ) -> HostQuestions {
        HostQuestions {
            caller,
            answers,
            turn,
            ..self
        }
    }

    /// Returns the questions with the arguments of their call, and where it runs.
    pub(crate) fn of_call(self, arguments: Value, runner: &'static str) -> HostQuestions {
        HostQuestions {
            arguments,
            runner,
            ..self
        }
    }

    /// Returns the clock that stands still during questions.
    pub(crate) fn clock(&self) -> &Arc<QuestionClock> {
        &self.clock
    }

    /// Returns the asker for a broker, about these hosts. Questions are asked on a runtime that the
    /// approver can use.
    pub fn asker(&self, askable: &AskableHosts, runtime: &Handle) -> Arc<dyn AskHost> {
        Arc::new(HostAsker {
            questions: self.clone(),
            askable: askable.clone(),
            runtime: runtime.clone(),
        })
    }

    async fn answer(self, host: String) -> HostAnswer {
        let _pause = self.clock.pause();
        let _turn = self.turn.lock().await;
        let key = ApprovalKey::Host(self.caller.to_string(), host.clone());
        let (answer, word, by) = if self.answers.lock().contains(&key) {
            (HostAnswer::Run, "allowed", "an earlier answer".to_owned())
        } else {
            self.ask(&host).await
        };
        // An answer that cannot be recorded does not count.
        if self.record(&host, answer, word, by).is_err() {
            return HostAnswer::Unanswered;
        }
        if answer == HostAnswer::Run {
            self.answers.lock().insert(key);
        }
        answer
    }

    async fn ask(&self, host: &str) -> (HostAnswer, &'static str, String) {
        let request = self.request(host);
        let shown = || self.approver.shows();
        let answer = match request.truncation_reason().filter(|_| shown()) {
            Some(reason) => ApprovalAnswer::Unanswered { reason },
            None => self.approver.ask(&request).await,
        };
        match answer {
            ApprovalAnswer::AllowOnce { by } => (HostAnswer::Once, "allowed", by),
            ApprovalAnswer::AllowForRun { by } => (HostAnswer::Run, "allowed", by),
            ApprovalAnswer::Deny { by, .. } => (HostAnswer::No, "denied", by),
            // The command does not wait, so a later answer has no call to count for.
            ApprovalAnswer::Unanswered { reason } | ApprovalAnswer::Pending { reason, .. } => {
                (HostAnswer::Unanswered, "unanswered", reason)
            }
        }
    }

    fn request(&self, host: &str) -> ApprovalRequest {
        ApprovalRequest {
            caller: self.caller.clone(),
            tool: self.tool.clone(),
            arguments: self.arguments.clone(),
            intents: vec![intent(host)],
            changes: Vec::new(),
            runner: self.runner,
            network: true,
            reasons: vec![VerdictReason::new(NO_RULE)],
            confined: true,
            // No flag and no stored preference widens a list of hosts.
            only_a_person: true,
            rules_to_allow: vec![format!("host:{host}")],
            host: Some(host.to_owned()),
        }
    }

    fn record(
        &self,
        host: &str,
        answer: HostAnswer,
        word: &'static str,
        by: String,
    ) -> std::io::Result<()> {
        let redactor = &self.redactor;
        let intent = redactor.redact(&intent(host)).into_owned();
        let mut arguments = json!({ "host": host, "command": self.arguments["command"] });
        redactor.redact_json(&mut arguments);
        let mut record = CallRecord {
            workers: self.caller.chain().to_vec(),
            arguments,
            intents: vec![intent],
            ..host_record(host, answer, word, redactor.redact(&by).into_owned())
        };
        record.runner = self.runner;
        record.call = self.recorder.decided(&record.asked())?;
        self.recorder.record(&record)
    }
}

/// Returns the record of a person's answer about a host, without worker and command.
fn host_record(host: &str, answer: HostAnswer, word: &'static str, by: String) -> CallRecord {
    let (code, events) = match answer {
        HostAnswer::Once | HostAnswer::Run => (None, Vec::new()),
        HostAnswer::No => (Some(FailureCode::Denied), vec![denied(&by)]),
        HostAnswer::Unanswered => (Some(FailureCode::ApprovalRequired), vec![denied(&by)]),
    };
    let decision = DecisionRecord {
        answer: Some(word),
        by: Some(by),
        ..DecisionRecord::new(Some(Verdict::Ask), vec![VerdictReason::new(NO_RULE)])
    };
    let arguments = json!({ "host": host });
    CallRecord {
        ok: code.is_none(),
        code: code.map(|code| code.as_str().to_owned()),
        events,
        ..CallRecord::of_act(CONNECT, arguments, vec![intent(host)], decision)
    }
}

fn denied(by: &str) -> PolicyEvent {
    PolicyEvent::new(EventKind::Denied, by)
}

fn intent(host: &str) -> String {
    format!("connect to {host}")
}

struct HostAsker {
    questions: HostQuestions,
    askable: AskableHosts,
    runtime: Handle,
}

impl fmt::Debug for HostAsker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.questions.fmt(f)
    }
}

impl AskHost for HostAsker {
    fn askable(&self) -> &AskableHosts {
        &self.askable
    }

    fn ask(&self, host: &Host, port: u16) -> Pin<Box<dyn Future<Output = HostAnswer> + Send + '_>> {
        let Some(pattern) = HostPattern::exactly(host, port) else {
            return Box::pin(async { HostAnswer::Unanswered });
        };
        let answer = self.questions.clone().answer(pattern.to_string());
        let mut asked = WithdrawOnDrop(self.runtime.spawn(answer));
        // An approver that panics has not agreed.
        Box::pin(async move { (&mut asked.0).await.unwrap_or(HostAnswer::Unanswered) })
    }
}

/// A question that is withdrawn when it is dropped.
struct WithdrawOnDrop(tokio::task::JoinHandle<HostAnswer>);

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::approval::{AutoApprove, HostApprover, NoApprover};
    use crate::audit::{DecisionEntry, MemoryRecorder};
    use crate::tool::BoxFuture;

    /// Gives one answer after the other, and counts the questions.
    struct Answers(Mutex<Vec<ApprovalAnswer>>, Mutex<Vec<String>>);

    impl Approver for Answers {
        fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
            self.1.lock().unwrap().push(request.host.clone().unwrap());
            let answer = self.0.lock().unwrap().remove(0);
            Box::pin(async { answer })
        }
    }

    fn answers(list: impl IntoIterator<Item = ApprovalAnswer>) -> Arc<Answers> {
        Arc::new(Answers(
            Mutex::new(list.into_iter().collect()),
            Mutex::default(),
        ))
    }

    fn by() -> String {
        "a person".to_owned()
    }

    fn questions(approver: Arc<dyn Approver>, recorder: Arc<dyn Recorder>) -> HostQuestions {
        HostQuestions::new("shell", "curl", approver, recorder)
    }

    fn ask(questions: &HostQuestions, host: &str) -> HostAnswer {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let asker = questions.asker(&AskableHosts::default(), runtime.handle());
        let (host, port) = Host::parse_with_port(host).unwrap();
        runtime.block_on(asker.ask(&host, port))
    }

    #[test]
    fn answers_are_recorded_and_count_for_their_worker() {
        let said = [
            ApprovalAnswer::AllowForRun { by: by() },
            ApprovalAnswer::allow_once(by()),
            ApprovalAnswer::Deny {
                by: by(),
                reason: None,
            },
            ApprovalAnswer::Pending {
                reason: "later".to_owned(),
                hint: String::new(),
            },
            ApprovalAnswer::allow_once(by()),
        ];
        let (approver, recorder) = (answers(said), Arc::new(MemoryRecorder::default()));
        let main = questions(approver.clone(), recorder.clone());
        let child = HostQuestions {
            caller: main.caller.child("child"),
            ..main.clone()
        };
        assert_eq!(ask(&main, "run.org:443"), HostAnswer::Run);
        assert_eq!(ask(&main, "run.org:443"), HostAnswer::Run);
        assert_eq!(ask(&main, "run.org:80"), HostAnswer::Once);
        assert_eq!(ask(&main, "no.org:443"), HostAnswer::No);
        assert_eq!(ask(&main, "late.org:443"), HostAnswer::Unanswered);
        // The answer for the run is not one for a worker that it calls.
        assert_eq!(ask(&child, "run.org:443"), HostAnswer::Once);
        let asked = approver.1.lock().unwrap().clone();
        let expected = [
            "run.org:443",
            "run.org:80",
            "no.org:443",
            "late.org:443",
            "run.org:443",
        ];
        assert_eq!(asked, expected);
        let records = recorder.records();
        let recorded: Vec<_> = records
            .iter()
            .map(|one| {
                let decision = &one.decision;
                (
                    one.ok,
                    decision.answer.unwrap(),
                    decision.by.clone().unwrap(),
                )
            })
            .collect();
        let expected = [
            (true, "allowed", by()),
            (true, "allowed", "an earlier answer".to_owned()),
            (true, "allowed", by()),
            (false, "denied", by()),
            (false, "unanswered", "later".to_owned()),
            (true, "allowed", by()),
        ];
        assert_eq!(recorded, expected);
        assert!(records.iter().all(|one| one.ok != one.is_denied()));
        assert_eq!(records[5].workers.last().unwrap(), "child");
    }

    #[test]
    fn secrets_are_not_recorded() {
        let redactor = Redactor::new([("token", "sesame-sesame-sesame")]);
        let recorder = Arc::new(MemoryRecorder::default());
        let approver = answers([ApprovalAnswer::allow_once(by())]);
        let questions = HostQuestions::new(
            "exec",
            "curl -H sesame-sesame-sesame",
            approver,
            recorder.clone(),
        )
        .redacted_by(Arc::new(redactor));
        ask(&questions, "sesame-sesame-sesame.org:443");
        let recorded = serde_json::to_string(&recorder.records()).unwrap();
        assert!(!recorded.contains("sesame"), "{recorded}");
        assert!(recorded.contains("curl -H "), "{recorded}");
    }

    #[test]
    fn no_flag_answers() {
        let approvers: [Arc<dyn Approver>; 4] = [
            Arc::new(AutoApprove::confined()),
            Arc::new(AutoApprove::even_unconfined()),
            Arc::new(HostApprover),
            Arc::new(NoApprover::because("nobody")),
        ];
        for approver in approvers {
            assert!(!approver.is_attended());
            let recorder = Arc::new(MemoryRecorder::default());
            let answer = ask(&questions(approver, recorder), "a.org:443");
            assert_eq!(answer, HostAnswer::Unanswered);
        }
    }

    /// Records nothing.
    struct Full;

    impl Recorder for Full {
        fn decided(&self, _: &DecisionEntry<'_>) -> std::io::Result<Option<u64>> {
            Err(std::io::ErrorKind::StorageFull.into())
        }

        fn record(&self, _: &CallRecord) -> std::io::Result<()> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn an_answer_that_cannot_be_recorded_does_not_count() {
        let approver = answers([
            ApprovalAnswer::AllowForRun { by: by() },
            ApprovalAnswer::AllowForRun { by: by() },
        ]);
        let questions = questions(approver, Arc::new(Full));
        for _ in 0..2 {
            assert_eq!(ask(&questions, "a.org:443"), HostAnswer::Unanswered);
        }
    }
}
