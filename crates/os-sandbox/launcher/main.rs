//! The launcher: what runs between the broker and a confined command.
//!
//! A static program without libc or allocator, built by `build.rs`, carried inside the crate and
//! started from memory. The broker itself never forks: a broker with hundreds of megabytes would
//! pay for its page tables, and between fork and exec of a threaded program almost nothing is
//! safe to call. Here everything is: one thread, no locks, raw system calls (`sys/`).
//!
//! Its jobs, told by the broker over descriptor 0 (`wire.rs`), or over the local socket whose path is
//! its argument:
//!
//! - connect: split in two; one half stays outside and connects named sockets and the proxy for
//!   named hosts for the target (`connector/`), the other takes the next job;
//! - exec: close every descriptor but the ones sent, become `bwrap`, which starts this program
//!   again inside the namespaces;
//! - namespaces: start a child in namespaces with a root directory of its own (`namespaces/`),
//!   which takes the next job;
//! - run: supervise one target (`supervisor/`), which confines itself and execs, or becomes the
//!   self-test (`probe.rs`); without anything to end behind it, this process becomes the target;
//! - sockets: enter the network namespace of a command, or be in it already, and make sockets there
//!   for the broker (`namespaces/sockets.rs`);
//! - terminal: give the broker's terminal its modes back after the broker
//!   (`supervisor/terminal.rs`);
//! - report: say what the kernel has.

#![no_std]
#![no_main]
// Two messages with one number.
#![deny(unreachable_patterns)]

mod connector;
mod job;
mod listing;
mod namespaces;
mod probe;
mod proc_path;
mod supervisor;
mod sys;
mod wire;

use connector::Connect;
use job::Run;
use namespaces::sockets;
use proc_path::ProcPath;
use supervisor::{target, terminal};
use sys::{EPROTO, Errno};

/// The broker's end of this is the only thing that decides how long we live.
pub const CONTROL: i32 = 0;

/// Called by the entry point in `sys/` with nothing set up but a stack.
pub extern "C" fn launcher_start(stack: sys::StartStack) -> ! {
    if let Err((stage, errno)) = connect_to_broker(stack).and_then(|()| work()) {
        tell(wire::RECORD_FAILED, stage, errno, 0);
    }
    sys::exit(125)
}

/// One record for the broker. If nobody listens any more there is nobody to tell that.
pub fn tell(kind: u32, a: i32, b: i32, c: u32) {
    tell_on(CONTROL, kind, a, b, c);
}

/// One record, where the control socket has another number.
pub fn tell_on(control: i32, kind: u32, a: i32, b: i32, c: u32) {
    let _ = sys::write(control, &record(kind, a, b, c));
}

/// The bytes of a record.
pub fn record(kind: u32, a: i32, b: i32, c: u32) -> [u8; wire::RECORD_BYTES] {
    let mut record = [0u8; wire::RECORD_BYTES];
    record[0..4].copy_from_slice(&kind.to_ne_bytes());
    record[4..8].copy_from_slice(&a.to_ne_bytes());
    record[8..12].copy_from_slice(&b.to_ne_bytes());
    record[12..16].copy_from_slice(&c.to_ne_bytes());
    record
}

/// Where something failed, and the errno.
pub type Failure = (i32, Errno);

/// Names the stage of an error.
pub fn at(stage: i32) -> impl Fn(Errno) -> Failure {
    move |errno| (stage, errno)
}

/// Connects to the broker, if the launcher did not inherit a socket: in a container, whose engine
/// started it.
fn connect_to_broker(stack: sys::StartStack) -> Result<(), Failure> {
    let Some(path) = stack.argument(sys::network::MAX_SOCKET_PATH) else {
        return Ok(());
    };
    let failed = at(wire::STAGE_PROTOCOL);
    let socket = sys::network::connect_local(path).map_err(&failed)?;
    if socket != CONTROL {
        sys::dup_to(socket, CONTROL, false).map_err(&failed)?;
        sys::close(socket);
    }
    Ok(())
}

fn work() -> Result<(), Failure> {
    // Signals reach the target, not us: the terminal's Ctrl-C must not end the supervisor before
    // its target. bwrap inherits the mask as well.
    sys::block_signals(true).map_err(at(wire::STAGE_PROTOCOL))?;
    // What the broker, or who started it, ignores is not meant for the target (Python ignores
    // SIGXFSZ, shells ignore SIGINT in the background); only an ignored SIGHUP is (nohup).
    for signal in (1..=sys::LAST_SIGNAL).filter(|signal| *signal != sys::SIGHUP) {
        // Refused for SIGKILL and SIGSTOP, which nobody can ignore.
        let _ = sys::default_action(signal);
    }
    // Whatever the broker forgot to mark close-on-exec ends here.
    listing::close_from(3).map_err(at(wire::STAGE_DESCRIPTORS))?;
    // A connector is split off and namespaces are entered at most once; any other job is the last.
    for _ in 0..3 {
        if let Next::Done = one()? {
            break;
        }
    }
    Ok(())
}

enum Next {
    Another,
    Done,
}

/// One message of the broker.
pub struct BrokerMessage {
    pub kind: u32,
    pub body: &'static [u8],
    fds: [i32; wire::MAX_FDS],
    count: usize,
}

impl BrokerMessage {
    /// Waits for a message on a socket.
    pub fn receive(socket: i32) -> sys::Result<BrokerMessage> {
        let mut header = [0u8; wire::HEADER_BYTES];
        let mut fds = [-1i32; wire::MAX_FDS];
        let count = sys::receive(socket, &mut header, &mut fds)?;
        let word = |index: usize| {
            let at = index * 4;
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let bytes = word(2) as usize;
        if word(0) != wire::MAGIC || bytes > wire::MAX_BODY_BYTES || word(3) as usize != count {
            return Err(EPROTO);
        }
        let body = &mut sys::memory(bytes)?[..bytes];
        if bytes > 0 {
            let first = sys::read(socket, body)?;
            sys::read_rest(socket, body, first)?;
        }
        let kind = word(1);
        Ok(BrokerMessage {
            kind,
            body,
            fds,
            count,
        })
    }

    pub fn fds(&self) -> &[i32] {
        &self.fds[..self.count]
    }
}

fn one() -> Result<Next, Failure> {
    let protocol = at(wire::STAGE_PROTOCOL);
    let message = BrokerMessage::receive(CONTROL).map_err(&protocol)?;
    let (body, fds) = (message.body, message.fds());
    let first = || fds.first().copied().ok_or(protocol(EPROTO));
    match message.kind {
        wire::KIND_CONNECT => {
            let connect = Connect::parse(body, fds).ok_or(protocol(EPROTO))?;
            connector::split(connect, first()?)?;
            return Ok(Next::Another);
        }
        wire::KIND_NAMESPACES => {
            namespaces::enter(body)?;
            return Ok(Next::Another);
        }
        wire::KIND_EXEC => become_other(body, fds.len())?,
        wire::KIND_RUN => {
            let mut run = Run::parse(body, fds).ok_or(protocol(EPROTO))?;
            if run.has(wire::FLAG_TERMINAL) {
                terminal::open(&mut run)?;
            }
            if run.has(wire::FLAG_VICTIM) {
                become_victim();
            }
            if run.has(wire::FLAG_ALONE) {
                target::become_target_alone(&run)
            }
            supervisor::run(&run)?;
        }
        wire::KIND_SOCKETS => sockets::serve(body, first()?)?,
        wire::KIND_TERMINAL => terminal::guard(first()?)?,
        wire::KIND_OWN_SOCKETS => sockets::serve_own(body)?,
        wire::KIND_REPORT => {
            tell(
                wire::RECORD_REPORT,
                sys::landlock_query(1),
                sys::landlock_query(2),
                u32::from(sys::filters_work()),
            );
        }
        _ => return Err(protocol(EPROTO)),
    }
    Ok(Next::Done)
}

/// Makes this process, and those that it starts, the first that the kernel ends if memory runs out
/// (proc_pid_oom_score_adj(5)). Needs no privilege. Without the file the kernel chooses the largest.
fn become_victim() {
    const FIRST: &[u8] = b"1000";
    let path = ProcPath::new().text(b"/self/oom_score_adj");
    if let Ok(file) = path.open(sys::O_WRONLY) {
        let _ = sys::write(file, FIRST);
        sys::close(file);
    }
}

fn become_other(body: &[u8], received: usize) -> Result<(), Failure> {
    let exec = job::Exec::parse(body).ok_or((wire::STAGE_PROTOCOL, EPROTO))?;
    let mut next = 3 + received as i32;
    for file in exec.files {
        let opened = sys::open(file, sys::O_RDONLY, 0).map_err(at(wire::STAGE_FILES))?;
        if opened != next {
            return Err((wire::STAGE_FILES, EPROTO));
        }
        next += 1;
    }
    Err((wire::STAGE_EXEC, sys::exec(exec.path, exec.argv, exec.envp)))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit(125)
}
