//! Runs a command on an older or stricter kernel, played by a seccomp filter:
//! `hide WHAT [and more of them] -- CMD ARGS…`
//!
//! - `landlock`: its system calls answer ENOSYS, as before Linux 5.13
//! - `landlock-off`: they answer EOPNOTSUPP, as where `lsm=` leaves it out
//! - `landlock=N`: version N (6 is Linux 6.12), said in the kernel's place by a tracer
//! - `tracing`: nobody may look into processes, as with a strict Yama
//! - `openat2`: answers ENOSYS, as before Linux 5.6 and under old container filters
//! - `userns`: new user namespaces answer EPERM, as under AppArmor or in containers
//! - `mounts`: mounts by descriptor answer EPERM, as for what bwrap starts where AppArmor's profile
//!   for that gives no rights in a user namespace within
//! - `memfd`: memory files answer ENOSYS, as under filters that know few calls
//! - `close_range`: answers ENOSYS, as before Linux 5.9
//! - `pidfd`: processes by descriptor answer ENOSYS, as before Linux 5.1
//! - `fsync`, `fdatasync`: the disk does not take what is brought to it (EIO)
//! - `filters`: further seccomp filters are refused; name it last
//!
//! Filters pass through exec, so whatever CMD starts (bwrap too) sees the same kernel.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::os::unix::process::CommandExt;

    let mut args = std::env::args_os().skip(1);
    let mut hidden = Vec::new();
    for arg in args.by_ref() {
        match arg.to_str() {
            Some("--") => break,
            Some(name) => hidden.push(name.to_owned()),
            None => return Err("not text".into()),
        }
    }
    let program = args
        .next()
        .ok_or("usage: hide landlock|openat2|mounts|tracing|userns… -- CMD ARGS…")?;
    if let Some(place) = hidden.iter().position(|name| name.starts_with("landlock=")) {
        let version = hidden.remove(place)["landlock=".len()..].parse()?;
        hidden.push("landlock-asked".to_owned());
        let mut own = std::process::Command::new(std::env::current_exe()?);
        own.args(hidden).arg("--").arg(program).args(args);
        std::process::exit(older::run(own, version)?);
    }
    for name in hidden {
        linux::hide(&name)?;
    }
    // Only returns if it failed.
    Err(std::process::Command::new(program).args(args).exec().into())
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    Err("there are no such filters here".into())
}

/// A filter can refuse a call and cannot answer it. So the process that asks for Landlock's version
/// is stopped, and its tracer (ptrace(2), `SECCOMP_RET_TRACE`) puts the number there. Rules of later
/// versions are still taken by the kernel below: whoever asks makes none.
#[cfg(target_os = "linux")]
mod older {
    use nix::sys::ptrace;
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    use nix::unistd::Pid;
    use std::error::Error;
    use std::process::Command;

    /// Starts the command, which stops itself, and answers for the kernel until it ends.
    pub(crate) fn run(mut command: Command, version: u32) -> Result<i32, Box<dyn Error>> {
        let own = command.spawn()?;
        let first = Pid::from_raw(own.id().try_into()?);
        waitpid(first, Some(WaitPidFlag::WUNTRACED))?;
        ptrace::seize(
            first,
            ptrace::Options::PTRACE_O_TRACESECCOMP
                | ptrace::Options::PTRACE_O_TRACECLONE
                | ptrace::Options::PTRACE_O_TRACEFORK
                | ptrace::Options::PTRACE_O_TRACEVFORK,
        )?;
        kill(first, Signal::SIGCONT)?;
        loop {
            let goes_on = match waitpid(None, Some(WaitPidFlag::__WALL))? {
                WaitStatus::Exited(who, code) if who == first => return Ok(code),
                WaitStatus::Signaled(who, signal, _) if who == first => {
                    return Ok(128 + signal as i32);
                }
                WaitStatus::PtraceEvent(who, _, event)
                    if event == ptrace::Event::PTRACE_EVENT_SECCOMP as i32 =>
                {
                    answer(who, version).and_then(|()| ptrace::cont(who, None))
                }
                WaitStatus::PtraceEvent(who, ..) => ptrace::cont(who, None),
                WaitStatus::Stopped(who, signal) => ptrace::cont(who, signal),
                _ => Ok(()),
            };
            match goes_on {
                // It was ended where it stood.
                Ok(()) | Err(nix::Error::ESRCH) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn answer(who: Pid, version: u32) -> nix::Result<()> {
        let mut registers = ptrace::getregs(who)?;
        // No call at all; and this is what it has returned.
        registers.orig_rax = u64::MAX;
        registers.rax = version.into();
        ptrace::setregs(who, registers)
    }

    /// Elsewhere the number of the call is not among the registers.
    #[cfg(not(target_arch = "x86_64"))]
    fn answer(_: Pid, _: u32) -> nix::Result<()> {
        Err(nix::Error::ENOTSUP)
    }
}

#[cfg(target_os = "linux")]
pub(crate) mod linux {
    use nix::libc;
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, apply_filter,
    };
    use std::collections::BTreeMap;
    use std::error::Error;

    type Rules = BTreeMap<i64, Vec<SeccompRule>>;

    const LANDLOCK: &[i64] = &[
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ];
    /// `LANDLOCK_CREATE_RULESET_VERSION`.
    const ASKS_FOR_VERSION: u64 = 1;

    pub(crate) fn hide(name: &str) -> Result<(), Box<dyn Error>> {
        let always =
            |calls: &[i64]| -> Rules { calls.iter().map(|call| (*call, vec![])).collect() };
        match name {
            "landlock" => answer(always(LANDLOCK), libc::ENOSYS),
            "landlock-off" => answer(always(LANDLOCK), libc::EOPNOTSUPP),
            "landlock-asked" => {
                // Until there is somebody to answer.
                nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP)?;
                let asks = SeccompCondition::new(
                    2,
                    SeccompCmpArgLen::Dword,
                    SeccompCmpOp::Eq,
                    ASKS_FOR_VERSION,
                )?;
                filter(
                    BTreeMap::from([(
                        libc::SYS_landlock_create_ruleset,
                        vec![SeccompRule::new(vec![asks])?],
                    )]),
                    SeccompAction::Trace(0),
                )
            }
            "memfd" => answer(always(&[libc::SYS_memfd_create]), libc::ENOSYS),
            "close_range" => answer(always(&[libc::SYS_close_range]), libc::ENOSYS),
            "pidfd" => answer(
                always(&[
                    libc::SYS_pidfd_open,
                    libc::SYS_pidfd_send_signal,
                    libc::SYS_pidfd_getfd,
                ]),
                libc::ENOSYS,
            ),
            "fsync" => answer(always(&[libc::SYS_fsync]), libc::EIO),
            "fdatasync" => answer(always(&[libc::SYS_fdatasync]), libc::EIO),
            "filters" => answer(always(&[libc::SYS_seccomp]), libc::EPERM),
            "openat2" => answer(always(&[libc::SYS_openat2]), libc::ENOSYS),
            "tracing" => answer(
                always(&[
                    libc::SYS_ptrace,
                    libc::SYS_process_vm_readv,
                    libc::SYS_pidfd_getfd,
                ]),
                libc::EPERM,
            ),
            "mounts" => answer(
                always(&[
                    libc::SYS_open_tree,
                    libc::SYS_move_mount,
                    libc::SYS_mount_setattr,
                ]),
                libc::EPERM,
            ),
            "userns" => {
                // clone3's flags lie in memory; without it everybody falls back to clone.
                answer(always(&[libc::SYS_clone3]), libc::ENOSYS)?;
                let flag = libc::CLONE_NEWUSER as u64;
                let new_user = || -> Result<Vec<SeccompRule>, Box<dyn Error>> {
                    let has = SeccompCondition::new(
                        0,
                        SeccompCmpArgLen::Qword,
                        SeccompCmpOp::MaskedEq(flag),
                        flag,
                    )?;
                    Ok(vec![SeccompRule::new(vec![has])?])
                };
                answer(
                    BTreeMap::from([
                        (libc::SYS_unshare, new_user()?),
                        (libc::SYS_clone, new_user()?),
                    ]),
                    libc::EPERM,
                )
            }
            other => Err(format!("nothing called {other} can be hidden").into()),
        }
    }

    fn answer(rules: Rules, errno: i32) -> Result<(), Box<dyn Error>> {
        filter(rules, SeccompAction::Errno(errno as u32))
    }

    fn filter(rules: Rules, action: SeccompAction) -> Result<(), Box<dyn Error>> {
        let program: BpfProgram = SeccompFilter::new(
            rules,
            SeccompAction::Allow,
            action,
            std::env::consts::ARCH.try_into()?,
        )?
        .try_into()?;
        Ok(apply_filter(&program)?)
    }
}
