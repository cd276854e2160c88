//! Asking the person at the client: one form, with everything that the person has to see.
//!
//! A client of 2026-07-28 gets the question as the result of its call and calls again with the
//! answer; a state ties the two together, which the client carries and cannot make. Older clients
//! are asked while the call waits.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{RequestStateCodec, SealOptions};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// How long the answer to a question may take to come back.
const STATE_TTL: Duration = Duration::from_secs(5 * 60);

/// How long "for this run" counts, since the end of a client's run is unknown.
const RUN: Duration = Duration::from_secs(30 * 60);

/// A person cannot read a question and answer it in this time.
pub(super) const NO_PERSON: Duration = Duration::from_millis(50);

/// After so many answers that no person gave, the next approver is asked first.
const MAX_HASTY: u32 = 2;

/// Most questions that wait for an answer; above it, the oldest is forgotten.
const MAX_OPEN: usize = 1024;

/// Most answers that hold "for this run"; above it, the oldest is forgotten.
const MAX_AGREED: usize = 4096;

/// One call, or one question, as nothing else is.
pub(super) type Fingerprint = [u8; 32];

/// Why a state that came back is not taken.
const NOT_OURS: &str = "This requestState does not belong to this call. Call again without it.";
const USED: &str = "This requestState was used already, or is too old. Call again without it.";

/// The questions that this server has asked, and the answers that count for longer than one call.
pub(super) struct QuestionStore {
    /// `None` if the system gives no random numbers, so nothing can be sealed.
    codec: Option<RequestStateCodec>,
    memory: Mutex<QuestionMemory>,
}

#[derive(Default)]
struct QuestionMemory {
    /// By nonce: when it was asked. An entry is taken out by the answer, so that each
    /// counts once.
    open: HashMap<String, Instant>,
    agreed: HashMap<Fingerprint, Instant>,
    hasty: u32,
}

impl QuestionStore {
    pub(super) fn new() -> Self {
        let mut key = [0; 32];
        QuestionStore {
            codec: getrandom::fill(&mut key)
                .ok()
                .and_then(|()| RequestStateCodec::try_new(key).ok()),
            memory: Mutex::default(),
        }
    }

    /// The state that goes with a question about `call`.
    ///
    /// Returns `None` if nothing can be sealed.
    pub(super) fn seal(&self, call: &Fingerprint, shown: &Fingerprint) -> Option<String> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).ok()?;
        let nonce = sandbox_names::hex(nonce);
        let payload = format!("{nonce}{}", sandbox_names::hex(shown));
        let options = SealOptions::new().associated_data(call).ttl(STATE_TTL);
        let sealed = self.codec.as_ref()?.seal_with(payload.as_bytes(), &options);
        insert_bounded(&mut self.lock().open, nonce, Instant::now(), MAX_OPEN);
        Some(sealed)
    }

    /// Returns the question that the person was shown when they answered, and how fast they were.
    /// The state is worth nothing afterwards.
    ///
    /// # Errors
    ///
    /// The mistake in the state, for the client.
    pub(super) fn open(
        &self,
        sealed: &str,
        call: &Fingerprint,
    ) -> Result<(Fingerprint, bool), &'static str> {
        let codec = self.codec.as_ref().ok_or(NOT_OURS)?;
        let payload = codec.open_with(sealed, call).map_err(|_| NOT_OURS)?;
        let text = std::str::from_utf8(&payload).map_err(|_| NOT_OURS)?;
        let (nonce, shown) = text.split_at_checked(32).ok_or(NOT_OURS)?;
        let asked = self.lock().open.remove(nonce).ok_or(USED)?;
        let age = asked.elapsed();
        if age > STATE_TTL {
            return Err(USED);
        }
        let fingerprint = sandbox_names::unhex(shown).and_then(|bytes| bytes.try_into().ok());
        Ok((fingerprint.ok_or(NOT_OURS)?, age < NO_PERSON))
    }

    /// `true` if clients answer without asking a person.
    pub(super) fn client_is_hasty(&self) -> bool {
        self.lock().hasty >= MAX_HASTY
    }

    /// Keeps count of refusals that no person gave.
    pub(super) fn note_refusal(&self, hasty: bool) {
        let mut memory = self.lock();
        memory.hasty = if hasty {
            memory.hasty.saturating_add(1)
        } else {
            0
        };
    }

    pub(super) fn agree(&self, call: Fingerprint) {
        insert_bounded(&mut self.lock().agreed, call, Instant::now(), MAX_AGREED);
    }

    pub(super) fn is_agreed(&self, call: &Fingerprint) -> bool {
        let mut memory = self.lock();
        match memory.agreed.get(call) {
            Some(since) if since.elapsed() < RUN => true,
            Some(_) => {
                memory.agreed.remove(call);
                false
            }
            None => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, QuestionMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Inserts an entry, and removes the oldest of too many.
fn insert_bounded<K: Clone + Eq + std::hash::Hash>(
    map: &mut HashMap<K, Instant>,
    key: K,
    at: Instant,
    most: usize,
) {
    if map.len() >= most {
        let oldest = map.iter().min_by_key(|(_, since)| **since);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            map.remove(&oldest);
        }
    }
    map.insert(key, at);
}

/// Digest of a JSON value in which the order of keys means nothing.
pub(super) fn fingerprint(value: &Value) -> Fingerprint {
    let mut text = String::new();
    write_canonical(value, &mut text);
    Sha256::digest(text.as_bytes()).into()
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in entries {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write_canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_order_of_keys_means_nothing_and_everything_else_does() {
        let of = |value: Value| fingerprint(&value);
        assert_eq!(
            of(json!({"a": 1, "b": [1, {"x": 1, "y": 2}]})),
            of(json!({"b": [1, {"y": 2, "x": 1}], "a": 1}))
        );
        let values = [
            json!({"a": 1}),
            json!({"a": "1"}),
            json!({"a": [1]}),
            json!({"a": 1, "b": null}),
            json!({"a": [1, [2]]}),
            json!({"a": [[1], 2]}),
            json!({"a": [1, 2]}),
            json!({"a\":1,\"b": 2}),
            json!([{"a": 1}]),
        ];
        for (index, one) in values.iter().enumerate() {
            for other in &values[index + 1..] {
                assert_ne!(of(one.clone()), of(other.clone()), "{one} {other}");
            }
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_goes_first() {
        let mut map = HashMap::new();
        let start = Instant::now();
        for n in 0..5u32 {
            insert_bounded(&mut map, n, start + Duration::from_secs(n.into()), 3);
        }
        let mut kept: Vec<u32> = map.into_keys().collect();
        kept.sort_unstable();
        assert_eq!(kept, [2, 3, 4]);
    }
}
