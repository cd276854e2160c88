//! What broker and launcher say to each other, compiled into both. Native byte order: both ends
//! are one build for one machine.
//!
//! Broker → launcher, on the launcher's descriptor 0 (a stream socket): one message a stage,
//! `Header`, then `body_bytes` bytes; the descriptors travel with the header.
//! Launcher → broker, on the same socket: records of [`RECORD_BYTES`].
//!
//! A closed socket means: end everything.

/// First word of every message: a launcher of another build refuses to go on.
pub const MAGIC: u32 = 0x4f53_4c38;

/// Header: magic, kind, body bytes, descriptors.
pub const HEADER_BYTES: usize = 16;
/// Most descriptors that one message carries.
pub const MAX_FDS: usize = 16;
/// Most files that are opened for another program.
pub const MAX_FILES: usize = 64;
/// Largest body. The kernel's own bound for argv and environment together is 2 MiB by default.
pub const MAX_BODY_BYTES: usize = 16 << 20;

/// Become another program: counts of arguments, environment and files (u32 each), then path,
/// arguments, environment, files, each ended by NUL. Descriptors keep their numbers, from 3 on, and
/// are inherited; the files are opened for reading and take the numbers after them.
pub const KIND_EXEC: u32 = 1;
/// Supervise one target; the body is described at [`RUN_WORDS`].
pub const KIND_RUN: u32 = 2;
/// Say what the kernel has, and exit.
pub const KIND_REPORT: u32 = 3;
/// Split in two: one stays outside and connects for the target (`connect.rs`), the other takes the
/// next message. Flags, count of sockets and count of places (u32 each), then strings, each ended by
/// NUL: for every socket the name that the target uses and the path that it stands for, then the
/// places below which modes may be changed (`modes.rs`). One descriptor: the end of the
/// channel on which the target's listener arrives.
pub const KIND_CONNECT: u32 = 4;
/// Internet sockets may be connected too.
pub const CONNECT_INTERNET: u32 = 1;
/// Bound on the named sockets of one policy.
pub const MAX_SOCKETS: usize = 64;
/// Bound on the places below which modes may be changed.
pub const MAX_PLACES: usize = 64;

/// A run's body: these u64 words, then filter instructions (8 bytes each), limits (3 words each),
/// late rules (1 word each: the rights), pins (3 words each: what to do, then device and inode,
/// or zero for any), then strings, each ended by NUL: working directory, candidates for the program, arguments,
/// environment, paths of the late rules, of the probe, and of the pins.
///
/// The last descriptors ([`WORD_GROUPS`] says how many) are files of control groups, open for
/// writing: the target enters those groups before it does anything else.
pub const RUN_WORDS: usize = 15;
pub const WORD_FLAGS: usize = 0;
/// 0 is no limit.
pub const WORD_WALL_MS: usize = 1;
/// Target of the probe's signal; 0 is none.
pub const WORD_PROBE_PID: usize = 2;
pub const WORD_FILTER_LEN: usize = 3;
pub const WORD_LIMITS: usize = 4;
pub const WORD_RULES: usize = 5;
pub const WORD_CANDIDATES: usize = 6;
pub const WORD_ARGS: usize = 7;
pub const WORD_ENV: usize = 8;
pub const WORD_PROBES: usize = 9;
pub const WORD_PINS: usize = 10;
pub const WORD_GROUPS: usize = 11;
/// Memory of the whole tree that the supervisor watches over; 0 is none.
pub const WORD_WATCH_BYTES: usize = 12;
/// Threads of the whole tree that the supervisor watches over; 0 is none.
pub const WORD_WATCH_THREADS: usize = 13;
/// Places below which the supervisor changes modes for the target (`modes.rs`); 0 is none. Their
/// paths are the last strings. A connector does it in its place where there is one.
pub const WORD_PLACES: usize = 14;

/// The supervisor is pid 1 of a pid namespace: its end is the end of the tree.
pub const FLAG_PID1: u64 = 1;
/// Enter an outer Landlock domain with signal scope, and end the tree by `kill(-1)`.
pub const FLAG_SCOPE: u64 = 2;
/// The fourth descriptor is the target's Landlock ruleset. Descriptors after those that are named
/// here are kept open by the supervisor until nothing of the tree is left, and not looked at.
pub const FLAG_RULESET: u64 = 4;
/// The target gets a session of its own.
pub const FLAG_SETSID: u64 = 8;
/// Do not exec: try what must not work and report it.
pub const FLAG_PROBE: u64 = 16;
/// The target keeps the caller's capabilities and may gain privileges: no confinement at all.
pub const FLAG_UNCONFINED: u64 = 32;
/// Nobody supervises: the launcher confines itself and becomes the target. The socket closes with
/// the exec.
pub const FLAG_ALONE: u64 = 64;
/// The last descriptor is the channel to the connector.
pub const FLAG_CONNECT: u64 = 128;
/// Make `/dev/fd` and its like: nobody else has, in a /dev that is ours.
pub const FLAG_DEVICE_LINKS: u64 = 256;
/// Parts of mounts have an access of their own: when one of their mounts is lost, so is the tree.
pub const FLAG_PARTS: u64 = 512;
/// The target has a network namespace of its own, without a route out of it: attempts to reach other
/// hosts are counted.
pub const FLAG_COUNT_UNREACHABLE: u64 = 1024;

/// A pin that bubblewrap has made: look whether it is there.
pub const PIN_LOOK: u64 = 0;
/// The same, and make it read-only now that the writable parts in it are copied.
pub const PIN_SEAL: u64 = 1;
/// Mount it on itself, read-only.
pub const PIN_READ_ONLY: u64 = 2;
/// Mount it on itself as it is: it can be written, and not moved away.
pub const PIN_IN_PLACE: u64 = 3;
/// A directory that nobody can read or enter.
pub const PIN_CLOSED_DIRECTORY: u64 = 4;
/// A file that nobody can open.
pub const PIN_CLOSED_FILE: u64 = 5;
/// A mount that bubblewrap made aside, to be mounted at the place of the pin that follows.
pub const PIN_ASIDE: u64 = 6;
/// A directory or file that the mount of the pin before covers.
pub const PIN_COVERED: u64 = 7;
/// The directory of the mounts that bubblewrap made aside. Nobody can enter it afterwards.
pub const ASIDE: &[u8] = b"/home/.mounts\0";
/// Added to [`PIN_READ_ONLY`] and [`PIN_IN_PLACE`]: a mount of the policy, which has its own
/// access also where what lies around it is made read-only. Taken before any of that.
pub const PIN_MOUNT: u64 = 16;

/// A record: kind (u32), two i32, one u32.
pub const RECORD_BYTES: usize = 16;
/// The target was started.
pub const RECORD_STARTED: u32 = 1;
/// The target could not be started: stage, errno.
pub const RECORD_FAILED: u32 = 2;
/// The target exited: code. This and the next are the last word of a supervisor.
pub const RECORD_EXITED: u32 = 3;
/// The target was ended by a signal: number.
pub const RECORD_SIGNALLED: u32 = 4;
/// The wall limit passed; the tree is being ended.
pub const RECORD_TIMED_OUT: u32 = 5;
/// Processes could not be ended within the bound: how many rounds were tried.
pub const RECORD_LEFT: u32 = 6;
/// Landlock ABI, errata, 1 if filters work.
pub const RECORD_REPORT: u32 = 7;
/// One answer of a probe: which [`ProbeCheck`], outcome, errno.
pub const RECORD_PROBE: u32 = 8;

/// Everything was applied and the exec is next; only with [`FLAG_ALONE`].
pub const RECORD_CONFINED: u32 = 9;
/// The connector is gone, so the tree is being ended.
pub const RECORD_NO_CONNECTOR: u32 = 10;
/// A part of a mount was replaced from outside and has lost its own access; the tree is being ended.
pub const RECORD_PART_LOST: u32 = 12;
/// The supervisor saw the tree over a limit and is ending it: one of the next two.
pub const RECORD_OVER_LIMIT: u32 = 11;
pub const OVER_BYTES: i32 = 1;
pub const OVER_THREADS: i32 = 2;
/// The tree tried to reach other hosts: how many times, as the third number.
pub const RECORD_UNREACHABLE: u32 = 13;

/// Where starting failed.
pub const STAGE_PROTOCOL: i32 = 1;
pub const STAGE_OUTER: i32 = 2;
pub const STAGE_OUTER_CHECK: i32 = 3;
pub const STAGE_LATE_RULE: i32 = 4;
pub const STAGE_FORK: i32 = 5;
pub const STAGE_STDIO: i32 = 6;
pub const STAGE_PRIVILEGES: i32 = 7;
pub const STAGE_LANDLOCK: i32 = 8;
pub const STAGE_DESCRIPTORS: i32 = 9;
pub const STAGE_LIMITS: i32 = 10;
pub const STAGE_DIRECTORY: i32 = 11;
pub const STAGE_FILTER: i32 = 12;
pub const STAGE_EXEC: i32 = 13;
pub const STAGE_PARENT: i32 = 14;
pub const STAGE_PIN: i32 = 15;
pub const STAGE_MOUNTS: i32 = 16;
pub const STAGE_CONNECT: i32 = 17;
pub const STAGE_GROUP: i32 = 18;
/// A file of the system could not be opened for bubblewrap.
pub const STAGE_FILES: i32 = 19;

/// What a probe tries, one record each; what it means is `linux/checks.rs`. The answers travel
/// from the target to its supervisor in one message: stage -1, a zero, then [`ANSWER_BYTES`] each:
/// number, outcome, errno (u16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProbeCheck {
    Descriptors,
    ReadOutside,
    ListOutside,
    WriteOutside,
    CreateOutside,
    TruncateOutside,
    DeleteOutside,
    ExecuteOutside,
    WriteReadOnly,
    WriteNarrower,
    WriteMount,
    WriteTmp,
    StartProgram,
    KernelSetting,
    SysSetting,
    Sysrq,
    SetId,
    Inet,
    Inet6,
    Mptcp,
    Vsock,
    Netlink,
    Connect,
    Unix,
    UnixPair,
    Signal,
    Memory,
    Environ,
    Variables,
    TerminalInput,
    IoUring,
    UserNamespace,
    Mount,
    KernelPrograms,
    Capabilities,
    NewPrivileges,
    ProtectedName,
    MoveProtected,
    HiddenName,
    HiddenDirectory,
    Metadata,
    Process,
    Survivor,
    NamedSocket,
    OtherSocket,
}

impl ProbeCheck {
    /// In the order in which they are made: what opens nothing first, what breaks decoys last.
    pub const ALL: [ProbeCheck; 45] = [
        ProbeCheck::Descriptors,
        ProbeCheck::ReadOutside,
        ProbeCheck::ListOutside,
        ProbeCheck::WriteOutside,
        ProbeCheck::CreateOutside,
        ProbeCheck::ExecuteOutside,
        ProbeCheck::Metadata,
        ProbeCheck::TruncateOutside,
        ProbeCheck::DeleteOutside,
        ProbeCheck::WriteReadOnly,
        ProbeCheck::WriteNarrower,
        ProbeCheck::WriteMount,
        ProbeCheck::WriteTmp,
        ProbeCheck::StartProgram,
        ProbeCheck::ProtectedName,
        ProbeCheck::MoveProtected,
        ProbeCheck::HiddenName,
        ProbeCheck::HiddenDirectory,
        ProbeCheck::KernelSetting,
        ProbeCheck::SysSetting,
        ProbeCheck::Sysrq,
        ProbeCheck::SetId,
        ProbeCheck::Inet,
        ProbeCheck::Inet6,
        ProbeCheck::Mptcp,
        ProbeCheck::Vsock,
        ProbeCheck::Netlink,
        ProbeCheck::Connect,
        ProbeCheck::Unix,
        ProbeCheck::UnixPair,
        ProbeCheck::NamedSocket,
        ProbeCheck::OtherSocket,
        ProbeCheck::Variables,
        ProbeCheck::Signal,
        ProbeCheck::Memory,
        ProbeCheck::Environ,
        ProbeCheck::Process,
        ProbeCheck::TerminalInput,
        ProbeCheck::IoUring,
        ProbeCheck::UserNamespace,
        ProbeCheck::Mount,
        ProbeCheck::KernelPrograms,
        ProbeCheck::Capabilities,
        ProbeCheck::NewPrivileges,
        ProbeCheck::Survivor,
    ];
}

pub const ANSWER_BYTES: usize = 4;
/// It worked.
pub const OUTCOME_THROUGH: u8 = 1;
/// It was refused.
pub const OUTCOME_REFUSED: u8 = 2;
/// It failed for a reason that says nothing.
pub const OUTCOME_UNCLEAR: u8 = 3;

/// The probe's strings: which tries are asked for (a bit each, decimal), then what they need, by
/// number below; a string that is not needed is empty.
pub const PROBE_ASKED: usize = 0;
/// A file outside, to read, write, truncate and change.
pub const PROBE_SECRET: usize = 1;
/// A directory outside, to list.
pub const PROBE_DIRECTORY: usize = 2;
/// A name outside that does not exist.
pub const PROBE_NEW: usize = 3;
/// A file outside, to delete.
pub const PROBE_DOOMED: usize = 4;
/// A program outside.
pub const PROBE_PROGRAM: usize = 5;
/// A file or directory in a mount that cannot be written.
pub const PROBE_READ_ONLY: usize = 6;
/// The same in a part of a larger mount that can be.
pub const PROBE_NARROWER: usize = 7;
/// A name in a writable mount that does not exist.
pub const PROBE_MADE: usize = 8;
/// The same in TMPDIR.
pub const PROBE_TMP: usize = 9;
/// A program of the system.
pub const PROBE_START: usize = 10;
/// A setting below `/proc/sys`, and one below `/sys`.
pub const PROBE_SETTING: usize = 11;
pub const PROBE_SYS: usize = 12;
/// A port on which the broker listens, decimal.
pub const PROBE_PORT: usize = 13;
/// The broker's `/proc/PID/environ` and `/proc/PID/status`.
pub const PROBE_ENVIRON: usize = 14;
pub const PROBE_STATUS: usize = 15;
/// A protected name, one to move it to, a hidden file and a hidden directory.
pub const PROBE_PROTECTED: usize = 16;
pub const PROBE_ELSEWHERE: usize = 17;
pub const PROBE_HIDDEN: usize = 18;
pub const PROBE_HIDDEN_DIRECTORY: usize = 19;
/// A socket that is named, and one that is not.
pub const PROBE_NAMED_SOCKET: usize = 20;
pub const PROBE_OTHER_SOCKET: usize = 21;
pub const PROBE_STRINGS: usize = 22;
