//! The rights of a worker. Private fields, and two ways to come by one: the project's ceiling, and
//! [`Grant::child`], which is a meet. So a grant gives at most the rights of the project, for any
//! declarations of the workers on the way.

pub(crate) mod attachments;
pub(crate) mod confinement;
pub(crate) mod declaration;
mod difference;
pub(crate) mod docker;
pub(crate) mod escalation;
pub(crate) mod execution;
mod facts;
pub(crate) mod file_rules;
pub(crate) mod front_end;
pub(crate) mod git;
pub(crate) mod limits;
pub(crate) mod meet;
pub(crate) mod mount;
pub(crate) mod network;
pub(crate) mod preset;
pub(crate) mod programs;
pub(crate) mod published_ports;
pub(crate) mod refusal;
pub(crate) mod restrict;
pub(crate) mod shell;
pub(crate) mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_network::AskableHosts;

use crate::grant::confinement::{Confinement, SocketRequest, UnixSockets};
use crate::grant::declaration::{Declaration, MountRequest, ZoneDeclaration};
use crate::grant::escalation::{Escalation, Violation};
use crate::grant::execution::ExecutionSettings;
use crate::grant::front_end::{DefaultAccess, FrontEnd};
use crate::grant::git::Repository;
use crate::grant::limits::{Limit, RunLimits};
use crate::grant::meet::{MountSource, meet_zones};
use crate::grant::mount::{Mode, Mount, innermost};
use crate::grant::network::{NetworkAccess, denied_hosts};
use crate::grant::published_ports::PublishedPorts;
use crate::grant::restrict::{meet_places, meet_restrict};
use crate::grant::shell::{CommandPattern, CommandRule, RuleList, ShellRules};
use crate::grant::verdict::{ApprovalPolicy, MountApproval, Operation, Verdict, VerdictSetting};
use crate::syntax::text::{ConfigOrigin, Span};

/// The rights of a worker.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use sandbox_config::{load, Declaration, Mode, Sources, ZoneDeclaration};
/// let project = load(&Sources::new(dir.path())).unwrap();
/// // Allowed: less than the parent.
/// let wish = Declaration::zones([ZoneDeclaration::new("workspace", Mode::ReadOnly)]);
/// let child = project.ceiling().child(&wish).unwrap();
/// assert_eq!(child.mount_access("workspace"), Some(Mode::ReadOnly));
/// assert_eq!(child.mount_access("cache"), None);
/// // Denied: back to rights that the parent no longer has.
/// let more = Declaration::zones([ZoneDeclaration::new("cache", Mode::ReadOnly)]);
/// assert!(child.child(&more).is_err());
/// ```
// A grant shares unchanged parts with its children: a project has one ceiling and may have a
// thousand workers, each of which is checked as it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How the project spells its directories.
    pub(crate) front: FrontEnd,
    pub(crate) mounts: Arc<[Mount]>,
    pub(crate) network: NetworkAccess,
    pub(crate) published_ports: PublishedPorts,
    /// The hosts that an answer of a person may add for one run.
    pub(crate) askable_hosts: Arc<AskableHosts>,
    pub(crate) shell: Option<ShellRules>,
    pub(crate) environment: Arc<EnvironmentGrant>,
    pub(crate) limits: RunLimits,
    pub(crate) approval: Arc<ApprovalPolicy>,
    pub(crate) require_os_sandbox: bool,
    pub(crate) execution: Arc<ExecutionSettings>,
    pub(crate) tools: Option<Arc<BTreeSet<String>>>,
    pub(crate) protect: Arc<[String]>,
    pub(crate) hide: Arc<[String]>,
    /// Rights of a called worker without a `sandbox` key.
    pub(crate) undeclared: DefaultAccess,
    /// `child_sandbox_policy: own`: the project's mounts, which a declaration is met with instead
    /// of the caller's.
    pub(crate) pool: Option<Arc<[Mount]>>,
    pub(crate) drawn_from: MountSource,
    pub(crate) confinement: Confinement,
    /// The repositories to pull from and stage for, each address once.
    pub(crate) repositories: Arc<[Repository]>,
    /// `git.allow_executable_config`.
    pub(crate) executable_config: bool,
}

/// `shell.env`, the variables of commands beside forge's own PATH, HOME and TMPDIR, and
/// `shell.session`: `true` if commands share a session.
///
/// ```
/// use sandbox_config::Grant;
/// let environment = Grant::empty().environment().clone();
/// assert!(environment.pass().is_empty() && environment.set().is_empty());
/// assert!(!environment.session());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentGrant {
    pub(crate) pass: Vec<String>,
    pub(crate) set: BTreeMap<String, String>,
    pub(crate) session: bool,
}

impl EnvironmentGrant {
    sandbox_names::getters! {
        /// Returns `true` if each command of a worker begins where the one before it ended
        /// (`shell.session`).
        pub session: bool = session;
        /// Variables handed on from forge's own environment.
        pub pass: &[String] = &pass;
        /// Variables with a fixed value.
        pub set: &BTreeMap<String, String> = &set;
    }
}

impl Grant {
    /// The host path of a sandbox path, by text.
    pub(crate) fn host_of(&self, path: &str) -> Option<PathBuf> {
        let mount = self.mount_at(path)?;
        let below = path.strip_prefix(mount.target()).unwrap_or_default();
        let names = below.split('/').filter(|name| !name.is_empty());
        Some(names.fold(mount.host().to_path_buf(), |host, name| host.join(name)))
    }
}

impl Grant {
    /// Returns a grant without rights: a pure function, or a server whose config does not validate.
    #[must_use]
    pub fn empty() -> Grant {
        Grant {
            front: FrontEnd::Zones,
            mounts: Arc::default(),
            network: NetworkAccess::Denied,
            published_ports: PublishedPorts::default(),
            askable_hosts: Arc::default(),
            shell: None,
            environment: Arc::default(),
            limits: RunLimits::default(),
            approval: Arc::default(),
            require_os_sandbox: false,
            execution: Arc::default(),
            tools: None,
            protect: Arc::default(),
            hide: Arc::default(),
            undeclared: FrontEnd::Zones.undeclared(),
            pool: None,
            drawn_from: MountSource::Project,
            confinement: Confinement::default(),
            repositories: Arc::default(),
            executable_config: false,
        }
    }

    /// Returns the meet of this grant and the declaration: the only way down.
    ///
    /// # Errors
    /// The declaration asks for more than this grant holds; nothing is clipped silently.
    pub fn child(&self, declaration: &Declaration) -> Result<Grant, Escalation> {
        let mounts = match self.undeclared {
            DefaultAccess::Nothing => Arc::default(),
            DefaultAccess::Inherit => self.handed_on(),
        };
        let undeclared = Grant {
            mounts,
            ..Grant::empty()
        };
        self.meet(declaration, self.undeclared, undeclared)
    }

    /// Returns this grant over other mounts: a program that leaves its sandbox to its workers (old
    /// form).
    pub(crate) fn with_mounts(&self, mounts: Arc<[Mount]>) -> Grant {
        Grant {
            mounts,
            ..self.clone()
        }
    }

    /// The entry worker: without a `sandbox` key it holds the whole ceiling.
    pub(crate) fn entry(&self, declaration: &Declaration) -> Result<Grant, Escalation> {
        let grant = if declaration.is_undeclared() {
            self.meet(declaration, DefaultAccess::Inherit, self.clone())?
        } else {
            let held = self.child(declaration);
            held.map_err(Escalation::of_entry)?
        };
        Ok(Grant {
            drawn_from: MountSource::Project,
            ..grant
        })
    }

    /// `undeclared`: the directories, network, shell and repositories of a child whose declaration
    /// leaves them out.
    fn meet(
        &self,
        declaration: &Declaration,
        access: DefaultAccess,
        undeclared: Grant,
    ) -> Result<Grant, Escalation> {
        let mut violations = Vec::new();
        let source = self.source();
        let mounts = match &declaration.mounts {
            MountRequest::Undeclared => undeclared.mounts,
            MountRequest::Nothing => Arc::default(),
            MountRequest::Inherit => self.handed_on(),
            MountRequest::Zones(zones) => meet_zones(source, zones, &mut violations).into(),
            MountRequest::Restrict(wish) => meet_restrict(source, wish, &mut violations).into(),
            MountRequest::Places(places) => meet_places(source, places).into(),
        };
        let (network, published_ports) = self
            .meet_network(declaration, &mut violations)
            .unwrap_or((undeclared.network, undeclared.published_ports));
        let unix_sockets = self.meet_sockets(declaration, access, &mut violations);
        let shell = match &declaration.shell {
            None => undeclared.shell,
            Some((own, at)) => self.meet_shell(own, at, &mut violations),
        };
        let repositories = match &declaration.repositories {
            None => undeclared.repositories,
            Some(wishes) => git::meet(&self.repositories, wishes, &mut violations),
        };
        match Escalation::from_list(violations) {
            Some(escalation) => Err(escalation),
            None => Ok(Grant {
                front: self.front,
                mounts,
                network,
                published_ports,
                askable_hosts: self.askable_hosts_below(declaration),
                shell,
                environment: self.environment.clone(),
                limits: self.limits.meet(declaration.limits),
                approval: match &declaration.approval {
                    None => self.approval.clone(),
                    Some(own) => ApprovalPolicy::clone(&self.approval).at_most(own).into(),
                },
                require_os_sandbox: self.require_os_sandbox,
                execution: self.execution.clone(),
                tools: self.meet_tools(declaration),
                protect: self.protect.clone(),
                hide: self.hide.clone(),
                undeclared: self.undeclared,
                pool: self.pool.clone(),
                drawn_from: self.mount_source(&declaration.mounts),
                confinement: Confinement {
                    unix_sockets,
                    ..self.confinement.clone()
                },
                repositories,
                executable_config: self.executable_config,
            }),
        }
    }

    /// Returns the hosts that a person may be asked about: a denial is inherited.
    fn askable_hosts_below(&self, declaration: &Declaration) -> Arc<AskableHosts> {
        let wanted = match &declaration.network {
            Some((NetworkAccess::Hosts(rules), _)) => rules.denied(),
            Some(_) | None => &[],
        };
        let lines = denied_hosts(&declaration.network_lines);
        let mut denied = lines.chain(wanted.iter().cloned()).peekable();
        match denied.peek() {
            None => Arc::clone(&self.askable_hosts),
            Some(_) => Arc::new(AskableHosts::clone(&self.askable_hosts).without(denied)),
        }
    }

    /// Returns the hosts and the published ports of both; `None` if the declaration leaves the
    /// network out.
    fn meet_network(
        &self,
        declaration: &Declaration,
        violations: &mut Vec<Violation>,
    ) -> Option<(NetworkAccess, PublishedPorts)> {
        let (wanted, at) = declaration.network.as_ref()?;
        if wanted.asks_beyond(&self.network) {
            violations.push(Violation::network(at.as_ref(), wanted, &self.network));
        }
        let ports = &declaration.published_ports;
        let beyond = ports.excess_over(&self.published_ports);
        if !beyond.is_empty() {
            let held = &self.published_ports;
            violations.push(Violation::published_ports(at.as_ref(), &beyond, held));
        }
        let ports = ports.meet(&self.published_ports);
        Some((wanted.meet(&self.network), ports))
    }

    fn meet_shell(
        &self,
        own: &Option<RuleList>,
        at: &Option<Span>,
        violations: &mut Vec<Violation>,
    ) -> Option<ShellRules> {
        let Some(held) = &self.shell else {
            violations.push(Violation::shell(at.as_ref()));
            return None;
        };
        let mut rules = held.clone();
        rules.lists.extend(own.clone());
        Some(rules)
    }

    fn meet_tools(&self, declaration: &Declaration) -> Option<Arc<BTreeSet<String>>> {
        match (&declaration.tools, &self.tools) {
            (None, held) => held.clone(),
            (Some(wanted), None) => Some(Arc::new(wanted.iter().cloned().collect())),
            (Some(wanted), Some(held)) => {
                let both = wanted.iter().filter(|tool| held.contains(*tool));
                Some(Arc::new(both.cloned().collect()))
            }
        }
    }

    /// Returns the other side of the meet with a declaration of directories.
    fn mount_source(&self, request: &MountRequest) -> MountSource {
        match request {
            MountRequest::Zones(_) | MountRequest::Restrict(_) if self.pool.is_some() => {
                MountSource::Project
            }
            _ => MountSource::Caller,
        }
    }

    /// Returns all mounts, for workers that inherit: `use: false` is about one worker's own tools.
    fn handed_on(&self) -> Arc<[Mount]> {
        let mut mounts = Arc::clone(&self.mounts);
        if !mounts.iter().all(Mount::usable) {
            for mount in Arc::make_mut(&mut mounts) {
                mount.usable = true;
            }
        }
        mounts
    }

    /// Sockets are asked for, or come with the mounts where those come without being asked for.
    fn meet_sockets(
        &self,
        declaration: &Declaration,
        undeclared: DefaultAccess,
        violations: &mut Vec<Violation>,
    ) -> UnixSockets {
        let held = &self.confinement.unix_sockets;
        match (&declaration.unix_sockets, &declaration.mounts) {
            (Some((SocketRequest::Inherit, _)), _) => held.clone(),
            (Some((SocketRequest::These(wanted), at)), _) => {
                if !wanted.is_within(held) {
                    violations.push(Violation::sockets(at.as_ref()));
                }
                wanted.meet(held)
            }
            (None, MountRequest::Inherit) => held.clone(),
            (None, MountRequest::Undeclared) if undeclared == DefaultAccess::Inherit => {
                held.clone()
            }
            (None, _) => UnixSockets::Closed,
        }
    }

    /// `child_sandbox_policy: own`: workers below may draw on these mounts.
    pub(crate) fn open_to_all(self) -> Grant {
        Grant {
            pool: Some(Arc::clone(&self.mounts)),
            ..self
        }
    }

    /// Returns `true` if a mount of it, or of those that it may pass on, is the directory of a run
    /// that is not known yet.
    #[must_use]
    pub fn awaits_run(&self) -> bool {
        let pool = self.pool.iter().flat_map(|pool| pool.iter());
        self.mounts.iter().chain(pool).any(Mount::awaits_run)
    }

    /// Returns this grant in a run whose own directory is `workspace`: absolute, without links, and
    /// made by the keeper of the run. It is shown where the project says `run:workspace`, and
    /// nowhere else; a grant that knows its run already stays as it is.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
    /// #     "sandbox: { zones: { workspace: { path: run:workspace } } }\n").unwrap();
    /// use sandbox_config::{load, Sources};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// assert!(project.ceiling().awaits_run());
    /// let workspace = std::path::Path::new("/runs/main_1-2/workspace");
    /// let grant = project.ceiling().in_run(workspace);
    /// assert_eq!(grant.mount("workspace").unwrap().host(), workspace);
    /// assert!(!grant.awaits_run());
    /// ```
    #[must_use]
    pub fn in_run(&self, workspace: &std::path::Path) -> Grant {
        self.with_each_mount(|mount| mount.in_run(workspace))
    }

    /// Changes the mounts, those of the pool too.
    fn with_each_mount(&self, mut change: impl FnMut(&mut Mount)) -> Grant {
        let mut grant = self.clone();
        for mounts in std::iter::once(&mut grant.mounts).chain(&mut grant.pool) {
            Arc::make_mut(mounts).iter_mut().for_each(&mut change);
        }
        grant
    }

    /// Returns this grant with commands only under an OS sandbox, as by
    /// `sandbox.require_os_sandbox: true`.
    ///
    /// ```
    /// use sandbox_config::Grant;
    /// assert!(Grant::empty().requiring_os_sandbox().require_os_sandbox());
    /// ```
    #[must_use]
    pub fn requiring_os_sandbox(self) -> Grant {
        Grant {
            require_os_sandbox: true,
            ..self
        }
    }

    /// Returns this grant with directories of the host taken from elsewhere: each `(from, to)` moves
    /// the mounts at and below `from`, those that it may pass on included. Paths, modes and guards
    /// stay as they are. Both paths are absolute and without links.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use std::path::{Path, PathBuf};
    /// use sandbox_config::{load, Sources};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// let from = project.ceiling().mount("cache").unwrap().host().to_owned();
    /// let copy = PathBuf::from("/copies/1");
    /// let grant = project.ceiling().relocated(&[(from, copy.clone())]);
    /// assert_eq!(grant.mount("cache").unwrap().host(), copy);
    /// assert_eq!(grant.mount("cache").unwrap().target(), "/cache");
    /// ```
    #[must_use]
    pub fn relocated(&self, moves: &[(std::path::PathBuf, std::path::PathBuf)]) -> Grant {
        self.with_each_mount(|mount| {
            let mut moves = moves.iter();
            if let Some((from, to)) = moves.find(|(from, _)| mount.host.starts_with(from)) {
                mount.relocate(from, to);
            }
        })
    }

    /// Returns this grant with the given rules of the user for the project beside its own. They
    /// answer only calls that the rules of the project and its workers would ask about.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # std::fs::write(dir.path().join("golem-forge.config.yaml"),
    /// #     "shell: { rules: [{ pattern: 'npm *', approval: ask }] }\n").unwrap();
    /// use sandbox_config::{load, CommandPattern, Sources, Verdict};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// let rules = [CommandPattern::parse("npm test").unwrap(), CommandPattern::parse("rm *").unwrap()];
    /// let grant = project.ceiling().with_personal_rules(rules);
    /// let decide = |words: &[&str]| {
    ///     let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    ///     grant.shell().unwrap().decide(&words).verdict()
    /// };
    /// assert_eq!(decide(&["npm", "test"]), Verdict::Allow);
    /// assert_eq!(decide(&["npm", "publish"]), Verdict::Ask);
    /// assert_eq!(decide(&["rm", "x"]), Verdict::Block);
    /// ```
    #[must_use]
    pub fn with_personal_rules(&self, patterns: impl IntoIterator<Item = CommandPattern>) -> Grant {
        let mut grant = self.clone();
        if let Some(shell) = &mut grant.shell {
            let new = patterns.into_iter().map(|pattern| CommandRule {
                pattern,
                verdict: Verdict::Allow,
                why: None,
                origin: ConfigOrigin::built_in(),
            });
            shell.personal = shell.personal.iter().cloned().chain(new).collect();
        }
        grant
    }

    /// Returns the mounts that a declaration of directories is met with.
    fn source(&self) -> &[Mount] {
        self.pool.as_deref().unwrap_or(&self.mounts)
    }

    sandbox_names::getters! {
        /// Returns the other side of the meet that gave this grant its directories.
        pub drawn_from: MountSource = drawn_from;
        /// How the project spells its directories: decides words, never rights.
        pub front: FrontEnd = front;
        /// The network.
        pub network: &NetworkAccess = &network;
        /// The ports of a command's loopback that are published on the host's.
        ///
        /// ```
        /// assert_eq!(sandbox_config::Grant::empty().published_ports().list().count(), 0);
        /// ```
        pub published_ports: &PublishedPorts = &published_ports;
        /// Returns the hosts that an answer of a person may add for one run: those that no list of the
        /// project, of the callers or of this worker denies, within the user's own file.
        pub askable_hosts: &AskableHosts = &askable_hosts;
        /// Returns the shell rules; `None` if the shell is not offered.
        pub shell: Option<&ShellRules> = shell.as_ref();
        /// Returns the environment of commands.
        pub environment: &EnvironmentGrant = &environment;
        /// The repositories that may be used, in the project's order.
        pub repositories: &[Repository] = &repositories;
        /// Returns `true` if files that programs obey may be staged: the project's setting, shared by
        /// every worker.
        pub allows_executable_config: bool = executable_config;
        /// The limits.
        pub limits: &RunLimits = &limits;
        /// The tool axis of approval.
        pub approval: &ApprovalPolicy = &approval;
        /// Returns the confinement of commands besides mounts and network.
        pub confinement: &Confinement = &confinement;
        /// Returns where calls run: the project's setting, shared by every worker.
        pub execution: &ExecutionSettings = &execution;
        /// Returns the only tools offered; `None`: all that the rights make possible.
        pub tools: Option<&BTreeSet<String>> = tools.as_deref();
        /// Returns the patterns of files that are never writable below any mount.
        pub protect: &[String] = &protect;
        /// Returns the patterns of files that are shown as absent below any mount.
        pub hide: &[String] = &hide;
        /// The mounts, in the project's order; those held only for children, too.
        pub mounts: impl Iterator<Item = &Mount> = mounts.iter();
    }

    /// Returns the nested mounts of a used one that are only held: neither they nor the directories
    /// under them may be reached by way of the outer mount.
    #[cfg(feature = "files")]
    pub(crate) fn unused_parts(&self, outer: &Mount) -> impl Iterator<Item = &Mount> {
        self.mounts
            .iter()
            .filter(move |part| !part.usable && part.is_nested_in(outer))
    }

    /// One mount by name.
    #[must_use]
    pub fn mount(&self, name: &str) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.name == name)
    }

    /// Returns the innermost mount of a sandbox path.
    #[must_use]
    pub fn mount_at(&self, path: &str) -> Option<&Mount> {
        innermost(&self.mounts, path)
    }

    /// `ro`, `rw`, or not held.
    #[must_use]
    pub fn mount_access(&self, name: &str) -> Option<Mode> {
        self.mount(name).map(Mount::mode)
    }

    /// Consent for an operation on a mount. A mount that is not held: blocked.
    #[must_use]
    pub fn mount_approval(&self, name: &str, operation: Operation) -> Verdict {
        self.mount(name)
            .map_or(Verdict::Block, |mount| mount.approval.verdict(operation))
    }

    /// One of them, by address.
    #[must_use]
    pub fn repository(&self, address: &str) -> Option<&Repository> {
        self.repositories.iter().find(|one| one.address == address)
    }

    /// Returns `true` if some directory is `durable`, so that decisions are on the disk before
    /// calls are made.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.mounts().any(|mount| mount.file_rules().durable())
    }

    /// Returns `true` if commands may only run under an OS sandbox.
    #[must_use]
    pub fn require_os_sandbox(&self) -> bool {
        // Required guards need an enforcer.
        self.require_os_sandbox || self.confinement.require_guards
    }

    /// Returns `true` if a tool may be offered.
    #[must_use]
    pub fn allows_tool(&self, name: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.contains(name))
    }

    /// Returns the patterns that protect names of a mount of this grant: those that count in every
    /// mount, the paths that the project names in it, and forge's own files.
    pub fn protected_in<'g>(&'g self, mount: &'g Mount) -> impl Iterator<Item = &'g String> {
        let everywhere = self
            .protect
            .iter()
            .filter(|one| mount::counts_everywhere(one));
        everywhere
            .chain(mount.own_files())
            .chain(mount.protected_paths())
    }

    /// Returns the patterns that hide names of a mount of this grant: those that count in every
    /// mount, and the paths that the project names in it.
    pub fn hidden_in<'g>(&'g self, mount: &'g Mount) -> impl Iterator<Item = &'g String> {
        let everywhere = self.hide.iter().filter(|one| mount::counts_everywhere(one));
        everywhere.chain(mount.hidden_paths())
    }

    /// Returns the sandbox path of a host path, by text.
    #[must_use]
    pub fn sandbox_path(&self, host: &Path) -> Option<String> {
        let mount = self
            .mounts()
            .filter(|mount| host.starts_with(mount.host()))
            .max_by_key(|mount| mount.host().components().count())?;
        let below = host.strip_prefix(mount.host()).ok()?.to_str()?;
        let target = mount.target().trim_end_matches('/');
        Some(match (target, below) {
            ("", "") => "/".to_owned(),
            (target, "") => target.to_owned(),
            (target, below) => format!("{target}/{below}"),
        })
    }

    /// Returns this grant with every mount read-only: `exec --read-only`.
    #[must_use]
    pub fn read_only(&self) -> Grant {
        let mut grant = self.clone();
        for mount in Arc::make_mut(&mut grant.mounts) {
            mount.mode = Mode::ReadOnly;
        }
        grant
    }
}

impl Mount {
    pub(crate) fn meet(&self, wish: &ZoneDeclaration, violations: &mut Vec<Violation>) -> Mount {
        if wish.mode > self.mode {
            let implied = wish.mode_span.is_none() && wish.name_span.is_some();
            let at = wish.mode_span.as_ref().or(wish.name_span.as_ref());
            violations.push(Violation::mode(at, implied, self));
        }
        let suffixes = match (&wish.suffixes, &self.suffixes) {
            (None, held) => held.clone(),
            (Some((wanted, _)), None) => Some(wanted.clone()),
            (Some((wanted, at)), Some(held)) => {
                let both: Vec<String> = wanted
                    .iter()
                    .filter(|suffix| held.contains(suffix))
                    .cloned()
                    .collect();
                if both.is_empty() {
                    violations.push(Violation::suffixes(at.as_ref(), &self.name, held));
                }
                Some(both)
            }
        };
        let narrows = wish.mode < self.mode;
        Mount {
            mode: wish.mode.min(self.mode),
            mode_origin: match &wish.mode_span {
                Some(span) if narrows => span.origin(),
                _ => self.mode_origin.clone(),
            },
            suffixes,
            max_file_bytes: wish.max_file_bytes.smaller(self.max_file_bytes),
            approval: self.meet_approval(&wish.approval, violations),
            usable: wish.usable,
            ..self.clone()
        }
    }

    fn meet_approval(
        &self,
        wishes: &[(Operation, Verdict, Option<Span>)],
        violations: &mut Vec<Violation>,
    ) -> MountApproval {
        let mut approval = self.approval;
        for wish in wishes {
            let (operation, wanted, _) = wish;
            let held = self.approval.stated(*operation);
            if *wanted < held.ceiling() {
                violations.push(Violation::approval(&self.name, wish, held.verdict()));
            }
            let so_far = match approval.stated(*operation) {
                VerdictSetting::Default(_) => *wanted,
                VerdictSetting::Explicit(verdict) => verdict.max(*wanted),
            };
            approval.set_verdict(*operation, so_far);
        }
        approval
    }
}

#[cfg(test)]
mod tests {
    mod attenuation;
}
