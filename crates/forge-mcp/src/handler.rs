//! The answers of the server: the list of tools, the outcome of a call, and notices of a changed
//! list.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use forge_tools::{
    BlockingHandoff, CallRequest, CallResult, FailureCode, OutputSchema, Progress, Spec, Toolbox,
};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ContentBlock, ErrorData, Implementation,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::client_approver::{ClientApprover, ElicitationRoute, ReturnedAnswer, answer_in};
use super::in_flight::ResultSlots;
use super::questions::{Fingerprint, QuestionStore, fingerprint};
use super::report::report;
use super::service_handle::{ServiceHandle, ServiceState};
use super::{ServerInfo, Service, advertise};

pub(super) struct Handler {
    live: ServiceHandle,
    info: ServerInfo,
    questions: Arc<QuestionStore>,
    /// Whether the client has hung up.
    over: watch::Receiver<bool>,
    /// Notifies a client of the older kind of a changed list; ends with the conversation.
    teller: Mutex<JoinSet<()>>,
    /// Of a client that reads line by line; over HTTP each answer has a connection of its own.
    results: Option<ResultSlots>,
    /// Answers other calls meanwhile.
    handoff: Option<BlockingHandoff>,
}

impl Handler {
    pub(super) fn new(
        live: ServiceHandle,
        info: ServerInfo,
        over: watch::Receiver<bool>,
        results: ResultSlots,
        handoff: Option<BlockingHandoff>,
    ) -> Self {
        let mut handler = Handler::sharing(live, info, Arc::new(QuestionStore::new()), over);
        handler.results = Some(results);
        handler.handoff = handoff;
        handler
    }

    /// One of several handlers of one server.
    pub(super) fn sharing(
        live: ServiceHandle,
        info: ServerInfo,
        questions: Arc<QuestionStore>,
        over: watch::Receiver<bool>,
    ) -> Self {
        Handler {
            live,
            info,
            questions,
            over,
            teller: Mutex::default(),
            results: None,
            handoff: None,
        }
    }

    /// How the client of this call can be asked.
    ///
    /// # Errors
    ///
    /// It brings an answer that is not one to this call.
    fn line(
        &self,
        request: &CallToolRequestParams,
        policy: u64,
        toolbox: &Toolbox,
        context: &RequestContext<RoleServer>,
    ) -> Result<ElicitationRoute, ErrorData> {
        let shows_forms = shows_forms(context);
        if !is_modern(context) {
            return Ok(match shows_forms {
                true => ElicitationRoute::Request(context.peer.clone()),
                false => ElicitationRoute::None,
            });
        }
        if !shows_forms && request.request_state.is_none() {
            return Ok(ElicitationRoute::None);
        }
        let mut given = None;
        let call = identity(request, policy, toolbox);
        if let Some(state) = &request.request_state {
            let (shown, hasty) = self
                .questions
                .open(state, &call)
                .map_err(|why| ErrorData::invalid_params(why, None))?;
            given = answer_in(request.input_responses.as_ref()).map(|decision| ReturnedAnswer {
                shown,
                decision,
                hasty,
            });
        }
        Ok(match shows_forms {
            true => ElicitationRoute::Result { given, call },
            false => ElicitationRoute::None,
        })
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let ServiceState {
            service, policy, ..
        } = self.live.current();
        let toolbox = match service {
            Service::Tools(toolbox) => toolbox,
            Service::Broken { message } => return Ok(broken(&message).into()),
        };
        let channel = Arc::new(ClientApprover::new(
            Arc::clone(&self.questions),
            self.line(&request, policy, &toolbox, &context)?,
            policy,
            Arc::clone(toolbox.approver()),
        ));
        let progress = Progress::default();
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let is_list = |spec: &Spec| spec.output.as_ref().is_some_and(OutputSchema::is_list);
        let mut specs = toolbox.specs();
        let is_list = specs.any(|spec| spec.answers_to(&request.name) && is_list(spec));
        let mut call = CallRequest::new(request.name, arguments)
            .asking(Arc::clone(&channel) as _)
            .reporting(progress.clone());
        let place = self.results.as_ref().map(ResultSlots::place);
        if let Some(place) = &place {
            call = call.with_result_permit(place.clone());
        }
        if let Some(handoff) = &self.handoff {
            call = call.with_blocking_handoff(handoff.clone());
        }
        let (done, until_done) = oneshot::channel();
        let work = async {
            let outcome = caught(Box::pin(toolbox.call(call))).await;
            drop(done);
            outcome
        };
        let reported = report(&context, &progress, until_done);
        tokio::select! {
            (outcome, ()) = async { tokio::join!(work, reported) } => {
                if let (Some(results), Some(place)) = (&self.results, place) {
                    results.hold(&context.id, place);
                }
                match (outcome, channel.take_question()) {
                    (Some(_), Some(question)) => Ok(question.into()),
                    (Some(result), None) => answer(result, is_list),
                    (None, _) => Err(ErrorData::internal_error(
                        "The tool stopped unexpectedly; nothing else was affected.",
                        None,
                    )),
                }
            }
            // The answer to a cancelled request is not awaited; it is not sent.
            () = context.ct.cancelled() => {
                Err(ErrorData::internal_error("The call was cancelled.", None))
            }
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools();
        let capabilities = if self.live.changes() {
            capabilities.enable_tool_list_changed()
        } else {
            capabilities
        };
        let config = ServerConfig::new(capabilities.build())
            .with_server_info(Implementation::new(&self.info.name, &self.info.version));
        // A model that sees no tools will not call one, so the mistake is also told
        // where it is seen without a call.
        let instructions = match self.live.current().service {
            Service::Tools(_) => self.info.instructions.clone(),
            Service::Broken { message } => Some(message),
        };
        match instructions {
            Some(text) => config.with_instructions(text),
            None => config,
        }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // The list is one page, so no cursor can be ours.
        if request.is_some_and(|params| params.cursor.is_some()) {
            return Err(ErrorData::invalid_params("Unknown cursor.", None));
        }
        let tools = advertise::list(&self.live.current().service);
        Ok(ListToolsResult::with_all_items(tools))
    }

    // Undeclared methods are not answered either. By default rmcp gives empty lists, and a client
    // that believes them offers prompts and resources of a server that has none.

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<
            ListResourceTemplatesRequestMethod,
        >())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // On the heap: rmcp moves the future from place to place, and it is large.
        Box::pin(self.call(request, context)).await
    }

    /// A client of the older kind is told without having asked.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut teller = self.teller.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.live.changes() || !teller.is_empty() {
            return;
        }
        let mut lists = self.live.lists();
        teller.spawn(async move {
            loop {
                lists.next().await;
                if context.peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.live
            .changes()
            .then(|| SubscriptionFilter::builder().tools_list_changed().build())
    }

    fn listen(
        &self,
        context: SubscriptionContext,
    ) -> impl Future<Output = Result<(), ErrorData>> + Send + '_ {
        let mut lists = self.live.lists();
        let mut over = self.over.clone();
        async move {
            loop {
                tokio::select! {
                    () = context.cancelled() => return Ok(()),
                    () = ended(&mut over) => return Ok(()),
                    () = lists.next() => {
                        // It wants to hear of something else, or hears nothing any more.
                        if context.sink().notify_tool_list_changed().await.is_err() {
                            context.cancelled().await;
                            return Ok(());
                        }
                    }
                }
            }
        }
    }
}

/// The result of a call; `None` if it panics, which costs this call and not the answer to it.
async fn caught(call: impl Future<Output = CallResult>) -> Option<CallResult> {
    let mut call = pin!(call);
    poll_fn(|context| {
        let poll = AssertUnwindSafe(|| call.as_mut().poll(context));
        // Not polled again after a panic.
        catch_unwind(poll).map_or(Poll::Ready(None), |poll| poll.map(Some))
    })
    .await
}

/// Waits until the client has hung up.
async fn ended(over: &mut watch::Receiver<bool>) {
    // An error means that the transport is gone, which ends it as well.
    let _ = over.wait_for(|over| *over).await;
}

/// Returns `true` if the request brings its own context, and its answer may ask for input.
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Returns `true` if the client says that it can show a form. Before there were other kinds, saying
/// nothing more meant this one.
fn shows_forms(context: &RequestContext<RoleServer>) -> bool {
    context
        .client_capabilities()
        .and_then(|client| client.elicitation)
        .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

/// The identity of a call: tool, arguments, worker, policy.
fn identity(request: &CallToolRequestParams, policy: u64, toolbox: &Toolbox) -> Fingerprint {
    fingerprint(&json!([
        request.name,
        request.arguments,
        toolbox.caller().chain(),
        policy,
    ]))
}

/// A failure that the model can act on is a result; a call of something that does not
/// exist is an error of the protocol.
fn answer(result: CallResult, is_list: bool) -> Result<CallToolResponse, ErrorData> {
    if result.code == Some(FailureCode::UnknownTool) {
        return Err(ErrorData::invalid_params(result.content, None));
    }
    let mut response = if result.ok {
        CallToolResult::success(vec![ContentBlock::text(result.content)])
    } else {
        CallToolResult::error(vec![ContentBlock::text(result.content)])
    };
    // Clients pass on either the text or the structure, seldom both; so a failure's structure
    // repeats its text, and no more. Only objects are allowed here by the versions before
    // 2026-07-28.
    response.structured_content = match result.error {
        Some(error) => Some(json!(error)),
        None if is_list => None,
        None => result.structured.filter(Value::is_object),
    };
    Ok(response.into())
}

fn broken(message: &str) -> CallToolResult {
    let mut response = CallToolResult::error(vec![ContentBlock::text(message)]);
    response.structured_content = Some(json!({
        "code": "INVALID_CONFIGURATION",
        "message": message,
    }));
    response
}
