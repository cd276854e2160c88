//! A limit on results that clients have not taken yet: a client that asks faster than it reads
//! would otherwise decide how much memory this process has.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for results, shared by the calls of one client.
///
/// ```
/// use forge_tools::{CallRequest, ResultQuota};
/// let room = ResultQuota::new(64);
/// let call = CallRequest::new("read_file", serde_json::json!({"path": "/a"})).with_result_permit(room.permit());
/// # let _ = call;
/// ```
#[derive(Debug, Clone)]
pub struct ResultQuota {
    places: Arc<Semaphore>,
}

impl ResultQuota {
    /// As many places as that.
    pub fn new(places: usize) -> Self {
        ResultQuota {
            places: Arc::new(Semaphore::new(places)),
        }
    }

    /// For one call. The place is taken when the call begins to work, so none is taken by calls that
    /// wait for a person.
    pub fn permit(&self) -> ResultPermit {
        ResultPermit {
            places: Arc::clone(&self.places),
            taken: Arc::default(),
        }
    }
}

/// The place of one call, free again when every copy of this is gone.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// let room = forge_tools::ResultQuota::new(1);
/// let (first, second) = (room.permit(), room.permit());
/// rt.block_on(first.acquire());
/// drop(first);
/// // Otherwise this would wait.
/// rt.block_on(second.acquire());
/// ```
#[derive(Debug, Clone)]
pub struct ResultPermit {
    places: Arc<Semaphore>,
    taken: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl ResultPermit {
    /// Acquires a permit if one is free.
    pub(crate) fn try_acquire(&self) -> bool {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return false;
        };
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        true
    }

    /// Waits for a free permit.
    pub async fn acquire(&self) {
        // An error means a closed semaphore, which would lift the limit. It is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }
}
