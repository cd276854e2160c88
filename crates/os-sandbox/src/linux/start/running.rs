//! A running process tree, seen from the broker: the launcher's process and the control socket. The
//! supervisor's records report the command's end; the end of the launcher's process means that no
//! process is left.

use super::super::cgroup::CommandCgroup;
use super::super::guards::after::Cleanup;
use super::super::landlock::private::ScratchDir;
use super::super::wire;
use super::alone::{self, Unsupervised};
use super::config_writer::ConfigWriter;
use super::launch::Launched;
use super::observe::DenialReports;
use super::terminal_guard::TerminalGuard;
use crate::enforcement::EndedProcesses;
use crate::error::{Error, ErrorKind};
use crate::escape::visible;
use crate::exceeded::LimitHit;
use crate::exit::Exit;
use crate::findings::Findings;
use crate::host_proxy::ProxySession;
use crate::process::{Event, Killer, Process, Readiness, wait_readable};
use crate::quarantine::Quarantined;
use crate::sandbox::Sandbox;
use crate::support::Support;
use crate::terminal::Terminal;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use std::io::{IoSliceMut, PipeReader, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bound on the error output of bubblewrap.
const MAX_COMPLAINT_BYTES: u64 = 4096;
/// Bound on the records of one job.
const MAX_RECORDS: usize = 128;
/// Time for the supervisor to end a tree before the broker ends the supervisor.
const END_GRACE: Duration = Duration::from_secs(40);

/// One record of the launcher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) kind: u32,
    pub(crate) a: i32,
    pub(crate) b: i32,
    pub(crate) c: u32,
}

/// A running process tree. Dropping it ends the tree.
pub(crate) struct Running {
    launched: Launched,
    records: Vec<Record>,
    /// The beginning of a record.
    partial: Vec<u8>,
    ended: bool,
    result: Option<Exit>,
    /// Time after which the broker no longer relies on the supervisor for the time limit.
    give_up: Option<Instant>,
    /// Set for a command without a supervisor.
    alone: Option<Unsupervised>,
    /// The other side of the command's terminal, until it is taken.
    terminal: Option<Terminal>,
    // Removed after the end, because the target works in it.
    own: Box<RunResources>,
    seen: Option<LimitHit>,
    after: Option<Box<Cleanup>>,
    findings: Findings,
}

/// Resources of one command, and the sandbox that may keep them for the next one.
#[derive(Default)]
pub(crate) struct RunResources {
    pub(crate) private: Option<Arc<ScratchDir>>,
    pub(crate) group: Option<CommandCgroup>,
    /// `true` if the next command may have them.
    pub(crate) keep: bool,
    /// `None` of a report.
    pub(crate) sandbox: Option<Sandbox>,
    /// The service of the proxy for named hosts.
    pub(crate) proxied: Option<Box<dyn ProxySession>>,
    /// The reports about refused calls.
    pub(crate) reports: Option<DenialReports>,
    /// The service for git's configuration.
    pub(crate) configs: Option<ConfigWriter>,
}

impl Running {
    pub(crate) fn new(launched: Launched, own: RunResources, wall: Option<Duration>) -> Self {
        let give_up =
            wall.and_then(|wall| Instant::now().checked_add(wall.saturating_add(END_GRACE)));
        Running {
            launched,
            records: Vec::new(),
            partial: Vec::new(),
            ended: false,
            result: None,
            give_up,
            alone: None,
            terminal: None,
            own: Box::new(own),
            seen: None,
            after: None,
            findings: Findings::default(),
        }
    }

    /// Sets the work after the end.
    pub(crate) fn then(mut self, after: Option<Cleanup>) -> Self {
        self.after = after.map(Box::new);
        self
    }

    /// Sets the guard of the broker's terminal.
    pub(crate) fn terminal_guarded_by(&mut self, guard: Option<TerminalGuard>) {
        if let (Some(terminal), Some(guard)) = (&mut self.terminal, guard) {
            terminal.guarded_by(guard);
        }
    }

    /// Sets the service of the proxy for named hosts, which ends with the command.
    pub(crate) fn proxied(&mut self, session: Option<Box<dyn ProxySession>>) {
        self.own.proxied = session;
    }

    /// Ends the services for named hosts and for git's configuration, and does the work after the end.
    /// The connections go first: they have descriptors that the work needs.
    fn finish(&mut self) {
        let contacts = self.own.proxied.take().map(|session| session.finish());
        let configs = self.own.configs.take().map(ConfigWriter::finish);
        if let Some(after) = self.after.take() {
            self.findings = after.run();
        }
        if let Some(contacts) = contacts {
            self.findings.contacts = contacts;
        }
        self.findings.git_configs = configs.unwrap_or_default();
        if let (Some(reports), Some(sandbox)) = (self.own.reports.take(), &self.own.sandbox) {
            let mut denials = reports.read(sandbox);
            denials.explain_configs(&self.findings.git_configs);
            self.findings.denials = Some(denials);
        }
    }

    /// Prepares for a launcher that becomes the command: the broker waits for the process and ends
    /// it.
    pub(crate) fn unsupervised(
        &mut self,
        wall: Option<Duration>,
        grace: Option<Duration>,
    ) -> Result<(), Error> {
        let deadline = wall.and_then(|wall| Instant::now().checked_add(wall));
        self.give_up = None;
        if let Some(group) = &mut self.own.group {
            group.may_stay();
        }
        self.alone = match Unsupervised::watch(&self.launched.process, deadline, grace) {
            Ok(alone) => Some(alone),
            Err(error) => {
                self.launched.end();
                self.ended = true;
                return Err(error);
            }
        };
        Ok(())
    }

    /// Waits for the first record: the target was started, or the reason why not.
    pub(crate) fn first(&mut self, within: Duration) -> Result<Record, Error> {
        let until = Instant::now() + within;
        while !self.answered() && !self.ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.launched.end();
                return Err(ErrorKind::Enforcement.error("the launcher did not answer in time"));
            }
            self.poll(&[], Some(left))?;
        }
        let answer = match &self.alone {
            Some(_) => Unsupervised::answer(&self.records),
            None => self.records.first().copied(),
        };
        match answer {
            Some(record) => Ok(record),
            None => {
                self.launched.end();
                let complaint = self.complaint();
                let mut text = "the launcher ended before the command was started".to_owned();
                if !complaint.is_empty() {
                    text = format!("{text}: {complaint}");
                }
                Err(ErrorKind::Enforcement.error(text))
            }
        }
    }

    fn answered(&self) -> bool {
        match &self.alone {
            Some(alone) => alone.replaced,
            None => !self.records.is_empty(),
        }
    }

    /// Returns the limit for which the supervisor ended the command.
    fn over_limit(&self) -> Option<LimitHit> {
        let record = self
            .records
            .iter()
            .find(|record| record.kind == wire::RECORD_OVER_LIMIT)?;
        Some(match record.a {
            wire::OVER_THREADS => LimitHit::Processes,
            _ => LimitHit::Memory,
        })
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the error output of bubblewrap: read only after its end.
    pub(crate) fn complaint(&mut self) -> String {
        let mut bytes = Vec::new();
        if let Some(errors) = self.launched.process.stderr.take() {
            // Unreadable output counts as none.
            let _ = errors.take(MAX_COMPLAINT_BYTES).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).trim().replace('\n', "; ")
    }

    /// Handles the end of the control socket.
    fn closed(&mut self) {
        match &mut self.alone {
            Some(alone) => alone.replaced = true,
            None => self.ended = true,
        }
    }

    /// Reads the available records. The socket may be nonblocking.
    fn receive(&mut self) {
        if self.alone.as_ref().is_some_and(|alone| alone.replaced) {
            self.ended = true;
            return;
        }
        let mut bytes = [0u8; wire::RECORD_BYTES];
        let space = &mut bytes[self.partial.len()..];
        match receive_with_terminal(&self.launched.control, space, &mut self.terminal) {
            Ok(0) => self.closed(),
            Ok(count) => {
                let have = self.partial.len();
                self.partial.extend_from_slice(&bytes[have..have + count]);
            }
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                ) => {}
            Err(_) => self.closed(),
        }
        if self.partial.len() < wire::RECORD_BYTES {
            return;
        }
        let bytes = std::mem::take(&mut self.partial);
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let record = Record {
            kind: u32::from_ne_bytes(word(0)),
            a: i32::from_ne_bytes(word(4)),
            b: i32::from_ne_bytes(word(8)),
            c: u32::from_ne_bytes(word(12)),
        };
        if record.kind == wire::RECORD_TERMINAL {
            return;
        }
        self.records.push(record);
        // One job sends a handful of records, a probe one for each check; more do not come from our
        // launcher.
        self.ended = matches!(record.kind, wire::RECORD_EXITED | wire::RECORD_SIGNALLED)
            || self.records.len() > MAX_RECORDS;
    }

    fn outcome(&mut self, sandbox: Option<&Sandbox>) -> Result<Exit, Error> {
        let find = |kind: u32| self.records.iter().find(|record| record.kind == kind);
        if find(wire::RECORD_LEFT).is_some() {
            return Err(ErrorKind::Enforcement.error("processes of the command could not be ended"));
        }
        if find(wire::RECORD_NO_CONNECTOR).is_some() {
            return Err(ErrorKind::Enforcement.error(
                "the process that answers for the command's system call filter was lost, so the \
                 command was ended",
            ));
        }
        if find(wire::RECORD_PART_LOST).is_some() {
            return Err(ErrorKind::Enforcement
                .error(
                    "a part of a mount with its own access was replaced by another program, so the \
                 command was ended",
                )
                .with_hint("write it in place, or while no command runs"));
        }
        if find(wire::RECORD_TIMED_OUT).is_some() {
            return Ok(Exit::TimedOut);
        }
        if let Some(record) = find(wire::RECORD_EXITED) {
            return Ok(Exit::Code(record.a));
        }
        if let Some(record) = find(wire::RECORD_SIGNALLED) {
            return Ok(Exit::Signal(record.a));
        }
        if self
            .give_up
            .is_some_and(|give_up| give_up <= Instant::now())
        {
            // The process that ends the tree was itself killed.
            return Err(ErrorKind::Enforcement.error(
                "the supervisor of the command did not end it in time; processes may be left",
            ));
        }
        if let Some(sandbox) = sandbox {
            Support::forget(sandbox.directories());
        }
        let complaint = self.complaint();
        let text = "the supervisor of the command was lost";
        Err(ErrorKind::Enforcement.error(if complaint.is_empty() {
            text.to_owned()
        } else {
            format!("{text}: {complaint}")
        }))
    }
}

/// Returns the processes that the supervisor told of when the command had ended.
fn ended_processes(records: &[Record]) -> Option<EndedProcesses> {
    let of_kind = |kind| records.iter().filter(move |record| record.kind == kind);
    let count = of_kind(wire::RECORD_STILL_RAN).next()?;
    let parts = of_kind(wire::RECORD_NAME_PART);
    let parts: Vec<u8> = parts
        .flat_map(|part| [part.a, part.b, part.c.cast_signed()])
        .flat_map(i32::to_ne_bytes)
        .collect();
    let name = |bytes: &[u8]| {
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        visible(&String::from_utf8_lossy(name))
    };
    let names = parts.chunks(2 * wire::NAME_PART_BYTES).map(name);
    Some(EndedProcesses {
        count: count.c.into(),
        programs: names.collect(),
        more: count.a != 0,
    })
}

/// Reads bytes, and the terminal of the command that may come with them.
fn receive_with_terminal(
    control: &UnixStream,
    bytes: &mut [u8],
    terminal: &mut Option<Terminal>,
) -> std::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(bytes)];
    let received = recvmsg(control, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut sent) = message
            && let (Some(side), Some(jobs)) = (sent.next(), sent.next())
        {
            *terminal = Some(Terminal::new(side, jobs));
        }
    }
    Ok(received.bytes)
}

impl Process for Running {
    fn take_terminal(&mut self) -> Option<Terminal> {
        self.terminal.take()
    }

    fn findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }

    fn poll(&mut self, pipes: &[&PipeReader], timeout: Option<Duration>) -> Result<Event, Error> {
        let mut timeout = timeout;
        if let Some(give_up) = self.give_up
            && !self.ended
        {
            let left = give_up.saturating_duration_since(Instant::now());
            timeout = Some(timeout.map_or(left, |timeout| timeout.min(left)));
            if left.is_zero() {
                self.launched.end();
            }
        }
        if let Some(alone) = &mut self.alone
            && let Some(deadline) = alone.deadline
            && !self.ended
        {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                alone.end_late();
            } else {
                timeout = Some(timeout.map_or(left, |timeout| timeout.min(left)));
            }
        }
        let news = match &self.alone {
            Some(alone) if alone.replaced => alone.process(),
            Some(_) | None => self.launched.control.as_fd(),
        };
        let event = wait_readable(pipes, (!self.ended).then_some(news), timeout)?;
        if event.ended {
            self.receive();
        }
        Ok(Event {
            ended: self.ended,
            ..event
        })
    }

    fn poll_exit(&mut self) -> Result<bool, Error> {
        loop {
            let heard = self.records.len();
            if self.poll(&[], Some(Duration::ZERO))?.ended {
                return Ok(true);
            }
            if self.records.len() == heard {
                return Ok(false);
            }
        }
    }

    fn readiness(&self) -> Result<Readiness, Error> {
        if let Some(alone) = &self.alone {
            let process = alone.process().try_clone_to_owned();
            return process
                .map(Readiness::Process)
                .map_err(|error| Error::io("could not copy a descriptor", error));
        }
        let control = self.launched.control.try_clone();
        control
            .map(Readiness::Socket)
            .map_err(|error| Error::io("could not copy the control socket", error))
    }

    fn next_deadline(&self) -> Option<Instant> {
        match &self.alone {
            Some(alone) => alone.deadline,
            None => self.give_up,
        }
    }

    fn wait(&mut self) -> Result<Exit, Error> {
        if let Some(exit) = self.result {
            return Ok(exit);
        }
        while !self.ended {
            self.poll(&[], None)?;
        }
        let status = self
            .launched
            .reap()
            .map_err(|error| Error::io("could not wait for the launcher", error))?;
        self.finish();
        let unreachable = self
            .records
            .iter()
            .find(|record| record.kind == wire::RECORD_UNREACHABLE);
        self.findings.unreachable = unreachable.map_or(0, |record| record.c.into());
        self.findings.ended_processes = ended_processes(&self.records);
        let mut own = std::mem::take(&mut self.own);
        let exit = match (&self.alone, status) {
            (Some(alone), Some(status)) => alone.exit(status),
            (Some(_), None) => {
                return Err(Error::io(
                    "could not learn how the command ended",
                    nix::Error::ECHILD.into(),
                )
                .with_hint("the calling program ignores SIGCHLD"));
            }
            (None, _) => self.outcome(own.sandbox.as_ref())?,
        };
        self.seen = self.over_limit().or_else(|| {
            let hits = own.group.as_mut()?.hits();
            match (hits.memory, hits.processes) {
                (0, 0) => None,
                (0, _) => Some(LimitHit::Processes),
                (_, _) => Some(LimitHit::Memory),
            }
        });
        if let Some(sandbox) = own.sandbox.filter(|_| own.keep) {
            if let Some(place) = own.private {
                sandbox.pool().give_back(place);
            }
            if let Some(group) = own.group {
                sandbox.pool().groups.give_back(group);
            }
        }
        self.result = Some(exit);
        Ok(exit)
    }

    fn limit_hit(&self) -> Option<LimitHit> {
        self.seen
    }

    fn kill(&self) {
        if let Some(alone) = &self.alone {
            alone.kill();
            return;
        }
        // It has ended already if this fails.
        let _ = self.launched.control.shutdown(Shutdown::Write);
    }

    fn killer(&self) -> Result<Killer, Error> {
        if let Some(alone) = &self.alone {
            let process = alone.killer();
            let signalled = Arc::clone(&process);
            return Ok(Killer::new(move || alone::kill(&process))
                .with_signal(move |signal| alone::signal(&signalled, signal)));
        }
        let copy = || self.launched.control.try_clone();
        let copies = copy().and_then(|control| Ok((control, copy()?)));
        let (control, signals) =
            copies.map_err(|error| Error::io("could not copy the control socket", error))?;
        // It has ended already if this fails.
        let killer = Killer::new(move || drop(control.shutdown(Shutdown::Write)));
        let send = move |signal| send(&signals, &[signal], SendFlags::NOSIGNAL) == Ok(1);
        Ok(killer.with_signal(send))
    }

    fn finish_dropped(&mut self) -> Vec<Quarantined> {
        self.end_unasked();
        std::mem::take(&mut self.findings.quarantined)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_unasked();
    }
}

impl Running {
    /// Ends the tree, whose exit no caller asks for, and does the work after it.
    fn end_unasked(&mut self) {
        if self.result.is_some() {
            return;
        }
        self.kill();
        let until = Instant::now() + END_GRACE;
        while !self.ended && Instant::now() < until {
            if self.poll(&[], Some(Duration::from_secs(1))).is_err() {
                break;
            }
        }
        if self.ended {
            // Our end is closed and the supervisor has reported the end: it is about to exit.
            let _ = self.launched.reap();
        } else {
            self.launched.end();
        }
        self.finish();
        self.result = Some(Exit::Signal(9));
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("records", &self.records)
            .field("ended", &self.ended)
            .finish()
    }
}
