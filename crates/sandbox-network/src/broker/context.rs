//! The state of a service that its tasks share: the tasks themselves, and records.

use std::fmt;
use std::future::Future;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::answer_budget::AnswerBudget;
use super::ask::Questions;
use super::credential::{TerminatedServer, TlsTermination};
use super::names::SyntheticNames;
use super::proxy_token::ProxyToken;
use super::record::{
    ConnectionEvent, ConnectionEventKind, ConnectionRecord, Counters, Protocol, Records, Refusal,
    ServiceReport,
};
use super::resolve::Resolutions;
use super::{Shared, lock};
use crate::host::Host;
use crate::pattern::HostPattern;
use crate::rules::Decision;

/// The state of a service, which its tasks share.
pub(super) struct ServiceContext {
    pub(super) id: u64,
    pub(super) shared: Arc<Shared>,
    /// `true` if names have IPv6 addresses too.
    pub(super) gives_ipv6: bool,
    pub(super) proxy_token: Option<ProxyToken>,
    termination: Option<Arc<TlsTermination>>,
    pub(super) questions: Questions,
    pub(super) resolutions: Resolutions,
    pub(super) names: Mutex<SyntheticNames>,
    handle: Handle,
    records: Mutex<Records>,
    answer_budget: Mutex<AnswerBudget>,
    tasks: Mutex<JoinSet<()>>,
    stopping: watch::Sender<bool>,
    /// Bytes from all clients.
    sent: Arc<AtomicU64>,
    numbers: AtomicU64,
    /// Clients that waited for a place.
    pub(super) waited: AtomicU64,
    names_full: AtomicU64,
}

impl fmt::Debug for ServiceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceContext")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl ServiceContext {
    pub(super) fn new(
        shared: Arc<Shared>,
        handle: Handle,
        gives_ipv6: bool,
        proxy_token: Option<ProxyToken>,
        termination: Option<Arc<TlsTermination>>,
        questions: Questions,
    ) -> ServiceContext {
        let names = SyntheticNames::new(shared.options.limits.names, Arc::clone(&shared.names));
        ServiceContext {
            id: shared.next_service(),
            names: Mutex::new(names),
            shared,
            gives_ipv6,
            proxy_token,
            termination,
            questions,
            resolutions: Resolutions::default(),
            handle,
            records: Mutex::default(),
            answer_budget: Mutex::default(),
            tasks: Mutex::default(),
            stopping: watch::Sender::new(false),
            sent: Arc::default(),
            numbers: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            names_full: AtomicU64::new(0),
        }
    }

    /// Returns the broker's threads.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Makes listeners and connections end.
    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Returns the report, and begins another one.
    pub(super) fn take_report(&self) -> ServiceReport {
        ServiceReport {
            waited: self.waited.load(Ordering::Relaxed),
            names_full: self.names_full.load(Ordering::Relaxed),
            ..mem::take(&mut *lock(&self.records)).into_report()
        }
    }

    /// Returns the record of the next attempt.
    pub(super) fn new_record(
        &self,
        host: String,
        port: u16,
        protocol: Protocol,
    ) -> ConnectionRecord {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        ConnectionRecord::new((self.id, number), host, port, protocol)
    }

    /// Decides about a host and a port, and writes the rule or answer that allows it into the record.
    /// Where no rule names the host, a person may be asked; the end of the service withdraws the
    /// question.
    pub(super) async fn decide(
        &self,
        host: &Host,
        port: u16,
        record: &mut ConnectionRecord,
    ) -> Result<(), Refusal> {
        match self.shared.decide(host, port) {
            Decision::Allowed(pattern) => record.rule = Some(pattern),
            Decision::Denied(pattern) => return Err(Refusal::Denied(pattern)),
            // It is refused whatever a person answers.
            Decision::Unlisted if self.shared.is_private_behind_parent(host, port) => {
                return Err(Refusal::Unlisted);
            }
            Decision::Unlisted => {
                let asked = self.questions.decide(&self.shared.answers, host, port);
                record.answer = Some(tokio::select! {
                    biased;
                    answer = asked => answer?,
                    () = self.stopped() => return Err(Refusal::Interrupted),
                });
                record.rule = HostPattern::exactly(host, port);
            }
        }
        Ok(())
    }

    /// Returns the server of a host and port with TLS that the broker terminates.
    pub(super) fn terminated(&self, host: &Host, port: u16) -> Option<&TerminatedServer> {
        self.termination.as_ref()?.server(host, port)
    }

    /// Runs a task that ends with the service.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, &self.handle);
    }

    /// Waits until the service is finished or dropped.
    pub(super) async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // The sender is part of `self`, so it does not end before.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Writes a record, and tells the listener of events.
    pub(super) fn report(&self, kind: ConnectionEventKind, record: ConnectionRecord) {
        let limit = self.shared.options.limits.records;
        lock(&self.records).add(kind, &record, limit);
        if let Some(listener) = &self.shared.options.on_event {
            listener(&ConnectionEvent { kind, record });
        }
    }

    /// Writes the record of a refused connection.
    pub(super) fn refuse(&self, host: String, port: u16, protocol: Protocol, reason: Refusal) {
        let mut record = self.new_record(host, port, protocol);
        record.refuse(reason);
        self.report(ConnectionEventKind::Refused, record);
    }

    /// Writes the record of a refused question, once for each name.
    pub(super) fn refuse_name(&self, name: &str, reason: Refusal) {
        let limit = self.shared.options.limits.records;
        if reason == Refusal::NamesFull {
            self.names_full.fetch_add(1, Ordering::Relaxed);
        }
        if lock(&self.records).is_first_refusal(name, limit) {
            self.refuse(name.to_owned(), 0, Protocol::Dns, reason);
        }
    }

    /// `true` if a client that cannot reach this host is told why, and `false` if clients ask for it again
    /// and again: then the proxy hangs up.
    pub(super) fn may_answer(&self, host: &Host, port: u16) -> bool {
        lock(&self.answer_budget).take(host, port, Instant::now())
    }

    /// Notes that a client was connected to this host.
    pub(super) fn reached(&self, host: &Host, port: u16) {
        lock(&self.answer_budget).reset(host, port);
    }

    /// Returns the lines that a refused client shows: the reason and the advice.
    pub(super) fn refusal_text(&self, host: &Host, port: u16, reason: &Refusal) -> String {
        let subject = host.with_port(port);
        if reason.is_failure() {
            return format!("{subject}: {reason}\n");
        }
        let line = format!("{subject} is refused: {reason}\n");
        let advised = match reason {
            Refusal::Unlisted
            | Refusal::Declined
            | Refusal::Unanswered
            | Refusal::TooManyQuestions => Some(host.clone()),
            // The name has a rule; its address has none.
            Refusal::NotPublic { address, .. } => Some(Host::Address(*address)),
            // No rule that is added allows it.
            _ => None,
        };
        let advice = advised.map(|host| (self.shared.options.advice)(&host, port));
        match advice.filter(|advice| !advice.is_empty()) {
            Some(advice) => format!("{line}{advice}\n"),
            None => line,
        }
    }

    /// Ends all tasks: waits for a time, and again while clients' bytes are passed on, but not longer
    /// than a limit. Then aborts. Tasks may start others until they end.
    pub(super) async fn end_tasks(&self, grace: Duration, limit: Duration) {
        let last = Instant::now() + limit;
        let mut deadline = (Instant::now() + grace).min(last);
        let mut sent = self.sent.load(Ordering::Relaxed);
        loop {
            let mut tasks = mem::take(&mut *lock(&self.tasks));
            if tasks.is_empty() {
                return;
            }
            loop {
                let all_ended = async { while tasks.join_next().await.is_some() {} };
                if timeout_at(deadline, all_ended).await.is_ok() {
                    break;
                }
                let before = mem::replace(&mut sent, self.sent.load(Ordering::Relaxed));
                if sent == before || deadline >= last {
                    tasks.shutdown().await;
                    break;
                }
                deadline = (Instant::now() + grace).min(last);
            }
        }
    }
}

/// A connection from the client's request on. Reports its end when it is dropped, however it ends, and
/// also if it is cut off before it is open.
#[derive(Debug)]
pub(super) struct TrackedConnection {
    state: Arc<ServiceContext>,
    pub(super) record: ConnectionRecord,
    is_open: bool,
    pub(super) counters: Arc<Counters>,
}

impl TrackedConnection {
    /// Begins an attempt to connect.
    pub(super) fn new(
        state: &Arc<ServiceContext>,
        host: String,
        port: u16,
        protocol: Protocol,
    ) -> TrackedConnection {
        TrackedConnection {
            state: Arc::clone(state),
            record: state.new_record(host, port, protocol),
            is_open: false,
            counters: Arc::new(Counters::new(Arc::clone(&state.sent))),
        }
    }

    /// Reports that the broker has connected.
    pub(super) fn open(&mut self) {
        self.is_open = true;
        self.state
            .report(ConnectionEventKind::Opened, self.record.clone());
    }

    /// Notes the reason for which the broker does not connect, or ends the connection.
    pub(super) fn refuse(&mut self, reason: Refusal) {
        self.record.refuse(reason);
    }
}

impl Drop for TrackedConnection {
    fn drop(&mut self) {
        self.record.sent = self.counters.sent();
        self.record.received = self.counters.received();
        self.record.tls_name = self.counters.tls_name();
        if !self.is_open && self.record.reason.is_none() {
            self.record.refuse(Refusal::Interrupted);
        }
        let kind = if self.is_open {
            ConnectionEventKind::Closed
        } else {
            ConnectionEventKind::Refused
        };
        self.state.report(kind, self.record.clone());
    }
}
