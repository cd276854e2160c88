//! The setup of a node: its files and its policy for commands, at the node's own paths. The broker
//! makes it from its own objects, so that the two cannot drift apart.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::AmbientAuthority;
use file_sandbox::{FileSandbox, HardLinks, Mode, Mount, RootStyle, SandboxPath};
use forge_tools::{MAX_FILE_WRITE_KEY, ProgramList};
use os_sandbox::{
    Access, Directories, Environment, Git, Limits, NamedHosts, Network, Plan, Policy, Requirement,
    Support, Survivors, System, UnixSockets,
};
use serde::{Deserialize, Serialize};

use crate::NodeError;

/// The settings that refusals of a full directory name.
const MAX_TOTAL_KEY: &str = "quota.max_bytes";
const MAX_FILES_KEY: &str = "quota.max_files";

/// The setup of a node; see [`NodeClient::connect`](crate::NodeClient::connect).
///
/// ```
/// use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
/// use forge_node::{PathMapping, Setup};
///
/// # let host = tempfile::tempdir().unwrap();
/// let data = SandboxPath::parse("/data").unwrap();
/// let authority = cap_std::ambient_authority();
/// let mount = Mount::open_ambient(data, host.path(), Mode::ReadOnly, authority).unwrap();
/// let files = FileSandbox::new(vec![mount]).unwrap();
/// let setup = Setup::new().files(&files, &PathMapping::Same).unwrap();
/// # let _ = setup;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    files: Option<WireFiles>,
    commands: Option<WireCommands>,
    max_write_bytes: Option<u64>,
    /// The files of the mounts in memory; sent one by one.
    #[serde(skip)]
    pub(crate) preloaded: Vec<(SandboxPath, Vec<u8>)>,
}

/// Where directories of the broker are for a node.
///
/// ```
/// use forge_node::PathMapping;
/// use os_sandbox::{Access, Policy};
/// use std::path::Path;
///
/// let policy = Policy::builder().mount("/home/me/project", "/", Access::ALL).build().unwrap();
/// let inside = PathMapping::of(&policy);
/// assert_eq!(inside.find(Path::new("/home/me/project/src")).unwrap(), Path::new("/work/src"));
/// assert_eq!(inside.find(Path::new("/home/me")), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathMapping {
    /// At the broker's paths: without a mount in between.
    Same,
    /// Each of these at another place, with everything below it.
    Moved(Vec<(PathBuf, PathBuf)>),
}

impl PathMapping {
    /// Where a policy shows its mounts under a mount layer.
    #[must_use]
    pub fn of(policy: &Policy) -> PathMapping {
        let mounts = policy.mounts().iter();
        PathMapping::Moved(
            mounts
                .map(|mount| (mount.host().to_owned(), PathBuf::from(mount.inside())))
                .collect(),
        )
    }

    /// Where a directory of the broker is for the node; none if it is not there.
    #[must_use]
    pub fn find(&self, host: &Path) -> Option<PathBuf> {
        let moved = match self {
            PathMapping::Same => return Some(host.to_owned()),
            PathMapping::Moved(moved) => moved,
        };
        let longest = moved
            .iter()
            .filter_map(|(from, to)| Some((from, to, host.strip_prefix(from).ok()?)))
            .max_by_key(|(from, _, _)| from.as_os_str().len());
        longest.map(|(_, to, below)| match below.as_os_str().is_empty() {
            true => to.clone(),
            false => to.join(below),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFiles {
    relative_roots: bool,
    mounts: Vec<WireFileMount>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireFileMount {
    path: String,
    /// `None` for a mount in memory.
    place: Option<PathBuf>,
    writable: bool,
    suffixes: Option<Vec<String>>,
    max_file_bytes: Option<u64>,
    max_write_bytes: Option<u64>,
    quota_bytes: Option<u64>,
    quota_files: Option<u64>,
    hard_links: WireLinks,
    strict_paths: bool,
    durable: bool,
    protected: Vec<String>,
    hidden: Vec<String>,
    rules_from: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireLinks {
    Allow,
    ReadOnly,
    Deny,
}

/// Bytes that need not be text: paths and values of variables.
type Bytes = Vec<u8>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireCommands {
    mounts: Vec<WireCommandMount>,
    system: WireSystemView,
    network: WireNetwork,
    sockets: WireSockets,
    survivors_left: bool,
    variables: Vec<(Bytes, Bytes)>,
    limits: WireLimits,
    git: WireGit,
    protected: Vec<String>,
    hidden: Vec<String>,
    requirement: WireRequirement,
    programs: Vec<WirePrograms>,
    /// The node has a container to itself, in which mounts lie at their sandbox paths.
    own_container: bool,
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
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireSystemView {
    Minimal,
    Broad,
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireNetwork {
    Denied,
    Loopback,
    Hosts {
        patterns: Vec<String>,
        denied: Vec<String>,
        ports: Vec<u16>,
        addresses: Vec<SocketAddr>,
    },
    Unrestricted,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireSockets {
    Closed,
    Own,
    Named(Vec<PathBuf>),
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireGit {
    Unaware,
    ReadOnly,
    Commit,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireRequirement {
    Enforce,
    EnforceGuards,
    BestEffort,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireLimits {
    wall_ms: Option<u64>,
    stdout_bytes: usize,
    stderr_bytes: usize,
    cpu_ms: Option<u64>,
    open_files: Option<u64>,
    file_bytes: Option<u64>,
    processes: Option<u64>,
    memory_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WirePrograms {
    allow: Option<Vec<String>>,
    deny: Vec<String>,
}

/// Most bytes of all files in memory mounts together.
const MAX_PLANTED_BYTES: u64 = 64 * 1024 * 1024;

/// Most files there.
const MAX_PLANTED: usize = 10_000;

impl Setup {
    /// Nothing: neither files nor commands.
    #[must_use]
    pub fn new() -> Setup {
        Setup::default()
    }

    /// Adds these files, whose directories are at `places` for the node. The files of read-only
    /// mounts in memory are read here, to be sent along; blocks.
    ///
    /// # Errors
    ///
    /// A directory is missing for the node, or a mount in memory is writable: writes to it would
    /// not arrive here.
    pub fn files(mut self, files: &FileSandbox, places: &PathMapping) -> Result<Setup, NodeError> {
        let mut mounts = Vec::with_capacity(files.mounts().len());
        for mount in files.mounts() {
            let place = match mount.host() {
                Some(host) => Some(
                    places
                        .find(host)
                        .ok_or_else(|| not_there(mount.target().as_str()))?,
                ),
                None if mount.is_memory() && !mount.mode().can_write() => {
                    plant(files, mount.target(), &mut self.preloaded)?;
                    None
                }
                None => return Err(not_there(mount.target().as_str())),
            };
            let limits = mount.limits();
            let rules_from = mount.rule_base();
            let rules_from = rules_from.ok_or_else(|| not_there(mount.target().as_str()))?;
            mounts.push(WireFileMount {
                path: mount.target().as_str().to_owned(),
                place,
                writable: mount.mode().can_write(),
                suffixes: limits.allowed_suffixes().map(<[String]>::to_vec),
                max_file_bytes: limits.file_byte_limit(),
                max_write_bytes: limits.write_byte_limit(),
                quota_bytes: limits.quota_bytes(),
                quota_files: limits.quota_files(),
                hard_links: match limits.hard_link_policy() {
                    HardLinks::Allow => WireLinks::Allow,
                    HardLinks::ReadOnly => WireLinks::ReadOnly,
                    HardLinks::Deny => WireLinks::Deny,
                },
                strict_paths: limits.has_strict_paths(),
                durable: limits.is_durable(),
                protected: mount.protected_names().map(str::to_owned).collect(),
                hidden: mount.hidden_names().map(str::to_owned).collect(),
                rules_from: rules_from.into_iter().map(str::to_owned).collect(),
            });
        }
        self.files = Some(WireFiles {
            relative_roots: match files.root_style() {
                RootStyle::Relative => true,
                RootStyle::Absolute => false,
            },
            mounts,
        });
        Ok(self)
    }

    /// Commands under `policy`, held there as strictly as `requirement` says. Variables have the
    /// values that they have here.
    ///
    /// # Errors
    ///
    /// A directory is not there for the node.
    pub fn commands(
        mut self,
        policy: &Policy,
        requirement: Requirement,
        places: &PathMapping,
    ) -> Result<Setup, NodeError> {
        let own = |names: &mut dyn Iterator<Item = &str>| names.map(str::to_owned).collect();
        let mut mounts = Vec::with_capacity(policy.mounts().len());
        for mount in policy.mounts() {
            let place = places.find(mount.host());
            mounts.push(WireCommandMount {
                place: place.ok_or_else(|| not_there(mount.shown_at()))?,
                shown_at: mount.shown_at().to_owned(),
                read: mount.access().contains(Access::READ),
                write: mount.access().contains(Access::WRITE),
                execute: mount.access().contains(Access::EXECUTE),
                protected: own(&mut policy.protected_in(mount.shown_at())),
                hidden: own(&mut policy.hidden_in(mount.shown_at())),
            });
        }
        let variables = policy.environment().variables();
        let limits = policy.limits();
        self.commands = Some(WireCommands {
            mounts,
            system: match policy.system() {
                System::Minimal => WireSystemView::Minimal,
                System::BroadRead => WireSystemView::Broad,
                System::None => WireSystemView::Nothing,
            },
            network: match policy.network() {
                Network::Loopback => WireNetwork::Loopback,
                Network::Hosts(hosts) => WireNetwork::Hosts {
                    patterns: hosts.patterns().to_vec(),
                    denied: hosts.denied().to_vec(),
                    ports: hosts.ports().collect(),
                    addresses: hosts.addresses().collect(),
                },
                Network::Unrestricted => WireNetwork::Unrestricted,
                // Denied, or one that this version cannot send.
                _ => WireNetwork::Denied,
            },
            sockets: match policy.unix_sockets() {
                UnixSockets::Own => WireSockets::Own,
                UnixSockets::Named(paths) => WireSockets::Named(paths.clone()),
                UnixSockets::Open => WireSockets::Open,
                _ => WireSockets::Closed,
            },
            survivors_left: match policy.survivors() {
                Survivors::Left => true,
                Survivors::Ended => false,
            },
            variables: variables
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect(),
            limits: WireLimits {
                wall_ms: limits.wall.map(milliseconds),
                stdout_bytes: limits.stdout_bytes,
                stderr_bytes: limits.stderr_bytes,
                cpu_ms: limits.cpu.map(milliseconds),
                open_files: limits.open_files,
                file_bytes: limits.file_bytes,
                processes: limits.processes,
                memory_bytes: limits.memory_bytes,
            },
            git: match policy.git() {
                Git::Unaware => WireGit::Unaware,
                Git::ReadOnly => WireGit::ReadOnly,
                Git::Commit => WireGit::Commit,
            },
            protected: policy.protected().map(str::to_owned).collect(),
            hidden: policy.hidden().map(str::to_owned).collect(),
            requirement: match requirement {
                Requirement::Enforce => WireRequirement::Enforce,
                Requirement::EnforceGuards => WireRequirement::EnforceGuards,
                Requirement::BestEffort => WireRequirement::BestEffort,
            },
            programs: Vec::new(),
            own_container: match places {
                PathMapping::Moved(_) => true,
                PathMapping::Same => false,
            },
        });
        Ok(self)
    }

    /// Which programs may be started, looked at once more where they are. Say it after
    /// [`commands`](Self::commands).
    #[must_use]
    pub fn programs(mut self, lists: &[ProgramList]) -> Setup {
        if let Some(commands) = &mut self.commands {
            commands.programs = lists
                .iter()
                .map(|list| WirePrograms {
                    allow: list.allow.clone(),
                    deny: list.deny.clone(),
                })
                .collect();
        }
        self
    }

    /// Most bytes that one call may write to a file.
    #[must_use]
    pub fn max_write_bytes(mut self, bytes: u64) -> Setup {
        self.max_write_bytes = Some(bytes);
        self
    }
}

/// A setup, opened.
pub(crate) struct OpenedSetup {
    pub(crate) files: Option<FileSandbox>,
    /// Those in memory, which can still be filled.
    pub(crate) memory: Vec<Mount>,
    pub(crate) plan: Option<Plan>,
    pub(crate) programs: Vec<ProgramList>,
    /// The programs are those of a container's image.
    pub(crate) own_container: bool,
    pub(crate) max_write_bytes: Option<u64>,
}

impl Setup {
    /// Opens the files and the plan. Blocks.
    ///
    /// # Errors
    ///
    /// In words for people: something is not there, or cannot be kept.
    pub(crate) fn open(self, authority: AmbientAuthority) -> Result<OpenedSetup, String> {
        let mut opened = OpenedSetup {
            files: None,
            memory: Vec::new(),
            plan: None,
            programs: Vec::new(),
            own_container: false,
            max_write_bytes: self.max_write_bytes,
        };
        if let Some(files) = self.files {
            let style = match files.relative_roots {
                true => RootStyle::Relative,
                false => RootStyle::Absolute,
            };
            let mut builder = FileSandbox::builder().root_style(style);
            for mount in files.mounts {
                let memory = mount.place.is_none();
                let mount = mount.open(authority).map_err(|error| error.to_string())?;
                if memory {
                    opened.memory.push(mount.clone());
                }
                builder = builder.mount(mount);
            }
            opened.files = Some(builder.build().map_err(|error| error.to_string())?);
        }
        if let Some(mut commands) = self.commands {
            let programs = std::mem::take(&mut commands.programs);
            opened.programs = programs
                .into_iter()
                .map(|list| ProgramList {
                    allow: list.allow,
                    deny: list.deny,
                    ..ProgramList::default()
                })
                .collect();
            opened.own_container = commands.own_container;
            opened.plan = Some(commands.plan()?);
        }
        Ok(opened)
    }
}

impl WireFileMount {
    fn open(self, authority: AmbientAuthority) -> Result<Mount, file_sandbox::Error> {
        let target = SandboxPath::parse(&self.path)?;
        let mode = match self.writable {
            true => Mode::ReadWrite,
            false => Mode::ReadOnly,
        };
        let mount = match &self.place {
            Some(place) => Mount::open_ambient(target, place, mode, authority)?,
            None => Mount::memory(target, mode),
        };
        let mut limits = file_sandbox::Limits::new()
            .strict_paths(self.strict_paths)
            .durable(self.durable)
            .hard_links(match self.hard_links {
                WireLinks::Allow => HardLinks::Allow,
                WireLinks::ReadOnly => HardLinks::ReadOnly,
                WireLinks::Deny => HardLinks::Deny,
            });
        if let Some(suffixes) = &self.suffixes {
            limits = limits.suffixes(suffixes);
        }
        if let Some(max) = self.max_file_bytes {
            limits = limits.max_file_bytes(max);
        }
        if let Some(max) = self.max_write_bytes {
            limits = limits.max_write_bytes(max, MAX_FILE_WRITE_KEY);
        }
        if let Some(max) = self.quota_bytes {
            limits = limits.max_total_bytes(max, MAX_TOTAL_KEY);
        }
        if let Some(max) = self.quota_files {
            limits = limits.max_files(max, MAX_FILES_KEY);
        }
        Ok(mount
            .with_limits(limits)
            .protect(&self.protected)?
            .hide(&self.hidden)?
            .with_rule_base(&self.rules_from))
    }
}

impl WireCommands {
    fn plan(self) -> Result<Plan, String> {
        let text = |bytes: Bytes| std::ffi::OsStr::from_bytes(&bytes).to_owned();
        let mut environment = Environment::clean();
        for (name, value) in self.variables {
            environment = environment.set(text(name), text(value));
        }
        let limits = self.limits;
        let mut builder = Policy::builder()
            .system(match self.system {
                WireSystemView::Minimal => System::Minimal,
                WireSystemView::Broad => System::BroadRead,
                WireSystemView::Nothing => System::None,
            })
            .network(match self.network {
                WireNetwork::Denied => Network::Denied,
                WireNetwork::Loopback => Network::Loopback,
                WireNetwork::Hosts {
                    patterns,
                    denied,
                    ports,
                    addresses,
                } => {
                    let hosts = NamedHosts::new(patterns);
                    let hosts = denied.into_iter().fold(hosts, NamedHosts::deny);
                    let hosts = ports.into_iter().fold(hosts, NamedHosts::port);
                    Network::Hosts(addresses.into_iter().fold(hosts, NamedHosts::address))
                }
                WireNetwork::Unrestricted => Network::Unrestricted,
            })
            .unix_sockets(match self.sockets {
                WireSockets::Closed => UnixSockets::Closed,
                WireSockets::Own => UnixSockets::Own,
                WireSockets::Named(paths) => UnixSockets::Named(paths),
                WireSockets::Open => UnixSockets::Open,
            })
            .survivors(match self.survivors_left {
                true => Survivors::Left,
                false => Survivors::Ended,
            })
            .env(environment)
            .limits(Limits {
                wall: limits.wall_ms.map(Duration::from_millis),
                stdout_bytes: limits.stdout_bytes,
                stderr_bytes: limits.stderr_bytes,
                cpu: limits.cpu_ms.map(Duration::from_millis),
                open_files: limits.open_files,
                file_bytes: limits.file_bytes,
                processes: limits.processes,
                memory_bytes: limits.memory_bytes,
            })
            .git(match self.git {
                WireGit::Unaware => Git::Unaware,
                WireGit::ReadOnly => Git::ReadOnly,
                WireGit::Commit => Git::Commit,
            });
        for mount in self.mounts {
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
            builder = builder.mount_resolved(mount.place, mount.shown_at, access);
        }
        for name in self.protected {
            builder = builder.protect(name);
        }
        for name in self.hidden {
            builder = builder.hide(name);
        }
        let policy = builder.build().map_err(|error| error.to_string())?;
        let requirement = match self.requirement {
            WireRequirement::Enforce => Requirement::Enforce,
            WireRequirement::EnforceGuards => Requirement::EnforceGuards,
            WireRequirement::BestEffort => Requirement::BestEffort,
        };
        let support = match self.own_container {
            // The commands would find the stored data in their HOME.
            true => Support::detect_fresh().in_own_container(is_alone()),
            false => Support::detect_cached(&Directories::user()),
        };
        Plan::new(&policy, &support, requirement).map_err(|error| error.to_string())
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

/// Copies the files of a mount in memory.
fn plant(
    files: &FileSandbox,
    top: &SandboxPath,
    into: &mut Vec<(SandboxPath, Vec<u8>)>,
) -> Result<(), NodeError> {
    let refused = |why: String| NodeError::Unsupported(format!("{}: {why}", top.as_str()));
    let options = file_sandbox::ListOptions::new().max_entries(MAX_PLANTED);
    let options = options.pattern("**/*");
    let listed = files.list(top, options);
    let listed = listed.map_err(|error| refused(error.to_string()))?;
    let mut left = MAX_PLANTED_BYTES;
    for (_, bytes) in into.iter() {
        left = left.saturating_sub(bytes.len() as u64);
    }
    if listed.more {
        return Err(refused("it holds too many files to be sent".to_owned()));
    }
    for entry in listed.entries {
        if entry.kind != file_sandbox::EntryKind::File {
            continue;
        }
        let path = top.join(&entry.name);
        let path = path.map_err(|error| refused(error.to_string()))?;
        let bytes = files.read_bytes(&path, left);
        let bytes = bytes.map_err(|error| refused(error.to_string()))?;
        left = left.saturating_sub(bytes.len() as u64);
        into.push((path, bytes));
    }
    Ok(())
}

fn not_there(mount: &str) -> NodeError {
    NodeError::Unsupported(format!("{mount} cannot be had there"))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
