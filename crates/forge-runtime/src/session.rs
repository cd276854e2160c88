//! One run of a worker tree: the loop that takes a model's turns, makes its calls,
//! and gives the results back until it has nothing more to call.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forge_tools::{
    Approver, BoxFuture, Call, CallResult, Caller, Code, NoRecord, NobodyAnswers, Recorder,
    Redactor, Risk, Toolbox,
};
use sandbox_config::{Grant, Worker};

use crate::budget::{Asking, Budget, Repeated, Repeats, Timed};
use crate::delegate;
use crate::equip::{EquipError, OsSandbox, equip};
use crate::model::{
    Event, Message, Model, ModelError, Models, Request, Stop, ToolCall, ToolDescription,
    ToolResult, Usage, collect,
};
use crate::report::{End, NoObserver, Observer, RunEvent, RunReport};

/// Most tool calls in a whole run.
const MAX_CALLS_PER_RUN: u64 = 20_000;
/// Calls that only read run side by side, this many at once.
const PARALLEL_READS: usize = 4;

/// A run of a worker tree.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// use forge_runtime::{Playbook, Scripted, Session};
/// use sandbox_config::{Grant, Sources, load};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(dir.path().join("workers")).unwrap();
/// # let text = "---\nname: hello\n---\nSay hello.\n";
/// # std::fs::write(dir.path().join("workers/hello.worker"), text).unwrap();
/// let worker = load(&Sources::new(dir.path())).unwrap().worker("hello").unwrap();
/// let playbook = Playbook::parse("version: 1\nworkers: {hello: [{say: 'hi, {{ input }}'}]}");
/// let model = Scripted::new("example", playbook.unwrap());
///
/// let session = Session::builder(model).build();
/// let report = rt.block_on(session.run(&worker, Grant::empty(), "you"));
/// assert_eq!(report.end, forge_runtime::End::Answered { answer: "hi, you".into() });
/// ```
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

struct Shared {
    model: Arc<dyn Model>,
    models: Option<Arc<dyn Models>>,
    workers: BTreeMap<String, Worker>,
    max_depth: u64,
    max_children: u64,
    os: OsSandbox,
    approver: Arc<dyn Approver>,
    asking: Arc<Asking>,
    recorder: Arc<dyn Recorder>,
    redactor: Arc<Redactor>,
    observer: Arc<dyn Observer>,
    turns: AtomicU64,
    calls: AtomicU64,
    tokens: AtomicU64,
    cost: AtomicU64,
    unanswered: Mutex<Vec<String>>,
    warned: Mutex<Vec<String>>,
}

impl Session {
    /// A session with its model; the rest has defaults that give nothing away:
    /// nobody answers, commands are not run.
    pub fn builder(model: impl Model) -> SessionBuilder {
        SessionBuilder {
            shared: Shared {
                model: Arc::new(model),
                models: None,
                workers: BTreeMap::new(),
                max_depth: 5,
                max_children: 16,
                os: OsSandbox::Off,
                approver: Arc::new(NobodyAnswers::because("this program asks nobody")),
                asking: Arc::new(Asking::default()),
                recorder: Arc::new(NoRecord),
                redactor: Arc::default(),
                observer: Arc::new(NoObserver),
                turns: AtomicU64::new(0),
                calls: AtomicU64::new(0),
                tokens: AtomicU64::new(0),
                cost: AtomicU64::new(0),
                unanswered: Mutex::new(Vec::new()),
                warned: Mutex::new(Vec::new()),
            },
        }
    }

    /// Runs `worker` on `input`, with what `grant` gives it. Needs a tokio runtime with
    /// a timer, for the limits on time.
    pub async fn run(&self, worker: &Worker, grant: Grant, input: &str) -> RunReport {
        let caller = Caller::new(worker.name());
        let end = self
            .run_worker(worker.clone(), grant, caller, input.to_owned(), None)
            .await;
        RunReport {
            end,
            turns: self.shared.turns.load(Ordering::Relaxed),
            calls: self.shared.calls.load(Ordering::Relaxed),
            tokens: self.shared.tokens.load(Ordering::Relaxed),
            cost_nano_usd: self.shared.cost.load(Ordering::Relaxed),
            unanswered: self
                .shared
                .unanswered
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        }
    }

    /// One worker, called by anybody; boxed because workers call workers.
    pub(crate) fn run_worker(
        &self,
        worker: Worker,
        grant: Grant,
        caller: Caller,
        input: String,
        above: Option<Arc<Budget>>,
    ) -> BoxFuture<'_, End> {
        Box::pin(async move {
            self.tell(RunEvent::Started {
                caller: &caller,
                drawn_from: grant.drawn_from(),
            });
            let budget = Budget::new(above, *grant.limits());
            // Dropping the conversation ends whatever it is waiting for.
            let end = tokio::select! {
                biased;
                end = self.converse(&worker, grant, &caller, input, &budget) => end,
                end = budget.time_up(&self.shared.asking) => end,
            };
            self.tell(RunEvent::Ended {
                caller: &caller,
                end: &end,
            });
            end
        })
    }

    async fn converse(
        &self,
        worker: &Worker,
        grant: Grant,
        caller: &Caller,
        input: String,
        budget: &Arc<Budget>,
    ) -> End {
        let model = match self.model_of(worker) {
            Ok(model) => model,
            Err(error) => return error.into(),
        };
        let name = model.name();
        if !worker.runs_on(&name) {
            return End::WrongModel { model: name };
        }
        let max_turns = grant.limits().max_turns();
        let mut repeats = Repeats::default();
        let toolbox = match self.toolbox(worker, &grant, caller, budget) {
            Ok(toolbox) => toolbox,
            Err(error) => return not_equipped(&error),
        };
        let mut request = Request {
            worker: worker.name().to_owned(),
            instructions: worker.instructions().to_owned(),
            tools: describe(&toolbox),
            messages: Vec::new(),
        };
        self.say(caller, &mut request, Message::Input { text: input });
        for turn in 1..=max_turns {
            self.shared.turns.fetch_add(1, Ordering::Relaxed);
            self.tell(RunEvent::TurnStarted {
                caller,
                turn,
                model: &name,
            });
            let asked = Arc::new(request.clone());
            let watch = |event: &Event| self.tell(RunEvent::Streamed { caller, event });
            let turn = match collect(model.turn(asked), watch).await {
                Ok(turn) => turn,
                Err(error) => return error.into(),
            };
            let cost_nano_usd = model.prices().map(|prices| prices.of(turn.usage));
            self.tell(RunEvent::Used {
                caller,
                usage: turn.usage,
                cost_nano_usd,
            });
            self.spend(budget, turn.usage, cost_nano_usd.unwrap_or(0));
            self.say(
                caller,
                &mut request,
                Message::Model {
                    text: turn.text.clone(),
                    thinking: turn.thinking,
                    calls: turn.calls.clone(),
                },
            );
            match (turn.stop, turn.calls.is_empty()) {
                (Stop::Refused, _) => return End::Refused { text: turn.text },
                (Stop::Done | Stop::Unknown, true) => return End::Answered { answer: turn.text },
                (Stop::OutOfTokens, true) => return End::OutOfTokens,
                (Stop::Done | Stop::Unknown | Stop::OutOfTokens, false) => {}
            }
            // What the calls come to would need another turn.
            if let Some(end) = budget.out_of_tokens() {
                return end;
            }
            let made = u64::try_from(turn.calls.len()).unwrap_or(u64::MAX);
            if self.shared.calls.fetch_add(made, Ordering::Relaxed) + made > MAX_CALLS_PER_RUN {
                return End::CallLimit {
                    calls: MAX_CALLS_PER_RUN,
                };
            }
            let asked: Vec<String> = turn.calls.iter().map(identity).collect();
            let results = self.make_calls(&toolbox, turn.calls, turn.stop).await;
            let mut stuck = None;
            for (mut result, asked) in results.into_iter().zip(asked) {
                let limit = grant.limits().repeat_calls();
                match repeats.count(asked, result.content.clone(), limit) {
                    Repeated::No => {}
                    Repeated::Hint => result.content.push_str(SAME_AGAIN),
                    Repeated::Stop => {
                        stuck = limit.map(|limit| limit.saturating_mul(2));
                    }
                }
                self.say(caller, &mut request, Message::ToolResult(result));
            }
            if let Some(calls) = stuck {
                return End::Repeated { calls };
            }
        }
        End::TurnLimit { turns: max_turns }
    }

    /// The worker's tools: its grant's, and one for each worker that it may call.
    pub(crate) fn toolbox(
        &self,
        worker: &Worker,
        grant: &Grant,
        caller: &Caller,
        budget: &Arc<Budget>,
    ) -> Result<Toolbox, EquipError> {
        let delegates = delegate::tools(self, worker, grant, caller, budget);
        let equipped = equip(
            grant,
            caller.clone(),
            &self.shared.os,
            Arc::clone(&self.shared.approver),
            Arc::clone(&self.shared.recorder),
            Arc::clone(&self.shared.redactor),
            delegates,
        )?;
        for text in &equipped.warnings {
            self.warn_once(text);
        }
        Ok(equipped.toolbox)
    }

    /// Makes a turn's calls. Runs of calls that only read go side by side; anything
    /// else waits for what came before it. Results keep the order of the calls.
    async fn make_calls(
        &self,
        toolbox: &Toolbox,
        calls: Vec<ToolCall>,
        stop: Stop,
    ) -> Vec<ToolResult> {
        toolbox.begin_turn();
        let mut results = Vec::with_capacity(calls.len());
        let mut pending = std::collections::VecDeque::new();
        for call in calls {
            if stop == Stop::OutOfTokens {
                results.push(cut_short(&call));
                continue;
            }
            if !only_reads(toolbox, &call.tool) {
                while let Some(result) = pending.pop_front() {
                    results.push(join(result).await);
                }
                results.push(self.make_call(toolbox.clone(), call).await);
                continue;
            }
            if pending.len() >= PARALLEL_READS
                && let Some(result) = pending.pop_front()
            {
                results.push(join(result).await);
            }
            let (session, toolbox) = (self.clone(), toolbox.clone());
            let (id, tool) = (call.id.clone(), call.tool.clone());
            let task = tokio::spawn(async move { session.make_call(toolbox, call).await });
            pending.push_back((id, tool, task));
        }
        while let Some(result) = pending.pop_front() {
            results.push(join(result).await);
        }
        results
    }

    async fn make_call(&self, toolbox: Toolbox, call: ToolCall) -> ToolResult {
        self.tell(RunEvent::CallStarted {
            caller: toolbox.caller(),
            call: &call,
        });
        let result = toolbox
            .call(Call::new(call.tool.clone(), call.arguments))
            .await;
        if result.code == Some(Code::ApprovalRequired) {
            self.shared
                .unanswered
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(format!("{}: {}", toolbox.caller(), result.tool));
        }
        to_message(call.id, &result)
    }

    pub(crate) fn worker(&self, name: &str) -> Option<&Worker> {
        self.shared.workers.get(name)
    }

    pub(crate) fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.shared.workers.values()
    }

    /// The worker's own model if it names one that can be had here, else the session's.
    pub(crate) fn model_of(&self, worker: &Worker) -> Result<Arc<dyn Model>, ModelError> {
        match (worker.model(), &self.shared.models) {
            (Some(name), Some(models)) => models.model(name),
            (Some(_) | None, _) => Ok(Arc::clone(&self.shared.model)),
        }
    }

    pub(crate) fn max_depth(&self) -> u64 {
        self.shared.max_depth
    }

    pub(crate) fn max_children(&self) -> u64 {
        self.shared.max_children
    }

    fn spend(&self, budget: &Budget, usage: Usage, nano_usd: u64) {
        budget.spend(usage);
        self.shared.cost.fetch_add(nano_usd, Ordering::Relaxed);
        self.shared
            .tokens
            .fetch_add(usage.total(), Ordering::Relaxed);
    }

    fn say(&self, caller: &Caller, request: &mut Request, message: Message) {
        self.tell(RunEvent::Said {
            caller,
            message: &message,
        });
        request.messages.push(message);
    }

    fn tell(&self, event: RunEvent<'_>) {
        self.shared.observer.observe(event);
    }

    fn warn_once(&self, text: &str) {
        let mut warned = self
            .shared
            .warned
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !warned.iter().any(|known| known == text) {
            warned.push(text.to_owned());
            self.tell(RunEvent::Warning { text });
        }
    }
}

fn describe(toolbox: &Toolbox) -> Vec<ToolDescription> {
    toolbox
        .specs()
        .map(|spec| ToolDescription {
            name: spec.name.clone(),
            description: spec.description.clone(),
            input_schema: spec.params.to_json_schema(),
        })
        .collect()
}

fn only_reads(toolbox: &Toolbox, name: &str) -> bool {
    toolbox
        .specs()
        .find(|spec| spec.answers_to(name))
        .is_some_and(|spec| spec.risk == Risk::ReadOnly)
}

/// What makes two calls the same one.
fn identity(call: &ToolCall) -> String {
    format!("{} {}", call.tool, call.arguments)
}

/// Follows a result that a worker has seen several times in a row.
const SAME_AGAIN: &str =
    "\n\nThis is the same call with the same result again. Change something, or go on without it.";

type Pending = (String, String, tokio::task::JoinHandle<ToolResult>);

async fn join((id, tool, task): Pending) -> ToolResult {
    match task.await {
        Ok(result) => result,
        Err(_) => failed(id, tool, "The call stopped unexpectedly."),
    }
}

fn cut_short(call: &ToolCall) -> ToolResult {
    failed(
        call.id.clone(),
        call.tool.clone(),
        "Your answer was cut in the middle, so this call was not made. Make it again, shorter.",
    )
}

fn failed(id: String, tool: String, content: &str) -> ToolResult {
    ToolResult {
        id,
        tool,
        content: content.to_owned(),
        is_error: true,
        detail: serde_json::json!({
            "ok": false,
            "content": content,
            "error": {"code": Code::Internal.as_str(), "message": content},
        }),
    }
}

fn to_message(id: String, result: &CallResult) -> ToolResult {
    ToolResult {
        id,
        tool: result.tool.clone(),
        content: result.content.clone(),
        is_error: !result.ok,
        detail: result.to_json(),
    }
}

fn not_equipped(error: &EquipError) -> End {
    match error {
        EquipError::Isolation { hint, .. } => End::NotEquipped {
            reason: error.to_string(),
            hint: hint.clone(),
            isolation: true,
        },
        EquipError::Grant(_) | EquipError::Tools(_) => End::NotEquipped {
            reason: error.to_string(),
            hint: None,
            isolation: false,
        },
    }
}

/// Puts a [`Session`] together.
///
/// ```
/// # use forge_runtime::{Playbook, Scripted, Session};
/// # let model = Scripted::new("x", Playbook::parse("version: 1\nworkers: {}").unwrap());
/// let session = Session::builder(model).max_depth(2).build();
/// # let _ = session;
/// ```
pub struct SessionBuilder {
    shared: Shared,
}

impl SessionBuilder {
    /// Where workers find the model that they name for themselves; without it all run on
    /// the session's.
    pub fn models(mut self, models: Arc<dyn Models>) -> Self {
        self.shared.models = Some(models);
        self
    }

    /// The workers that others may call.
    pub fn workers(mut self, workers: impl IntoIterator<Item = Worker>) -> Self {
        self.shared.workers = workers
            .into_iter()
            .map(|worker| (worker.name().to_owned(), worker))
            .collect();
        self
    }

    /// How deep calls may go below the entry worker; 5 if not said.
    pub fn max_depth(mut self, depth: u64) -> Self {
        self.shared.max_depth = depth;
        self
    }

    /// How many workers one run of a worker may start; 16 if not said.
    pub fn max_children(mut self, children: u64) -> Self {
        self.shared.max_children = children;
        self
    }

    /// How commands are confined.
    pub fn os_sandbox(mut self, os: OsSandbox) -> Self {
        self.shared.os = os;
        self
    }

    /// Who answers what has to be asked.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.shared.approver = approver;
        self
    }

    /// Who keeps the records.
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.shared.recorder = recorder;
        self
    }

    /// What takes secrets out of results and records.
    pub fn redactor(mut self, redactor: Arc<Redactor>) -> Self {
        self.shared.redactor = redactor;
        self
    }

    /// Who is told what happens.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.shared.observer = observer;
        self
    }

    /// The finished session.
    pub fn build(mut self) -> Session {
        self.shared.approver = Arc::new(Timed {
            inner: self.shared.approver,
            asking: Arc::clone(&self.shared.asking),
        });
        Session {
            shared: Arc::new(self.shared),
        }
    }
}
