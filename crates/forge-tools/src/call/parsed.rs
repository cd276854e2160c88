//! The first step of a call: its tool is found and its arguments are read. Opens no file.

use std::sync::Arc;

use file_sandbox::CancellationToken;

use crate::audit::DecisionRecord;
use crate::call::outcome::{CallDetails, READ_OUTPUT, not_in_time, placeholder_unknown};
use crate::call::pending::PendingCall;
use crate::call::request::CallRequest;
use crate::call_result::{CallFailure, FailureCode};
use crate::deadline::{Elapsed, within};
use crate::params::{ArgumentError, Arguments, nearest};
use crate::result_quota::ResultPermit;
use crate::spec::Spec;
use crate::tool::{Invocation, Tool};
use crate::tool_context::ToolContext;
use crate::toolbox_inner::{ToolboxInner, joined};

/// A call whose tool and arguments are known.
pub(crate) struct ParsedCall {
    pub(super) inner: Arc<ToolboxInner>,
    pub(super) tool: Arc<dyn Tool>,
    /// The arguments as the model wrote them.
    pub(super) asked: Arc<Arguments>,
    /// The arguments with the values behind placeholders.
    pub(super) args: Arc<Arguments>,
    /// The tool with these arguments.
    pub(super) invocation: Arc<dyn Invocation>,
    pub(super) context: ToolContext,
    pub(super) open: PendingCall,
    /// The permit for the result, until the client has taken it.
    pub(super) place: Option<ResultPermit>,
}

impl ParsedCall {
    /// Finds the tool of a call and checks the arguments: everything that needs no file.
    pub(crate) async fn parse(
        inner: &Arc<ToolboxInner>,
        call: &CallRequest,
        open: &PendingCall,
    ) -> Result<ParsedCall, CallFailure> {
        let tool = find(inner, &call.tool, &mut open.lock().details)?;
        let spec = tool.spec();
        open.lock().details.tool = spec.name.clone();
        let parsed = parse_arguments(inner, &tool, call).await?;
        let asked = parsed.map_err(|complaints| {
            let list: Vec<String> = complaints.iter().map(ToString::to_string).collect();
            let list = list.join("; ");
            let stop = if list.ends_with('?') { "" } else { "." };
            FailureCode::InvalidArguments
                .failure(format!("Cannot call {}: {list}{stop}", spec.name))
                .structured(serde_json::json!({ "input_schema": spec.params.to_json_schema() }))
        })?;
        open.lock().details.arguments = asked.to_json();
        let asked = Arc::new(asked);
        let restored = spec
            .params
            .restore(&asked, &inner.redactor)
            .map_err(|unknown| placeholder_unknown(spec, &unknown))?;
        let args = restored.map_or_else(|| Arc::clone(&asked), Arc::new);
        let invocation = tool.prepare(&args)?;
        let mut context = inner.context.for_call();
        context.progress = call.progress.clone();
        context.call = Some(open.of_command());
        context.reads_outputs = inner.offers(READ_OUTPUT);
        context.redactor = Arc::clone(&inner.redactor);
        context.written = Arc::clone(&asked);
        Ok(ParsedCall {
            inner: Arc::clone(inner),
            tool,
            asked,
            args,
            invocation,
            context,
            open: open.share(),
            place: call.place.clone(),
        })
    }

    pub(crate) fn tool(&self) -> Arc<dyn Tool> {
        Arc::clone(&self.tool)
    }

    sandbox_names::getters! {
        pub(crate) spec: &Spec = tool.spec();
        /// Ends the work of the call, also of the steps that follow.
        pub(crate) cancellation: CancellationToken = context.cancel.clone();
    }
}

/// Parses the arguments. Validation against a schema may take its time: other calls are served
/// meanwhile, and a cancelled caller does not wait for it.
async fn parse_arguments(
    inner: &ToolboxInner,
    tool: &Arc<dyn Tool>,
    call: &CallRequest,
) -> Result<Result<Arguments, Vec<ArgumentError>>, CallFailure> {
    let spec = tool.spec();
    if !spec.params.are_a_schema() {
        return Ok(spec.params.parse(&call.arguments));
    }
    let (own, arguments) = (Arc::clone(tool), call.arguments.clone());
    let parsing = move || own.spec().params.parse(&arguments);
    let limit = inner.timeout;
    match within(limit, tokio::task::spawn_blocking(parsing)).await {
        Ok(parsed) => joined(parsed),
        Err(Elapsed) => Err(not_in_time(spec, limit)),
    }
}

fn find(
    inner: &ToolboxInner,
    name: &str,
    details: &mut CallDetails,
) -> Result<Arc<dyn Tool>, CallFailure> {
    let mut offered = inner.offered_tools();
    if let Some(tool) = offered.find(|tool| tool.spec().answers_to(name)) {
        return Ok(Arc::clone(tool));
    }
    details.decision = DecisionRecord::not_reached("no such tool");
    let names = inner.offered_tools().map(|tool| tool.spec().name.as_str());
    let names: Vec<&str> = names.collect();
    let shown = crate::escape_controls(name);
    let failure = FailureCode::UnknownTool.failure(format!("There is no tool named `{shown}`."));
    Err(match nearest(name, names.iter().copied()) {
        Some(near) => failure.hint(format!("Did you mean `{near}`?")),
        None if names.is_empty() => failure.hint("This worker has no tools."),
        None => failure.hint(format!("Available tools: {}", names.join(", "))),
    })
}
