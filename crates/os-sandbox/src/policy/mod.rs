//! What is allowed: pure, the same on every system, and the meaning that each mechanism is
//! compared with ([`Policy::allows`]). Whether a host can keep it is the plan's business.

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
pub use git::Git;
pub(crate) use git::OBEYED;
pub(crate) use guards::Pattern;
pub use limits::Limits;
pub use mounts::Mount;
pub(crate) use mounts::{LinkPolicy, MountPlacement, check_not_kernel, covered};
pub use network::Network;
pub use programs::ProgramDir;
pub use sockets::UnixSockets;
pub(crate) use sockets::refuse_writable;
pub use survivors::Survivors;
pub use system::System;
pub(crate) use system::{BROAD, DEVICES, ETC, PROGRAMS};

use crate::access::Access;
use crate::error::Error;
use crate::promise::Promise;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

/// Bound on the guard patterns of one policy.
const MAX_PATTERNS: usize = 256;

/// What one command may touch. Made by [`Policy::builder`], then unchangeable.
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
    unix_sockets: UnixSockets,
    survivors: Survivors,
    programs: Vec<ProgramDir>,
    environment: Environment,
    limits: Limits,
    git: Git,
    protect: Vec<Pattern>,
    /// Those of `protect` that nobody gave: looked for, and not held where they are absent.
    derived: Vec<Pattern>,
    hide: Vec<Pattern>,
    /// Patterns that count in one mount only, by its name.
    own_guards: BTreeMap<String, MountGuards>,
    hold_absent: bool,
    check_git_config: bool,
}

impl Policy {
    /// The most mounts that a policy can have, parts with an access of their own included.
    pub const MAX_MOUNTS: usize = mounts::MAX_MOUNTS;

    /// Starts with nothing but the minimal system, no network, a clean environment and limits.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// The mounts, in the order they were named.
    #[must_use]
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// How much of the host's system is seen.
    #[must_use]
    pub fn system(&self) -> System {
        self.system
    }

    /// Whom the command may talk to.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Which local sockets can be connected.
    #[must_use]
    pub fn unix_sockets(&self) -> &UnixSockets {
        &self.unix_sockets
    }

    /// The same without local sockets.
    pub(crate) fn with_sockets_closed(mut self) -> Policy {
        self.unix_sockets = UnixSockets::Closed;
        self
    }

    /// What becomes of what the command leaves behind.
    #[must_use]
    pub fn survivors(&self) -> Survivors {
        self.survivors
    }

    /// The same with the configuration of repositories kept as everything else that git obeys.
    pub(crate) fn with_git_config_kept(mut self) -> Policy {
        self.check_git_config = false;
        self
    }

    /// Returns `true` if the configuration of repositories may be changed, and is looked at after
    /// the end: [`PolicyBuilder::check_git_config`].
    #[must_use]
    pub fn checks_git_config(&self) -> bool {
        self.check_git_config
    }

    /// Returns `true` if nobody is to supervise its commands, where nothing else ends what they
    /// leave.
    pub(crate) fn leaves(&self) -> bool {
        self.survivors == Survivors::Left
    }

    /// Returns `true` if the policy gives up this promise by name. Its absence is listed all the
    /// same.
    pub(crate) fn gives_up(&self, promise: Promise) -> bool {
        self.leaves() && promise == Promise::Survivors
    }

    /// Programs of the host outside its system directories, sorted by where they appear.
    #[must_use]
    pub fn programs(&self) -> &[ProgramDir] {
        &self.programs
    }

    /// The variables.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What may be done to repositories.
    #[must_use]
    pub fn git(&self) -> Git {
        self.git
    }

    /// The patterns of names that should not be changed, those of the git mode included.
    pub fn protected(&self) -> impl Iterator<Item = &str> {
        self.protect.iter().map(Pattern::text)
    }

    /// The patterns of names that should not be read.
    pub fn hidden(&self) -> impl Iterator<Item = &str> {
        self.hide.iter().map(Pattern::text)
    }

    /// Returns the patterns that count in this mount only ([`PolicyBuilder::protect_in`]).
    pub fn protected_in(&self, shown_at: &str) -> impl Iterator<Item = &str> {
        let own = self.own_guards.get(shown_at).into_iter();
        own.flat_map(|guards| &guards.protect).map(Pattern::text)
    }

    /// Returns the patterns that count in this mount only ([`PolicyBuilder::hide_in`]).
    pub fn hidden_in(&self, shown_at: &str) -> impl Iterator<Item = &str> {
        let own = self.own_guards.get(shown_at).into_iter();
        own.flat_map(|guards| &guards.hide).map(Pattern::text)
    }

    /// The same, but each mount appears at its own path of the host, as it does without a mount
    /// layer, and `/work` is a link to the root mount: for people, whose files name each other by
    /// these paths (virtual environments, build directories, worktrees). Where that cannot be (a
    /// path that is no text, a mount at or around `/tmp` or `/home/sandbox`) nothing changes.
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
    /// The mounts make no sense there.
    pub fn at_host_paths(mut self) -> Result<Policy, Error> {
        let wanted: Vec<_> = self.mounts.iter().map(Mount::wanted).collect();
        self.mounts = mounts::resolve(&wanted, mounts::Paths::OfHost)?;
        let programs: Vec<_> = self.programs.iter().map(ProgramDir::wanted).collect();
        self.programs = programs::resolve(&programs, &self.mounts, self.system)?;
        Ok(self)
    }

    /// Where commands see a directory of the host: one that a mount holds, or, without one, one
    /// that mounts lie in (the directories on the way to them, or `/work`).
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
    /// The reference meaning, by text alone: links are what the kernel makes of them. The longest
    /// mount decides; what the system profile gives comes on top. Private places of the sandbox
    /// (its HOME and TMPDIR) are not host paths and not asked about here; nor is the repository of
    /// a linked worktree ([`Git::Commit`]), which is found at the start, nor what git's own table
    /// keeps below repositories beside the patterns (`sandbox-names`).
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

    /// A name for exactly this policy: 64 hexadecimal digits, the same on every machine.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut text = Vec::new();
        for mount in &self.mounts {
            text.extend_from_slice(b"mount\0");
            text.extend_from_slice(mount.host().as_os_str().as_encoded_bytes());
            text.push(0);
            text.extend_from_slice(mount.shown_at().as_bytes());
            text.push(0);
            text.extend_from_slice(mount.access().to_string().as_bytes());
            match mount.links() {
                LinkPolicy::Followed => {}
                LinkPolicy::Refused => text.extend_from_slice(b"\0resolved"),
            }
            if mount.is_at_host_path() {
                text.extend_from_slice(b"\0at host path");
            }
            text.push(b'\n');
        }
        for programs in &self.programs {
            text.extend_from_slice(b"programs\0");
            text.extend_from_slice(programs.host().as_os_str().as_encoded_bytes());
            text.push(0);
            text.extend_from_slice(programs.shown_at().as_os_str().as_encoded_bytes());
            text.push(b'\n');
        }
        for (name, patterns) in [("protect", &self.protect), ("hide", &self.hide)] {
            for pattern in patterns {
                text.extend_from_slice(name.as_bytes());
                text.push(0);
                text.extend_from_slice(pattern.text().as_bytes());
                text.push(b'\n');
            }
        }
        for mount in &self.mounts {
            let at = mount.shown_at();
            let protect = self.protected_in(at).map(|text| ("protect", text));
            let hide = self.hidden_in(at).map(|text| ("hide", text));
            for (verb, pattern) in protect.chain(hide) {
                text.extend_from_slice(format!("{verb} in\0{at}\0{pattern}\n").as_bytes());
            }
        }
        self.environment.describe(&mut text);
        text.extend_from_slice(
            format!(
                "{:?}\n{:?}\n{:?}\n{:?}\n",
                self.system, self.network, self.unix_sockets, self.limits
            )
            .as_bytes(),
        );
        match self.survivors {
            Survivors::Ended => {}
            Survivors::Left => text.extend_from_slice(b"survivors\0left\n"),
        }
        if self.hold_absent {
            text.extend_from_slice(b"absent names\0held\n");
        }
        if self.check_git_config {
            text.extend_from_slice(b"git config\0checked\n");
        }
        if self.git != Git::Unaware {
            text.extend_from_slice(format!("git {:?}\n", self.git).as_bytes());
        }
        let mut hex = String::with_capacity(64);
        for byte in Sha256::digest(&text) {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }

    /// Returns `true` if the longest mount around a path of the host lets the command write there,
    /// by text.
    pub(crate) fn writes(&self, path: &Path) -> bool {
        self.mount_of(path)
            .is_some_and(|mount| mount.access().contains(Access::WRITE))
    }

    /// Returns the patterns that count in every mount.
    pub(crate) fn guards_of_all(&self) -> MountGuards {
        MountGuards {
            protect: self.protect.clone(),
            hide: self.hide.clone(),
        }
    }

    /// Returns the patterns that count in a mount, those that count in every mount among them.
    pub(crate) fn guards_of(&self, index: usize) -> MountGuards {
        let mut guards = self.guards_of_all();
        let mount = self.mounts.get(index);
        if let Some(own) = mount.and_then(|mount| self.own_guards.get(mount.shown_at())) {
            guards.protect.extend(own.protect.iter().cloned());
            guards.hide.extend(own.hide.iter().cloned());
        }
        guards
    }

    /// Returns `true` if names of some mount should not be changed.
    pub(crate) fn protects_names(&self) -> bool {
        !self.protect.is_empty() || self.own_guards.values().any(|own| !own.protect.is_empty())
    }

    /// Returns `true` if names of some mount should not be read.
    pub(crate) fn hides_names(&self) -> bool {
        !self.hide.is_empty() || self.own_guards.values().any(|own| !own.hide.is_empty())
    }

    /// Returns `true` if something is to stand where protected names are absent.
    pub(crate) fn holds_absent(&self) -> bool {
        self.hold_absent
    }

    /// Returns `true` if a placeholder may stand where the name is absent.
    pub(crate) fn holds(&self, pattern: &Pattern) -> bool {
        !self.derived.contains(pattern)
    }

    /// Whether some mount allows less than one around it (by host path), and whether one that is not
    /// closed altogether loses execution, or reading, by that.
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

    /// Returns a mount that covers a directory of another one, if there is any.
    pub(crate) fn covering(&self) -> Option<&Mount> {
        let covers = |mount: &&Mount| matches!(mount.place(), MountPlacement::Covers(_));
        self.mounts.iter().find(covers)
    }

    /// Returns `true` if mounts are made inside trees that some command may write.
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

    fn mount_of(&self, path: &Path) -> Option<&Mount> {
        self.mounts
            .iter()
            .filter(|mount| path.starts_with(mount.host()))
            .max_by_key(|mount| mount.host().as_os_str().len())
    }

    /// Returns a mount with its index, and those that it is a part of, outwards.
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

/// The patterns that count in one mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MountGuards {
    pub(crate) protect: Vec<Pattern>,
    pub(crate) hide: Vec<Pattern>,
}

/// See [`Policy::narrowed`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NestedRestriction {
    pub(crate) at_all: bool,
    pub(crate) in_execution: bool,
    pub(crate) in_reading: bool,
}

/// Collects a policy; [`PolicyBuilder::build`] checks it.
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
    system: System,
    network: Network,
    unix_sockets: UnixSockets,
    survivors: Survivors,
    named_sockets: Vec<PathBuf>,
    programs: Vec<(PathBuf, PathBuf)>,
    environment: Environment,
    limits: Limits,
    git: Git,
    protect: Vec<String>,
    hide: Vec<String>,
    /// By the name of a mount.
    protect_in: Vec<(String, String)>,
    hide_in: Vec<(String, String)>,
    hold_absent: bool,
    check_git_config: bool,
}

impl PolicyBuilder {
    /// Shows the host directory or file `host` at `shown_at`: `/` for the root mount, `/name`,
    /// a part of another mount with an access of its own, or below another mount in the place of a
    /// directory that must be there (`/data/cache`, `/work/cache`). Without a root mount also deeper:
    /// `/data/out`, or `/work/src` for a part of what would be the root mount; the directories on
    /// the way are read-only and hold nothing else.
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

    /// The same for a path whose links the caller has followed before: at each start it is reached
    /// without following any. One that somebody has put in its way since, who may write around it,
    /// refuses the start.
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
        });
        self
    }

    /// How much of the host's system is seen. Default [`System::Minimal`].
    pub fn system(mut self, system: System) -> Self {
        self.system = system;
        self
    }

    /// Whom the command may talk to. Default [`Network::Denied`].
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Which local sockets can be connected. Default [`UnixSockets::Closed`].
    pub fn unix_sockets(mut self, sockets: UnixSockets) -> Self {
        self.unix_sockets = sockets;
        self
    }

    /// What becomes of what the command leaves behind. Default [`Survivors::Ended`].
    pub fn survivors(mut self, survivors: Survivors) -> Self {
        self.survivors = survivors;
        self
    }

    /// One more local socket of the host that can be connected, under the same path, such as
    /// `/run/docker.sock`. Not one in a directory that the command may write.
    pub fn unix_socket(mut self, host_path: impl AsRef<Path>) -> Self {
        self.named_sockets.push(host_path.as_ref().to_owned());
        self
    }

    /// Shows the directory or file `host`, which has no links on its way, at `shown_at`, to be read
    /// and executed. Names are neither protected nor hidden in it. What does not exist at the
    /// start is left out, and containers have the programs of their image instead. `PATH` is the
    /// environment's ([`Environment::search`]).
    pub fn programs(mut self, host: impl AsRef<Path>, shown_at: impl AsRef<Path>) -> Self {
        let pair = (host.as_ref().to_owned(), shown_at.as_ref().to_owned());
        self.programs.push(pair);
        self
    }

    /// The variables. Default [`Environment::clean`].
    pub fn env(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// The limits. Default [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What may be done to repositories in writable mounts. Default [`Git::Unaware`].
    pub fn git(mut self, git: Git) -> Self {
        self.git = git;
        self
    }

    /// A guard: names that should not be changed, at any depth below every mount. With a leading
    /// `/` only those at the top of each mount.
    pub fn protect(mut self, pattern: impl Into<String>) -> Self {
        self.protect.push(pattern.into());
        self
    }

    /// A guard: names that should not be read, at any depth below every mount. With a leading `/`
    /// only those at the top of each mount.
    pub fn hide(mut self, pattern: impl Into<String>) -> Self {
        self.hide.push(pattern.into());
        self
    }

    /// A guard in one mount: [`protect`](Self::protect) below the mount with this name only.
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

    /// A guard in one mount: [`hide`](Self::hide) below the mount with this name only.
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

    /// While a command runs, something of ours stands where protected names are absent (those
    /// without `*`, at the top of writable mounts and in repositories), so that it cannot make
    /// them. Others see that in the directory. Without this, what a command makes there is moved to
    /// a quarantine after its end.
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

    /// Lets git change the configuration of repositories in writable mounts: `git config`,
    /// `git remote add`, `git push -u`. When the command has ended, a configuration that has git
    /// execute or obey anything more than before, or changes where something is fetched from or
    /// pushed to, is moved to the quarantine, and what was there before is put back. Until then
    /// whoever runs git there obeys it, so this is a guard given up for that time. Mechanisms that
    /// cannot look afterwards keep the configuration as without this.
    ///
    /// ```
    /// use os_sandbox::{Access, Policy};
    /// let policy = Policy::builder().mount("/home/me/project", "/", Access::ALL);
    /// let policy = policy.protect(".git/config").check_git_config().build()?;
    /// # Ok::<(), os_sandbox::Error>(())
    /// ```
    pub fn check_git_config(mut self) -> Self {
        self.check_git_config = true;
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) or
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit), for the first thing that makes no sense.
    pub fn build(self) -> Result<Policy, Error> {
        self.environment.check()?;
        let most = |count: usize, of: &str| match count > MAX_PATTERNS {
            false => Ok(()),
            true => Err(Error::new(
                crate::error::ErrorKind::Limit,
                format!("more than {MAX_PATTERNS} protected and hidden patterns{of}"),
            )),
        };
        most(self.protect.len() + self.hide.len(), "")?;
        let parse = |texts: &[String]| -> Result<Vec<Pattern>, Error> {
            let mut patterns: Vec<Pattern> = texts
                .iter()
                .map(|text| Pattern::parse(text))
                .collect::<Result<_, _>>()?;
            patterns.sort();
            patterns.dedup();
            Ok(patterns)
        };
        let mut protect = self.protect;
        protect.extend(self.git.patterns());
        let derived: Vec<String> = match git::is_about_git(&protect) {
            true => git::obeyed_patterns(self.git)
                .filter(|pattern| !protect.contains(pattern))
                .collect(),
            false => Vec::new(),
        };
        protect.extend(derived.iter().cloned());
        let mounts = mounts::resolve(&self.mounts, mounts::Paths::OfSandbox)?;
        let (protect, hide) = (parse(&protect)?, parse(&self.hide)?);
        let unknown = |(at, _): &&(String, String)| !mounts.iter().any(|one| one.shown_at() == at);
        if let Some((at, pattern)) = self.protect_in.iter().chain(&self.hide_in).find(unknown) {
            return Err(Error::invalid(format!(
                "unknown mount {at:?} of {pattern:?}"
            )));
        }
        let own_patterns = |named: &[(String, String)], mount: &Mount| {
            let named = named.iter().filter(|(at, _)| at == mount.shown_at());
            parse(&named.map(|(_, text)| text.clone()).collect::<Vec<_>>())
        };
        let mut own_guards = BTreeMap::new();
        for mount in &mounts {
            let own = MountGuards {
                protect: own_patterns(&self.protect_in, mount)?,
                hide: own_patterns(&self.hide_in, mount)?,
            };
            let at = mount.shown_at();
            most(own.protect.len() + own.hide.len(), &format!(" of {at}"))?;
            if !own.protect.is_empty() || !own.hide.is_empty() {
                own_guards.insert(at.to_owned(), own);
            }
        }
        let policy = Policy {
            own_guards,
            programs: programs::resolve(&self.programs, &mounts, self.system)?,
            mounts,
            system: self.system,
            network: self.network,
            survivors: self.survivors,
            unix_sockets: sockets::resolve(self.unix_sockets, self.named_sockets)?,
            environment: self.environment,
            git: self.git,
            protect,
            derived: parse(&derived)?,
            hide,
            hold_absent: self.hold_absent,
            check_git_config: self.check_git_config,
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
