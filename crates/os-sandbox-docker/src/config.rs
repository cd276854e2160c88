//! Policy and settings → what an engine is asked for. Pure: everything that had to be looked at is
//! handed in.
//!
//! Of the host a container sees what is listed here and nothing else: mounts as structures, never as
//! strings in which a comma or a colon means something.

use super::containers::Host;
use super::filter::{Inside, profile};
use super::inside::{HOME, TMP, WORK, text};
use super::place::Private;
use super::settings::Settings;
use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType, ResourcesUlimits,
};
use os_sandbox::mechanism::seccomp::{Arch, UnixSocketRule};
use os_sandbox::mechanism::{EffectiveLimits, LayoutContent, LayoutEntry, Owner};
use os_sandbox::{Error, ErrorKind, Network, Policy, ShownContainer, UnixSockets};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Bound on HOME, and on TMPDIR; both are memory.
const SCRATCH_BYTES: u64 = 256 << 20;
/// What no container can do with less of.
const MIN_CPU_MILLI: u64 = 10;
/// A variable that engines set by themselves.
const HOSTNAME: &str = "HOSTNAME";

/// What a container is made of.
pub(super) struct ContainerSpec<'a> {
    pub(super) policy: &'a Policy,
    pub(super) settings: &'a Settings,
    pub(super) host: &'a Host,
    pub(super) digest: &'a str,
    /// The names of the variables that the image sets.
    pub(super) image_variables: &'a [String],
    pub(super) bounds: EffectiveLimits,
    pub(super) user: User,
    pub(super) placed: &'a [LayoutEntry],
    pub(super) private: &'a Private,
    pub(super) program: &'a OsStr,
    pub(super) args: &'a [OsString],
    pub(super) variables: &'a BTreeMap<OsString, OsString>,
    pub(super) directory: &'a str,
    pub(super) stdin: bool,
    pub(super) labels: HashMap<String, String>,
}

/// User and group inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

impl User {
    /// Whoever owns what can be written, so that what is written is theirs; the caller, if nothing
    /// can be. Only root may be somebody else.
    pub(super) fn of(owners: &[Owner], caller: User, rootless: bool) -> Result<User, Error> {
        let user = match owners {
            [] => caller,
            [first, rest @ ..] => {
                if let Some(other) = rest.iter().find(|other| other.uid != first.uid) {
                    return Err(Error::invalid(format!(
                        "{} belongs to user {}, and {} to user {}: a container has one user",
                        first.name, first.uid, other.name, other.uid
                    ))
                    .with_hint("give both to one user, or let one of them be read only"));
                }
                if first.uid == caller.uid {
                    caller
                } else if caller.uid == 0 {
                    User {
                        uid: first.uid,
                        gid: first.gid,
                    }
                } else {
                    return Err(Error::invalid(format!(
                        "{} belongs to user {}, and the caller is user {}",
                        first.name, first.uid, caller.uid
                    ))
                    .with_hint("take it over, or let it be read only"));
                }
            }
        };
        // There, root inside is the caller outside, and nobody else's number is anybody's.
        match rootless && user == caller {
            true => Ok(User { uid: 0, gid: 0 }),
            false => Ok(user),
        }
    }
}

/// Returns what the engine is asked for, and how the receipt has it.
pub(super) fn config(
    wanted: ContainerSpec<'_>,
) -> Result<(ContainerCreateBody, ShownContainer), Error> {
    let shown = shown(&wanted);
    let arguments = wanted.args.iter();
    let arguments = arguments.map(|arg| text(arg, "an argument"));
    let body = ContainerCreateBody {
        hostname: Some("sandbox".to_owned()),
        user: Some(shown.user.clone()),
        attach_stdin: Some(wanted.stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(wanted.stdin),
        stdin_once: Some(wanted.stdin),
        tty: Some(false),
        host_config: Some(host_config(&wanted, &shown)?),
        env: Some(environment(&wanted)?),
        entrypoint: Some(vec![text(wanted.program, "the program")?]),
        cmd: Some(arguments.collect::<Result<_, _>>()?),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        image: Some(wanted.digest.to_owned()),
        working_dir: Some(wanted.directory.to_owned()),
        labels: Some(wanted.labels),
        ..ContainerCreateBody::default()
    };
    Ok((body, shown))
}

/// Returns the limits, the user and the network of a container.
fn shown(wanted: &ContainerSpec<'_>) -> ShownContainer {
    let ContainerSpec {
        settings,
        host,
        bounds,
        ..
    } = wanted;
    ShownContainer {
        engine: host.version.clone(),
        image: settings.image.as_str().to_owned(),
        digest: wanted.digest.to_owned(),
        user: wanted.user.to_string(),
        network: match wanted.policy.network() {
            Network::Unrestricted => settings.network.clone(),
            // Without a network there is still a loopback of its own.
            _ => "none".to_owned(),
        },
        cpu_milli: settings.cpu_milli.map(|milli| {
            let most = host.cpus.map_or(u64::MAX, |cpus| cpus.saturating_mul(1000));
            milli.clamp(MIN_CPU_MILLI, most.max(MIN_CPU_MILLI))
        }),
        memory_bytes: bounds.memory_bytes.filter(|_| host.limits_memory),
        pids: bounds.processes.filter(|_| host.limits_processes),
        read_only_root: settings.read_only_root,
    }
}

fn host_config(wanted: &ContainerSpec<'_>, shown: &ShownContainer) -> Result<HostConfig, Error> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let memory = shown.memory_bytes;
    let cpus = shown.cpu_milli;
    Ok(HostConfig {
        mounts: Some(mounts(wanted)?),
        tmpfs: Some(scratch(wanted.user, &wanted.bounds)),
        // /dev/shm, which the engine mounts by itself, and otherwise with 64 MiB.
        shm_size: Some(number(scratch_bytes(&wanted.bounds))),
        network_mode: Some(shown.network.clone()),
        nano_cpus: cpus.map(|milli| number(milli.saturating_mul(1_000_000))),
        memory: memory.map(number),
        // Memory and swap together: no swap.
        memory_swap: memory.filter(|_| wanted.host.limits_swap).map(number),
        pids_limit: shown.pids.map(number),
        ulimits: Some(ulimits(wanted.policy)),
        readonly_rootfs: Some(shown.read_only_root),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(security(wanted)),
        privileged: Some(false),
        init: Some(true),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        // If nobody is left to remove it.
        auto_remove: Some(true),
        // What it prints is read as it comes, and kept nowhere else.
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        ..HostConfig::default()
    })
}

/// What is mounted.
fn mounts(wanted: &ContainerSpec<'_>) -> Result<Vec<Mount>, Error> {
    let host = wanted.host;
    let mut mounts = Vec::new();
    if let Some(work) = &wanted.private.work {
        mounts.push(bind(host, work, WORK.to_owned(), false)?);
    }
    for one in wanted.placed {
        let inside = text(one.inside.as_os_str(), "a place in a mount")?;
        match &one.what {
            LayoutContent::Host { from, writable } => {
                mounts.push(bind(host, from, inside, *writable)?)
            }
            LayoutContent::Closed { is_dir } => {
                let gone =
                    || Error::new(ErrorKind::Enforcement, "nothing stands for a closed place");
                let closed = wanted.private.closed.as_ref().ok_or_else(gone)?;
                let closed = match is_dir {
                    true => &closed.directory,
                    false => &closed.file,
                };
                mounts.push(bind(host, closed, inside, false)?);
            }
        }
    }
    for own in &wanted.settings.mounts {
        mounts.push(bind(host, &own.host, own.inside.clone(), false)?);
    }
    Ok(mounts)
}

fn bind(host: &Host, from: &Path, inside: String, writable: bool) -> Result<Mount, Error> {
    // What is mounted below a directory stays writable if only the directory is made read-only.
    let recursive = host.read_only_below;
    Ok(Mount {
        typ: Some(MountType::BIND),
        source: Some(text(from.as_os_str(), "a path of the host")?),
        target: Some(inside),
        read_only: Some(!writable),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            non_recursive: (!writable && !recursive).then_some(true),
            read_only_force_recursive: (!writable && recursive).then_some(true),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    })
}

/// Bound on each place in memory.
fn scratch_bytes(bounds: &EffectiveLimits) -> u64 {
    bounds
        .memory_bytes
        .map_or(SCRATCH_BYTES, |bytes| SCRATCH_BYTES.min(bytes / 2))
}

/// HOME and TMPDIR, in memory.
fn scratch(user: User, bounds: &EffectiveLimits) -> HashMap<String, String> {
    let bytes = scratch_bytes(bounds);
    let of = |mode: &str| {
        let User { uid, gid } = user;
        format!("rw,exec,nosuid,nodev,size={bytes},mode={mode},uid={uid},gid={gid}")
    };
    HashMap::from([(HOME.to_owned(), of("0700")), (TMP.to_owned(), of("1777"))])
}

fn security(wanted: &ContainerSpec<'_>) -> Vec<String> {
    let mut out = vec!["no-new-privileges:true".to_owned()];
    if let Some(arch) = wanted.host.arch.filter(|_| wanted.host.filters) {
        out.push(format!("seccomp={}", filter(wanted, arch)));
    }
    out
}

fn filter(wanted: &ContainerSpec<'_>, arch: Arch) -> String {
    let internet = match wanted.policy.network() {
        // A container without a network has a loopback all the same.
        Network::Denied | Network::Loopback | Network::Unrestricted => true,
        _ => false,
    };
    let unix = match wanted.policy.unix_sockets() {
        UnixSockets::Open => UnixSocketRule::Allow,
        _ => UnixSocketRule::Deny,
    };
    let inside = match wanted.settings.own_program {
        true => Inside::OwnProgram,
        false => Inside::Target,
    };
    profile(arch, internet, unix, inside)
}

/// Limits of one process.
fn ulimits(policy: &Policy) -> Vec<ResourcesUlimits> {
    let limits = policy.limits();
    let seconds = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
    [
        ("core", Some(0)),
        ("cpu", limits.cpu.map(seconds)),
        ("fsize", limits.file_bytes),
        ("nofile", limits.open_files),
    ]
    .into_iter()
    .filter_map(|(name, limit)| {
        let limit = i64::try_from(limit?).ok()?;
        Some(ResourcesUlimits {
            name: Some(name.to_owned()),
            soft: Some(limit),
            hard: Some(limit),
        })
    })
    .collect()
}

/// The command's variables. What the image or the engine would add is taken out by its bare name.
fn environment(wanted: &ContainerSpec<'_>) -> Result<Vec<String>, Error> {
    let mut out = Vec::new();
    for (name, value) in wanted.variables {
        let (name, value) = (text(name, "a variable")?, text(value, "a variable")?);
        out.push(format!("{name}={value}"));
    }
    let others = wanted.image_variables.iter().map(String::as_str);
    let others = others
        .chain([HOSTNAME])
        .filter(|name| !name.is_empty() && !wanted.variables.contains_key(OsStr::new(name)));
    out.extend(others.map(str::to_owned));
    Ok(out)
}

#[cfg(test)]
mod tests;
