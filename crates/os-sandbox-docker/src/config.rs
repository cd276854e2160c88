//! Translates a policy and settings into the request to an engine. The functions are pure: the
//! caller passes everything that depends on the host.
//!
//! A container sees nothing of the host except the mounts listed here. Mounts are structures, never
//! strings in which a comma or a colon has a meaning.

use super::container_requests::{no_health_check, separate_host_config, text};
use super::containers::EngineHost;
use super::filter::{FilteredProgram, profile};
use super::inside_paths::{HOME, TMP, WORK};
use super::private_files::PrivateFiles;
use super::settings::Settings;
use bollard::models::{
    ContainerCreateBody, HostConfig, Mount, MountBindOptions, MountBindOptionsPropagationEnum,
    MountType, ResourcesUlimits,
};
use os_sandbox::mechanism::seccomp::{Arch, UnixSocketRule};
use os_sandbox::mechanism::{EffectiveLimits, LayoutContent, LayoutEntry, Owner};
use os_sandbox::{Error, ErrorKind, Network, Policy, ShownContainer, UnixSockets};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Bound on HOME and on TMPDIR; both are in memory.
const SCRATCH_BYTES: u64 = 256 << 20;
/// Smallest share of a processor that a container can work with.
const MIN_CPU_MILLI: u64 = 10;
/// Variable that engines set by themselves.
const HOSTNAME: &str = "HOSTNAME";

/// Input from which a request for a container is made.
pub(super) struct ContainerSpec<'a> {
    pub(super) policy: &'a Policy,
    pub(super) settings: &'a Settings,
    pub(super) host: &'a EngineHost,
    pub(super) digest: &'a str,
    /// Names of the variables that the image sets.
    pub(super) image_variables: &'a [String],
    pub(super) bounds: EffectiveLimits,
    pub(super) user: User,
    pub(super) placed: &'a [LayoutEntry],
    pub(super) private: &'a PrivateFiles,
    pub(super) program: &'a OsStr,
    pub(super) args: &'a [OsString],
    pub(super) variables: &'a BTreeMap<OsString, OsString>,
    pub(super) directory: &'a str,
    pub(super) stdin: bool,
    pub(super) labels: HashMap<String, String>,
    /// The engine's name of the network that the container joins, if it joins one.
    pub(super) joined_network: Option<String>,
}

/// User and group inside the container.
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
    /// Returns the user of a container: the owner of the writable mounts, so that this user owns
    /// the files that the command writes, or the caller if no mount is writable. Only root may run
    /// a container as another user.
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
        // In a rootless engine, root inside is the caller outside, and the other numbers inside are
        // not those of users outside.
        match rootless && user == caller {
            true => Ok(User { uid: 0, gid: 0 }),
            false => Ok(user),
        }
    }
}

/// Returns the request to the engine, and its form in the receipt.
pub(super) fn config(
    wanted: ContainerSpec<'_>,
) -> Result<(ContainerCreateBody, ShownContainer), Error> {
    let shown = shown(&wanted);
    let arguments = wanted.args.iter();
    let arguments = arguments.map(|arg| text(arg, "an argument"));
    let body = ContainerCreateBody {
        // A container that joins a network has the name of the container that it belongs to.
        hostname: wanted
            .joined_network
            .is_none()
            .then(|| "sandbox".to_owned()),
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
        healthcheck: no_health_check(),
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
            // A container without a network still has a loopback of its own.
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
        // The engine mounts /dev/shm by itself, by default with 64 MiB.
        shm_size: Some(number(scratch_bytes(&wanted.bounds))),
        network_mode: Some(match &wanted.joined_network {
            Some(joined) => joined.clone(),
            None => shown.network.clone(),
        }),
        nano_cpus: cpus.map(|milli| number(milli.saturating_mul(1_000_000))),
        memory: memory.map(number),
        // The limit covers memory and swap together, so the container has no swap.
        memory_swap: memory.filter(|_| wanted.host.limits_swap).map(number),
        pids_limit: shown.pids.map(number),
        ulimits: Some(ulimits(wanted.policy)),
        readonly_rootfs: Some(shown.read_only_root),
        security_opt: Some(security(wanted)),
        init: Some(true),
        ..separate_host_config()
    })
}

/// Returns the mounts of the container.
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
    for (file, inside) in &wanted.private.names {
        mounts.push(bind(host, file, (*inside).to_owned(), false)?);
    }
    for own in &wanted.private.own {
        mounts.push(bind(host, &own.host, own.inside.clone(), false)?);
    }
    Ok(mounts)
}

fn bind(host: &EngineHost, from: &Path, inside: String, writable: bool) -> Result<Mount, Error> {
    // If only a directory is made read-only, mounts below it stay writable.
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

/// Returns the bound on each directory in memory.
fn scratch_bytes(bounds: &EffectiveLimits) -> u64 {
    bounds
        .memory_bytes
        .map_or(SCRATCH_BYTES, |bytes| SCRATCH_BYTES.min(bytes / 2))
}

/// Returns the mounts in memory: HOME and TMPDIR.
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
        // A container without a network has a loopback, which needs internet sockets.
        Network::Denied | Network::Loopback | Network::Unrestricted => true,
        _ => wanted.joined_network.is_some(),
    };
    let unix = match wanted.policy.unix_sockets() {
        UnixSockets::Open => UnixSocketRule::Allow,
        _ => UnixSocketRule::Deny,
    };
    let inside = match wanted.settings.own_program {
        true => FilteredProgram::OwnProgram,
        false => FilteredProgram::Target,
    };
    profile(arch, internet, unix, inside)
}

/// Returns the limits of one process.
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

/// Returns the command's variables. An entry with a bare name removes a variable that the image or
/// the engine would add.
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
