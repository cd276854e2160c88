//! Tries, from inside a fully confined target, what must not work, and a few things that must. An
//! answer says what happened: an enforcement that was seen, not one that was configured. What was
//! promised, and what therefore must have happened, is the broker's business (`linux/prove/checks.rs`).
//!
//! The probe may run without any confinement too, as any user: every try leaves what is not a
//! decoy of the broker as it was, and nothing stays open.

use crate::job::Run;
use crate::listing;
use crate::proc_path::ProcPath;
use crate::supervisor::target::ERRORS;
use crate::sys::attempts as attempt;
use crate::sys::notify;
use crate::sys::{self, CStr, Errno, Result};
use crate::wire::{self, ProbeCheck};

/// The longest message.
pub const MAX_BYTES: usize = 8 + wire::ANSWER_BYTES * ProbeCheck::ALL.len();

const AF_UNIX: i32 = 1;
const AF_INET: i32 = 2;
const AF_INET6: i32 = 10;
const AF_NETLINK: i32 = 16;
const AF_VSOCK: i32 = 40;
const SOCK_STREAM: i32 = 1;
const SOCK_DGRAM: i32 = 2;
const SOCK_RAW: i32 = 3;
/// Events of devices: the family without privileges that is not about routes.
const NETLINK_KOBJECT_UEVENT: i32 = 15;
const IPPROTO_MPTCP: i32 = 262;
const PR_GET_NO_NEW_PRIVS: usize = 39;
const PR_CAP_AMBIENT: usize = 47;
const PR_CAP_AMBIENT_IS_SET: usize = 1;
const READ: i32 = sys::O_RDONLY | sys::O_CLOEXEC | sys::O_NONBLOCK;
const WRITE: i32 = sys::O_WRONLY | sys::O_CLOEXEC | sys::O_NONBLOCK;
const MAKE: i32 = WRITE | sys::O_CREAT | sys::O_EXCL;
const STDOUT: i32 = 1;
/// As long as a survivor lives if nobody ends it.
const SURVIVE_MS: u64 = 5000;
/// How long a program that has been started may take to have its environment.
const BEGIN_MS: u64 = 10_000;

/// What became of a try.
enum CheckOutcome {
    Succeeded,
    Denied(Errno),
    Inconclusive(Errno),
}

/// Makes the tries that are asked for, writes the message, returns its length.
pub fn run(run: &Run<'_>, message: &mut [u8; MAX_BYTES]) -> usize {
    let probe = CheckRunner { run };
    message[0..4].copy_from_slice(&(-1i32).to_ne_bytes());
    let asked = probe.number(wire::PROBE_ASKED);
    let mut at = 8;
    for one in ProbeCheck::ALL {
        if asked & 1 << (one as u8) == 0 {
            continue;
        }
        let (outcome, errno) = match probe.make(one) {
            CheckOutcome::Succeeded => (wire::OUTCOME_THROUGH, 0),
            CheckOutcome::Denied(errno) => (wire::OUTCOME_REFUSED, errno),
            CheckOutcome::Inconclusive(errno) => (wire::OUTCOME_UNCLEAR, errno),
        };
        message[at] = one as u8;
        message[at + 1] = outcome;
        message[at + 2..at + 4].copy_from_slice(&(errno as u16).to_ne_bytes());
        at += wire::ANSWER_BYTES;
    }
    at
}

struct CheckRunner<'a> {
    run: &'a Run<'a>,
}

impl CheckRunner<'_> {
    fn make(&self, one: ProbeCheck) -> CheckOutcome {
        match one {
            ProbeCheck::Descriptors => seen((ERRORS + 1..1024).any(sys::is_open)),
            ProbeCheck::ReadOutside => self.open(wire::PROBE_SECRET, READ),
            ProbeCheck::ListOutside => self.open(wire::PROBE_DIRECTORY, READ | sys::O_DIRECTORY),
            ProbeCheck::WriteOutside => self.open(wire::PROBE_SECRET, WRITE),
            ProbeCheck::CreateOutside => self.open(wire::PROBE_NEW, MAKE),
            ProbeCheck::TruncateOutside => self.try_at(wire::PROBE_SECRET, attempt::truncate),
            ProbeCheck::DeleteOutside => self.try_at(wire::PROBE_DOOMED, sys::unlink),
            ProbeCheck::ExecuteOutside => self.try_at(wire::PROBE_PROGRAM, |one| self.start(one)),
            ProbeCheck::WriteReadOnly => self.try_at(wire::PROBE_READ_ONLY, write_into),
            ProbeCheck::WriteNarrower => self.try_at(wire::PROBE_NARROWER, write_into),
            ProbeCheck::WriteMount => self.try_at(wire::PROBE_MADE, make_and_remove),
            ProbeCheck::WriteTmp => self.try_at(wire::PROBE_TMP, make_and_remove),
            ProbeCheck::StartProgram => self.try_at(wire::PROBE_START, |one| self.start(one)),
            ProbeCheck::KernelSetting => self.open(wire::PROBE_SETTING, WRITE),
            ProbeCheck::SysSetting => self.open(wire::PROBE_SYS, WRITE),
            ProbeCheck::Sysrq => sysrq(),
            ProbeCheck::SetId => self.set_id(),
            ProbeCheck::Inet => socket(AF_INET, SOCK_STREAM, 0),
            ProbeCheck::Inet6 => socket(AF_INET6, SOCK_STREAM, 0),
            ProbeCheck::Mptcp => socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP),
            ProbeCheck::Vsock => socket(AF_VSOCK, SOCK_STREAM, 0),
            ProbeCheck::Netlink => socket(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT),
            ProbeCheck::Connect => self.connect(),
            ProbeCheck::Unix => socket(AF_UNIX, SOCK_STREAM, 0),
            ProbeCheck::UnixPair => unix_pair(),
            ProbeCheck::NamedSocket => self.try_at(wire::PROBE_NAMED_SOCKET, connect_local),
            ProbeCheck::OtherSocket => self.try_at(wire::PROBE_OTHER_SOCKET, connect_local),
            ProbeCheck::Variables => self.variables(),
            ProbeCheck::Signal => process(sys::kill(self.run.probe_pid, 0)),
            ProbeCheck::Memory => self.memory(),
            ProbeCheck::Environ => self.open(wire::PROBE_ENVIRON, READ),
            ProbeCheck::Process => self.open(wire::PROBE_STATUS, READ),
            ProbeCheck::TerminalInput => kernel(attempt::push_input(0)),
            ProbeCheck::IoUring => kernel(attempt::io_uring()),
            // In a child, because the namespace cannot be left again.
            ProbeCheck::UserNamespace => denied(in_child(attempt::unshare_user)),
            ProbeCheck::Mount => kernel(attempt::mount()),
            ProbeCheck::KernelPrograms => kernel_programs(),
            ProbeCheck::Capabilities => seen(sys::has_capabilities() || has_ambient_capability()),
            ProbeCheck::NewPrivileges => seen(sys::prctl(PR_GET_NO_NEW_PRIVS, 0, 0) != Ok(1)),
            ProbeCheck::ProtectedName => self.try_at(wire::PROBE_PROTECTED, write_into),
            ProbeCheck::MoveProtected => self.try_at(wire::PROBE_PROTECTED, |one| self.rename(one)),
            ProbeCheck::HiddenName => self.open(wire::PROBE_HIDDEN, READ),
            ProbeCheck::HiddenDirectory => self.open(wire::PROBE_HIDDEN_DIRECTORY, READ),
            ProbeCheck::Metadata => {
                self.try_at(wire::PROBE_SECRET, |one| attempt::chmod(one, 0o600))
            }
            ProbeCheck::Survivor => checked(survive().map(|()| true)),
        }
    }

    fn at(&self, index: usize) -> Result<CStr<'_>> {
        self.run.probes().nth(index).ok_or(sys::EINVAL)
    }

    fn number(&self, index: usize) -> u64 {
        self.at(index).map_or(0, CStr::number)
    }

    /// Makes a try at a path.
    fn try_at(&self, index: usize, call: impl FnOnce(CStr<'_>) -> Result<()>) -> CheckOutcome {
        path(self.at(index).and_then(call))
    }

    fn open(&self, index: usize, flags: i32) -> CheckOutcome {
        self.try_at(index, |path| open(path, flags))
    }

    fn rename(&self, name: CStr<'_>) -> Result<()> {
        sys::rename(name, self.at(wire::PROBE_ELSEWHERE)?)
    }

    fn memory(&self) -> CheckOutcome {
        match process(attempt::read_memory(self.run.probe_pid)) {
            CheckOutcome::Denied(_) => process(attempt::read_memory(sys::getppid())),
            other => other,
        }
    }

    fn set_id(&self) -> CheckOutcome {
        let made = self.at(wire::PROBE_TMP);
        let made = match made.and_then(|made| open(made, MAKE).map(|()| made)) {
            Ok(made) => made,
            Err(errno) => return CheckOutcome::Inconclusive(errno),
        };
        let mut answer = CheckOutcome::Succeeded;
        for mode in [0o2700, 0o4700] {
            answer = denied(attempt::chmod(made, mode));
            if matches!(answer, CheckOutcome::Succeeded) {
                break;
            }
        }
        let _ = sys::unlink(made);
        answer
    }

    fn connect(&self) -> CheckOutcome {
        const ECONNREFUSED: Errno = 111;
        let made = match attempt::socket(AF_INET, SOCK_STREAM | sys::O_CLOEXEC, 0) {
            Ok(made) => made,
            Err(errno) => return denied(Err(errno)),
        };
        let connected = attempt::connect_loopback(made, self.number(wire::PROBE_PORT) as u16);
        sys::close(made);
        match connected {
            // Somebody else's loopback has nobody at that port.
            Err(ECONNREFUSED) => CheckOutcome::Denied(ECONNREFUSED),
            other => denied(other),
        }
    }

    /// Whether an exec of this program succeeds: the pipe closes without a word.
    fn start(&self, program: CStr<'_>) -> Result<()> {
        let [said, says] = sys::pipe()?;
        let pid = match sys::fork()? {
            0 => {
                let errno = sys::exec(program, self.run.argv, self.run.envp);
                let _ = sys::write(says, &errno.to_ne_bytes());
                sys::exit(0)
            }
            pid => pid,
        };
        sys::close(says);
        let mut errno = [0u8; 4];
        let read = sys::read(said, &mut errno);
        sys::close(said);
        wait_for(pid)?;
        match read? {
            0 => Ok(()),
            _ => Err(Errno::from_ne_bytes(errno)),
        }
    }

    /// What a program that is started sees: exactly the declared variables, byte for byte. The
    /// program is this one, from its own memory; it waits on descriptor 0 for a job.
    fn variables(&self) -> CheckOutcome {
        checked(self.environment_of_child().map(|same| !same))
    }

    fn environment_of_child(&self) -> Result<bool> {
        let own = CStr::new(b"/proc/self/exe\0").ok_or(sys::EINVAL)?;
        let [ours, theirs] = attempt::socket_pair(SOCK_STREAM)?;
        let [said, says] = sys::pipe()?;
        let pid = match sys::fork()? {
            0 => {
                sys::close(ours);
                let errno = match sys::dup_to(theirs, 0, false) {
                    Ok(()) => sys::exec(own, self.run.argv, self.run.envp),
                    Err(errno) => errno,
                };
                let _ = sys::write(says, &errno.to_ne_bytes());
                sys::exit(0)
            }
            pid => pid,
        };
        sys::close(says);
        sys::close(theirs);
        let mut errno = [0u8; 4];
        let read = sys::read(said, &mut errno);
        let same = match read {
            Ok(0) => has_begun(pid).and_then(|()| self.same_environment(pid)),
            Ok(_) => Err(Errno::from_ne_bytes(errno)),
            Err(errno) => Err(errno),
        };
        sys::close(said);
        // The end of its socket is the end of the child.
        sys::close(ours);
        wait_for(pid)?;
        same
    }

    fn same_environment(&self, pid: i32) -> Result<bool> {
        let file = ProcPath::of(pid).text(b"/environ").open(READ)?;
        let mut wanted = self.run.env;
        let mut chunk = [0u8; 4096];
        let same = loop {
            match sys::read(file, &mut chunk) {
                Ok(0) => break Ok(wanted.is_empty()),
                Ok(bytes) => match wanted.strip_prefix(&chunk[..bytes]) {
                    Some(rest) => wanted = rest,
                    None => break Ok(false),
                },
                Err(errno) => break Err(errno),
            }
        };
        sys::close(file);
        same
    }
}

/// As a program that was started would: nobody may look at what was forked from the supervisor,
/// and the connector has to.
fn connect_local(to: CStr<'_>) -> Result<()> {
    const PR_SET_DUMPABLE: usize = 4;
    const STREAM: i32 = SOCK_STREAM | sys::O_CLOEXEC;
    sys::prctl(PR_SET_DUMPABLE, 1, 0)?;
    let socket = notify::OwnedDescriptor(attempt::socket(AF_UNIX, STREAM, 0)?);
    let mut address = [0u8; 110];
    let mut text = notify::TextBuffer::new(&mut address[2..]);
    text.push(to.bytes());
    let bytes = 2 + text.as_bytes().len();
    address[..2].copy_from_slice(&(AF_UNIX as u16).to_ne_bytes());
    let connected = notify::connect(socket.0, &address[..bytes]);
    drop(socket);
    sys::prctl(PR_SET_DUMPABLE, 0, 0)?;
    connected
}

/// A grandchild in a session of its own that nobody waits for. It holds the broker's pipe, after
/// a byte that says it was there: that the pipe closes is what the broker looks for.
fn survive() -> Result<()> {
    let [said, says] = sys::pipe()?;
    let pid = match sys::fork()? {
        0 => {
            let done = sys::setsid().and_then(|()| sys::fork());
            if done != Ok(0) {
                sys::exit(0);
            }
            let _ = sys::write(STDOUT, b"x");
            let _ = sys::write(says, b"x");
            let _ = sys::dup_to(STDOUT, 0, false);
            let _ = listing::close_from(1);
            let until = sys::monotonic_ms() + SURVIVE_MS;
            while sys::monotonic_ms() < until {
                let _ = sys::poll(&mut [], Some(SURVIVE_MS));
            }
            sys::exit(0)
        }
        pid => pid,
    };
    sys::close(says);
    let mut byte = [0u8; 1];
    let read = sys::read(said, &mut byte);
    sys::close(said);
    wait_for(pid)?;
    match read? {
        0 => Err(sys::ECHILD),
        _ => Ok(()),
    }
}

/// Runs it in a child, whose exit code is the errno.
fn in_child(work: fn() -> Result<()>) -> Result<()> {
    let pid = match sys::fork()? {
        0 => sys::exit(work().err().unwrap_or(0)),
        pid => pid,
    };
    match wait_for(pid)? {
        0 => Ok(()),
        status => Err(status >> 8 & 0xff),
    }
}

fn wait_for(pid: i32) -> Result<i32> {
    loop {
        match sys::wait_any(true) {
            Ok(Some((found, status))) if found == pid => return Ok(status),
            Ok(_) | Err(sys::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Waits until exec has given the process its arguments and its environment. Descriptors are
/// closed before that: for a moment a new program has neither, and its files in /proc are empty
/// (create_elf_tables in fs/binfmt_elf.c, get_mm_cmdline in fs/proc/base.c). An environment may be
/// empty for good, and a list of arguments is not.
fn has_begun(pid: i32) -> Result<()> {
    let until = sys::monotonic_ms() + BEGIN_MS;
    loop {
        let file = ProcPath::of(pid).text(b"/cmdline").open(READ)?;
        let read = sys::read(file, &mut [0u8; 1]);
        sys::close(file);
        if read? > 0 {
            return Ok(());
        }
        if sys::monotonic_ms() > until {
            return Err(sys::ETIMEDOUT);
        }
        let _ = sys::poll(&mut [], Some(1));
    }
}

fn open(path: CStr<'_>, flags: i32) -> Result<()> {
    sys::open(path, flags, 0o600).map(sys::close)
}

/// Opens a file for writing, or a file without a name in a directory: nothing changes.
fn write_into(place: CStr<'_>) -> Result<()> {
    match open(place, WRITE | sys::O_TMPFILE) {
        Err(sys::ENOTDIR) => open(place, WRITE),
        other => other,
    }
}

fn make_and_remove(name: CStr<'_>) -> Result<()> {
    open(name, MAKE)?;
    sys::unlink(name)
}

fn sysrq() -> CheckOutcome {
    let trigger = ProcPath::new().text(b"/sysrq-trigger");
    path(trigger.open(WRITE).map(sys::close))
}

fn unix_pair() -> CheckOutcome {
    let pair = attempt::socket_pair(SOCK_DGRAM);
    denied(pair.map(|ends| ends.into_iter().for_each(sys::close)))
}

fn kernel_programs() -> CheckOutcome {
    let mut last = CheckOutcome::Denied(sys::EPERM);
    for result in attempt::kernel_programs() {
        last = kernel(result);
        if matches!(last, CheckOutcome::Succeeded) {
            break;
        }
    }
    last
}

fn has_ambient_capability() -> bool {
    (0..64).any(|capability| sys::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, capability) == Ok(1))
}

fn socket(domain: i32, kind: i32, protocol: i32) -> CheckOutcome {
    denied(attempt::socket(domain, kind | sys::O_CLOEXEC, protocol).map(sys::close))
}

/// Something that must not be seen.
fn seen(seen: bool) -> CheckOutcome {
    match seen {
        true => CheckOutcome::Succeeded,
        false => CheckOutcome::Denied(0),
    }
}

/// Something that must not be seen, if that can be known.
fn checked(result: Result<bool>) -> CheckOutcome {
    result.map_or_else(CheckOutcome::Inconclusive, seen)
}

/// Files: refused, or not there to be seen.
fn path(result: Result<()>) -> CheckOutcome {
    /// A mount point that would be moved.
    const EBUSY: Errno = 16;
    const EROFS: Errno = 30;
    const ELOOP: Errno = 40;
    match result {
        Ok(()) => CheckOutcome::Succeeded,
        Err(
            errno @ (sys::EACCES
            | sys::EPERM
            | sys::ENOENT
            | EROFS
            | sys::ENOTDIR
            | sys::EXDEV
            | ELOOP
            | EBUSY),
        ) => CheckOutcome::Denied(errno),
        Err(errno) => CheckOutcome::Inconclusive(errno),
    }
}

/// Calls that make something if they may: whatever keeps them from it.
fn denied(result: Result<()>) -> CheckOutcome {
    const EMFILE: Errno = 24;
    const ENFILE: Errno = 23;
    const EAGAIN: Errno = 11;
    const ENOMEM: Errno = 12;
    match result {
        Ok(()) => CheckOutcome::Succeeded,
        Err(errno @ (EMFILE | ENFILE | EAGAIN | ENOMEM)) => CheckOutcome::Inconclusive(errno),
        Err(errno) => CheckOutcome::Denied(errno),
    }
}

/// Calls with arguments that make nothing: an answer about the arguments means that the call
/// itself was let through.
fn kernel(result: Result<()>) -> CheckOutcome {
    const ENOSYS: Errno = 38;
    match result {
        Err(errno @ (sys::EPERM | sys::EACCES | ENOSYS)) => CheckOutcome::Denied(errno),
        Ok(()) | Err(_) => CheckOutcome::Succeeded,
    }
}

/// Another process: refused, or out of sight.
fn process(result: Result<()>) -> CheckOutcome {
    const ESRCH: Errno = 3;
    match result {
        Err(ESRCH) => CheckOutcome::Denied(ESRCH),
        other => kernel(other),
    }
}
