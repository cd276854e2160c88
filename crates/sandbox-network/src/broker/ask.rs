//! Questions about hosts that no rule names. One question at a time is asked about a host and port;
//! other connections to it wait for the same answer.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;

use tokio::sync::watch;

use super::lock;
use crate::host::Host;

/// Refusals that are remembered. Beyond it a host is asked about again.
const MAX_DECLINED: usize = 10_000;

/// Asks a person whether a host may be reached.
pub trait AskHost: Send + Sync {
    /// Asks. The future is dropped, and the question withdrawn, when no client waits any more.
    fn ask(&self, host: &Host, port: u16) -> Pin<Box<dyn Future<Output = HostAnswer> + Send + '_>>;
}

/// The answer to a question about a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAnswer {
    /// This connection, and those that waited for the same answer.
    Once,
    /// This host and port for as long as the broker lives.
    Run,
    /// Not for as long as the broker lives, unless a rule allows it later.
    No,
}

type Key = (Host, u16);

/// The questions that are open, and the hosts that were declined.
#[derive(Default)]
pub(super) struct Questions {
    open: Mutex<HashMap<Key, watch::Receiver<Option<HostAnswer>>>>,
    declined: Mutex<HashSet<Key>>,
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Questions")
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

enum Part<'a> {
    Asker(PendingQuestion<'a>),
    Waiter(watch::Receiver<Option<HostAnswer>>),
}

impl Questions {
    /// Returns the answer about a host and port.
    pub(super) async fn ask(&self, asker: &dyn AskHost, host: &Host, port: u16) -> HostAnswer {
        let key = (host.clone(), port);
        loop {
            if lock(&self.declined).contains(&key) {
                return HostAnswer::No;
            }
            match self.join(&key) {
                Part::Asker(question) => {
                    let answer = asker.ask(host, port).await;
                    if answer == HostAnswer::No {
                        let mut declined = lock(&self.declined);
                        if declined.len() < MAX_DECLINED {
                            declined.insert(key);
                        }
                    }
                    question.answer.send_replace(Some(answer));
                    return answer;
                }
                Part::Waiter(mut answer) => {
                    // An error means that the client that asked has gone: ask again.
                    if let Ok(answer) = answer.wait_for(Option::is_some).await
                        && let Some(answer) = *answer
                    {
                        return answer;
                    }
                }
            }
        }
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
