//! System call numbers by name, for both architectures (asm/unistd_64.h, asm-generic/unistd.h).
//! Contains only calls that a rule names. A call that an architecture does not have is `None`
//! there.

/// The machine that a filter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// x86-64.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Arch {
    /// Returns the machine that this crate is compiled for.
    #[must_use]
    pub fn native() -> Option<Arch> {
        if cfg!(target_arch = "x86_64") {
            Some(Arch::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Arch::Aarch64)
        } else {
            None
        }
    }

    /// Returns the machine with the name that `uname -m` and container engines use for it.
    #[must_use]
    pub fn named(machine: &str) -> Option<Arch> {
        match machine {
            "x86_64" | "amd64" => Some(Arch::X86_64),
            "aarch64" | "arm64" => Some(Arch::Aarch64),
            _ => None,
        }
    }

    /// Returns the kernel's name for the machine in `seccomp_data.arch` (linux/audit.h).
    #[must_use]
    pub fn audit(self) -> u32 {
        match self {
            Arch::X86_64 => 0xc000_003e,
            Arch::Aarch64 => 0xc000_00b7,
        }
    }

    /// Returns the first x32 number. x32 calls are x86-64 calls with this bit and other structures,
    /// and would bypass all rules.
    pub(crate) fn forbidden_from(self) -> Option<u32> {
        match self {
            Arch::X86_64 => Some(0x4000_0000),
            Arch::Aarch64 => None,
        }
    }

    /// Returns all calls that are named here, with their numbers.
    pub fn names(self) -> impl Iterator<Item = (&'static str, u32)> {
        NUMBERS
            .iter()
            .filter_map(move |row| Some((row.0, self.of(row)?)))
    }

    /// Returns the number of a call on this machine.
    #[must_use]
    pub fn number(self, name: &str) -> Option<u32> {
        NUMBERS
            .iter()
            .find(|row| row.0 == name)
            .and_then(|row| self.of(row))
    }

    fn of(self, row: &(&str, Option<u32>, Option<u32>)) -> Option<u32> {
        match self {
            Arch::X86_64 => row.1,
            Arch::Aarch64 => row.2,
        }
    }
}

/// Name, x86-64, AArch64.
pub(crate) const NUMBERS: [(&str, Option<u32>, Option<u32>); 132] = [
    ("open", Some(2), None),
    ("ioctl", Some(16), Some(29)),
    ("shmget", Some(29), Some(194)),
    ("shmat", Some(30), Some(196)),
    ("shmctl", Some(31), Some(195)),
    ("socket", Some(41), Some(198)),
    ("connect", Some(42), Some(203)),
    ("sendto", Some(44), Some(206)),
    ("sendmsg", Some(46), Some(211)),
    ("bind", Some(49), Some(200)),
    ("listen", Some(50), Some(201)),
    ("socketpair", Some(53), Some(199)),
    ("setsockopt", Some(54), Some(208)),
    ("clone", Some(56), Some(220)),
    ("semget", Some(64), Some(190)),
    ("semop", Some(65), Some(193)),
    ("semctl", Some(66), Some(191)),
    ("kill", Some(62), Some(129)),
    ("msgget", Some(68), Some(186)),
    ("msgsnd", Some(69), Some(189)),
    ("msgrcv", Some(70), Some(188)),
    ("msgctl", Some(71), Some(187)),
    ("truncate", Some(76), Some(45)),
    ("rename", Some(82), None),
    ("mkdir", Some(83), None),
    ("rmdir", Some(84), None),
    ("creat", Some(85), None),
    ("link", Some(86), None),
    ("unlink", Some(87), None),
    ("symlink", Some(88), None),
    ("chmod", Some(90), None),
    ("fchmod", Some(91), Some(52)),
    ("chown", Some(92), None),
    ("fchown", Some(93), Some(55)),
    ("lchown", Some(94), None),
    ("ptrace", Some(101), Some(117)),
    ("syslog", Some(103), Some(116)),
    ("mknod", Some(133), None),
    ("personality", Some(135), Some(92)),
    ("setpriority", Some(141), Some(140)),
    ("sched_setparam", Some(142), Some(118)),
    ("sched_setscheduler", Some(144), Some(119)),
    ("vhangup", Some(153), Some(58)),
    ("modify_ldt", Some(154), None),
    ("pivot_root", Some(155), Some(41)),
    ("adjtimex", Some(159), Some(171)),
    ("chroot", Some(161), Some(51)),
    ("acct", Some(163), Some(89)),
    ("settimeofday", Some(164), Some(170)),
    ("mount", Some(165), Some(40)),
    ("umount2", Some(166), Some(39)),
    ("swapon", Some(167), Some(224)),
    ("swapoff", Some(168), Some(225)),
    ("reboot", Some(169), Some(142)),
    ("sethostname", Some(170), Some(161)),
    ("setdomainname", Some(171), Some(162)),
    ("iopl", Some(172), None),
    ("ioperm", Some(173), None),
    ("init_module", Some(175), Some(105)),
    ("delete_module", Some(176), Some(106)),
    ("quotactl", Some(179), Some(60)),
    ("setxattr", Some(188), Some(5)),
    ("lsetxattr", Some(189), Some(6)),
    ("fsetxattr", Some(190), Some(7)),
    ("removexattr", Some(197), Some(14)),
    ("lremovexattr", Some(198), Some(15)),
    ("fremovexattr", Some(199), Some(16)),
    ("sched_setaffinity", Some(203), Some(122)),
    ("semtimedop", Some(220), Some(192)),
    ("clock_settime", Some(227), Some(112)),
    ("mq_open", Some(240), Some(180)),
    ("mq_unlink", Some(241), Some(181)),
    ("kexec_load", Some(246), Some(104)),
    ("add_key", Some(248), Some(217)),
    ("request_key", Some(249), Some(218)),
    ("keyctl", Some(250), Some(219)),
    ("ioprio_set", Some(251), Some(30)),
    ("migrate_pages", Some(256), Some(238)),
    ("openat", Some(257), Some(56)),
    ("mkdirat", Some(258), Some(34)),
    ("mknodat", Some(259), Some(33)),
    ("fchownat", Some(260), Some(54)),
    ("unlinkat", Some(263), Some(35)),
    ("renameat", Some(264), Some(38)),
    ("linkat", Some(265), Some(37)),
    ("symlinkat", Some(266), Some(36)),
    ("fchmodat", Some(268), Some(53)),
    ("unshare", Some(272), Some(97)),
    ("move_pages", Some(279), Some(239)),
    ("perf_event_open", Some(298), Some(241)),
    ("fanotify_init", Some(300), Some(262)),
    ("fanotify_mark", Some(301), Some(263)),
    ("prlimit64", Some(302), Some(261)),
    ("open_by_handle_at", Some(304), Some(265)),
    ("clock_adjtime", Some(305), Some(266)),
    ("sendmmsg", Some(307), Some(269)),
    ("setns", Some(308), Some(268)),
    ("process_vm_readv", Some(310), Some(270)),
    ("process_vm_writev", Some(311), Some(271)),
    ("kcmp", Some(312), Some(272)),
    ("finit_module", Some(313), Some(273)),
    ("sched_setattr", Some(314), Some(274)),
    ("renameat2", Some(316), Some(276)),
    ("kexec_file_load", Some(320), Some(294)),
    ("bpf", Some(321), Some(280)),
    ("userfaultfd", Some(323), Some(282)),
    ("io_uring_setup", Some(425), Some(425)),
    ("io_uring_enter", Some(426), Some(426)),
    ("io_uring_register", Some(427), Some(427)),
    ("open_tree", Some(428), Some(428)),
    ("move_mount", Some(429), Some(429)),
    ("fsopen", Some(430), Some(430)),
    ("fsconfig", Some(431), Some(431)),
    ("fsmount", Some(432), Some(432)),
    ("fspick", Some(433), Some(433)),
    ("clone3", Some(435), Some(435)),
    ("openat2", Some(437), Some(437)),
    ("execve", Some(59), Some(221)),
    ("execveat", Some(322), Some(281)),
    ("pidfd_getfd", Some(438), Some(438)),
    ("process_madvise", Some(440), Some(440)),
    ("mount_setattr", Some(442), Some(442)),
    ("quotactl_fd", Some(443), Some(443)),
    ("process_mrelease", Some(448), Some(448)),
    ("fchmodat2", Some(452), Some(452)),
    ("statmount", Some(457), Some(457)),
    ("listmount", Some(458), Some(458)),
    ("lsm_set_self_attr", Some(460), Some(460)),
    ("setxattrat", Some(463), Some(463)),
    ("removexattrat", Some(466), Some(466)),
    ("open_tree_attr", Some(467), Some(467)),
    ("file_setattr", Some(469), Some(469)),
];
