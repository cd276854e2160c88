//! The supervisor: parent of the target, reaper of whatever the target leaves behind, and the one
//! that ends the tree. It ends it when the target is done, when time is up, when the tree was seen
//! over a limit, and when the broker is gone or asks for it (end of the control socket): the same
//! path every time.

use crate::job::{Run, Strings};
use crate::modes::Modes;
use crate::namespace_sockets;
use crate::pins;
use crate::probe;
use crate::routes;
use crate::sys::notify;
use crate::sys::{self, EINTR, EPERM, PollFd};
use crate::target;
use crate::terminal;
use crate::watch::LimitMonitor;
use crate::wire;
use crate::{CONTROL, Failure, at, tell};

const PR_SET_CHILD_SUBREAPER: usize = 36;
const PR_SET_DUMPABLE: usize = 4;
const SOCK_STREAM: i32 = 1;

/// Rounds of ending everything and reaping, ten milliseconds apart at most: half a minute, if
/// nobody can be reaped.
const MAX_ROUNDS: u32 = 3000;

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
    let me = sys::getpid();
    if run.has(wire::FLAG_PID1) && me != 1 {
        return Err((wire::STAGE_OUTER, EPERM));
    }
    // While /proc still shows us to ourselves; whatever this gains is given up right after.
    pins::make(run)?;
    if let Some(channel) = run.namespace_channel {
        namespace_sockets::request(channel)?;
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

    if let Some(own) = run.terminal {
        terminal::lead_session(own)?;
    }
    let forking = at(wire::STAGE_FORK);
    let children = sys::child_signals().map_err(&forking)?;
    let [errors, errors_target] = sys::pipe().map_err(&forking)?;
    let watch = LimitMonitor::new(run, me).map_err(&forking)?;
    let deadline = (run.wall_ms > 0).then(|| sys::monotonic_ms().saturating_add(run.wall_ms));
    // Says when a mount of this namespace comes or goes.
    let mounts = match run.has(wire::FLAG_PARTS) {
        true => {
            let list = sys::CStr::new(b"/proc/self/mountinfo\0").ok_or(forking(sys::EINVAL))?;
            sys::open(list, sys::O_RDONLY | sys::O_CLOEXEC, 0).map_err(&forking)?
        }
        false => -1,
    };
    // What happened before is not told.
    if mounts >= 0 && pins::is_part_lost(run) {
        return Err((wire::STAGE_PIN, sys::ESTALE));
    }
    let mut asks = match run.places {
        Some(places) => Some(Asks::open(places).map_err(&forking)?),
        None => None,
    };
    let channel = asks.as_ref().map_or(run.channel, |asks| Some(asks.targets));
    let target = match sys::fork().map_err(&forking)? {
        0 => target::become_target(run, me, errors_target, channel),
        pid => pid,
    };
    sys::close(errors_target);
    if let Some(asks) = &asks {
        sys::close(asks.targets);
    }
    // Only the target holds its own ends: a pipe must close when it does.
    for number in run.stdio {
        sys::close(number);
    }
    if let Some(ruleset) = run.ruleset {
        sys::close(ruleset);
    }
    for group in run.groups {
        sys::close(*group);
    }

    let end = wait(
        run,
        target,
        children,
        errors,
        mounts,
        deadline,
        watch,
        asks.as_mut(),
    );
    if run.has(wire::FLAG_COUNT_UNREACHABLE) {
        match routes::refused() {
            0 => {}
            count => tell(wire::RECORD_UNREACHABLE, 0, 0, count),
        }
    }
    match end {
        WaitOutcome::Target(_) => {}
        WaitOutcome::TimedOut => tell(wire::RECORD_TIMED_OUT, 0, 0, 0),
        WaitOutcome::Over(limit) => tell(wire::RECORD_OVER_LIMIT, limit, 0, 0),
        WaitOutcome::BrokerGone => {}
        WaitOutcome::ConnectorGone => tell(wire::RECORD_NO_CONNECTOR, 0, 0, 0),
        WaitOutcome::PartLost => tell(wire::RECORD_PART_LOST, 0, 0, 0),
    }
    if run.has(wire::FLAG_PID1) {
        // The kernel ends the namespace with us, and our own exit is seen only after that. But it
        // closes our descriptors first, and one of them says that the tree is alive.
        let _ = end_tree(run, children, target);
        report(end);
        sys::exit(0);
    }
    let left = end_tree(run, children, target);
    match left {
        Left::None(_) => {}
        Left::Some => tell(wire::RECORD_LEFT, MAX_ROUNDS as i32, 0, 0),
    }
    // Last, because the broker takes it for the end.
    report(match (end, left) {
        (WaitOutcome::Target(status), _) => WaitOutcome::Target(status),
        (
            WaitOutcome::TimedOut | WaitOutcome::Over(_) | WaitOutcome::BrokerGone,
            Left::None(Some(status)),
        ) => WaitOutcome::Target(status),
        (other, _) => other,
    });
    sys::exit(0)
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

fn wait(
    run: &Run<'_>,
    target: i32,
    children: i32,
    errors: i32,
    mounts: i32,
    deadline: Option<u64>,
    mut watch: Option<LimitMonitor>,
    mut asks: Option<&mut Asks>,
) -> WaitOutcome {
    let mut errors = errors;
    let mut jobs = run.terminal.map(|own| own.jobs);
    let mut waiting = false;
    let mut next_look_ms = sys::monotonic_ms().saturating_add(LOOK_MS);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_sub(sys::monotonic_ms()));
        if left == Some(0) {
            return WaitOutcome::TimedOut;
        }
        if let Some(limit) = watch.as_mut().and_then(LimitMonitor::look) {
            return WaitOutcome::Over(limit);
        }
        let look = watch.as_ref().map(LimitMonitor::left_ms);
        let now = waiting.then_some(0);
        let parts = (mounts >= 0).then(|| next_look_ms.saturating_sub(sys::monotonic_ms()));
        let left = left.into_iter().chain(look).chain(now).chain(parts).min();
        let mut fds = [
            PollFd {
                fd: CONTROL,
                events: sys::POLLIN | sys::POLLRDHUP,
                revents: 0,
            },
            PollFd {
                fd: children,
                events: sys::POLLIN,
                revents: 0,
            },
            PollFd {
                fd: errors,
                events: sys::POLLIN,
                revents: 0,
            },
            PollFd {
                fd: run.channel.unwrap_or(-1),
                events: sys::POLLIN | sys::POLLRDHUP,
                revents: 0,
            },
            PollFd {
                fd: mounts,
                events: sys::POLLPRI,
                revents: 0,
            },
            PollFd {
                fd: asks
                    .as_ref()
                    .map_or(-1, |asks| asks.descriptor(run.has(wire::FLAG_PROBE))),
                events: sys::POLLIN,
                revents: 0,
            },
            PollFd {
                fd: jobs.unwrap_or(-1),
                events: sys::POLLIN,
                revents: 0,
            },
        ];
        match sys::poll(&mut fds, left) {
            Ok(_) => {}
            Err(EINTR) => continue,
            // A supervisor that cannot wait ends the tree.
            Err(_) => return WaitOutcome::BrokerGone,
        }
        // Before the death of the target is looked at: a failed start is more than an exit code.
        if fds[2].revents != 0 {
            started_or_not(errors);
            sys::close(errors);
            // poll ignores negative descriptors.
            errors = -1;
            if let Some(asks) = &mut asks {
                asks.accept();
            }
        }
        // Nothing is ever sent after the job; any event here is the end of the broker's side.
        if fds[0].revents & (sys::POLLIN | sys::POLLRDHUP | sys::POLLHUP | sys::POLLERR) != 0 {
            return WaitOutcome::BrokerGone;
        }
        // The connector sends nothing; without it the kernel answers for it, and nobody knows what
        // became of what was under way.
        if fds[3].revents != 0 {
            return WaitOutcome::ConnectorGone;
        }
        if let Some(asks) = &mut asks
            && fds[5].revents != 0
        {
            asks.serve(fds[5].revents);
        }
        let due = mounts >= 0 && sys::monotonic_ms() >= next_look_ms;
        if fds[4].revents != 0 || due {
            if pins::is_part_lost(run) {
                return WaitOutcome::PartLost;
            }
            next_look_ms = sys::monotonic_ms().saturating_add(LOOK_MS);
        }
        if fds[6].revents != 0 {
            jobs = jobs.filter(|jobs| terminal::answer(*jobs, target));
        }
        if fds[1].revents != 0 || waiting {
            drain(children);
            let reaped = reap(target, jobs);
            waiting = !reaped.all;
            if let Some(status) = reaped.found {
                if errors >= 0 {
                    started_or_not(errors);
                }
                return WaitOutcome::Target(status);
            }
        }
    }
}

/// The target's questions about modes.
struct Asks {
    modes: Modes,
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
        let modes = Modes::open(places)?;
        let [ours, targets] = sys::attempts::socket_pair(SOCK_STREAM | sys::O_CLOEXEC)?;
        Ok(Asks {
            modes,
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
            let result = self.modes.change(self.listener, &request);
            // Fails if the caller has been interrupted or has ended.
            let _ = notify::answer(self.listener, request.id, result);
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
            Ok(None) | Err(_) => return ReapResult { found, all: true },
        }
    }
    ReapResult { found, all: false }
}

struct ReapResult {
    /// The status of the target, if it was among them.
    found: Option<i32>,
    /// Nobody else is done.
    all: bool,
}

#[derive(Clone, Copy)]
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
        let mut fds = [PollFd {
            fd: children,
            events: sys::POLLIN,
            revents: 0,
        }];
        let _ = sys::poll(&mut fds, Some(pause_ms));
        drain(children);
    }
    Left::Some
}

/// Every process whose parent we are, by the kernel's own list. Only those: what we have not
/// reaped cannot be somebody else by now, as a group or a remembered number could.
fn kill_children() {
    let Some(path) = sys::CStr::new(b"/proc/thread-self/children\0") else {
        return;
    };
    let Ok(list) = sys::open(path, sys::O_RDONLY | sys::O_CLOEXEC, 0) else {
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
