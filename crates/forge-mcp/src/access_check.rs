//! Admission of connections: those that have not shown the token yet are strangers, and strangers
//! never take the places of clients.
//!
//! A stranger has a short time to show the token, and when too many of them are connected the
//! oldest one is dropped. So every user of this machine may open any number of connections, and a
//! client that sends its token at once is still served.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Most connections of clients at once; a request on one more is told to come again.
const MAX_CLIENTS: usize = 64;

/// Maximum number of unauthenticated connections.
const MAX_UNAUTHENTICATED: usize = 256;

/// Timeout of an unauthenticated connection.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(5);

/// All connections of a server.
pub(super) struct AccessCheck {
    places: Arc<Semaphore>,
    /// Oldest first.
    strangers: Mutex<VecDeque<Arc<Notify>>>,
}

/// One connection, from its first byte to its end.
pub(super) struct ConnectionGuard<'a> {
    entrance: &'a AccessCheck,
    /// Told when it has to go.
    go: Arc<Notify>,
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl AccessCheck {
    pub(super) fn new() -> Self {
        AccessCheck {
            places: Arc::new(Semaphore::new(MAX_CLIENTS)),
            strangers: Mutex::default(),
        }
    }

    pub(super) fn enter(&self) -> ConnectionGuard<'_> {
        let go = Arc::new(Notify::new());
        let mut strangers = lock(&self.strangers);
        strangers.push_back(Arc::clone(&go));
        if strangers.len() > MAX_UNAUTHENTICATED
            && let Some(oldest) = strangers.pop_front()
        {
            oldest.notify_one();
        }
        drop(strangers);
        ConnectionGuard {
            entrance: self,
            go,
            place: Mutex::default(),
        }
    }
}

impl ConnectionGuard<'_> {
    /// Admits a connection that has shown the token. `false` if too many are connected already.
    pub(super) fn admit(&self) -> bool {
        let mut place = lock(&self.place);
        if place.is_none() {
            *place = Arc::clone(&self.entrance.places).try_acquire_owned().ok();
            if place.is_some() {
                self.leave_strangers();
            }
        }
        place.is_some()
    }

    /// Returns when a stranger has to go, and never for a client.
    pub(super) async fn expires(&self) {
        let _ = tokio::time::timeout(AUTHENTICATION_TIMEOUT, self.go.notified()).await;
        if lock(&self.place).is_some() {
            std::future::pending::<()>().await;
        }
    }

    fn leave_strangers(&self) {
        lock(&self.entrance.strangers).retain(|other| !Arc::ptr_eq(other, &self.go));
    }
}

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        self.leave_strangers();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
