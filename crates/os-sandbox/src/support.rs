//! What this host can enforce, found out by running something, never by a version number alone:
//! `bwrap` may be on the disk and namespaces forbidden, Landlock compiled in and switched off.

use crate::backend::ProbeScope;
use crate::docker::Containers;
use crate::enforcement::Enforcement;
use crate::error::Error;
use crate::plan::{Backend, Plan};
use crate::proof::Proof;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::Instant;

/// What a host can enforce.
///
/// ```
/// use os_sandbox::{HostSpec, Support};
///
/// let old = Support::assume(HostSpec { landlock_abi: 2, seccomp: true, ..HostSpec::default() });
/// assert_eq!(old.landlock_abi(), 2);
/// assert!(old.bubblewrap().is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Support {
    pub(crate) launcher: Availability<()>,
    pub(crate) seccomp: Availability<()>,
    pub(crate) landlock: Availability<Landlock>,
    pub(crate) bubblewrap: Availability<Bubblewrap>,
    /// Under bubblewrap, mounts inside mounts by descriptor.
    pub(crate) pins: Availability<()>,
    pub(crate) memory_group: Availability<ControlGroup>,
    pub(crate) process_group: Availability<ControlGroup>,
    /// Memory of the machine, if it is known.
    pub(crate) machine_bytes: Option<u64>,
    pub(crate) connector: ConnectorSupport,
    /// `None` as long as nobody has named its program.
    pub(crate) birdcage: Option<Availability<PathBuf>>,
    /// `None` as long as nobody has handed over an engine.
    pub(crate) containers: Option<Containers>,
    /// Nothing is said about it where it cannot exist.
    pub(crate) seatbelt: Option<Availability<()>>,
    pub(crate) uid_zero: bool,
    /// See [`Support::in_own_container`].
    pub(crate) own_container: bool,
    /// See [`Support::in_own_container`].
    pub(crate) own_network: bool,
}

/// Whether a process of ours can connect sockets for the command, under each mechanism.
#[derive(Clone, Debug)]
pub(crate) struct ConnectorSupport {
    pub(crate) bubblewrap: Availability<()>,
    pub(crate) landlock: Availability<()>,
}

/// A control group below which others can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControlGroup {
    pub(crate) parent: PathBuf,
    pub(crate) version: GroupVersion,
    /// A limit of the caller's own that a group made here would not be below.
    pub(crate) ceiling: Option<u64>,
}

/// The kernel's two interfaces to control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupVersion {
    One,
    Two,
}

/// How a reason begins that is only another thing's absence.
pub(crate) const UNTRIED: &str = "cannot be tried without";

/// Something that works here, or why not and what would change that.
#[derive(Clone, Debug)]
pub(crate) enum Availability<T> {
    Works(T),
    Missing { reason: String, how: String },
}

/// One mechanism of a host, as [`Support::mechanisms`] lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MechanismReport {
    /// The mechanism, such as `landlock`.
    pub name: &'static str,
    /// `true` if it works here.
    pub works: bool,
    /// Its version and place; if it does not work, the reason and what would change that.
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
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it calls itself, such as `0.8.0`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// A host that is described instead of looked at: for tests, and to see what a plan would be
/// elsewhere. The default is a host that has nothing.
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
    /// The Landlock version; 0 is none.
    pub landlock_abi: u32,
    /// The fixed errata, as a bit set.
    pub landlock_errata: u32,
    /// `true` if system call filters work.
    pub seccomp: bool,
    /// The version of `/usr/bin/bwrap`, if it works.
    pub bubblewrap: Option<String>,
    /// `true` if mounts inside mounts are made by descriptor there, which takes a user namespace
    /// within bubblewrap's.
    pub pins_by_descriptor: bool,
    /// `true` if named sockets can be connected for the command by a process outside.
    pub connector: bool,
    /// `true` if birdcage works, by a program that somebody has named.
    pub birdcage: bool,
    /// `true` if an engine was handed over whose containers keep what containers can.
    pub docker: bool,
    /// `true` if `/usr/bin/sandbox-exec` works.
    pub seatbelt: bool,
    /// `true` if control groups that limit memory can be made.
    pub memory_cgroup: bool,
    /// `true` if control groups that limit processes can be made.
    pub process_cgroup: bool,
    /// Memory of the machine; `None` is unknown.
    pub memory_bytes: Option<u64>,
    /// `true` if the caller is uid 0.
    pub uid_zero: bool,
}

impl Support {
    /// Looks at this host: starts a confined process under each mechanism and sees what it could
    /// do. The answer is kept, and that a probe has passed is kept for other processes of this
    /// boot, in `$XDG_CACHE_HOME/os-sandbox` or `~/.cache/os-sandbox`; what is missing is looked
    /// for each time. [`Support::forget`] makes the next call look again.
    #[must_use]
    pub fn detect() -> Support {
        // One at a time; and never while holding the answer, which a failing probe forgets.
        let _looking = LOOKING
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(support) = &*kept() {
            return support.clone();
        }
        let support = crate::backend::detect();
        *kept() = Some(support.clone());
        support
    }

    /// Looks at this host without reading or writing what is kept, for programs that leave no
    /// files behind or want to know how it is now.
    ///
    /// ```
    /// let now = os_sandbox::Support::detect_fresh();
    /// assert_eq!(now.landlock_abi(), os_sandbox::Support::detect().landlock_abi());
    /// ```
    #[must_use]
    pub fn detect_fresh() -> Support {
        let _looking = LOOKING
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        crate::backend::detect_fresh()
    }

    /// Makes the next [`Support::detect`] look again, also that of another process; right after a
    /// mechanism failed.
    pub fn forget() {
        *kept() = None;
        crate::backend::forget();
    }

    /// Tries to break each promise of a plan, from inside exactly the plan's confinement, and says
    /// what happened: a handful of milliseconds. Decoys lie in a directory of our own; in one
    /// writable mount a file is made, under a name that nobody has, and removed again.
    ///
    /// # Errors
    /// If the probe could not be started, as [`Command::spawn`](crate::Command::spawn), or found
    /// no place for its decoys.
    pub fn prove(plan: &Plan) -> Result<Proof, Error> {
        let start = Instant::now();
        let (checks, notes) = crate::backend::prove(plan, ProbeScope::UserMounts)?;
        let mut enforcement = Enforcement::new(plan);
        enforcement.note(&notes.0);
        enforcement.remark(&notes.1);
        Ok(Proof {
            checks,
            millis: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            enforcement,
        })
    }

    /// A host as described.
    #[must_use]
    pub fn assume(host: HostSpec) -> Support {
        fn missing<T>() -> Availability<T> {
            Availability::Missing {
                reason: "assumed to be missing".to_owned(),
                how: String::new(),
            }
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
        let when = |there: bool| {
            if there {
                Availability::Works(())
            } else {
                missing()
            }
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
            bubblewrap: match host.bubblewrap {
                None => missing(),
                Some(version) => Availability::Works(Bubblewrap {
                    path: PathBuf::from("/usr/bin/bwrap"),
                    version,
                }),
            },
            pins: when(host.pins_by_descriptor),
            connector: ConnectorSupport {
                bubblewrap: when(host.connector),
                landlock: when(host.connector),
            },
            birdcage: host
                .birdcage
                .then(|| Availability::Works(PathBuf::from("/usr/bin/os-sandbox-birdcage"))),
            containers: host.docker.then(Containers::assumed),
            seatbelt: host.seatbelt.then_some(Availability::Works(())),
            memory_group: group(host.memory_cgroup),
            process_group: group(host.process_cgroup),
            machine_bytes: host.memory_bytes,
            uid_zero: host.uid_zero,
            own_container: false,
            own_network: false,
        }
    }

    /// This host, which is a container that was started for the caller's commands under
    /// [`Backend::Docker`]. Commands find there what they find under bubblewrap: mounts at their
    /// sandbox paths, `/work` as working directory, `/tmp`, `/dev/shm` and HOME to write to. The
    /// image can be read; and where its network (`own_network`) is no more than a loopback interface,
    /// a command without a network has that. Nothing else changes: what keeps them from each other
    /// and from the caller stays.
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

    pub(crate) fn connector(&self, backend: Backend) -> &Availability<()> {
        match backend {
            Backend::Bubblewrap => &self.connector.bubblewrap,
            Backend::Birdcage | Backend::Docker => &NOT_OFFERED,
            Backend::Landlock | Backend::Seatbelt | Backend::None => &self.connector.landlock,
        }
    }

    /// Returns `true` if single local sockets of the host can be opened to a command under a
    /// mechanism.
    #[must_use]
    pub fn named_sockets(&self, backend: Backend) -> bool {
        backend != Backend::None && self.connector(backend).found().is_some()
    }

    /// The Landlock version that works here; 0 if none does.
    #[must_use]
    pub fn landlock_abi(&self) -> u32 {
        self.landlock.found().map_or(0, |landlock| landlock.abi)
    }

    /// The Landlock errata that this kernel has fixed, as a bit set.
    #[must_use]
    pub fn landlock_errata(&self) -> u32 {
        self.landlock.found().map_or(0, |landlock| landlock.errata)
    }

    /// The `bwrap` that works here.
    #[must_use]
    pub fn bubblewrap(&self) -> Option<&Bubblewrap> {
        self.bubblewrap.found()
    }

    /// Returns `true` if protected and hidden names, and parts of mounts, are mounted by our own
    /// first process, which opens each place once and follows no link. Where it is not allowed to,
    /// bubblewrap does it, by path.
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

    /// The program that runs birdcage, if one was named and works here.
    #[must_use]
    pub fn birdcage(&self) -> Option<&Path> {
        let birdcage = self.birdcage.as_ref()?;
        birdcage.found().map(PathBuf::as_path)
    }

    /// This host with birdcage, by the program `os-sandbox-birdcage` of this package: the one at
    /// `program`, or the one beside the program that is running. It is tried at once, with a probe;
    /// what came of it is not kept for the next time. [`Support::detect`] never looks for it, and
    /// no plan uses it unless asked to: [`Plan::with_mechanism`].
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
        self.birdcage = Some(crate::backend::birdcage(&self, program));
        self
    }

    /// Returns `true` if a container engine was handed over.
    #[must_use]
    pub fn docker(&self) -> bool {
        self.containers.is_some()
    }

    /// This host with the containers of an engine, which has answered and has the image.
    /// [`Support::detect`] never looks for one, and no plan uses it unless asked to:
    /// [`Plan::with_mechanism`].
    ///
    /// ```
    /// use os_sandbox::{Backend, Plan, Policy, Requirement, Support, docker};
    ///
    /// let settings = docker::Settings::new(docker::ImageName::parse("debian:12")?);
    /// let containers = docker::Engine::connect(None)
    ///     .and_then(|engine| docker::Containers::new(engine, settings));
    /// if let Ok(containers) = containers {
    ///     let host = Support::detect().with_docker(containers);
    ///     let policy = Policy::builder().build()?;
    ///     let plan =
    ///         Plan::with_mechanism(&policy, &host, Requirement::Enforce, Backend::Docker)?;
    ///     assert_eq!(plan.backend(), Backend::Docker);
    /// }
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    #[cfg(feature = "docker")]
    #[must_use]
    pub fn with_docker(mut self, containers: Containers) -> Support {
        self.containers = Some(containers);
        self
    }

    /// This host without [`Support::pins_by_descriptor`]: stricter ones, emulated.
    #[must_use]
    pub fn without_pins_by_descriptor(mut self) -> Support {
        self.pins = Availability::Missing {
            reason: "switched off by the caller".to_owned(),
            how: String::new(),
        };
        self
    }

    /// Returns `true` if system call filters work here.
    #[must_use]
    pub fn seccomp(&self) -> bool {
        self.seccomp.found().is_some()
    }

    /// Returns `true` if macOS's own sandbox works here.
    #[must_use]
    pub fn seatbelt(&self) -> bool {
        self.seatbelt
            .as_ref()
            .is_some_and(|it| it.found().is_some())
    }

    /// Returns `true` if a command can be started by our launcher at all.
    #[must_use]
    pub fn launcher(&self) -> bool {
        self.launcher.found().is_some()
    }

    /// Returns `true` if the memory of a whole tree can be limited by the kernel.
    #[must_use]
    pub fn memory_cgroup(&self) -> bool {
        self.memory_group.found().is_some()
    }

    /// Returns `true` if the processes of a whole tree can be limited by the kernel.
    #[must_use]
    pub fn process_cgroup(&self) -> bool {
        self.process_group.found().is_some()
    }

    /// What is missing: `(what, why, how to get it)`; the last may be empty.
    #[must_use]
    pub fn missing(&self) -> Vec<(&'static str, &str, &str)> {
        let mut out = Vec::new();
        // Where this one can exist, the others cannot.
        if let Some(seatbelt) = &self.seatbelt {
            seatbelt.missing_into("seatbelt", &mut out);
            return out;
        }
        self.launcher.missing_into("launcher", &mut out);
        self.bubblewrap.missing_into("bubblewrap", &mut out);
        if let Some(birdcage) = &self.birdcage {
            birdcage.missing_into("birdcage", &mut out);
        }
        self.landlock.missing_into("landlock", &mut out);
        self.seccomp.missing_into("seccomp", &mut out);
        // What is missing with its mechanism is told there.
        if self.bubblewrap().is_some() {
            let what = "named sockets under bubblewrap";
            self.connector.bubblewrap.missing_into(what, &mut out);
        }
        if self.landlock_abi() > 0 {
            let what = "named sockets under landlock";
            self.connector.landlock.missing_into(what, &mut out);
        }
        self.memory_group.missing_into("memory cgroup", &mut out);
        self.process_group.missing_into("process cgroup", &mut out);
        out
    }

    /// This host as if nobody could connect sockets for a command: older kernels, emulated.
    #[must_use]
    pub fn without_named_sockets(mut self) -> Support {
        let off = || Availability::Missing {
            reason: "switched off by the caller".to_owned(),
            how: String::new(),
        };
        self.connector = ConnectorSupport {
            bubblewrap: off(),
            landlock: off(),
        };
        self
    }

    /// This host as if no control group could be made: an ordinary user's host, emulated.
    #[must_use]
    pub fn without_cgroups(mut self) -> Support {
        for group in [&mut self.memory_group, &mut self.process_group] {
            *group = Availability::Missing {
                reason: "switched off by the caller".to_owned(),
                how: String::new(),
            };
        }
        self
    }

    /// This host with Landlock held at `abi` at most: older kernels, emulated.
    #[must_use]
    pub fn with_landlock_at_most(mut self, abi: u32) -> Support {
        if let Availability::Works(landlock) = &mut self.landlock {
            landlock.abi = landlock.abi.min(abi);
            if abi == 0 {
                self.landlock = Availability::Missing {
                    reason: "switched off by the caller".to_owned(),
                    how: String::new(),
                };
            }
        }
        self
    }
}

impl Support {
    /// Returns every mechanism that was looked for, with what was found.
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
        let mut rows = vec![bubblewrap];
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

    /// Named sockets, under those mechanisms that work.
    fn sockets_row(&self) -> Result<String, (&str, &str)> {
        let rows = [
            (
                "bubblewrap",
                self.bubblewrap().is_some(),
                &self.connector.bubblewrap,
            ),
            (
                "landlock",
                self.landlock_abi() > 0,
                &self.connector.landlock,
            ),
        ];
        let names: Vec<&str> = rows
            .iter()
            .filter(|row| row.1 && row.2.found().is_some())
            .map(|row| row.0)
            .collect();
        let why = rows.iter().find(|row| row.1).map_or(rows[0].2, |row| row.2);
        match names.is_empty() {
            true => why.row(|()| String::new()),
            false => Ok(format!("named ones, under {}", names.join(" and "))),
        }
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
            Availability::Missing { reason, how } => Err((reason, how)),
        }
    }

    fn missing_into<'a>(
        &'a self,
        what: &'static str,
        out: &mut Vec<(&'static str, &'a str, &'a str)>,
    ) {
        if let Availability::Missing { reason, how } = self {
            out.push((what, reason, how));
        }
    }
}

/// No process of ours outside connects for what birdcage or an engine has started.
static NOT_OFFERED: LazyLock<Availability<()>> = LazyLock::new(|| Availability::Missing {
    reason: "not offered under this mechanism".to_owned(),
    how: String::new(),
});

static LOOKING: Mutex<()> = Mutex::new(());
static KEPT: Mutex<Option<Support>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<Support>> {
    KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
