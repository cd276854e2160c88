//! A mount: a directory handle, its path in the sandbox, and the rules below it.

pub(crate) mod limits;
pub(crate) mod mode;
pub(crate) mod name_rules;
mod preload;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::AmbientAuthority;
use cap_std::fs::Dir;

use crate::backend::{AnyDir, BackendDir as _, BackendError, FileId, MemoryDir, block_on_ready};
use crate::error::{Error, ErrorReason};
use crate::host::HostDir;
use crate::mount::limits::Limits;
use crate::mount::mode::Mode;
use crate::mount::name_rules::{
    NameRuleMatch, NameRules, TEMP_PREFIX, git_protected_name, strictest,
};
use crate::path::{SandboxPath, names_below};
use crate::text::escape;

/// One directory of the host, shown at a place in the sandbox.
///
/// The authority is the handle: no later path can widen it.
///
/// ```
/// use file_sandbox::{FileSandbox, Limits, Mode, Mount, SandboxPath};
///
/// # let host = tempfile::tempdir()?;
/// let mount = Mount::open_ambient(
///     SandboxPath::parse("/data")?,
///     host.path(),
///     Mode::ReadWrite,
///     cap_std::ambient_authority(),
/// )?
/// .with_limits(Limits::new().max_file_bytes(1 << 20))
/// .protect([".git/hooks", "*.key"])?
/// .hide([".env*"])?;
/// let files = FileSandbox::new(vec![mount])?;
///
/// let denied = files.write_bytes(&SandboxPath::parse("/data/tls.key")?, b"x", Default::default());
/// assert_eq!(denied.unwrap_err().kind(), file_sandbox::ErrorKind::ReadOnly);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Mount {
    target: SandboxPath,
    pub(crate) dir: Arc<AnyDir>,
    /// The directory whose content counts for the quotas, for a narrower mount too.
    pub(crate) whole: Arc<AnyDir>,
    mode: Mode,
    limits: Limits,
    pub(crate) protected: NameRules,
    pub(crate) hidden: NameRules,
    /// The path of `dir` below the directory that the name rules are written for.
    pub(crate) base: Vec<OsString>,
    /// The path of that directory below its parent mount. Rules count from there too: `.git/hooks`
    /// is protected even if `.git` is a mount of its own.
    pub(crate) around: Vec<OsString>,
    /// The host's spellings of `dir`, for reading absolute links. Never shown.
    hosts: Vec<PathBuf>,
    /// `true` if nothing of it may be read: no bytes, no names, no hashes.
    pub(crate) closed: bool,
}

impl Mount {
    /// Mounts an open directory. Absolute links in it are refused, because the host path of the
    /// directory is unknown.
    ///
    /// Text is not authority: a mount takes a directory handle.
    ///
    /// ```no_run
    /// # use file_sandbox::{Mode, Mount, SandboxPath};
    /// # fn mount(etc: cap_std::fs::Dir) {
    /// let _ = Mount::new(SandboxPath::root(), etc, Mode::ReadOnly);
    /// # }
    /// ```
    /// ```compile_fail
    /// # use file_sandbox::{Mode, Mount, SandboxPath};
    /// let _ = Mount::new(SandboxPath::root(), "/etc", Mode::ReadOnly);
    /// ```
    #[must_use]
    pub fn new(target: SandboxPath, dir: Dir, mode: Mode) -> Self {
        Self::of(target, AnyDir::Host(HostDir::of(dir)), mode)
    }

    /// Mounts a new, empty directory in memory, which is dropped with the last sandbox that has it.
    /// It has the rules of a mount of the host.
    ///
    /// ```
    /// use file_sandbox::{FileSandbox, Mode, Mount, SandboxPath};
    ///
    /// let scratch = Mount::memory(SandboxPath::parse("/scratch")?, Mode::ReadWrite);
    /// let files = FileSandbox::new(vec![scratch])?;
    /// let note = files.path("/scratch/a/note.md")?;
    /// files.write(&note, "gone when the program ends", Default::default())?;
    /// assert!(files.exists(&note)?);
    /// assert!(files.path("/scratch/../etc").is_ok_and(|etc| files.exists(&etc).is_err()));
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn memory(target: SandboxPath, mode: Mode) -> Self {
        Self::of(target, AnyDir::Memory(MemoryDir::new()), mode)
    }

    /// Adds a link to a mount in memory, at a path below it. Operations of the sandbox create no
    /// links, but a tree that represents one of the host may have some.
    ///
    /// ```
    /// use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
    ///
    /// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite)
    ///     .with_link(&SandboxPath::parse("sub/up")?, "../../etc/passwd")?;
    /// let files = FileSandbox::new(vec![data])?;
    /// let denied = files.read(&files.path("/data/sub/up")?, Default::default()).unwrap_err();
    /// assert_eq!(denied.kind(), ErrorKind::Escape);
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    ///
    /// # Errors
    /// `INVALID_PATH` for a mount of the host, and where something is in the way.
    pub fn with_link(self, at: &SandboxPath, text: impl AsRef<OsStr>) -> Result<Self, Error> {
        let failed = |why, source| at.error(ErrorReason::Mount { why, source });
        let names = names_below(at, &SandboxPath::root()).unwrap_or_default();
        let Some((name, way)) = names.split_last() else {
            return Err(failed("a link needs a name", None));
        };
        let planted = match &*self.dir {
            AnyDir::Host(_) => return Err(failed("links are made in memory only", None)),
            AnyDir::Memory(top) => block_on_ready(async {
                let below = make_below(&self.dir, way).await?;
                match below.as_ref() {
                    Some(AnyDir::Memory(dir)) => dir.add_link(name, text.as_ref()),
                    Some(AnyDir::Host(_)) | None => top.add_link(name, text.as_ref()),
                }
            }),
        };
        planted.map_err(|fault| failed("something is in the way", Some(fault.into_io())))?;
        Ok(self)
    }

    /// Returns the mount at `/`, writable and without rules and limits.
    pub(crate) fn without_rules(&self) -> Self {
        Self {
            target: SandboxPath::root(),
            mode: Mode::ReadWrite,
            limits: Limits::new(),
            protected: NameRules::default(),
            hidden: NameRules::hiding(),
            ..self.clone()
        }
    }

    fn of(target: SandboxPath, dir: AnyDir, mode: Mode) -> Self {
        let dir = Arc::new(dir);
        Self {
            target,
            whole: dir.clone(),
            dir,
            mode,
            limits: Limits::new(),
            protected: NameRules::default(),
            hidden: NameRules::hiding(),
            base: Vec::new(),
            around: Vec::new(),
            hosts: Vec::new(),
            closed: false,
        }
    }

    /// Opens a directory of the host and mounts it. Links in `host` itself are followed: it is the
    /// operator's word.
    ///
    /// # Errors
    /// `INVALID_PATH` if it cannot be opened, is not a directory, or is `/`, `/proc`, `/sys`,
    /// `/dev` or below one of the last three (except `/dev/shm`): their files are interfaces, not
    /// data.
    ///
    /// Opening by path takes the ambient authority as an argument.
    ///
    /// ```no_run
    /// # use file_sandbox::{Mode, Mount, SandboxPath};
    /// let authority = cap_std::ambient_authority();
    /// let _ = Mount::open_ambient(SandboxPath::root(), "/etc", Mode::ReadOnly, authority);
    /// ```
    /// ```compile_fail
    /// # use file_sandbox::{Mode, Mount, SandboxPath};
    /// let _ = Mount::open_ambient(SandboxPath::root(), "/etc", Mode::ReadOnly);
    /// ```
    pub fn open_ambient(
        target: SandboxPath,
        host: impl AsRef<Path>,
        mode: Mode,
        authority: AmbientAuthority,
    ) -> Result<Self, Error> {
        let host = host.as_ref();
        let failed = |source| not_opened(&target, source);
        let real = host.canonicalize().map_err(failed)?;
        if is_pseudo_filesystem(&real) {
            let why = "the directory gives access to the system itself";
            return Err(target.error(ErrorReason::Mount { why, source: None }));
        }
        let dir = Dir::open_ambient_dir(&real, authority).map_err(failed)?;
        let mut hosts = vec![real];
        if host.is_absolute() && !hosts.iter().any(|known| known == host) {
            hosts.push(host.to_owned());
        }
        Ok(Self {
            hosts,
            ..Self::new(target, dir, mode)
        })
    }

    /// Mounts the directory `below` a directory of the host, and creates its missing directories.
    /// Links are followed in `host` only, so a link in `below` cannot redirect the creation
    /// elsewhere.
    ///
    /// ```
    /// use file_sandbox::{Mode, Mount, SandboxPath};
    ///
    /// # let project = tempfile::tempdir()?;
    /// # let project = project.path();
    /// let mount = Mount::create_ambient(
    ///     SandboxPath::parse("/cache")?,
    ///     project,
    ///     ".sandbox/cache",
    ///     Mode::ReadWrite,
    ///     cap_std::ambient_authority(),
    /// )?;
    /// assert!(project.join(".sandbox/cache").is_dir());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`open_ambient`](Self::open_ambient), and `INVALID_PATH` if `below` is not relative,
    /// climbs, or meets a link.
    pub fn create_ambient(
        target: SandboxPath,
        host: impl AsRef<Path>,
        below: impl AsRef<Path>,
        mode: Mode,
        authority: AmbientAuthority,
    ) -> Result<Self, Error> {
        let base = Self::open_ambient(target.clone(), host, mode, authority)?;
        let mut names = Vec::new();
        for component in below.as_ref().components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => names.push(name.to_owned()),
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    let why = "its directory leads elsewhere";
                    let reason = ErrorReason::Mount { why, source: None };
                    return Err(target.error(reason));
                }
            }
        }
        let made = block_on_ready(make_below(&base.dir, &names));
        let Some(dir) = made.map_err(|fault| not_opened(&target, fault.into_io()))? else {
            return Ok(base);
        };
        let mut mount = base.narrowed(target, dir, &names);
        // Name rules are written for the directory that is mounted.
        mount.base.clear();
        mount.whole = mount.dir.clone();
        Ok(mount)
    }

    /// Mounts the directory `below` this mount at `target`. Name rules and quotas still count from
    /// this mount: `.git/hooks` stays protected in a submount of `.git`. No link is followed on the
    /// way.
    ///
    /// ```
    /// use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
    ///
    /// # let project = tempfile::tempdir()?;
    /// # let (project, authority) = (project.path(), cap_std::ambient_authority());
    /// std::fs::create_dir_all(project.join(".git/hooks"))?;
    /// let whole = Mount::open_ambient(SandboxPath::root(), project, Mode::ReadWrite, authority)?
    ///     .protect([".git/hooks"])?;
    /// let part = whole.submount(&SandboxPath::parse("/.git")?, SandboxPath::parse("/.git")?)?;
    /// let files = FileSandbox::new(vec![part])?;
    /// let hook = files.path("/.git/hooks/pre-commit")?;
    /// let denied = files.write(&hook, "x", Default::default()).unwrap_err();
    /// assert_eq!(denied.kind(), ErrorKind::ReadOnly);
    /// assert!(whole.submount(&SandboxPath::parse("/absent")?, SandboxPath::root()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `INVALID_PATH` if it is absent, hidden, not a directory, or a link is on the way.
    pub fn submount(&self, below: &SandboxPath, target: SandboxPath) -> Result<Self, Error> {
        let names = names_below(below, &SandboxPath::root()).unwrap_or_default();
        if hidden_by(self, &names).is_some() {
            return Err(not_opened(&target, io::ErrorKind::NotFound.into()));
        }
        let opened = block_on_ready(async {
            let mut found: Option<AnyDir> = None;
            for name in &names {
                let at = found.as_ref().unwrap_or(&self.dir);
                found = Some(at.open_dir(name).await?);
            }
            Ok::<_, BackendError>(found)
        });
        match opened.map_err(|fault| not_opened(&target, fault.into_io()))? {
            Some(dir) => Ok(self.narrowed(target, dir, &names)),
            None => Ok(Self {
                target,
                ..self.clone()
            }),
        }
    }

    /// Makes the mount read-only.
    ///
    /// ```
    /// use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
    ///
    /// let scratch = Mount::memory(SandboxPath::parse("/scratch")?, Mode::ReadWrite);
    /// let writes = FileSandbox::new(vec![scratch.clone()])?;
    /// let reads = FileSandbox::new(vec![scratch.read_only()])?;
    /// let note = reads.path("/scratch/note")?;
    /// writes.write(&note, "hello", Default::default())?;
    /// assert_eq!(reads.read(&note, Default::default())?.content, "hello");
    /// let denied = reads.write(&note, "other", Default::default()).unwrap_err();
    /// assert_eq!(denied.kind(), ErrorKind::ReadOnly);
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.mode = Mode::ReadOnly;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Protects names: they are read, but never written, created or deleted, nor is anything below
    /// them. `.git/hooks` and `*.key` count at any depth, `/.bashrc` at the top only; case does
    /// not matter. The pattern `*.pem` is for private keys: a file of that name without one is a
    /// file like others, and a new name is free.
    ///
    /// # Errors
    /// `INVALID_PATH` for a pattern that cannot be read.
    pub fn protect<I, S>(mut self, patterns: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        add(&mut self.protected, patterns)?;
        Ok(self)
    }

    /// Hides names: they and everything below them are as if absent, and cannot be created.
    /// Patterns are those of [`protect`](Self::protect).
    ///
    /// # Errors
    /// `INVALID_PATH` for a pattern that cannot be read.
    pub fn hide<I, S>(mut self, patterns: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        add(&mut self.hidden, patterns)?;
        Ok(self)
    }

    sandbox_names::getters! {
        /// Returns the path of the mount in the sandbox.
        pub target: &SandboxPath = &target;
        /// Returns the permitted access.
        pub mode: Mode = mode;
        /// `true` if nothing in it may be read
        /// ([`FileSandbox::without_reading`](crate::FileSandbox::without_reading)).
        pub is_closed: bool = closed;
        /// The limits.
        pub limits: &Limits = &limits;
        /// `true` if any rule protects names in repositories.
        pub(crate) protects_repositories: bool = protected.are_about_repositories();
    }

    /// `true` if a name in the directory `names` is protected, by itself or by a directory around
    /// it.
    pub(crate) fn protects(&self, names: &[OsString], name: &OsStr) -> bool {
        let names: Vec<OsString> = names.iter().cloned().chain([name.to_owned()]).collect();
        self.protected_by(&names).is_some()
    }

    sandbox_names::getters! {
        /// The patterns of protected names, as they were given.
        pub protected_names: impl Iterator<Item = &str> = protected.texts();
        /// The patterns of hidden names, as they were given.
        pub hidden_names: impl Iterator<Item = &str> = hidden.texts();
        /// Returns the host path of the directory, if it was opened by path. For starting programs on
        /// it; not for a model.
        pub host: Option<&Path> = hosts.first().map(PathBuf::as_path);
    }

    /// `true` if it is in memory.
    ///
    /// ```
    /// use file_sandbox::{Mode, Mount, SandboxPath};
    /// let scratch = Mount::memory(SandboxPath::parse("/scratch")?, Mode::ReadWrite);
    /// assert!(scratch.is_memory() && scratch.host().is_none());
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn is_memory(&self) -> bool {
        match &*self.dir {
            AnyDir::Memory(_) => true,
            AnyDir::Host(_) => false,
        }
    }

    /// Returns its path below the directory that its name rules are counted from: empty unless it
    /// is a [submount](Self::submount). `None` if a name on the way is not text.
    #[must_use]
    pub fn rule_base(&self) -> Option<Vec<&str>> {
        self.base.iter().map(|name| name.to_str()).collect()
    }

    /// Turns the mount into a submount, whose name rules count from the directory `way` above it.
    /// For a process that opens a submount without its parent mount.
    ///
    /// ```
    /// use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
    ///
    /// let part = Mount::memory(SandboxPath::parse("/git")?, Mode::ReadWrite)
    ///     .protect([".git/hooks"])?
    ///     .with_rule_base([".git"]);
    /// assert_eq!(part.rule_base(), Some(vec![".git"]));
    /// let files = FileSandbox::new(vec![part])?;
    /// let hook = files.path("/git/hooks/pre-commit")?;
    /// let denied = files.write(&hook, "x", Default::default()).unwrap_err();
    /// assert_eq!(denied.kind(), ErrorKind::ReadOnly);
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn with_rule_base<S: AsRef<OsStr>>(mut self, way: impl IntoIterator<Item = S>) -> Self {
        self.base = way
            .into_iter()
            .map(|name| name.as_ref().to_owned())
            .collect();
        self
    }

    /// Returns the rule that covers `names` below this mount, or a directory around them.
    pub(crate) fn falls_under<'m>(
        &'m self,
        rules: &'m NameRules,
        names: &[OsString],
    ) -> Option<NameRuleMatch<'m>> {
        strictest((self.rule_bases()).filter_map(|base| rules.matching(&base, names)))
    }

    /// Returns the rule that protects `names` below this mount, or a directory around them: one of
    /// the name rules, or, if those are about repositories, git's own table.
    pub(crate) fn protected_by<'m>(&'m self, names: &[OsString]) -> Option<NameRuleMatch<'m>> {
        let own = || {
            let mut bases = self.rule_bases();
            let text = bases.find_map(|base| git_protected_name(&base, names))?;
            Some(NameRuleMatch {
                text,
                by_content: None,
            })
        };
        match self.falls_under(&self.protected, names) {
            Some(matched) if matched.by_content.is_none() => Some(matched),
            matched if self.protects_repositories() => own().or(matched),
            matched => matched,
        }
    }

    /// `true` if `names` below this mount may only be a directory: a file there would redirect git
    /// to a repository elsewhere, without the protected names.
    pub(crate) fn is_repository(&self, names: &[OsString]) -> bool {
        self.rule_bases()
            .any(|base| self.protected.repository_at(&base, names))
    }

    /// The ways to this mount from where its rules are counted.
    pub(crate) fn rule_bases(&self) -> impl Iterator<Item = Cow<'_, [OsString]>> {
        let whole = (!self.around.is_empty())
            .then(|| Cow::Owned([self.around.as_slice(), self.base.as_slice()].concat()));
        std::iter::once(Cow::Borrowed(self.base.as_slice())).chain(whole)
    }

    /// Returns the names of `inner` in this mount, if its directory is this mount's directory at
    /// its target.
    pub(crate) fn has_part(&self, inner: &Self) -> Option<Vec<OsString>> {
        let names = names_below(&inner.target, &self.target)?;
        let part = match (inner.host(), self.host()) {
            (Some(host), Some(_)) => self.names_of_host(host).as_ref() == Some(&names),
            // Without host paths, the position in the sandbox decides.
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        (part && !names.is_empty()).then_some(names)
    }

    /// Moves the target of the mount, with `top` as the new `/`.
    pub(crate) fn rebased(mut self, top: &SandboxPath) -> Self {
        if let Some(below) = self.target.below(top) {
            self.target = SandboxPath::from_normal(format!("/{below}"));
        }
        self
    }

    /// Narrows the mount to a directory below it.
    pub(crate) fn narrowed(&self, target: SandboxPath, dir: AnyDir, below: &[OsString]) -> Self {
        let under = |host: &PathBuf| host.components().chain(names(below)).collect();
        Self {
            target,
            dir: Arc::new(dir),
            base: self.base.iter().chain(below).cloned().collect(),
            hosts: self.hosts.iter().map(under).collect(),
            ..self.clone()
        }
    }

    pub(crate) fn id(&self) -> Result<FileId, Error> {
        block_on_ready(self.dir.own_meta())
            .map(|meta| meta.id)
            .map_err(|fault| {
                let why = "its directory cannot be looked at";
                let source = Some(fault.into_io());
                self.target.error(ErrorReason::Mount { why, source })
            })
    }

    /// Returns the names below this mount of an absolute path of the host. Handles plain names
    /// below a known spelling only.
    pub(crate) fn names_of_host(&self, path: &Path) -> Option<Vec<OsString>> {
        let below = self
            .hosts
            .iter()
            .find_map(|host| path.strip_prefix(host).ok())?;
        below
            .components()
            .map(|component| match component {
                Component::Normal(name) => Some(name.to_owned()),
                _ => None,
            })
            .collect()
    }

    /// `true` if two mounts of one directory have equal rules.
    pub(crate) fn same_rules(&self, other: &Self) -> bool {
        self.mode == other.mode
            && self.limits == other.limits
            && self.protected == other.protected
            && self.hidden == other.hidden
    }
}

sandbox_names::debug!(Mount {
    target,
    mode,
    limits
});

/// Creates missing directories, one name at a time; a link is refused. `None` without any names.
async fn make_below(base: &AnyDir, names: &[OsString]) -> Result<Option<AnyDir>, BackendError> {
    let mut made: Option<AnyDir> = None;
    for name in names {
        let at = made.as_ref().unwrap_or(base);
        match at.create_dir(name).await {
            Ok(()) | Err(BackendError::Exists) => {}
            Err(fault) => return Err(fault),
        }
        made = Some(at.open_dir(name).await?);
    }
    Ok(made)
}

fn not_opened(target: &SandboxPath, source: io::Error) -> Error {
    let why = match source.kind() {
        io::ErrorKind::NotFound => "its directory does not exist",
        io::ErrorKind::NotADirectory => "it is not a directory",
        io::ErrorKind::PermissionDenied => "its directory may not be opened",
        _ => "its directory cannot be opened",
    };
    let source = Some(source);
    target.error(ErrorReason::Mount { why, source })
}

fn add<I, S>(rules: &mut NameRules, patterns: I) -> Result<(), Error>
where
    I: IntoIterator<Item = S>,
    S: AsRef<str>,
{
    for pattern in patterns {
        let text = pattern.as_ref();
        rules
            .add(text)
            .map_err(|why| Error::new(text, ErrorReason::Pattern { why }))?;
    }
    Ok(())
}

fn names(names: &[OsString]) -> impl Iterator<Item = Component<'_>> {
    names.iter().map(|name| Component::Normal(name))
}

/// `true` for `proc(5)`, `sysfs(5)` and devices, where reading has effects, and for `/`, which
/// contains them.
fn is_pseudo_filesystem(real: &Path) -> bool {
    let doors = ["/proc", "/sys", "/dev"];
    let in_door = doors.iter().any(|door| real.starts_with(door));
    real.parent().is_none() || (in_door && !real.starts_with("/dev/shm"))
}

pub(crate) fn path_in(mount: &Mount, names: &[OsString]) -> SandboxPath {
    names.iter().fold(mount.target().clone(), |path, name| {
        path.child(&escape::escape_name(name))
    })
}

/// Returns the rule that hides a path in a mount.
pub(crate) fn hidden_by<'m>(mount: &'m Mount, names: &[OsString]) -> Option<NameRuleMatch<'m>> {
    if is_temp(names) {
        return Some(NameRuleMatch {
            text: TEMP_PREFIX,
            by_content: None,
        });
    }
    mount.falls_under(&mount.hidden, names)
}

pub(crate) fn is_temp(names: &[OsString]) -> bool {
    let ours = |name: &OsString| name.as_encoded_bytes().starts_with(TEMP_PREFIX.as_bytes());
    names.iter().any(ours)
}
