//! Policy × support → the mechanism that keeps each promise, and the gaps. A plan is the only way
//! to a command, so every caller has either seen the gaps or asked for them.

use crate::backend::{Backend, Starter};
use crate::error::{Error, ErrorKind};
use crate::exceeded::EffectiveLimits;
use crate::policy::{GitConfig, NamedHosts, Network, Policy, System, UnixSockets};
use crate::promise::{Entry, Promise, Rank};
use crate::seatbelt;
use crate::seccomp::WatchRule;
use crate::support::{ContainerSupport, Support, UNTRIED};
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

mod container;
mod entries;
mod limits;
mod linux;

pub(crate) use entries::CoverageEntries;
pub(crate) use limits::MemoryLimiter;

pub(crate) const NO_HOSTS: &str =
    "a list of hosts needs bubblewrap or a container; turn the network off or on as a whole";

pub(crate) const NO_PUBLISHED_PORTS: &str =
    "a published port needs a network namespace: namespaces, bubblewrap or a container";

pub(crate) const NO_OVERLAY: &str = "only the mechanism `namespaces` mounts an overlay; `forge doctor` says why it does not work \
     here, and without an overlay the command changes the directory itself";

const HIDDEN_AT_START: &str = "those that are there at the start cannot be read; what appears while \
                               it runs is the command's own, and what somebody else replaces \
                               meanwhile is told";

/// Returns the remark on sockets that are open by name.
pub(crate) fn but(sockets: &[PathBuf]) -> String {
    let sockets: Vec<String> = sockets.iter().map(|p| p.display().to_string()).collect();
    format!("but {}", sockets.join(", "))
}

/// Returns the remark on published ports.
fn published(ports: &BTreeSet<u16>) -> String {
    let list: Vec<String> = ports.iter().map(u16::to_string).collect();
    format!(
        "clients of the host's loopback reach its {} {}",
        if ports.len() == 1 { "port" } else { "ports" },
        list.join(", ")
    )
}

/// Returns the reason why a mechanism without a mount layer of ours cannot hide the directory that
/// a mount covers.
pub(crate) fn cannot_cover(mount: &crate::policy::Mount) -> String {
    format!(
        "nothing here shows another directory at {}: that needs bubblewrap or a container; a \
         worker without it uses file tools, or mount the directory beside the others",
        mount.shown_at()
    )
}

/// The strictness of a plan about promises that cannot be kept.
///
/// ```
/// use os_sandbox::Requirement;
///
/// assert_eq!(Requirement::default(), Requirement::Enforce);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// The plan keeps every boundary, or it is refused.
    #[default]
    Enforce,
    /// Guards count as boundaries: the plan keeps each guard, or violations are found and undone
    /// before the caller gets the result. The command fails if its start or the scan after its end
    /// finds that a guard is kept in part only.
    EnforceGuards,
    /// The plan keeps the promises that it can, and lists all others. Without any mechanism the
    /// command runs unconfined.
    BestEffort,
}

/// A policy that was compared with a host.
///
/// ```
/// use os_sandbox::{Access, HostSpec, Backend, Plan, Policy, Requirement, Support};
///
/// let policy = Policy::builder().mount("/srv/data", "/data", Access::READ).build()?;
/// let host = Support::assume(HostSpec { landlock_abi: 7, seccomp: true, ..HostSpec::default() });
/// let plan = Plan::new(&policy, &host, Requirement::Enforce)?;
/// assert_eq!(plan.backend(), Backend::Landlock);
///
/// // An older kernel cannot keep signals in: refused, with the reason.
/// let old = Support::assume(HostSpec { landlock_abi: 5, seccomp: true, ..HostSpec::default() });
/// let refused = Plan::new(&policy, &old, Requirement::Enforce).unwrap_err();
/// assert!(refused.to_string().contains("signals"));
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Plan {
    policy: Arc<Policy>,
    support: Arc<Support>,
    backend: Backend,
    requirement: Requirement,
    entries: Arc<[Entry]>,
}

/// The reason why a plan is refused: the promises that the best mechanism of this host leaves open.
///
/// ```
/// use os_sandbox::{Plan, Policy, Requirement, Support};
///
/// let policy = Policy::builder().build()?;
/// let refused =
///     Plan::new(&policy, &Support::assume(Default::default()), Requirement::Enforce).unwrap_err();
/// assert!(!refused.gaps().is_empty());
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(thiserror::Error)]
#[error("{}", self.text())]
pub struct PlanError {
    backend: Backend,
    refusal: PlanRefusal,
    gaps: Vec<Entry>,
    hints: Vec<String>,
}

enum PlanRefusal {
    /// `backend` leaves promises open.
    Gaps,
    /// `backend` does not work here. If it is `None`, no mechanism works.
    Unusable,
    /// `backend` could not be tried, and no weaker mechanism stands in.
    Untried,
}

impl fmt::Debug for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Plan {
    /// Compares the policy with the host and picks the mechanism with the fewest gaps. Never picks
    /// birdcage or containers, which are available by name only.
    ///
    /// # Errors
    /// If a promise that the requirement insists on cannot be kept.
    pub fn new(
        policy: &Policy,
        support: &Support,
        requirement: Requirement,
    ) -> Result<Plan, PlanError> {
        let mut best: Option<Plan> = None;
        let works = |backend: &Backend| backend.works_on(support);
        for backend in Backend::AUTOMATIC.into_iter().filter(works) {
            let plan = Plan::evaluate(policy, support, backend);
            if best
                .as_ref()
                .is_none_or(|best| plan.badness() < best.badness())
            {
                best = Some(plan);
            }
        }
        let best = best.unwrap_or_else(|| Plan::evaluate(policy, support, Backend::None));
        // Why: another command can cause a shortage, and would choose a weaker mechanism by it.
        if let Some(backend) = support.untried()
            && requirement != Requirement::BestEffort
            && !best.backend.has_own_root()
            && best.open().next().is_some()
        {
            let gaps: Vec<Entry> = best.open().cloned().collect();
            return Err(PlanError {
                backend,
                refusal: PlanRefusal::Untried,
                hints: hints(support, &gaps),
                gaps,
            });
        }
        let nothing = best.backend == Backend::None;
        best.checked(requirement).map_err(|error| PlanError {
            refusal: if nothing {
                PlanRefusal::Unusable
            } else {
                error.refusal
            },
            ..error
        })
    }

    /// Creates a plan for the given mechanism.
    ///
    /// # Errors
    /// If the mechanism does not work here, or leaves a required promise open.
    pub fn with_mechanism(
        policy: &Policy,
        support: &Support,
        requirement: Requirement,
        backend: Backend,
    ) -> Result<Plan, PlanError> {
        if !backend.works_on(support) {
            return Err(PlanError {
                backend,
                refusal: PlanRefusal::Unusable,
                gaps: Plan::evaluate(policy, support, Backend::None).boundary_gaps(),
                hints: unusable(support, backend),
            });
        }
        Plan::evaluate(policy, support, backend).checked(requirement)
    }

    sandbox_names::getters! {
        /// Returns the mechanism that commands start under.
        pub backend: Backend = backend;
        /// Returns the policy.
        pub policy: &Policy = &policy;
        /// Returns the host that the plan was made for.
        pub support: &Support = &support;
        /// Returns every promise with its state.
        pub entries: &[Entry] = &entries;
    }

    /// Returns the promises that are not fully kept.
    pub fn gaps(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_gap())
    }

    /// Returns one line about a plan under a weaker mechanism than this system has, with the
    /// promises that it leaves open, and what works in part. `None` under the best mechanism, and if
    /// the plan leaves no promise of the policy open.
    ///
    /// ```
    /// use os_sandbox::{HostSpec, Plan, Policy, Requirement, Support};
    ///
    /// let policy = Policy::builder().protect(".envrc").build()?;
    /// let host = Support::assume(HostSpec { landlock_abi: 7, seccomp: true, ..HostSpec::default() });
    /// let told = Plan::new(&policy, &host, Requirement::Enforce)?.fallback().unwrap();
    /// assert!(told.starts_with("no namespaces are used") && told.contains("protected names"));
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn fallback(&self) -> Option<String> {
        if !self.backend.shares_host() {
            return None;
        }
        let open: Vec<&str> = self.open().map(|entry| entry.promise.name()).collect();
        if open.is_empty() && !self.needs_proxy_variables() {
            return None;
        }
        let missing = self.support.missing();
        let mut layers = missing
            .iter()
            .filter(|(what, ..)| matches!(*what, "namespaces" | "bubblewrap"));
        let why = match (layers.next(), layers.next()) {
            (Some((_, own, _)), Some((_, bubblewrap, _))) => {
                format!("its own: {own}; bubblewrap: {bubblewrap}")
            }
            _ => "another mechanism keeps more of this policy".to_owned(),
        };
        let mut told = format!("no namespaces are used ({why})");
        if !open.is_empty() {
            told = format!(
                "{told}, and Landlock alone does not keep: {}",
                open.join(", ")
            );
        }
        if self.needs_proxy_variables() {
            told.push_str("; programs reach the named hosts only by the proxy variables");
        }
        Some(told)
    }

    fn evaluate(policy: &Policy, support: &Support, backend: Backend) -> Plan {
        let mut policy = policy.clone();
        let mixed = match policy.unix_sockets() {
            UnixSockets::Own => cannot_tell_own_sockets(&policy, support, backend),
            UnixSockets::Closed | UnixSockets::Named(_) | UnixSockets::Open => None,
        };
        if mixed.is_some() {
            policy = policy.with_sockets_closed();
        }
        let git_config = match policy.git_config() {
            asked if backend.has_own_root() => asked,
            GitConfig::Judged | GitConfig::JudgedAfter if backend.shares_host() => {
                GitConfig::JudgedAfter
            }
            // The other mechanisms do not scan after the end, or scan a copy.
            GitConfig::Kept | GitConfig::Judged | GitConfig::JudgedAfter => GitConfig::Kept,
        };
        policy = policy.with_git_config(git_config);
        let mut entries = match backend.properties().starter {
            Starter::Launcher | Starter::Program => linux::evaluate(&policy, support, backend),
            Starter::Engine => container::evaluate(&policy, support),
            Starter::SandboxExec => seatbelt::evaluate(&policy),
        };
        let entry = entries
            .iter_mut()
            .find(|entry| entry.promise == Promise::UnixSockets);
        if let (Some(entry), Some(why)) = (entry, mixed)
            && !entry.is_gap()
        {
            entry.reason = Some(format!("its own are closed too: {why}"));
        }
        Plan {
            entries: entries.into(),
            policy: Arc::new(policy),
            support: Arc::new(support.clone()),
            backend,
            requirement: Requirement::BestEffort,
        }
    }

    /// Returns the sockets that a process of ours connects for the command. Empty unless the
    /// promise is kept.
    pub(crate) fn connects(&self) -> &[PathBuf] {
        let kept = self
            .entries
            .iter()
            .any(|entry| entry.promise == Promise::UnixSockets && !entry.is_gap());
        match self.policy.unix_sockets() {
            UnixSockets::Named(paths) if kept => paths,
            UnixSockets::Named(_) | UnixSockets::Closed | UnixSockets::Own | UnixSockets::Open => {
                &[]
            }
        }
    }

    /// Returns the containers of the engine that starts the command. `None` if none does.
    pub(crate) fn containers(&self) -> Option<&ContainerSupport> {
        match self.backend.properties().starter {
            Starter::Engine => self.support.containers.as_ref(),
            Starter::Launcher | Starter::Program | Starter::SandboxExec => None,
        }
    }

    /// Returns the effective limits on this host.
    #[must_use]
    pub fn bounds(&self) -> EffectiveLimits {
        match self.containers() {
            Some(containers) => EffectiveLimits::in_container(self.policy.limits(), containers),
            None => EffectiveLimits::new(self.policy.limits(), &self.support),
        }
    }

    /// Returns the error of a command that keeps guards in part only, if the plan requires all of
    /// them.
    #[must_use]
    pub fn insists(&self, notes: &[(Promise, String)], ended: bool) -> Option<Error> {
        if self.requirement != Requirement::EnforceGuards {
            return None;
        }
        let (promise, reason) = notes
            .iter()
            .find(|(promise, _)| promise.rank() == Rank::Guard)?;
        let text = match ended {
            true => format!("the command ended, and {promise} were kept in part only: {reason}"),
            false => format!("{promise} cannot be kept as required: {reason}"),
        };
        Some(
            ErrorKind::Unguarded
                .error(text)
                .with_hint("without `require: guards` this is listed and does not refuse"),
        )
    }

    fn checked(self, requirement: Requirement) -> Result<Plan, PlanError> {
        let gaps = match requirement {
            // Never a command that changes what it was to leave as it is.
            Requirement::BestEffort => self.overlay_gap().cloned().collect(),
            Requirement::Enforce => self.boundary_gaps(),
            Requirement::EnforceGuards => self.open().cloned().collect(),
        };
        if gaps.is_empty() {
            return Ok(Plan {
                requirement,
                ..self
            });
        }
        Err(PlanError {
            backend: self.backend,
            refusal: PlanRefusal::Gaps,
            hints: hints(&self.support, &gaps),
            gaps,
        })
    }

    /// Returns the gaps that the policy did not ask for by name.
    fn open(&self) -> impl Iterator<Item = &Entry> {
        self.gaps()
            .filter(|entry| !self.policy.gives_up(entry.promise))
    }

    fn boundary_gaps(&self) -> Vec<Entry> {
        self.open()
            .filter(|entry| entry.promise.rank() == Rank::Boundary)
            .cloned()
            .collect()
    }

    fn overlay_gap(&self) -> impl Iterator<Item = &Entry> {
        self.gaps()
            .filter(|entry| entry.promise == Promise::OverlayWrites)
    }

    /// Returns the number of open boundaries, then of open guards.
    fn badness(&self) -> (usize, usize) {
        let all = self.open().count();
        let boundary = self.boundary_gaps().len();
        (boundary, all - boundary)
    }

    /// Returns `true` if the command may trace processes of its own tree.
    pub(crate) fn allows_own_tracing(&self) -> bool {
        linux::own_tracing(&self.policy, &self.support, self.backend).is_ok()
    }

    /// Returns `true` if the command's network is its own loopback and nothing else.
    pub(crate) fn has_unreachable_hosts(&self) -> bool {
        match self.policy.network() {
            Network::Denied | Network::Loopback | Network::Hosts(_) => self.has_loopback(),
            Network::Unrestricted => false,
        }
    }

    /// Returns the hosts that a proxy of the caller connects for the command. `None` if the policy
    /// names no hosts, or the mechanism does not keep the list.
    #[must_use]
    pub fn proxied_hosts(&self) -> Option<&NamedHosts> {
        if self.support.shares_own_network(self.backend) {
            return None;
        }
        let can_proxy = || match self.containers() {
            Some(containers) => containers.named_hosts.is_ok(),
            None => linux::can_proxy(&self.policy, &self.support, self.backend).is_ok(),
        };
        match self.policy.network() {
            Network::Hosts(hosts) => can_proxy().then_some(hosts),
            Network::Denied | Network::Loopback | Network::Unrestricted => None,
        }
    }

    /// Returns the ports of the command's loopback that are published on the host's. Empty if the
    /// mechanism does not publish them.
    pub fn published_ports(&self) -> impl Iterator<Item = u16> {
        let publishes = match self.containers() {
            Some(containers) => containers.named_hosts.is_ok(),
            None => self.backend.publishes_ports(),
        };
        let ports = self.policy.published_ports().iter().copied();
        ports.filter(move |_| publishes)
    }

    /// Returns `true` if the command has a loopback of its own whose ports can be published while it
    /// runs.
    #[must_use]
    pub fn can_publish_ports(&self) -> bool {
        self.backend.publishes_ports() && !matches!(self.policy.network(), Network::Unrestricted)
    }

    /// Returns `true` if the command's network has the sockets of a proxy for named hosts: that of the
    /// caller, or of whoever started the container around it.
    pub(crate) fn has_host_proxy(&self) -> bool {
        let around = matches!(self.policy.network(), Network::Hosts(_))
            && self.support.shares_own_network(self.backend);
        around || self.proxied_hosts().is_some()
    }

    /// Returns `true` if programs reach named hosts only by the proxy variables. A command without a
    /// network namespace has no resolver, and a process outside connects it to the proxy only.
    ///
    /// ```
    /// use os_sandbox::{HostSpec, NamedHosts, Network, Plan, Policy, Requirement, Support};
    ///
    /// let hosts = Network::Hosts(NamedHosts::new(["example.com"]).port(443));
    /// let policy = Policy::builder().network(hosts).build()?;
    /// let host = HostSpec { landlock_abi: 7, seccomp: true, connector: true, ..HostSpec::default() };
    /// let plan = Plan::new(&policy, &Support::assume(host), Requirement::Enforce)?;
    /// assert!(plan.needs_proxy_variables());
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn needs_proxy_variables(&self) -> bool {
        self.backend.shares_host() && self.proxied_hosts().is_some()
    }

    /// Returns `true` if a command can get a terminal of its own
    /// ([`Session::Terminal`](crate::Session::Terminal)): under namespaces, bubblewrap and Landlock,
    /// unless its background processes stay, which need a terminal that outlives the broker.
    #[must_use]
    pub fn makes_terminals(&self) -> bool {
        self.backend.makes_terminals() && !self.policy.leaves()
    }

    /// Returns `true` if a process of ours makes every change of a mode for the command.
    pub(crate) fn judges_modes(&self) -> bool {
        linux::judges_modes(&self.policy, &self.support, self.backend)
    }

    /// Returns the rule for watches of files and directories.
    pub(crate) fn watch_rule(&self) -> WatchRule {
        linux::watch_rule(&self.policy, &self.support, self.backend)
    }

    /// Returns the mechanism that enforces the limit on memory.
    pub(crate) fn memory_limiter(&self) -> MemoryLimiter {
        MemoryLimiter::new(&self.policy, &self.support, self.backend)
    }

    /// Returns `true` if a command without a network has a loopback interface of its own, or that
    /// of a container that is its own.
    pub(crate) fn has_loopback(&self) -> bool {
        self.backend.has_loopback() || self.support.own_network
    }
}

/// Returns the reason why a mechanism cannot tell sockets of the command from the host's.
fn cannot_tell_own_sockets(
    policy: &Policy,
    support: &Support,
    backend: Backend,
) -> Option<&'static str> {
    let own_network = matches!(policy.network(), Network::Denied | Network::Loopback);
    if !backend.has_own_root() {
        Some("without namespaces they cannot be told from the host's")
    } else if !own_network && support.landlock_abi() < 6 {
        Some("the host's abstract ones are in the same network, and this kernel has no Landlock 6")
    } else if policy.system() == System::BroadRead {
        Some("the host may have some in what is shown of its system")
    } else {
        None
    }
}

/// Returns the names of the overlays of a policy.
pub(crate) fn overlay_names(policy: &Policy) -> String {
    let overlays = policy.mounts().iter().filter(|m| m.overlay().is_some());
    let names: Vec<&str> = overlays.map(crate::policy::Mount::shown_at).collect();
    names.join(", ")
}

/// Returns the remark on protected names below writable mounts, where existing ones are mounted
/// over.
fn protected_names(policy: &Policy) -> &'static str {
    match policy.holds_absent() {
        false if policy.git_config() == GitConfig::JudgedAfter => {
            "those that are there cannot be changed, but for the configuration of repositories, \
             which is looked at after the end; new ones are moved to a quarantine then"
        }
        false if policy.git_config() == GitConfig::Judged => {
            "those that are there cannot be changed, but for harmless settings of repositories, \
             which are written for git after a look at them; new ones are moved to a quarantine \
             after the end"
        }
        true => {
            "those that are there, or absent and held, cannot be changed; new ones by a pattern or \
             in a new directory are moved to a quarantine after the end"
        }
        false => {
            "those that are there cannot be changed; new ones are moved to a quarantine after the \
             end"
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "mechanism: {}", self.backend)?;
        for entry in self.entries.iter() {
            writeln!(f, "{entry}")?;
        }
        Ok(())
    }
}

/// Uses the field names of a command's [`Enforcement`](crate::Enforcement).
impl serde::Serialize for Plan {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut plan = serializer.serialize_struct("Plan", 3)?;
        plan.serialize_field("policy", &self.policy.hash())?;
        plan.serialize_field("backend", &self.backend)?;
        plan.serialize_field("promises", &*self.entries)?;
        plan.end()
    }
}

impl PlanError {
    /// Returns the message. If no mechanism works, a list of all promises would only hide the
    /// cause.
    fn text(&self) -> String {
        match (&self.refusal, self.backend) {
            (PlanRefusal::Unusable, Backend::None) => match self.gaps.as_slice() {
                [] => "no mechanism works on this host".to_owned(),
                [first, more @ ..] => format!(
                    "no mechanism works on this host, so it cannot keep {} and {} more promises",
                    first.promise.name(),
                    more.len()
                ),
            },
            (PlanRefusal::Unusable, backend) => format!("{backend} does not work on this host"),
            (PlanRefusal::Untried, backend) => format!(
                "{backend} could not be tried, and a weaker mechanism would leave open: {}",
                listed(&self.gaps)
            ),
            (PlanRefusal::Gaps, _) => format!("this host cannot keep: {}", listed(&self.gaps)),
        }
    }

    sandbox_names::getters! {
        /// Returns the promises that stay open.
        pub gaps: &[Entry] = &gaps;
        /// Returns the mechanism: the best one, or the requested one.
        pub backend: Backend = backend;
        /// Returns the remedies, one per line.
        pub hint: String = hints.join("\n");
    }
}

impl From<PlanError> for Error {
    fn from(refused: PlanError) -> Error {
        let error = ErrorKind::Unsupported.error(refused.to_string());
        let error = match refused.hint() {
            hint if hint.is_empty() => error,
            hint => error.with_hint(hint),
        };
        error.with_gaps(refused.gaps)
    }
}

/// Returns promises grouped by their reason, in the order of the table.
fn listed(gaps: &[Entry]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for gap in gaps {
        let reason = gap.reason.as_deref().unwrap_or("no reason is known");
        match groups.iter_mut().find(|group| group.0 == reason) {
            Some(group) => group.1.push(gap.promise.name()),
            None => groups.push((reason, vec![gap.promise.name()])),
        }
    }
    let groups: Vec<String> = groups
        .into_iter()
        .map(|(reason, names)| format!("{} ({reason})", names.join(", ")))
        .collect();
    groups.join("; ")
}

/// Returns the remedies for a mechanism that was requested by name.
fn unusable(support: &Support, backend: Backend) -> Vec<String> {
    let own = format!("{backend}: ");
    let mut hints = hints(support, &[]);
    // Remedies for the other mechanisms do not matter here.
    hints.retain(|hint| hint.starts_with(&own) || hint.starts_with("launcher: "));
    let remedy = (backend.properties().not_handed_over)(support);
    hints.extend(remedy.map(str::to_owned));
    hints
}

/// Returns the remedies for gaps. Control groups help only limits, and named sockets only sockets.
/// A mechanism that was not tried because of a missing prerequisite is listed at the prerequisite.
fn hints(support: &Support, gaps: &[Entry]) -> Vec<String> {
    let limits = gaps
        .iter()
        .any(|gap| matches!(gap.promise, Promise::MemoryLimit | Promise::ProcessLimit));
    let sockets = gaps.iter().any(|gap| gap.promise == Promise::UnixSockets);
    support
        .missing()
        .into_iter()
        .filter(|(what, ..)| limits || !what.ends_with("cgroup"))
        .filter(|(what, ..)| sockets || !what.starts_with("named sockets"))
        .filter(|(_, why, how)| !(how.is_empty() && why.starts_with(UNTRIED)))
        .map(|(what, why, how)| {
            if how.is_empty() {
                format!("{what}: {why}")
            } else {
                format!("{what}: {why}; {how}")
            }
        })
        .collect()
}
