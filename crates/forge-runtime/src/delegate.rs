//! Workers as tools: one for each worker that the caller may call, and
//! `call_worker` for naming one.
//!
//! The child's grant is computed in `intents`, before the child exists: a declaration that asks for
//! more than the caller holds starts nothing. Attachments are paths of the caller, so it cannot
//! attach a file that it may not read.

use std::sync::Arc;

use forge_tools::{
    Annotations, Arguments, BoxFuture, CallFailure, Caller, FailureCode, FileChange, Intent,
    Invocation, Param, Params, PreferredRunner, ReadOnlyContext, Reply, ReplyFuture, Risk, Spec,
    Tool, ToolContext,
};
use sandbox_config::{Grant, Worker};
use serde_json::{Value, json};

use crate::budget::WorkerBudget;
use crate::model::Model;
use crate::report::RunOutcome;
use crate::session::{AnswerSchema, Attachment, CANCELLED, Conversation, GrantedWorker, Session};

/// The tool that names the worker to call.
pub const CALL_WORKER: &str = "call_worker";

/// The delegation tools of `worker`.
pub(crate) fn tools(
    session: &Session,
    GrantedWorker { worker, grant }: &GrantedWorker,
    caller: &Caller,
    budget: &Arc<WorkerBudget>,
) -> Vec<Box<dyn Tool>> {
    let callable: Vec<&Worker> = session
        .workers()
        .filter(|other| other.name() != worker.name() && worker.delegates().allows(other.name()))
        .collect();
    if callable.is_empty() {
        return Vec::new();
    }
    // Without files nothing can be attached.
    let attaches = grant.mounts().any(|mount| mount.usable());
    let delegation = |target: Callee, spec: Spec| -> Box<dyn Tool> {
        let delegation = Arc::new(Delegation {
            target,
            session: session.clone(),
            from: worker.clone(),
            grant: grant.clone(),
            caller: caller.clone(),
            budget: Arc::clone(budget),
        });
        Box::new(DelegationTool { spec, delegation })
    };
    let mut all = vec![delegation(Callee::Named, general_spec(&callable, attaches))];
    for other in callable {
        all.push(delegation(
            Callee::Fixed(other.name().to_owned()),
            worker_spec(other, attaches),
        ));
    }
    all
}

struct DelegationTool {
    spec: Spec,
    delegation: Arc<Delegation>,
}

/// The rights and the budget with which a worker calls another one.
struct Delegation {
    target: Callee,
    session: Session,
    from: Worker,
    grant: Grant,
    caller: Caller,
    /// The caller's own.
    budget: Arc<WorkerBudget>,
}

enum Callee {
    /// The tool is the worker.
    Fixed(String),
    /// The call names it.
    Named,
}

/// One call of a worker.
struct DelegationCall {
    delegation: Arc<Delegation>,
    worker: String,
    /// A text, or JSON that fits the worker's `input_schema`.
    input: String,
    attachments: Vec<String>,
}

impl Tool for DelegationTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn prepare(&self, args: &Arguments) -> Result<Arc<dyn Invocation>, CallFailure> {
        let delegation = Arc::clone(&self.delegation);
        let text = |name| args.text(name).unwrap_or_default().to_owned();
        let (worker, input) = match &delegation.target {
            // Checked as the arguments of the tool.
            Callee::Fixed(name) if delegation.takes_object(name) => {
                (name.clone(), args.to_json().to_string())
            }
            Callee::Fixed(name) => (name.clone(), text("input")),
            Callee::Named => (text("worker"), text("input")),
        };
        let attachments = args.text_list("attachments").into_iter();
        Ok(Arc::new(DelegationCall {
            worker,
            input,
            attachments: attachments.map(str::to_owned).collect(),
            delegation,
        }))
    }
}

impl DelegationCall {
    /// Checks that the worker has a task.
    fn check_input(&self, worker: &Worker) -> Result<(), CallFailure> {
        let shaped = worker.input_schema().is_some();
        if !shaped && self.input.trim().is_empty() && !worker.allows_empty_input() {
            return Err(FailureCode::InvalidArguments
                .failure(format!(
                    "Cannot call worker '{}': `input` is empty.",
                    worker.name()
                ))
                .hint("Say in `input` what the worker is to do."));
        }
        Ok(())
    }

    /// Checks the input text against the worker's `input_schema` where the call names the worker.
    /// Blocks; runs once, on the thread that judges the call.
    fn fits(&self, worker: &Worker) -> Result<(), CallFailure> {
        let (Callee::Named, Some(schema)) = (&self.delegation.target, worker.input_schema()) else {
            return Ok(());
        };
        let fits = AnswerSchema::new(schema).map_err(|problem| vec![problem]);
        let fits = fits.and_then(|shape| shape.check_now(&self.input));
        fits.map_err(|problems| {
            FailureCode::InvalidArguments
                .failure(format!(
                    "Cannot call worker '{}': `input` does not fit its input schema: {}.",
                    worker.name(),
                    problems.join("; ")
                ))
                .structured(json!({ "input_schema": schema }))
        })
    }

    /// Returns the worker's input together with the attachments.
    async fn given(
        &self,
        worker: &Worker,
        grant: &Grant,
        hands: &ToolContext,
    ) -> Result<Conversation, CallFailure> {
        let attached = self.attached(worker, hands).await?;
        self.delegation
            .session
            .give(worker, grant, self.input.clone(), &attached)
            .map_err(|why| not_attached(worker.name(), &why))
    }

    /// Reads copies of the attachments with the caller's rights.
    async fn attached(
        &self,
        worker: &Worker,
        hands: &ToolContext,
    ) -> Result<Vec<Attachment>, CallFailure> {
        let mut paths = Vec::new();
        for asked in &self.attachments {
            paths.push(hands.path(asked)?);
        }
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let files = hands.files()?.clone();
        let most = worker.attachment_policy().max_total_bytes();
        let reading = tokio::task::spawn_blocking(move || {
            let mut left = most;
            let mut attached = Vec::new();
            for path in paths {
                let bytes = files.read_bytes(&path, left)?;
                left = left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
                attached.push(Attachment::new(path.as_str(), bytes));
            }
            Ok(attached)
        });
        reading.await.unwrap_or_else(|_| {
            Err(FailureCode::Internal.failure("The attachments could not be read."))
        })
    }
}

impl Delegation {
    /// `true` if the arguments of a call are the input of the worker, by its `input_schema`.
    fn takes_object(&self, name: &str) -> bool {
        let worker = self.session.worker(name);
        worker.is_some_and(|worker| worker.input_schema().is_some())
    }

    /// Returns the worker and its grant, or the reason why it may not be called.
    fn child(&self, name: &str) -> Result<(Worker, Grant), CallFailure> {
        let shown = forge_tools::escape_controls(name);
        let worker = self.callee(name, &shown)?;
        let model = self.callee_model(worker, &shown)?;
        let named = model.name();
        if self.budget.children() >= self.session.max_children() {
            return Err(self.too_many(&shown));
        }
        let grant = self
            .grant
            .child(worker.declaration())
            .map_err(|escalation| {
                FailureCode::Escalation.failure(format!("Cannot call worker '{shown}': {}", escalation.for_model()))
                .hint(
                    "The worker was not started. Do the work with what you hold, or leave it out.",
                )
            })?;
        let limited = grant.limits().max_cost_nano_usd().is_some() || self.budget.limits_cost();
        if limited && model.prices().is_none() {
            return Err(FailureCode::WorkerFailed.failure(format!(
                "Cannot call worker '{shown}': the cost is limited, and no prices are known \
                     for the model `{named}`."
            )));
        }
        Ok((worker.clone(), grant))
    }

    /// Returns the worker of this name, if it may be called from here.
    fn callee(&self, name: &str, shown: &str) -> Result<&Worker, CallFailure> {
        if self.caller.chain().iter().any(|above| above == name) {
            return Err(FailureCode::Blocked.failure(format!(
                "Cannot call worker '{shown}': it is already at work above you ({}).",
                self.caller
            )));
        }
        let Some(worker) = self
            .session
            .worker(name)
            .filter(|_| self.from.delegates().allows(name))
        else {
            let names: Vec<&str> = self
                .session
                .workers()
                .map(Worker::name)
                .filter(|other| *other != self.from.name() && self.from.delegates().allows(other))
                .collect();
            return Err(FailureCode::Blocked
                .failure(format!(
                    "Cannot call worker '{shown}': it is not among yours."
                ))
                .hint(format!("Workers you may call: {}", names.join(", "))));
        };
        // The entry worker is at depth 0, so the chain's length is the child's depth.
        let depth = u64::try_from(self.caller.chain().len()).unwrap_or(u64::MAX);
        if depth >= self.session.max_depth() {
            return Err(FailureCode::Limit.failure(format!(
                "Cannot call worker '{shown}': that would be deeper than this project's \
                     limit of {} ({}).",
                self.session.max_depth(),
                self.caller.child(name)
            )));
        }
        Ok(worker)
    }

    /// Returns the model of `worker`, if the worker runs on it.
    fn callee_model(&self, worker: &Worker, shown: &str) -> Result<Arc<dyn Model>, CallFailure> {
        let model = self.session.model_of(worker).map_err(|error| {
            FailureCode::WorkerFailed.failure(format!("Cannot call worker '{shown}': {error}"))
        })?;
        let named = model.name();
        if !worker.runs_on(&named) {
            return Err(FailureCode::WorkerFailed.failure(format!(
                "Cannot call worker '{shown}': it does not run on the model `{named}`."
            )));
        }
        Ok(model)
    }

    fn too_many(&self, shown: &str) -> CallFailure {
        FailureCode::Limit.failure(format!(
            "Cannot call worker '{shown}': you have called {} workers, this project's limit.",
            self.session.max_children()
        ))
    }
}

impl Invocation for DelegationCall {
    fn intents(&self, view: &ReadOnlyContext<'_>) -> Result<Vec<Intent>, CallFailure> {
        let name = self.worker.as_str();
        let (worker, _) = self.delegation.child(name)?;
        self.check_input(&worker)?;
        self.fits(&worker)?;
        let mut intents = vec![Intent::Delegate(name.to_owned())];
        // Sizes are known once they are read.
        let named = self.attachments.iter().map(|asked| (asked.as_str(), 0));
        worker
            .attachment_policy()
            .check(named)
            .map_err(|why| not_attached(name, &why))?;
        for asked in &self.attachments {
            intents.push(Intent::Read(view.path(asked)?));
        }
        Ok(intents)
    }

    /// Shows the size of each attached file, so that a person sees the extent of the handover.
    fn preview(&self, view: &ReadOnlyContext<'_>) -> Vec<FileChange> {
        self.attachments
            .iter()
            .filter_map(|asked| view.attachment(asked))
            .collect()
    }

    fn run(self: Arc<Self>, hands: ToolContext) -> ReplyFuture {
        Box::pin(async move {
            let (name, delegation) = (self.worker.as_str(), &self.delegation);
            let (worker, grant) = delegation.child(name)?;
            self.check_input(&worker)?;
            let (session, budget) = (&delegation.session, &delegation.budget);
            // Counted in the order of the calls, before any await.
            if !budget.start_child(session.max_children()) {
                return Err(delegation.too_many(name));
            }
            let given = self.given(&worker, &grant, &hands).await;
            let asked = given.inspect_err(|_| budget.child_did_not_start())?;
            let caller = delegation.caller.child(name);
            let above = Some(Arc::clone(budget));
            let shaped = worker.output_schema().is_some();
            let granted = GrantedWorker { worker, grant };
            let run = session.run_worker(granted, caller, asked, above);
            match spawn_child(run).await {
                RunOutcome::Answered { answer } => {
                    let value = match shaped {
                        true => serde_json::from_str(&answer).unwrap_or(Value::Null),
                        false => Value::from(answer.clone()),
                    };
                    Ok(Reply::text(answer).structured(json!({
                        "success": true,
                        "worker": name,
                        "answer": value,
                    })))
                }
                // The whole run was cancelled: the result equals that of every other call that this
                // ends, whether the worker or its caller learns of it first.
                RunOutcome::Cancelled => Err(FailureCode::Cancelled.failure(CANCELLED)),
                end => {
                    let end = for_caller(end);
                    Err(FailureCode::WorkerFailed
                        .failure(format!("Worker '{name}' did not finish: {end}"))
                        .structured(json!({ "success": false, "worker": name, "error": end })))
                }
            }
        })
    }
}

/// A called worker in a task of its own: workers that call workers would otherwise be polled one
/// inside the other, down a stack that ends. Dropped, it stops the worker.
async fn spawn_child(work: BoxFuture<'static, RunOutcome>) -> RunOutcome {
    struct AbortOnDrop(tokio::task::JoinHandle<RunOutcome>);
    impl Drop for AbortOnDrop {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let mut task = AbortOnDrop(tokio::spawn(work));
    match (&mut task.0).await {
        Ok(end) => end,
        Err(stopped) => match stopped.try_into_panic() {
            // The caller handles the panic.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => RunOutcome::Cancelled,
        },
    }
}

fn not_attached(name: &str, why: &str) -> CallFailure {
    let name = forge_tools::escape_controls(name);
    let why = forge_tools::escape_controls(why);
    FailureCode::InvalidArguments
        .failure(format!("Cannot call worker '{name}': {why}."))
        .hint("The worker was not started. Attach less, or say in `input` what it needs to know.")
}

/// The end of a worker as the model that called it may know it: why a worker could not
/// be equipped names directories and programs of the host.
fn for_caller(end: RunOutcome) -> RunOutcome {
    let RunOutcome::SetupFailed { isolation, .. } = end else {
        return end;
    };
    let what = if isolation {
        "the isolation"
    } else {
        "a directory"
    };
    RunOutcome::SetupFailed {
        reason: format!("{what} that it needs is not available"),
        hint: None,
        isolation,
    }
}

/// Most paths in one call; how many a worker takes is its own word.
const MAX_ATTACHMENTS: usize = 64;

fn attachments() -> Param {
    Param::text_list(
        "attachments",
        "Paths of files that the worker is given as copies.",
        MAX_ATTACHMENTS,
    )
}

fn worker_spec(worker: &Worker, attaches: bool) -> Spec {
    let description = worker.description().map_or_else(
        || format!("Calls the worker {}.", worker.name()),
        str::to_owned,
    );
    if let Some(schema) = worker.input_schema() {
        return spec(worker.name(), description, shaped(schema));
    }
    let input = if worker.allows_empty_input() {
        Param::text(
            "input",
            "What the worker is to do, if there is more to say.",
        )
    } else {
        Param::text("input", "What the worker is to do.").required()
    };
    let params = std::iter::once(input).chain(attaches.then(attachments));
    spec(worker.name(), description, Params::new(params))
}

/// The arguments are the worker's `input_schema`, which is about an object.
fn shaped(schema: &Value) -> Params {
    let shape = AnswerSchema::new(schema);
    Params::of_schema(schema.clone(), move |arguments| match &shape {
        Ok(shape) => shape.check_value(arguments),
        Err(problem) => Err(vec![format!("the input schema cannot be used: {problem}")]),
    })
}

fn general_spec(callable: &[&Worker], attaches: bool) -> Spec {
    let names: Vec<&str> = callable.iter().map(|worker| worker.name()).collect();
    let params = [
        Param::text("worker", "Name of the worker.").required(),
        // Some may be called without.
        Param::text("input", "What the worker is to do."),
    ];
    let params = params.into_iter().chain(attaches.then(attachments));
    spec(
        CALL_WORKER,
        format!("Call another worker by name: {}.", names.join(", ")),
        Params::new(params),
    )
}

fn spec(name: &str, description: String, params: Params) -> Spec {
    Spec {
        output: None,
        name: name.to_owned(),
        aliases: &[],
        description,
        params,
        risk: Risk::Exec,
        preferred_runner: PreferredRunner::Local,
        needs_network: false,
        requires_permission: false,
        annotations: Annotations::RUN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_hears_of_a_worker_names_no_place_of_the_host() {
        for isolation in [true, false] {
            let end = for_caller(RunOutcome::SetupFailed {
                reason: "cannot open /home/me/data".into(),
                hint: Some("see /usr/bin/bwrap".into()),
                isolation,
            });
            let text = json!(end).to_string();
            assert!(!text.contains("/home") && !text.contains("/usr"), "{text}");
            assert!(end.to_string().ends_with("is not available"), "{end}");
        }
        assert_eq!(for_caller(RunOutcome::MaxTokens), RunOutcome::MaxTokens);
    }
}
