//! A case's policy, from its words: for the directories of a world, or for a page.

use super::expect::PolicySpec;
use os_sandbox::{
    Access, Environment, Limits, NamedHosts, Network, Policy, PolicyBuilder, UnixSockets,
};
use std::path::{Path, PathBuf};

/// The policy of a case without a host: for plans that are only looked at.
pub(crate) fn assumed(spec: &PolicySpec) -> Result<Policy, String> {
    build(spec, |text| text.replace(['{', '}'], "").into(), None)
}

/// `host` fills the placeholders of a host path; `probe` is the program that tries.
pub(crate) fn build(
    spec: &PolicySpec,
    host: impl Fn(&str) -> PathBuf,
    probe: Option<&Path>,
) -> Result<Policy, String> {
    let run = Access::READ | Access::EXECUTE;
    // A host without directories: any absolute path will do.
    let host = |text: &str| {
        let path = host(text);
        if path.is_absolute() {
            path
        } else {
            Path::new("/assumed").join(path)
        }
    };
    let mut policy: PolicyBuilder = Policy::builder()
        .mount(
            host("{rw}"),
            if spec.root { "/" } else { "/rw" },
            Access::ALL,
        )
        .mount(host("{ro}"), "/ro", run);
    if let Some(probe) = probe {
        policy = policy.mount(probe, "/probe", run);
    }
    for mount in &spec.mounts {
        let [shown, at, access] = mount.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("not a mount: {mount}"));
        };
        policy = policy.mount(host(at), shown, self::access(access)?);
    }
    for pattern in &spec.protect {
        policy = policy.protect(pattern);
    }
    for pattern in &spec.hide {
        policy = policy.hide(pattern);
    }
    for path in &spec.unix_named {
        policy = policy.unix_socket(host(path));
    }
    let (network, sockets) = network(spec)?;
    let mut limits = Limits::default();
    if let Some(mb) = spec.memory_mb {
        limits.memory_bytes = Some(mb << 20);
    }
    if let Some(processes) = spec.processes {
        limits.processes = Some(processes);
    }
    let environment = spec
        .pass
        .iter()
        .fold(Environment::clean(), |environment, name| {
            environment.pass(name)
        });
    policy
        .network(network)
        .unix_sockets(sockets)
        .limits(limits)
        .env(environment)
        .build()
        .map_err(|error| error.to_string())
}

fn access(letters: &str) -> Result<Access, String> {
    letters.chars().try_fold(Access::NONE, |sum, letter| {
        Ok(sum
            | match letter {
                'r' => Access::READ,
                'w' => Access::WRITE,
                'x' => Access::EXECUTE,
                '-' => Access::NONE,
                other => return Err(format!("no such access: {other}")),
            })
    })
}

fn network(spec: &PolicySpec) -> Result<(Network, UnixSockets), String> {
    let network = match spec.network.as_deref() {
        None | Some("denied") => Network::Denied,
        Some("loopback") => Network::Loopback,
        Some("hosts") => Network::Hosts(NamedHosts::new(spec.hosts.clone())),
        Some("unrestricted") => Network::Unrestricted,
        Some(other) => return Err(format!("no such network: {other}")),
    };
    let sockets = if spec.unix_open {
        UnixSockets::Open
    } else {
        UnixSockets::Closed
    };
    Ok((network, sockets))
}
