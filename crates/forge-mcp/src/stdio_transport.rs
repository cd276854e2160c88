//! The transport: one JSON-RPC message a line, in both directions.
//!
//! rmcp has one as well. This one replaces it because a client's mistake costs too much with that
//! one: a notification before the conversation is open ends the server, a line that is too long or
//! not a request gets no answer that the client could match, and neither the calls in flight nor
//! their size are bounded.
//!
//! Every read and line has a bound here ([`MAX_LINE_BYTES`], [`MAX_VALUES`]), and unanswered
//! requests one in `in_flight`.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_tools::BoxFuture;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, GetMeta,
    JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, watch};

use super::McpError;
use super::error_reply::ErrorReply;
use super::in_flight::{InFlightRequests, ResultSlots, lock};
use super::json_line;
use super::line_reader::{BoundedLineReader, JsonLine};
use super::outline::id_of;

/// Longest message taken.
pub(super) const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// Most values in a message. The shortest ones take a hundred times their length in memory while
/// they are read, so the length alone is not a bound.
pub(super) const MAX_VALUES: usize = 16 * 1024;

/// The methods that this server answers; all others are left to rmcp.
const METHODS: [&str; 6] = [
    "initialize",
    "ping",
    "server/discover",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
];

/// Errors of the streams, for the caller that started the server: rmcp only logs them.
#[derive(Default)]
pub(super) struct TransportErrors {
    first: Mutex<Option<McpError>>,
    hung_up: Notify,
    /// Whether nothing will come any more.
    over: watch::Sender<bool>,
}

impl TransportErrors {
    pub(super) fn take(&self) -> Option<McpError> {
        self.lock().take()
    }

    pub(super) fn over(&self) -> watch::Receiver<bool> {
        self.over.subscribe()
    }

    fn note(&self, error: McpError) {
        self.lock().get_or_insert(error);
    }

    fn lock(&self) -> MutexGuard<'_, Option<McpError>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct StdioTransport<R, W> {
    reader: BoundedLineReader<R>,
    writer: Arc<tokio::sync::Mutex<Option<W>>>,
    in_flight: Arc<Mutex<InFlightRequests>>,
    breakage: Arc<TransportErrors>,
    /// `true` if the conversation is in a revision in which every error names its request. A line
    /// without a known request is not answered then.
    errors_have_ids: bool,
    /// `true` if rmcp has left its opening phase, in which anything but a request makes it give up.
    open: bool,
    /// An answer of our own that is being written. It is kept here because
    /// [`Transport::receive`] may be dropped half-way.
    reply: Option<BoxFuture<'static, ()>>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Send + Unpin + 'static> StdioTransport<R, W> {
    pub(super) fn new(
        reader: R,
        writer: W,
        breakage: Arc<TransportErrors>,
        results: &ResultSlots,
    ) -> Self {
        StdioTransport {
            reader: BoundedLineReader::new(reader, MAX_LINE_BYTES),
            writer: Arc::new(tokio::sync::Mutex::new(Some(writer))),
            in_flight: results.in_flight(),
            breakage,
            errors_have_ids: false,
            open: false,
            reply: None,
        }
    }

    /// Writes one message, whole or not at all, as far as other messages are concerned.
    fn write(&self, message: &mut ServerJsonRpcMessage) -> BoxFuture<'static, io::Result<()>> {
        let line = json_line::line(message);
        let writer = Arc::clone(&self.writer);
        let breakage = Arc::clone(&self.breakage);
        Box::pin(async move { write_line(line?, &writer, &breakage).await })
    }

    fn refuse(&mut self, refusal: ErrorReply) {
        if refusal.id.is_none() && self.errors_have_ids {
            return;
        }
        self.refuse_all(refusal.code, refusal.text, vec![refusal.id]);
    }

    /// Writes the same error for each of these requests, one after another: a batch may have many.
    fn refuse_all(
        &mut self,
        code: ErrorCode,
        text: Cow<'static, str>,
        ids: Vec<Option<RequestId>>,
    ) {
        let error = ErrorData::new(code, text, None);
        let writer = Arc::clone(&self.writer);
        let breakage = Arc::clone(&self.breakage);
        self.reply = Some(Box::pin(async move {
            for id in ids {
                let mut message = ServerJsonRpcMessage::error(error.clone(), id);
                let Ok(line) = json_line::line(&mut message) else {
                    continue;
                };
                // A failure is noted where it happens and ends the next `receive`.
                if write_line(line, &writer, &breakage).await.is_err() {
                    return;
                }
            }
        }));
    }

    /// Decides about a line.
    fn sort(&mut self, line: &[u8]) -> LineAction {
        if values_at_most(line) > MAX_VALUES {
            let text = format!("A message may hold {MAX_VALUES} values at most.");
            return LineAction::Refuse(ErrorReply::invalid_request(text, id_of(line, line)));
        }
        let message = match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
            Ok(message) => message,
            Err(error) => return unreadable(line, &error),
        };
        match &message {
            JsonRpcMessage::Request(request) => {
                let id = request.id.clone();
                if let ClientRequest::CustomRequest(custom) = &request.request
                    && let Some(method) = METHODS.iter().find(|known| **known == custom.method)
                {
                    return LineAction::Refuse(ErrorReply::malformed(method, id));
                }
                if let Err(refusal) = lock(&self.in_flight).enter(id, line.len()) {
                    return LineAction::Refuse(refusal);
                }
                self.open |= opens(&request.request);
                LineAction::Deliver(Box::new(message))
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // rmcp sends nothing for it any more.
                    lock(&self.in_flight).leave(id);
                }
                self.deliver_if_open(message)
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => self.deliver_if_open(message),
        }
    }

    /// Reports the end of input to all waiting tasks.
    fn end(&self) -> Option<ClientJsonRpcMessage> {
        self.breakage.over.send_replace(true);
        None
    }

    fn deliver_if_open(&self, message: ClientJsonRpcMessage) -> LineAction {
        if self.open {
            LineAction::Deliver(Box::new(message))
        } else {
            LineAction::Ignore
        }
    }
}

impl<R, W> Transport<RoleServer> for StdioTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = self.write(&mut message);
        let in_flight = Arc::clone(&self.in_flight);
        if let JsonRpcMessage::Response(response) = &message
            && let ServerResult::InitializeResult(settled) = &response.result
        {
            let old = settled.protocol_version.as_str() < ProtocolVersion::V_2025_11_25.as_str();
            self.errors_have_ids = old;
        }
        let answered = match message {
            JsonRpcMessage::Response(response) => Some(response.id),
            JsonRpcMessage::Error(error) => error.id,
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        async move {
            let written = write.await;
            // Only now: an answer that the client does not fetch still counts.
            if let Some(id) = answered {
                lock(&in_flight).leave(&id);
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(reply) = &mut self.reply {
                reply.await;
                self.reply = None;
            }
            let read = tokio::select! {
                biased;
                () = self.breakage.hung_up.notified() => return self.end(),
                read = self.reader.next() => read,
            };
            let line = match read {
                Ok(Some(JsonLine::Whole(line))) => line,
                Ok(Some(JsonLine::TooLong(ends))) => {
                    self.refuse(ErrorReply::invalid_request(
                        format!("A message may have {MAX_LINE_BYTES} bytes at most."),
                        id_of(&ends.head, &ends.tail),
                    ));
                    continue;
                }
                Ok(None) => return self.end(),
                Err(error) => {
                    self.breakage.note(McpError::Read(error));
                    return self.end();
                }
            };
            match self.sort(&line) {
                LineAction::Deliver(message) => return Some(*message),
                LineAction::Refuse(refusal) => self.refuse(refusal),
                LineAction::RefuseBatch(ids) => {
                    let ids = ids.into_iter().map(Some).collect();
                    self.refuse_all(ErrorCode::INVALID_REQUEST, NO_BATCHES.into(), ids);
                }
                LineAction::Ignore => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.reply = None;
        // The holder of the lock is stuck on a client that does not read; waiting for it would keep
        // this process alive for as long as that client likes.
        match self.writer.try_lock() {
            Ok(mut writer) => match writer.take() {
                Some(mut open) => open.shutdown().await,
                None => Ok(()),
            },
            Err(_) => Ok(()),
        }
    }
}

enum LineAction {
    Deliver(Box<ClientJsonRpcMessage>),
    Refuse(ErrorReply),
    /// The requests of an array.
    RefuseBatch(Vec<RequestId>),
    Ignore,
}

/// The answer to each request of an array.
///
/// Why: the revisions 2024-11-05 and 2025-03-26 have batches and the later ones do not. No known
/// client sends one, and a refusal of those revisions would cut off clients that speak nothing else.
const NO_BATCHES: &str = "Send one message a line; there are no batches.";

/// Writes one line. After a failure nothing is written any more.
async fn write_line<W: AsyncWrite + Unpin>(
    line: Vec<u8>,
    writer: &tokio::sync::Mutex<Option<W>>,
    breakage: &TransportErrors,
) -> io::Result<()> {
    let mut writer = writer.lock().await;
    let Some(open) = writer.as_mut() else {
        return Err(io::ErrorKind::NotConnected.into());
    };
    let mut written = open.write_all(&line).await;
    if written.is_ok() {
        written = open.flush().await;
    }
    if let Err(error) = &written {
        // Half a line may be out: nothing may follow it.
        *writer = None;
        if error.kind() != io::ErrorKind::BrokenPipe {
            breakage.note(McpError::Write(io::Error::new(
                error.kind(),
                error.to_string(),
            )));
        }
        breakage.hung_up.notify_one();
    }
    written
}

/// Returns `true` if rmcp leaves its opening phase with this request: a handshake, or the first
/// request that brings its own context. `ping` and `server/discover` decide nothing.
fn opens(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        other => {
            let meta = other.get_meta();
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28)
                .is_empty()
                && meta
                    .protocol_version()
                    .is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version))
        }
    }
}

/// A request of which only the outline can be read: half a character in a text (some clients cut
/// emoji so), an invalid number, or too deep nesting.
#[derive(Deserialize)]
struct RequestOutline {
    id: RequestId,
    /// A message without it is not a request.
    #[serde(rename = "method")]
    _method: IgnoredAny,
}

/// Decides about a line that is not a message. Text that is not JSON is ignored, as in the official
/// SDKs: an answer to noise begets noise. But an identifiable request gets an answer, because its
/// client waits for one.
fn unreadable(line: &[u8], error: &serde_json::Error) -> LineAction {
    if !error.is_data() {
        return match serde_json::from_slice::<RequestOutline>(line) {
            Ok(RequestOutline { id, .. }) => LineAction::Refuse(ErrorReply {
                code: ErrorCode::PARSE_ERROR,
                text: format!("The message cannot be read: {}.", reason(error)).into(),
                id: Some(id),
            }),
            Err(_) => match serde_json::from_slice::<Vec<RequestOutline>>(line) {
                Ok(batch) => LineAction::RefuseBatch(batch.into_iter().map(|one| one.id).collect()),
                Err(_) => LineAction::Ignore,
            },
        };
    }
    let refuse = |text: &'static str, id| LineAction::Refuse(ErrorReply::invalid_request(text, id));
    let object = match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => object,
        Ok(Value::Array(batch)) => {
            let requests = batch.into_iter();
            let ids = requests.filter_map(|one| serde_json::from_value::<RequestOutline>(one).ok());
            let ids: Vec<RequestId> = ids.map(|one| one.id).collect();
            return match ids.is_empty() {
                true => refuse(NO_BATCHES, None),
                false => LineAction::RefuseBatch(ids),
            };
        }
        Ok(_) | Err(_) => return refuse("A message is a JSON object.", None),
    };
    let Some(id) = object.get("id") else {
        // A notification gets no answer, however wrong it is.
        return match object.get("method") {
            Some(_) => LineAction::Ignore,
            None => refuse("A message has a method.", None),
        };
    };
    let id = match id {
        Value::String(id) => RequestId::String(id.as_str().into()),
        Value::Number(id) => match id.as_i64() {
            Some(id) => RequestId::Number(id),
            None => return refuse("An id is a whole number or a string.", None),
        },
        _ => return refuse("An id is a whole number or a string.", None),
    };
    if object.contains_key("result") || object.contains_key("error") {
        return LineAction::Ignore;
    }
    let method = object.get("method").and_then(Value::as_str);
    match METHODS.iter().find(|known| Some(**known) == method) {
        Some(method) if object.get("jsonrpc") == Some(&Value::from("2.0")) => {
            LineAction::Refuse(ErrorReply::malformed(method, id))
        }
        _ => refuse("Not a JSON-RPC 2.0 request.", Some(id)),
    }
}

/// The reason alone, and the column: a message is one line.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.replace(" at line 1 column ", " at column ")
}

/// An upper bound of the values that the JSON in `line` holds, without reading it:
/// each but the first follows one of these signs outside a string.
pub(super) fn values_at_most(line: &[u8]) -> usize {
    let mut values = 1;
    let mut in_string = false;
    let mut escaped = false;
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b':' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_strings() {
        for (line, values) in [
            (r#"7"#, 1),
            (r#"[1,2,3]"#, 4),
            (r#"{"a":[{}],"b":"[,,{:"}"#, 7),
            (r#"["\"[,","\\",1]"#, 4),
            (r#"["\\\",,"#, 2),
        ] {
            assert_eq!(values_at_most(line.as_bytes()), values, "{line}");
        }
    }
}
