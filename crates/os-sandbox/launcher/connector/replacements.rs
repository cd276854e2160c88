//! Replacements of git's configuration, which the broker makes for the target (`observe.rs` finds
//! them). The connector sends the broker a request and goes on; the call waits for the answer, or
//! fails after a time.

use crate::sys::notify::Request;
use crate::sys::{self, EBUSY, Errno};
use crate::wire;

/// Maximum number of calls that wait. Further ones fail with EBUSY.
const MAX_PENDING: usize = 8;
/// Time within which the broker answers. After it, the call fails with EBUSY.
const ANSWER_WITHIN_MS: u64 = 10_000;

/// Replacements that wait for the broker.
pub struct Replacements {
    /// The channel to the broker, until the broker closes it.
    broker: Option<i32>,
    pending: [Option<PendingReplacement>; MAX_PENDING],
}

/// A call that replaces a configuration by its lock file.
#[derive(Clone, Copy)]
pub struct PendingReplacement {
    pub request: Request,
    /// The index of the configuration.
    pub config: u64,
    since_ms: u64,
}

impl Replacements {
    pub fn new(broker: Option<i32>) -> Replacements {
        Replacements {
            broker,
            pending: [None; MAX_PENDING],
        }
    }

    /// Returns the channel to poll; negative if there is none.
    pub fn channel(&self) -> i32 {
        self.broker.unwrap_or(-1)
    }

    pub fn is_empty(&self) -> bool {
        self.pending.iter().all(Option::is_none)
    }

    /// Sends a request to the broker. Returns the replacement if it cannot be sent.
    pub fn send(&mut self, request: &Request, config: u64) -> Result<(), PendingReplacement> {
        let replacement = PendingReplacement {
            request: *request,
            config,
            since_ms: sys::monotonic_ms(),
        };
        let mut bytes = [0u8; wire::REPLACE_BYTES];
        let words = [request.id, config, replacement.since_ms];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let free = self.pending.iter_mut().find(|slot| slot.is_none());
        match (free, self.broker) {
            (Some(free), Some(broker)) if sys::network::send(broker, &bytes).is_ok() => {
                *free = Some(replacement);
                Ok(())
            }
            _ => Err(replacement),
        }
    }

    /// Takes an answer of the broker, with its errno or 0. `None` at the end of the channel, and for an
    /// answer that came too late.
    pub fn receive(&mut self) -> Option<(PendingReplacement, Errno)> {
        let broker = self.broker?;
        let mut bytes = [0u8; wire::REPLACED_BYTES];
        if sys::read(broker, &mut bytes) != Ok(wire::REPLACED_BYTES) {
            sys::close(broker);
            self.broker = None;
            return None;
        }
        let (call, errno) = bytes.split_at(8);
        let call = u64::from_ne_bytes(call.try_into().ok()?);
        let errno = u64::from_ne_bytes(errno.try_into().ok()?);
        let replacement = self.take(|pending| pending.request.id == call)?;
        Some((replacement, errno as Errno))
    }

    /// Takes a replacement for which no answer will count any more, with its errno.
    pub fn expire(&mut self, now_ms: u64) -> Option<(PendingReplacement, Errno)> {
        let is_closed = self.broker.is_none();
        let is_late = |pending: &PendingReplacement| {
            is_closed || now_ms.saturating_sub(pending.since_ms) >= ANSWER_WITHIN_MS
        };
        Some((self.take(is_late)?, EBUSY))
    }

    fn take(&mut self, which: impl Fn(&PendingReplacement) -> bool) -> Option<PendingReplacement> {
        let is_wanted = |slot: &&mut Option<PendingReplacement>| slot.as_ref().is_some_and(&which);
        self.pending.iter_mut().find(is_wanted)?.take()
    }
}
