//! Questions of a running command about hosts that no rule names. They go to the approver of the
//! call, and each answer is recorded before the connection is made.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sandbox_network::{AskHost, AskableHosts, Host, HostAnswer, HostPattern};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use crate::approval::{ApprovalAnswer, ApprovalRequest, Approver};
use crate::audit::{CallRecord, DecisionRecord, EventKind, PolicyEvent, Recorder};
use crate::call_result::{Caller, FailureCode};
use crate::gate::{Verdict, VerdictReason};
use crate::redact::Redactor;
use crate::run_answers::{ApprovalKey, RunAnswers};
use crate::spec::Spec;
use crate::toolbox_inner::ToolboxInner;

/// The tool of the record of an answer.
const CONNECT: &str = "connect";

/// The reason for a question.
const NO_RULE: &str = "no rule of `network` names it";

/// Bound on the time that the questions of one command take.
pub(crate) const MAX_ASKING: Duration = Duration::from_secs(60 * 60);

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

impl fmt::Debug for HostQuestions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostQuestions")
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}

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

    /// Returns the questions of a call's command; `None` if no person can answer now.
    pub(crate) fn of_call(
        inner: &ToolboxInner,
        approver: &Arc<dyn Approver>,
        spec: &Spec,
        arguments: Value,
    ) -> Option<HostQuestions> {
        approver.is_attended().then(|| HostQuestions {
            caller: inner.context.caller.clone(),
            tool: spec.name.clone(),
            arguments,
            runner: inner.place(spec),
            approver: Arc::clone(approver),
            recorder: Arc::clone(&inner.recorder),
            redactor: Arc::clone(&inner.redactor),
            answers: Arc::clone(&inner.allowed_for_run),
            turn: Arc::clone(&inner.asking),
            clock: Arc::default(),
        })
    }

    /// Returns the clock that stands still during questions.
    pub(crate) fn clock(&self) -> &Arc<QuestionClock> {
        &self.clock
    }

    /// Returns the asker for a broker, about these hosts. Questions are asked on a runtime that the
    /// approver can use.
    #[must_use]
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
            (
                HostAnswer::Run,
                "allowed",
                "allowed for this run".to_owned(),
            )
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
        let mut arguments = json!({ "host": host, "command": self.arguments["command"] });
        redactor.redact_json(&mut arguments);
        let mut record = CallRecord {
            workers: self.caller.chain().to_vec(),
            arguments,
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
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    CallRecord {
        call: None,
        at_ms: since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        }),
        workers: Vec::new(),
        tool: CONNECT.to_owned(),
        arguments: json!({ "host": host }),
        intents: vec![intent(host)],
        decision: DecisionRecord {
            verdict: Some(Verdict::Ask),
            reasons: vec![VerdictReason::new(NO_RULE)],
            runner: None,
            answer: Some(word),
            by: Some(by),
        },
        runner: "none",
        ok: code.is_none(),
        code: code.map(|code| code.as_str().to_owned()),
        content_bytes: 0,
        content_sha256: sandbox_names::hex(Sha256::digest([])),
        duration_us: 0,
        enforcement: None,
        artifacts: Vec::new(),
        events,
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
        let mut asked = AbortOnDrop(self.runtime.spawn(answer));
        // A panic of the approver is no agreement.
        Box::pin(async move { (&mut asked.0).await.unwrap_or(HostAnswer::Unanswered) })
    }
}

/// A question that is withdrawn when it is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<HostAnswer>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The clock of a command, which stands still while a person is asked.
#[derive(Debug, Default)]
pub(crate) struct QuestionClock {
    state: Mutex<ClockState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ClockState {
    /// Open questions.
    open: usize,
    /// The begin of the oldest open question.
    since: Option<Instant>,
    /// The time of questions that are closed.
    closed: Duration,
    has_ended: bool,
    timed_out: bool,
}

/// An open question.
struct Pause<'a>(&'a QuestionClock);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        if state.open == 0
            && let Some(since) = state.since.take()
        {
            state.closed += since.elapsed();
        }
        self.0.changed.notify_all();
    }
}

impl QuestionClock {
    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pause(&self) -> Pause<'_> {
        let mut state = self.lock();
        state.open += 1;
        state.since.get_or_insert_with(Instant::now);
        Pause(self)
    }

    /// Waits until the command has ended, or ends it at its limit. Returns at the end.
    fn watch(&self, begun: Instant, limit: Duration, kill: impl FnOnce()) {
        let mut state = self.lock();
        while !state.has_ended {
            let left = (limit + state.closed).saturating_sub(begun.elapsed());
            if state.open > 0 {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            } else if left.is_zero() {
                state.timed_out = true;
                drop(state);
                return kill();
            } else {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// Ends a command at its time limit, in which questions do not count.
pub(crate) struct CommandDeadline {
    clock: Arc<QuestionClock>,
    watch: Option<JoinHandle<()>>,
}

impl CommandDeadline {
    /// Starts the watch.
    ///
    /// # Errors
    /// The system is out of threads.
    pub(crate) fn start(
        clock: &Arc<QuestionClock>,
        limit: Duration,
        kill: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<CommandDeadline> {
        let (begun, own) = (Instant::now(), Arc::clone(clock));
        let watch = std::thread::Builder::new().spawn(move || own.watch(begun, limit, kill))?;
        Ok(CommandDeadline {
            clock: Arc::clone(clock),
            watch: Some(watch),
        })
    }

    /// Ends the watch; `true` if it has ended the command.
    pub(crate) fn end(mut self) -> bool {
        self.stop();
        self.clock.lock().timed_out
    }

    fn stop(&mut self) {
        self.clock.lock().has_ended = true;
        self.clock.changed.notify_all();
        if let Some(watch) = self.watch.take() {
            let _panicked = watch.join();
        }
    }
}

impl Drop for CommandDeadline {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A watchdog: nothing here takes that long.
    const WATCHDOG: Duration = Duration::from_secs(120);

    #[test]
    fn a_command_is_ended_at_its_limit() {
        let clock = Arc::default();
        let (kill, killed) = mpsc::channel();
        let limit = Duration::from_millis(1);
        let deadline =
            CommandDeadline::start(&clock, limit, move || kill.send(()).unwrap()).unwrap();
        killed.recv_timeout(WATCHDOG).unwrap();
        assert!(deadline.end());
    }

    #[test]
    fn a_question_does_not_count() {
        let clock: Arc<QuestionClock> = Arc::default();
        let (kill, killed) = mpsc::channel();
        let pause = clock.pause();
        let limit = Duration::from_millis(1);
        let kill = move || kill.send(()).unwrap();
        let deadline = CommandDeadline::start(&clock, limit, kill).unwrap();
        let inner = clock.pause();
        drop(pause);
        std::thread::sleep(Duration::from_millis(100));
        killed.try_recv().unwrap_err();
        drop(inner);
        killed.recv_timeout(WATCHDOG).unwrap();
        assert!(deadline.end());
    }

    #[test]
    fn the_end_of_a_command_ends_its_watch() {
        let clock = Arc::default();
        let kill = || panic!("it has ended");
        let deadline = CommandDeadline::start(&clock, Duration::from_secs(3600), kill).unwrap();
        assert!(!deadline.end());
    }
}
