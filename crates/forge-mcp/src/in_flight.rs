//! Limits on unanswered requests and untaken results, in number and size.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_tools::{ResultPermit, ResultQuota};
use rmcp::model::{ErrorCode, RequestId};

use super::error_reply::ErrorReply;

/// Most requests between question and answer; more are refused, not queued.
const MAX_IN_FLIGHT: usize = 1024;

/// Most results that wait for a client to take them. Further calls are taken, and wait before they do
/// anything.
const MAX_RESULTS: usize = 128;

/// Most bytes of requests between question and answer.
const MAX_IN_FLIGHT_BYTES: usize = 32 * 1024 * 1024;

/// The refusal of a request that comes on top of too many; outside the range that
/// JSON-RPC keeps for itself.
const TOO_BUSY: ErrorCode = ErrorCode(-31_000);

/// The requests between question and answer, and the bytes they came in.
#[derive(Default)]
pub(super) struct InFlightRequests {
    requests: HashMap<RequestId, InFlightRequest>,
    bytes: usize,
}

/// A request that is not answered yet.
struct InFlightRequest {
    bytes: usize,
    /// Where its result is until the client has it.
    place: Option<ResultPermit>,
}

/// Where results are until the client has taken them.
#[derive(Clone)]
pub(super) struct ResultSlots {
    room: ResultQuota,
    in_flight: Arc<Mutex<InFlightRequests>>,
}

impl ResultSlots {
    pub(super) fn new() -> Self {
        ResultSlots {
            room: ResultQuota::new(MAX_RESULTS),
            in_flight: Arc::default(),
        }
    }

    pub(super) fn in_flight(&self) -> Arc<Mutex<InFlightRequests>> {
        Arc::clone(&self.in_flight)
    }

    pub(super) fn place(&self) -> ResultPermit {
        self.room.permit()
    }

    /// The place is free again when the answer to this request is out, or is not wanted any more.
    pub(super) fn hold(&self, id: &RequestId, place: ResultPermit) {
        if let Some(open) = lock(&self.in_flight).requests.get_mut(id) {
            open.place = Some(place);
        }
    }
}

impl InFlightRequests {
    pub(super) fn enter(&mut self, id: RequestId, bytes: usize) -> Result<(), ErrorReply> {
        if self.requests.contains_key(&id) {
            // rmcp would answer one of the two only.
            let text = "This id is in use by a request that is not answered yet.";
            return Err(ErrorReply::invalid_request(text, None));
        }
        if self.requests.len() >= MAX_IN_FLIGHT || self.bytes + bytes > MAX_IN_FLIGHT_BYTES {
            return Err(ErrorReply {
                code: TOO_BUSY,
                text: "Too many requests at once; repeat this one after others are answered."
                    .into(),
                id: Some(id),
            });
        }
        self.bytes += bytes;
        self.requests
            .insert(id, InFlightRequest { bytes, place: None });
        Ok(())
    }

    pub(super) fn leave(&mut self, id: &RequestId) {
        if let Some(open) = self.requests.remove(id) {
            self.bytes -= open.bytes;
        }
    }
}

pub(super) fn lock(in_flight: &Mutex<InFlightRequests>) -> MutexGuard<'_, InFlightRequests> {
    in_flight.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(id: i64) -> RequestId {
        RequestId::Number(id)
    }

    #[test]
    fn requests_in_flight_are_bounded_in_number() {
        let mut in_flight = InFlightRequests::default();
        for id in 0..MAX_IN_FLIGHT as i64 {
            assert!(in_flight.enter(number(id), 1).is_ok());
        }
        let refusal = in_flight.enter(number(-1), 1).err();
        assert_eq!(refusal.map(|refusal| refusal.code), Some(TOO_BUSY));
        in_flight.leave(&number(7));
        assert!(in_flight.enter(number(-1), 1).is_ok());
    }

    #[test]
    fn requests_in_flight_are_bounded_in_bytes() {
        let mut in_flight = InFlightRequests::default();
        assert!(in_flight.enter(number(1), MAX_IN_FLIGHT_BYTES).is_ok());
        let refusal = in_flight.enter(number(2), 1).err();
        assert_eq!(refusal.map(|refusal| refusal.code), Some(TOO_BUSY));
        in_flight.leave(&number(2));
        in_flight.leave(&number(1));
        in_flight.leave(&number(1));
        assert!(in_flight.enter(number(2), MAX_IN_FLIGHT_BYTES).is_ok());
    }

    #[test]
    fn an_id_is_used_once_at_a_time() {
        let mut in_flight = InFlightRequests::default();
        assert!(in_flight.enter(number(1), 1).is_ok());
        let refusal = in_flight.enter(number(1), 1).err();
        assert_eq!(
            refusal.map(|refusal| refusal.code),
            Some(ErrorCode::INVALID_REQUEST)
        );
    }
}
