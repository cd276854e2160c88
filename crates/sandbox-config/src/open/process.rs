//! A grant as a policy for commands (feature `process`).

use std::path::{Path, PathBuf};

use os_sandbox::{
    Access, Environment, Limits, NamedHosts, Network, Policy, PolicyBuilder, Requirement,
};
use sandbox_network::HostRules;

use crate::grant::Grant;
use crate::grant::confinement::{GitConfigMode, GitMode, Survivors, Trace, UnixSockets};
use crate::grant::mount::{Mode, Mount};
use crate::grant::network::{MAX_ADDRESSES, MAX_PORTS, NetworkAccess};
use crate::grant::preset::SharedState;
use crate::grant::published_ports::MAX_PUBLISHED_PORTS;
use crate::loading::writable_places::WritablePlaces;
use crate::open::guards::MountGuardPatterns;
use crate::open::host_dirs::{GrantError, ensure};
use crate::open::programs;
use crate::open::shown::{below, covers_place_in, is_directory, is_shown, shown_at};

fn build(builder: PolicyBuilder) -> Result<Policy, GrantError> {
    let built = builder.build();
    built.map_err(|error| GrantError::new("", error.to_string()))
}

// The bounds that a file is checked against are those of the policy.
const _: () = assert!(MAX_PORTS == NamedHosts::MAX_PORTS);
const _: () = assert!(MAX_ADDRESSES == NamedHosts::MAX_ADDRESSES);
const _: () = assert!(MAX_PUBLISHED_PORTS == os_sandbox::MAX_PUBLISHED_PORTS);

/// Returns the hosts for a policy, with the ports on which programs that know no proxy can connect.
///
/// The policy has one list of patterns, which receipts show and from which the broker makes its
/// rules. In it, a pattern of the deny list has a leading `!` (`!ads.example.com`).
///
/// # Errors
/// The lists of several files together name more ports or addresses than a command gets listeners.
fn named_hosts(rules: &HostRules) -> Result<NamedHosts, GrantError> {
    let (ports, addresses) = (rules.ports(), rules.addresses());
    let bounds = [
        (ports.len(), MAX_PORTS, "ports"),
        (addresses.len(), MAX_ADDRESSES, "addresses"),
    ];
    if let Some((count, most, of)) = bounds.into_iter().find(|(count, most, _)| count > most) {
        let why =
            format!("all lists together name {count} {of}, and a command gets at most {most}");
        return Err(GrantError::new("network.allow", why));
    }
    let allowed = rules.allowed().iter().map(ToString::to_string);
    let denied = rules.denied().iter().map(ToString::to_string);
    let hosts = denied.fold(NamedHosts::new(allowed), NamedHosts::deny);
    let hosts = ports.into_iter().fold(hosts, NamedHosts::port);
    Ok(addresses.into_iter().fold(hosts, NamedHosts::address))
}

/// Directories beside those of a project: for commands that a person types.
///
/// ```
/// let dirs = sandbox_config::ExtraDirs::default();
/// assert!(dirs.home.is_none() && dirs.state.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraDirs {
    /// The value of `HOME`: an absolute path without links. Commands read and write it, and no guards
    /// apply in it. `None`: commands have a home directory of their own for one run.
    pub home: Option<PathBuf>,
    /// Files and directories of the person.
    pub state: Vec<SharedState>,
}

impl ExtraDirs {
    fn add_to(&self, builder: PolicyBuilder, variables: Environment) -> PolicyBuilder {
        let mut builder = match &self.home {
            Some(home) => builder
                .mount_resolved(home, KEPT_HOME, Access::ALL)
                .unguarded(KEPT_HOME)
                .env(variables.set("HOME", home)),
            None => builder,
        };
        for (number, state) in self.state.iter().enumerate() {
            let name = format!("/forge-state-{number}");
            let access = match state.writable {
                true => Access::READ | Access::WRITE,
                false => Access::READ,
            };
            let access = match state.executable {
                true => access | Access::EXECUTE,
                false => access,
            };
            builder = builder.mount_resolved(&state.host, &name, access);
            for pattern in &state.protect {
                builder = builder.protect_in(&name, pattern);
            }
            builder = builder.links_stay(name);
        }
        builder
    }
}

/// Name of the kept home directory in a policy. Commands see it at its path on the host.
/// `true` for a pattern that does not begin at the top of a mount.
fn any_depth(pattern: &&String) -> bool {
    !pattern.starts_with('/')
}

const KEPT_HOME: &str = "/forge-home";

impl Grant {
    /// What commands of this worker may do: the usable mounts whose `read` is not blocked, the network, the environment and
    /// the limits. Time is not part of it: whoever starts a command gives it its time (a tool call
    /// [`RunLimits::timeout_s_default`](crate::RunLimits::timeout_s_default), a person's own command
    /// none). Suffixes, sizes and approval bind file tools only.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use os_sandbox::Access;
    /// use sandbox_config::{load, Sources};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// let policy = project.ceiling().policy().unwrap();
    /// let workspace = project.dir().join(".sandbox/workspace/a.md");
    /// assert!(policy.allows(&workspace, Access::WRITE));
    /// assert!(!policy.allows(&project.dir().join("a.md"), Access::READ));
    /// ```
    ///
    /// # Errors
    /// A directory is absent, there are more mounts than a policy can have
    /// ([`Policy::MAX_MOUNTS`]), or they make no policy.
    pub fn policy(&self) -> Result<Policy, GrantError> {
        self.policy_of(None)
    }

    /// Returns the policy with a home directory that is kept, and with files and directories of a person's home
    /// directory beside the mounts of the project.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let home = tempfile::tempdir().unwrap();
    /// use sandbox_config::{ExtraDirs, load, Sources};
    /// let project = load(&Sources::new(dir.path())).unwrap();
    /// let home = home.path().canonicalize().unwrap();
    /// let dirs = ExtraDirs { home: Some(home.clone()), state: Vec::new() };
    /// let policy = project.ceiling().policy_with_dirs(&dirs).unwrap();
    /// assert!(policy.allows(home.join(".cache/a"), os_sandbox::Access::WRITE));
    /// ```
    ///
    /// # Errors
    /// As for [`policy`](Self::policy); one of the directories is in a mount of the project or
    /// contains one.
    pub fn policy_with_dirs(&self, dirs: &ExtraDirs) -> Result<Policy, GrantError> {
        self.policy_of(Some(dirs))
    }

    fn policy_of(&self, dirs: Option<&ExtraDirs>) -> Result<Policy, GrantError> {
        let builder = || {
            let builder = self.builder()?;
            Ok(match dirs {
                Some(dirs) => dirs.add_to(builder, self.variables()),
                None => builder,
            })
        };
        for mount in self.mounts().filter(|mount| is_shown(mount)) {
            ensure(mount)
                .and_then(|()| self.ensure_mount_point(mount))
                .map_err(|error| error.shown_by(self.front))?;
        }
        let programs = self.confinement.programs();
        if programs.directories().is_empty() {
            return build(builder()?);
        }
        let without = build(builder()?)?;
        let known = |path: &Path| {
            let mut mounts = without.mounts().iter();
            without.allows(path, Access::READ | Access::EXECUTE)
                || mounts.any(|mount| {
                    let meets = |other: &Path| path.starts_with(other) || other.starts_with(path);
                    meets(mount.host()) || meets(Path::new(mount.inside()))
                })
        };
        let of_project = self.mounts().map(Mount::host);
        let written = without.mounts().iter();
        let written = written.filter(|mount| mount.access().contains(Access::WRITE));
        let writable = of_project.chain(written.map(|mount| mount.host()));
        let writable = WritablePlaces::new(writable.map(Path::to_owned));
        let shown = programs::shown(programs, &writable, &known).into_iter();
        build(shown.fold(builder()?, |builder, (at, host)| builder.programs(host, at)))
    }

    /// The same without looking for the directories or making any: for explaining, not for
    /// running.
    ///
    /// # Errors
    /// The mounts make no policy.
    pub fn policy_as_written(&self) -> Result<Policy, GrantError> {
        let programs = self.confinement.programs().directories().iter();
        build(programs.fold(self.builder()?, |builder, own| builder.programs(own, own)))
    }

    /// All but the programs.
    fn builder(&self) -> Result<PolicyBuilder, GrantError> {
        let mut builder = self.settings_builder()?;
        let mut count = 0_usize;
        for mount in self.mounts().filter(|mount| is_shown(mount)) {
            builder = self.add_mount(builder, mount, &mut count)?;
        }
        if count > Policy::MAX_MOUNTS {
            let why = format!(
                "there are {count}, parts that are held without being used included, and \
                 commands can be shown at most {}",
                Policy::MAX_MOUNTS
            );
            return Err(GrantError::new("the mounts", why));
        }
        Ok(builder)
    }

    fn unix_sockets(&self) -> os_sandbox::UnixSockets {
        match &self.confinement.unix_sockets {
            // What another program makes in a mount meanwhile is a gap in this.
            UnixSockets::Closed if self.confinement.require_guards => {
                os_sandbox::UnixSockets::Closed
            }
            UnixSockets::Closed => os_sandbox::UnixSockets::Own,
            UnixSockets::Named(paths) => {
                os_sandbox::UnixSockets::Named(paths.iter().cloned().collect())
            }
            UnixSockets::Open => os_sandbox::UnixSockets::Open,
        }
    }

    /// All but the mounts and the programs.
    fn settings_builder(&self) -> Result<PolicyBuilder, GrantError> {
        let mut builder = Policy::builder()
            .network(match &self.network {
                NetworkAccess::Denied => Network::Denied,
                NetworkAccess::Hosts(rules) => Network::Hosts(named_hosts(rules)?),
                NetworkAccess::Unrestricted => Network::Unrestricted,
            })
            .unix_sockets(self.unix_sockets())
            .git(match self.confinement.git {
                GitMode::Unaware => os_sandbox::Git::Unaware,
                GitMode::ReadOnly => os_sandbox::Git::ReadOnly,
                GitMode::Commit => os_sandbox::Git::Commit,
            })
            .git_config(match self.confinement.git_config() {
                GitConfigMode::Kept => os_sandbox::GitConfig::Kept,
                GitConfigMode::Judged => os_sandbox::GitConfig::Judged,
                GitConfigMode::JudgedAfter => os_sandbox::GitConfig::JudgedAfter,
            })
            .reports(match self.confinement.trace {
                Trace::Refused => os_sandbox::ReportLevel::Refused,
                Trace::Full => os_sandbox::ReportLevel::Full,
            })
            .survivors(match self.confinement.survivors {
                Survivors::Ended => os_sandbox::Survivors::Ended,
                Survivors::Left => os_sandbox::Survivors::Left,
            })
            .env(self.variables())
            .limits(self.command_limits());
        if self.network != NetworkAccess::Unrestricted {
            let ports = self.published_ports.list();
            builder = ports.fold(builder, PolicyBuilder::publish_port);
        }
        if self.confinement.require_guards {
            builder = builder.hold_absent();
        }
        let protected = self.protect.iter().filter(any_depth);
        builder = protected.fold(builder, PolicyBuilder::protect);
        let hidden = self.hide.iter().filter(any_depth);
        Ok(hidden.fold(builder, PolicyBuilder::hide))
    }

    /// Adds a mount with its guards, and covers the parts of it that commands are not shown.
    fn add_mount(
        &self,
        mut builder: PolicyBuilder,
        mount: &Mount,
        count: &mut usize,
    ) -> Result<PolicyBuilder, GrantError> {
        let own = MountGuardPatterns::on(mount, self.protected_in(mount));
        let hides = MountGuardPatterns::on(mount, self.hidden_in(mount));
        if hides.everything {
            let error = GrantError::of(mount, "its directory does not exist");
            return Err(error.shown_by(self.front));
        }
        let access = match mount.open_mode() {
            Mode::ReadWrite if !own.everything => Access::ALL,
            Mode::ReadOnly | Mode::ReadWrite => Access::READ | Access::EXECUTE,
        };
        let at = shown_at(self, mount);
        // The path was resolved when the config was read. Whoever may write around it, such as
        // another worker, does not get to lead this one elsewhere.
        builder = builder.mount_resolved(mount.host(), &at, access);
        *count += 1;
        let nested = |part: &&Mount| part.is_nested_in(mount) && !is_shown(part);
        for part in self.mounts().filter(nested) {
            // What the outer mount has at that place, itself or covered by another directory.
            let inside = mount.host().join(part.way_in(mount));
            if part.is_part_of(mount) || is_directory(&inside) {
                builder = builder.mount_resolved(inside, below(self, mount, part), Access::NONE);
                *count += 1;
            }
        }
        let by_name = mount.own_files.iter().filter(any_depth).cloned();
        let written = self.patterns_as_written(mount);
        for pattern in own.inside.iter().chain(&hides.inside) {
            let is_whole = self.protect.contains(pattern) || self.hide.contains(pattern);
            if !is_whole && let Some(written) = written.get(pattern) {
                builder = builder.written_as(&at, pattern, *written);
            }
        }
        for pattern in own.inside.into_iter().chain(by_name) {
            builder = builder.protect_in(&at, pattern);
        }
        for pattern in hides.inside {
            builder = builder.hide_in(&at, pattern);
        }
        Ok(builder)
    }

    /// Checks that the outer mount has a directory where commands are to see a nested one. Nothing
    /// is created there: the tree is a person's.
    fn ensure_mount_point(&self, mount: &Mount) -> Result<(), GrantError> {
        let Some(outer) = covers_place_in(self, mount) else {
            return Ok(());
        };
        let place = outer.host().join(mount.way_in(outer));
        if is_directory(&place) {
            return Ok(());
        }
        let why = format!(
            "commands see it in place of a directory of the mount at {}, which has none of that \
             name; create an empty one there",
            outer.target
        );
        Err(GrantError {
            host: Some(place),
            ..GrantError::of(mount, &why)
        })
    }

    /// How strict a plan for commands of this worker has to be: `require: guards` in the project.
    ///
    /// ```
    /// use os_sandbox::Requirement;
    /// assert_eq!(sandbox_config::Grant::empty().requirement(), Requirement::Enforce);
    /// ```
    #[must_use]
    pub fn requirement(&self) -> Requirement {
        if self.confinement.require_guards {
            Requirement::EnforceGuards
        } else {
            Requirement::Enforce
        }
    }

    fn variables(&self) -> Environment {
        let mut environment = Environment::clean();
        let programs = self.confinement.programs();
        for directory in programs.search() {
            environment = environment.search(directory);
        }
        for (name, directory) in programs.variables() {
            environment = environment.set(name, directory);
        }
        let passed = self.environment.pass.iter();
        let set = self.environment.set.iter();
        set.fold(
            passed.fold(environment, Environment::pass),
            |all, (name, value)| all.set(name, value),
        )
    }

    fn command_limits(&self) -> Limits {
        let defaults = Limits::default();
        let bytes = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Limits {
            wall: None,
            stdout_bytes: bytes(self.limits.max_stdout_bytes()),
            stderr_bytes: bytes(self.limits.max_stderr_bytes()),
            processes: self.limits.processes().or(defaults.processes),
            memory_bytes: self.limits.memory_bytes().or(defaults.memory_bytes),
            ..defaults
        }
    }
}
