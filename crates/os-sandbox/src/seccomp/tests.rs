//! Tests the contents of the table, and that the compiled program means the table.

mod interpret;

use super::compile::compile;
use super::numbers::{Arch, NUMBERS};
use super::observed::{OBSERVED, ObservedCalls};
use super::rules::{FilterSpec, InternetSocketRule, TIOCSTI, UnixSocketRule, WatchRule, table};
use super::table::{
    Action, Clause, EACCES, EAFNOSUPPORT, ENETUNREACH, ENOPROTOOPT, ENOSYS, ENOTTY, EOPNOTSUPP,
    EPERM, EPROTONOSUPPORT, Rule, Table, Test,
};
use proptest::prelude::*;

fn all_wanted() -> Vec<FilterSpec> {
    let mut all = Vec::new();
    for arch in [Arch::X86_64, Arch::Aarch64] {
        // Of the four values of two bits, the rule for internet sockets has three.
        for bits in (0..4096).filter(|bits| bits & 2049 != 2049) {
            all.push(FilterSpec {
                arch,
                internet: match (bits & 1, bits & 2048) {
                    (0, 0) => InternetSocketRule::Deny,
                    (0, _) => InternetSocketRule::Notify,
                    _ => InternetSocketRule::Allow,
                },
                unix: match (bits & 2, bits & 32) {
                    (0, 0) => UnixSocketRule::Deny,
                    (0, _) => UnixSocketRule::Notify,
                    _ => UnixSocketRule::Allow,
                },
                freeze_metadata: bits & 4 != 0,
                shared_host: bits & 8 != 0,
                shared_group: bits & 16 != 0,
                tracing: bits & 64 != 0,
                ask_modes: bits & 128 != 0,
                watches: match (bits & 8, bits & 128, bits & 4) {
                    (0, _, _) | (_, 0, 0) => WatchRule::Allow,
                    (_, 0, _) => WatchRule::Deny,
                    _ => WatchRule::Notify,
                },
                supervisor_is_first: bits & 16 == 0,
                observed: ObservedCalls {
                    changes: bits & 256 != 0,
                    modes: bits & 512 != 0,
                    connects: bits & 1024 != 0,
                    reads: bits & 257 == 257,
                },
            });
        }
    }
    all
}

fn decide(wanted: FilterSpec, name: &str, args: [u64; 6]) -> Action {
    let number = wanted.arch.number(name).expect("a call of this machine");
    table(wanted).decide(wanted.arch.audit(), number, &args)
}

const NOTHING: ObservedCalls = ObservedCalls {
    changes: false,
    modes: false,
    connects: false,
    reads: false,
};
const CLOSED: FilterSpec = FilterSpec {
    arch: Arch::X86_64,
    internet: InternetSocketRule::Deny,
    unix: UnixSocketRule::Deny,
    freeze_metadata: true,
    shared_host: true,
    shared_group: true,
    tracing: false,
    ask_modes: false,
    watches: WatchRule::Allow,
    supervisor_is_first: false,
    observed: NOTHING,
};
const OPEN: FilterSpec = FilterSpec {
    arch: Arch::X86_64,
    internet: InternetSocketRule::Allow,
    unix: UnixSocketRule::Allow,
    freeze_metadata: false,
    shared_host: false,
    shared_group: false,
    tracing: true,
    ask_modes: false,
    watches: WatchRule::Allow,
    supervisor_is_first: false,
    observed: NOTHING,
};
const FIRST: FilterSpec = FilterSpec {
    supervisor_is_first: true,
    ..OPEN
};
/// Named hosts without a network namespace.
const PROXIED: FilterSpec = FilterSpec {
    internet: InternetSocketRule::Notify,
    ..CLOSED
};
const NAMED: FilterSpec = FilterSpec {
    unix: UnixSocketRule::Notify,
    ask_modes: true,
    watches: WatchRule::Notify,
    ..CLOSED
};

#[test]
fn every_row_is_a_name_once() {
    for (index, row) in NUMBERS.iter().enumerate() {
        for other in &NUMBERS[index + 1..] {
            assert_ne!(row.0, other.0);
            assert!(row.1.is_none() || row.1 != other.1, "{row:?} {other:?}");
            assert!(row.2.is_none() || row.2 != other.2, "{row:?} {other:?}");
        }
    }
}

#[test]
fn what_is_refused_and_what_is_not() {
    use Action::{Allow, Errno, UserNotify};
    let high = 0xdead_beef_0000_0000u64;
    for (wanted, name, args, want) in [
        (CLOSED, "socket", [2, 1, 0, 0, 0, 0], Errno(ENETUNREACH)),
        (
            CLOSED,
            "socket",
            [high | 2, 1, 0, 0, 0, 0],
            Errno(ENETUNREACH),
        ),
        (CLOSED, "socket", [10, 2, 17, 0, 0, 0], Errno(ENETUNREACH)),
        (CLOSED, "socket", [2, 1, 262, 0, 0, 0], Errno(ENETUNREACH)),
        (CLOSED, "socket", [1, 1, 0, 0, 0, 0], Errno(EACCES)),
        (CLOSED, "socket", [40, 1, 0, 0, 0, 0], Errno(EAFNOSUPPORT)),
        (CLOSED, "socket", [16, 3, 0, 0, 0, 0], Allow),
        (CLOSED, "socket", [16, 3, 9, 0, 0, 0], Errno(EAFNOSUPPORT)),
        (CLOSED, "socketpair", [1, 1, 0, 0, 0, 0], Allow),
        (OPEN, "socket", [1, 1, 0, 0, 0, 0], Allow),
        (OPEN, "socket", [2, 0o2_000_001, 6, 0, 0, 0], Allow),
        (OPEN, "socket", [10, 2, 0, 0, 0, 0], Allow),
        (OPEN, "socket", [2, 1, 262, 0, 0, 0], Errno(EPROTONOSUPPORT)),
        (OPEN, "socket", [2, 3, 1, 0, 0, 0], Errno(EPROTONOSUPPORT)),
        (OPEN, "socket", [40, 1, 0, 0, 0, 0], Errno(EAFNOSUPPORT)),
        (OPEN, "ioctl", [0, TIOCSTI.into(), 0, 0, 0, 0], Errno(EPERM)),
        (
            OPEN,
            "ioctl",
            [0, high | u64::from(TIOCSTI), 0, 0, 0, 0],
            Errno(EPERM),
        ),
        (OPEN, "ioctl", [0, 0x5413, 0, 0, 0, 0], Allow),
        (OPEN, "clone", [0x1000_0011, 0, 0, 0, 0, 0], Errno(EPERM)),
        (OPEN, "clone", [0x0001_0f00, 0, 0, 0, 0, 0], Allow),
        (OPEN, "clone3", [0; 6], Errno(ENOSYS)),
        (OPEN, "unshare", [0x0200, 0, 0, 0, 0, 0], Allow),
        (OPEN, "unshare", [0x80, 0, 0, 0, 0, 0], Errno(EPERM)),
        (OPEN, "chmod", [0, 0o4755, 0, 0, 0, 0], Errno(EPERM)),
        (OPEN, "chmod", [0, 0o1777, 0, 0, 0, 0], Allow),
        (OPEN, "fchmodat2", [0, 0, 0o2755, 0, 0, 0], Errno(EPERM)),
        (OPEN, "openat", [0, 0, 0o101, 0o4755, 0, 0], Errno(EPERM)),
        (OPEN, "openat", [0, 0, 0, 0o4755, 0, 0], Allow),
        (
            OPEN,
            "openat",
            [0, 0, 0o20_200_001, 0o6755, 0, 0],
            Errno(EPERM),
        ),
        (OPEN, "openat", [0, 0, 0o200_000, 0o6755, 0, 0], Allow),
        (NAMED, "chmod", [0, 0o755, 0, 0, 0, 0], UserNotify),
        (NAMED, "chmod", [0, 0o4755, 0, 0, 0, 0], Errno(EPERM)),
        (NAMED, "fchmod", [3, 0o755, 0, 0, 0, 0], UserNotify),
        (NAMED, "fchmodat", [3, 0, 0o755, 0, 0, 0], UserNotify),
        (
            NAMED,
            "fchmodat2",
            [3, 0, high | 0o755, 0, 0, 0],
            UserNotify,
        ),
        (NAMED, "fchmodat2", [3, 0, 0o2755, 0, 0, 0], Errno(EPERM)),
        (OPEN, "chown", [0; 6], Allow),
        (CLOSED, "chown", [0; 6], Errno(EPERM)),
        (NAMED, "chown", [0; 6], UserNotify),
        (NAMED, "fchownat", [0; 6], UserNotify),
        (CLOSED, "setxattr", [0; 6], Errno(EOPNOTSUPP)),
        (OPEN, "personality", [0xffff_ffff, 0, 0, 0, 0, 0], Allow),
        (
            OPEN,
            "personality",
            [0x0020_0000, 0, 0, 0, 0, 0],
            Errno(EPERM),
        ),
        (OPEN, "io_uring_setup", [0; 6], Errno(ENOSYS)),
        (OPEN, "shmget", [1, 0, 0, 0, 0, 0], Allow),
        (CLOSED, "shmget", [1, 0, 0, 0, 0, 0], Errno(ENOSYS)),
        (CLOSED, "prlimit64", [0, 7, 0, 0, 0, 0], Allow),
        (CLOSED, "prlimit64", [1, 7, 0, 0, 0, 0], Errno(EPERM)),
        (CLOSED, "ptrace", [0; 6], Errno(EPERM)),
        (CLOSED, "process_vm_readv", [0; 6], Errno(EPERM)),
        (OPEN, "process_vm_writev", [0; 6], Allow),
        (OPEN, "pidfd_getfd", [0; 6], Errno(EPERM)),
        // PTRACE_ATTACH, PTRACE_SEIZE, PTRACE_POKEDATA with the bit in its data; then
        // PTRACE_O_SUSPEND_SECCOMP by each request that sets options.
        (OPEN, "ptrace", [16, 7, 0, 0, 0, 0], Allow),
        (OPEN, "ptrace", [0x4206, 7, 0, 0x80, 0, 0], Allow),
        (OPEN, "ptrace", [5, 7, 0, 0x20_0000, 0, 0], Allow),
        (
            OPEN,
            "ptrace",
            [0x4206, 7, 0, 0x20_0080, 0, 0],
            Errno(EPERM),
        ),
        (
            OPEN,
            "ptrace",
            [0x4200, 7, 0, 0x20_0000, 0, 0],
            Errno(EPERM),
        ),
        (
            OPEN,
            "ptrace",
            [21, 7, 0, high | 0x20_0000, 0, 0],
            Errno(EPERM),
        ),
        (CLOSED, "socketpair", [1, 0o2_000_005, 0, 0, 0, 0], Allow),
        (CLOSED, "socketpair", [1, 2, 0, 0, 0, 0], Errno(EACCES)),
        (
            CLOSED,
            "socketpair",
            [1, 0o2_000_002, 0, 0, 0, 0],
            Errno(EACCES),
        ),
        (
            CLOSED,
            "socketpair",
            [1, high | 3, 0, 0, 0, 0],
            Errno(EACCES),
        ),
        (
            CLOSED,
            "socketpair",
            [2, 1, 0, 0, 0, 0],
            Errno(EAFNOSUPPORT),
        ),
        (OPEN, "socketpair", [1, 2, 0, 0, 0, 0], Allow),
        (NAMED, "connect", [3, 0, 110, 0, 0, 0], UserNotify),
        (CLOSED, "connect", [3, 0, 110, 0, 0, 0], Allow),
        (OPEN, "connect", [3, 0, 110, 0, 0, 0], Allow),
        (PROXIED, "connect", [3, 0, 16, 0, 0, 0], UserNotify),
        (PROXIED, "socket", [2, 0o2_000_001, 6, 0, 0, 0], Allow),
        (PROXIED, "socket", [10, 1, 0, 0, 0, 0], Allow),
        (PROXIED, "socket", [2, 2, 17, 0, 0, 0], Errno(ENETUNREACH)),
        (PROXIED, "socket", [10, 3, 58, 0, 0, 0], Errno(ENETUNREACH)),
        (PROXIED, "socket", [2, 1, 262, 0, 0, 0], Errno(ENETUNREACH)),
        (PROXIED, "socket", [1, 1, 0, 0, 0, 0], Errno(EACCES)),
        (PROXIED, "listen", [3, 1, 0, 0, 0, 0], Errno(EACCES)),
        (NAMED, "listen", [3, 1, 0, 0, 0, 0], Allow),
        // MSG_FASTOPEN, alone and beside MSG_NOSIGNAL.
        (
            PROXIED,
            "sendto",
            [3, 0, 1, 0x2000_0000, 0, 16],
            Errno(EOPNOTSUPP),
        ),
        (
            PROXIED,
            "sendmsg",
            [3, 0, high | 0x2000_4000, 0, 0, 0],
            Errno(EOPNOTSUPP),
        ),
        (
            PROXIED,
            "sendmmsg",
            [3, 0, 1, 0x2000_0000, 0, 0],
            Errno(EOPNOTSUPP),
        ),
        (PROXIED, "sendto", [3, 0, 1, 0x4000, 0, 0], Allow),
        (OPEN, "sendto", [3, 0, 1, 0x2000_0000, 0, 16], Allow),
        // IP_OPTIONS, IPV6_ADDRFORM, IPV6_RTHDR, SO_BINDTODEVICE, TCP_FASTOPEN_CONNECT.
        (
            PROXIED,
            "setsockopt",
            [3, 0, 4, 0, 8, 0],
            Errno(ENOPROTOOPT),
        ),
        (
            PROXIED,
            "setsockopt",
            [3, high, high | 4, 0, 8, 0],
            Errno(ENOPROTOOPT),
        ),
        (
            PROXIED,
            "setsockopt",
            [3, 41, 1, 0, 4, 0],
            Errno(ENOPROTOOPT),
        ),
        (
            PROXIED,
            "setsockopt",
            [3, 41, 57, 0, 24, 0],
            Errno(ENOPROTOOPT),
        ),
        (
            PROXIED,
            "setsockopt",
            [3, 1, 25, 0, 4, 0],
            Errno(ENOPROTOOPT),
        ),
        (
            PROXIED,
            "setsockopt",
            [3, 6, 30, 0, 4, 0],
            Errno(ENOPROTOOPT),
        ),
        // IP_TOS, IPV6_V6ONLY, SO_KEEPALIVE, TCP_NODELAY.
        (PROXIED, "setsockopt", [3, 0, 1, 0, 4, 0], Allow),
        (PROXIED, "setsockopt", [3, 41, 26, 0, 4, 0], Allow),
        (PROXIED, "setsockopt", [3, 1, 9, 0, 4, 0], Allow),
        (PROXIED, "setsockopt", [3, 6, 1, 0, 4, 0], Allow),
        (OPEN, "setsockopt", [3, 0, 4, 0, 8, 0], Allow),
        (NAMED, "socket", [1, 0o2_000_001, 0, 0, 0, 0], Allow),
        (NAMED, "socket", [1, 5, 0, 0, 0, 0], Allow),
        (NAMED, "socket", [1, 2, 0, 0, 0, 0], Errno(EACCES)),
        (NAMED, "socket", [1, 3, 0, 0, 0, 0], Errno(EACCES)),
        (NAMED, "socket", [1, high | 2, 0, 0, 0, 0], Errno(EACCES)),
        (NAMED, "socketpair", [1, 1, 0, 0, 0, 0], Allow),
        (NAMED, "socketpair", [1, 2, 0, 0, 0, 0], Errno(EACCES)),
        (CLOSED, "kill", [0, 9, 0, 0, 0, 0], Errno(EPERM)),
        (CLOSED, "kill", [high, 9, 0, 0, 0, 0], Errno(EPERM)),
        (CLOSED, "kill", [1, 9, 0, 0, 0, 0], Allow),
        (OPEN, "kill", [0, 9, 0, 0, 0, 0], Allow),
        (CLOSED, "setpriority", [0, 0, 5, 0, 0, 0], Allow),
        (CLOSED, "setpriority", [0, 7, 5, 0, 0, 0], Errno(EPERM)),
        (CLOSED, "setpriority", [2, 0, 5, 0, 0, 0], Errno(EPERM)),
        (CLOSED, "ioprio_set", [1, 0, 5, 0, 0, 0], Allow),
        (CLOSED, "ioprio_set", [3, 0, 5, 0, 0, 0], Errno(EPERM)),
        (CLOSED, "sched_setattr", [7, 0, 0, 0, 0, 0], Errno(EPERM)),
        (CLOSED, "sched_setaffinity", [0, 8, 0, 0, 0, 0], Allow),
        (OPEN, "sched_setaffinity", [7, 8, 0, 0, 0, 0], Allow),
        (OPEN, "ioctl", [0, 0x5423, 0, 0, 0, 0], Errno(EPERM)),
        // BTRFS_IOC_SUBVOL_CREATE, FS_IOC_ENABLE_VERITY, FS_IOC_SETFLAGS; then FICLONE.
        (CLOSED, "ioctl", [0, 0x5000_940e, 0, 0, 0, 0], Errno(ENOTTY)),
        (CLOSED, "ioctl", [0, 0x4080_6685, 0, 0, 0, 0], Errno(ENOTTY)),
        (CLOSED, "ioctl", [0, 0x4008_6602, 0, 0, 0, 0], Errno(ENOTTY)),
        (CLOSED, "ioctl", [0, 0x4004_9409, 0, 0, 0, 0], Allow),
        (CLOSED, "ioctl", [0, 0x5413, 0, 0, 0, 0], Allow),
        (OPEN, "ioctl", [0, 0x5000_940e, 0, 0, 0, 0], Allow),
        (FIRST, "prlimit64", [1, 7, 0, 0, 0, 0], Errno(EPERM)),
        (FIRST, "prlimit64", [high | 1, 7, 0, 0, 0, 0], Errno(EPERM)),
        (FIRST, "prlimit64", [7, 7, 0, 0, 0, 0], Allow),
        (FIRST, "sched_setaffinity", [1, 8, 0, 0, 0, 0], Errno(EPERM)),
        (FIRST, "setpriority", [0, 1, 5, 0, 0, 0], Errno(EPERM)),
        (FIRST, "setpriority", [0, 7, 5, 0, 0, 0], Allow),
        (OPEN, "prlimit64", [1, 7, 0, 0, 0, 0], Allow),
    ] {
        assert_eq!(
            decide(wanted, name, args),
            want,
            "{name} {args:?} {wanted:?}"
        );
    }
    assert_eq!(
        table(OPEN).decide(OPEN.arch.audit(), 0x4000_0001, &[0; 6]),
        Errno(ENOSYS)
    );
    assert_eq!(table(OPEN).decide(0x4000_0003, 1, &[0; 6]), Action::Kill);
}

/// In a sample each program is tried with one in so many numbers of calls, and its neighbours with the
/// others: hundreds of programs share each number.
const SHARE: u32 = 5;

#[test]
fn the_program_means_the_table_at_every_number() {
    let share = test_sample::count("seccomp: programs × calls", 1, SHARE);
    for (at, wanted) in (0..SHARE).cycle().zip(all_wanted()) {
        let table = table(wanted);
        let program = compile(&table).expect("a program the kernel takes");
        let numbers = (0..600).chain([0x3fff_ffff, 0x4000_0000, 0x4000_0029, u32::MAX]);
        for number in numbers.filter(|number| number % SHARE == at || share == SHARE) {
            for args in [
                [0u64; 6],
                [u64::MAX; 6],
                [2, 1, 6, 0, 0, 0],
                [1, 0o4755, 0o101, 0o4755, 0, 0],
            ] {
                let want = table.decide(wanted.arch.audit(), number, &args);
                let got = interpret::run(&program, wanted.arch.audit(), number, &args);
                assert_eq!(got, Some(want), "{number} {args:?} {wanted:?}");
            }
        }
    }
}

/// Reports change no decision: a call has the action that it has without them, or a question that the
/// launcher answers with it.
#[test]
fn reports_decide_nothing() {
    let every = ObservedCalls {
        changes: true,
        modes: true,
        connects: true,
        reads: true,
    };
    let mut reported = 0;
    let share = test_sample::count("seccomp: reports × calls", 1, SHARE);
    let plain = all_wanted().into_iter().filter(|one| !one.observed.any());
    for (at, plain) in (0..SHARE).cycle().zip(plain) {
        let with = FilterSpec {
            observed: every,
            ..plain
        };
        let (plain_table, table) = (table(plain), table(with));
        let rows: Vec<u32> = every.rows(plain.arch).map(|(number, _)| number).collect();
        for number in (0..500).filter(|number| number % SHARE == at || share == SHARE) {
            for args in [
                [0u64; 6],
                [u64::MAX; 6],
                [1, 1, 0, 0, 0, 0],
                [2, 1, 6, 0, 0, 0],
                [1, 0o4755, 0o101, 0o4755, 0, 0],
                [1, 0o101, 0o101, 0o644, 0, 0],
                [1, 1, 0o10_000_000, 0, 0, 0],
            ] {
                let audit = plain.arch.audit();
                let before = plain_table.decide(audit, number, &args);
                let after = table.decide(audit, number, &args);
                if before == after {
                    continue;
                }
                reported += 1;
                assert!(rows.contains(&number), "{number} {args:?} {plain:?}");
                assert_eq!(after, Action::UserNotify, "{number} {args:?} {plain:?}");
                // The launcher itself refuses these sockets.
                let is_socket = Some(number) == plain.arch.number("socket");
                let is_refused = matches!(before, Action::Errno(EACCES | ENETUNREACH));
                assert!(
                    before == Action::Allow || is_socket && is_refused,
                    "{before:?}"
                );
            }
        }
    }
    assert!(reported > 1000, "{reported}");
}

#[test]
fn reads_are_observed_on_request() {
    const PATH_ONLY: u64 = 0o10_000_000;
    for reads in [false, true] {
        let wanted = FilterSpec {
            observed: ObservedCalls { reads, ..NOTHING },
            ..CLOSED
        };
        let expected = match reads {
            true => Action::UserNotify,
            false => Action::Allow,
        };
        assert_eq!(decide(wanted, "openat", [0; 6]), expected);
        assert_eq!(decide(wanted, "execve", [0; 6]), expected);
        let path_only = [0, 0, PATH_ONLY, 0, 0, 0];
        assert_eq!(decide(wanted, "openat", path_only), Action::Allow);
        let set_id = [0, 0, 0o100, 0o4755, 0, 0];
        assert_eq!(decide(wanted, "openat", set_id), Action::Errno(EPERM));
    }
}

#[test]
fn each_call_that_changes_a_file_by_its_path_is_observed() {
    const CHANGES: [&str; 10] = [
        "open", "creat", "mkdir", "mknod", "link", "unlink", "rmdir", "rename", "truncate",
        "symlink",
    ];
    const ALSO: [&str; 8] = [
        "execve",
        "execveat",
        "chmod",
        "fchmodat",
        "fchmodat2",
        "bind",
        "connect",
        "socket",
    ];
    // Refused everywhere.
    const REFUSED: [&str; 4] = [
        "open_tree",
        "open_tree_attr",
        "open_by_handle_at",
        "openat2",
    ];
    for &(name, ..) in NUMBERS {
        let changes = CHANGES.iter().any(|start| name.starts_with(start));
        let wanted = changes && !REFUSED.contains(&name) || ALSO.contains(&name);
        let observed = OBSERVED.iter().any(|row| row.name == name);
        assert_eq!(observed, wanted, "{name}");
    }
}

#[test]
fn a_program_is_short() {
    let program = compile(&table(CLOSED)).expect("a program the kernel takes");
    assert!(program.len() < 230, "{}", program.len());
}

/// Uses far more rules than the real table, all different, so that targets are beyond the reach of
/// one conditional jump.
#[test]
fn long_programs_mean_their_tables() {
    let rule = |number: u32| Rule {
        clauses: vec![Clause {
            tests: vec![
                Test::Masked {
                    arg: 0,
                    mask: 0xffff,
                    value: number,
                },
                Test::Any { arg: 1, mask: 1 },
            ],
            action: Action::Errno(number as u16),
        }],
        otherwise: if number.is_multiple_of(2) {
            Action::Allow
        } else {
            Action::Errno(EPERM)
        },
    };
    let rules = (0..450).filter(|number| number % 7 != 0);
    let table = Table::new(Arch::X86_64, rules.map(|n| (n, rule(n))).collect());
    let program = compile(&table).expect("a program the kernel takes");
    assert!(program.len() > 2000);
    for number in 0..500 {
        for args in [[u64::from(number), 1], [u64::from(number), 0], [1, 1]] {
            let args = [args[0], args[1], 0, 0, 0, 0];
            let want = table.decide(Arch::X86_64.audit(), number, &args);
            let got = interpret::run(&program, Arch::X86_64.audit(), number, &args);
            assert_eq!(got, Some(want), "{number} {args:?}");
        }
    }
}

proptest! {
    #[test]
    fn the_program_means_the_table(
        which in 0usize..128,
        row in 0usize..NUMBERS.len(),
        other in any::<u32>(),
        named in any::<bool>(),
        arch in prop_oneof![Just(0xc000_003eu32), Just(0xc000_00b7), any::<u32>()],
        args in prop::array::uniform6(prop_oneof![
            any::<u64>(),
            0u64..70,
            prop::sample::select(vec![0o4755u64, 0o2000, 0o100, 0x5412, 0x541c, 0x1000_0000, 262]),
        ]),
    ) {
        let wanted = all_wanted()[which];
        let number = match wanted.arch.number(NUMBERS[row].0) {
            Some(number) if named => number,
            _ => other,
        };
        let table = table(wanted);
        let program = compile(&table).expect("a program the kernel takes");
        prop_assert_eq!(
            interpret::run(&program, arch, number, &args),
            Some(table.decide(arch, number, &args))
        );
    }
}
