//! The one executor. Every call of every tool goes through [`Toolbox::call`], in
//! one order: schema, capability, block, ask, run, cap, record.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use file_sandbox::FileSandbox;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::approval::{Answer, ApprovalRequest, Approver, NobodyAnswers};
use crate::call::{Call, CallResult, Caller, Code, ErrorBody, Failure, Reply};
use crate::gate::{Gate, Intent, Judgement, Request, SafeDefaults, Verdict};
use crate::hands::{Hands, View};
use crate::params::{Arguments, nearest};
use crate::record::{DecisionRecord, NoRecord, Record, Recorder};
use crate::spec::{Risk, Spec};
use crate::tool::Tool;
use crate::tools;

/// Most bytes of text that one call gives back to a model.
const MAX_CONTENT_BYTES: usize = 1024 * 1024;

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
    inner: Arc<Inner>,
}

struct Inner {
    tools: Vec<Box<dyn Tool>>,
    hands: Hands,
    gate: Arc<dyn Gate>,
    approver: Arc<dyn Approver>,
    recorder: Arc<dyn Recorder>,
    /// Answers "for this run", by tool, worker and canonical arguments.
    allowed_for_run: Mutex<HashSet<String>>,
    /// One question at a time.
    asking: tokio::sync::Mutex<()>,
}

impl Toolbox {
    /// A toolbox with nothing in it yet.
    pub fn builder() -> ToolboxBuilder {
        ToolboxBuilder::default()
    }

    /// What the worker may call, in a fixed order (files first, then commands, then
    /// workers; each group by name as built).
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.inner
            .tools
            .iter()
            .map(|tool| tool.spec())
            .filter(|spec| self.inner.gate.offers(&spec.name))
    }

    /// On whose behalf calls are made.
    pub fn caller(&self) -> &Caller {
        &self.inner.hands.caller
    }

    /// Makes one call, whatever comes of it. A call that is dropped half-way leaves a
    /// record as well.
    pub async fn call(&self, call: Call) -> CallResult {
        let mut open = OpenCall::new(&self.inner, &call);
        let outcome = self.walk(&call, &mut open.trail).await;
        open.close(outcome)
    }

    async fn walk(&self, call: &Call, trail: &mut Trail) -> Result<Reply, Failure> {
        let tool = self.find(&call.tool, trail)?;
        let spec = tool.spec();
        trail.tool = spec.name.clone();
        let args = spec.params.parse(&call.arguments).map_err(|complaints| {
            let list: Vec<String> = complaints.iter().map(ToString::to_string).collect();
            let list = list.join("; ");
            let stop = if list.ends_with('?') { "" } else { "." };
            Failure::new(
                Code::InvalidArguments,
                format!("Cannot call {}: {list}{stop}", spec.name),
            )
            .structured(serde_json::json!({ "input_schema": spec.params.to_json_schema() }))
        })?;
        trail.arguments = args.to_json();

        let view = View {
            hands: &self.inner.hands,
        };
        let intents = tool.decide(&args, &view).inspect_err(|failure| {
            trail.decision = DecisionRecord::not_reached(format!(
                "the worker is not able to: {}",
                failure.code.as_str()
            ));
        })?;
        trail.intents = intents.iter().map(ToString::to_string).collect();

        self.decide(tool, &args, &intents, trail).await?;
        tool.run(args, self.inner.hands.clone()).await
    }

    fn find(&self, name: &str, trail: &mut Trail) -> Result<&dyn Tool, Failure> {
        if let Some(tool) = self.inner.tools.iter().find(|tool| {
            let spec = tool.spec();
            spec.answers_to(name) && self.inner.gate.offers(&spec.name)
        }) {
            return Ok(tool.as_ref());
        }
        trail.decision = DecisionRecord::not_reached("no such tool");
        let names: Vec<&str> = self.specs().map(|spec| spec.name.as_str()).collect();
        let shown = crate::escape_controls(name);
        let failure = Failure::new(
            Code::UnknownTool,
            format!("There is no tool named `{shown}`."),
        );
        Err(match nearest(name, names.iter().copied()) {
            Some(near) => failure.hint(format!("Did you mean `{near}`?")),
            None if names.is_empty() => failure.hint("This worker has no tools."),
            None => failure.hint(format!("Available tools: {}", names.join(", "))),
        })
    }

    async fn decide(
        &self,
        tool: &dyn Tool,
        args: &Arguments,
        intents: &[Intent],
        trail: &mut Trail,
    ) -> Result<(), Failure> {
        let spec = tool.spec();
        let confined = self.confined();
        let judgement = self.inner.gate.judge(&Request {
            tool: &spec.name,
            risk: spec.risk,
            requires_permission: spec.requires_permission,
            needs_network: spec.needs_network,
            confined,
            intents,
        });
        trail.decision = DecisionRecord {
            verdict: Some(judgement.verdict),
            reasons: judgement.reasons.clone(),
            runner: judgement.runner.clone(),
            answer: None,
            by: None,
        };
        match judgement.verdict {
            // Nothing to be decided: doing it checks the capability by itself, in the
            // same step as the opening.
            Verdict::Allow => Ok(()),
            // Able first, then blocked, then asked: nobody is asked about what cannot
            // be done (F002-07, F002-08).
            Verdict::Block => {
                self.check_capability(intents)?;
                Err(blocked(spec, &judgement))
            }
            Verdict::Ask => {
                self.check_capability(intents)?;
                self.ask(tool, args, judgement, trail).await
            }
        }
    }

    fn check_capability(&self, intents: &[Intent]) -> Result<(), Failure> {
        for intent in intents {
            match intent {
                Intent::Read(path) => {
                    self.inner.hands.files()?.resolve(path)?;
                }
                Intent::Write(path) => self.inner.hands.files()?.check_write(path)?,
                Intent::Delete(path) => self.inner.hands.files()?.check_delete(path)?,
                Intent::CreateDir(path) => self.inner.hands.files()?.check_create_dir(path)?,
                Intent::Execute(_) | Intent::Delegate(_) => {}
            }
        }
        Ok(())
    }

    async fn ask(
        &self,
        tool: &dyn Tool,
        args: &Arguments,
        judgement: Judgement,
        trail: &mut Trail,
    ) -> Result<(), Failure> {
        let spec = tool.spec();
        let key = format!(
            "{}\n{}\n{}",
            self.inner.hands.caller,
            spec.name,
            args.canonical()
        );
        let _turn = self.inner.asking.lock().await;
        if self.lock_allowed().contains(&key) {
            trail.decision.answer = Some("allowed");
            trail.decision.by = Some("allowed for this run".to_owned());
            return Ok(());
        }
        let request = ApprovalRequest {
            caller: self.inner.hands.caller.clone(),
            tool: spec.name.clone(),
            arguments: args.to_json(),
            intents: trail.intents.clone(),
            changes: tool.preview(
                args,
                &View {
                    hands: &self.inner.hands,
                },
            ),
            runner: self.runner(spec),
            network: self.network(spec),
            reasons: judgement.reasons.clone(),
            confined: self.confined(),
            only_a_person: judgement.only_a_person,
        };
        match self.inner.approver.ask(&request).await {
            Answer::AllowOnce { by } => {
                trail.decision.answer = Some("allowed");
                trail.decision.by = Some(by);
                Ok(())
            }
            Answer::AllowForRun { by } => {
                self.lock_allowed().insert(key);
                trail.decision.answer = Some("allowed");
                trail.decision.by = Some(by);
                Ok(())
            }
            Answer::Deny { by, reason } => {
                trail.decision.answer = Some("denied");
                trail.decision.by = Some(by);
                Err(denied(spec, reason))
            }
            Answer::Unanswered { reason } => {
                trail.decision.answer = Some("unanswered");
                trail.decision.by = Some(reason.clone());
                Err(unanswered(spec, &judgement, &reason))
            }
        }
    }

    fn lock_allowed(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.inner
            .allowed_for_run
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a call of this tool runs.
    fn runner(&self, spec: &Spec) -> &'static str {
        match spec.risk {
            Risk::Exec if self.confined() => "os",
            Risk::Exec
            | Risk::ReadOnly
            | Risk::WritesWorkspace
            | Risk::WritesFs
            | Risk::Network => "local",
        }
    }

    #[cfg(feature = "process")]
    fn network(&self, spec: &Spec) -> bool {
        let processes = self.inner.hands.processes.as_ref();
        spec.needs_network
            || spec.risk == Risk::Exec && processes.is_some_and(crate::Processes::has_network)
    }

    #[cfg(not(feature = "process"))]
    fn network(&self, spec: &Spec) -> bool {
        spec.needs_network
    }

    #[cfg(feature = "process")]
    fn confined(&self) -> bool {
        self.inner
            .hands
            .processes
            .as_ref()
            .is_none_or(crate::Processes::is_confined)
    }

    #[cfg(not(feature = "process"))]
    fn confined(&self) -> bool {
        true
    }
}

/// What is known of a call so far; kept even if it fails half-way.
struct Trail {
    tool: String,
    arguments: Value,
    intents: Vec<String>,
    decision: DecisionRecord,
}

/// A call under way. Records itself when it is closed, and when it is dropped without
/// that, because whoever called stopped waiting.
struct OpenCall<'a> {
    inner: &'a Inner,
    trail: Trail,
    at_ms: u64,
    started: Instant,
    closed: bool,
}

impl<'a> OpenCall<'a> {
    fn new(inner: &'a Inner, call: &Call) -> Self {
        OpenCall {
            inner,
            trail: Trail {
                tool: call.tool.clone(),
                arguments: call.arguments.clone(),
                intents: Vec::new(),
                decision: DecisionRecord::not_reached("the call was malformed"),
            },
            at_ms: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| {
                    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
                }),
            started: Instant::now(),
            closed: false,
        }
    }

    fn close(&mut self, outcome: Result<Reply, Failure>) -> CallResult {
        self.closed = true;
        let decision = self.trail.decision.clone();
        let result = finish(outcome, self.trail.tool.clone(), decision, self.started);
        let record = Record {
            at_ms: self.at_ms,
            workers: self.inner.hands.caller.chain().to_vec(),
            tool: result.tool.clone(),
            arguments: std::mem::take(&mut self.trail.arguments),
            intents: std::mem::take(&mut self.trail.intents),
            decision: result.decision.clone(),
            runner: result.runner,
            ok: result.ok,
            code: result.code.map(|code| code.as_str().to_owned()),
            content_bytes: result.content.len(),
            content_sha256: hex(&Sha256::digest(result.content.as_bytes())),
            duration_us: u64::try_from(result.duration.as_micros()).unwrap_or(u64::MAX),
            enforcement: result.enforcement.clone(),
            artifacts: result.artifacts.clone(),
        };
        match self.inner.recorder.record(&record) {
            Ok(()) => result,
            Err(_) => unrecorded(result),
        }
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if !self.closed {
            let failure = Failure::new(Code::Cancelled, "The call was cancelled.");
            let _nobody_waits = self.close(Err(failure));
        }
    }
}

fn finish(
    outcome: Result<Reply, Failure>,
    tool: String,
    decision: DecisionRecord,
    started: Instant,
) -> CallResult {
    match outcome {
        Ok(reply) => CallResult {
            ok: true,
            tool,
            content: cap(reply.text),
            structured: reply.structured,
            error: None,
            code: None,
            runner: reply.runner,
            decision,
            enforcement: reply.enforcement,
            artifacts: reply.artifacts,
            duration: started.elapsed(),
        },
        Err(failure) => CallResult {
            ok: false,
            tool,
            content: cap(failure.to_string()),
            error: Some(ErrorBody {
                code: failure.code.as_str().to_owned(),
                message: failure.message,
                hint: failure.hint,
                path: failure.path,
            }),
            structured: failure.structured.map(|facts| *facts),
            code: Some(failure.code),
            runner: "none",
            decision,
            enforcement: None,
            artifacts: Vec::new(),
            duration: started.elapsed(),
        },
    }
}

/// A call that could not be recorded is reported as failed, whatever it did: the
/// log is the proof, and work without proof must not look like work with it.
fn unrecorded(result: CallResult) -> CallResult {
    let failure = Failure::new(
        Code::Internal,
        "The call could not be recorded in the audit log, so its result is withheld.",
    );
    let decision = result.decision;
    let mut withheld = finish(Err(failure), result.tool, decision, Instant::now());
    withheld.duration = result.duration;
    withheld
}

fn blocked(spec: &Spec, judgement: &Judgement) -> Failure {
    let reason = judgement.reasons.first();
    let message = format!(
        "{} is blocked here: {}.",
        spec.name,
        reason.map_or("by a rule", |reason| reason.text.as_str())
    );
    let failure = Failure::new(Code::Blocked, message);
    match reason.and_then(|reason| reason.why.clone()) {
        Some(why) => failure.hint(format!("{why} Asking again does not change it.")),
        None => failure.hint("No approval changes this; do it another way."),
    }
}

fn denied(spec: &Spec, reason: Option<String>) -> Failure {
    let message = match reason {
        Some(reason) => format!(
            "A person denied this call of {}: {}",
            spec.name,
            crate::escape_controls(&reason)
        ),
        None => format!("A person denied this call of {}.", spec.name),
    };
    Failure::new(Code::Denied, message)
        .hint("Do not repeat the same call; ask what is wanted instead, or go on without it.")
}

fn unanswered(spec: &Spec, judgement: &Judgement, why_nobody: &str) -> Failure {
    let asked = judgement
        .reasons
        .first()
        .map_or("it needs approval", |reason| reason.text.as_str());
    Failure::new(
        Code::ApprovalRequired,
        format!(
            "{} needs a person's approval ({asked}), and nobody could be asked: {why_nobody}.",
            spec.name
        ),
    )
    .hint("Repeating the call does not help in this run; go on without it.")
}

fn cap(text: String) -> String {
    if text.len() <= MAX_CONTENT_BYTES {
        return text;
    }
    let mut end = MAX_CONTENT_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!(
        "{}\n[cut: {} of {} bytes shown]",
        &text[..end],
        end,
        text.len()
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Puts a [`Toolbox`] together.
///
/// ```
/// use forge_tools::{AssumeYes, Toolbox};
/// let toolbox = Toolbox::builder().approver(AssumeYes::confined()).build().unwrap();
/// # let _ = toolbox;
/// ```
#[derive(Default)]
pub struct ToolboxBuilder {
    hands: Hands,
    gate: Option<Arc<dyn Gate>>,
    approver: Option<Arc<dyn Approver>>,
    recorder: Option<Arc<dyn Recorder>>,
    extra: Vec<Box<dyn Tool>>,
}

impl ToolboxBuilder {
    /// Gives the worker files, and with them the file tools.
    pub fn files(mut self, files: FileSandbox) -> Self {
        self.hands.files = Some(files);
        self
    }

    /// Gives the worker a way to run commands, and with it the `shell` tool.
    #[cfg(feature = "process")]
    pub fn processes(mut self, processes: crate::Processes) -> Self {
        self.hands.processes = Some(processes);
        self
    }

    /// Most bytes that one call may write to a file; without it, only the mounts' own
    /// limits hold.
    pub fn max_write_bytes(mut self, bytes: u64) -> Self {
        self.hands.max_write_bytes = Some(bytes);
        self
    }

    /// On whose behalf calls are made.
    pub fn caller(mut self, caller: Caller) -> Self {
        self.hands.caller = caller;
        self
    }

    /// Who decides; [`SafeDefaults`] if not said.
    pub fn gate(mut self, gate: impl Gate) -> Self {
        self.gate = Some(Arc::new(gate));
        self
    }

    /// Who answers; nobody if not said.
    pub fn approver(self, approver: impl Approver) -> Self {
        self.shared_approver(Arc::new(approver))
    }

    /// Who answers, shared with other toolboxes of the run.
    pub fn shared_approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Who keeps the records; nobody if not said.
    pub fn recorder(self, recorder: impl Recorder) -> Self {
        self.shared_recorder(Arc::new(recorder))
    }

    /// Who keeps the records, shared with other toolboxes of the run.
    pub fn shared_recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Adds a tool of the caller's own, after the built-in ones.
    pub fn tool(self, tool: impl Tool) -> Self {
        self.boxed_tool(Box::new(tool))
    }

    /// As [`tool`](Self::tool), for one that is boxed already.
    pub fn boxed_tool(mut self, tool: Box<dyn Tool>) -> Self {
        self.extra.push(tool);
        self
    }

    /// The finished toolbox.
    ///
    /// # Errors
    ///
    /// Two tools answer to one name.
    pub fn build(self) -> Result<Toolbox, ToolboxError> {
        let mut all: Vec<Box<dyn Tool>> = Vec::new();
        if self.hands.files.is_some() {
            all.extend(tools::file_tools());
        }
        #[cfg(feature = "process")]
        if self.hands.processes.is_some() {
            all.push(Box::new(tools::shell()));
        }
        all.extend(self.extra);
        let mut names = HashSet::new();
        for tool in &all {
            let spec = tool.spec();
            let spellings = std::iter::once(spec.name.as_str()).chain(spec.aliases.iter().copied());
            for name in spellings {
                if !names.insert(name.to_owned()) {
                    return Err(ToolboxError {
                        name: name.to_owned(),
                    });
                }
            }
        }
        Ok(Toolbox {
            inner: Arc::new(Inner {
                tools: all,
                hands: self.hands,
                gate: self.gate.unwrap_or_else(|| Arc::new(SafeDefaults)),
                approver: self.approver.unwrap_or_else(|| {
                    Arc::new(NobodyAnswers::because("this program asks nobody"))
                }),
                recorder: self.recorder.unwrap_or_else(|| Arc::new(NoRecord)),
                allowed_for_run: Mutex::new(HashSet::new()),
                asking: tokio::sync::Mutex::new(()),
            }),
        })
    }
}

/// Two tools answer to one name.
///
/// ```
/// fn name(error: &forge_tools::ToolboxError) -> String {
///     error.to_string()
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two tools answer to the name `{name}`")]
pub struct ToolboxError {
    name: String,
}
