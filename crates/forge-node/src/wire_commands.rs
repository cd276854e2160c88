//! The commands of a node's setup, as they go over the wire: made from the broker's policy, planned
//! by the node.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use forge_tools::ProgramList;
use os_sandbox::{
    Access, Directories, Environment, Git, Limits, Network, Plan, Policy, PolicyBuilder,
    Requirement, Support, Survivors, System, UnixSockets,
};
use serde::{Deserialize, Serialize};

use crate::error::NodeError;
use crate::path_mapping::PathMapping;

/// Bytes that need not be text: paths and values of variables.
type Bytes = Vec<u8>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WireCommands {
    mounts: Vec<WireCommandMount>,
    system: System,
    network: Network,
    sockets: UnixSockets,
    survivors_left: bool,
    variables: Vec<(Bytes, Bytes)>,
    #[serde(with = "WireLimits")]
    limits: Limits,
    git: Git,
    protected: Vec<String>,
    hidden: Vec<String>,
    requirement: Requirement,
    pub(crate) programs: Vec<ProgramList>,
    /// The node has a container to itself, in which mounts lie at their sandbox paths.
    pub(crate) own_container: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireCommandMount {
    place: PathBuf,
    shown_at: String,
    read: bool,
    write: bool,
    execute: bool,
    /// Names that count in this mount only.
    protected: Vec<String>,
    hidden: Vec<String>,
    /// Names that reports write in another way.
    #[serde(default)]
    written: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Limits", deny_unknown_fields)]
struct WireLimits {
    #[serde(rename = "wall_ms", with = "milliseconds")]
    wall: Option<Duration>,
    stdout_bytes: usize,
    stderr_bytes: usize,
    #[serde(rename = "cpu_ms", with = "milliseconds")]
    cpu: Option<Duration>,
    open_files: Option<u64>,
    file_bytes: Option<u64>,
    processes: Option<u64>,
    memory_bytes: Option<u64>,
}

/// A time as a number of milliseconds.
mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(forge_tools::millis).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::deserialize(from)?.map(Duration::from_millis))
    }
}

fn owned<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(str::to_owned).collect()
}

impl WireCommands {
    /// Describes commands under `policy`; `places` maps its directories to the node's.
    ///
    /// # Errors
    ///
    /// A directory is missing for the node.
    pub(crate) fn new(
        policy: &Policy,
        requirement: Requirement,
        places: &PathMapping,
    ) -> Result<WireCommands, NodeError> {
        let mut mounts = Vec::with_capacity(policy.mounts().len());
        for mount in policy.mounts() {
            mounts.push(WireCommandMount {
                place: places.find_mount(mount.host(), mount.shown_at())?,
                shown_at: mount.shown_at().to_owned(),
                read: mount.access().contains(Access::READ),
                write: mount.access().contains(Access::WRITE),
                execute: mount.access().contains(Access::EXECUTE),
                protected: owned(policy.protected_in(mount.shown_at())),
                hidden: owned(policy.hidden_in(mount.shown_at())),
                written: policy
                    .written_in(mount.shown_at())
                    .map(|(name, text)| (name.to_owned(), text.to_owned()))
                    .collect(),
            });
        }
        let variables = policy.environment().variables();
        Ok(WireCommands {
            mounts,
            system: policy.system(),
            network: policy.network().clone(),
            sockets: policy.unix_sockets().clone(),
            survivors_left: policy.survivors() == Survivors::Left,
            variables: variables
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect(),
            limits: policy.limits().clone(),
            git: policy.git(),
            protected: owned(policy.protected()),
            hidden: owned(policy.hidden()),
            requirement,
            programs: Vec::new(),
            own_container: matches!(places, PathMapping::Moved(_)),
        })
    }

    /// Plans the commands on this host.
    ///
    /// # Errors
    ///
    /// In words for people: something is not there, or cannot be kept.
    pub(crate) fn plan(self) -> Result<Plan, String> {
        let text = |bytes: Bytes| OsStr::from_bytes(&bytes).to_owned();
        let variables = self.variables.into_iter();
        let environment = variables.fold(Environment::clean(), |all, (name, value)| {
            all.set(text(name), text(value))
        });
        let mut builder = Policy::builder()
            .system(self.system)
            .network(self.network)
            .unix_sockets(self.sockets)
            .survivors(match self.survivors_left {
                true => Survivors::Left,
                false => Survivors::Ended,
            })
            .env(environment)
            .limits(self.limits)
            .git(self.git);
        builder = self.mounts.into_iter().fold(builder, WireCommandMount::add);
        builder = self
            .protected
            .into_iter()
            .fold(builder, PolicyBuilder::protect);
        builder = self.hidden.into_iter().fold(builder, PolicyBuilder::hide);
        let policy = builder.build().map_err(|error| error.to_string())?;
        let support = match self.own_container {
            // The commands would find the stored data in their HOME.
            true => Support::detect_fresh().in_own_container(is_alone()),
            false => Support::detect_cached(&Directories::user()),
        };
        Plan::new(&policy, &support, self.requirement).map_err(|error| error.to_string())
    }
}

impl WireCommandMount {
    /// Adds the mount to a policy, with the names that count in it.
    fn add(mut builder: PolicyBuilder, mount: WireCommandMount) -> PolicyBuilder {
        let access = [
            (mount.read, Access::READ),
            (mount.write, Access::WRITE),
            (mount.execute, Access::EXECUTE),
        ];
        let access = access.into_iter().filter(|(has, _)| *has);
        let access = access.fold(Access::NONE, |all, (_, one)| all | one);
        for name in mount.protected {
            builder = builder.protect_in(&mount.shown_at, name);
        }
        for name in mount.hidden {
            builder = builder.hide_in(&mount.shown_at, name);
        }
        for (name, text) in mount.written {
            builder = builder.written_as(&mount.shown_at, name, text);
        }
        builder.mount_resolved(mount.place, mount.shown_at, access)
    }
}

/// Returns `true` if the network of this process is a loopback interface and no other
/// (`proc_pid_net(5)`: two lines of headings, then one for each device).
fn is_alone() -> bool {
    let devices = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let mut names = devices
        .lines()
        .skip(2)
        .filter_map(|line| line.split(':').next())
        .map(str::trim)
        .filter(|name| !name.is_empty());
    names.next() == Some("lo") && names.next().is_none()
}
