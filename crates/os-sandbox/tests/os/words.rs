//! Names for the numbers of system calls, so that a fixture says `call socket AF_VSOCK SOCK_STREAM 0`
//! and means the same on every machine.

use nix::libc;

/// A number, a name, several of them joined by `|`.
pub(crate) fn number(word: &str) -> Result<u64, String> {
    word.split('|')
        .try_fold(0, |sum, part| Ok(sum | one(part)?))
}

fn one(word: &str) -> Result<u64, String> {
    let hex = word
        .strip_prefix("0x")
        .map(|hex| u64::from_str_radix(hex, 16));
    if let Some(Ok(number)) = hex {
        return Ok(number);
    }
    if let Ok(number) = word.parse::<u64>() {
        return Ok(number);
    }
    CALLS
        .iter()
        .chain(CONSTANTS)
        .find(|(name, _)| *name == word)
        .map(|(_, number)| *number as u64)
        .ok_or_else(|| format!("not a number: {word}"))
}

macro_rules! calls {
    ($($name:ident = $number:ident,)*) => { &[$((stringify!($name), libc::$number),)*] };
}
macro_rules! constants {
    ($($name:ident,)*) => { &[$((stringify!($name), libc::$name as i64),)*] };
}

/// System calls that fixtures make.
const CALLS: &[(&str, i64)] = calls![
    acct = SYS_acct,
    add_key = SYS_add_key,
    adjtimex = SYS_adjtimex,
    bpf = SYS_bpf,
    chroot = SYS_chroot,
    clock_settime = SYS_clock_settime,
    clone = SYS_clone,
    clone3 = SYS_clone3,
    delete_module = SYS_delete_module,
    fanotify_init = SYS_fanotify_init,
    finit_module = SYS_finit_module,
    fsopen = SYS_fsopen,
    init_module = SYS_init_module,
    io_uring_enter = SYS_io_uring_enter,
    io_uring_register = SYS_io_uring_register,
    io_uring_setup = SYS_io_uring_setup,
    ioctl = SYS_ioctl,
    ioprio_set = SYS_ioprio_set,
    kcmp = SYS_kcmp,
    kexec_load = SYS_kexec_load,
    keyctl = SYS_keyctl,
    kill = SYS_kill,
    mount = SYS_mount,
    mount_setattr = SYS_mount_setattr,
    move_mount = SYS_move_mount,
    mq_open = SYS_mq_open,
    msgget = SYS_msgget,
    open_by_handle_at = SYS_open_by_handle_at,
    open_tree = SYS_open_tree,
    openat2 = SYS_openat2,
    perf_event_open = SYS_perf_event_open,
    personality = SYS_personality,
    pidfd_getfd = SYS_pidfd_getfd,
    pidfd_open = SYS_pidfd_open,
    pivot_root = SYS_pivot_root,
    prlimit64 = SYS_prlimit64,
    process_vm_readv = SYS_process_vm_readv,
    process_vm_writev = SYS_process_vm_writev,
    ptrace = SYS_ptrace,
    quotactl = SYS_quotactl,
    reboot = SYS_reboot,
    request_key = SYS_request_key,
    sched_setaffinity = SYS_sched_setaffinity,
    sched_setscheduler = SYS_sched_setscheduler,
    semget = SYS_semget,
    sethostname = SYS_sethostname,
    setns = SYS_setns,
    setpriority = SYS_setpriority,
    settimeofday = SYS_settimeofday,
    shmget = SYS_shmget,
    socket = SYS_socket,
    socketpair = SYS_socketpair,
    swapoff = SYS_swapoff,
    swapon = SYS_swapon,
    syslog = SYS_syslog,
    tgkill = SYS_tgkill,
    umount2 = SYS_umount2,
    unshare = SYS_unshare,
    userfaultfd = SYS_userfaultfd,
];

/// Arguments and errors that fixtures name.
const CONSTANTS: &[(&str, i64)] = constants![
    AF_ALG,
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    AF_PACKET,
    AF_UNIX,
    AF_VSOCK,
    AF_BLUETOOTH,
    AF_CAN,
    AF_KEY,
    AF_TIPC,
    AF_XDP,
    AF_RDS,
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    EACCES,
    EAFNOSUPPORT,
    ECONNREFUSED,
    EEXIST,
    EINVAL,
    EISDIR,
    ENETUNREACH,
    ENODEV,
    ENOENT,
    ENOSPC,
    ENOSYS,
    ENOTTY,
    EPERM,
    EPROTONOSUPPORT,
    EROFS,
    ESRCH,
    ETXTBSY,
    ENXIO,
    EXDEV,
    ENOMEM,
    EAGAIN,
    EBUSY,
    IPPROTO_MPTCP,
    IPPROTO_SCTP,
    IPPROTO_ICMP,
    PTRACE_ATTACH,
    SIGKILL,
    SIGTERM,
    SOCK_DGRAM,
    SOCK_RAW,
    SOCK_SEQPACKET,
    SOCK_STREAM,
    TIOCSTI,
    TIOCSETD,
];
