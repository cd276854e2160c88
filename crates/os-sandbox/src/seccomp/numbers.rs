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

/// Returns `true` if a machine has a call of this name.
pub(super) fn is_known(name: &str) -> bool {
    NUMBERS.iter().any(|row| row.0 == name)
}

macro_rules! numbers {
    (@ -) => { None };
    (@ $number:literal) => { Some($number) };
    ($($name:ident $x86_64:tt $aarch64:tt,)+) => {
        [$((stringify!($name), numbers!(@ $x86_64), numbers!(@ $aarch64)),)+]
    };
}

/// Name, x86-64, AArch64.
pub(crate) const NUMBERS: &[(&str, Option<u32>, Option<u32>)] = &numbers! {
    open 2 -, ioctl 16 29, shmget 29 194, shmat 30 196, shmctl 31 195, socket 41 198,
    connect 42 203, sendto 44 206, sendmsg 46 211, bind 49 200, listen 50 201, socketpair 53 199,
    setsockopt 54 208, clone 56 220, semget 64 190, semop 65 193, semctl 66 191, kill 62 129,
    msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, truncate 76 45, rename 82 -,
    mkdir 83 -, rmdir 84 -, creat 85 -, link 86 -, unlink 87 -, symlink 88 -, chmod 90 -,
    fchmod 91 52, chown 92 -, fchown 93 55, lchown 94 -, ptrace 101 117, syslog 103 116,
    mknod 133 -, personality 135 92, setpriority 141 140, sched_setparam 142 118,
    sched_setscheduler 144 119, vhangup 153 58, modify_ldt 154 -, pivot_root 155 41,
    adjtimex 159 171, chroot 161 51, acct 163 89, settimeofday 164 170, mount 165 40,
    umount2 166 39, swapon 167 224, swapoff 168 225, reboot 169 142, sethostname 170 161,
    setdomainname 171 162, iopl 172 -, ioperm 173 -, init_module 175 105, delete_module 176 106,
    quotactl 179 60, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14,
    lremovexattr 198 15, fremovexattr 199 16, sched_setaffinity 203 122, semtimedop 220 192,
    clock_settime 227 112, mq_open 240 180, mq_unlink 241 181, kexec_load 246 104, add_key 248 217,
    request_key 249 218, keyctl 250 219, ioprio_set 251 30, inotify_add_watch 254 27, migrate_pages 256 238, openat 257 56,
    mkdirat 258 34, mknodat 259 33, fchownat 260 54, unlinkat 263 35, renameat 264 38,
    linkat 265 37, symlinkat 266 36, fchmodat 268 53, unshare 272 97, move_pages 279 239,
    perf_event_open 298 241, fanotify_init 300 262, fanotify_mark 301 263, prlimit64 302 261,
    open_by_handle_at 304 265, clock_adjtime 305 266, sendmmsg 307 269, setns 308 268,
    process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272, finit_module 313 273,
    sched_setattr 314 274, renameat2 316 276, kexec_file_load 320 294, bpf 321 280,
    userfaultfd 323 282, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427,
    open_tree 428 428, move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432,
    fspick 433 433, clone3 435 435, openat2 437 437, execve 59 221, execveat 322 281,
    pidfd_getfd 438 438, process_madvise 440 440, mount_setattr 442 442, quotactl_fd 443 443,
    process_mrelease 448 448, fchmodat2 452 452, statmount 457 457, listmount 458 458,
    lsm_set_self_attr 460 460, setxattrat 463 463, removexattrat 466 466, open_tree_attr 467 467,
    file_setattr 469 469,
};
