//! Policies: the access that one command has. A policy is pure data and does not depend on the
//! system. [`Policy::allows`] is the reference meaning that each mechanism is compared with. The
//! plan decides if a host can enforce a policy.

mod environment;
mod git;
mod guards;
mod limits;
mod mounts;
mod network;
mod programs;
mod sockets;
mod survivors;
mod system;

pub use environment::Environment;
pub(crate) use environment::{DEFAULT_PATH, check_variable};
pub use git::{Git, GitConfig};
pub use guards::Pattern;
pub use limits::Limits;
pub(crate) use mounts::{LinkPolicy, check_not_kernel, covered};
pub use mounts::{Mount, MountPlacement, OverlayDirs};
pub use network::{MAX_PUBLISHED_PORTS, NamedHosts, Network, ParentProxySetting};
pub use programs::ProgramDir;
pub use sockets::UnixSockets;
pub(crate) use sockets::refuse_writable;
pub use survivors::Survivors;
pub use system::System;
pub(crate) use system::{BROAD, DEVICES, ETC, PROGRAMS};

use crate::access::Access;
use crate::error::Error;
use crate::promise::Promise;
use crate::reports::ReportLevel;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Bound on the guard patterns of one policy.
const MAX_PATTERNS: usize = 256;
/// Bound of the kernel on a host name, and more than systems give a user.
const MAX_NAME_BYTES: usize = 64;

/// The access of one command. [`Policy::builder`] creates it; afterwards it cannot change.
///
/// ```
/// use os_sandbox::{Access, Policy};
/// use std::path::Path;
///
/// let policy = Policy::builder()
///     .mount("/home/me/project", "/", Access::ALL)
///     .mount("/home/me/data", "/data", Access::READ)
///     .build()?;
/// assert!(policy.allows(Path::new("/home/me/data/a.csv"), Access::READ));
/// assert!(!policy.allows(Path::new("/home/me/data/a.csv"), Access::WRITE));
/// assert!(!policy.allows(Path::new("/home/me/.ssh/id_ed25519"), Access::READ));
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    mounts: Vec<Mount>,
    system: System,
    network: Network,
    published_ports: BTreeSet<u16>,
    unix_sockets: UnixSockets,
    survivors: Survivors,
    reports: ReportLevel,
    programs: Vec<ProgramDir>,
    environment: Environment,
    limits: Limits,
    git: Git,
    protect: Vec<Pattern>,
    /// Subset of `protect` that the builder derived from the git mode: a scan finds these names,
    /// but an absent one gets no placeholder.
    derived: Vec<Pattern>,
    hide: Vec<Pattern>,
    /// Patterns that apply to one mount only, by the mount's name.
    own_guards: BTreeMap<String, MountGuards>,
    /// Names of the mounts to which only patterns of their own apply.
    unguarded: BTreeSet<String>,
    /// Names of mounts that no new link leads out of.
    links_stay: BTreeSet<String>,
    hold_absent: bool,
    git_config: GitConfig,
    host_name: Option<String>,
    user_name: Option<String>,
}

impl Policy {
    /// The maximum number of mounts of a policy, including parts with an access of their own.
    pub const MAX_MOUNTS: usize = mounts::MAX_MOUNTS;

    /// Starts with the minimal system only: without mounts and network, with a clean environment
    /// and default limits.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    sandbox_names::getters! {
        /// Returns the mounts, in the order of the builder calls.
        pub mounts: &[Mount] = &mounts;
        /// Returns the part of the host's system that the command sees.
        pub system: System = system;
        /// Returns the hosts that the command may reach.
        pub network: &Network = &network;
        /// Returns the ports of the command's loopback that are published on the host's.
        pub published_ports: &BTreeSet<u16> = &published_ports;
        /// Returns the local sockets that the command can connect to.
        pub unix_sockets: &UnixSockets = &unix_sockets;
        /// Returns the fate of processes that outlive the command.
        pub survivors: Survivors = survivors;
        /// Returns the attempts that are reported, unless a command has a level of its own
        /// ([`Command::reports`](crate::Command::reports)).
        pub reports: ReportLevel = reports;
        /// Returns the permitted changes of repositories' configuration.
        pub git_config: GitConfig = git_config;
        /// Returns the programs of the host outside its system directories, sorted by the path that
        /// commands see.
        pub programs: &[ProgramDir] = &programs;
        /// Returns the variables of the command's environment.
        pub environment: &Environment = &environment;
        /// Returns the limits.
        pub limits: &Limits = &limits;
        /// Returns the changes to repositories that the command may make.
        pub git: Git = git;
        /// Returns the name of the user inside, where the sandbox has its own. `None` for a neutral one.
        pub user_name: Option<&str> = user_name.as_deref();
        /// Returns `true` if placeholders fill in for absent protected names.
        pub(crate) holds_absent: bool = hold_absent;
        /// Returns the host name inside, where the sandbox has its own.
        pub host_name: &str = host_name.as_deref().unwrap_or("sandbox");
    }

    /// Checks a port that is published while the command runs.
    ///
    /// # Errors
    /// The command cannot listen on it ([`PolicyBuilder::publish_port`]).
    ///
    /// ```
    /// let policy = os_sandbox::Policy::builder().build()?;
    /// assert!(policy.check_port(8080).is_ok() && policy.check_port(80).is_err());
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn check_port(&self, port: u16) -> Result<(), Error> {
        self.network.check(&BTreeSet::from([port]))
    }

    /// Returns the policy without local sockets.
    pub(crate) fn with_sockets_closed(mut self) -> Policy {
        self.unix_sockets = UnixSockets::Closed;
        self
    }

    /// Returns the policy with other permitted changes of repositories' configuration.
    pub(crate) fn with_git_config(mut self, git_config: GitConfig) -> Policy {
        self.git_config = git_config;
        self
    }

    /// Returns `true` if commands run without a supervisor where no other mechanism ends the
    /// processes that they leave behind.
    pub(crate) fn leaves(&self) -> bool {
        self.survivors == Survivors::Left
    }

    /// Returns `true` if the policy waives this promise by name. The plan lists its absence anyway.
    pub(crate) fn gives_up(&self, promise: Promise) -> bool {
        self.leaves() && promise == Promise::Survivors
    }

    /// Returns the access that the system profile and the programs give to a path as commands see it.
    pub(crate) fn system_access(&self, path: &Path) -> Access {
        let mut programs = self.programs.iter();
        match programs.any(|one| path.starts_with(one.shown_at())) {
            true => Access::READ.union(Access::EXECUTE),
            false => system::allows(self.system, path),
        }
    }

    sandbox_names::getters! {
        /// Returns the patterns of names that the command should not change, including those of the git
        /// mode.
        pub protected: impl Iterator<Item = &str> = protect.iter().map(Pattern::text);
        /// Returns the patterns of names that the command should not read.
        pub hidden: impl Iterator<Item = &str> = hide.iter().map(Pattern::text);
    }

    /// Returns the protect patterns that apply to this mount only ([`PolicyBuilder::protect_in`]).
    pub fn protected_in(&self, shown_at: &str) -> impl Iterator<Item = &str> {
        let own = self.own_guards.get(shown_at).into_iter();
        own.flat_map(|guards| &guards.protect).map(Pattern::text)
    }

    /// Returns the hide patterns that apply to this mount only ([`PolicyBuilder::hide_in`]).
    pub fn hidden_in(&self, shown_at: &str) -> impl Iterator<Item = &str> {
        let own = self.own_guards.get(shown_at).into_iter();
        own.flat_map(|guards| &guards.hide).map(Pattern::text)
    }

    /// Returns the patterns of this mount that reports name by another text, with that text.
    pub fn written_in(&self, shown_at: &str) -> impl Iterator<Item = (&str, &str)> {
        let own = self.own_guards.get(shown_at).into_iter();
        own.flat_map(|guards| guards.protect.iter().chain(&guards.hide))
            .filter(|one| one.written() != one.text())
            .map(|one| (one.text(), one.written()))
    }

    /// Returns the policy with each mount at its own path of the host, as without a mount layer,
    /// and with `/work` as a link to the root mount. This is for the files of people, which refer
    /// to each other by these paths (virtual environments, build directories, worktrees). Nothing
    /// changes if that is impossible: if a path is not UTF-8, if a mount is at or around `/tmp` or
    /// `/home/sandbox`, or if a mount is inside a directory that another mount covers.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let policy = Policy::builder().mount("/home/me/project", "/", Access::ALL).build()?;
    /// let policy = policy.at_host_paths()?;
    /// assert_eq!(policy.mounts()[0].inside(), "/home/me/project");
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the mounts are invalid at these paths.
    pub fn at_host_paths(mut self) -> Result<Policy, Error> {
        let wanted: Vec<_> = self.mounts.iter().map(Mount::wanted).collect();
        self.mounts = mounts::resolve(&wanted, mounts::Paths::OfHost)?;
        let programs: Vec<_> = self.programs.iter().map(ProgramDir::wanted).collect();
        self.programs = programs::resolve(&programs, &self.mounts, self.system)?;
        Ok(self)
    }

    /// Returns this policy with the names of the host and of the user that commands see. A name that is
    /// not given stays neutral where the sandbox has its own: `sandbox` in namespaces and under
    /// bubblewrap, and `root` for uid 0. The other mechanisms show the names of the host in any case.
    /// The user's name is in `/etc/passwd` and in `USER` and `LOGNAME`, unless those are set.
    ///
    /// ```
    /// use os_sandbox::Policy;
    /// let policy = Policy::builder().build()?.with_names(Some("laptop"), None)?;
    /// assert_eq!((policy.host_name(), policy.user_name()), ("laptop", None));
    /// assert!(policy.with_names(None, Some("a:b")).is_err());
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// A name is not one of a host (sethostname(2)) or of a user (passwd(5)).
    pub fn with_names(mut self, host: Option<&str>, user: Option<&str>) -> Result<Policy, Error> {
        for (what, name) in [("host", host), ("user", user)] {
            let fits = |c: char| c.is_alphanumeric() || "-_.@\\+$".contains(c);
            if let Some(name) = name
                && (name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(fits))
            {
                return Err(Error::invalid(format!(
                    "not the name of a {what}: {name:?}"
                )));
            }
        }
        if let Some(name) = user {
            for variable in ["USER", "LOGNAME"] {
                self.environment.set_default(variable, name);
            }
        }
        self.host_name = host.map(str::to_owned);
        self.user_name = user.map(str::to_owned);
        Ok(self)
    }

    /// Returns the user's name inside, where the sandbox has its own.
    pub(crate) fn shown_user(&self) -> &str {
        let is_root = nix::unistd::geteuid().is_root();
        let neutral = if is_root { "root" } else { "sandbox" };
        self.user_name().unwrap_or(neutral)
    }

    /// Returns this policy with another network.
    ///
    /// ```
    /// use os_sandbox::{NamedHosts, Network, Policy};
    /// let hosts = Network::Hosts(NamedHosts::new(["example.com"]).port(443));
    /// let policy = Policy::builder().build()?.with_network(hosts.clone())?;
    /// assert_eq!(policy.network(), &hosts);
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// The list of hosts has too many ports or addresses, or the network leaves no published port to
    /// the command ([`PolicyBuilder::publish_port`]).
    pub fn with_network(mut self, network: Network) -> Result<Policy, Error> {
        network.check(&self.published_ports)?;
        self.network = network;
        Ok(self)
    }

    /// Returns this policy with an overlay in the place of the mount at `shown_at`
    /// ([`PolicyBuilder::overlay`]).
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let policy = Policy::builder().mount("/home/me/project", "/", Access::ALL).build()?;
    /// let policy = policy.with_overlay("/", "/var/lib/me/upper", "/var/lib/me/work")?;
    /// assert!(policy.mounts()[0].overlay().is_some());
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// The mount does not exist, or cannot be an overlay.
    pub fn with_overlay(
        mut self,
        shown_at: &str,
        upper: impl Into<PathBuf>,
        work: impl Into<PathBuf>,
    ) -> Result<Policy, Error> {
        let dirs = OverlayDirs {
            upper: upper.into(),
            work: work.into(),
        };
        mounts::make_overlay(&mut self.mounts, shown_at, dirs)?;
        Ok(self)
    }

    /// Returns this policy with a directory of the host taken from elsewhere: the mounts at and below
    /// `from` show `to`, at the paths that they have. Do this last: it changes no path inside.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// use std::path::Path;
    /// let policy = Policy::builder().mount("/home/me/project", "/", Access::ALL).build()?;
    /// let policy = policy.at_host_paths()?.relocated("/home/me/project", "/copies/1")?;
    /// assert_eq!(policy.mounts()[0].host(), Path::new("/copies/1"));
    /// assert_eq!(policy.mounts()[0].inside(), "/home/me/project");
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// A path is not absolute, or another mount with write access shows a directory around `from`, in
    /// which commands would change the original.
    pub fn relocated(
        mut self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
    ) -> Result<Policy, Error> {
        mounts::relocate(&mut self.mounts, from.as_ref(), to.as_ref())?;
        Ok(self)
    }

    /// Returns the path at which commands see a directory of the host. The directory is inside a
    /// mount, or it contains mounts (a directory on the way to them, or `/work`). `None` if
    /// commands do not see it.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// use std::path::Path;
    /// let policy = Policy::builder().mount("/home/me/project", "/", Access::ALL).build()?;
    /// let seen = |policy: &Policy, path| policy.directory_inside(Path::new(path));
    /// assert_eq!(seen(&policy, "/home/me/project/src").as_deref(), Some("/work/src"));
    /// assert_eq!(seen(&policy, "/home/other"), None);
    /// let policy = policy.at_host_paths()?;
    /// assert_eq!(seen(&policy, "/home/me/project/src").as_deref(), Some("/home/me/project/src"));
    /// assert_eq!(seen(&policy, "/home/me").as_deref(), Some("/home/me"));
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn directory_inside(&self, host: impl AsRef<Path>) -> Option<String> {
        let host = host.as_ref();
        let text = |path: &Path| path.to_str().map(str::to_owned);
        if let Some(mount) = self.mount_of(host) {
            let below = host.strip_prefix(mount.host()).ok()?;
            let seen: PathBuf = Path::new(mount.inside()).join(below).components().collect();
            return text(&seen);
        }
        let mut mounts = self.mounts.iter();
        let on_the_way = mounts.find(|mount| mount.host().starts_with(host))?;
        match on_the_way.is_at_host_path() {
            true => text(host),
            false => Some("/work".to_owned()),
        }
    }

    /// Returns `true` if the policy lets a command do all of `access` with this path of the host.
    ///
    /// This is the reference meaning. It compares paths as text; the kernel resolves symlinks. The
    /// longest mount decides, and the system profile adds its own access. Private directories of
    /// the sandbox (its HOME and TMPDIR) are not host paths and not covered here. Also not covered
    /// are the repository of a linked worktree ([`Git::Commit`]), which is found at the start, and
    /// the names that git's own table protects below repositories in addition to the patterns
    /// (`sandbox-names`).
    #[must_use]
    pub fn allows(&self, path: impl AsRef<Path>, access: Access) -> bool {
        let path = path.as_ref();
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return false;
        }
        let path: PathBuf = path.components().collect();
        let mut allowed = system::allows(self.system, &path);
        if self.programs.iter().any(|one| path.starts_with(one.host())) {
            allowed = allowed | Access::READ | Access::EXECUTE;
        }
        if let Some(mount) = self.mount_of(&path) {
            let mut own = mount.access();
            let named_by = |list: fn(&MountGuards) -> &[Pattern]| {
                self.outward(mount).any(|(index, mount)| {
                    let below = path.strip_prefix(mount.host()).unwrap_or(Path::new(""));
                    list(&self.guards_of(index))
                        .iter()
                        .any(|one| one.covers(below))
                })
            };
            if named_by(|guards| &guards.protect) {
                own = own.intersection(Access::READ | Access::EXECUTE);
            }
            let covered = mounts::covered(&self.mounts, mount)
                .any(|place| path.starts_with(mount.host().join(place)));
            if covered || named_by(|guards| &guards.hide) {
                own = Access::NONE;
            }
            allowed = allowed | own;
        }
        allowed.contains(access)
    }

    /// Returns an identifier of exactly this policy: 64 hexadecimal digits, equal on every machine.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut text = Vec::new();
        let mut line = |parts: &[&[u8]]| {
            text.extend_from_slice(&parts.join(&0));
            text.push(b'\n');
        };
        let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
        for mount in &self.mounts {
            let (host, access) = (bytes(mount.host()), mount.access().to_string());
            let shown_at = mount.shown_at().as_bytes();
            let mut parts: Vec<&[u8]> = vec![b"mount", &host, shown_at, access.as_bytes()];
            if mount.links() == LinkPolicy::Refused {
                parts.push(b"resolved");
            }
            if mount.is_at_host_path() {
                parts.push(b"at host path");
            }
            if let Some(OverlayDirs { upper, work }) = mount.overlay() {
                for directory in [upper, work] {
                    parts.extend([b"overlay", directory.as_os_str().as_encoded_bytes()]);
                }
            }
            line(&parts);
        }
        for programs in &self.programs {
            line(&[
                b"programs",
                &bytes(programs.host()),
                &bytes(programs.shown_at()),
            ]);
        }
        for (name, patterns) in [("protect", &self.protect), ("hide", &self.hide)] {
            for pattern in patterns {
                line(&[name.as_bytes(), pattern.text().as_bytes()]);
            }
        }
        for mount in &self.mounts {
            let at = mount.shown_at();
            let protect = self.protected_in(at).map(|text| ("protect in", text));
            let hide = self.hidden_in(at).map(|text| ("hide in", text));
            for (verb, pattern) in protect.chain(hide) {
                line(&[verb.as_bytes(), at.as_bytes(), pattern.as_bytes()]);
            }
        }
        for at in &self.unguarded {
            line(&[b"unguarded", at.as_bytes()]);
        }
        if let Some(name) = &self.host_name {
            line(&[b"host name", name.as_bytes()]);
        }
        if let Some(name) = &self.user_name {
            line(&[b"user name", name.as_bytes()]);
        }
        self.environment.describe(&mut text);
        self.describe_settings(&mut text);
        sandbox_names::hex(Sha256::digest(&text))
    }

    /// Writes the settings that are not lists of names, for [`hash`](Self::hash).
    fn describe_settings(&self, text: &mut Vec<u8>) {
        let mut line = |words: String| text.extend_from_slice(format!("{words}\n").as_bytes());
        for at in &self.links_stay {
            line(format!("links stay {at:?}"));
        }
        line(format!("{:?}", self.system));
        line(format!("{:?}", self.network));
        line(format!("{:?}", self.unix_sockets));
        line(format!("{:?}", self.limits));
        for port in &self.published_ports {
            line(format!("publish\0{port}"));
        }
        if self.leaves() {
            line("survivors\0left".to_owned());
        }
        if self.hold_absent {
            line("absent names\0held".to_owned());
        }
        if self.git_config != GitConfig::Kept {
            line(format!("git config\0{:?}", self.git_config));
        }
        if self.git != Git::Unaware {
            line(format!("git {:?}", self.git));
        }
    }

    /// Returns `true` if the longest mount around a path of the host lets the command write there.
    /// Compares paths as text.
    pub(crate) fn writes(&self, path: &Path) -> bool {
        self.mount_of(path)
            .is_some_and(|mount| mount.access().contains(Access::WRITE))
    }

    /// Returns the patterns that apply to every mount.
    #[must_use]
    pub fn guards_of_all(&self) -> MountGuards {
        MountGuards {
            protect: self.protect.clone(),
            hide: self.hide.clone(),
            links_stay: false,
        }
    }

    /// Returns the patterns that apply to a mount, including those that apply to every mount.
    #[must_use]
    pub fn guards_of(&self, index: usize) -> MountGuards {
        let mount = self.mounts.get(index);
        let mut guards = match mount.is_some_and(|mount| self.is_unguarded(mount)) {
            true => MountGuards::default(),
            false => self.guards_of_all(),
        };
        if let Some(own) = mount.and_then(|mount| self.own_guards.get(mount.shown_at())) {
            guards.protect.extend(own.protect.iter().cloned());
            guards.hide.extend(own.hide.iter().cloned());
        }
        guards.links_stay = mount.is_some_and(|mount| self.links_stay.contains(mount.shown_at()));
        guards
    }

    /// Returns `true` if only patterns of its own apply to a mount ([`PolicyBuilder::unguarded`]).
    pub(crate) fn is_unguarded(&self, mount: &Mount) -> bool {
        self.unguarded.contains(mount.shown_at())
    }

    /// Returns the directories of the host in which commands work, but for `git`, in which a repository
    /// is: it may keep their files. State of a person that is shared is not executed.
    pub(crate) fn working_trees(&self, git: &Path) -> Vec<&Path> {
        let mounts = self
            .mounts
            .iter()
            .filter(|mount| mount.access().contains(Access::ALL) && !self.is_unguarded(mount));
        mounts
            .map(Mount::host)
            .filter(|tree| *tree != git)
            .collect()
    }

    /// Returns `true` if names of some mount should not be changed.
    pub(crate) fn protects_names(&self) -> bool {
        !self.protect.is_empty() || self.own_guards.values().any(|own| !own.protect.is_empty())
    }

    /// Returns `true` if names of some mount should not be read.
    pub(crate) fn hides_names(&self) -> bool {
        !self.hide.is_empty() || self.own_guards.values().any(|own| !own.hide.is_empty())
    }

    /// Returns `true` if a placeholder may fill in for an absent name of this pattern.
    pub(crate) fn holds(&self, pattern: &Pattern) -> bool {
        !self.derived.contains(pattern)
    }

    /// Returns the ways in which some mount allows less than a mount around it (by host path). A
    /// loss of execution or reading counts only for an inner mount that has some access.
    pub(crate) fn narrowed(&self) -> NestedRestriction {
        let mut found = NestedRestriction::default();
        for inner in &self.mounts {
            for outer in &self.mounts {
                if inner.host() == outer.host() || !inner.host().starts_with(outer.host()) {
                    continue;
                }
                found.at_all |= !inner.access().contains(outer.access());
                let loses = |one: Access| {
                    !inner.access().is_none()
                        && outer.access().contains(one)
                        && !inner.access().contains(one)
                };
                found.in_execution |= loses(Access::EXECUTE);
                found.in_reading |= loses(Access::READ);
            }
        }
        found
    }

    /// Returns the index of the overlay that takes the changes in a mount.
    #[cfg(target_os = "linux")]
    pub(crate) fn overlay_around(&self, index: usize) -> Option<usize> {
        mounts::overlay_around(&self.mounts, index)
    }

    /// Returns a mount that covers a directory of another mount. `None` if no mount does.
    pub(crate) fn covering(&self) -> Option<&Mount> {
        let covers = |mount: &&Mount| matches!(mount.place(), MountPlacement::Covers(_));
        self.mounts.iter().find(covers)
    }

    /// Returns `true` if mounts are made inside trees that a command may write.
    pub(crate) fn mounts_inside_writable(&self) -> bool {
        let mut writable = self
            .mounts
            .iter()
            .filter(|mount| mount.access().contains(Access::WRITE));
        let names = self.protects_names() || self.hides_names();
        writable.any(|outer| {
            names
                || self.mounts.iter().any(|inner| {
                    inner.host() != outer.host() && inner.host().starts_with(outer.host())
                })
                || mounts::covered(&self.mounts, outer).next().is_some()
        })
    }

    /// Returns the pattern that hides or protects a path of the host.
    pub(crate) fn guard_of(&self, path: &Path) -> Option<NameGuard> {
        let mount = self.mount_of(path)?;
        self.outward(mount).find_map(|(index, mount)| {
            let below = path.strip_prefix(mount.host()).ok()?;
            let MountGuards { protect, hide, .. } = self.guards_of(index);
            let covering = |list: Vec<Pattern>| {
                let found = list.into_iter().find(|one| one.covers(below));
                found.map(|one| one.written().to_owned())
            };
            let hidden = covering(hide).map(NameGuard::Hidden);
            hidden.or_else(|| covering(protect).map(NameGuard::Protected))
        })
    }

    fn mount_of(&self, path: &Path) -> Option<&Mount> {
        self.mounts
            .iter()
            .filter(|mount| path.starts_with(mount.host()))
            .max_by_key(|mount| mount.host().as_os_str().len())
    }

    /// Returns a mount with its index, followed by the mounts that it is a part of, outwards.
    fn outward<'a>(&'a self, mount: &'a Mount) -> impl Iterator<Item = (usize, &'a Mount)> {
        let index = self.mounts.iter().position(|one| std::ptr::eq(one, mount));
        let next = |index: &usize| match self.mounts[*index].place() {
            MountPlacement::NestedIn(outer) => Some(outer),
            MountPlacement::Root
            | MountPlacement::Named
            | MountPlacement::InWork
            | MountPlacement::Covers(_) => None,
        };
        std::iter::successors(index, next).map(|index| (index, &self.mounts[index]))
    }
}

/// The pattern that guards a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameGuard {
    Hidden(String),
    Protected(String),
}

/// The patterns that apply to one mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountGuards {
    /// Names that are not changed.
    pub protect: Vec<Pattern>,
    /// Names that are not read.
    pub hide: Vec<Pattern>,
    /// `true` if no new link leads where the command may not write.
    pub links_stay: bool,
}

/// The ways in which a nested mount allows less, see [`Policy::narrowed`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NestedRestriction {
    pub(crate) at_all: bool,
    pub(crate) in_execution: bool,
    pub(crate) in_reading: bool,
}

/// A builder of a policy; [`PolicyBuilder::build`] checks it.
///
/// ```
/// use os_sandbox::{Access, Network, Policy};
///
/// let policy = Policy::builder()
///     .mount("/home/me/project", "/", Access::ALL)
///     .mount("/home/me/project/vendor", "/vendor", Access::READ)
///     .network(Network::Denied)
///     .protect(".git/hooks")
///     .build()?;
/// assert_eq!(policy.mounts()[1].inside(), "/work/vendor");
/// # Ok::<(), os_sandbox::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct PolicyBuilder {
    mounts: Vec<mounts::UnresolvedMount>,
    /// Pairs of a mount's name and its directories.
    overlays: Vec<(String, OverlayDirs)>,
    system: System,
    network: Network,
    published_ports: BTreeSet<u16>,
    unix_sockets: UnixSockets,
    survivors: Survivors,
    reports: ReportLevel,
    named_sockets: Vec<PathBuf>,
    programs: Vec<(PathBuf, PathBuf)>,
    environment: Environment,
    limits: Limits,
    git: Git,
    protect: Vec<String>,
    hide: Vec<String>,
    /// Pairs of a mount's name and a pattern.
    protect_in: Vec<(String, String)>,
    hide_in: Vec<(String, String)>,
    /// Texts for reports, by a mount's name and a pattern.
    written: BTreeMap<(String, String), String>,
    unguarded: Vec<String>,
    links_stay: Vec<String>,
    hold_absent: bool,
    git_config: GitConfig,
}

impl PolicyBuilder {
    /// Shows the host directory or file `host` at `shown_at`. That name is one of:
    ///
    /// - `/` for the root mount, or `/name`
    /// - a part of another mount with an access of its own
    /// - a path below another mount, in place of a directory that must exist (`/data/cache`,
    ///   `/work/cache`)
    /// - without a root mount also deeper: `/data/out`, or `/work/src` for a part of the directory
    ///   that would be the root mount; the directories on the way are read-only and otherwise empty
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let policy = Policy::builder().mount("/home/me/project/lib", "/work/lib", Access::READ);
    /// assert_eq!(policy.build()?.mounts()[0].inside(), "/work/lib");
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn mount(
        self,
        host: impl AsRef<Path>,
        shown_at: impl Into<String>,
        access: Access,
    ) -> Self {
        self.add(host.as_ref(), shown_at.into(), access, LinkPolicy::Followed)
    }

    /// Adds a mount like [`mount`](Self::mount), for a path whose symlinks the caller has resolved
    /// before. Each start opens the path without following symlinks. A symlink that another process
    /// has put into the path since then makes the start fail.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let host = std::path::Path::new(".").canonicalize().unwrap();
    /// let policy = Policy::builder().mount_resolved(host, "/", Access::READ).build()?;
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn mount_resolved(
        self,
        host: impl AsRef<Path>,
        shown_at: impl Into<String>,
        access: Access,
    ) -> Self {
        self.add(host.as_ref(), shown_at.into(), access, LinkPolicy::Refused)
    }

    fn add(mut self, host: &Path, shown_at: String, access: Access, links: LinkPolicy) -> Self {
        self.mounts.push(mounts::UnresolvedMount {
            host: host.to_owned(),
            shown_at,
            access,
            links,
            overlay: None,
        });
        self
    }

    /// Makes the mount at `shown_at` an overlay: what commands change there goes to the directory
    /// `upper`, and the mount's directory on the host, the lower one, stays as it is. `work` is an
    /// empty directory on the file system of `upper`. Both belong to the caller, and no mount shows
    /// them. Two commands at one time with the same `upper` are an error of the caller, and so is a
    /// change of the lower directory's tree by others meanwhile: the kernel does not define what
    /// commands see then.
    ///
    /// Parts of the mount with an access of their own are parts of the overlay. No other mount may
    /// be in it. The host's directory has no other file systems mounted in it. The state of
    /// `upper` after the end has the format of overlayfs, with attributes in `user.overlay`.
    ///
    /// Only [`Backend::Namespaces`](crate::Backend::Namespaces) mounts overlays. Every plan for
    /// another mechanism is refused, with [`Requirement::BestEffort`](crate::Requirement) too.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let policy = Policy::builder()
    ///     .mount("/home/me/project", "/", Access::ALL)
    ///     .overlay("/", "/var/lib/me/upper", "/var/lib/me/work")
    ///     .build()?;
    /// assert!(policy.mounts()[0].overlay().is_some());
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn overlay(
        mut self,
        shown_at: impl Into<String>,
        upper: impl AsRef<Path>,
        work: impl AsRef<Path>,
    ) -> Self {
        let dirs = OverlayDirs {
            upper: upper.as_ref().to_owned(),
            work: work.as_ref().to_owned(),
        };
        self.overlays.push((shown_at.into(), dirs));
        self
    }

    sandbox_names::setters! {
        /// Sets the part of the host's system that the command sees. Default [`System::Minimal`].
        system(system: System) = system;
        /// Sets the hosts that the command may reach. Default [`Network::Denied`].
        network(network: Network) = network;
        /// Sets the local sockets that the command can connect to. Default [`UnixSockets::Closed`].
        unix_sockets(sockets: UnixSockets) = sockets;
        /// Sets the attempts that are reported. Default [`ReportLevel::Refused`].
        reports(level: ReportLevel) = level;
        /// Sets the fate of processes that outlive the command. Default [`Survivors::Ended`].
        survivors(survivors: Survivors) = survivors;
        /// Sets the variables of the command's environment. Default [`Environment::clean`].
        env(environment: Environment) => environment = environment;
        /// Sets the limits. Default [`Limits::default`].
        limits(limits: Limits) = limits;
        /// Sets the changes to repositories in writable mounts that the command may make. Default
        /// [`Git::Unaware`].
        git(git: Git) = git;
        /// Sets the permitted changes of the configuration of repositories in writable mounts.
        git_config(git_config: GitConfig) = git_config;
    }

    /// Publishes a TCP port of the command's own loopback on that of the host: clients of
    /// 127.0.0.1 and ::1 are connected to that port inside by the caller's proxy
    /// ([`Sandbox::with_host_proxy`](crate::Sandbox::with_host_proxy)). Other users of the host are
    /// such clients, too. A port that another program of the host listens on makes the start fail
    /// ([`ErrorKind::PortInUse`](crate::ErrorKind::PortInUse)).
    ///
    /// Namespaces and bubblewrap publish ports. Under another mechanism it is a gap.
    ///
    /// ```
    /// use os_sandbox::Policy;
    /// let policy = Policy::builder().publish_port(8080).build()?;
    /// assert!(policy.published_ports().contains(&8080));
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn publish_port(mut self, port: u16) -> Self {
        self.published_ports.insert(port);
        self
    }

    /// Adds a local socket of the host that the command can connect to under its host path, such as
    /// `/run/docker.sock`. A socket in a directory that the command may write is an error.
    pub fn unix_socket(mut self, host_path: impl AsRef<Path>) -> Self {
        self.named_sockets.push(host_path.as_ref().to_owned());
        self
    }

    /// Shows the directory or file `host` at `shown_at` for reading and execution. The path `host`
    /// has no symlinks on its way. Guards do not protect or hide names inside. A path that does not
    /// exist at the start is left out. Containers have the programs of their image instead. The
    /// environment sets `PATH` ([`Environment::search`]).
    pub fn programs(mut self, host: impl AsRef<Path>, shown_at: impl AsRef<Path>) -> Self {
        let pair = (host.as_ref().to_owned(), shown_at.as_ref().to_owned());
        self.programs.push(pair);
        self
    }

    /// Adds a guard: a pattern of names that the command should not change, at any depth below
    /// every mount. A leading `/` limits it to the top of each mount.
    pub fn protect(mut self, pattern: impl Into<String>) -> Self {
        self.protect.push(pattern.into());
        self
    }

    /// Adds a guard: a pattern of names that the command should not read, at any depth below every
    /// mount. A leading `/` limits it to the top of each mount.
    pub fn hide(mut self, pattern: impl Into<String>) -> Self {
        self.hide.push(pattern.into());
        self
    }

    /// Adds a guard like [`protect`](Self::protect) that applies only below the mount with this
    /// name.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let policy = Policy::builder().mount("/srv/data", "/data", Access::ALL);
    /// let policy = policy.protect_in("/data", "/keys").build()?;
    /// assert!(!policy.allows("/srv/data/keys/a", Access::WRITE));
    /// assert!(policy.allows("/srv/data/src/keys/a", Access::WRITE));
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn protect_in(mut self, shown_at: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.protect_in.push((shown_at.into(), pattern.into()));
        self
    }

    /// Adds a guard like [`hide`](Self::hide) that applies only below the mount with this name.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let policy = Policy::builder().mount("/srv/data", "/data", Access::ALL);
    /// let policy = policy.hide_in("/data", "/keys").build()?;
    /// assert!(!policy.allows("/srv/data/keys/a", Access::READ));
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn hide_in(mut self, shown_at: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.hide_in.push((shown_at.into(), pattern.into()));
        self
    }

    /// Names a pattern of one mount in reports by another text, such as the longer pattern of which
    /// it is the rest in this mount.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let policy = Policy::builder().mount("/srv/data", "/data", Access::ALL);
    /// let policy = policy.protect_in("/data", "/keys").written_as("/data", "/keys", "data/keys");
    /// assert_eq!(policy.build()?.written_in("/data").next(), Some(("/keys", "data/keys")));
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn written_as(
        mut self,
        shown_at: impl Into<String>,
        pattern: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        let key = (shown_at.into(), pattern.into());
        self.written.insert(key, text.into());
        self
    }

    /// Exempts the mount at `shown_at` from the patterns that apply to every mount, from the guards of
    /// git repositories, and from the search for sockets of the host. Patterns of that mount alone
    /// ([`protect_in`](Self::protect_in), [`hide_in`](Self::hide_in)) still apply. This is for a
    /// directory that no program outside the sandbox reads or obeys, such as a home directory that is
    /// kept from one command to the next: nothing is searched there before a start or after an end.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let policy = Policy::builder()
    ///     .protect(".bashrc")
    ///     .mount("/var/lib/me/home", "/kept", Access::ALL)
    ///     .unguarded("/kept")
    ///     .build()?;
    /// assert!(policy.allows("/var/lib/me/home/.bashrc", Access::WRITE));
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn unguarded(mut self, shown_at: impl Into<String>) -> Self {
        self.unguarded.push(shown_at.into());
        self
    }

    /// Moves a new link in the mount with this name to the quarantine if it leads out of the mount, or
    /// to a guarded name in it. This is for a directory in which programs outside write: they follow
    /// links.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let policy = Policy::builder().mount("/home/me/.tool", "/tool", Access::READ | Access::WRITE);
    /// assert!(policy.links_stay("/tool").build()?.guards_of(0).links_stay);
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn links_stay(mut self, shown_at: impl Into<String>) -> Self {
        self.links_stay.push(shown_at.into());
        self
    }

    /// Fills in for absent protected names with placeholders while a command runs, so that the
    /// command cannot create them. Placeholders exist for names without `*`, at the top of writable
    /// mounts and in repositories. Other processes see them in the directory. Without this setting,
    /// a name that a command creates there is moved to a quarantine after its end.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let policy = Policy::builder().mount("/home/me/project", "/", Access::ALL);
    /// let policy = policy.protect(".vscode").hold_absent().build()?;
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn hold_absent(mut self) -> Self {
        self.hold_absent = true;
        self
    }

    /// Checks all settings and returns the policy.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) or
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit), for the first invalid setting.
    pub fn build(self) -> Result<Policy, Error> {
        self.environment.check()?;
        self.network.check(&self.published_ports)?;
        check_pattern_count(self.protect.len() + self.hide.len(), "")?;
        let mut protect = self.protect;
        protect.extend(self.git.patterns());
        let derived: Vec<String> = match git::is_about_git(&protect) {
            true => git::obeyed_patterns(self.git)
                .filter(|pattern| !protect.contains(pattern))
                .collect(),
            false => Vec::new(),
        };
        protect.extend(derived.iter().cloned());
        let mut mounts = mounts::resolve(&self.mounts, mounts::Paths::OfSandbox)?;
        for (at, dirs) in self.overlays {
            mounts::make_overlay(&mut mounts, &at, dirs)?;
        }
        let (protect, hide) = (parse_patterns(&protect)?, parse_patterns(&self.hide)?);
        let own_guards = own_guards(&mounts, &self.protect_in, &self.hide_in, &self.written)?;
        let names: BTreeSet<String> = self.unguarded.into_iter().collect();
        let mounted = |at: &&String| mounts.iter().any(|one| one.shown_at() == at.as_str());
        if let Some(at) = names.iter().find(|at| !mounted(at)) {
            return Err(Error::invalid(format!(
                "unknown mount {at:?} without guards"
            )));
        }
        let policy = Policy {
            own_guards,
            unguarded: names,
            links_stay: self.links_stay.into_iter().collect(),
            programs: programs::resolve(&self.programs, &mounts, self.system)?,
            mounts,
            system: self.system,
            network: self.network,
            published_ports: self.published_ports,
            survivors: self.survivors,
            reports: self.reports,
            unix_sockets: sockets::resolve(self.unix_sockets, self.named_sockets)?,
            environment: self.environment,
            git: self.git,
            protect,
            derived: parse_patterns(&derived)?,
            hide,
            hold_absent: self.hold_absent,
            git_config: self.git_config,
            host_name: None,
            user_name: None,
            limits: self.limits,
        };
        if let UnixSockets::Named(paths) = &policy.unix_sockets
            && let Some(path) = paths.iter().find(|path| policy.writes(path))
        {
            return Err(refuse_writable(path));
        }
        if let (UnixSockets::Named(_), Survivors::Left) = (&policy.unix_sockets, policy.survivors) {
            return Err(Error::invalid("sockets are named, and survivors are left")
                .with_hint("the process that connects for a command ends with it: end survivors, or leave all sockets open or closed"));
        }
        Ok(policy)
    }
}

fn check_pattern_count(count: usize, of: &str) -> Result<(), Error> {
    match count > MAX_PATTERNS {
        false => Ok(()),
        true => Err(Error::new(
            crate::error::ErrorKind::Limit,
            format!("more than {MAX_PATTERNS} protected and hidden patterns{of}"),
        )),
    }
}

/// Parses patterns; sorted, each once.
fn parse_patterns(texts: &[String]) -> Result<Vec<Pattern>, Error> {
    let patterns = texts.iter().map(|text| Pattern::parse(text));
    Ok(patterns
        .collect::<Result<BTreeSet<_>, _>>()?
        .into_iter()
        .collect())
}

/// Returns the patterns that apply to one mount only, by the mount's name.
fn own_guards(
    mounts: &[Mount],
    protect: &[(String, String)],
    hide: &[(String, String)],
    written: &BTreeMap<(String, String), String>,
) -> Result<BTreeMap<String, MountGuards>, Error> {
    let unknown = |(at, _): &&(String, String)| !mounts.iter().any(|one| one.shown_at() == at);
    if let Some((at, pattern)) = protect.iter().chain(hide).find(unknown) {
        return Err(Error::invalid(format!(
            "unknown mount {at:?} of {pattern:?}"
        )));
    }
    let own_patterns = |named: &[(String, String)], mount: &Mount| {
        let named = named.iter().filter(|(at, _)| at == mount.shown_at());
        let parsed = parse_patterns(&named.map(|(_, text)| text.clone()).collect::<Vec<_>>())?;
        let with_text = |one: Pattern| {
            let key = (mount.shown_at().to_owned(), one.text().to_owned());
            one.written_as(written.get(&key))
        };
        Ok::<_, Error>(parsed.into_iter().map(with_text).collect())
    };
    let mut own_guards = BTreeMap::new();
    for mount in mounts {
        let own = MountGuards {
            protect: own_patterns(protect, mount)?,
            hide: own_patterns(hide, mount)?,
            links_stay: false,
        };
        let at = mount.shown_at();
        check_pattern_count(own.protect.len() + own.hide.len(), &format!(" of {at}"))?;
        if !own.protect.is_empty() || !own.hide.is_empty() {
            own_guards.insert(at.to_owned(), own);
        }
    }
    Ok(own_guards)
}
