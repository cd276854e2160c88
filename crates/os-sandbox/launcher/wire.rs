//! Messages between broker and launcher, compiled into both. Numbers are in native byte order,
//! because both ends are one build for one machine.
//!
//! Broker → launcher, on the launcher's descriptor 0 (a stream socket): one message a stage,
//! `Header`, then `body_bytes` bytes; the descriptors travel with the header.
//! Launcher → broker, on that socket too: records of [`RECORD_BYTES`].
//!
//! After the last message, each byte orders the supervisor to send the target that signal. A closed
//! socket orders the launcher to end everything.

/// First word of every message. A launcher of another build refuses a message that starts with
/// another word.
pub const MAGIC: u32 = 0x4f53_4c3a;

/// Header: magic, kind, body bytes, descriptors.
pub const HEADER_BYTES: usize = 16;
/// Maximum number of descriptors that one message carries.
pub const MAX_FDS: usize = 16;
/// Maximum number of files that the launcher opens for another program.
pub const MAX_FILES: usize = 64;
/// Maximum size of a body. The kernel's own bound for argv and environment together is 2 MiB by
/// default.
pub const MAX_BODY_BYTES: usize = 16 << 20;

/// Message that makes the launcher exec another program: counts of arguments, environment and files
/// (u32 each), then path, arguments, environment, files, each ended by NUL. The program inherits
/// the descriptors, which have the numbers from 3 on. The launcher opens the files for reading, and
/// they get the numbers after the descriptors.
pub const KIND_EXEC: u32 = 1;
/// Message that makes the launcher supervise one target. [`RUN_WORDS`] describes the body.
pub const KIND_RUN: u32 = 2;
/// Message that makes the launcher report the features of the kernel and exit.
pub const KIND_REPORT: u32 = 3;
/// Message that makes the launcher split in two: one process stays outside and connects for the
/// target (`connector/`), the other takes the next message. Body: flags, count of sockets, of places
/// and of addresses (u32 each), then the addresses ([`ADDRESS_BYTES`] each; the connector connects
/// TCP sockets to exactly these), then strings, each ended by NUL: for every socket the name that the
/// target uses and the path of the real socket, then the places below which calls are made for the target
/// (`connector/places.rs`; [`PLACE`]), then, with [`CONNECT_OBSERVE`], the observed calls. Descriptors: the end of the
/// channel on which the target's listener arrives, then with [`CONNECT_OBSERVE`] the file of reports.
pub const KIND_CONNECT: u32 = 4;
/// The connector may connect internet sockets too.
pub const CONNECT_INTERNET: u32 = 1;
/// The connector reports calls (`connector/observe.rs`).
pub const CONNECT_OBSERVE: u32 = 2;
/// The connector decides about connects. Without it they are only reported.
pub const CONNECT_DECIDE: u32 = 4;
/// The connector makes the calls of the target below the places.
pub const CONNECT_PLACES: u32 = 8;
/// On the channel, [`KIND_CONFIGS`] comes before the listener.
pub const CONNECT_CONFIGS: u32 = 16;
/// Bound on the named sockets of one policy.
pub const MAX_SOCKETS: usize = 64;
/// Bound on the addresses of one policy: the proxy's, and those of the host's loopback.
pub const MAX_CONNECTED_ADDRESSES: usize = 32;
/// Bound on the places below which calls are made for the target.
pub const MAX_PLACES: usize = 64;

/// Message that makes the launcher enter the network namespace that it receives on the channel, its
/// one descriptor, and make sockets there for the broker (`namespaces/sockets.rs`). Body: steps of
/// [`NETWORK_STEP_BYTES`] each, in their order: one of `NETWORK_…` (u8), the length of the prefix
/// (u8), the port (u16), the address (16 bytes, of which IPv4 uses the first four). Each socket
/// goes to the broker with the index of its step, one byte; a failure is a record.
pub const KIND_SOCKETS: u32 = 5;
/// As [`KIND_SOCKETS`], in the launcher's own network namespace and without a channel. The launcher
/// ends its side of the control socket after the last socket, and then waits for the end of the other
/// side: the namespace lasts as long as the launcher, or another process in it. With a step
/// [`NETWORK_ON_REQUEST`] it serves requests until then.
pub const KIND_OWN_SOCKETS: u32 = 6;
pub const NETWORK_STEP_BYTES: usize = 20;
/// Bound on the steps. The sockets wait in the control socket until the broker takes them, and its
/// buffer has room for more than this number.
pub const MAX_NETWORK_STEPS: usize = 120;
/// Give the loopback device an address; for IPv4, with all addresses of the prefix.
pub const NETWORK_ADDRESS: u8 = 1;
/// Make all addresses of the prefix local.
pub const NETWORK_ROUTE: u8 = 2;
/// Make a UDP socket.
pub const NETWORK_DATAGRAM: u8 = 3;
/// Make a TCP listener.
pub const NETWORK_STREAM: u8 = 4;
/// After all steps, and a record [`RECORD_SOCKETS`]: make a TCP socket for each request, which is one
/// byte, one of `SOCKET_…`. The socket comes with that byte; a failure is a record. The launcher
/// stays in the namespace until the broker closes the control socket.
pub const NETWORK_ON_REQUEST: u8 = 5;
pub const SOCKET_V4: u8 = 4;
pub const SOCKET_V6: u8 = 6;
/// Flag of a step: the address is IPv6. Without IPv6 in the kernel, the step does nothing.
pub const NETWORK_V6: u8 = 16;

/// Message that makes the launcher give a terminal, its one descriptor, the modes that it has now, if
/// it is raw when the broker closes the control socket or ends. After a look at the modes it sends
/// [`RECORD_STARTED`].
pub const KIND_TERMINAL: u32 = 8;

/// Message that makes the launcher a supervisor in namespaces of its own, with a root directory that
/// it builds (`namespaces/root.rs`): a child in the namespaces takes the next messages, of which the first
/// [`ROOT_MESSAGES`] are [`KIND_ROOT`], and the launcher waits for its end. Body: the flags (u32), and
/// the host name, ended by NUL.
pub const KIND_NAMESPACES: u32 = 7;
/// Message with steps of the root directory, one after the other: one of `ROOT_…` (u8),
/// `ROOT_FLAG_…` (u8), mode (u16), length of the content (u32), the path inside and the one outside,
/// each ended by NUL, and the content.
pub const KIND_ROOT: u32 = 9;
/// Steps that do not depend on the command's mounts, and the others.
pub const ROOT_MESSAGES: usize = 2;
/// The network is a new one, of which only the loopback device is up.
pub const NAMESPACES_NETWORK: u32 = 1;
pub const ROOT_STEP_BYTES: usize = 8;
/// Mount a file or directory, and what is mounted in it.
pub const ROOT_BIND: u8 = 1;
/// Make a read-only file with the content of one outside.
pub const ROOT_COPY: u8 = 2;
/// Make a read-only file with the content.
pub const ROOT_WRITE: u8 = 3;
/// Mount a file with the content over one that is there.
pub const ROOT_COVER: u8 = 4;
/// Mount a new procfs.
pub const ROOT_PROCESSES: u8 = 5;
/// Make the devices and links of `/dev`.
pub const ROOT_DEVICES: u8 = 6;
/// Mount an empty directory.
pub const ROOT_EMPTY: u8 = 7;
/// Make a directory.
pub const ROOT_DIRECTORY: u8 = 8;
/// Make a symbolic link to the path outside.
pub const ROOT_LINK: u8 = 9;
/// Make the mount read-only, without those in it.
pub const ROOT_SEAL: u8 = 10;
/// Mount an overlay whose lower directory is the path outside. Content: device and inode of the
/// lower, the upper and the work directory (six u64), then the paths of the last two, each ended by
/// NUL.
pub const ROOT_OVERLAY: u8 = 11;
/// The identities in front of the paths.
pub const OVERLAY_IDENTITY_BYTES: usize = 48;
/// The target may write in the mount.
pub const ROOT_FLAG_WRITABLE: u8 = 1;
/// The step does nothing if the file does not exist outside.
pub const ROOT_FLAG_OPTIONAL: u8 = 2;

/// A run's body: these u64 words, then filter instructions (8 bytes each), limits (3 words each),
/// late rules (1 word each: the rights), pins (3 words each: the operation, then device and inode,
/// or zero for any), then strings, each ended by NUL: working directory, candidates for the
/// program, arguments, environment, paths of the late rules, of the probe, and of the pins.
///
/// The last descriptors ([`WORD_GROUPS`] gives their number) are files of control groups, open for
/// writing: the target enters those groups before it does anything else.
pub const RUN_WORDS: usize = 17;
pub const WORD_FLAGS: usize = 0;
/// Wall limit in milliseconds; 0 for no limit.
pub const WORD_WALL_MS: usize = 1;
/// Process that the probe signals; 0 for none.
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
/// Memory limit of the whole tree that the supervisor watches; 0 for none.
pub const WORD_WATCH_BYTES: usize = 12;
/// Thread limit of the whole tree that the supervisor watches; 0 for none.
pub const WORD_WATCH_THREADS: usize = 13;
/// Number of places below which the supervisor makes calls for the target (`connector/places.rs`); 0 for
/// none. They are the last strings ([`PLACE`]). A connector, if the run has one, makes the calls
/// instead of the supervisor.
pub const WORD_PLACES: usize = 14;
/// Landlock rights for the terminal of [`FLAG_TERMINAL`]; 0 if a rule for a directory covers it.
pub const WORD_TERMINAL: usize = 15;
/// Milliseconds between SIGTERM and the end of the tree at the wall limit; 0 for the end at once.
pub const WORD_GRACE_MS: usize = 16;

/// The supervisor is pid 1 of a pid namespace. The kernel ends the tree when the supervisor ends.
pub const FLAG_PID1: u64 = 1;
/// Enter an outer Landlock domain with signal scope, and end the tree by `kill(-1)`.
pub const FLAG_SCOPE: u64 = 2;
/// The fourth descriptor is the target's Landlock ruleset. The supervisor does not use descriptors
/// after the ones named here, and closes them only when the whole tree has ended.
pub const FLAG_RULESET: u64 = 4;
/// The target gets a session of its own.
pub const FLAG_SETSID: u64 = 8;
/// Do not exec: try forbidden operations and report their outcomes.
pub const FLAG_PROBE: u64 = 16;
/// The target gets the caller's capabilities and may gain privileges. It runs without any
/// confinement.
pub const FLAG_UNCONFINED: u64 = 32;
/// The run has no supervisor: the launcher confines itself and becomes the target. The socket
/// closes with the exec.
pub const FLAG_ALONE: u64 = 64;
/// The last descriptor is the channel to the connector.
pub const FLAG_CONNECT: u64 = 128;
/// Create `/dev/fd` and its like. In a `/dev` that the sandbox made, no other program has created
/// them.
pub const FLAG_DEVICE_LINKS: u64 = 256;
/// Parts of mounts have an access of their own. The supervisor ends the tree when one of their
/// mounts is lost.
pub const FLAG_PARTS: u64 = 512;
/// The target has a network namespace of its own, without a route out of it. The supervisor counts
/// attempts to reach other hosts.
pub const FLAG_COUNT_UNREACHABLE: u64 = 1024;
/// The descriptor after the channel to the connector is the one to the maker of sockets
/// ([`KIND_SOCKETS`]): the supervisor sends it the network namespace, and starts the target after
/// its answer.
pub const FLAG_SOCKETS: u64 = 2048;
/// The launcher made the mounts of this mount namespace ([`KIND_NAMESPACES`]), so it makes the pins
/// in it too.
pub const FLAG_OWN_MOUNTS: u64 = 4096;
/// The target gets a new pseudo-terminal as its controlling terminal, in the place of each stream
/// that is a terminal (`supervisor/terminal.rs`), and a process group of its own in a session that the supervisor
/// leads. The group has the foreground if standard input and output are terminals. The broker gets the
/// other side with [`RECORD_TERMINAL`].
pub const FLAG_TERMINAL: u64 = 8192;
/// The kernel ends the tree before other processes if memory runs out: those of the broker, which may
/// be larger.
pub const FLAG_VICTIM: u64 = 16384;

/// Observed calls: these u32 words (count of calls, of addresses, of writable paths, of closed
/// directories, flags, count of places), the calls, the addresses, the paths below which the target
/// may write, the directories that were made in them for mounts alone, and the places, each ended by
/// NUL. A place is a byte of `PLACE_…` and a path.
pub const OBSERVED_WORDS: usize = 6;
/// Message to the connector on its channel: the paths of mounts that the broker changes for the
/// target, each ended by NUL. Descriptor: the channel to the broker ([`REPLACE_BYTES`]), if there are
/// any. The broker knows them later than the rest, when it has looked through the mounts.
pub const KIND_CONFIGS: u32 = 10;
/// Bound on the configurations.
pub const MAX_CONFIGS: usize = 256;
/// Connector → broker, one message on a channel of packets: the target wants to replace a configuration
/// by its lock file. The number of the call, the index of the configuration, and the time of the
/// monotonic clock in milliseconds (u64 each). The broker does nothing about an old call, whose thread
/// may have given up.
pub const REPLACE_BYTES: usize = 24;
/// The answer: the number of the call and an errno, 0 if the broker has done it, or
/// [`REPLACED_BY_KERNEL`] (u64 each).
pub const REPLACED_BYTES: usize = 16;
/// The kernel goes on with the call. An errno is smaller.
pub const REPLACED_BY_KERNEL: i32 = 4096;
/// Base of the byte before a place, never NUL.
pub const PLACE: u8 = b'0';
/// Files below the place can be read.
pub const PLACE_READ: u8 = 1;
/// Programs below the place can be executed.
pub const PLACE_EXECUTE: u8 = 2;
/// The target sees everything below the place, so that a missing path is missing for everyone.
pub const PLACE_WHOLE: u8 = 4;
/// The place is the target's own, and the host can have others below it.
pub const PLACE_OWN: u8 = 8;
/// Modes of files below the place can be changed.
pub const PLACE_WRITE: u8 = 16;
/// The target has a root directory of its own, which the observer reaches by `/proc/PID/root`.
pub const OBSERVED_FOREIGN: u32 = 1;
/// Nothing in `/proc` may be written.
pub const OBSERVED_PROC_CLOSED: u32 = 2;
/// Reads and executions are reported too, and the objects that the target opened.
pub const OBSERVED_FULL: u32 = 4;
/// A call: its number (u32), one of `CALL_…`, two paths and the index of the flags (u8 each). A path
/// is the index of the argument with the directory's descriptor, times 16, and the index of the
/// path; 15 for none.
pub const OBSERVED_CALL_BYTES: usize = 8;
/// An address that the target may connect: 1 for IPv6 (u8), length of the prefix (u8), port (u16; 0
/// for all), address (16 bytes, of which IPv4 uses the first four).
pub const ADDRESS_BYTES: usize = 20;
/// Opens a file, and perhaps makes it.
pub const CALL_OPEN: u32 = 1;
/// Makes a file, or empties it.
pub const CALL_CREAT: u32 = 2;
/// Changes the content of a file.
pub const CALL_WRITE: u32 = 3;
/// Makes a name.
pub const CALL_CREATE: u32 = 4;
/// Removes a name.
pub const CALL_REMOVE: u32 = 5;
/// Moves the first path to the second.
pub const CALL_MOVE: u32 = 6;
/// Changes a mode.
pub const CALL_MODE: u32 = 7;
/// Binds a local socket to a path.
pub const CALL_BIND: u32 = 8;
/// Connects an internet socket.
pub const CALL_CONNECT: u32 = 9;
/// Makes a socket of a family that the filter refuses.
pub const CALL_SOCKET: u32 = 10;
/// Connects a local socket, which the connector refused.
pub const CALL_CONNECT_LOCAL: u32 = 12;
/// In a report: the bound was reached, and no further call is reported.
pub const CALLS_OMITTED: u32 = 11;
/// Opens a file for reading, or lists a directory.
pub const CALL_READ: u32 = 13;
/// Executes a program.
pub const CALL_EXECUTE: u32 = 14;
/// In a report: the thread of a failed lookup found that last name in another directory, so
/// the lookup was a part of a search. The state has the slot of the lookup.
pub const CALL_FOUND: u32 = 15;
/// In a report: the bound on failed lookups was reached.
pub const LOOKUPS_OMITTED: u32 = 16;
/// In a report: an object that the target opened to read it.
pub const TOUCHED_READ: u32 = 20;
/// In a report: an object that the target made, changed or removed.
pub const TOUCHED_WRITE: u32 = 21;
/// In a report: a program that the target executed.
pub const TOUCHED_EXECUTE: u32 = 22;
/// In a report: an address or a local socket that the target connected to.
pub const TOUCHED_CONNECT: u32 = 23;
/// In a report: the bound on touched objects was reached.
pub const TOUCHED_OMITTED: u32 = 24;

/// Returns `true` for a call that changes a name, and not a file: it needs the directory.
pub const fn changes_name(operation: u32) -> bool {
    !matches!(operation, CALL_OPEN | CALL_WRITE | CALL_MODE) && !finds_object(operation)
}

/// Returns `true` for a call that neither makes nor changes its object.
pub const fn finds_object(operation: u32) -> bool {
    matches!(operation, CALL_READ | CALL_EXECUTE)
}

/// A report: one of `CALL_…`, `STATE_…` and the length of the object (u32 each), the name of the
/// program (16 bytes, padded with NUL), then the object: a path, an address of [`ADDRESS_BYTES`], or the
/// number of a family (u32).
pub const REPORT_HEAD_BYTES: usize = 28;
/// Bound on the reports of one run; each object is reported once.
pub const MAX_REPORTS: usize = 256;
/// Bound on the failed lookups of one run; each object has one slot.
pub const MAX_LOOKUPS: usize = 256;
/// Bound on the reports about failed lookups: an object can fail, be found and fail again.
pub const MAX_LOOKUP_REPORTS: usize = 1024;
/// Bound on the touched objects of one run; each is reported once for each operation.
pub const MAX_TOUCHED: usize = 4096;
/// In the state of a failed lookup: the slot begins at this bit.
pub const STATE_SLOT_SHIFT: u32 = 8;
/// The path exists. Without it, its directory does.
pub const STATE_EXISTS: u32 = 1;
/// The path is in a mount that cannot be written.
pub const STATE_READ_ONLY: u32 = 2;
/// A mount begins at the path.
pub const STATE_MOUNT: u32 = 4;
/// Neither the path nor its directory exists inside.
pub const STATE_ABSENT: u32 = 8;

/// A pin that bubblewrap has made: verify that the mount exists.
pub const PIN_LOOK: u64 = 0;
/// A pin that bubblewrap has made: verify that the mount exists, and make it read-only now that the
/// writable parts in it are copied.
pub const PIN_SEAL: u64 = 1;
/// Mount the place on itself, read-only.
pub const PIN_READ_ONLY: u64 = 2;
/// Mount the place on itself with unchanged access: the target can write it, and cannot move it
/// away.
pub const PIN_IN_PLACE: u64 = 3;
/// Mount a directory over it that no process can read or enter.
pub const PIN_CLOSED_DIRECTORY: u64 = 4;
/// Mount a file over it that no process can open.
pub const PIN_CLOSED_FILE: u64 = 5;
/// Mount a link over it that leads to [`HIDDEN_LINK_TARGET`].
pub const PIN_DANGLING_LINK: u64 = 6;
/// The target of that link. No process can create it, and a listing tells why the file is hidden.
pub const HIDDEN_LINK_TARGET: &[u8] = b"/proc/hidden-by-the-sandbox\0";
/// Mount an empty directory over it that can be listed.
pub const PIN_EMPTY_DIRECTORY: u64 = 7;
/// A mount that bubblewrap made aside, to be mounted at the place of the next pin.
pub const PIN_ASIDE: u64 = 8;
/// A directory or file that the mount of the previous pin covers.
pub const PIN_COVERED: u64 = 9;
/// Directory of the mounts that bubblewrap made aside. No process can enter it afterwards.
pub const ASIDE: &[u8] = b"/home/.mounts\0";
/// Flag of [`PIN_READ_ONLY`] and [`PIN_IN_PLACE`]: a mount of the policy, which has its own access
/// even if the launcher makes the surrounding mount read-only. The launcher copies it before it
/// makes any of them read-only.
pub const PIN_MOUNT: u64 = 16;

/// In place of the device of a pin: the place is in an overlay, which has a device of its own and
/// the inodes of its directories. The launcher compares the inode alone.
pub const DEVICE_OF_OVERLAY: u64 = u64::MAX;

/// A record: kind (u32), two i32, one u32.
pub const RECORD_BYTES: usize = 16;
/// The target has started.
pub const RECORD_STARTED: u32 = 1;
/// The target could not be started: stage, errno.
pub const RECORD_FAILED: u32 = 2;
/// The target exited: code. This record or [`RECORD_SIGNALLED`] is the last one of a supervisor.
pub const RECORD_EXITED: u32 = 3;
/// A signal ended the target: number.
pub const RECORD_SIGNALLED: u32 = 4;
/// The wall limit passed. The supervisor is ending the tree.
pub const RECORD_TIMED_OUT: u32 = 5;
/// The supervisor could not end all processes within the bound: number of rounds.
pub const RECORD_LEFT: u32 = 6;
/// Landlock ABI, errata, 1 if filters work.
pub const RECORD_REPORT: u32 = 7;
/// One answer of a probe: number of the [`ProbeCheck`], outcome, errno.
pub const RECORD_PROBE: u32 = 8;

/// The launcher has applied everything and execs next; only with [`FLAG_ALONE`].
pub const RECORD_CONFINED: u32 = 9;
/// The connector has ended, so the supervisor is ending the tree.
pub const RECORD_NO_CONNECTOR: u32 = 10;
/// Another process replaced a part of a mount from outside, and the part has lost its own access.
/// The supervisor is ending the tree.
pub const RECORD_PART_LOST: u32 = 12;
/// The supervisor saw the tree over a limit and is ending it: one of the next two.
pub const RECORD_OVER_LIMIT: u32 = 11;
pub const OVER_BYTES: i32 = 1;
pub const OVER_THREADS: i32 = 2;
/// The tree tried to reach other hosts: number of attempts, as the third number.
pub const RECORD_UNREACHABLE: u32 = 13;
/// The target's terminal is made. Two descriptors come with the record: the broker's side of the
/// terminal, and a socket. On it the supervisor sends a byte each time the target has stopped, the
/// number of the signal. Each byte that it receives is a signal for the target's process group, or
/// [`TAKE_FOREGROUND`], which it sends back once it is done.
pub const RECORD_TERMINAL: u32 = 14;
/// Gives the target's process group the foreground of its terminal, and lets it go on.
pub const TAKE_FOREGROUND: u8 = 0;
/// All sockets of the steps are sent ([`NETWORK_ON_REQUEST`]).
pub const RECORD_SOCKETS: u32 = 15;
/// Processes that still ran when the target had ended: their number (c), and 1 (a) if they have more
/// different names than follow.
pub const RECORD_STILL_RAN: u32 = 16;
/// A part of the name of one of them: [`NAME_PART_BYTES`] bytes in the place of a, b and c. Two parts,
/// filled up with NUL, are a name.
pub const RECORD_NAME_PART: u32 = 17;
pub const NAME_PART_BYTES: usize = 12;
/// Bound on the names.
pub const MAX_NAMES: usize = 3;

/// Stages at which a start can fail.
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
/// The launcher could not open a file of the system for bubblewrap.
pub const STAGE_FILES: i32 = 19;
/// The sockets for named hosts could not be made in the command's network namespace.
pub const STAGE_NETWORK: i32 = 20;
/// The namespaces could not be made.
pub const STAGE_NAMESPACES: i32 = 21;
/// A step of the root directory failed; the third number is its index.
pub const STAGE_ROOT: i32 = 22;
/// The target's terminal could not be made.
pub const STAGE_TERMINAL: i32 = 23;

macro_rules! probe_checks {
    ($($name:ident,)+) => {
        /// Checks of a probe, one record each; `linux/prove/checks.rs` interprets the outcomes. The
        /// answers travel from the target to its supervisor in one message: stage -1, a zero, then
        /// [`ANSWER_BYTES`] each: number, outcome, errno (u16).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum ProbeCheck {
            $($name,)+
        }

        impl ProbeCheck {
            pub const ALL: [ProbeCheck; 45] = [$(ProbeCheck::$name),+];
        }
    };
}

// In the order in which the probe runs them: first those that open nothing, last those that break
// decoys.
probe_checks! {
    Descriptors, ReadOutside, ListOutside, WriteOutside, CreateOutside, ExecuteOutside, Metadata,
    TruncateOutside, DeleteOutside, WriteReadOnly, WriteNarrower, WriteMount, WriteTmp,
    StartProgram, ProtectedName, MoveProtected, HiddenName, HiddenDirectory, KernelSetting,
    SysSetting, Sysrq, SetId, Inet, Inet6, Mptcp, Vsock, Netlink, Connect, Unix, UnixPair,
    NamedSocket, OtherSocket, Variables, Signal, Memory, Environ, Process, TerminalInput, IoUring,
    UserNamespace, Mount, KernelPrograms, Capabilities, NewPrivileges, Survivor,
}

pub const ANSWER_BYTES: usize = 4;
/// The operation succeeded.
pub const OUTCOME_THROUGH: u8 = 1;
/// The operation was denied.
pub const OUTCOME_REFUSED: u8 = 2;
/// The operation failed for a reason that proves neither success nor denial.
pub const OUTCOME_UNCLEAR: u8 = 3;

/// Index of the probe's first string: the checks that the broker asks for (a bit each, decimal).
/// The constants below are the indices of the other strings; an unneeded string is empty.
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
/// A file or directory in a read-only part of a larger, writable mount.
pub const PROBE_NARROWER: usize = 7;
/// A name in a writable mount that does not exist.
pub const PROBE_MADE: usize = 8;
/// A name in TMPDIR that does not exist.
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
/// A protected name, a name to move it to, a hidden file and a hidden directory.
pub const PROBE_PROTECTED: usize = 16;
pub const PROBE_ELSEWHERE: usize = 17;
pub const PROBE_HIDDEN: usize = 18;
pub const PROBE_HIDDEN_DIRECTORY: usize = 19;
/// A socket that the policy names, and one that it does not name.
pub const PROBE_NAMED_SOCKET: usize = 20;
pub const PROBE_OTHER_SOCKET: usize = 21;
pub const PROBE_STRINGS: usize = 22;
