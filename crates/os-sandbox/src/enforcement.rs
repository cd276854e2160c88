//! The receipt: the restrictions that were applied to one command.

use crate::access::Access;
use crate::backend::{Backend, Starter};
use crate::denials::Denial;
use crate::exceeded::size;
use crate::findings::{Findings, StartNotes};
use crate::git_config::GitConfigChange;
use crate::host_proxy::{Contact, ContactTotal};
use crate::plan::Plan;
use crate::promise::{Entry, Promise, PromiseState};
use crate::quarantine::Quarantined;
use crate::reports::Touched;
use std::fmt;

/// The restrictions that were applied to one command; serialisable under the feature `serde`.
///
/// ```
/// use os_sandbox::{Command, Directories, Plan, Policy, Requirement, Sandbox, Support};
///
/// # if !cfg!(target_os = "linux") { return Ok(()); }
/// let policy = Policy::builder().build()?;
/// let plan = Plan::new(&policy, &Support::detect(), Requirement::Enforce)?;
/// let sandbox = Sandbox::open(plan, Directories::user());
/// let mut child = Command::new(&sandbox, "true").spawn()?;
/// assert_eq!(child.enforcement().policy, policy.hash());
/// child.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Enforcement {
    /// The policy's [`hash`](crate::Policy::hash).
    pub policy: String,
    /// The mechanism that the command was started under.
    pub backend: Backend,
    /// The version of bubblewrap, if it was used.
    pub bubblewrap: Option<String>,
    /// The Landlock version that was applied; 0 if none was.
    pub landlock_abi: u32,
    /// The Landlock errata that this kernel has fixed, as a bit set.
    pub landlock_errata: u32,
    /// `true` if a system call filter was applied.
    pub seccomp: bool,
    /// The container, if one was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<ShownContainer>,
    /// Each promise with its state.
    pub promises: Vec<Entry>,
    /// The mounts with their paths inside.
    pub mounts: Vec<ShownMount>,
    /// Files and directories that the command sees and cannot read, because a pattern hides them. The
    /// first are listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<HiddenPath>,
    /// Protected names that were found after the end, and moved away if that was possible. The first
    /// are listed.
    pub quarantined: Vec<Quarantined>,
    /// The number of such names that are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_quarantined: u64,
    /// Changes at an engine that does not have our files, which were not copied back: each a path
    /// of the host, and the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_copied: Vec<String>,
    /// Changes of repositories' configuration that git asked for, of which the first are listed
    /// ([`GitConfig::Judged`](crate::GitConfig::Judged)).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub git_configs: Vec<GitConfigChange>,
    /// The number of connections and datagrams to other hosts that were refused because the network
    /// is off, including those of name resolution. Counted in namespaces only; under other
    /// mechanisms it is always 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreachable: u64,
    /// The attempts to reach hosts by the proxy for named hosts, of which the first are listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contacts: Vec<Contact>,
    /// The number of attempts that are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_contacts: u64,
    /// All connections that the proxy made, by their rules. Unlike `contacts`, the list is complete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contact_totals: Vec<ContactTotal>,
    /// Processes that still ran when the command had ended, and were ended with it. `None` if there were
    /// none, or they are not counted: under Seatbelt, and in containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_processes: Option<EndedProcesses>,
    /// `true` if refused attempts were reported. Known after the end.
    pub reports_denials: bool,
    /// The attempts that the policy refused, of which the first are listed, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// `true` if there were attempts that were not looked at any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub more_denials: bool,
    /// The objects that the command touched, with [`ReportLevel::Full`](crate::ReportLevel::Full).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub touched: Option<Touched>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Processes that were ended with their command.
///
/// ```
/// use os_sandbox::EndedProcesses;
///
/// let ended = EndedProcesses { count: 1, programs: vec!["sleep".into()], more: false };
/// assert_eq!(
///     ended.to_string(),
///     "1 process that was still running was ended with the command: sleep"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct EndedProcesses {
    /// The number of the processes.
    pub count: u64,
    /// The first of their names, each once, which the kernel cuts after 15 bytes. Invisible characters
    /// are escaped.
    pub programs: Vec<String>,
    /// `true` if they have more names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

impl fmt::Display for EndedProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => f.write_str("1 process that was still running was")?,
            count => write!(f, "{count} processes that were still running were")?,
        }
        write!(f, " ended with the command: {}", self.programs.join(", "))?;
        f.write_str(if self.more { " and others" } else { "" })
    }
}

/// A path that a pattern hides.
///
/// ```
/// let hidden = os_sandbox::HiddenPath { path: "/work/.env".into(), pattern: ".env*".into() };
/// assert_eq!(hidden.path, "/work/.env");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct HiddenPath {
    /// The path as the command sees it. Invisible characters are escaped.
    pub path: String,
    /// The pattern.
    pub pattern: String,
}

/// A mount as the command sees it.
///
/// ```
/// use os_sandbox::{Access, ShownMount};
///
/// let mount = ShownMount {
///     name: "/data".into(), inside: "/data".into(), access: Access::READ,
/// };
/// assert_eq!(mount.name, mount.inside);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ShownMount {
    /// The name of the mount in the policy.
    pub name: String,
    /// The path of the mount as the command sees it. Under Landlock alone and Seatbelt, which
    /// cannot move anything, that is the path of the host.
    pub inside: String,
    /// The access below the mount.
    pub access: Access,
}

/// The requested container of a command. The engine has confirmed every property.
///
/// ```
/// use os_sandbox::ShownContainer;
///
/// let container = ShownContainer {
///     engine: "20.10.24".into(),
///     image: "debian:12".into(),
///     digest: "sha256:0123".into(),
///     user: "1000:1000".into(),
///     network: "none".into(),
///     cpu_milli: Some(1000),
///     memory_bytes: Some(512 << 20),
///     pids: Some(256),
///     read_only_root: true,
/// };
/// assert_eq!(
///     container.to_string(),
///     "debian:12 (sha256:0123) of engine 20.10.24, as 1000:1000, network none, 1 cpu, \
///      512 MiB, 256 processes, root read-only"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ShownContainer {
    /// The engine's version.
    pub engine: String,
    /// The name of the image as the caller gave it.
    pub image: String,
    /// The digest of the image.
    pub digest: String,
    /// User and group. `0:0` is root without any capability, used if root owns the files.
    pub user: String,
    /// The name of the network; `none` for a container without a network.
    pub network: String,
    /// Thousandths of a processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_milli: Option<u64>,
    /// Memory, swap included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// `true` if the files of the image cannot be changed.
    pub read_only_root: bool,
}

impl fmt::Display for ShownContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShownContainer {
            engine,
            image,
            digest,
            user,
            network,
            ..
        } = self;
        write!(
            f,
            "{image} ({digest}) of engine {engine}, as {user}, network {network}"
        )?;
        if let Some(milli) = self.cpu_milli {
            let (whole, rest) = (milli / 1000, milli % 1000);
            let rest = format!("{rest:03}");
            let rest = rest.trim_end_matches('0');
            let dot = if rest.is_empty() { "" } else { "." };
            write!(f, ", {whole}{dot}{rest} cpu")?;
        }
        if let Some(bytes) = self.memory_bytes {
            write!(f, ", {}", size(bytes))?;
        }
        if let Some(pids) = self.pids {
            write!(f, ", {pids} processes")?;
        }
        f.write_str(if self.read_only_root {
            ", root read-only"
        } else {
            ", root writable"
        })
    }
}

impl Enforcement {
    pub(crate) fn new(plan: &Plan) -> Enforcement {
        let support = plan.support();
        let bubblewrap = match plan.backend() {
            Backend::Bubblewrap => support.bubblewrap().map(|b| b.version().to_owned()),
            _ => None,
        };
        let properties = plan.backend().properties();
        // The restrictions that an engine applied are in `container`.
        let confined = properties.confines && properties.starter != Starter::Engine;
        let mounts = plan
            .policy()
            .mounts()
            .iter()
            .map(|mount| ShownMount {
                name: mount.shown_at().to_owned(),
                inside: match plan.backend().shows_sandbox_paths() {
                    true => mount.inside().to_owned(),
                    false => mount.host().display().to_string(),
                },
                access: mount.access(),
            })
            .collect();
        Enforcement {
            policy: plan.policy().hash(),
            backend: plan.backend(),
            bubblewrap,
            landlock_abi: if confined { support.landlock_abi() } else { 0 },
            landlock_errata: if confined {
                support.landlock_errata()
            } else {
                0
            },
            seccomp: match plan.containers() {
                Some(containers) => containers.filters,
                None => confined && support.seccomp(),
            },
            container: None,
            promises: plan.entries().to_vec(),
            mounts,
            hidden: Vec::new(),
            quarantined: Vec::new(),
            more_quarantined: 0,
            not_copied: Vec::new(),
            git_configs: Vec::new(),
            unreachable: 0,
            contacts: Vec::new(),
            more_contacts: 0,
            contact_totals: Vec::new(),
            ended_processes: None,
            reports_denials: false,
            denials: Vec::new(),
            more_denials: false,
            touched: None,
        }
    }

    /// Adds the findings from after the end.
    pub(crate) fn found(&mut self, findings: Findings) {
        self.degrade(&findings.degraded);
        self.quarantined.extend(findings.quarantined);
        self.more_quarantined += findings.more_quarantined;
        self.not_copied.extend(findings.not_copied);
        self.git_configs = findings.git_configs;
        self.unreachable += findings.unreachable;
        self.contacts.extend(findings.contacts.listed);
        self.more_contacts += findings.contacts.more;
        self.contact_totals.extend(findings.contacts.totals);
        self.ended_processes = findings.ended_processes;
        if let Some(denials) = findings.denials {
            self.reports_denials = true;
            self.denials.extend(denials.listed);
            self.more_denials |= denials.more;
            self.touched = denials.touched;
        }
    }

    /// Adds the facts from the start.
    pub(crate) fn started(&mut self, notes: StartNotes) {
        self.degrade(&notes.degraded);
        self.annotate(&notes.annotations);
        self.hidden = notes.hidden;
    }

    /// Marks promises that the start found to be kept in part only as degraded.
    pub(crate) fn degrade(&mut self, notes: &[(Promise, String)]) {
        for (promise, _) in notes {
            for entry in self
                .promises
                .iter_mut()
                .filter(|entry| entry.promise == *promise)
            {
                entry.state = match entry.state {
                    PromiseState::Enforced | PromiseState::Detected => PromiseState::Degraded,
                    weaker @ (PromiseState::Degraded | PromiseState::Absent) => weaker,
                };
            }
        }
        self.annotate(notes);
    }

    /// Adds remarks to the reasons, without a change of state.
    pub(crate) fn annotate(&mut self, remarks: &[(Promise, String)]) {
        for (promise, remark) in remarks {
            let entries = self.promises.iter_mut();
            for entry in entries.filter(|entry| entry.promise == *promise) {
                let old = entry.reason.take().map(|old| format!("{old}; "));
                entry.reason = Some(format!("{}{remark}", old.unwrap_or_default()));
            }
        }
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "policy {}", self.policy)?;
        write!(f, "under {}", self.backend)?;
        if let Some(version) = &self.bubblewrap {
            write!(f, " {version}")?;
        }
        if self.landlock_abi > 0 {
            write!(f, ", Landlock ABI {}", self.landlock_abi)?;
        }
        if self.seccomp {
            f.write_str(", seccomp")?;
        }
        writeln!(f)?;
        if let Some(container) = &self.container {
            writeln!(f, "container {container}")?;
        }
        for entry in &self.promises {
            writeln!(f, "{entry}")?;
        }
        for found in &self.quarantined {
            let verb = match found.now {
                Some(_) => "quarantined",
                None => "left in place",
            };
            writeln!(f, "{verb} {found}")?;
        }
        if self.more_quarantined > 0 {
            writeln!(f, "and {} more protected names", self.more_quarantined)?;
        }
        Ok(())
    }
}
