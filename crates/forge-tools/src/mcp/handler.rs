//! What is answered: the list of tools, and the outcome of a call.

use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListToolsResult, MetaObject, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::{ServerInfo, Service};
use crate::call::{Call, CallResult, Code};
use crate::spec::Spec;

/// Where a policy engine in front of us finds the tool's risk.
const RISK_KEY: &str = "dev.forge/risk";

pub(super) struct Handler {
    service: Service,
    info: ServerInfo,
}

impl Handler {
    pub(super) fn new(service: Service, info: ServerInfo) -> Self {
        Handler { service, info }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(&self.info.name, &self.info.version));
        // A model that sees no tools will not call one, so the mistake is also told
        // where it is seen without a call.
        let instructions = match &self.service {
            Service::Tools(_) => self.info.instructions.as_ref(),
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
            return Err(ErrorData::invalid_params("There is no such cursor.", None));
        }
        let tools = match &self.service {
            Service::Tools(toolbox) => toolbox.specs().map(advertise).collect(),
            Service::Broken { .. } => Vec::new(),
        };
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let toolbox = match &self.service {
            Service::Tools(toolbox) => toolbox.clone(),
            Service::Broken { message } => return Ok(broken(message).into()),
        };
        let arguments = request.arguments.unwrap_or_default();
        let call = Call::new(request.name, Value::Object(arguments));
        // A task of its own: a tool that panics costs this call, not the answer to it.
        // Dropping the set ends it.
        let mut running = JoinSet::new();
        running.spawn(async move { toolbox.call(call).await });
        tokio::select! {
            outcome = running.join_next() => match outcome {
                Some(Ok(result)) => answer(result),
                Some(Err(_)) | None => Err(ErrorData::internal_error(
                    "The tool stopped unexpectedly; nothing else was affected.",
                    None,
                )),
            },
            // Nobody waits for the answer to a cancelled request; it is not sent.
            () = context.ct.cancelled() => {
                Err(ErrorData::internal_error("The call was cancelled.", None))
            }
        }
    }
}

fn advertise(spec: &Spec) -> Tool {
    let schema = match spec.params.to_json_schema() {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    let hints = spec.annotations;
    let mut meta = Map::new();
    meta.insert(RISK_KEY.to_owned(), json!(spec.risk));
    Tool::new(
        spec.name.clone(),
        spec.description.clone(),
        Arc::new(schema),
    )
    .with_annotations(
        ToolAnnotations::new()
            .read_only(hints.read_only)
            .destructive(hints.destructive)
            .idempotent(hints.idempotent)
            .open_world(hints.open_world),
    )
    .with_meta(MetaObject(meta))
}

/// A failure that the model can act on is a result; a call of something that does not
/// exist is an error of the protocol.
fn answer(result: CallResult) -> Result<CallToolResponse, ErrorData> {
    if result.code == Some(Code::UnknownTool) {
        return Err(ErrorData::invalid_params(result.content, None));
    }
    let mut response = if result.ok {
        CallToolResult::success(vec![ContentBlock::text(result.content)])
    } else {
        CallToolResult::error(vec![ContentBlock::text(result.content)])
    };
    // Clients pass on either the text or the structure, seldom both; so a failure's
    // structure holds what its text says, and no more. Only objects are allowed here
    // by the versions before 2026-07-28.
    response.structured_content = match result.error {
        Some(error) => Some(json!(error)),
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
