//! Runs a command on an older or stricter kernel, played by a seccomp filter:
//! `hide landlock|openat2|mounts|tracing|userns [and more of them] -- CMD ARGS…`
//!
//! - `landlock`: its system calls answer ENOSYS, as before Linux 5.13
//! - `tracing`: nobody may look into processes, as with a strict Yama
//! - `openat2`: answers ENOSYS, as before Linux 5.6 and under old container filters
//! - `userns`: new user namespaces answer EPERM, as under AppArmor or in containers
//! - `mounts`: mounts by descriptor answer EPERM, as for what bwrap starts where AppArmor's profile
//!   for that gives no rights in a user namespace within
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
        .ok_or("usage: hide landlock|openat2|mounts|tracing|userns -- CMD ARGS…")?;
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

    pub(crate) fn hide(name: &str) -> Result<(), Box<dyn Error>> {
        let always =
            |calls: &[i64]| -> Rules { calls.iter().map(|call| (*call, vec![])).collect() };
        match name {
            "landlock" => answer(
                always(&[
                    libc::SYS_landlock_create_ruleset,
                    libc::SYS_landlock_add_rule,
                    libc::SYS_landlock_restrict_self,
                ]),
                libc::ENOSYS,
            ),
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
        let program: BpfProgram = SeccompFilter::new(
            rules,
            SeccompAction::Allow,
            SeccompAction::Errno(errno as u32),
            std::env::consts::ARCH.try_into()?,
        )?
        .try_into()?;
        Ok(apply_filter(&program)?)
    }
}
