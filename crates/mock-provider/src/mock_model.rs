//! The model that plays over a wire.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use forge_runtime::{
    AttackAttempts, Model, ModelError, ModelEvent, ModelRequest, Playbook, ProviderEndpoint,
    ProviderError, ProviderKey, RetryingModel, ScriptedModel, TokenPrices, Wire,
};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::pending::{PendingGuard, PendingTurns};
use super::server::{ServerState, serve};

/// Name of the model in requests.
const MODEL: &str = "playbook";

/// Tokens of an answer that the client asks for; the playbook says how long it is.
const MAX_TOKENS: u64 = 64_000;

/// Retry limit of a turn, as for providers without a configured one.
const RETRY_MS: u64 = 120_000;

/// The first pause. It is short; `retry_after_s` sets a longer one.
const FIRST_PAUSE_MS: u64 = 50;

/// Pieces of a turn that wait to be taken.
const QUEUE: usize = 64;

/// A [`Playbook`] that is played over a vendor's wire: through the client for real providers and a
/// server on loopback. [`ScriptedModel`] plays the turns without a wire.
///
/// Its turns need a tokio runtime with network and time. The server ends with the model.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// use forge_runtime::{Playbook, Session};
/// use mock_provider::MockModel;
/// use sandbox_config::{Grant, Sources, load};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(dir.path().join("workers")).unwrap();
/// # let text = "---\nname: hello\n---\nSay hello.\n";
/// # std::fs::write(dir.path().join("workers/hello.worker"), text).unwrap();
/// let worker = load(&Sources::new(dir.path())).unwrap().worker("hello").unwrap();
/// let text = "version: 1\nwire: openai-chat\nworkers: {hello: [{say: 'hi, {{ input }}'}]}";
/// let model = MockModel::new("example", Playbook::parse(text).unwrap()).unwrap();
///
/// let session = Session::builder(model).build();
/// let report = rt.block_on(session.run(&worker, Grant::empty(), "you"));
/// assert_eq!(report.end, forge_runtime::RunOutcome::Answered { answer: "hi, you".into() });
/// ```
#[derive(Debug)]
pub struct MockModel {
    name: String,
    state: Arc<ServerState>,
    provider: ProviderEndpoint,
    attempts: AttackAttempts,
    server: Mutex<ServerTask>,
}

/// Why a playbook cannot be played over a wire.
///
/// ```
/// fn text(error: &mock_provider::MockProviderError) -> String {
///     error.to_string()
/// }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum MockProviderError {
    /// No port on loopback.
    #[error("no server can be started on loopback: {0}")]
    NoServer(#[from] std::io::Error),
    /// No client.
    #[error(transparent)]
    NoClient(#[from] ProviderError),
}

#[derive(Debug)]
enum ServerTask {
    /// Has its port; starts with the first turn, in the runtime of that turn.
    Bound(std::net::TcpListener),
    Serving(AbortHandle),
    Failed,
}

impl Drop for ServerTask {
    fn drop(&mut self) {
        if let ServerTask::Serving(task) = self {
            task.abort();
        }
    }
}

impl MockModel {
    /// A model that plays `playbook` over its wire; `label` names it in records.
    ///
    /// # Errors
    ///
    /// If no port on loopback is free, or the client cannot be made.
    pub fn new(label: impl Into<String>, playbook: Playbook) -> Result<Self, MockProviderError> {
        let wire = playbook.wire();
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let provider = provider(wire, listener.local_addr()?)?;
        let scripted = ScriptedModel::new(label, playbook);
        Ok(MockModel {
            name: scripted.name(),
            attempts: scripted.attempts(),
            state: Arc::new(ServerState {
                wire,
                scripted,
                pending: Arc::new(PendingTurns::default()),
            }),
            provider,
            server: Mutex::new(ServerTask::Bound(listener)),
        })
    }

    /// Sets whether answers are streamed or come in one piece.
    #[must_use]
    pub fn stream(mut self, stream: bool) -> Self {
        self.provider = self.provider.stream(stream);
        self
    }

    /// Returns the attempts so far; the list is updated during the run.
    pub fn attempts(&self) -> AttackAttempts {
        self.attempts.clone()
    }

    /// Lays the request on the desk and asks the client for the turn.
    fn ask(
        &self,
        request: &Arc<ModelRequest>,
    ) -> Result<(PendingGuard, mpsc::Receiver<ModelEvent>), ModelError> {
        self.start()?;
        let key = fresh_key()?;
        let guard = self.state.pending.lay(key.reveal(), Arc::clone(request));
        let client = self.provider.clone().key(key).model(MODEL);
        let client = client.map_err(|error| ModelError::Unreachable(error.to_string()))?;
        let client = RetryingModel::new(Arc::new(client), RETRY_MS).first_pause_ms(FIRST_PAUSE_MS);
        Ok((guard, client.turn(Arc::clone(request))))
    }

    fn start(&self) -> Result<(), ModelError> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |why: &str| ModelError::Playbook(format!("its server cannot start: {why}"));
        match &*server {
            ServerTask::Serving(_) => return Ok(()),
            ServerTask::Failed => return Err(failed("it failed before")),
            ServerTask::Bound(_) => {}
        }
        let ServerTask::Bound(listener) = &*server else {
            return Ok(());
        };
        let listener = listener
            .try_clone()
            .and_then(tokio::net::TcpListener::from_std);
        match listener {
            Ok(listener) => {
                let task = tokio::spawn(serve(listener, Arc::clone(&self.state)));
                *server = ServerTask::Serving(task.abort_handle());
                Ok(())
            }
            Err(error) => {
                *server = ServerTask::Failed;
                Err(failed(&error.to_string()))
            }
        }
    }
}

impl Model for MockModel {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        let (events, turn) = mpsc::channel(QUEUE);
        let (guard, mut played) = match self.ask(&request) {
            Ok(parsed) => parsed,
            Err(error) => {
                let _ = events.try_send(ModelEvent::Failed(error));
                return turn;
            }
        };
        tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    // Dropping the turn cancels the client's turn as well.
                    () = events.closed() => return,
                    event = played.recv() => event,
                };
                let Some(event) = event else { return };
                let event = match event {
                    ModelEvent::Failed(error) => {
                        ModelEvent::Failed(guard.turn.complaint().unwrap_or(error))
                    }
                    other => other,
                };
                if events.send(event).await.is_err() {
                    return;
                }
            }
        });
        turn
    }

    /// A playbook is free.
    fn prices(&self) -> Option<TokenPrices> {
        Some(TokenPrices::default())
    }
}

fn provider(wire: Wire, address: SocketAddr) -> Result<ProviderEndpoint, ProviderError> {
    ProviderEndpoint::new(
        "scripted",
        wire,
        &format!("http://{address}/v1"),
        MAX_TOKENS,
    )
}

/// Returns a key with 128 random bits.
fn fresh_key() -> Result<ProviderKey, ModelError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| ModelError::Playbook(format!("cannot read random bytes: {error}")))?;
    let text = sandbox_names::hex(bytes);
    ProviderKey::new(format!("playbook-{text}"))
        .map_err(|error| ModelError::Playbook(error.to_string()))
}
