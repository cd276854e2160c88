//! The network namespace of a command that reaches named hosts or publishes ports. A container of its
//! own makes it: the engine's network there is `none`, and its only program is the launcher of
//! `os-sandbox`, which makes the sockets of the caller's proxy and sends them over a local socket. The
//! command's container joins this network, so it starts only if the sockets exist. The first container
//! ends then. If the command publishes ports, it stays for as long as the command, and makes a socket
//! for each client.
//!
//! The launcher is root without any capability but those over its own network, and has one directory of
//! the host, read-only: with itself, and with the broker's socket. No program of the image runs.

use super::container::{ContainerHandle, ContainerStatus, inspect_status};
use super::container_requests::{no_health_check, separate_host_config};
use super::containers::Containers;
use super::engine::{ANSWER_WITHIN, Engine};
use super::labels::labels;
use super::owner::peer;
use super::private_files::scratch;
use bollard::models::{
    ContainerCreateBody, HostConfig, Mount, MountBindOptions, MountBindOptionsPropagationEnum,
    MountType,
};
use nix::poll::{PollFd, PollFlags, poll};
use os_sandbox::mechanism::{MountSources, serve_own_namespace, static_program};
use os_sandbox::{Command, Error, ErrorKind, ProxySession};
use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bound on the time until the engine has started the launcher, and until it has connected.
const START_WITHIN: Duration = Duration::from_secs(120);
/// Interval between looks at a container whose launcher has not connected.
const LOOK_EVERY_MS: u16 = 250;
/// Path of the directory in the container.
const INSIDE: &str = "/os-sandbox-network";
/// Names in the directory.
const LAUNCHER: &str = "launcher";
const SOCKET: &str = "broker";
/// Exists if this kernel, which is the containers' too, has IPv6. Engines switch it off on a loopback
/// interface that has no other beside it.
const IPV6: (&str, &str) = (
    "/proc/sys/net/ipv6/conf/lo/disable_ipv6",
    "net.ipv6.conf.lo.disable_ipv6",
);

/// A container with the network namespace of a command, and the service of its sockets. Dropping it
/// ends both.
pub(super) struct NamespaceContainer {
    made: ContainerHandle,
    session: Box<dyn ProxySession>,
    /// The launcher ends, and the container with it, when this is closed.
    _control: UnixStream,
}

impl NamespaceContainer {
    /// Makes the namespace and its sockets if the command reaches named hosts or publishes ports.
    pub(super) fn start(
        containers: &Containers,
        engine: &Engine,
        command: &Command,
    ) -> Result<Option<NamespaceContainer>, Error> {
        let plan = command.plan();
        if plan.proxied_hosts().is_none() && plan.published_ports().next().is_none() {
            return Ok(None);
        }
        if !containers.shares_files(command.state_dir())? {
            return Err(unreachable("it does not share the files of this host"));
        }
        let scratch = scratch(plan.policy(), command.state_dir())?;
        let directory = scratch.tmp();
        let listener = prepare(&directory)
            .map_err(|error| Error::io("could not prepare a container's network", error))?;
        let mut sources = MountSources::default();
        sources.add(&directory)?;
        sources.add(&directory.join(LAUNCHER))?;
        let body = request(containers, &directory, command.state_dir())?;
        let (made, launcher) = begin(engine, body)?;
        let control = accept(engine, &made, launcher, &listener)?;
        sources.unchanged()?;
        let session = serve_own_namespace(command, &control)?;
        Ok(Some(NamespaceContainer {
            made,
            session,
            _control: control,
        }))
    }

    /// Returns the engine's name of the network, for the container that joins it.
    pub(super) fn mode(&self) -> String {
        format!("container:{}", self.made.id())
    }

    /// Ends the launcher, once the command's container has joined, unless the service has it make more
    /// sockets. Returns the container, which is to be removed, and the service.
    pub(super) fn joined(self) -> (ContainerHandle, Box<dyn ProxySession>) {
        (self.made, self.session)
    }
}

/// Returns the reason why the containers of an engine cannot pass sockets to this process; `Ok` if
/// nothing speaks against it. Only a start proves that they can.
pub(super) fn can_pass_sockets(
    is_local: bool,
    kernel: Option<&str>,
    shares_files: bool,
) -> Result<(), String> {
    let why = if static_program().is_none() {
        "this system cannot take sockets from a container"
    } else if !is_local {
        "the engine is reached over the network, and sockets are not passed between machines"
    } else if !shares_files {
        "the engine does not share the files of this host, and so no local socket"
    } else if kernel.is_none_or(|kernel| own_kernel().as_deref() != Some(kernel)) {
        "the engine's containers have another kernel than this process, as in a virtual machine, and \
         sockets are not passed between kernels"
    } else {
        return Ok(());
    };
    Err(format!(
        "named hosts and published ports in a container: {why}"
    ))
}

fn own_kernel() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(release.trim().to_owned())
}

/// Puts the launcher into a directory, and listens beside it. Root in the container may have another
/// number outside, so everyone may connect; only the caller passes through the directory around it.
fn prepare(directory: &Path) -> io::Result<UnixListener> {
    let set = |path: &Path, mode: u32| fs::set_permissions(path, Permissions::from_mode(mode));
    let (launcher, socket) = (directory.join(LAUNCHER), directory.join(SOCKET));
    fs::write(&launcher, static_program().unwrap_or_default())?;
    set(&launcher, 0o755)?;
    // Why by the descriptor: the address of a socket has 108 bytes, and a path may be longer.
    let opened = File::open(directory)?;
    let address = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
    let listener = UnixListener::bind(address)?;
    set(&socket, 0o666)?;
    set(directory, 0o755)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn request(
    containers: &Containers,
    directory: &Path,
    state_dir: Option<&Path>,
) -> Result<ContainerCreateBody, Error> {
    let source = super::container_requests::text(directory.as_os_str(), "a path of the host")?;
    let (ipv6, setting) = IPV6;
    let ipv6 = Path::new(ipv6).exists();
    Ok(ContainerCreateBody {
        image: Some(containers.digest().to_owned()),
        hostname: Some("sandbox".to_owned()),
        user: Some("0:0".to_owned()),
        entrypoint: Some(vec![format!("{INSIDE}/{LAUNCHER}")]),
        cmd: Some(vec![format!("{INSIDE}/{SOCKET}")]),
        working_dir: Some("/".to_owned()),
        healthcheck: no_health_check(),
        labels: Some(labels(state_dir)),
        host_config: Some(HostConfig {
            mounts: Some(vec![Mount {
                typ: Some(MountType::BIND),
                source: Some(source),
                target: Some(INSIDE.to_owned()),
                read_only: Some(true),
                bind_options: Some(MountBindOptions {
                    propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
                    ..MountBindOptions::default()
                }),
                ..Mount::default()
            }]),
            network_mode: Some("none".to_owned()),
            // The launcher is the first process, whatever the engine's settings.
            init: Some(false),
            sysctls: ipv6.then(|| HashMap::from([(setting.to_owned(), "0".to_owned())])),
            readonly_rootfs: Some(true),
            // For addresses, and for the resolver's port.
            cap_add: Some(vec!["NET_ADMIN".to_owned(), "NET_BIND_SERVICE".to_owned()]),
            security_opt: Some(vec![
                "no-new-privileges:true".to_owned(),
                // Otherwise SELinux refuses the broker's socket, whose label is a user's.
                "label=disable".to_owned(),
            ]),
            ..separate_host_config()
        }),
        ..ContainerCreateBody::default()
    })
}

/// Starts the container. Returns it with the launcher's number in the engine's namespace, `None` if it
/// has ended.
fn begin(
    engine: &Engine,
    body: ContainerCreateBody,
) -> Result<(ContainerHandle, Option<i64>), Error> {
    let client = engine.client().clone();
    let begun = engine.answered(START_WITHIN, async move {
        let made = client.create_container(None, body).await?;
        let made = ContainerHandle::new(client.clone(), made.id);
        client.start_container(made.id(), None).await?;
        let launcher = made.first_process().await?;
        Ok((made, launcher))
    })?;
    begun.map_err(|error| {
        let error = engine.failed("start the network of named hosts", &error);
        match error.to_string().contains("permission denied") {
            true => error.with_hint(
                "the network's program is in the state directory: choose one on a file system that \
                 is not mounted noexec",
            ),
            false => error,
        }
    })
}

/// Waits for the launcher's connection. A launcher that cannot connect ends at once.
///
/// Another process of this user gets neither the job nor the hosts: its sockets would be those of
/// another network. A process without a number here belongs to a namespace around this one, in which
/// no command of this process runs.
fn accept(
    engine: &Engine,
    made: &ContainerHandle,
    launcher: Option<i64>,
    listener: &UnixListener,
) -> Result<UnixStream, Error> {
    let failed = |error| Error::io("could not wait for a container's network", error);
    let until = Instant::now() + START_WITHIN;
    while Instant::now() < until {
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, LOOK_EVERY_MS) {
            Ok(0) => {}
            Err(nix::Error::EINTR) => continue,
            Err(errno) => return Err(failed(errno.into())),
            Ok(_) => match listener.accept() {
                Ok((control, _)) => {
                    let peer = peer(&control).map_err(failed)?;
                    if peer.is_some_and(|peer| launcher != Some(peer.into())) {
                        continue;
                    }
                    control.set_nonblocking(false).map_err(failed)?;
                    return Ok(control);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(failed(error)),
            },
        }
        let (client, id) = (engine.client().clone(), made.id().to_owned());
        let seen = engine.answered(
            ANSWER_WITHIN,
            async move { inspect_status(&client, &id).await },
        )?;
        match seen.map_err(|error| engine.failed("tell of a container", &error))? {
            ContainerStatus::Runs => {}
            ContainerStatus::Ended(..) | ContainerStatus::Gone => {
                return Err(unreachable(
                    "a program in it does not reach a socket of this process",
                ));
            }
        }
    }
    Err(unreachable("a program in it did not connect in time"))
}

fn unreachable(why: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the container engine cannot hold a command to named hosts: {why}"),
    )
    .with_hint("use an engine of this machine, not one in a virtual machine or on another host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn engines_that_cannot_pass_sockets() {
        let own = own_kernel().unwrap();
        assert_eq!(can_pass_sockets(true, Some(&own), true), Ok(()));
        for (is_local, kernel, shares_files, why) in [
            (false, Some(&*own), true, "over the network"),
            (true, Some("6.10.14-linuxkit"), true, "another kernel"),
            (true, None, true, "another kernel"),
            (true, Some(&*own), false, "share the files"),
        ] {
            let refused = can_pass_sockets(is_local, kernel, shares_files).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    /// The launcher has two capabilities, no network and one directory, and nothing of the image runs.
    #[test]
    fn the_request_for_a_namespace() {
        let body = request(&Containers::assumed(), Path::new("/tmp/x"), None).unwrap();
        let host = body.host_config.unwrap();
        assert_eq!(body.entrypoint.unwrap(), ["/os-sandbox-network/launcher"]);
        assert_eq!(body.cmd.unwrap(), ["/os-sandbox-network/broker"]);
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
        assert_eq!(host.cap_add.unwrap(), ["NET_ADMIN", "NET_BIND_SERVICE"]);
        assert_eq!(
            (host.readonly_rootfs, host.privileged, host.auto_remove),
            (Some(true), Some(false), Some(true))
        );
        let mounts = host.mounts.unwrap();
        let mounts: Vec<_> = mounts
            .iter()
            .map(|mount| (mount.source.as_deref(), mount.read_only))
            .collect();
        assert_eq!(mounts, [(Some("/tmp/x"), Some(true))]);
    }
}
