//! Connector: answers the questions of the target's filter. It makes connects for the target if the
//! policy names local sockets, or hosts without a network namespace; it changes modes and adds watches
//! (`places.rs`), has the broker replace git's configuration (`replacements.rs`), and reports other calls (`observe.rs`).
//!
//! For a connect, the connector is not confined and decides on copies of its own: a copy of the
//! address, which another thread of the target could exchange after the check, and a copy of the
//! socket, whose number the target could give to another one. The connector connects allowed sockets
//! by the path or address that the broker named, never by the target's bytes; every other connect is
//! an error. A call that it decides never continues in the kernel; calls that it only reports do.
//!
//! The connector is the ancestor of every other process of a run, because with Yama's restricted
//! tracing (`ptrace_scope` 1) only an ancestor may read a process's memory and take its
//! descriptors. It has no capabilities, so it connects only sockets that the caller could connect
//! without any. Its end is the end of the tree: the supervisor watches the channel, and bubblewrap
//! dies with its parent. Until then the kernel answers ENOSYS for it.
//!
//! <https://man7.org/linux/man-pages/man2/seccomp_unotify.2.html>

mod internet_address;
mod lookups;
mod observe;
pub mod places;
pub mod replacements;

use crate::job::{Observed, Strings};
use crate::proc_path::ProcPath;
use crate::supervisor::target;
use crate::sys::notify::{self, MAX_ADDRESS_BYTES, OwnedDescriptor, Request};
use crate::sys::{
    self, EACCES, EAFNOSUPPORT, EAGAIN, EBUSY, EFAULT, EINPROGRESS, EINTR, EINVAL, ENETUNREACH,
    Errno, PollFd,
};
use crate::wire;
use crate::{BrokerMessage, Failure, at};
use internet_address::InternetAddress;
use observe::{CallAnswer, CallObserver};
use places::Places;
use replacements::{PendingReplacement, Replacements};

const PR_SET_PDEATHSIG: usize = 1;
const PR_SET_DUMPABLE: usize = 4;

const SO_TYPE: i32 = 3;
const SO_DOMAIN: i32 = 39;
const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
const SOCK_STREAM: u64 = 1;
const SOCK_SEQPACKET: u64 = 5;

/// Maximum number of pending connects that would otherwise block all others. Further ones fail with
/// EAGAIN.
const MAX_WORKERS: usize = 64;
/// Interval between checks for pending connects that the target has abandoned or that a signal has
/// to interrupt.
const LOOK_MS: u64 = 50;

/// The calls that the connector decides or reports, and what it may do for the target.
pub struct Connect<'a> {
    internet: bool,
    decides: bool,
    calls_in_places: bool,
    /// Rows of addresses that it connects TCP sockets to.
    addresses: &'a [u8],
    names: Strings<'a>,
    places: Strings<'a>,
    observed: Option<Observed<'a>>,
    /// The configurations that the broker changes come on the channel.
    awaits_configs: bool,
}

impl<'a> Connect<'a> {
    pub fn parse(body: &'a [u8], fds: &[i32]) -> Option<Self> {
        let flags = u32::from_ne_bytes(body.get(0..4)?.try_into().ok()?);
        let count = u32::from_ne_bytes(body.get(4..8)?.try_into().ok()?) as usize;
        let places = u32::from_ne_bytes(body.get(8..12)?.try_into().ok()?) as usize;
        let addresses = u32::from_ne_bytes(body.get(12..16)?.try_into().ok()?) as usize;
        if count > wire::MAX_SOCKETS
            || places > wire::MAX_PLACES
            || addresses > wire::MAX_CONNECTED_ADDRESSES
        {
            return None;
        }
        let rest = body.get(16..)?;
        let (addresses, mut rest) = rest.split_at_checked(addresses * wire::ADDRESS_BYTES)?;
        let names = Strings::take(&mut rest, count * 2)?;
        let places = Strings::take(&mut rest, places)?;
        let observed = match flags & wire::CONNECT_OBSERVE {
            0 => None,
            _ => Some(Observed::take(&mut rest, *fds.get(1)?)?),
        };
        Some(Connect {
            internet: flags & wire::CONNECT_INTERNET != 0,
            decides: flags & wire::CONNECT_DECIDE != 0,
            calls_in_places: flags & wire::CONNECT_PLACES != 0,
            addresses,
            names,
            places,
            observed,
            awaits_configs: flags & wire::CONNECT_CONFIGS != 0,
        })
    }

    /// Returns the address for a TCP socket of a family, if it is one that the broker named.
    fn internet(&self, domain: u64, address: &[u8]) -> Result<InternetAddress, Errno> {
        let asked = InternetAddress::parse(address)
            .filter(|asked| u64::from(asked.family) == domain)
            .ok_or(EAFNOSUPPORT)?;
        let mut rows = self.addresses.chunks_exact(wire::ADDRESS_BYTES);
        match rows.any(|row| row == asked.row()) {
            true => Ok(asked),
            // As if the host had no network.
            false => Err(ENETUNREACH),
        }
    }

    /// Returns the real path of a named address. It reads the address as the kernel does: the
    /// family, then a path up to the first NUL or the end. Abstract names begin with that NUL.
    fn named(&self, address: &[u8]) -> Option<sys::CStr<'a>> {
        let (family, path) = address.split_at_checked(2)?;
        let end = path.iter().position(|byte| *byte == 0);
        let path = &path[..end.unwrap_or(path.len())];
        if u64::from(u16::from_ne_bytes([family[0], family[1]])) != AF_UNIX || path.is_empty() {
            return None;
        }
        let mut names = self.names;
        while let (Some(name), Some(real)) = (names.next(), names.next()) {
            if name.bytes() == path {
                return Some(real);
            }
        }
        None
    }
}

/// Splits the process: returns in the child, which continues the job. The parent serves until that
/// child has ended.
pub fn split(connect: Connect<'_>, channel: i32) -> Result<(), Failure> {
    let failed = at(wire::STAGE_CONNECT);
    // The connector opens the places before the target starts, which could put something else
    // there.
    let places = Places::open(connect.places).map_err(&failed)?;
    match sys::fork().map_err(&failed)? {
        0 => {
            // The job's descriptors take the numbers that they have without a connector.
            places.close();
            sys::close(channel);
            if let Some(observed) = connect.observed {
                sys::close(observed.file);
            }
            Ok(())
        }
        child => serve(connect, places, channel, child),
    }
}

/// Serves the target's calls. It never sends anything on the broker's control socket, which belongs to
/// the supervisor. The supervisor sees an end of this process, for whatever reason.
fn serve(mut connect: Connect<'_>, places: Places, channel: i32, child: i32) -> ! {
    // The end of the control socket means the end of the tree, so the connector must not hold it
    // open.
    for number in 0..3 {
        sys::close(number);
    }
    let prepared = target::give_up_privileges().is_ok()
        // If the caller is killed, bubblewrap must follow. It watches its parent, which is the
        // connector.
        && sys::prctl(PR_SET_PDEATHSIG, sys::SIGKILL as usize, 0).is_ok()
        && sys::prctl(PR_SET_DUMPABLE, 0, 0).is_ok();
    let Ok(children) = sys::child_signals() else {
        sys::exit(125)
    };
    // The broker sends them before the supervisor has the other end of the channel.
    if !prepared || connect.awaits_configs && take_configs(&mut connect, channel).is_none() {
        sys::exit(125)
    }
    let mut state = ConnectorState {
        observer: connect.observed.map(CallObserver::new),
        replacements: Replacements::new(connect.observed.and_then(|one| one.channel)),
        connect,
        places,
        me: sys::getpid(),
        child,
        children,
        done: false,
        channel,
        listener: -1,
        asked: false,
        workers: [None; MAX_WORKERS],
        looked_ms: 0,
    };
    while !state.done {
        state.serve_events();
    }
    sys::exit(0)
}

/// Waits for the configurations that the broker changes.
fn take_configs(connect: &mut Connect<'_>, channel: i32) -> Option<()> {
    let message = BrokerMessage::receive(channel).ok()?;
    let observed = connect.observed.as_mut()?;
    let count = message.body.iter().filter(|byte| **byte == 0).count();
    if message.kind != wire::KIND_CONFIGS || count > wire::MAX_CONFIGS {
        return None;
    }
    observed.configs = Strings::take(&mut { message.body }, count)?;
    observed.channel = message.fds().first().copied();
    Some(())
}

struct ConnectorState<'a> {
    connect: Connect<'a>,
    observer: Option<CallObserver<'a>>,
    places: Places,
    me: i32,
    /// The process of the rest of the run; `done` is `true` if it has ended.
    child: i32,
    /// Signals that a process has ended.
    children: i32,
    done: bool,
    /// The listener comes on it; -1 from then on.
    channel: i32,
    listener: i32,
    /// `true` from the listener's arrival to the end of the last process that could ask.
    asked: bool,
    workers: [Option<ConnectWorker>; MAX_WORKERS],
    looked_ms: u64,
    replacements: Replacements,
}

/// A child process that makes a connect which may take long.
#[derive(Clone, Copy)]
struct ConnectWorker {
    pid: i32,
    id: u64,
    thread: i32,
    since_ms: u64,
}

/// A checked connect. The socket is the connector's own descriptor, and the address is in its own
/// memory.
struct Decided {
    socket: OwnedDescriptor,
    address: [u8; MAX_ADDRESS_BYTES],
    bytes: usize,
    may_block: bool,
    /// The peer is a process of this host: most connects take no time.
    is_near: bool,
    /// File that the address names; open until it is connected.
    _place: Option<OwnedDescriptor>,
}

impl Decided {
    fn address(&self) -> &[u8] {
        &self.address[..self.bytes]
    }

    /// Makes the address that of a local socket of the broker's. The path contains no link, and the
    /// connector connects exactly the file that it found.
    fn lead_to(&mut self, real: sys::CStr<'_>) -> Result<(), Errno> {
        let place = notify::place(real).map_err(|errno| match errno {
            sys::ELOOP => EACCES,
            other => other,
        })?;
        let path = ProcPath::descriptor(place.0);
        let path = path.c_str()?.bytes();
        self.address = [0; MAX_ADDRESS_BYTES];
        self.address[..2].copy_from_slice(&(AF_UNIX as u16).to_ne_bytes());
        self.address[2..2 + path.len()].copy_from_slice(path);
        self.bytes = 2 + path.len() + 1;
        self.is_near = true;
        self._place = Some(place);
        Ok(())
    }
}

impl ConnectorState<'_> {
    /// Waits for events once, and serves them.
    fn serve_events(&mut self) {
        let listener = if self.asked { self.listener } else { -1 };
        let broker = self.replacements.channel();
        let mut fds =
            [self.children, self.channel, listener, broker].map(|fd| PollFd::new(fd, sys::POLLIN));
        let timeout = self.waits().then_some(LOOK_MS);
        if sys::poll(&mut fds, timeout).is_err() {
            return;
        }
        let [children, channel, listener, broker] = fds.map(|fd| fd.revents);
        if children != 0 {
            let _ = sys::read(self.children, &mut [0u8; 128]);
            self.reap(false);
        }
        if channel != 0 {
            self.take_listener();
        }
        if broker != 0 {
            let answered = self.replacements.receive();
            self.answer_replacement(answered);
        }
        self.look();
        if listener & sys::POLLIN != 0 {
            self.serve_one();
        } else if listener != 0 {
            self.asked = false;
        }
    }

    /// Takes the last message of the channel. It stays open if the listener came: the supervisor
    /// watches its end.
    fn take_listener(&mut self) {
        let mut received = [-1i32; 1];
        if sys::receive(self.channel, &mut [0u8; 1], &mut received) == Ok(1) {
            self.listener = received[0];
            self.asked = true;
            notify::wake_in_step(self.listener);
        } else {
            // The target never reached its filter; its supervisor knows the reason.
            sys::close(self.channel);
        }
        self.channel = -1;
    }

    fn busy(&self) -> bool {
        self.workers.iter().any(Option::is_some)
    }

    /// Returns `true` if a worker or the broker has something to answer.
    fn waits(&self) -> bool {
        self.busy() || !self.replacements.is_empty()
    }

    /// Answers a call that the broker has made or refused, or for which it did nothing in time.
    fn answer_replacement(&mut self, answered: Option<(PendingReplacement, Errno)>) {
        let Some((replacement, errno)) = answered else {
            return;
        };
        let request = &replacement.request;
        if let Some(observer) = &mut self.observer {
            observer.answered(self.listener, request, replacement.config, errno);
        }
        // Each fails if the thread does not wait any more.
        let _ = match errno {
            wire::REPLACED_BY_KERNEL => notify::go_on(self.listener, request.id),
            0 => notify::answer(self.listener, request.id, Ok(())),
            errno => notify::answer(self.listener, request.id, Err(errno)),
        };
    }

    fn serve_one(&mut self) {
        let Ok(request) = notify::receive(self.listener) else {
            return;
        };
        // A thread makes one call at a time: an earlier connect of it was interrupted, or its
        // result is not needed any more.
        self.stop(|worker| worker.thread == request.thread);
        if !self.connect.decides || request.number != sys::nr::CONNECT as u32 {
            self.serve_other(&request);
            return;
        }
        let result = match self.decide(&request) {
            Ok(decided) => {
                if let Some(observer) = &mut self.observer {
                    observer.allowed_connect(self.listener, &request);
                }
                match self.connect(&request, &decided) {
                    Some(result) => result,
                    None => return,
                }
            }
            Err(errno) => {
                if let (EACCES | ENETUNREACH, Some(observer)) = (errno, &mut self.observer) {
                    observer.refused_connect(self.listener, &request);
                }
                Err(errno)
            }
        };
        // Fails if the thread does not wait any more.
        let _ = notify::answer(self.listener, request.id, result);
    }

    /// Answers a call other than connect: one that is made in a place, or one that is reported.
    fn serve_other(&mut self, request: &Request) {
        let observer = self.observer.as_mut();
        let listener = self.listener;
        let verdict = observer.and_then(|observer| observer.observe(listener, request));
        // Each fails if the thread does not wait any more.
        let _ = match verdict {
            _ if self.connect.calls_in_places && Places::decides(request.number) => {
                let result = self.places.call(self.listener, request);
                notify::answer_value(self.listener, request.id, result)
            }
            Some(CallAnswer::AskBroker(config)) => {
                let sent = self.replacements.send(request, config);
                self.answer_replacement(sent.err().map(|unsent| (unsent, EBUSY)));
                return;
            }
            Some(CallAnswer::Continue) => notify::go_on(self.listener, request.id),
            Some(CallAnswer::Refuse(errno)) => {
                notify::answer(self.listener, request.id, Err(errno))
            }
            None => notify::answer(self.listener, request.id, Err(sys::ENOSYS)),
        };
    }

    /// Connects in this process if that takes no time. Otherwise it starts a child, which answers
    /// itself, and returns `None`.
    fn connect(&mut self, request: &Request, decided: &Decided) -> Option<Result<(), Errno>> {
        let to = decided.address();
        if !decided.may_block {
            return Some(notify::connect(decided.socket.0, to));
        }
        // Most listeners have room. The connector tries only while no other connect is pending, so
        // that many full listeners do not cost the others a clock tick each; and also while all
        // workers are busy.
        if decided.is_near && (!self.busy() || self.workers.iter().all(Option::is_some)) {
            match notify::connect_without_waiting(decided.socket.0, to) {
                // TCP goes on with the attempt, and the worker waits for it.
                Err(EAGAIN | EINPROGRESS) => {}
                done => return Some(done),
            }
        }
        self.delegate(request, decided).err().map(Err)
    }

    /// Decides about a connect, on copies of everything that the decision depends on.
    fn decide(&self, request: &Request) -> Result<Decided, Errno> {
        let mut decided = self.copy(request)?;
        let socket = decided.socket.0;
        let domain = notify::option(socket, SO_DOMAIN)? & u64::from(u32::MAX);
        let kind = notify::option(socket, SO_TYPE)? & u64::from(u32::MAX);
        decided.may_block = !notify::never_blocks(socket)?;
        match domain {
            AF_UNIX if matches!(kind, SOCK_STREAM | SOCK_SEQPACKET) => {
                let real = self.connect.named(decided.address()).ok_or(EACCES)?;
                decided.lead_to(real)?;
            }
            AF_INET | AF_INET6 if kind == SOCK_STREAM && !self.connect.addresses.is_empty() => {
                let asked = self.connect.internet(domain, decided.address())?;
                decided.bytes = asked.write(&mut decided.address);
                decided.is_near = true;
            }
            // Datagrams only note the address.
            AF_INET | AF_INET6 if self.connect.internet => {
                decided.may_block &= kind == SOCK_STREAM;
            }
            AF_NETLINK => decided.may_block = false,
            _ => return Err(EACCES),
        }
        Ok(decided)
    }

    /// Copies the address and the socket of a connect. The thread waits in its call all the while
    /// (checked before and after), so its number means no other process.
    fn copy(&self, request: &Request) -> Result<Decided, Errno> {
        // The kernel takes both as int.
        let (number, bytes) = (request.args[0] as i32, request.args[2] as i32);
        let bytes = usize::try_from(bytes).map_err(|_| EINVAL)?;
        let mut address = [0u8; MAX_ADDRESS_BYTES];
        let copy = address.get_mut(..bytes).ok_or(EINVAL)?;
        let waits = || match notify::waits(self.listener, request.id) {
            true => Ok(()),
            false => Err(EACCES),
        };
        let thread = notify::thread(request.thread).map_err(refused)?;
        waits()?;
        let read = notify::read_memory(request.thread, request.args[1], copy);
        read.map_err(|errno| match errno {
            EFAULT => EFAULT,
            errno => refused(errno),
        })?;
        let socket = notify::take_descriptor(&thread, number).map_err(refused)?;
        waits()?;
        Ok(Decided {
            socket,
            address,
            bytes,
            may_block: true,
            is_near: false,
            _place: None,
        })
    }

    /// Starts a child that makes the connect and answers.
    fn delegate(&mut self, request: &Request, decided: &Decided) -> Result<(), Errno> {
        let Some(free) = self.workers.iter_mut().find(|slot| slot.is_none()) else {
            return Err(EAGAIN);
        };
        match sys::fork() {
            Ok(0) => {
                let alone = sys::prctl(PR_SET_PDEATHSIG, sys::SIGKILL as usize, 0).is_err()
                    || sys::getppid() != self.me;
                if !alone {
                    let to = decided.address();
                    let result = notify::connect(decided.socket.0, to);
                    // Fails if the thread does not wait any more.
                    let _ = notify::answer(self.listener, request.id, result);
                }
                sys::exit(0)
            }
            Ok(pid) => {
                *free = Some(ConnectWorker {
                    pid,
                    id: request.id,
                    thread: request.thread,
                    since_ms: sys::monotonic_ms(),
                });
                Ok(())
            }
            Err(_) => Err(EAGAIN),
        }
    }

    /// Ends connects of threads that do not wait any more, and those of threads with a signal to
    /// handle: the signal would have interrupted a connect of their own.
    fn look(&mut self) {
        if !self.waits() {
            return;
        }
        let now = sys::monotonic_ms();
        if now.saturating_sub(self.looked_ms) < LOOK_MS {
            return;
        }
        self.looked_ms = now;
        while let Some(expired) = self.replacements.expire(now) {
            self.answer_replacement(Some(expired));
        }
        let listener = self.listener;
        let long = |worker: &ConnectWorker| now.saturating_sub(worker.since_ms) >= LOOK_MS;
        self.stop(|worker| {
            long(worker)
                && (!notify::waits(listener, worker.id) || notify::has_signal(worker.thread))
        });
    }

    /// Ends workers, and answers for those that have not answered, as after a signal.
    fn stop(&mut self, which: impl Fn(&ConnectWorker) -> bool) {
        for index in 0..MAX_WORKERS {
            let Some(worker) = self.workers[index].filter(&which) else {
                continue;
            };
            // The worker is not reaped yet, so the number is still its own.
            let _ = sys::kill(worker.pid, sys::SIGKILL);
            while self.workers[index].is_some() {
                if !self.reap(true) {
                    self.workers[index] = None;
                }
            }
            let _ = notify::answer(self.listener, worker.id, Err(EINTR));
        }
    }

    /// Reaps all ended processes; waits for one if `block`. Returns `true` if it reaped any.
    fn reap(&mut self, block: bool) -> bool {
        let mut block = block;
        let mut any = false;
        while let Ok(Some((pid, _))) = sys::wait_any(block) {
            block = false;
            any = true;
            self.done |= pid == self.child;
            let mine =
                |slot: &&mut Option<ConnectWorker>| slot.is_some_and(|worker| worker.pid == pid);
            if let Some(slot) = self.workers.iter_mut().find(mine) {
                *slot = None;
            }
        }
        any
    }
}

/// Converts an errno of the connector into the target's: an inspection that the connector is not
/// allowed fails with EACCES, which reveals no reason.
fn refused(errno: Errno) -> Errno {
    match errno {
        sys::EBADF => errno,
        _ => EACCES,
    }
}
