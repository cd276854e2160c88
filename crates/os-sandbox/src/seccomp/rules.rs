//! Which calls a confined command cannot make, and why. One table, read from top to bottom; what
//! is not named passes, because Landlock, namespaces and dropped capabilities decide about files
//! and processes. This closes what they do not see.

use super::numbers::Arch;
use super::table::{
    Action, Clause, EACCES, EAFNOSUPPORT, ENETUNREACH, ENOSYS, EOPNOTSUPP, EPERM, EPROTONOSUPPORT,
    Rule, Table, Test,
};

/// What a filter depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) arch: Arch,
    /// Internet sockets can be made: the network is unrestricted, or the target's own.
    pub(crate) internet: bool,
    /// `socket(AF_UNIX)` passes.
    pub(crate) unix: bool,
    /// The caller is uid 0 and no mount layer keeps its files out of reach: owners and extended
    /// attributes, which Landlock does not control, are frozen.
    pub(crate) freeze_metadata: bool,
    /// No namespaces: System V and POSIX message queues, semaphores and shared memory are those of
    /// the whole host, and so are the limits of every process of the same user.
    pub(crate) shared_host: bool,
}

/// Set-user-id and set-group-id in a mode.
const SET_ID: u32 = 0o6000;
/// `O_CREAT`, and the bit that makes `O_TMPFILE` more than `O_DIRECTORY`: only then does an open
/// have a mode at all.
const CREATES: u32 = 0o100 | 0o20_000_000;
/// `CLONE_NEW*` as `clone` takes them; the time namespace shares its bit with the exit signal.
const NAMESPACES: u32 = 0x7e02_0000;
const NEW_TIME: u32 = 0x80;
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
/// A socket type without `SOCK_NONBLOCK` and `SOCK_CLOEXEC`.
const SOCK_MASK: u32 = 0xf;
const ALL: u32 = u32::MAX;

/// The whole table.
pub(crate) fn table(wanted: Wanted) -> Table {
    let mut rules = Rules {
        arch: wanted.arch,
        out: Vec::new(),
    };

    // A queue of calls that no filter sees; ENOSYS, so that libuv and tokio fall back.
    rules.always(
        ENOSYS,
        &["io_uring_setup", "io_uring_enter", "io_uring_register"],
    );
    // Flags behind a pointer, which BPF cannot follow; glibc and everybody else fall back to
    // clone and openat, which can be looked at.
    rules.always(ENOSYS, &["clone3", "openat2"]);

    // Other processes' memory, descriptors and secrets.
    rules.always(
        EPERM,
        &[
            "ptrace",
            "process_vm_readv",
            "process_vm_writev",
            "pidfd_getfd",
            "kcmp",
            "process_madvise",
            "process_mrelease",
            "migrate_pages",
            "move_pages",
            "add_key",
            "request_key",
            "keyctl",
            "syslog",
            "lookup_dcookie",
        ],
    );
    // Code in the kernel, or a long record of holes.
    rules.always(
        EPERM,
        &[
            "bpf",
            "perf_event_open",
            "userfaultfd",
            "init_module",
            "finit_module",
            "delete_module",
            "create_module",
            "get_kernel_syms",
            "query_module",
            "kexec_load",
            "kexec_file_load",
            "iopl",
            "ioperm",
            "modify_ldt",
            "uselib",
            "vserver",
            "_sysctl",
            "nfsservctl",
            "lsm_set_self_attr",
        ],
    );
    // Mounts and namespaces: a new user namespace gives capabilities back.
    rules.always(
        EPERM,
        &[
            "mount",
            "umount2",
            "pivot_root",
            "chroot",
            "fsopen",
            "fsconfig",
            "fsmount",
            "fspick",
            "move_mount",
            "open_tree",
            "open_tree_attr",
            "mount_setattr",
            "setns",
            "open_by_handle_at",
            "fanotify_init",
            "fanotify_mark",
            "statmount",
            "listmount",
            "ustat",
            "sysfs",
        ],
    );
    rules.when(&["unshare"], 0, NAMESPACES | NEW_TIME, EPERM);
    rules.when(&["clone"], 0, NAMESPACES, EPERM);
    // Settings of the whole machine.
    rules.always(
        EPERM,
        &[
            "reboot",
            "swapon",
            "swapoff",
            "acct",
            "quotactl",
            "quotactl_fd",
            "settimeofday",
            "clock_settime",
            "clock_adjtime",
            "adjtimex",
            "sethostname",
            "setdomainname",
            "vhangup",
        ],
    );
    // Only the personalities of a debugger (no randomised addresses) and of uname's.
    rules.only(
        "personality",
        0,
        &[0, 0x0004_0000, 0x0008, 0xffff_ffff],
        EPERM,
    );
    // Keystrokes into the terminal of the person (CVE-2017-5226).
    rules.each("ioctl", 1, &[TIOCSTI, TIOCLINUX], EPERM);

    // A set-id file in a writable mount outlives the sandbox and works outside.
    rules.when(
        &["chmod", "fchmod", "creat", "mkdir", "mknod"],
        1,
        SET_ID,
        EPERM,
    );
    rules.when(
        &["fchmodat", "fchmodat2", "mkdirat", "mknodat"],
        2,
        SET_ID,
        EPERM,
    );
    rules.creating("open", 1, 2);
    rules.creating("openat", 2, 3);

    if wanted.freeze_metadata {
        rules.always(
            EPERM,
            &["chown", "fchown", "lchown", "fchownat", "file_setattr"],
        );
        // cp -a and git take "not supported" for an answer.
        rules.always(
            EOPNOTSUPP,
            &[
                "setxattr",
                "lsetxattr",
                "fsetxattr",
                "setxattrat",
                "removexattr",
                "lremovexattr",
                "fremovexattr",
                "removexattrat",
            ],
        );
    }

    if wanted.shared_host {
        rules.always(
            ENOSYS,
            &[
                "shmget",
                "shmat",
                "shmctl",
                "semget",
                "semop",
                "semctl",
                "semtimedop",
                "msgget",
                "msgsnd",
                "msgrcv",
                "msgctl",
                "mq_open",
                "mq_unlink",
            ],
        );
        // A limit of zero seconds is a kill.
        rules.when(&["prlimit64"], 0, ALL, EPERM);
    }

    rules.rule("socket", sockets(wanted));
    // Pairs talk to nobody else.
    rules.rule(
        "socketpair",
        Rule {
            clauses: vec![Clause {
                tests: vec![family(AF_UNIX)],
                action: Action::Allow,
            }],
            otherwise: Action::Errno(EAFNOSUPPORT),
        },
    );
    Table::new(wanted.arch, rules.out)
}

/// Families by allow-list: VSOCK, packet, AF_ALG, TIPC and whatever comes next stay closed.
fn sockets(wanted: Wanted) -> Rule {
    let mut clauses = vec![Clause {
        tests: vec![family(AF_UNIX)],
        action: if wanted.unix {
            Action::Allow
        } else {
            Action::Errno(EACCES)
        },
    }];
    for internet in [AF_INET, AF_INET6] {
        if !wanted.internet {
            clauses.push(Clause {
                tests: vec![family(internet)],
                action: Action::Errno(ENETUNREACH),
            });
            continue;
        }
        // TCP, UDP and ping. MPTCP, SCTP and SMC go round rules made for TCP; raw sockets need
        // capabilities anyway.
        for (kind, protocols) in [(SOCK_STREAM, &[0, 6][..]), (SOCK_DGRAM, &[0, 17, 1, 58])] {
            for protocol in protocols {
                clauses.push(Clause {
                    tests: vec![
                        family(internet),
                        Test::Masked {
                            arg: 1,
                            mask: SOCK_MASK,
                            value: kind,
                        },
                        Test::Masked {
                            arg: 2,
                            mask: ALL,
                            value: *protocol,
                        },
                    ],
                    action: Action::Allow,
                });
            }
        }
        clauses.push(Clause {
            tests: vec![family(internet)],
            action: Action::Errno(EPROTONOSUPPORT),
        });
    }
    // Reading interfaces and routes (getifaddrs) and nothing else of netlink.
    clauses.push(Clause {
        tests: vec![
            family(AF_NETLINK),
            Test::Masked {
                arg: 2,
                mask: ALL,
                value: 0,
            },
        ],
        action: Action::Allow,
    });
    Rule {
        clauses,
        otherwise: Action::Errno(EAFNOSUPPORT),
    }
}

fn family(family: u32) -> Test {
    Test::Masked {
        arg: 0,
        mask: ALL,
        value: family,
    }
}

struct Rules {
    arch: Arch,
    out: Vec<(u32, Rule)>,
}

impl Rules {
    fn rule(&mut self, name: &str, rule: Rule) {
        // A call that this machine does not have needs no rule.
        if let Some(number) = self.arch.number(name) {
            self.out.push((number, rule));
        }
    }

    fn always(&mut self, errno: u16, names: &[&str]) {
        for name in names {
            self.rule(name, Rule::always(Action::Errno(errno)));
        }
    }

    /// Refused if any bit of `mask` is set in the argument.
    fn when(&mut self, names: &[&str], arg: u8, mask: u32, errno: u16) {
        for name in names {
            let refused = Clause {
                tests: vec![Test::Any { arg, mask }],
                action: Action::Errno(errno),
            };
            self.rule(
                name,
                Rule {
                    clauses: vec![refused],
                    otherwise: Action::Allow,
                },
            );
        }
    }

    /// Refused for each of these values.
    fn each(&mut self, name: &str, arg: u8, values: &[u32], errno: u16) {
        let clauses = values
            .iter()
            .map(|value| Clause {
                tests: vec![Test::Masked {
                    arg,
                    mask: ALL,
                    value: *value,
                }],
                action: Action::Errno(errno),
            })
            .collect();
        self.rule(
            name,
            Rule {
                clauses,
                otherwise: Action::Allow,
            },
        );
    }

    /// Refused for all but these values.
    fn only(&mut self, name: &str, arg: u8, values: &[u32], errno: u16) {
        let clauses = values
            .iter()
            .map(|value| Clause {
                tests: vec![Test::Masked {
                    arg,
                    mask: ALL,
                    value: *value,
                }],
                action: Action::Allow,
            })
            .collect();
        self.rule(
            name,
            Rule {
                clauses,
                otherwise: Action::Errno(errno),
            },
        );
    }

    /// An open that creates a file with a set-id bit.
    fn creating(&mut self, name: &str, flags: u8, mode: u8) {
        let refused = Clause {
            tests: vec![
                Test::Any {
                    arg: flags,
                    mask: CREATES,
                },
                Test::Any {
                    arg: mode,
                    mask: SET_ID,
                },
            ],
            action: Action::Errno(EPERM),
        };
        self.rule(
            name,
            Rule {
                clauses: vec![refused],
                otherwise: Action::Allow,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::{compile::compile, interpret, numbers::NUMBERS};
    use super::*;
    use proptest::prelude::*;

    fn all_wanted() -> Vec<Wanted> {
        let mut all = Vec::new();
        for arch in [Arch::X86_64, Arch::Aarch64] {
            for bits in 0..16 {
                all.push(Wanted {
                    arch,
                    internet: bits & 1 != 0,
                    unix: bits & 2 != 0,
                    freeze_metadata: bits & 4 != 0,
                    shared_host: bits & 8 != 0,
                });
            }
        }
        all
    }

    fn decide(wanted: Wanted, name: &str, args: [u64; 6]) -> Action {
        let number = wanted.arch.number(name).expect("a call of this machine");
        table(wanted).decide(wanted.arch.audit(), number, &args)
    }

    const CLOSED: Wanted = Wanted {
        arch: Arch::X86_64,
        internet: false,
        unix: false,
        freeze_metadata: true,
        shared_host: true,
    };
    const OPEN: Wanted = Wanted {
        arch: Arch::X86_64,
        internet: true,
        unix: true,
        freeze_metadata: false,
        shared_host: false,
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
        use Action::{Allow, Errno};
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
            (OPEN, "chown", [0; 6], Allow),
            (CLOSED, "chown", [0; 6], Errno(EPERM)),
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
            (OPEN, "ptrace", [0; 6], Errno(EPERM)),
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

    #[test]
    fn the_program_means_the_table_at_every_number() {
        for wanted in all_wanted() {
            let table = table(wanted);
            let program = compile(&table).expect("a program the kernel takes");
            let numbers = (0..600).chain([0x3fff_ffff, 0x4000_0000, 0x4000_0029, u32::MAX]);
            for number in numbers {
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

    #[test]
    fn a_call_without_a_rule_costs_few_instructions() {
        let program = compile(&table(CLOSED)).expect("a program the kernel takes");
        assert!(program.len() < 1000, "{}", program.len());
    }

    proptest! {
        #[test]
        fn the_program_means_the_table(
            which in 0usize..32,
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
}
