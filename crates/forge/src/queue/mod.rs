//! Approval requests that are answered from another terminal (`forge approve`). A process with a
//! request opens a socket in a directory of the project that only this user can use; an approver
//! connects, gets the whole request, and answers it. Nothing outlives the process: the socket of an
//! ended process is a leftover, which the next process removes.

pub(crate) mod client;
mod dirs;
pub(crate) mod protocol;
mod server;
mod table;

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forge_tools::{ApprovalAnswer, ApprovalRequest, Approver, BoxFuture, escape_controls};
use sandbox_names::hex;
use sha2::{Digest as _, Sha256};

pub(crate) use self::dirs::QueueDirs;
use self::protocol::QuestionSummary;
use self::server::QueueServer;
use self::table::{QuestionTable, QueuedQuestion};
use crate::output::prompt;
use crate::output::stderr;

/// Lifetime of an answer to a call that did not wait for it, and of a question without an answer.
const ANSWER_LIFETIME: Duration = Duration::from_secs(30 * 60);

/// Most characters of a summary, which is to choose by and not to agree to.
const MAX_WHAT_CHARS: usize = 160;

/// The treatment of a request while no approver is connected.
#[derive(Debug, Clone)]
pub(crate) enum WhenUnattended {
    /// The request is refused with this reason.
    Refuse(String),
    /// The call waits all the same.
    Wait,
    /// The call fails at once, and the question stays open: the same call succeeds after an
    /// approval.
    Keep,
}

/// Sends requests to `forge approve` in this project.
#[derive(Debug)]
pub(crate) struct Queue {
    place: QueueDirs,
    approval_timeout: Duration,
    absent: WhenUnattended,
    quiet: bool,
    table: Arc<Mutex<QuestionTable>>,
    server: Mutex<Option<QueueServer>>,
}

impl Queue {
    /// A queue in `place`. Nothing is made there before something has to be asked.
    pub(crate) fn new(
        place: QueueDirs,
        approval_timeout: Duration,
        absent: WhenUnattended,
        quiet: bool,
    ) -> Self {
        Queue {
            place,
            approval_timeout,
            absent,
            quiet,
            table: Arc::default(),
            server: Mutex::new(None),
        }
    }

    async fn answer(&self, request: &ApprovalRequest) -> ApprovalAnswer {
        let text = request.question();
        if let Some(reason) = prompt::too_long(&text) {
            return ApprovalAnswer::Unanswered { reason };
        }
        // The command of a question about a host does not wait for a later answer.
        let keeps = request.host.is_none();
        let question = question(request, text);
        let now = Instant::now();
        let known = {
            let mut table = lock(&self.table);
            table.expire(now);
            table.take_answer(&question.digest)
        };
        if let Some(answer) = known {
            return answer;
        }
        let watched = self.place.is_watched();
        match &self.absent {
            WhenUnattended::Refuse(reason) if !watched => {
                return ApprovalAnswer::unanswered(reason.clone());
            }
            WhenUnattended::Keep if !watched && !keeps => {
                return ApprovalAnswer::unanswered("nobody watches with `forge approve --watch`");
            }
            WhenUnattended::Refuse(_) | WhenUnattended::Keep | WhenUnattended::Wait => {}
        }
        if let Err(error) = self.listen() {
            return ApprovalAnswer::unanswered(format!(
                "the queue of requests cannot be used ({error})"
            ));
        }
        match (&self.absent, watched) {
            (WhenUnattended::Keep, false) => {
                let asked = question.summary.id.clone();
                let opened = lock(&self.table).open(question, after(now, ANSWER_LIFETIME));
                opened.map_or_else(too_many, |id| {
                    // One that was open before has been announced before.
                    if id == asked {
                        self.announce(&id);
                    }
                    later(&id)
                })
            }
            (WhenUnattended::Keep | WhenUnattended::Wait | WhenUnattended::Refuse(_), _) => {
                self.wait(question, now, keeps).await
            }
        }
    }

    async fn wait(&self, question: QueuedQuestion, now: Instant, keeps: bool) -> ApprovalAnswer {
        let opened = lock(&self.table).wait(question, after(now, self.approval_timeout));
        let Some((id, mut receiver)) = opened else {
            return too_many();
        };
        self.announce(&id);
        let waiting = WaitingCall {
            queue: self,
            id,
            keeps,
        };
        match tokio::time::timeout(self.approval_timeout, &mut receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => {
                // A later answer is rejected as too late; one that arrived just before is accepted.
                waiting.end();
                match (receiver.try_recv(), &self.absent) {
                    (Ok(answer), _) => answer,
                    (Err(_), WhenUnattended::Keep) if keeps => later(&waiting.id),
                    (Err(_), _) => ApprovalAnswer::unanswered(format!(
                        "nobody answered within {} seconds",
                        self.approval_timeout.as_secs()
                    )),
                }
            }
        }
    }

    fn announce(&self, id: &str) {
        if !self.quiet {
            stderr::print(format_args!("waiting for approval: forge approve {id}"));
        }
    }

    /// Opens the socket, or opens it again if something has swept it away.
    fn listen(&self) -> std::io::Result<()> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        if !server.as_ref().is_some_and(QueueServer::exists_on_disk) {
            *server = None;
            *server = Some(QueueServer::start(
                self.place.make()?,
                Arc::clone(&self.table),
            )?);
        }
        Ok(())
    }
}

impl Approver for Queue {
    fn is_attended(&self) -> bool {
        matches!(self.absent, WhenUnattended::Wait) || self.place.is_watched()
    }

    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(self.answer(request))
    }
}

/// A call that waits. One that is cancelled leaves nothing that could still be answered, except
/// where answers are kept.
struct WaitingCall<'a> {
    queue: &'a Queue,
    id: String,
    /// `true` if a later answer may count for a repeated call.
    keeps: bool,
}

impl WaitingCall<'_> {
    fn end(&self) {
        let keep = match self.queue.absent {
            WhenUnattended::Keep if self.keeps => Some(after(Instant::now(), ANSWER_LIFETIME)),
            WhenUnattended::Keep | WhenUnattended::Wait | WhenUnattended::Refuse(_) => None,
        };
        lock(&self.queue.table).withdraw(&self.id, keep);
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

fn question(request: &ApprovalRequest, text: String) -> QueuedQuestion {
    let digest = call_digest(request, &text);
    let at_ms = forge_tools::now_ms();
    let what = escape_controls(&request.intents.join(", "));
    let mut short: String = what.chars().take(MAX_WHAT_CHARS).collect();
    if short.len() < what.len() {
        short.push('…');
    }
    let summary = QuestionSummary {
        // Sorts by time; cannot be guessed; names exactly this text.
        id: format!(
            "{at_ms:011x}-{:016x}-{}",
            random(),
            short_digest(&text_digest(&text))
        ),
        at_ms,
        worker: request.caller.to_string(),
        tool: request.tool.clone(),
        what: short,
        waiting: false,
        left_s: 0,
        rules_to_allow: request.rules_to_allow.clone(),
        host: request.host.clone(),
    };
    QueuedQuestion {
        summary,
        digest,
        text,
    }
}

fn later(id: &str) -> ApprovalAnswer {
    ApprovalAnswer::Pending {
        reason: format!("nobody has answered yet, and the request is {id}"),
        hint: format!(
            "A person can answer with `forge approve {id}`. After that, repeat exactly the same \
             call: it goes ahead once, within {} minutes. Go on with other work meanwhile.",
            ANSWER_LIFETIME.as_secs() / 60
        ),
    }
}

fn too_many() -> ApprovalAnswer {
    ApprovalAnswer::unanswered("too many requests are waiting for approval already")
}

/// `true` if `id` names this `text`.
pub(crate) fn is_text_of(id: &str, text: &str) -> bool {
    id.rsplit('-').next() == Some(short_digest(&text_digest(text)))
}

/// `true` if the text has the form of a whole ID.
pub(crate) fn is_id(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &&str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    parts.iter().map(|part| part.len()).eq([11, 16, 16]) && parts.iter().all(hex)
}

/// Hashes the text of the approval, so that an approver can verify it.
fn text_digest(text: &str) -> String {
    hex(Sha256::digest(text.as_bytes()))
}

/// Of the call with the text that was shown of it: an answer is for both or for nothing.
fn call_digest(request: &ApprovalRequest, text: &str) -> String {
    let (caller, arguments) = (request.caller.chain(), &request.arguments);
    let mut call = serde_json::json!([caller, request.tool, arguments, text]);
    // The order in which arguments were written means nothing.
    call.sort_all_objects();
    hex(Sha256::digest(call.to_string().as_bytes()))
}

fn short_digest(digest: &str) -> &str {
    digest.get(..16).unwrap_or(digest)
}

/// The standard library takes the keys from the system and does not publish them.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

/// A moment so far away that a clock cannot say it is a year from now.
fn after(now: Instant, span: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    now.checked_add(span.min(YEAR)).unwrap_or(now)
}

fn lock(table: &Mutex<QuestionTable>) -> MutexGuard<'_, QuestionTable> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
