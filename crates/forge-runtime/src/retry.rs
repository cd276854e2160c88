//! Turns that failed in a way that passes, tried again: with a pause that grows and is random,
//! or a longer one that the provider asks for, until a limit of all pauses together.
//!
//! A failed turn is repeated as a whole. None of its calls has been executed, since calls only
//! count when their turn is over.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::model::{Model, ModelError, ModelEvent, ModelRequest, Retry, TokenPrices};

/// The longest pause of our own choice.
const LONGEST_MS: u64 = 30_000;
/// Most attempts of one turn, under any time limit.
const MAX_ATTEMPTS: u32 = 100;
/// Queued events.
const MAX_WAITING: usize = 64;

/// A model whose transient failures are retried: busy, unreachable or cut off.
///
/// Each attempt is announced by [`ModelEvent::Retry`], which voids the events of the attempt
/// before.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # use std::sync::Arc;
/// # use forge_runtime::{ModelEvent, Model, ModelError, ModelRequest, RetryingModel};
/// # use tokio::sync::mpsc;
/// /// Always breaks off.
/// struct Broken;
/// impl Model for Broken {
///     fn name(&self) -> String {
///         "broken".into()
///     }
///     fn turn(&self, _: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
///         mpsc::channel(1).1
///     }
/// }
/// // Pauses of 20 ms together, then it gives up.
/// let model = RetryingModel::new(Arc::new(Broken), 20).first_pause_ms(5);
/// # let request = Arc::new(ModelRequest {
/// #     worker: String::new(), instructions: String::new(), tools: vec![], messages: vec![],
/// # });
/// # let last = rt.block_on(async {
/// let mut turn = model.turn(request);
/// let mut last = None;
/// while let Some(event) = turn.recv().await {
///     last = Some(event);
/// }
/// # last
/// # });
/// assert_eq!(last, Some(ModelEvent::Failed(ModelError::Cut)));
/// ```
#[derive(Clone)]
#[must_use]
pub struct RetryingModel {
    model: Arc<dyn Model>,
    total_ms: u64,
    first_ms: u64,
}

impl RetryingModel {
    /// `model`, tried again for at most `total_ms` after the first failure of a turn.
    pub fn new(model: Arc<dyn Model>, total_ms: u64) -> Self {
        RetryingModel {
            model,
            total_ms,
            first_ms: 1_000,
        }
    }

    /// Sets the upper bound of the first pause, which is twice its lower bound; the bound doubles
    /// with each further pause.
    pub fn first_pause_ms(mut self, first_ms: u64) -> Self {
        self.first_ms = first_ms;
        self
    }

    async fn speak(&self, request: Arc<ModelRequest>, events: &mpsc::Sender<ModelEvent>) {
        let mut failed_first: Option<Instant> = None;
        let mut attempt = 1;
        loop {
            let Err(error) = self.attempt(Arc::clone(&request), events).await else {
                return;
            };
            let since = failed_first.get_or_insert_with(Instant::now).elapsed();
            let left_ms = self.total_ms.saturating_sub(forge_tools::millis(since));
            let wait_ms = self.pause_ms(attempt, &error);
            let no_more = wait_ms > left_ms || left_ms == 0 || attempt >= MAX_ATTEMPTS;
            if !error.is_transient() || no_more {
                let _gone = events.send(ModelEvent::Failed(error)).await;
                return;
            }
            attempt += 1;
            let retry = Retry {
                attempt,
                wait_ms,
                reason: error.to_string(),
            };
            if events.send(ModelEvent::Retry(retry)).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// Passes the events on; an error if the turn failed.
    async fn attempt(
        &self,
        request: Arc<ModelRequest>,
        events: &mpsc::Sender<ModelEvent>,
    ) -> Result<(), ModelError> {
        let mut turn = self.model.turn(request);
        while let Some(event) = turn.recv().await {
            let is_over = matches!(event, ModelEvent::End(_));
            if let ModelEvent::Failed(error) = event {
                return Err(error);
            }
            if events.send(event).await.is_err() || is_over {
                return Ok(());
            }
        }
        Err(ModelError::Cut)
    }

    /// Returns a pause of half a second to one, one to two, two to four and so on: clients that
    /// were refused together do not return together. Longer if the provider asks for more; never
    /// shorter, since it may ask for no pause at all.
    fn pause_ms(&self, attempt: u32, error: &ModelError) -> u64 {
        let doubled = 1_u64.checked_shl(attempt - 1).unwrap_or(u64::MAX);
        let most = self.first_ms.saturating_mul(doubled).min(LONGEST_MS);
        // Seeded by the system; good enough to spread.
        let random = std::hash::RandomState::new().build_hasher().finish();
        let chosen = (most - random % (most / 2 + 1)).max(1);
        if let ModelError::Busy {
            retry_after_ms: Some(wanted),
            ..
        } = error
        {
            return chosen.max(*wanted);
        }
        chosen
    }
}

sandbox_names::debug!(RetryingModel { model = model.name(), total_ms });

impl Model for RetryingModel {
    fn name(&self) -> String {
        self.model.name()
    }

    fn turn(&self, request: Arc<ModelRequest>) -> mpsc::Receiver<ModelEvent> {
        let (events, turn) = mpsc::channel(MAX_WAITING);
        let model = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = events.closed() => {}
                () = model.speak(request, &events) => {}
            }
        });
        turn
    }

    fn prices(&self) -> Option<TokenPrices> {
        self.model.prices()
    }

    fn context_tokens(&self) -> Option<u64> {
        self.model.context_tokens()
    }
}
