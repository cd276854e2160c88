//! The open requests of one process, and the answers. Pure: no sockets and no clock.

use std::collections::VecDeque;
use std::time::Instant;

use forge_tools::ApprovalAnswer;
use tokio::sync::oneshot;

use super::protocol::QuestionSummary;

/// Most requests that are open at once.
pub(super) const MAX_REQUESTS: usize = 256;

/// Most bytes of all their texts.
pub(super) const MAX_TEXTS_BYTES: usize = 16 * 1024 * 1024;

/// Number of remembered answers, for approvers that come second.
const MAX_CLOSED: usize = 256;

/// A request as a person sees it.
#[derive(Debug, Clone)]
pub(super) struct QueuedQuestion {
    /// Without the state of the request.
    pub(super) summary: QuestionSummary,
    pub(super) digest: String,
    pub(super) text: String,
}

#[derive(Debug)]
enum QuestionState {
    /// A call waits for it.
    Waiting(oneshot::Sender<ApprovalAnswer>),
    /// No call is waiting; the answer is kept for its repetition.
    Open,
    /// Answered while no call was waiting.
    Answered(ApprovalAnswer),
}

#[derive(Debug)]
struct QuestionEntry {
    question: QueuedQuestion,
    until: Instant,
    state: QuestionState,
}

/// The reason for rejecting an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerRejected {
    /// The request is unknown or closed.
    Unknown,
    /// It was answered before.
    Already(String),
}

/// The open requests of one process.
#[derive(Debug, Default)]
pub(super) struct QuestionTable {
    entries: Vec<QuestionEntry>,
    closed: VecDeque<(String, String)>,
}

impl QuestionTable {
    /// Removes the expired questions without a waiting call.
    pub(super) fn expire(&mut self, now: Instant) {
        self.entries.retain(|entry| match entry.state {
            // The waiting call removes it.
            QuestionState::Waiting(_) => true,
            QuestionState::Open | QuestionState::Answered(_) => entry.until > now,
        });
    }

    /// Removes and returns the answer to exactly this question.
    pub(super) fn take_answer(&mut self, digest: &str) -> Option<ApprovalAnswer> {
        let at = self.entries.iter().position(|entry| {
            entry.question.digest == digest && matches!(entry.state, QuestionState::Answered(_))
        })?;
        match self.entries.remove(at).state {
            QuestionState::Answered(answer) => Some(answer),
            QuestionState::Waiting(_) | QuestionState::Open => None,
        }
    }

    /// Opens a question without a waiting call, and returns its ID. An equal question keeps its ID,
    /// which a person may know already. `None` if the table is full.
    pub(super) fn open(&mut self, question: QueuedQuestion, until: Instant) -> Option<String> {
        self.push(question, until, QuestionState::Open)
    }

    /// Opens a question with a waiting call. `None` if the table is full.
    pub(super) fn wait(
        &mut self,
        question: QueuedQuestion,
        until: Instant,
    ) -> Option<(String, oneshot::Receiver<ApprovalAnswer>)> {
        let (sender, receiver) = oneshot::channel();
        let id = self.push(question, until, QuestionState::Waiting(sender))?;
        Some((id, receiver))
    }

    /// Adds a question, or opens an equal one anew.
    fn push(
        &mut self,
        question: QueuedQuestion,
        until: Instant,
        state: QuestionState,
    ) -> Option<String> {
        let known = self.entries.iter_mut().find(|entry| {
            entry.question.digest == question.digest && matches!(entry.state, QuestionState::Open)
        });
        if let Some(entry) = known {
            (entry.until, entry.state) = (until, state);
            return Some(entry.question.summary.id.clone());
        }
        let texts: usize = self
            .entries
            .iter()
            .map(|entry| entry.question.text.len())
            .sum();
        if self.entries.len() >= MAX_REQUESTS || texts + question.text.len() > MAX_TEXTS_BYTES {
            return None;
        }
        let id = question.summary.id.clone();
        self.entries.push(QuestionEntry {
            question,
            until,
            state,
        });
        Some(id)
    }

    /// The call waits no longer. With `keep`, the question stays open until then.
    pub(super) fn withdraw(&mut self, id: &str, keep: Option<Instant>) {
        let waiting = |entry: &QuestionEntry| {
            entry.question.summary.id == id && matches!(entry.state, QuestionState::Waiting(_))
        };
        let Some(at) = self.entries.iter().position(waiting) else {
            return;
        };
        match keep {
            Some(until) => {
                self.entries[at].until = until;
                self.entries[at].state = QuestionState::Open;
            }
            None => drop(self.entries.remove(at)),
        }
    }

    /// Stores an answer: the first one counts. Without a waiting call it is kept until `keep`.
    pub(super) fn answer(
        &mut self,
        id: &str,
        answer: ApprovalAnswer,
        how: String,
        keep: Instant,
    ) -> Result<(), AnswerRejected> {
        if let Some(how) = self.how_closed(id) {
            return Err(AnswerRejected::Already(how));
        }
        let at = self
            .entries
            .iter()
            .position(|entry| entry.question.summary.id == id)
            .ok_or(AnswerRejected::Unknown)?;
        let mut entry = self.entries.remove(at);
        match entry.state {
            QuestionState::Waiting(sender) => {
                sender.send(answer).map_err(|_| AnswerRejected::Unknown)?
            }
            QuestionState::Open => {
                entry.state = QuestionState::Answered(answer);
                entry.until = keep;
                self.entries.insert(at, entry);
            }
            // Closed when it was answered; only a long memory ago.
            QuestionState::Answered(_) => {
                self.entries.insert(at, entry);
                return Err(AnswerRejected::Already("answered before".to_owned()));
            }
        }
        if self.closed.len() >= MAX_CLOSED {
            self.closed.pop_front();
        }
        self.closed.push_back((id.to_owned(), how));
        Ok(())
    }

    /// Returns the answer to a closed request, if it is still remembered.
    pub(super) fn how_closed(&self, id: &str) -> Option<String> {
        let closed = self.closed.iter().find(|(closed, _)| closed == id)?;
        Some(closed.1.clone())
    }

    /// Lists the open requests, oldest first.
    pub(super) fn list(&self, now: Instant) -> Vec<QuestionSummary> {
        self.answerable().map(|entry| summary(entry, now)).collect()
    }

    /// One of them, with its text.
    pub(super) fn show(&self, id: &str, now: Instant) -> Option<(QuestionSummary, String)> {
        self.answerable()
            .find(|entry| entry.question.summary.id == id)
            .map(|entry| (summary(entry, now), entry.question.text.clone()))
    }

    fn answerable(&self) -> impl Iterator<Item = &QuestionEntry> {
        self.entries.iter().filter(|entry| match entry.state {
            QuestionState::Waiting(_) | QuestionState::Open => true,
            QuestionState::Answered(_) => false,
        })
    }
}

fn summary(entry: &QuestionEntry, now: Instant) -> QuestionSummary {
    QuestionSummary {
        waiting: matches!(entry.state, QuestionState::Waiting(_)),
        left_s: entry.until.saturating_duration_since(now).as_secs(),
        ..entry.question.summary.clone()
    }
}
