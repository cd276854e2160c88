//! The one executor. Every call of every tool goes through [`Toolbox::call`], in
//! one order: schema, capability, block, ask, preview, run, redact and cap, record.
//!
//! All work that may wait for a file system runs off the threads that serve other calls.

use std::sync::Arc;
use std::time::Duration;

use file_sandbox::CancellationToken;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::approval::Approver;
use crate::audit::DecisionRecord;
use crate::blocking_handoff::BlockingHandoff;
use crate::call::approved::ApprovedCall;
use crate::call::judged::{InlineOutcome, ParsedCall, ResolvedCall, joined};
use crate::call::outcome::{CallDetails, READ_OUTPUT, blocked, not_in_time, placeholder_unknown};
use crate::call::pending::PendingCall;
use crate::call::request::CallRequest;
use crate::call_result::{CallFailure, CallResult, Caller, FailureCode, Reply};
use crate::change::ReviewedState;
use crate::deadline::{Elapsed, within};
use crate::gate::{Judgement, Verdict};
use crate::params::{ArgumentError, Arguments, nearest};
use crate::spec::Spec;
use crate::tool_context::ToolContext;
use crate::toolbox_inner::ToolboxInner;

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
    pub(crate) inner: Arc<ToolboxInner>,
}

/// Most commands at once in this process. Each occupies a thread, of which a few hundred serve
/// files as well: commands that hang must not block every other call.
const MAX_COMMANDS: usize = 128;

/// How long a command waits for others to end before it is given up.
const QUEUE: Duration = Duration::from_secs(60);

static COMMANDS: Semaphore = Semaphore::const_new(MAX_COMMANDS);

/// Cancels background work when its caller stops waiting.
pub(crate) struct CancelOnDrop(pub(crate) CancellationToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A place among the commands that run.
async fn command_slot(spec: &Spec) -> Result<SemaphorePermit<'static>, CallFailure> {
    match within(Some(QUEUE), COMMANDS.acquire()).await {
        Ok(Ok(slot)) => Ok(slot),
        Ok(Err(_)) | Err(Elapsed) => Err(CallFailure::new(
            FailureCode::Limit,
            format!(
                "{} was not called: {MAX_COMMANDS} commands run already.",
                spec.name
            ),
        )
        .hint("Repeat it when some of them have ended.")),
    }
}

impl Toolbox {
    /// Takes the place of `earlier`: the handles of long results that it gave out remain valid.
    pub fn follow(&self, earlier: &Toolbox) {
        (self.inner.context.outputs).follow(&earlier.inner.context.outputs);
    }

    /// The tools that the worker may call, in a fixed order (files first, then commands, then
    /// workers; each group by name as built).
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.inner
            .tools
            .iter()
            .map(|tool| tool.spec())
            .filter(|spec| self.inner.gate.offers(&spec.name))
    }

    /// The worker on whose behalf calls are made.
    pub fn caller(&self) -> &Caller {
        &self.inner.context.caller
    }

    /// The approver of calls that bring none of their own.
    pub fn approver(&self) -> &Arc<dyn Approver> {
        &self.inner.approver
    }

    /// Makes one call and returns its result or failure. A call that is dropped half-way leaves a
    /// record as well.
    pub async fn call(&self, call: CallRequest) -> CallResult {
        let open = PendingCall::new(&self.inner, &call);
        match self.execute(&call, &open).await {
            Ok(result) => result,
            Err(failure) => open.lock().close(Err(failure)),
        }
    }

    /// Starts a new turn of the model: the limits of a turn count from here.
    pub fn begin_turn(&self) {
        self.inner.turn.begin();
    }

    /// Starts a new turn with at most `max_calls` calls.
    pub fn begin_turn_of(&self, max_calls: u64) {
        self.inner.turn.begin_with(max_calls);
    }

    /// The result, recorded; a failure is still to be.
    async fn execute(
        &self,
        call: &CallRequest,
        open: &PendingCall,
    ) -> Result<CallResult, CallFailure> {
        let begun = self.inner.turn.count_call();
        let begin = match begun {
            Ok(()) => self.parse_call(call, open).await,
            Err(over) => Err(over),
        };
        let begin = begin.inspect_err(|_| {
            let arguments = &mut open.lock().details.arguments;
            // As they came.
            if arguments.is_null() {
                *arguments = call.arguments.clone();
            }
        })?;
        let (index, mut context) = (begin.index, begin.context.clone());
        let spec = self.inner.tool(index).spec();
        // Cancels the work when the caller stops waiting.
        let stop = CancelOnDrop(context.cancel.clone());
        let mut working = match call.handoff.as_ref().and_then(BlockingHandoff::permit) {
            Some(seat) => tokio::spawn(async move {
                let begun = begin.run_inline();
                drop(seat);
                begun
            }),
            None => tokio::task::spawn_blocking(move || begin.run_inline()),
        };
        let begun = match within(self.inner.timeout, &mut working).await {
            Ok(begun) => joined(begun)?,
            Err(Elapsed) => match open.give_up(not_in_time(spec, self.inner.timeout)) {
                Some(result) => return Ok(result),
                // It ended in this moment.
                None => joined(working.await)?,
            },
        };
        let (wanted, judgement) = match begun? {
            InlineOutcome::Closed(result) => return Ok(*result),
            InlineOutcome::Judged(wanted, judgement) => (wanted, judgement),
        };
        let approver = call.approver.as_ref().unwrap_or(&self.inner.approver);
        context.seen = self
            .ask_or_refuse(&wanted, judgement, &context, &**approver, open)
            .await?;
        let result = self.make(wanted, context, call, open).await?;
        drop(stop);
        Ok(result)
    }

    /// Makes a call that was allowed.
    pub(crate) async fn make(
        &self,
        wanted: ResolvedCall,
        context: ToolContext,
        call: &CallRequest,
        open: &PendingCall,
    ) -> Result<CallResult, CallFailure> {
        open.lock().decided()?;
        let reply = self.run(wanted, context, call).await?;
        Ok(open.lock().close(Ok(reply)))
    }

    /// Finds the tool of a call and checks the arguments: everything that needs no file.
    pub(crate) async fn parse_call(
        &self,
        call: &CallRequest,
        open: &PendingCall,
    ) -> Result<ParsedCall, CallFailure> {
        let index = self.find(&call.tool, &mut open.lock().details)?;
        let spec = self.inner.tool(index).spec();
        open.lock().details.tool = spec.name.clone();
        let parsed = self.parsed(index, call).await?;
        let asked = parsed.map_err(|complaints| {
            let list: Vec<String> = complaints.iter().map(ToString::to_string).collect();
            let list = list.join("; ");
            let stop = if list.ends_with('?') { "" } else { "." };
            CallFailure::new(
                FailureCode::InvalidArguments,
                format!("Cannot call {}: {list}{stop}", spec.name),
            )
            .structured(serde_json::json!({ "input_schema": spec.params.to_json_schema() }))
        })?;
        open.lock().details.arguments = asked.to_json();
        let asked = Arc::new(asked);
        let restored = spec
            .params
            .restore(&asked, &self.inner.redactor)
            .map_err(|unknown| placeholder_unknown(spec, &unknown))?;
        let args = restored.map_or_else(|| Arc::clone(&asked), Arc::new);
        let invocation = self.inner.tool(index).prepare(&args)?;
        let mut context = self.inner.context.for_call();
        context.progress = call.progress.clone();
        context.reads_outputs = self.inner.offers(READ_OUTPUT);
        context.redactor = Arc::clone(&self.inner.redactor);
        Ok(ParsedCall {
            inner: Arc::clone(&self.inner),
            index,
            asked,
            args,
            invocation,
            context,
            open: open.share(),
            place: call.place.clone(),
        })
    }

    /// Parses the arguments. Validation against a schema may take its time: other calls are served
    /// meanwhile, and a cancelled caller does not wait for it.
    async fn parsed(
        &self,
        index: usize,
        call: &CallRequest,
    ) -> Result<Result<Arguments, Vec<ArgumentError>>, CallFailure> {
        let spec = self.inner.tool(index).spec();
        if !spec.params.are_a_schema() {
            return Ok(spec.params.parse(&call.arguments));
        }
        let (inner, arguments) = (Arc::clone(&self.inner), call.arguments.clone());
        let parsing = move || inner.tool(index).spec().params.parse(&arguments);
        let limit = self.inner.timeout;
        match within(limit, tokio::task::spawn_blocking(parsing)).await {
            Ok(parsed) => joined(parsed),
            Err(Elapsed) => Err(not_in_time(spec, limit)),
        }
    }

    async fn run(
        &self,
        wanted: ResolvedCall,
        mut context: ToolContext,
        call: &CallRequest,
    ) -> Result<Reply, CallFailure> {
        let spec = self.inner.tool(wanted.index).spec();
        // A command has a limit of its own, and a worker those of its run.
        let limit = match wanted.intents.iter().any(|intent| intent.path().is_none()) {
            true => None,
            false => self.inner.timeout,
        };
        let _command = match wanted.executes() {
            true => Some(command_slot(spec).await?),
            false => None,
        };
        if let Some(place) = &call.place {
            place.acquire().await;
        }
        let work = async {
            context.may_read(&self.inner.reach, &wanted.intents);
            context.session = wanted.session();
            context.writing = self.inner.writing.lock(&wanted.intents).await;
            let approved = ApprovedCall::new(&self.inner, wanted, context);
            self.inner.runner.run(approved).await
        };
        within(limit, work)
            .await
            .unwrap_or_else(|Elapsed| Err(not_in_time(spec, limit)))
    }

    /// Looks at files for a call, off the threads that serve the others.
    pub(crate) async fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ToolboxInner) -> T + Send + 'static,
    ) -> Result<T, CallFailure> {
        let inner = Arc::clone(&self.inner);
        let looking = tokio::task::spawn_blocking(move || work(&inner));
        match within(self.inner.timeout, looking).await {
            Ok(found) => joined(found),
            Err(Elapsed) => Err(CallFailure::new(
                FailureCode::TimeLimit,
                "The files did not answer in time; nothing was done.",
            )),
        }
    }

    fn find(&self, name: &str, details: &mut CallDetails) -> Result<usize, CallFailure> {
        if let Some(index) = self.inner.tools.iter().position(|tool| {
            let spec = tool.spec();
            spec.answers_to(name) && self.inner.gate.offers(&spec.name)
        }) {
            return Ok(index);
        }
        details.decision = DecisionRecord::not_reached("no such tool");
        let names: Vec<&str> = self.specs().map(|spec| spec.name.as_str()).collect();
        let shown = crate::escape_controls(name);
        let failure = CallFailure::new(
            FailureCode::UnknownTool,
            format!("There is no tool named `{shown}`."),
        );
        Err(match nearest(name, names.iter().copied()) {
            Some(near) => failure.hint(format!("Did you mean `{near}`?")),
            None if names.is_empty() => failure.hint("This worker has no tools."),
            None => failure.hint(format!("Available tools: {}", names.join(", "))),
        })
    }

    /// Asks a person, or refuses. Returns the files as the person has seen them, if one was asked.
    async fn ask_or_refuse(
        &self,
        wanted: &ResolvedCall,
        judgement: Judgement,
        context: &ToolContext,
        approver: &dyn Approver,
        open: &PendingCall,
    ) -> Result<Vec<(String, ReviewedState)>, CallFailure> {
        match judgement.verdict {
            // No decision is needed: the operation itself checks the capability, in one step with
            // the opening.
            Verdict::Allow => Ok(Vec::new()),
            // Able first, then blocked, then asked: impossible calls raise no questions (F002-07,
            // F002-08).
            Verdict::Block => {
                self.check_capability(wanted, context).await?;
                Err(blocked(self.inner.tool(wanted.index).spec(), &judgement))
            }
            Verdict::Ask => {
                let able = self.check_capability(wanted, context).await;
                able.inspect_err(|_| open.record_not_asked())?;
                self.ask(wanted, judgement, context, approver, open).await
            }
        }
    }

    pub(crate) async fn check_capability(
        &self,
        wanted: &ResolvedCall,
        context: &ToolContext,
    ) -> Result<(), CallFailure> {
        let (intents, invocation) = (Arc::clone(&wanted.intents), Arc::clone(&wanted.invocation));
        let (named, context) = (wanted.named, context.clone());
        self.spawn_blocking(move |inner| {
            inner.check_capability(&intents[..named])?;
            invocation.check(&context.view())
        })
        .await
        .flatten()
    }
}
