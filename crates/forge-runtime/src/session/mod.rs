//! One run of a worker tree: the loop takes a model's turns, makes its calls, and returns the
//! results until the model makes no more calls.
//!
//! [`builder`] builds a session, [`session_state`] is the shared state of a tree, [`conversation`]
//! is the loop of one worker, [`active_conversation`] tracks its messages and its calls without a
//! result, [`turn`] receives a turn, [`calls`] makes its calls.

mod active_conversation;
mod answer_schema;
mod attachments;
mod builder;
mod calls;
mod context;
mod conversation;
mod session_state;
mod turn;

use std::sync::Arc;

use file_sandbox::Mount;
use forge_tools::{BoxFuture, Caller, Toolbox};
use sandbox_config::{Grant, Worker};

use crate::budget::{PausingApprover, WorkerBudget};
use crate::delegate;
use crate::equip::{EquipError, Extras, WorkerEquipment, equip};
use crate::model::{Model, ModelError, ModelRequest};
use crate::report::{ElapsedTime, RunEvent, RunOutcome, RunReport};

use active_conversation::ActiveConversation;
pub(crate) use active_conversation::CANCELLED;
pub(crate) use answer_schema::AnswerSchema;
pub use attachments::Attachment;
pub use builder::SessionBuilder;
pub use conversation::{Conversation, UsageTotals};
use session_state::SessionState;

/// A worker with its rights.
pub(crate) struct GrantedWorker {
    pub(crate) worker: Worker,
    pub(crate) grant: Grant,
}

/// A run of a worker tree.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// use forge_runtime::{Playbook, ScriptedModel, Session};
/// use sandbox_config::{Grant, Sources, load};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(dir.path().join("workers")).unwrap();
/// # let text = "---\nname: hello\n---\nSay hello.\n";
/// # std::fs::write(dir.path().join("workers/hello.worker"), text).unwrap();
/// let worker = load(&Sources::new(dir.path())).unwrap().worker("hello").unwrap();
/// let playbook = Playbook::parse("version: 1\nworkers: {hello: [{say: 'hi, {{ input }}'}]}");
/// let model = ScriptedModel::new("example", playbook.unwrap());
///
/// let session = Session::builder(model).build();
/// let report = rt.block_on(session.run(&worker, Grant::empty(), "you"));
/// assert_eq!(report.end, forge_runtime::RunOutcome::Answered { answer: "hi, you".into() });
/// ```
#[derive(Clone)]
pub struct Session {
    shared: Arc<SessionState>,
}

impl Session {
    /// Returns a builder for a session with this model; the defaults grant nothing: no approvals,
    /// no commands.
    pub fn builder(model: impl Model) -> SessionBuilder {
        SessionBuilder::new(model)
    }

    /// Runs `worker` on `input` under `grant`. Needs a tokio runtime with a timer, for the limits
    /// on time.
    pub async fn run(&self, worker: &Worker, grant: Grant, input: &str) -> RunReport {
        self.resume(worker, grant, Conversation::asked(input)).await
    }

    /// Runs `worker` on `input` with copies of files. A worker whose `attachment_policy` does not
    /// allow them ends at once.
    pub async fn run_with(
        &self,
        worker: &Worker,
        grant: Grant,
        input: &str,
        attachments: &[Attachment],
    ) -> RunReport {
        match self.give(worker, &grant, input.to_owned(), attachments) {
            Ok(conversation) => self.resume(worker, grant, conversation).await,
            Err(reason) => self.shared.report(RunOutcome::SetupFailed {
                reason,
                hint: None,
                isolation: false,
            }),
        }
    }

    /// A conversation that begins with `input` and attachments, as far as `worker` takes
    /// them; if not, why.
    pub(crate) fn give(
        &self,
        worker: &Worker,
        grant: &Grant,
        input: String,
        attachments: &[Attachment],
    ) -> Result<Conversation, String> {
        Conversation::attaching(worker, grant, &self.shared.redactor, input, attachments)
    }

    /// Continues `worker` from `conversation`; its earlier usage counts towards the limits. Its
    /// messages are not reported again.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// # use forge_runtime::{Conversation, Playbook, ScriptedModel, Session};
    /// # use sandbox_config::{Grant, Sources, load};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(dir.path().join("workers")).unwrap();
    /// # let text = "---\nname: hello\n---\nSay hello.\n";
    /// # std::fs::write(dir.path().join("workers/hello.worker"), text).unwrap();
    /// # let worker = load(&Sources::new(dir.path())).unwrap().worker("hello").unwrap();
    /// # let playbook = Playbook::parse("version: 1\nworkers: {hello: [{say: 'hi, {{ input }}'}]}");
    /// # let session = Session::builder(ScriptedModel::new("example", playbook.unwrap())).build();
    /// let earlier = Conversation::asked("you");
    /// let report = rt.block_on(session.resume(&worker, Grant::empty(), earlier));
    /// assert!(report.end.is_answer());
    /// ```
    pub async fn resume(
        &self,
        worker: &Worker,
        grant: Grant,
        conversation: Conversation,
    ) -> RunReport {
        self.shared.counts.start_from(&conversation);
        let caller = Caller::new(worker.name());
        let worker = worker.clone();
        let granted = GrantedWorker { worker, grant };
        let end = self.run_worker(granted, caller, conversation, None).await;
        self.shared.report(end)
    }

    /// Stops the run, as soon as the running calls have ended: [`RunOutcome::Cancelled`]. Any clone
    /// of the session can stop it, from any thread.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// # use forge_runtime::{RunOutcome, ModelEvent, Model, ModelRequest, Session};
    /// # use sandbox_config::{Grant, Sources, load};
    /// # use std::sync::Arc;
    /// # use tokio::sync::mpsc;
    /// # struct Silent;
    /// # impl Model for Silent {
    /// #     fn name(&self) -> String { "silent".into() }
    /// #     fn turn(&self, _: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
    /// #         let (events, turn) = mpsc::channel(1);
    /// #         tokio::spawn(async move { events.closed().await });
    /// #         turn
    /// #     }
    /// # }
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(dir.path().join("workers")).unwrap();
    /// # let text = "---\nname: hello\n---\nSay hello.\n";
    /// # std::fs::write(dir.path().join("workers/hello.worker"), text).unwrap();
    /// # let worker = load(&Sources::new(dir.path())).unwrap().worker("hello").unwrap();
    /// # let session = Session::builder(Silent).build();
    /// let from_elsewhere = session.clone();
    /// let report = rt.block_on(async {
    ///     tokio::spawn(async move { from_elsewhere.cancel() });
    ///     session.run(&worker, Grant::empty(), "you").await
    /// });
    /// assert_eq!(report.end, RunOutcome::Cancelled);
    /// ```
    pub fn cancel(&self) {
        self.shared.cancel();
    }

    /// Starts one worker. It has begun when this returns, and works while the returned future is
    /// polled; if that is dropped early, the worker is reported as stopped.
    pub(crate) fn run_worker(
        &self,
        granted: GrantedWorker,
        caller: Caller,
        conversation: Conversation,
        above: Option<Arc<WorkerBudget>>,
    ) -> BoxFuture<'static, RunOutcome> {
        let (worker, grant) = (&granted.worker, &granted.grant);
        let caller = caller.numbered(match above {
            None => 1,
            Some(_) => self.shared.counts.worker_run(),
        });
        self.tell(RunEvent::Started {
            caller: &caller,
            drawn_from: grant.drawn_from(),
        });
        let at_work = above.as_ref().map(WorkerBudget::track_child);
        let used = conversation.used();
        let budget = WorkerBudget::new(above, *grant.limits(), used.time);
        budget.spend(used.usage, used.cost_nano_usd);
        budget.count_calls(used.begun);
        for message in &conversation.messages[conversation.told..] {
            self.tell(RunEvent::Said {
                caller: &caller,
                message,
            });
        }
        let mut instructions = worker.instructions().to_owned();
        let shape = self.shape_of(worker, &caller);
        if let Ok(Some(shape)) = &shape {
            instructions.push_str(&shape.instructions());
        }
        let place = conversation.place;
        let request = ModelRequest {
            worker: worker.name().to_owned(),
            instructions,
            tools: Vec::new(),
            messages: conversation.messages,
        };
        let session = self.clone();
        let mut running = ActiveConversation::new(
            session.clone(),
            caller,
            Arc::clone(&budget),
            request,
            at_work,
        );
        Box::pin(async move {
            // Dropping the conversation cancels its pending operation.
            let end = tokio::select! {
                biased;
                () = session.shared.cancelled() => RunOutcome::Cancelled,
                end = session.converse(&granted, shape, place, &mut running) => end,
                end = budget.time_up() => end,
            };
            budget.children_ended().await;
            running.end(end)
        })
    }

    /// Returns the schema of the worker's answer: the one of the run for the entry worker, else the
    /// worker's own.
    fn shape_of(&self, worker: &Worker, caller: &Caller) -> Result<Option<AnswerSchema>, String> {
        let of_run = (self.shared.output_schema.as_ref()).filter(|_| caller.chain().len() == 1);
        of_run
            .or(worker.output_schema())
            .map(AnswerSchema::new)
            .transpose()
    }

    /// The worker's tools: its grant's, and one for each worker that it may call.
    pub(crate) fn toolbox(
        &self,
        worker: &GrantedWorker,
        caller: &Caller,
        budget: &Arc<WorkerBudget>,
        place: Option<Mount>,
    ) -> Result<Toolbox, EquipError> {
        let equipped = self.equip(worker, caller, budget, place)?;
        for text in &equipped.warnings {
            self.shared.warn_once(text);
        }
        Ok(equipped.toolbox)
    }

    /// Returns the tools of `worker` as its model sees them, the workers that it may call among
    /// them, for calls that no model of this session makes.
    ///
    /// # Errors
    ///
    /// If a directory of `grant` cannot be opened, or its isolation cannot be enforced.
    ///
    /// ```
    /// # use forge_runtime::{Playbook, ScriptedModel, Session};
    /// # use sandbox_config::{Grant, Sources, load};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(dir.path().join("workers")).unwrap();
    /// # let main = "---\nname: main\nworkers: [reader]\n---\nDelegate.\n";
    /// # std::fs::write(dir.path().join("workers/main.worker"), main).unwrap();
    /// # let reader = "---\nname: reader\n---\nRead.\n";
    /// # std::fs::write(dir.path().join("workers/reader.worker"), reader).unwrap();
    /// # let project = load(&Sources::new(dir.path())).unwrap();
    /// # let model = ScriptedModel::new("x", Playbook::parse("version: 1\nworkers: {}").unwrap());
    /// let session = Session::builder(model).workers(project.workers().unwrap()).build();
    /// let main = project.worker("main").unwrap();
    /// let tools = session.tools_of(&main, &Grant::empty()).unwrap().toolbox;
    /// assert!(tools.specs().any(|spec| spec.name == "reader"));
    /// ```
    pub fn tools_of(&self, worker: &Worker, grant: &Grant) -> Result<WorkerEquipment, EquipError> {
        let caller = Caller::new(worker.name()).numbered(self.shared.counts.worker_run());
        let budget = WorkerBudget::new(None, *grant.limits(), ElapsedTime::default());
        let (worker, grant) = (worker.clone(), grant.clone());
        self.equip(&GrantedWorker { worker, grant }, &caller, &budget, None)
    }

    fn equip(
        &self,
        worker: &GrantedWorker,
        caller: &Caller,
        budget: &Arc<WorkerBudget>,
        place: Option<Mount>,
    ) -> Result<WorkerEquipment, EquipError> {
        let delegates = delegate::tools(self, worker, caller, budget);
        equip(
            &worker.grant,
            caller.clone(),
            &self.shared.isolation,
            Arc::new(PausingApprover {
                inner: Arc::clone(&self.shared.approver),
                turn: Arc::clone(&self.shared.asking),
                budget: Arc::clone(budget),
            }),
            Arc::clone(&self.shared.recorder),
            Arc::clone(&self.shared.redactor),
            Extras {
                tools: delegates,
                handed_over: place,
                open: self.shared.open.clone(),
                answers: Arc::clone(&self.shared.answers),
            },
        )
    }

    pub(crate) fn worker(&self, name: &str) -> Option<&Worker> {
        self.shared.workers.get(name)
    }

    pub(crate) fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.shared.workers.values()
    }

    pub(crate) fn model_of(&self, worker: &Worker) -> Result<Arc<dyn Model>, ModelError> {
        self.shared.model_of(worker)
    }

    /// Returns `true` if a tool of this name calls a worker.
    pub(crate) fn is_delegation(&self, tool: &str) -> bool {
        tool == delegate::CALL_WORKER || self.worker(tool).is_some()
    }

    sandbox_names::getters! {
        pub(crate) max_depth: u64 = shared.max_depth;
        pub(crate) max_children: u64 = shared.max_children;
    }

    fn tell(&self, event: RunEvent<'_>) {
        self.shared.tell(event);
    }
}
