//! The one executor. Every call of every tool goes through [`Toolbox::call`], in
//! one order: schema, capability, block, ask, preview, run, redact and cap, record.
//!
//! Whatever may wait for a file system is done off the threads that serve other calls.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use file_sandbox::Cancel;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::approval::{Answer, ApprovalRequest, Approver};
use crate::audit::{DecisionRecord, Recorder};
use crate::builder::ToolboxBuilder;
use crate::call::{Call, CallResult, Caller, Code, Failure, Reply};
use crate::change::{Change, Seen};
use crate::deadline::{Elapsed, within};
use crate::gate::{Gate, Intent, Judgement, Request, Verdict};
use crate::hands::{Hands, View};
use crate::outcome::{
    OpenCall, READ_OUTPUT, Trail, blocked, denied, keeps_changing, not_in_time, not_yet,
    placeholder_in_command, placeholder_unknown, unanswered,
};
use crate::params::{Arguments, nearest};
use crate::redact::Redactor;
use crate::session::State;
use crate::spec::{Risk, Spec};
use crate::tool::Tool;
use crate::turn::Turn;
use crate::writing::Writing;

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
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) tools: Vec<Box<dyn Tool>>,
    pub(crate) hands: Hands,
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) recorder: Arc<dyn Recorder>,
    pub(crate) redactor: Arc<Redactor>,
    /// Answers "for this run".
    pub(crate) allowed_for_run: Mutex<HashSet<Agreed>>,
    /// One question at a time.
    pub(crate) asking: tokio::sync::Mutex<()>,
    /// How long looking at files, and a call that is neither a command nor a worker, may take.
    pub(crate) timeout: Option<Duration>,
    pub(crate) writing: Writing,
    pub(crate) turn: Turn,
}

/// What somebody agreed to for the rest of the run.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Agreed {
    /// A call, by worker, tool and canonical arguments, with all that was shown of it.
    Shown(String, String),
    /// The same call where it changes nothing, since what it makes of files is made.
    Done(String),
}

/// How often somebody is asked about one call, which is something else each time.
const MAX_QUESTIONS: usize = 3;

/// A call as it was understood.
struct Wanted {
    index: usize,
    /// The arguments as the model wrote them.
    asked: Arc<Arguments>,
    /// The same with the values behind placeholders.
    args: Arc<Arguments>,
    intents: Arc<[Intent]>,
}

impl Wanted {
    fn executes(&self) -> bool {
        let executes = |intent: &Intent| matches!(intent, Intent::Execute(_));
        self.intents.iter().any(executes)
    }

    /// Where its command begins, in a session.
    fn session(&self) -> Option<Arc<State>> {
        self.intents.iter().find_map(|intent| match intent {
            Intent::Execute(line) => line.session().cloned(),
            Intent::Read(_)
            | Intent::Write(_)
            | Intent::Delete(_)
            | Intent::CreateDir(_)
            | Intent::Delegate(_) => None,
        })
    }

    /// What an approval "for the run" is for: the arguments, with each path in its one spelling.
    fn canonical(&self) -> String {
        self.asked.canonical_with(|text| {
            self.intents.iter().find_map(|intent| match intent {
                Intent::Read(path)
                | Intent::Write(path)
                | Intent::Delete(path)
                | Intent::CreateDir(path) => (path.asked() == text).then(|| path.as_str()),
                Intent::Execute(_) | Intent::Delegate(_) => None,
            })
        })
    }
}

/// Most commands at once in this process. Each holds a thread, and of the same threads there are
/// a few hundred for looking at files: commands that hang must not hold up every other call.
const MAX_COMMANDS: usize = 128;

/// How long a command waits for others to end before it is given up.
const QUEUE: Duration = Duration::from_secs(60);

static COMMANDS: Semaphore = Semaphore::const_new(MAX_COMMANDS);

/// All that is shown of a call beside its arguments, which have more than one spelling; and of its
/// changes also what is behind placeholders.
fn digest(request: &ApprovalRequest, changes: &[Change]) -> String {
    let mut shown = ApprovalRequest {
        arguments: serde_json::Value::Null,
        ..request.clone()
    };
    shown.changes = changes.to_vec();
    crate::hex::hex(&Sha256::digest(shown.preview().as_bytes()))
}

fn seen(changes: &[Change]) -> Vec<(String, Seen)> {
    changes.iter().flat_map(Change::seen).cloned().collect()
}

/// Tells work that goes on by itself that nobody waits for it any more.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A place among the commands that run.
async fn command_slot(spec: &Spec) -> Result<SemaphorePermit<'static>, Failure> {
    match within(Some(QUEUE), COMMANDS.acquire()).await {
        Ok(Ok(slot)) => Ok(slot),
        Ok(Err(_)) | Err(Elapsed) => Err(Failure::new(
            Code::Limit,
            format!(
                "{} was not called: {MAX_COMMANDS} commands run already.",
                spec.name
            ),
        )
        .hint("Repeat it when some of them have ended.")),
    }
}

impl Inner {
    fn tool(&self, index: usize) -> &dyn Tool {
        &*self.tools[index]
    }

    fn view(&self) -> View<'_> {
        View { hands: &self.hands }
    }

    fn check_capability(&self, intents: &[Intent]) -> Result<(), Failure> {
        for intent in intents {
            match intent {
                Intent::Read(path) => {
                    self.hands.files()?.resolve(path)?;
                }
                Intent::Write(path) => self.hands.files()?.check_write(path)?,
                Intent::Delete(path) => self.hands.files()?.check_delete(path)?,
                Intent::CreateDir(path) => self.hands.files()?.check_create_dir(path)?,
                Intent::Execute(_) | Intent::Delegate(_) => {}
            }
        }
        Ok(())
    }

    /// Whether the worker sees a tool of this name.
    pub(crate) fn offers(&self, name: &str) -> bool {
        self.gate.offers(name) && self.tools.iter().any(|tool| tool.spec().name == name)
    }
}

impl Toolbox {
    /// A toolbox with nothing in it yet.
    pub fn builder() -> ToolboxBuilder {
        ToolboxBuilder::default()
    }

    /// Takes the place of `earlier`: the handles of long results that it gave out stay good.
    pub(crate) fn follow(&self, earlier: &Toolbox) {
        (self.inner.hands.outputs).follow(&earlier.inner.hands.outputs);
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

    /// Who answers what has to be asked, unless a call brings its own.
    pub fn approver(&self) -> &Arc<dyn Approver> {
        &self.inner.approver
    }

    /// Makes one call, whatever comes of it. A call that is dropped half-way leaves a
    /// record as well.
    pub async fn call(&self, call: Call) -> CallResult {
        let mut open = OpenCall::new(&self.inner, &call);
        let outcome = self.walk(&call, &mut open).await;
        open.close(outcome)
    }

    /// A new turn of the model begins: what its calls may come to together is counted from here.
    pub fn begin_turn(&self) {
        self.inner.turn.begin();
    }

    async fn walk(&self, call: &Call, open: &mut OpenCall<'_>) -> Result<Reply, Failure> {
        let trail = &mut open.trail;
        self.inner.turn.take()?;
        let index = self.find(&call.tool, trail)?;
        let tool = self.inner.tool(index);
        let spec = tool.spec();
        trail.tool = spec.name.clone();
        let asked = spec.params.parse(&call.arguments).map_err(|complaints| {
            let list: Vec<String> = complaints.iter().map(ToString::to_string).collect();
            let list = list.join("; ");
            let stop = if list.ends_with('?') { "" } else { "." };
            Failure::new(
                Code::InvalidArguments,
                format!("Cannot call {}: {list}{stop}", spec.name),
            )
            .structured(serde_json::json!({ "input_schema": spec.params.to_json_schema() }))
        })?;
        trail.arguments = asked.to_json();
        let asked = Arc::new(asked);
        let restored = spec
            .params
            .restore(&asked, &self.inner.redactor)
            .map_err(|unknown| placeholder_unknown(spec, &unknown))?;
        let args = restored.map_or_else(|| Arc::clone(&asked), Arc::new);

        let looks = Arc::clone(&args);
        let intents = self
            .look(move |inner| inner.tool(index).decide(&looks, &inner.view()))
            .await
            .flatten()
            .inspect_err(|failure| {
                trail.decision = DecisionRecord::not_reached(format!(
                    "the worker is not able to: {}",
                    failure.code.as_str()
                ));
            })?;
        trail.intents = intents.iter().map(ToString::to_string).collect();
        let wanted = Wanted {
            index,
            asked,
            args,
            intents: intents.into(),
        };
        if wanted.executes()
            && let Some(placeholder) = wanted.asked.placeholder()
        {
            return Err(placeholder_in_command(spec, placeholder));
        }

        let approver = call.approver.as_ref().unwrap_or(&self.inner.approver);
        let seen = self.decide(&wanted, &**approver, trail).await?;
        open.decided()?;
        self.run(wanted, seen, call).await
    }

    async fn run(
        &self,
        wanted: Wanted,
        seen: Vec<(String, Seen)>,
        call: &Call,
    ) -> Result<Reply, Failure> {
        let tool = self.inner.tool(wanted.index);
        // A command has a limit of its own, and a worker those of its run.
        let limit = match wanted.intents.iter().any(|intent| match intent {
            Intent::Execute(_) | Intent::Delegate(_) => true,
            Intent::Read(_) | Intent::Write(_) | Intent::Delete(_) | Intent::CreateDir(_) => false,
        }) {
            true => None,
            false => self.inner.timeout,
        };
        let _command = match wanted.executes() {
            true => Some(command_slot(tool.spec()).await?),
            false => None,
        };
        if let Some(place) = &call.place {
            place.enter().await;
        }
        let stop = CancelOnDrop(Cancel::new());
        let work = async {
            let mut hands = self.inner.hands.clone();
            hands.progress = call.progress.clone();
            hands.session = wanted.session();
            hands.reads_outputs = self.inner.offers(READ_OUTPUT);
            hands.redactor = Arc::clone(&self.inner.redactor);
            hands.cancel = stop.0.clone();
            hands.seen = seen;
            hands.writing = self.inner.writing.hold(&wanted.intents).await;
            tool.run(Arc::unwrap_or_clone(wanted.args), hands).await
        };
        within(limit, work)
            .await
            .unwrap_or_else(|Elapsed| Err(not_in_time(tool.spec(), limit)))
    }

    /// Looks at files for a call, off the threads that serve the others.
    async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let inner = Arc::clone(&self.inner);
        let looking = tokio::task::spawn_blocking(move || work(&inner));
        match within(self.inner.timeout, looking).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(stopped)) => match stopped.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Failure::new(Code::Cancelled, "The call was cancelled.")),
            },
            Err(Elapsed) => Err(Failure::new(
                Code::TimeLimit,
                "The files did not answer in time; nothing was done.",
            )),
        }
    }

    fn find(&self, name: &str, trail: &mut Trail) -> Result<usize, Failure> {
        if let Some(index) = self.inner.tools.iter().position(|tool| {
            let spec = tool.spec();
            spec.answers_to(name) && self.inner.gate.offers(&spec.name)
        }) {
            return Ok(index);
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

    /// The files as a person has seen them, where one was asked.
    async fn decide(
        &self,
        wanted: &Wanted,
        approver: &dyn Approver,
        trail: &mut Trail,
    ) -> Result<Vec<(String, Seen)>, Failure> {
        let spec = self.inner.tool(wanted.index).spec();
        let confined = self.confined();
        let judgement = self.inner.gate.judge(&Request {
            tool: &spec.name,
            risk: spec.risk,
            requires_permission: spec.requires_permission,
            needs_network: spec.needs_network,
            confined,
            intents: &wanted.intents,
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
            Verdict::Allow => Ok(Vec::new()),
            // Able first, then blocked, then asked: nobody is asked about what cannot
            // be done (F002-07, F002-08).
            Verdict::Block => {
                self.check_capability(wanted).await?;
                Err(blocked(spec, &judgement))
            }
            Verdict::Ask => {
                self.check_capability(wanted).await?;
                self.ask(wanted, judgement, approver, trail).await
            }
        }
    }

    async fn check_capability(&self, wanted: &Wanted) -> Result<(), Failure> {
        let (intents, args) = (Arc::clone(&wanted.intents), Arc::clone(&wanted.args));
        let index = wanted.index;
        self.look(move |inner| {
            inner.check_capability(&intents)?;
            inner.tool(index).check(&args, &inner.view())
        })
        .await
        .flatten()
    }

    async fn ask(
        &self,
        wanted: &Wanted,
        judgement: Judgement,
        approver: &dyn Approver,
        trail: &mut Trail,
    ) -> Result<Vec<(String, Seen)>, Failure> {
        let spec = self.inner.tool(wanted.index).spec();
        let key = format!(
            "{}\n{}\n{}{}",
            self.inner.hands.caller,
            spec.name,
            wanted.canonical(),
            // The same command elsewhere is another one.
            wanted
                .session()
                .map(|state| state.describe())
                .unwrap_or_default()
        );
        let _turn = self.inner.asking.lock().await;
        let mut changes = self.preview(wanted).await?;
        for _ in 0..MAX_QUESTIONS {
            let request = self.question(wanted, &judgement, &changes, trail);
            let shown = Agreed::Shown(key.clone(), digest(&request, &changes));
            if self.is_allowed(&shown)
                || request.changes_nothing() && self.is_allowed(&Agreed::Done(key.clone()))
            {
                trail.decision.answer = Some("allowed");
                trail.decision.by = Some("allowed for this run".to_owned());
                return Ok(seen(&changes));
            }
            let answer = match request.not_whole().filter(|_| approver.shows()) {
                Some(reason) => Answer::Unanswered { reason },
                None => approver.ask(&request).await,
            };
            let (by, for_run) = match answer {
                Answer::AllowOnce { by } => (by, false),
                Answer::AllowForRun { by } => (by, true),
                Answer::Deny { by, reason } => {
                    trail.decision.answer = Some("denied");
                    let failure = denied(spec, &by, reason);
                    trail.decision.by = Some(by);
                    return Err(failure);
                }
                Answer::Unanswered { reason } => {
                    trail.decision.answer = Some("unanswered");
                    trail.decision.by = Some(reason.clone());
                    return Err(unanswered(spec, &judgement, &reason));
                }
                Answer::Later { reason, hint } => {
                    trail.decision.answer = Some("unanswered");
                    trail.decision.by = Some(reason.clone());
                    return Err(not_yet(spec, &judgement, &reason).hint(hint));
                }
            };
            // Whoever is not shown what it would change has agreed to whatever it is.
            if approver.shows() {
                let before = std::mem::replace(&mut changes, self.preview(wanted).await?);
                let same = before.len() == changes.len()
                    && before.iter().zip(&changes).all(|(a, b)| a.reads_as(b));
                if !same {
                    continue;
                }
            }
            if for_run {
                let mut allowed = self.lock_allowed();
                allowed.insert(shown);
                allowed.insert(Agreed::Done(key));
            }
            trail.decision.answer = Some("allowed");
            trail.decision.by = Some(by);
            return Ok(match approver.shows() {
                true => seen(&changes),
                false => Vec::new(),
            });
        }
        trail.decision.answer = Some("unanswered");
        trail.decision.by = Some("what it would change kept changing".to_owned());
        Err(keeps_changing(spec, &judgement))
    }

    async fn preview(&self, wanted: &Wanted) -> Result<Vec<Change>, Failure> {
        let (index, args) = (wanted.index, Arc::clone(&wanted.args));
        self.look(move |inner| inner.tool(index).preview(&args, &inner.view()))
            .await
    }

    fn question(
        &self,
        wanted: &Wanted,
        judgement: &Judgement,
        changes: &[Change],
        trail: &Trail,
    ) -> ApprovalRequest {
        let spec = self.inner.tool(wanted.index).spec();
        ApprovalRequest {
            caller: self.inner.hands.caller.clone(),
            tool: spec.name.clone(),
            // As the model wrote them: what it knows is shown whole, what it does not know is not.
            arguments: wanted.asked.to_json(),
            intents: trail
                .intents
                .iter()
                .map(|intent| self.inner.redactor.redact(intent).into_owned())
                .collect(),
            changes: changes
                .iter()
                .map(|change| change.clone().redacted(&self.inner.redactor))
                .collect(),
            runner: self.runner(spec),
            network: self.network(spec),
            reasons: judgement.reasons.clone(),
            confined: self.confined(),
            only_a_person: judgement.only_a_person,
        }
    }

    fn is_allowed(&self, agreed: &Agreed) -> bool {
        self.lock_allowed().contains(agreed)
    }

    fn lock_allowed(&self) -> std::sync::MutexGuard<'_, HashSet<Agreed>> {
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
