//! The calls that a confined command cannot make, with the reasons. One table, read from top to
//! bottom. Other calls pass, because Landlock, namespaces and dropped capabilities decide about
//! files and processes. The filter closes the interfaces that those do not see.

use super::numbers::{self, Arch};
use super::observed::{CallKind, ObservedCalls};
use super::table::{
    Action, Clause, EACCES, EAFNOSUPPORT, ENETUNREACH, ENOPROTOOPT, ENOSYS, ENOTTY, EOPNOTSUPP,
    EPERM, EPROTONOSUPPORT, Rule, Table, Test,
};

/// The properties that a filter depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterSpec {
    /// The machine.
    pub arch: Arch,
    /// The rule for internet sockets.
    pub internet: InternetSocketRule,
    /// The rule for local sockets.
    pub unix: UnixSocketRule,
    /// `true` if owners and extended attributes, which Landlock does not control, are frozen: the
    /// caller is uid 0, and its files are not out of reach behind a mount layer.
    pub freeze_metadata: bool,
    /// `true` without namespaces: System V and POSIX message queues, semaphores and shared memory
    /// are those of the whole host, and so are the limits of every process of the same user.
    pub shared_host: bool,
    /// `true` if the command starts in its caller's process group, without a Landlock
    /// scope that confines signals: `kill(0)` then reaches members outside its namespaces.
    pub shared_group: bool,
    /// `true` if debuggers may trace processes of the command's own tree. The filter cannot tell
    /// the owner of a process: only a Landlock domain of the command's own makes the kernel refuse
    /// all others.
    pub tracing: bool,
    /// `true` if the filter notifies the supervisor or the connector of every change of a mode, and
    /// of an owner if these are frozen.
    pub ask_modes: bool,
    /// The rule for watches of files and directories.
    pub watches: WatchRule,
    /// `true` if process 1, as the command numbers processes, is its supervisor.
    pub supervisor_is_first: bool,
    /// The calls that the filter reports. Each goes on, or returns the error that it has without the
    /// report.
    pub observed: ObservedCalls,
}

impl FilterSpec {
    /// Returns the action for a socket that is refused with an error, which a report returns too.
    fn refused_socket(self, errno: u16) -> Action {
        match self.observed.includes(CallKind::Socket) {
            true => Action::UserNotify,
            false => Action::Errno(errno),
        }
    }
}

/// The rule for inotify_add_watch(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchRule {
    /// The command can watch every file that its user may read.
    Allow,
    /// The command can watch the files that the supervisor or the connector finds in its mounts.
    Notify,
    /// The command can watch nothing: each file is refused as one outside is.
    Deny,
}

/// The rule for internet sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternetSocketRule {
    /// The command cannot make any.
    Deny,
    /// The command can make TCP sockets, which only another process connects.
    Notify,
    /// The command can make all kinds: the network is unrestricted, or the command's own.
    Allow,
}

/// The rule for local sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnixSocketRule {
    /// The command cannot make any.
    Deny,
    /// The command can make streams, and another process decides about every `connect`.
    Notify,
    /// The command can make all kinds.
    Allow,
}

/// The set-user-id and set-group-id bits of a mode.
const SET_ID: u32 = 0o6000;
/// `O_CREAT`, and the bit that makes `O_TMPFILE` more than `O_DIRECTORY`. Only with one of them
/// does an open have a mode at all.
const CREATES: u32 = 0o100 | 0o20_000_000;
/// `O_ACCMODE`, `O_CREAT` and `O_TRUNC`: without any of them an open changes nothing.
const CHANGES: u32 = 0o3 | 0o100 | 0o1000;
/// `O_PATH`: the file is not opened for anything.
const PATH_ONLY: u32 = 0o10_000_000;
/// `CLONE_NEW*` as `clone` takes them; the time namespace shares its bit with the exit signal.
const NAMESPACES: u32 = 0x7e02_0000;
const NEW_TIME: u32 = 0x80;
pub(super) const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
const TIOCSETD: u32 = 0x5423;
/// The part of an ioctl's number that identifies its subsystem.
const IOCTL_TYPE: u32 = 0xff00;
const PRIO_PROCESS: u32 = 0;
const IOPRIO_WHO_PROCESS: u32 = 1;

/// Calls that set limits or the schedule of the process that their first argument names.
const OTHERS_LIMITS: &str =
    "prlimit64 sched_setscheduler sched_setparam sched_setattr sched_setaffinity";

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_SEQPACKET: u32 = 5;
/// A socket type without `SOCK_NONBLOCK` and `SOCK_CLOEXEC`.
const SOCK_MASK: u32 = 0xf;

/// Returns the whole table.
#[must_use]
pub fn table(wanted: FilterSpec) -> Table {
    let mut rules = RuleBuilder {
        arch: wanted.arch,
        out: Vec::new(),
    };

    // io_uring is a queue of calls that a filter does not see. ENOSYS, so that libuv and tokio fall
    // back.
    rules.always(ENOSYS, "io_uring_setup io_uring_enter io_uring_register");
    // Flags behind a pointer, which BPF cannot follow. glibc and all others fall back to clone and
    // openat, whose flags the filter can test.
    rules.always(ENOSYS, "clone3 openat2");

    // Other processes' memory, descriptors and secrets.
    if wanted.tracing {
        rules.rule("ptrace", tracing());
    } else {
        rules.always(EPERM, "ptrace process_vm_readv process_vm_writev");
    }
    rules.always(
        EPERM,
        "pidfd_getfd kcmp process_madvise process_mrelease migrate_pages \
         move_pages add_key request_key keyctl syslog",
    );
    // Code in the kernel, or a long record of holes.
    rules.always(
        EPERM,
        "bpf perf_event_open userfaultfd init_module finit_module delete_module \
         kexec_load kexec_file_load iopl ioperm modify_ldt lsm_set_self_attr",
    );
    // Mounts and namespaces: a new user namespace gives capabilities back.
    rules.always(
        EPERM,
        "mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick \
         move_mount open_tree open_tree_attr mount_setattr setns \
         open_by_handle_at fanotify_init fanotify_mark statmount listmount",
    );
    rules.when("unshare", 0, NAMESPACES | NEW_TIME, EPERM);
    rules.when("clone", 0, NAMESPACES, EPERM);
    // Settings of the whole machine.
    rules.always(
        EPERM,
        "reboot swapon swapoff acct quotactl quotactl_fd settimeofday \
         clock_settime clock_adjtime adjtimex sethostname setdomainname vhangup",
    );
    // Only the personalities of a debugger (no randomised addresses) and of uname's.
    rules.only("personality", 0, [0, 0x0004_0000, 0x0008, 0xffff_ffff]);
    rules.rule("ioctl", ioctls(wanted));

    // A set-id file in a writable mount outlives the sandbox and works outside.
    let reported = |kind: CallKind| match wanted.observed.includes(kind) {
        true => Action::UserNotify,
        false => Action::Allow,
    };
    let creates = reported(CallKind::Create);
    rules.unless("creat mkdir mknod", 1, SET_ID, creates);
    rules.unless("mkdirat mknodat", 2, SET_ID, creates);
    for (name, mode, by_path) in [
        ("chmod", 1, true),
        ("fchmod", 1, false),
        ("fchmodat", 2, true),
        ("fchmodat2", 2, true),
    ] {
        let else_modes = match wanted.ask_modes {
            true => Action::UserNotify,
            false if by_path => reported(CallKind::Mode),
            false => Action::Allow,
        };
        rules.unless(name, mode, SET_ID, else_modes);
    }
    match wanted.watches {
        WatchRule::Allow => {}
        WatchRule::Notify => rules.rule("inotify_add_watch", Rule::always(Action::UserNotify)),
        WatchRule::Deny => rules.always(EACCES, "inotify_add_watch"),
    }
    let reading = match wanted.observed.reads {
        true => Action::UserNotify,
        false => Action::Allow,
    };
    rules.opening("open", 1, 2, [reported(CallKind::Open), reading]);
    rules.opening("openat", 2, 3, [reported(CallKind::Open), reading]);
    for (number, row) in wanted.observed.rows(wanted.arch) {
        if rules.out.iter().all(|(known, _)| *known != number) && row.kind != CallKind::Socket {
            rules.out.push((number, Rule::always(Action::UserNotify)));
        }
    }

    if wanted.freeze_metadata {
        let owners = match wanted.ask_modes {
            true => Action::UserNotify,
            false => Action::Errno(EPERM),
        };
        rules.rule("chown fchown lchown fchownat", Rule::always(owners));
        rules.always(EPERM, "file_setattr");
        // cp -a and git accept "not supported" as an answer.
        rules.always(
            EOPNOTSUPP,
            "setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr \
         fremovexattr removexattrat",
        );
    }

    if wanted.shared_host {
        rules.always(
            ENOSYS,
            "shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv \
         msgctl mq_open mq_unlink",
        );
        // A limit of zero seconds is a kill. Landlock's scope does not cover scheduling either, and
        // a process that only runs when all others are idle is as good as stopped.
        rules.when(OTHERS_LIMITS, 0, u32::MAX, EPERM);
    }
    if wanted.supervisor_is_first && !wanted.shared_host {
        // A supervisor without descriptors or time could not end the command.
        rules.each(OTHERS_LIMITS, 0, 1);
        if !wanted.shared_group {
            rules.first("setpriority", PRIO_PROCESS);
            rules.first("ioprio_set", IOPRIO_WHO_PROCESS);
        }
    }
    if wanted.shared_host || wanted.shared_group {
        // Process groups extend beyond namespaces. Without namespaces, users and other processes
        // are outside targets too.
        rules.itself("setpriority", PRIO_PROCESS);
        rules.itself("ioprio_set", IOPRIO_WHO_PROCESS);
    }
    if wanted.shared_group {
        rules.each("kill", 0, 0);
    }

    rules.rule("socket", sockets(wanted));
    rules.rule("socketpair", pairs(wanted));
    // Sockets of all families: a socket's number alone does not identify its family.
    if wanted.unix == UnixSocketRule::Notify || wanted.internet == InternetSocketRule::Notify {
        rules.rule("connect", Rule::always(Action::UserNotify));
    }
    if wanted.internet == InternetSocketRule::Notify {
        connected_elsewhere(&mut rules);
    }
    Table::new(wanted.arch, rules.out)
}

/// Refuses each other way to connect a TCP socket, and the options that lead a connection to an
/// address away from it. The filter sees the number of a socket and not its family, so it refuses
/// these for sockets of every family.
///
/// - `MSG_FASTOPEN` connects to the address of a message (tcp(7)). The kernel checks it with neither
///   the rules for `connect` nor Landlock's. The address is behind a pointer, the flag is not. Without
///   the flag, TCP ignores the address of a message. Other kinds of sockets ignore the flag, and the
///   filter refuses those that take an address by their kind.
/// - `TCP_FASTOPEN_CONNECT` makes the connection at the first write.
/// - `listen` binds a socket that is not bound, which Landlock does not check: other hosts could then
///   connect to the command.
/// - Of the options of IP only those stay that change no route. A source route (`IP_OPTIONS`, ip(7))
///   sends the packets to another host first, although the connector names the proxy's address. Of
///   the options of sockets, two bind a socket to a device.
///
/// io_uring, which has calls of its own for all of this, is closed under every policy.
fn connected_elsewhere(rules: &mut RuleBuilder) {
    const MSG_FASTOPEN: u32 = 0x2000_0000;
    for (name, flags) in [("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)] {
        rules.when(name, flags, MSG_FASTOPEN, EOPNOTSUPP);
    }
    rules.always(EACCES, "listen");
    let option = |level: u32, name: u32, action: Action| {
        Clause::new([Test::is(1, level), Test::is(2, name)], action)
    };
    let refused = Action::Errno(ENOPROTOOPT);
    let mut clauses = Vec::new();
    for (level, names) in [(SOL_IP, &IP_OPTIONS[..]), (SOL_IPV6, &IPV6_OPTIONS)] {
        clauses.extend(names.iter().map(|name| option(level, *name, Action::Allow)));
        clauses.push(Clause::new([Test::is(1, level)], refused));
    }
    clauses.extend(CONNECTING_OPTIONS.map(|(level, name)| option(level, name, refused)));
    rules.rule("setsockopt", Rule::new(clauses, Action::Allow));
}

const SOL_IP: u32 = 0;
const SOL_SOCKET: u32 = 1;
const SOL_TCP: u32 = 6;
const SOL_IPV6: u32 = 41;
/// `IP_TOS`, `IP_TTL`, `IP_MTU_DISCOVER`, `IP_RECVERR`, `IP_BIND_ADDRESS_NO_PORT` (linux/in.h).
const IP_OPTIONS: [u32; 5] = [1, 2, 10, 11, 24];
/// `IPV6_UNICAST_HOPS`, `IPV6_MTU_DISCOVER`, `IPV6_RECVERR`, `IPV6_V6ONLY`, `IPV6_TCLASS`
/// (linux/in6.h).
const IPV6_OPTIONS: [u32; 5] = [16, 23, 25, 26, 67];
/// `SO_BINDTODEVICE`, `SO_BINDTOIFINDEX`, `TCP_FASTOPEN_CONNECT`.
const CONNECTING_OPTIONS: [(u32, u32); 3] = [(SOL_SOCKET, 25), (SOL_SOCKET, 62), (SOL_TCP, 30)];

/// Refuses `PTRACE_O_SUSPEND_SECCOMP`, which turns off the filter of the traced process. Why: the
/// kernel requires `CAP_SYS_ADMIN`, but Linux before 5.17.2 did not check it for `PTRACE_SEIZE`
/// (CVE-2022-30594). Since Linux 4.8 the filter runs after every other change by a tracer.
fn tracing() -> Rule {
    const SUSPEND_SECCOMP: u32 = 1 << 21;
    // PTRACE_SETOPTIONS, its old number, and PTRACE_SEIZE.
    let clauses = [0x4200, 21, 0x4206].map(|request| {
        let suspends = Test::any(3, SUSPEND_SECCOMP);
        Clause::new([Test::is(0, request), suspends], Action::Errno(EPERM))
    });
    Rule::new(clauses, Action::Allow)
}

/// Refuses keystrokes into the terminal of the person (CVE-2017-5226), line disciplines, which are
/// kernel code loaded on demand, and requests that write through a descriptor that was opened for
/// reading only.
fn ioctls(wanted: FilterSpec) -> Rule {
    let clause = |number: u32, action: Action| Clause::new([Test::is(1, number)], action);
    let mut clauses: Vec<Clause> = [TIOCSTI, TIOCLINUX, TIOCSETD]
        .map(|value| clause(value, Action::Errno(EPERM)))
        .into();
    if wanted.shared_host {
        // Landlock controls the ioctls of devices only. btrfs makes and deletes subvolumes below a
        // readable directory; flags and verity change a readable file.
        clauses.extend(READING_IOCTLS.map(|value| clause(value, Action::Allow)));
        clauses.extend(FILE_SYSTEM_IOCTLS.map(|kind| {
            let is_of_kind = Test::masked(1, IOCTL_TYPE, kind << 8);
            Clause::new([is_of_kind], Action::Errno(ENOTTY))
        }));
    }
    Rule::new(clauses, Action::Allow)
}

/// btrfs and clones, ext4 and generic flags, XFS and extended flags, bcachefs, f2fs.
const FILE_SYSTEM_IOCTLS: [u32; 5] = [0x94, b'f' as u32, b'X' as u32, 0xbc, 0xf5];
/// FICLONE, FICLONERANGE and FIDEDUPERANGE require a writable descriptor; FS_IOC_GETFLAGS and
/// FS_IOC_FSGETXATTR, FS_IOC_FIEMAP only read.
const READING_IOCTLS: [u32; 6] = [
    0x4004_9409,
    0x4020_940d,
    0xc018_9436,
    0x8008_6601,
    0x801c_581f,
    0xc020_660b,
];

/// Returns the rule for socket pairs. Streams of a pair are connected for good. Datagram sockets
/// are not: `sendto` and `connect` take any of them to any path, past the filter on `socket`. For
/// local sockets "raw" is another word for datagrams.
fn pairs(wanted: FilterSpec) -> Rule {
    let clauses = match wanted.unix {
        UnixSocketRule::Allow => vec![local(Action::Allow)],
        UnixSocketRule::Deny | UnixSocketRule::Notify => streams(),
    };
    Rule::new(clauses, Action::Errno(EAFNOSUPPORT))
}

fn local(action: Action) -> Clause {
    Clause::new([family(AF_UNIX)], action)
}

/// Returns the clauses for local sockets that send only to their connected peer.
fn streams() -> Vec<Clause> {
    let kind = |value| Clause::new([family(AF_UNIX), kind(value)], Action::Allow);
    let refused = local(Action::Errno(EACCES));
    vec![kind(SOCK_STREAM), kind(SOCK_SEQPACKET), refused]
}

/// Returns the rule for families, an allow-list: VSOCK, packet, AF_ALG, TIPC and all future ones
/// stay closed.
fn sockets(wanted: FilterSpec) -> Rule {
    let refused = |errno: u16| wanted.refused_socket(errno);
    let mut clauses = match wanted.unix {
        UnixSocketRule::Deny => vec![local(refused(EACCES))],
        UnixSocketRule::Notify => streams(),
        UnixSocketRule::Allow => vec![local(Action::Allow)],
    };
    for internet in [AF_INET, AF_INET6] {
        // TCP, UDP and ping. MPTCP, SCTP and SMC bypass rules made for TCP; raw sockets need
        // capabilities anyway.
        let (tcp, udp_and_ping) = (
            (SOCK_STREAM, &[0, 6][..]),
            (SOCK_DGRAM, &[0, 17, 1, 58][..]),
        );
        let (kinds, others) = match wanted.internet {
            InternetSocketRule::Deny => (&[][..], refused(ENETUNREACH)),
            InternetSocketRule::Notify => (&[tcp][..], Action::Errno(ENETUNREACH)),
            InternetSocketRule::Allow => (&[tcp, udp_and_ping][..], Action::Errno(EPROTONOSUPPORT)),
        };
        for (sort, protocols) in kinds {
            clauses.extend(protocols.iter().map(|number| {
                let tests = [family(internet), kind(*sort), protocol(*number)];
                Clause::new(tests, Action::Allow)
            }));
        }
        clauses.push(Clause::new([family(internet)], others));
    }
    // Of netlink, only reading interfaces and routes (getifaddrs).
    let routes = [family(AF_NETLINK), protocol(0)];
    clauses.push(Clause::new(routes, Action::Allow));
    Rule::new(clauses, Action::Errno(EAFNOSUPPORT))
}

fn family(family: u32) -> Test {
    Test::is(0, family)
}

fn kind(kind: u32) -> Test {
    Test::masked(1, SOCK_MASK, kind)
}

fn protocol(protocol: u32) -> Test {
    Test::is(2, protocol)
}

struct RuleBuilder {
    arch: Arch,
    out: Vec<(u32, Rule)>,
}

/// Names of calls are divided by blanks.
impl RuleBuilder {
    fn rule(&mut self, names: &str, rule: Rule) {
        // A call that this machine does not have needs no rule.
        let numbers = names.split_whitespace().filter_map(|name| {
            debug_assert!(numbers::is_known(name), "no machine has the call `{name}`");
            self.arch.number(name)
        });
        self.out
            .extend(numbers.map(|number| (number, rule.clone())));
    }

    fn always(&mut self, errno: u16, names: &str) {
        self.rule(names, Rule::always(Action::Errno(errno)));
    }

    /// Refuses calls with any bit of `mask` in the argument.
    fn when(&mut self, names: &str, arg: u8, mask: u32, errno: u16) {
        let refused = Clause::new([Test::any(arg, mask)], Action::Errno(errno));
        self.rule(names, Rule::new([refused], Action::Allow));
    }

    /// Refuses calls with any bit of `mask` in the argument; `otherwise` is the action for all others.
    fn unless(&mut self, names: &str, arg: u8, mask: u32, otherwise: Action) {
        let refused = Clause::new([Test::any(arg, mask)], Action::Errno(EPERM));
        self.rule(names, Rule::new([refused], otherwise));
    }

    /// Refuses calls with this value.
    fn each(&mut self, names: &str, arg: u8, value: u32) {
        let refused = Clause::new([Test::is(arg, value)], Action::Errno(EPERM));
        self.rule(names, Rule::new([refused], Action::Allow));
    }

    /// Refuses a call unless its target is the calling process itself: `which` selects a process,
    /// and 0 names the caller.
    fn itself(&mut self, name: &str, which: u32) {
        let itself = Clause::new([Test::is(0, which), Test::is(1, 0)], Action::Allow);
        self.rule(name, Rule::new([itself], Action::Errno(EPERM)));
    }

    /// Refuses a call whose target is process 1.
    fn first(&mut self, name: &str, which: u32) {
        let refused = [Test::is(0, which), Test::is(1, 1)];
        let refused = Clause::new(refused, Action::Errno(EPERM));
        self.rule(name, Rule::new([refused], Action::Allow));
    }

    /// Refuses a call with any value but these.
    fn only<const N: usize>(&mut self, name: &str, arg: u8, values: [u32; N]) {
        let clauses = values.map(|value| Clause::new([Test::is(arg, value)], Action::Allow));
        self.rule(name, Rule::new(clauses, Action::Errno(EPERM)));
    }

    /// Refuses an open that creates a file with a set-id bit. The actions are those for every other
    /// open that can change something, and for one that reads.
    fn opening(&mut self, name: &str, flags: u8, mode: u8, [changing, reading]: [Action; 2]) {
        let changes = Clause::new([Test::any(flags, CHANGES)], changing);
        let refused = [Test::any(flags, CREATES), Test::any(mode, SET_ID)];
        let refused = Clause::new(refused, Action::Errno(EPERM));
        let path_only = Clause::new([Test::any(flags, PATH_ONLY)], Action::Allow);
        let clauses = match (changing, reading) {
            (Action::Allow, Action::Allow) => vec![refused],
            (_, Action::Allow) => vec![refused, changes],
            (..) => vec![refused, path_only, changes],
        };
        self.rule(name, Rule::new(clauses, reading));
    }
}
