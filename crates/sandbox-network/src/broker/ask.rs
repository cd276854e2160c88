//! Questions about hosts that no rule names. One question at a time is asked about a host and port;
//! other connections to it wait for the same answer.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::lock;
use super::record::Refusal;
use crate::host::Host;
use crate::rules::AskableHosts;

/// Bound on the hosts and ports that all commands are granted, and on those that are declined.
/// Further answers count for one command.
const MAX_ANSWERS: usize = 10_000;
/// Bound on the questions about one command. Further hosts are refused at once: a program could
/// otherwise ask until a person agrees by mistake.
const MAX_QUESTIONS: usize = 20;
/// Bound on the connections of one command that wait for answers. Each occupies one of the broker's
/// connections, which other commands need.
const MAX_WAITING: usize = 64;

/// Asks a person whether a host may be reached.
pub trait AskHost: fmt::Debug + Send + Sync {
    /// Returns the hosts about which it asks. Others are refused at once.
    fn askable(&self) -> &AskableHosts;

    /// Asks. The future is dropped, and the question withdrawn, when the service ends. A question
    /// without clients stays: it could otherwise be exchanged while a person answers it, and the
    /// answer counts for the next connection.
    fn ask(&self, host: &Host, port: u16) -> Pin<Box<dyn Future<Output = HostAnswer> + Send + '_>>;
}

/// The answer to a question about a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAnswer {
    /// This host and port, for the command of this service.
    Once,
    /// This host and port for as long as the broker lives.
    Run,
    /// Not for as long as the broker lives, unless a rule allows it later.
    No,
    /// A person did not answer: not for the command of this service.
    Unanswered,
}

type Key = (Host, u16);

/// The answers that count for all services of a broker.
#[derive(Debug, Default)]
pub(super) struct BrokerAnswers {
    allowed: Mutex<HashSet<Key>>,
    declined: Mutex<HashSet<Key>>,
}

impl BrokerAnswers {
    fn find(&self, key: &Key) -> Option<HostAnswer> {
        if lock(&self.declined).contains(key) {
            return Some(HostAnswer::No);
        }
        let is_allowed = lock(&self.allowed).contains(key);
        is_allowed.then_some(HostAnswer::Run)
    }

    fn keep(&self, key: &Key, answer: HostAnswer) {
        let mut list = match answer {
            HostAnswer::Run => lock(&self.allowed),
            HostAnswer::No => lock(&self.declined),
            HostAnswer::Once | HostAnswer::Unanswered => return,
        };
        if list.len() < MAX_ANSWERS {
            list.insert(key.clone());
        }
    }
}

/// The questions of one service.
pub(super) struct Questions {
    /// `None`: hosts that no rule names are refused at once.
    asker: Option<Arc<dyn AskHost>>,
    open: Mutex<HashMap<Key, watch::Receiver<Option<HostAnswer>>>>,
    answers: Mutex<HashMap<Key, HostAnswer>>,
    asked: AtomicUsize,
    waiting: AtomicUsize,
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Questions");
        shown.field("asker", &self.asker).finish_non_exhaustive()
    }
}

/// Removes the question when it is answered or withdrawn.
struct PendingQuestion<'a> {
    questions: &'a Questions,
    key: Key,
    answer: watch::Sender<Option<HostAnswer>>,
}

impl Drop for PendingQuestion<'_> {
    fn drop(&mut self) {
        lock(&self.questions.open).remove(&self.key);
    }
}

/// A connection that waits for an answer.
struct WaitingConnection<'a>(&'a AtomicUsize);

impl Drop for WaitingConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Part<'a> {
    Asker(PendingQuestion<'a>),
    Waiter(watch::Receiver<Option<HostAnswer>>),
}

impl Questions {
    pub(super) fn new(asker: Option<Arc<dyn AskHost>>) -> Questions {
        Questions {
            asker,
            open: Mutex::default(),
            answers: Mutex::default(),
            asked: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// `true` if a connection to a host that no rule names leads to a question.
    pub(super) fn is_asking(&self) -> bool {
        self.asker.is_some()
    }

    /// Returns the answer that allows a host and port which no rule names, or the refusal.
    pub(super) async fn decide(
        &self,
        of_broker: &BrokerAnswers,
        host: &Host,
        port: u16,
    ) -> Result<HostAnswer, Refusal> {
        let asks = |asker: &&dyn AskHost| asker.askable().contains(host, port);
        let Some(asker) = self.asker.as_deref().filter(asks) else {
            return Err(Refusal::Unlisted);
        };
        let key = (host.clone(), port);
        let answer = match self.known(of_broker, &key) {
            Some(answer) => answer,
            None => self.ask(asker, of_broker, &key).await?,
        };
        match answer {
            HostAnswer::Once | HostAnswer::Run => Ok(answer),
            HostAnswer::No => Err(Refusal::Declined),
            HostAnswer::Unanswered => Err(Refusal::Unanswered),
        }
    }

    fn known(&self, of_broker: &BrokerAnswers, key: &Key) -> Option<HostAnswer> {
        let own = lock(&self.answers).get(key).copied();
        own.or_else(|| of_broker.find(key))
    }

    async fn ask(
        &self,
        asker: &dyn AskHost,
        of_broker: &BrokerAnswers,
        key: &Key,
    ) -> Result<HostAnswer, Refusal> {
        let _waiting = self.wait()?;
        loop {
            match self.join(key) {
                Part::Asker(question) => {
                    // It was answered between the look and the new question.
                    if let Some(answer) = self.known(of_broker, key) {
                        return Ok(answer);
                    }
                    if self.asked.fetch_add(1, Ordering::Relaxed) >= MAX_QUESTIONS {
                        return Err(Refusal::TooManyQuestions);
                    }
                    let answer = asker.ask(&key.0, key.1).await;
                    of_broker.keep(key, answer);
                    lock(&self.answers).insert(key.clone(), answer);
                    question.answer.send_replace(Some(answer));
                    return Ok(answer);
                }
                Part::Waiter(mut answer) => {
                    // An error means that the client that asked has gone: ask again.
                    if let Ok(answer) = answer.wait_for(Option::is_some).await
                        && let Some(answer) = *answer
                    {
                        return Ok(answer);
                    }
                }
            }
        }
    }

    fn wait(&self) -> Result<WaitingConnection<'_>, Refusal> {
        let waiting = WaitingConnection(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            return Err(Refusal::TooManyQuestions);
        }
        Ok(waiting)
    }

    fn join(&self, key: &Key) -> Part<'_> {
        let mut open = lock(&self.open);
        if let Some(answer) = open.get(key) {
            return Part::Waiter(answer.clone());
        }
        let (answer, receiver) = watch::channel(None);
        open.insert(key.clone(), receiver);
        Part::Asker(PendingQuestion {
            questions: self,
            key: key.clone(),
            answer,
        })
    }
}
