//! One model behind HTTP: a request for each turn, and its answer as events as they come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, HeaderValue};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::body::{BodyFormat, BodyReader, silent};
use super::chat::LimitName;
use super::http::{TransportFailure, client, describe, is_loopback, is_refused, problem};
use super::provider::ProviderEndpoint;
use super::responses::SealedThinking;
use super::settings::ProviderError;
use super::turn_reader::{ReadState, TurnReader, too_long, whole};
use super::{anthropic, chat, provider_error, responses};
use crate::model::{Model, ModelError, ModelEvent, ModelRequest, TokenPrices, Wire};

/// Queued events; the server is read no faster than they are consumed.
const MAX_WAITING: usize = 64;
/// Largest part of a failed answer that is read.
const MAX_COMPLAINT_BYTES: usize = 64 * 1024;
/// The version of Anthropic's wire.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A model of a [`ProviderEndpoint`].
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// use std::sync::Arc;
/// use forge_runtime::{ModelEvent, Message, Model as _, ModelError, ProviderEndpoint, ModelRequest, Wire};
///
/// // Nobody listens there.
/// let nowhere = ProviderEndpoint::new("local", Wire::OpenAiChat, "http://127.0.0.1:1/v1", 512).unwrap();
/// let model = nowhere.model("any").unwrap();
/// let request = ModelRequest {
///     worker: "main".into(),
///     instructions: "Be brief.".into(),
///     tools: vec![],
///     messages: vec![Message::Input { text: "Hello?".into() }],
/// };
/// let event = rt.block_on(async { model.turn(Arc::new(request)).recv().await });
/// assert!(matches!(event, Some(ModelEvent::Failed(ModelError::NoConnection(_)))));
/// ```
#[derive(Debug, Clone)]
pub struct HttpModel {
    shared: Arc<HttpModelInner>,
}

#[derive(Debug)]
struct HttpModelInner {
    provider: ProviderEndpoint,
    model: String,
    client: Client,
    learned: LearnedLimits,
}

/// Facts that the model has revealed by refusing a request; valid for all later turns.
#[derive(Debug, Default)]
struct LearnedLimits {
    newer_limit: AtomicBool,
    no_sealed_thinking: AtomicBool,
}

impl ProviderEndpoint {
    /// One of its models. Turns of it need a tokio runtime with network and time.
    ///
    /// # Errors
    ///
    /// No client can be made on this machine.
    pub fn model(&self, model: impl Into<String>) -> Result<HttpModel, ProviderError> {
        let client = match self.client.get() {
            Some(client) => client.clone(),
            None => {
                let made = client(&self.url, &self.bounds)?;
                self.client.get_or_init(|| made).clone()
            }
        };
        Ok(HttpModel {
            shared: Arc::new(HttpModelInner {
                provider: self.clone(),
                model: model.into(),
                client,
                learned: LearnedLimits::default(),
            }),
        })
    }
}

impl Model for HttpModel {
    fn name(&self) -> String {
        format!("{}:{}", self.shared.provider.name, self.shared.model)
    }

    fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        let (events, turn) = mpsc::channel(MAX_WAITING);
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                // The receiver was dropped: the connection ends with the request.
                () = events.closed() => {}
                () = shared.speak(&request, &events) => {}
            }
        });
        turn
    }

    fn prices(&self) -> Option<TokenPrices> {
        self.shared.provider.prices
    }

    fn context_tokens(&self) -> Option<u64> {
        self.shared.provider.context_tokens
    }
}

impl HttpModelInner {
    async fn speak(&self, request: &ModelRequest, events: &mpsc::Sender<ModelEvent>) {
        let total_ms = self.provider.bounds.total_ms;
        let limit = Duration::from_millis(total_ms);
        let outcome = match timeout(limit, self.exchange(request, events)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(silent(format!("no end of its answer within {total_ms} ms"))),
        };
        if let Err(error) = outcome {
            let error = provider_error::sanitized(error, self.provider.key.as_ref());
            let _gone = events.send(ModelEvent::Failed(error)).await;
        }
    }

    async fn exchange(
        &self,
        request: &ModelRequest,
        events: &mpsc::Sender<ModelEvent>,
    ) -> Result<(), ModelError> {
        let response = loop {
            match self.ask(request).await? {
                Ok(response) => break response,
                Err(error) if self.learn(&error) => {}
                Err(error) => return Err(error),
            }
        };
        let mut body = BodyReader::new(response, self.provider.bounds.idle_ms)?;
        // Some servers do not support streams, and always answer in one piece.
        let asked_for = match self.provider.stream {
            true => BodyFormat::Events,
            false => BodyFormat::OnePiece,
        };
        match body.form(asked_for).await? {
            Some(BodyFormat::Events) => self.read_stream(body, events).await,
            Some(BodyFormat::OnePiece) => self.read_whole(body, events).await,
            None => {
                let kind = body.content_type();
                let body = self
                    .read(body, MAX_COMPLAINT_BYTES, OversizePolicy::Cut)
                    .await;
                Err(provider_error::other_type(
                    &kind,
                    &body.unwrap_or_default(),
                    self.provider.key.as_ref(),
                ))
            }
        }
    }

    /// One request; the inner error is the server's.
    async fn ask(
        &self,
        request: &ModelRequest,
    ) -> Result<Result<Response, ModelError>, ModelError> {
        let provider = &self.provider;
        let mut asked = self
            .client
            .post(provider.url.clone())
            .header(
                ACCEPT,
                match provider.stream {
                    true => "text/event-stream",
                    false => "application/json",
                },
            )
            // Compression would delay a stream: compressors do not work piece by piece.
            .header(ACCEPT_ENCODING, "identity")
            .json(&self.body_of(request));
        asked = self.with_key(asked)?;
        // An answer in one piece begins when it is complete.
        let limit_ms = match provider.stream {
            true => provider.bounds.idle_ms,
            false => provider.bounds.progress_ms,
        };
        let response = match timeout(Duration::from_millis(limit_ms), asked.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.send_failure(&error)),
            Err(_) => return Err(silent(format!("no answer within {limit_ms} ms"))),
        };
        let status = response.status();
        if status.is_success() {
            return Ok(Ok(response));
        }
        let headers = response.headers().clone();
        let body = match BodyReader::new(response, provider.bounds.idle_ms) {
            Ok(body) => {
                self.read(body, MAX_COMPLAINT_BYTES, OversizePolicy::Cut)
                    .await
            }
            Err(error) => Err(error),
        };
        let mut refused = provider_error::refused(
            status.as_u16(),
            &headers,
            // Its status says enough if its words do not come.
            &body.unwrap_or_default(),
            provider.key.as_ref(),
        );
        if let ModelError::Rejected { message, .. } = &mut refused
            && (status.as_u16(), provider.name.as_str()) == (404, "ollama")
        {
            message.push_str(&format!("; run `ollama pull {}`", self.model));
        }
        Ok(Err(refused))
    }

    /// Classifies an error of sending the request.
    fn send_failure(&self, error: &reqwest::Error) -> ModelError {
        let provider = &self.provider;
        let host = provider.url.host_str().unwrap_or_default();
        // A server of this machine that is not there does not come by waiting.
        if is_loopback(&provider.url) && is_refused(error) {
            let port = provider.url.port_or_known_default().unwrap_or_default();
            let start = match provider.name.as_str() {
                "ollama" => "run `ollama serve`".to_owned(),
                name => format!("start the server of the provider `{name}`"),
            };
            let why = format!("no server listens at {host}:{port}; {start}");
            return ModelError::NoConnection(why);
        }
        let why = describe(error, &provider.url);
        match problem(error) {
            TransportFailure::NotHttp => ModelError::Malformed(why),
            TransportFailure::Lasting => ModelError::NoConnection(why),
            TransportFailure::Passing => ModelError::Unreachable(why),
        }
    }

    fn body_of(&self, request: &ModelRequest) -> Value {
        let ProviderEndpoint {
            wire,
            max_tokens,
            stream,
            ..
        } = self.provider;
        let learned = |fact: &AtomicBool| fact.load(Ordering::Relaxed);
        match wire {
            Wire::Anthropic => anthropic::ask(&self.model, max_tokens, stream, request),
            Wire::OpenAiChat => {
                let limit = match learned(&self.learned.newer_limit) {
                    true => LimitName::MaxCompletionTokens,
                    false => LimitName::MaxTokens,
                };
                chat::ask(&self.model, max_tokens, limit, stream, request)
            }
            Wire::OpenAiResponses => {
                let sealed = match learned(&self.learned.no_sealed_thinking) {
                    true => SealedThinking::NotThere,
                    false => SealedThinking::Wanted,
                };
                responses::ask(&self.model, max_tokens, sealed, stream, request)
            }
        }
    }

    fn with_key(&self, asked: RequestBuilder) -> Result<RequestBuilder, ModelError> {
        let asked = match self.provider.wire {
            Wire::Anthropic => asked.header("anthropic-version", ANTHROPIC_VERSION),
            Wire::OpenAiChat | Wire::OpenAiResponses => asked,
        };
        let Some(key) = &self.provider.key else {
            return Ok(asked);
        };
        let (name, value) = match self.provider.wire {
            Wire::Anthropic => ("x-api-key", HeaderValue::from_str(key.reveal())),
            Wire::OpenAiChat | Wire::OpenAiResponses => (
                AUTHORIZATION.as_str(),
                HeaderValue::from_str(&format!("Bearer {}", key.reveal())),
            ),
        };
        let mut value = value.map_err(|_| {
            ModelError::Credentials("the key holds characters that no key has".to_owned())
        })?;
        value.set_sensitive(true);
        Ok(asked.header(name, value))
    }

    /// Returns `true` if a refusal tells how to repeat the request.
    fn learn(&self, error: &ModelError) -> bool {
        let ModelError::Rejected {
            status: Some(400),
            message,
        } = error
        else {
            return false;
        };
        let fact = match self.provider.wire {
            Wire::OpenAiChat if message.contains("max_completion_tokens") => {
                &self.learned.newer_limit
            }
            Wire::OpenAiResponses if message.to_lowercase().contains("encrypted content") => {
                &self.learned.no_sealed_thinking
            }
            Wire::Anthropic | Wire::OpenAiChat | Wire::OpenAiResponses => return false,
        };
        // Once: a known fact was not the reason.
        !fact.swap(true, Ordering::Relaxed)
    }

    async fn read_stream(
        &self,
        mut body: BodyReader,
        events: &mpsc::Sender<ModelEvent>,
    ) -> Result<(), ModelError> {
        let bounds = &self.provider.bounds;
        let mut reader = TurnReader::new(self.provider.wire, bounds);
        let mut found = Vec::new();
        let mut progress = Instant::now();
        let outcome = loop {
            let chunk = match body.chunk().await {
                Ok(chunk) => chunk,
                Err(error) => break Err(error),
            };
            let step = match &chunk {
                Some(bytes) => reader.feed(bytes, &mut found).map(ReadState::is_over),
                None => reader.close(&mut found).map(|()| true),
            };
            if found.iter().any(|event| *event != ModelEvent::Heartbeat) {
                progress = Instant::now();
            }
            for event in found.drain(..) {
                if events.send(event).await.is_err() {
                    return Ok(());
                }
            }
            match step {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
            if progress.elapsed() > Duration::from_millis(bounds.progress_ms) {
                let ms = bounds.progress_ms;
                break Err(silent(format!("nothing but signs of life for {ms} ms")));
            }
        };
        // Usage before a failure is billed nevertheless.
        if let Some(usage) = reader.used() {
            let _gone = events.send(ModelEvent::Usage(usage)).await;
        }
        outcome
    }

    async fn read_whole(
        &self,
        body: BodyReader,
        events: &mpsc::Sender<ModelEvent>,
    ) -> Result<(), ModelError> {
        let max_bytes = self.provider.bounds.event_limit(self.provider.wire);
        let body = self.read(body, max_bytes, OversizePolicy::Fail).await?;
        let mut found = Vec::new();
        whole(self.provider.wire, &body, &mut found)?;
        for event in found {
            if events.send(event).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    async fn read(
        &self,
        mut body: BodyReader,
        max_bytes: usize,
        excess: OversizePolicy,
    ) -> Result<Vec<u8>, ModelError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = body.chunk().await? {
            let room = max_bytes.saturating_sub(bytes.len());
            bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                return match excess {
                    OversizePolicy::Cut => {
                        if let Some(key) = &self.provider.key {
                            key.cut_off(&mut bytes);
                        }
                        Ok(bytes)
                    }
                    OversizePolicy::Fail => Err(too_long(max_bytes)),
                };
            }
        }
        Ok(bytes)
    }
}

/// The treatment of a body above the limit.
enum OversizePolicy {
    Cut,
    Fail,
}
