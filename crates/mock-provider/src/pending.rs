//! The data of turns that are on the wire.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use forge_runtime::{ModelError, ModelRequest, PlayedTurn, ScriptedModel};

/// The turns that are on the wire, by their keys. Other keys are rejected.
#[derive(Debug, Default)]
pub(super) struct PendingTurns {
    tickets: Mutex<HashMap<String, Arc<PendingTurn>>>,
}

/// One turn: its request, and the played result.
#[derive(Debug)]
pub(super) struct PendingTurn {
    pub(super) request: Arc<ModelRequest>,
    played: OnceLock<Result<Arc<PlayedTurn>, ModelError>>,
    tries: AtomicU32,
}

impl PendingTurns {
    /// Lays `request` down under a fresh key, until the returned guard is dropped.
    pub(super) fn lay(self: &Arc<Self>, key: &str, request: Arc<ModelRequest>) -> PendingGuard {
        let turn = Arc::new(PendingTurn {
            request,
            played: OnceLock::new(),
            tries: AtomicU32::new(0),
        });
        self.tickets().insert(key.to_owned(), Arc::clone(&turn));
        PendingGuard {
            pending: Arc::clone(self),
            key: key.to_owned(),
            turn,
        }
    }

    pub(super) fn find(&self, key: &str) -> Option<Arc<PendingTurn>> {
        self.tickets().get(key).cloned()
    }

    fn tickets(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<PendingTurn>>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes its ticket off the desk when it is dropped.
#[derive(Debug)]
pub(super) struct PendingGuard {
    pending: Arc<PendingTurns>,
    key: String,
    pub(super) turn: Arc<PendingTurn>,
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.pending.tickets().remove(&self.key);
    }
}

impl PendingTurn {
    /// Plays the turn once for all requests: a retry gets an equal answer, and no attempt is judged
    /// twice.
    pub(super) fn play(&self, scripted: &ScriptedModel) -> Result<Arc<PlayedTurn>, ModelError> {
        self.played
            .get_or_init(|| scripted.play_on_own_stack(&self.request).map(Arc::new))
            .clone()
    }

    /// Why it could not be played, if it was tried: the client only hears that it failed.
    pub(super) fn complaint(&self) -> Option<ModelError> {
        self.played.get()?.as_ref().err().cloned()
    }

    /// Counts the request and returns the number of requests before it.
    pub(super) fn next_try(&self) -> u32 {
        self.tries.fetch_add(1, Ordering::Relaxed)
    }
}
