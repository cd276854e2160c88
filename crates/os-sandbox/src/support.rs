//! The mechanisms that a host can enforce, as data.

use crate::backend::Backend;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The mechanisms that a host can enforce.
///
/// ```
/// use os_sandbox::{HostSpec, Support};
///
/// let old = Support::assume(HostSpec { landlock_abi: 2, seccomp: true, ..HostSpec::default() });
/// assert_eq!(old.landlock_abi(), 2);
/// assert!(old.bubblewrap().is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Support {
    pub(crate) launcher: Availability<()>,
    pub(crate) seccomp: Availability<()>,
    pub(crate) landlock: Availability<Landlock>,
    /// Support for namespaces that the launcher makes.
    pub(crate) namespaces: Availability<()>,
    pub(crate) bubblewrap: Availability<Bubblewrap>,
    /// Support for mounts inside mounts by descriptor, under bubblewrap.
    pub(crate) pins: Availability<()>,
    pub(crate) memory_group: Availability<ControlGroup>,
    pub(crate) process_group: Availability<ControlGroup>,
    /// Memory of the machine. `None` if it is unknown.
    pub(crate) machine_bytes: Option<u64>,
    pub(crate) connector: ConnectorSupport,
    /// `None` until the caller has named its program.
    pub(crate) birdcage: Option<Availability<PathBuf>>,
    /// `None` until the caller has handed over an engine.
    pub(crate) containers: Option<ContainerSupport>,
    /// `None` on systems that cannot have it.
    pub(crate) seatbelt: Option<Availability<()>>,
    pub(crate) uid_zero: bool,
    /// See [`Support::in_own_container`].
    pub(crate) own_container: bool,
    /// See [`Support::in_own_container`].
    pub(crate) own_network: bool,
}

/// The availability of a process outside that connects sockets for the command, under each mechanism
/// that can have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectorSupport(Vec<(Backend, Availability<()>)>);

impl ConnectorSupport {
    /// The same under each of them.
    pub(crate) fn all(of_each: impl Fn() -> Availability<()>) -> ConnectorSupport {
        let mechanisms = Backend::AUTOMATIC.into_iter();
        let mechanisms = mechanisms.filter(|backend| backend.properties().connector.is_some());
        ConnectorSupport(mechanisms.map(|backend| (backend, of_each())).collect())
    }

    pub(crate) fn get(&self, backend: Backend) -> &Availability<()> {
        let row = self.0.iter().find(|(of, _)| *of == backend);
        row.map_or(&NOT_OFFERED, |(_, found)| found)
    }

    pub(crate) fn set(&mut self, backend: Backend, found: Availability<()>) {
        if let Some((_, old)) = self.0.iter_mut().find(|(of, _)| *of == backend) {
            *old = found;
        }
    }

    /// The mechanisms under which it works.
    pub(crate) fn working(&self) -> impl Iterator<Item = Backend> {
        let works = self.0.iter().filter(|(_, found)| found.found().is_some());
        works.map(|(backend, _)| *backend)
    }
}

/// A control group that can have child groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControlGroup {
    pub(crate) parent: PathBuf,
    pub(crate) version: GroupVersion,
    /// A limit of the caller's own group that a group made here would not be subject to.
    pub(crate) ceiling: Option<u64>,
}

/// The kernel's two interfaces to control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupVersion {
    One,
    Two,
}

/// The promises that the containers of an engine can keep. The default keeps all that containers
/// can, and has no limits of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSupport {
    /// `true` if the engine applies system call filters.
    pub filters: bool,
    /// `true` if the program of a container confines what it starts.
    pub own_program: bool,
    /// `true` if the memory of a whole container can be limited.
    pub limits_memory: bool,
    /// `true` if the processes of a whole container can be limited.
    pub limits_processes: bool,
    /// The limit on memory that every container has.
    pub memory_bytes: Option<u64>,
    /// The limit on processes that every container has.
    pub processes: Option<u64>,
    /// Memory of the engine's machine. `None` if it is unknown.
    pub machine_bytes: Option<u64>,
    /// `Ok` if a proxy of the caller can get sockets in a container's network, else the reason.
    pub named_hosts: Result<(), String>,
}

impl Default for ContainerSupport {
    fn default() -> ContainerSupport {
        ContainerSupport {
            filters: true,
            own_program: false,
            limits_memory: true,
            limits_processes: true,
            memory_bytes: None,
            processes: None,
            machine_bytes: None,
            named_hosts: Ok(()),
        }
    }
}

/// Prefix of a reason that only reports a missing prerequisite.
pub(crate) const UNTRIED: &str = "cannot be tried without";

/// A mechanism that works here, or the reason of its absence and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Availability<T> {
    Works(T),
    Missing {
        reason: String,
        how: String,
        /// `true` if it could not be tried, for a shortage of processes, memory, descriptors or
        /// namespaces.
        is_untried: bool,
    },
}

/// Remedy of a shortage.
const SHORTAGE: &str =
    "try again when fewer programs run, or with a higher limit (ulimit -u, ulimit -n, pids.max)";

impl<T> Availability<T> {
    pub(crate) fn missing(reason: impl Into<String>, how: impl Into<String>) -> Availability<T> {
        Availability::Missing {
            reason: reason.into(),
            how: how.into(),
            is_untried: false,
        }
    }

    pub(crate) fn untried(reason: String) -> Availability<T> {
        Availability::Missing {
            reason,
            how: SHORTAGE.to_owned(),
            is_untried: true,
        }
    }

    fn switched_off() -> Availability<T> {
        Availability::missing("switched off by the caller", "")
    }
}

/// One mechanism of a host, as [`Support::mechanisms`] lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MechanismReport {
    /// The mechanism, such as `landlock`.
    pub name: &'static str,
    /// `true` if it works here.
    pub works: bool,
    /// Its version and path. If it does not work, the reason and a remedy.
    pub details: Vec<String>,
}

impl MechanismReport {
    fn new(name: &'static str, found: Result<String, (&str, &str)>) -> MechanismReport {
        let (works, details) = match found {
            Ok(detail) => (true, vec![detail]),
            Err((reason, how)) => (false, vec![reason.to_owned(), how.to_owned()]),
        };
        MechanismReport {
            name,
            works,
            details: details
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect(),
        }
    }
}

/// The kernel's Landlock version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Landlock {
    pub(crate) abi: u32,
    pub(crate) errata: u32,
}

/// The `bwrap` that works here.
///
/// ```
/// if let Some(bwrap) = os_sandbox::Support::detect().bubblewrap() {
///     println!("{} {}", bwrap.path().display(), bwrap.version());
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bubblewrap {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

impl Bubblewrap {
    sandbox_names::getters! {
        /// Returns the path of the program.
        pub path: &Path = &path;
        /// Returns the version that the program reports, such as `0.8.0`.
        pub version: &str = &version;
    }
}

/// The description of a host, for tests and for plans of other hosts. The default describes a host
/// without any mechanism.
///
/// ```
/// use os_sandbox::{HostSpec, Plan, Policy, Requirement, Support};
///
/// let bare = Support::assume(HostSpec::default());
/// assert!(Plan::new(&Policy::builder().build()?, &bare, Requirement::Enforce).is_err());
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct HostSpec {
    /// The Landlock version. 0 means that Landlock is missing.
    pub landlock_abi: u32,
    /// The fixed Landlock errata, as a bit set.
    pub landlock_errata: u32,
    /// `true` if system call filters work.
    pub seccomp: bool,
    /// `true` if the launcher can make namespaces with mounts.
    pub namespaces: bool,
    /// The version of `/usr/bin/bwrap`, if it works.
    pub bubblewrap: Option<String>,
    /// `true` if mounts inside mounts can be made by descriptor, which needs a user namespace
    /// within bubblewrap's.
    pub pins_by_descriptor: bool,
    /// `true` if a process outside can connect named sockets for the command.
    pub connector: bool,
    /// `true` if birdcage works, by a program that the caller has named.
    pub birdcage: bool,
    /// `true` if the caller handed over an engine whose containers enforce all that containers can.
    pub docker: bool,
    /// `true` if `/usr/bin/sandbox-exec` works.
    pub seatbelt: bool,
    /// `true` if control groups that limit memory can be made.
    pub memory_cgroup: bool,
    /// `true` if control groups that limit processes can be made.
    pub process_cgroup: bool,
    /// Memory of the machine. `None` if it is unknown.
    pub memory_bytes: Option<u64>,
    /// `true` if the caller is uid 0.
    pub uid_zero: bool,
}

impl Support {
    /// Returns a host on which nothing works for one reason, to be filled in by probes.
    pub(crate) fn without_mechanisms(reason: &str, how: &str) -> Support {
        fn missing<T>((reason, how): (&str, &str)) -> Availability<T> {
            Availability::missing(reason, how)
        }
        let why = (reason, how);
        Support {
            launcher: missing(why),
            seccomp: missing(why),
            landlock: missing(why),
            namespaces: missing(why),
            bubblewrap: missing(why),
            pins: missing(why),
            connector: ConnectorSupport::all(|| missing(why)),
            birdcage: None,
            containers: None,
            seatbelt: None,
            memory_group: missing(why),
            process_group: missing(why),
            machine_bytes: None,
            uid_zero: nix::unistd::geteuid().is_root(),
            own_container: false,
            own_network: false,
        }
    }

    /// Returns the mechanism with mounts that could not be tried, for a shortage.
    pub(crate) fn untried(&self) -> Option<Backend> {
        match (self.namespaces.is_untried(), self.bubblewrap.is_untried()) {
            (true, _) => Some(Backend::Namespaces),
            (false, true) => Some(Backend::Bubblewrap),
            (false, false) => None,
        }
    }

    /// Returns the support of a host as described, without detection.
    #[must_use]
    pub fn assume(host: HostSpec) -> Support {
        fn missing<T>() -> Availability<T> {
            Availability::missing("assumed to be missing", "")
        }
        let group = |there: bool| {
            if there {
                Availability::Works(ControlGroup {
                    parent: PathBuf::from("/sys/fs/cgroup"),
                    version: GroupVersion::Two,
                    ceiling: None,
                })
            } else {
                missing()
            }
        };
        let when = |there: bool| match there {
            true => Availability::Works(()),
            false => missing(),
        };
        Support {
            launcher: Availability::Works(()),
            seccomp: when(host.seccomp),
            landlock: match host.landlock_abi {
                0 => missing(),
                abi => Availability::Works(Landlock {
                    abi,
                    errata: host.landlock_errata,
                }),
            },
            namespaces: when(host.namespaces),
            bubblewrap: match host.bubblewrap {
                None => missing(),
                Some(version) => Availability::Works(Bubblewrap {
                    path: PathBuf::from("/usr/bin/bwrap"),
                    version,
                }),
            },
            pins: when(host.pins_by_descriptor),
            connector: ConnectorSupport::all(|| when(host.connector)),
            birdcage: host
                .birdcage
                .then(|| Availability::Works(PathBuf::from("/usr/bin/os-sandbox-birdcage"))),
            containers: host.docker.then(ContainerSupport::default),
            seatbelt: host.seatbelt.then_some(Availability::Works(())),
            memory_group: group(host.memory_cgroup),
            process_group: group(host.process_cgroup),
            machine_bytes: host.memory_bytes,
            uid_zero: host.uid_zero,
            own_container: false,
            own_network: false,
        }
    }

    /// Returns this host as a container that was started for the caller's commands under
    /// [`Backend::Docker`]. Commands find the file layout of bubblewrap there: mounts at their
    /// sandbox paths, `/work` as working directory, and `/tmp`, `/dev/shm` and HOME to write to.
    /// They can read the image. If the container's network (`own_network`) is only a loopback
    /// interface, a command without a network has that interface, and a policy with named hosts holds:
    /// whoever started the container has given it the sockets of a proxy, or none. Nothing else
    /// changes: commands stay separated from each other and from the caller.
    ///
    /// ```
    /// use os_sandbox::{Access, HostSpec, Backend, Plan, Policy, Requirement, Support};
    /// let inside = HostSpec { landlock_abi: 7, seccomp: true, ..HostSpec::default() };
    /// let inside = Support::assume(inside).in_own_container(true);
    /// let policy = Policy::builder().mount("/work", "/", Access::ALL).build()?;
    /// let plan = Plan::new(&policy, &inside, Requirement::Enforce)?;
    /// assert_eq!(plan.backend(), Backend::Landlock);
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn in_own_container(mut self, own_network: bool) -> Support {
        self.own_container = true;
        self.own_network = own_network;
        self
    }

    /// Returns `true` if commands under this mechanism share the network of a container that is only
    /// theirs and its starter's ([`Support::in_own_container`]).
    pub(crate) fn shares_own_network(&self, backend: Backend) -> bool {
        self.own_network && !backend.has_mount_layer()
    }

    pub(crate) fn connector(&self, backend: Backend) -> &Availability<()> {
        self.connector.get(backend)
    }

    /// Returns `true` if single local sockets of the host can be opened to a command under this
    /// mechanism.
    #[must_use]
    pub fn named_sockets(&self, backend: Backend) -> bool {
        self.connector(backend).found().is_some()
    }

    sandbox_names::getters! {
        /// Returns the Landlock version that works here; 0 if Landlock does not work.
        pub landlock_abi: u32 = landlock.found().map_or(0, |landlock| landlock.abi);
        /// Returns the Landlock errata that this kernel has fixed, as a bit set.
        pub landlock_errata: u32 = landlock.found().map_or(0, |landlock| landlock.errata);
        /// Returns `true` if the launcher can make namespaces with mounts here.
        pub namespaces: bool = namespaces.found().is_some();
        /// Returns the `bwrap` that works here. `None` if none works.
        pub bubblewrap: Option<&Bubblewrap> = bubblewrap.found();
        /// Returns `true` if the caller handed over a container engine.
        pub docker: bool = containers.is_some();
        /// Returns `true` if system call filters work here.
        pub seccomp: bool = seccomp.found().is_some();
        /// Returns `true` if our launcher can start a command at all.
        pub launcher: bool = launcher.found().is_some();
        /// Returns `true` if the kernel can limit the memory of a whole tree.
        pub memory_cgroup: bool = memory_group.found().is_some();
        /// Returns `true` if the kernel can limit the processes of a whole tree.
        pub process_cgroup: bool = process_group.found().is_some();
    }

    /// Returns `true` if our own first process mounts protected names, hidden names and parts of
    /// mounts. It opens each path once and follows no symlinks. Otherwise bubblewrap mounts them by
    /// path.
    ///
    /// ```
    /// use os_sandbox::{HostSpec, Support};
    ///
    /// let host = Support::assume(HostSpec { pins_by_descriptor: true, ..HostSpec::default() });
    /// // Without bubblewrap there are no mounts at all.
    /// assert!(!host.pins_by_descriptor());
    /// ```
    #[must_use]
    pub fn pins_by_descriptor(&self) -> bool {
        self.bubblewrap().is_some() && self.pins.found().is_some()
    }

    /// Returns the program that runs birdcage. `None` if none was named or it does not work here.
    #[must_use]
    pub fn birdcage(&self) -> Option<&Path> {
        let birdcage = self.birdcage.as_ref()?;
        birdcage.found().map(PathBuf::as_path)
    }

    /// Returns this host with birdcage, by the program of the crate `os-sandbox-birdcage`: the
    /// one at `program`, or the one beside the running program. A probe tries it at once, and the
    /// outcome is not cached. [`Support::detect`] never looks for birdcage. A plan uses it only on
    /// request: [`Plan::with_mechanism`](crate::Plan::with_mechanism).
    ///
    /// The program is a work under the GPL-3.0-or-later; see the feature `birdcage`.
    ///
    /// ```
    /// use os_sandbox::Support;
    ///
    /// let host = Support::detect().with_birdcage(Some("/nonexistent".as_ref()));
    /// assert!(host.birdcage().is_none());
    /// ```
    #[cfg(feature = "birdcage")]
    #[must_use]
    pub fn with_birdcage(mut self, program: Option<&Path>) -> Support {
        self.birdcage = Some(crate::platform::birdcage(&self, program));
        self
    }

    /// Returns this host with the containers of an engine. [`Support::detect`] never looks for an
    /// engine; the crate `os-sandbox-docker` does. A plan uses it only on request:
    /// [`Plan::with_mechanism`](crate::Plan::with_mechanism).
    #[must_use]
    pub fn with_docker(mut self, containers: ContainerSupport) -> Support {
        self.containers = Some(containers);
        self
    }

    /// Returns this host without [`Support::pins_by_descriptor`]. Emulates stricter hosts.
    #[must_use]
    pub fn without_pins_by_descriptor(mut self) -> Support {
        self.pins = Availability::switched_off();
        self
    }

    /// Returns `true` if macOS's own sandbox works here.
    #[must_use]
    pub fn seatbelt(&self) -> bool {
        self.seatbelt
            .as_ref()
            .is_some_and(|it| it.found().is_some())
    }

    /// Returns the missing mechanisms as `(name, reason, remedy)`; the remedy may be empty.
    #[must_use]
    pub fn missing(&self) -> Vec<(&'static str, &str, &str)> {
        let mut out = Vec::new();
        // Seatbelt exists on macOS only, and the other mechanisms do not exist there.
        if let Some(seatbelt) = &self.seatbelt {
            seatbelt.missing_into("seatbelt", &mut out);
            return out;
        }
        self.launcher.missing_into("launcher", &mut out);
        self.namespaces.missing_into("namespaces", &mut out);
        self.bubblewrap.missing_into("bubblewrap", &mut out);
        if let Some(birdcage) = &self.birdcage {
            birdcage.missing_into("birdcage", &mut out);
        }
        self.landlock.missing_into("landlock", &mut out);
        self.seccomp.missing_into("seccomp", &mut out);
        // A missing mechanism is reported by itself, without its connector.
        for (backend, found) in self.connectors() {
            if let Some(what) = backend.properties().connector {
                found.missing_into(what, &mut out);
            }
        }
        self.memory_group.missing_into("memory cgroup", &mut out);
        self.process_group.missing_into("process cgroup", &mut out);
        out
    }

    /// Returns this host without a connector of named sockets. Emulates older kernels.
    #[must_use]
    pub fn without_named_sockets(mut self) -> Support {
        self.connector = ConnectorSupport::all(Availability::switched_off);
        self
    }

    /// Returns this host without control groups. Emulates the host of an ordinary user.
    #[must_use]
    pub fn without_cgroups(mut self) -> Support {
        for group in [&mut self.memory_group, &mut self.process_group] {
            *group = Availability::switched_off();
        }
        self
    }

    /// Returns this host with a Landlock version of at most `abi`. Emulates older kernels.
    #[must_use]
    pub fn with_landlock_at_most(mut self, abi: u32) -> Support {
        if let Availability::Works(landlock) = &mut self.landlock {
            landlock.abi = landlock.abi.min(abi);
            if abi == 0 {
                self.landlock = Availability::switched_off();
            }
        }
        self
    }
}

impl Support {
    /// Returns every mechanism that was looked for, with its availability.
    ///
    /// ```
    /// use os_sandbox::{HostSpec, Support};
    ///
    /// let host = Support::assume(HostSpec { landlock_abi: 7, ..HostSpec::default() });
    /// assert!(host.mechanisms().iter().any(|row| row.name == "landlock" && row.works));
    /// ```
    #[must_use]
    pub fn mechanisms(&self) -> Vec<MechanismReport> {
        if let Some(seatbelt) = &self.seatbelt {
            let found = seatbelt.row(|()| "sandbox-exec".to_owned());
            return vec![MechanismReport::new("seatbelt", found)];
        }
        let mut bubblewrap = MechanismReport::new(
            "bubblewrap",
            self.bubblewrap
                .row(|bwrap| format!("{} at {}", bwrap.version, bwrap.path.display())),
        );
        if bubblewrap.works {
            let holes = self.known_holes().into_iter();
            let holes = holes.map(|hole| format!("known hole {hole}"));
            bubblewrap.details.extend(holes);
        }
        let namespaces = self.namespaces.row(|()| "made by the launcher".to_owned());
        let mut rows = vec![MechanismReport::new("namespaces", namespaces), bubblewrap];
        let mut row = |name, found| rows.push(MechanismReport::new(name, found));
        if self.bubblewrap().is_some() {
            row("pins", self.pins.row(|()| "made by descriptor".to_owned()));
        }
        if let Some(birdcage) = &self.birdcage {
            row("birdcage", birdcage.row(|path| path.display().to_string()));
        }
        let landlock =
            |landlock: &Landlock| format!("ABI {}, errata {:#b}", landlock.abi, landlock.errata);
        row("landlock", self.landlock.row(landlock));
        row("seccomp", self.seccomp.row(|()| "filter mode".to_owned()));
        row("sockets", self.sockets_row());
        let launcher = self.launcher.row(|()| "started from memory".to_owned());
        row("launcher", launcher);
        let group = |group: &ControlGroup| {
            let version = match group.version {
                GroupVersion::One => 1,
                GroupVersion::Two => 2,
            };
            format!("control groups {version}, in {}", group.parent.display())
        };
        row("memory", self.memory_group.row(group));
        row("processes", self.process_group.row(group));
        rows
    }

    /// Describes named sockets under those mechanisms that work.
    fn sockets_row(&self) -> Result<String, (&str, &str)> {
        let works = |(_, found): &(Backend, &Availability<()>)| found.found().is_some();
        let names: Vec<String> = self
            .connectors()
            .filter(works)
            .map(|(backend, _)| backend.to_string())
            .collect();
        let first = self.connectors().map(|(_, found)| found).next();
        match names.is_empty() {
            true => first
                .unwrap_or_else(|| self.connector(Backend::AUTOMATIC[0]))
                .row(|()| String::new()),
            false => Ok(format!("named ones, under {}", names.join(" and "))),
        }
    }

    /// The connectors of the mechanisms that work here.
    fn connectors(&self) -> impl Iterator<Item = (Backend, &Availability<()>)> {
        let rows = self.connector.0.iter();
        let usable = rows.filter(|(backend, _)| backend.works_on(self));
        usable.map(|(backend, found)| (*backend, found))
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in self.mechanisms() {
            let works = if row.works { "yes" } else { "no" };
            for (index, detail) in row.details.iter().enumerate() {
                match index {
                    0 => writeln!(f, "{:<11} {works:<3}  {detail}", row.name)?,
                    _ => writeln!(f, "{:<16} {detail}", "")?,
                }
            }
        }
        Ok(())
    }
}

impl<T> Availability<T> {
    pub(crate) fn found(&self) -> Option<&T> {
        match self {
            Availability::Works(found) => Some(found),
            Availability::Missing { .. } => None,
        }
    }

    fn row(&self, detail: impl Fn(&T) -> String) -> Result<String, (&str, &str)> {
        match self {
            Availability::Works(found) => Ok(detail(found)),
            Availability::Missing { reason, how, .. } => Err((reason, how)),
        }
    }

    fn is_untried(&self) -> bool {
        matches!(self, Availability::Missing { is_untried, .. } if *is_untried)
    }

    fn missing_into<'a>(
        &'a self,
        what: &'static str,
        out: &mut Vec<(&'static str, &'a str, &'a str)>,
    ) {
        if let Availability::Missing { reason, how, .. } = self {
            out.push((what, reason, how));
        }
    }
}

/// No broker process outside connects sockets for a command under birdcage or an engine.
static NOT_OFFERED: LazyLock<Availability<()>> =
    LazyLock::new(|| Availability::missing("not offered under this mechanism", ""));
