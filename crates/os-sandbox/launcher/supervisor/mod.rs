//! The supervisor: parent of the target, reaper of whatever the target leaves behind, and the one
//! that ends the tree. It ends it when the target is done, when time is up, when the tree was seen
//! over a limit, and when the broker is gone or asks for it (end of the control socket): the same
//! path every time.

pub mod target;
pub mod terminal;
mod watch;

use crate::connector::places::Places;
use crate::job::{Run, Strings};
use crate::namespaces::pins;
use crate::namespaces::routes;
use crate::namespaces::sockets;
use crate::probe;
use crate::proc_path::ProcPath;
use crate::sys::notify;
use crate::sys::{self, EINTR, EPERM, PollFd};
use crate::wire;
use crate::{CONTROL, Failure, at, tell};
use terminal::CommandTerminal;
use watch::LimitMonitor;

const PR_SET_CHILD_SUBREAPER: usize = 36;
const PR_SET_DUMPABLE: usize = 4;
const SOCK_STREAM: i32 = 1;

/// Rounds of ending everything and reaping, ten milliseconds apart at most: half a minute, if
/// nobody can be reaped.
const MAX_ROUNDS: u32 = 3000;

/// Time for processes that are about to end when the target has ended. It passes only if there are some.
const HELPERS_END_WITHIN_MS: u64 = 5;

/// Processes reaped before the supervisor looks at anything else.
const MAX_REAPED: u32 = 256;

/// Between two looks at the parts of mounts: one that is moved away takes its mount along, which is
/// no event.
const LOOK_MS: u64 = 500;

/// How the wait for the target ended.
enum WaitOutcome {
    Target(i32),
    TimedOut,
    /// Which limit.
    Over(i32),
    BrokerGone,
    ConnectorGone,
    PartLost,
}

pub fn run(run: &Run<'_>) -> Result<(), Failure> {
    prepare(run)?;
    let mut supervisor = Supervisor::start(run)?;
    let end = supervisor.wait();
    supervisor.finish(end)
}

/// Makes this process the supervisor: it gives up its privileges, and nothing leaves its tree.
fn prepare(run: &Run<'_>) -> Result<(), Failure> {
    if run.has(wire::FLAG_PID1) && sys::getpid() != 1 {
        return Err((wire::STAGE_OUTER, EPERM));
    }
    // While /proc still shows us to ourselves; whatever this gains is given up right after.
    pins::make(run)?;
    if let Some(channel) = run.namespace_channel {
        sockets::request(channel)?;
    }
    if run.has(wire::FLAG_DEVICE_LINKS) {
        device_links();
    }
    if !run.has(wire::FLAG_UNCONFINED) {
        target::give_up_privileges()?;
    }
    // Orphans come to us instead of the host's init, so that "all reaped" means "none left".
    sys::prctl(PR_SET_CHILD_SUBREAPER, 1, 0).map_err(at(wire::STAGE_OUTER))?;
    // Nobody of the same user reads or traces the supervisor.
    sys::prctl(PR_SET_DUMPABLE, 0, 0).map_err(at(wire::STAGE_OUTER))?;
    if run.has(wire::FLAG_SCOPE) {
        enter_scope()?;
    }
    if let Some(ruleset) = run.ruleset {
        for (rights, path) in run.rules() {
            add_rule(ruleset, rights, path).map_err(at(wire::STAGE_LATE_RULE))?;
        }
    }
    match run.terminal {
        Some(own) => terminal::lead_session(own),
        None => Ok(()),
    }
}

/// Shells and programs that read a descriptor by its name use them. One that cannot be made is
/// missed by name.
fn device_links() {
    const LINKS: [[&[u8]; 2]; 4] = [
        [b"/proc/self/fd\0", b"/dev/fd\0"],
        [b"/proc/self/fd/0\0", b"/dev/stdin\0"],
        [b"/proc/self/fd/1\0", b"/dev/stdout\0"],
        [b"/proc/self/fd/2\0", b"/dev/stderr\0"],
    ];
    for [target, path] in LINKS {
        if let (Some(target), Some(path)) = (sys::CStr::new(target), sys::CStr::new(path)) {
            let _ = sys::link_to(target, path);
        }
    }
}

/// Signals of everything that we start from here on stay among ourselves, which makes
/// `kill(-1)` mean "the tree". Believed only after a look: the broker must be out of reach.
fn enter_scope() -> Result<(), Failure> {
    let scope = sys::landlock_scope().map_err(at(wire::STAGE_OUTER))?;
    let everywhere = sys::CStr::new(b"/\0").ok_or((wire::STAGE_OUTER, sys::EINVAL))?;
    add_rule(scope, sys::LANDLOCK_REFER, everywhere).map_err(at(wire::STAGE_OUTER))?;
    sys::landlock_restrict(scope).map_err(at(wire::STAGE_OUTER))?;
    sys::close(scope);
    match sys::kill(sys::getppid(), 0) {
        Err(EPERM) => Ok(()),
        Err(errno) => Err((wire::STAGE_OUTER_CHECK, errno)),
        Ok(()) => Err((wire::STAGE_OUTER_CHECK, 0)),
    }
}

/// For places that only this process can name: those inside the namespaces, and `/`.
fn add_rule(ruleset: i32, rights: u64, path: sys::CStr<'_>) -> sys::Result<()> {
    let place = sys::open(path, sys::O_PATH | sys::O_CLOEXEC, 0)?;
    let added = sys::landlock_allow(ruleset, place, rights);
    sys::close(place);
    added
}

/// The supervisor of a target that was started.
struct Supervisor<'a> {
    run: &'a Run<'a>,
    target: i32,
    /// Signals that a process has ended.
    children: i32,
    /// Says how the start went; -1 from then on.
    errors: i32,
    /// Says when a mount of this namespace comes or goes; -1 if none is watched.
    mounts: i32,
    deadline: Option<u64>,
    /// The time is over, and the target has SIGTERM and a grace.
    is_late: bool,
    watch: Option<LimitMonitor>,
    asks: Option<Asks>,
    /// The command's terminal, while the broker can say that the command goes on.
    terminal: Option<CommandTerminal>,
    /// More processes have ended than were reaped.
    waiting: bool,
    /// The target has ended, and other processes have not.
    has_others: bool,
    next_look_ms: u64,
}

impl<'a> Supervisor<'a> {
    fn start(run: &'a Run<'a>) -> Result<Supervisor<'a>, Failure> {
        let me = sys::getpid();
        let forking = at(wire::STAGE_FORK);
        let children = sys::child_signals().map_err(&forking)?;
        let [errors, errors_target] = sys::pipe().map_err(&forking)?;
        let watch = LimitMonitor::new(run, me).map_err(&forking)?;
        let deadline = (run.wall_ms > 0).then(|| sys::monotonic_ms().saturating_add(run.wall_ms));
        let mounts = match run.has(wire::FLAG_PARTS) {
            true => ProcPath::new().text(b"/self/mountinfo").open(0),
            false => Ok(-1),
        };
        let mounts = mounts.map_err(&forking)?;
        // Earlier events are not told.
        if mounts >= 0 && pins::is_part_lost(run) {
            return Err((wire::STAGE_PIN, sys::ESTALE));
        }
        let asks = run.places.map(Asks::open).transpose().map_err(&forking)?;
        let channel = asks.as_ref().map_or(run.channel, |asks| Some(asks.targets));
        let target = match sys::fork().map_err(&forking)? {
            0 => target::become_target(run, me, errors_target, channel),
            pid => pid,
        };
        // Only the target holds its own ends: a pipe must close when it does. Its terminal is given to
        // it later if it has no keys.
        let asked = asks.as_ref().map(|asks| asks.targets);
        let is_needed = |end: i32| run.terminal.is_some_and(|own| own.is_needed(end));
        let stdio = run.stdio.into_iter().filter(|end| !is_needed(*end));
        let ends = [errors_target].into_iter().chain(asked).chain(stdio);
        for number in ends.chain(run.ruleset).chain(run.groups.iter().copied()) {
            sys::close(number);
        }
        Ok(Supervisor {
            run,
            target,
            children,
            errors,
            mounts,
            deadline,
            is_late: false,
            watch,
            asks,
            terminal: run.terminal,
            waiting: false,
            has_others: false,
            next_look_ms: sys::monotonic_ms().saturating_add(LOOK_MS),
        })
    }

    /// Waits for a reason to end the tree.
    fn wait(&mut self) -> WaitOutcome {
        loop {
            if let Err(outcome) = self.serve_events() {
                return outcome;
            }
        }
    }

    /// Waits for events once, and serves them.
    fn serve_events(&mut self) -> Result<(), WaitOutcome> {
        let left = self.time_left()?;
        let probes = self.run.has(wire::FLAG_PROBE);
        let asks = self.asks.as_ref();
        let mut fds = [
            (CONTROL, sys::POLLIN | sys::POLLRDHUP),
            (self.children, sys::POLLIN),
            (self.errors, sys::POLLIN),
            (self.run.channel.unwrap_or(-1), sys::POLLIN | sys::POLLRDHUP),
            (self.mounts, sys::POLLPRI),
            (asks.map_or(-1, |asks| asks.descriptor(probes)), sys::POLLIN),
            (self.terminal.map_or(-1, |own| own.jobs), sys::POLLIN),
        ]
        .map(|(fd, events)| PollFd::new(fd, events));
        match sys::poll(&mut fds, left) {
            Ok(_) => {}
            Err(EINTR) => return Ok(()),
            // A supervisor that cannot wait ends the tree.
            Err(_) => return Err(WaitOutcome::BrokerGone),
        }
        let [control, children, errors, connector, mounts, asked, jobs] = fds.map(|fd| fd.revents);
        // Before the death of the target is looked at: a failed start is more than an exit code.
        if errors != 0 {
            started_or_not(self.errors);
            sys::close(self.errors);
            self.errors = -1;
            if let Some(asks) = &mut self.asks {
                asks.accept();
            }
        }
        self.serve_broker(control)?;
        // The connector sends nothing; without it the kernel answers for it, and nobody knows what
        // became of what was under way.
        if connector != 0 {
            return Err(WaitOutcome::ConnectorGone);
        }
        if let Some(asks) = &mut self.asks
            && asked != 0
        {
            asks.serve(asked);
        }
        self.look_at_parts(mounts != 0)?;
        if jobs != 0 {
            self.terminal = self
                .terminal
                .filter(|own| terminal::answer(*own, self.target));
        }
        if children != 0 || self.waiting {
            self.reap()?;
        }
        Ok(())
    }

    /// Passes a signal on. An error if the broker is gone, or orders the end.
    fn serve_broker(&self, events: i16) -> Result<(), WaitOutcome> {
        let is_over = events & (sys::POLLRDHUP | sys::POLLHUP | sys::POLLERR) != 0;
        let mut signal = [0u8; 1];
        if is_over || events & sys::POLLIN != 0 && sys::read(CONTROL, &mut signal) != Ok(1) {
            return Err(WaitOutcome::BrokerGone);
        }
        if signal[0] != 0 {
            self.signal_target(signal[0].into());
        }
        Ok(())
    }

    /// Returns the milliseconds until something is due. An error if time or another limit is over.
    fn time_left(&mut self) -> Result<Option<u64>, WaitOutcome> {
        let until = |due: u64| due.saturating_sub(sys::monotonic_ms());
        let mut left = self.deadline.map(until);
        if left == Some(0) {
            if self.is_late || self.run.grace_ms == 0 {
                return Err(WaitOutcome::TimedOut);
            }
            self.is_late = true;
            self.signal_target(sys::SIGTERM);
            self.deadline = Some(sys::monotonic_ms().saturating_add(self.run.grace_ms));
            left = self.deadline.map(until);
        }
        if let Some(limit) = self.watch.as_mut().and_then(LimitMonitor::look) {
            return Err(WaitOutcome::Over(limit));
        }
        let look = self.watch.as_ref().map(LimitMonitor::left_ms);
        let now = self.waiting.then_some(0);
        let parts = (self.mounts >= 0).then(|| until(self.next_look_ms));
        Ok(left.into_iter().chain(look).chain(now).chain(parts).min())
    }

    /// Sends a signal to the target's process group if it leads one, otherwise to the target. A stopped
    /// one goes on, to handle it; the signals of keys leave it stopped, as a terminal does.
    fn signal_target(&self, signal: i32) {
        let leads = self.run.has(wire::FLAG_SETSID) || self.run.terminal.is_some();
        let to = if leads { -self.target } else { self.target };
        // It may have ended meanwhile.
        let _ = sys::kill(to, signal);
        if !matches!(signal, sys::SIGINT | sys::SIGQUIT) {
            let _ = sys::kill(to, sys::SIGCONT);
        }
    }

    /// Looks at the parts of mounts, after a change and when it is time.
    fn look_at_parts(&mut self, changed: bool) -> Result<(), WaitOutcome> {
        let due = self.mounts >= 0 && sys::monotonic_ms() >= self.next_look_ms;
        if !changed && !due {
            return Ok(());
        }
        if pins::is_part_lost(self.run) {
            return Err(WaitOutcome::PartLost);
        }
        self.next_look_ms = sys::monotonic_ms().saturating_add(LOOK_MS);
        Ok(())
    }

    /// Reaps who is done. An error if the target is among them.
    fn reap(&mut self) -> Result<(), WaitOutcome> {
        drain(self.children);
        let reaped = reap(self.target, self.terminal.map(|own| own.jobs));
        self.waiting = !reaped.all;
        self.has_others = !reaped.none_left;
        let Some(status) = reaped.found else {
            return Ok(());
        };
        if self.errors >= 0 {
            started_or_not(self.errors);
        }
        Err(WaitOutcome::Target(status))
    }

    /// Ends the tree, and tells the broker the reason.
    fn finish(self, end: WaitOutcome) -> ! {
        let run = self.run;
        if run.has(wire::FLAG_COUNT_UNREACHABLE) {
            match routes::refused() {
                0 => {}
                count => tell(wire::RECORD_UNREACHABLE, 0, 0, count),
            }
        }
        match end {
            WaitOutcome::Target(_) if self.is_late => tell(wire::RECORD_TIMED_OUT, 0, 0, 0),
            WaitOutcome::Target(_) if self.has_others && others_go_on(self.children) => {
                LimitMonitor::tell_processes(run);
            }
            WaitOutcome::Target(_) | WaitOutcome::BrokerGone => {}
            WaitOutcome::TimedOut => tell(wire::RECORD_TIMED_OUT, 0, 0, 0),
            WaitOutcome::Over(limit) => tell(wire::RECORD_OVER_LIMIT, limit, 0, 0),
            WaitOutcome::ConnectorGone => tell(wire::RECORD_NO_CONNECTOR, 0, 0, 0),
            WaitOutcome::PartLost => tell(wire::RECORD_PART_LOST, 0, 0, 0),
        }
        let left = end_tree(run, self.children, self.target);
        if run.has(wire::FLAG_PID1) {
            // The kernel ends the namespace with us, and our own exit is seen only after that. But it
            // closes our descriptors first, and one of them says that the tree is alive.
            report(end);
            sys::exit(0);
        }
        if let Left::Some = left {
            tell(wire::RECORD_LEFT, MAX_ROUNDS as i32, 0, 0);
        }
        // Last, because the broker takes it for the end.
        report(match (end, left) {
            (
                WaitOutcome::TimedOut | WaitOutcome::Over(_) | WaitOutcome::BrokerGone,
                Left::None(Some(status)),
            ) => WaitOutcome::Target(status),
            (end, _) => end,
        });
        sys::exit(0)
    }
}

/// The target's calls that the supervisor makes.
struct Asks {
    places: Places,
    /// The target's end of the channel on which its listener comes.
    targets: i32,
    /// Our end of it, until the listener has come.
    channel: i32,
    /// -1 before the target has started, and after the last process that could ask has ended.
    listener: i32,
}

impl Asks {
    fn open(places: Strings<'_>) -> sys::Result<Asks> {
        // Before there is a target that could put something else there.
        let places = Places::open(places)?;
        let [ours, targets] = sys::attempts::socket_pair(SOCK_STREAM | sys::O_CLOEXEC)?;
        Ok(Asks {
            places,
            targets,
            channel: ours,
            listener: -1,
        })
    }

    /// Returns the descriptor to poll. A probe asks before it reports its start, so its channel is
    /// polled too; otherwise the exec wakes the supervisor.
    fn descriptor(&self, probes: bool) -> i32 {
        match probes && self.listener < 0 {
            true => self.channel,
            false => self.listener,
        }
    }

    /// Takes the listener, which was sent before the exec.
    fn accept(&mut self) {
        if self.channel < 0 {
            return;
        }
        let mut received = [-1i32; 1];
        // Without one the target never came to its filter, and says why.
        if sys::receive(self.channel, &mut [0u8; 1], &mut received) == Ok(1) {
            self.listener = received[0];
            notify::wake_in_step(self.listener);
        }
        sys::close(self.channel);
        self.channel = -1;
    }

    fn serve(&mut self, events: i16) {
        if self.listener < 0 {
            self.accept();
        } else if events & sys::POLLIN == 0 {
            self.listener = -1;
        } else if let Ok(request) = notify::receive(self.listener) {
            let result = self.places.call(self.listener, &request);
            // Fails if the caller has been interrupted or has ended.
            let _ = notify::answer_value(self.listener, request.id, result);
        }
    }
}

/// End of file: the exec succeeded. Eight bytes: where it failed; more: what a probe found.
fn started_or_not(errors: i32) {
    let mut message = [0u8; probe::MAX_BYTES];
    let bytes = sys::read(errors, &mut message).unwrap_or(0);
    let Some(answers) = message[..bytes].get(8..) else {
        tell(wire::RECORD_STARTED, 0, 0, 0);
        return;
    };
    let stage = i32::from_ne_bytes([message[0], message[1], message[2], message[3]]);
    let value = i32::from_ne_bytes([message[4], message[5], message[6], message[7]]);
    if stage >= 0 {
        tell(wire::RECORD_FAILED, stage, value, 0);
    }
    for one in answers.chunks_exact(wire::ANSWER_BYTES) {
        let errno = u16::from_ne_bytes([one[2], one[3]]);
        tell(
            wire::RECORD_PROBE,
            i32::from(one[0]),
            i32::from(one[1]),
            errno.into(),
        );
    }
}

fn drain(signals: i32) {
    let mut buffer = [0u8; 128];
    let _ = sys::read(signals, &mut buffer);
}

/// Reaps who is done, as many as there is time for: in a tree that forks without end there is
/// always one more, and the clock must be looked at too.
///
/// With `jobs`, the broker learns that the target has stopped.
fn reap(target: i32, jobs: Option<i32>) -> ReapResult {
    let mut found = None;
    for _ in 0..MAX_REAPED {
        let next = match jobs {
            Some(_) => sys::wait_any_or_stop(),
            None => sys::wait_any(false),
        };
        match next {
            Ok(Some((pid, status))) if pid == target => match (sys::stop_signal(status), jobs) {
                (Some(signal), Some(jobs)) => terminal::tell_stop(jobs, signal),
                _ => found = Some(status),
            },
            Ok(Some(_)) => {}
            other => {
                return ReapResult {
                    found,
                    all: true,
                    none_left: other.is_err(),
                };
            }
        }
    }
    ReapResult {
        found,
        all: false,
        none_left: false,
    }
}

/// Gives processes that are about to end a moment. Returns `true` if there are some after it.
fn others_go_on(children: i32) -> bool {
    let until = sys::monotonic_ms() + HELPERS_END_WITHIN_MS;
    loop {
        if reap(0, None).none_left {
            return false;
        }
        let left = until.saturating_sub(sys::monotonic_ms());
        if left == 0 {
            return true;
        }
        let mut fds = [PollFd::new(children, sys::POLLIN)];
        let _ = sys::poll(&mut fds, Some(left));
        drain(children);
    }
}

struct ReapResult {
    /// The status of the target, if it was among them.
    found: Option<i32>,
    /// Nobody else is done.
    all: bool,
    /// No process is left.
    none_left: bool,
}

enum Left {
    /// Nobody; with the target's status if it was reaped here.
    None(Option<i32>),
    Some,
}

/// Ends everything and reaps it. With scope, or as the first process of a namespace, `kill(-1)` reaches the whole tree and nothing else;
/// nobody can fork out of it, because the kernel walks all processes under the lock that a new
/// one needs. Without scope there is only what is still our child, again and again.
fn end_tree(run: &Run<'_>, children: i32, target: i32) -> Left {
    let mut found = None;
    for _ in 0..MAX_ROUNDS {
        if run.has(wire::FLAG_SCOPE) || run.has(wire::FLAG_PID1) {
            let _ = sys::kill(-1, sys::SIGKILL);
        } else {
            kill_children();
        }
        let mut pause_ms = 0;
        for _ in 0..MAX_REAPED {
            match sys::wait_any(false) {
                Ok(Some((pid, status))) if pid == target => found = Some(status),
                Ok(Some(_)) => {}
                Ok(None) => {
                    pause_ms = 10;
                    break;
                }
                Err(_) => return Left::None(found),
            }
        }
        let mut fds = [PollFd::new(children, sys::POLLIN)];
        let _ = sys::poll(&mut fds, Some(pause_ms));
        drain(children);
    }
    Left::Some
}

/// Every process whose parent we are, by the kernel's own list. Only those: what we have not
/// reaped cannot be somebody else by now, as a group or a remembered number could.
fn kill_children() {
    let path = ProcPath::new().text(b"/thread-self/children");
    let Ok(list) = path.open(0) else {
        return;
    };
    let mut buffer = [0u8; 4096];
    let mut pid: i32 = 0;
    while let Ok(bytes) = sys::read(list, &mut buffer) {
        if bytes == 0 {
            break;
        }
        for byte in &buffer[..bytes] {
            if byte.is_ascii_digit() {
                pid = pid.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'));
            } else {
                if pid > 1 {
                    let _ = sys::kill(pid, sys::SIGKILL);
                }
                pid = 0;
            }
        }
    }
    sys::close(list);
}

fn report(end: WaitOutcome) {
    match end {
        WaitOutcome::Target(status) if status & 0x7f == 0 => {
            tell(wire::RECORD_EXITED, status >> 8 & 0xff, 0, 0);
        }
        WaitOutcome::Target(status) => tell(wire::RECORD_SIGNALLED, status & 0x7f, 0, 0),
        WaitOutcome::TimedOut
        | WaitOutcome::Over(_)
        | WaitOutcome::BrokerGone
        | WaitOutcome::ConnectorGone
        | WaitOutcome::PartLost => {
            tell(wire::RECORD_SIGNALLED, sys::SIGKILL, 0, 0);
        }
    }
}
