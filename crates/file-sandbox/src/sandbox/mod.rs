//! `FileSandbox`: the table of mounts, and queries on it.

pub(crate) mod queries;
pub(crate) mod restrict;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use cap_std::AmbientAuthority;

use crate::backend::FileId;
use crate::cancellation::CancellationToken;
use crate::error::{Error, ErrorReason};
use crate::mount::mode::Mode;
use crate::mount::{Mount, path_in};
use crate::path::{SandboxPath, names_below};
use crate::resolve::path_walk::NestedMount;
use crate::text::mask::TextMask;

/// Files below some mounts, and nothing else.
///
/// A clone is cheap and shares the sandbox. All operations take `&self` and may run at once.
///
/// ```
/// use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
///
/// # let host = tempfile::tempdir()?;
/// let mount = Mount::open_ambient(
///     SandboxPath::parse("/data")?,
///     host.path(),
///     Mode::ReadOnly,
///     cap_std::ambient_authority(),
/// )?;
/// let files = FileSandbox::new(vec![mount])?;
///
/// assert!(files.can_read(&SandboxPath::parse("/data/a.md")?));
/// let denied = files.read(&SandboxPath::parse("/etc/passwd")?, Default::default()).unwrap_err();
/// assert_eq!(denied.kind(), ErrorKind::OutsideSandbox);
/// assert_eq!(
///     denied.to_string(),
///     "Cannot access '/etc/passwd': path is outside sandbox.\nReadable paths: /data",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileSandbox {
    pub(crate) table: Arc<MountTable>,
    /// Cancels operations through this value.
    pub(crate) cancel: CancellationToken,
    /// Replaces texts in the results of reads, searches and edits through this value.
    pub(crate) mask: Option<TextMask>,
}

/// The mounts, in the order they were given. Nothing in here ever changes.
#[derive(Clone, Debug)]
pub(crate) struct MountTable {
    pub(crate) mounts: Vec<Mount>,
    /// For each mount, the mounts with a target below its own.
    pub(crate) nested: Vec<Vec<NestedMount>>,
    pub(crate) ids: Vec<FileId>,
    pub(crate) style: RootStyle,
}

/// The form in which messages show the roots of a sandbox.
///
/// ```
/// use file_sandbox::{FileSandbox, RootStyle};
///
/// let files = FileSandbox::builder().root_style(RootStyle::Relative).build()?;
/// assert!(files.readable_roots().is_empty());
/// # Ok::<(), file_sandbox::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootStyle {
    /// `/data`
    #[default]
    Absolute,
    /// `./data`, as projects with named paths write them.
    Relative,
}

/// Collects mounts for a [`FileSandbox`].
///
/// ```
/// use file_sandbox::{FileSandbox, Mode, Mount, RootStyle, SandboxPath};
///
/// # let host = tempfile::tempdir()?;
/// # let authority = cap_std::ambient_authority();
/// let target = SandboxPath::parse("portfolio")?;
/// let files = FileSandbox::builder()
///     .mount(Mount::open_ambient(target, host.path(), Mode::ReadWrite, authority)?)
///     .root_style(RootStyle::Relative)
///     .build()?;
/// assert_eq!(files.writable_roots(), ["./portfolio"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct FileSandboxBuilder {
    mounts: Vec<Mount>,
    style: RootStyle,
}

impl FileSandboxBuilder {
    /// Adds a mount.
    pub fn mount(mut self, mount: Mount) -> Self {
        self.mounts.push(mount);
        self
    }

    /// Chooses the form in which messages show the roots.
    pub fn root_style(mut self, style: RootStyle) -> Self {
        self.style = style;
        self
    }

    /// Builds the sandbox. Without mounts, every path is outside of it.
    ///
    /// # Errors
    /// `INVALID_PATH` for two mounts of one target, and for one directory under two targets with
    /// different rules, also if one directory contains the other: the weaker rules would win.
    pub fn build(mut self) -> Result<FileSandbox, Error> {
        let around: Vec<_> = self.mounts.iter().map(|inner| self.around(inner)).collect();
        for (mount, around) in self.mounts.iter_mut().zip(around) {
            // A submount whose parent mount is missing here remains a submount.
            mount.around = around.unwrap_or_else(|| std::mem::take(&mut mount.around));
        }
        let table = MountTable::new(self.mounts, self.style)?;
        table.refuse_overlaps()?;
        Ok(FileSandbox::from_table(table))
    }

    /// Returns the names from the outermost mount that contains a mount to it.
    fn around(&self, inner: &Mount) -> Option<Vec<OsString>> {
        self.mounts
            .iter()
            .filter_map(|outer| Some((outer, outer.has_part(inner)?)))
            .max_by_key(|(_, names)| names.len())
            .map(|(outer, names)| [outer.around.as_slice(), &outer.base, &names].concat())
    }
}

impl FileSandbox {
    /// Starts a sandbox without mounts.
    pub fn builder() -> FileSandboxBuilder {
        FileSandboxBuilder::default()
    }

    /// Builds a sandbox of these mounts, whose roots are shown as `/data`.
    ///
    /// # Errors
    /// Those of [`FileSandboxBuilder::build`].
    pub fn new(mounts: Vec<Mount>) -> Result<Self, Error> {
        FileSandboxBuilder {
            mounts,
            style: RootStyle::default(),
        }
        .build()
    }

    /// Builds a sandbox with a workspace at `/workspace` and a cache at `/cache`, both writable and
    /// created if they are missing. Without a directory of its own the cache is `.cache` in the
    /// workspace.
    ///
    /// ```
    /// use file_sandbox::FileSandbox;
    ///
    /// # let project = tempfile::tempdir()?;
    /// let workspace = project.path().join("work");
    /// let files = FileSandbox::direct(&workspace, None, cap_std::ambient_authority())?;
    /// files.write(&files.path("/cache/page.html")?, "<p>", Default::default())?;
    /// assert!(workspace.join(".cache/page.html").is_file());
    /// assert!(files.exists(&files.path("/home")?).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Mount::create_ambient`] and [`new`](Self::new).
    pub fn direct(
        workspace: impl AsRef<Path>,
        cache: Option<&Path>,
        authority: AmbientAuthority,
    ) -> Result<Self, Error> {
        let workspace = workspace.as_ref();
        let mode = Mode::ReadWrite;
        let made = |target: &str, host: &Path| {
            let target = SandboxPath::parse(target)?;
            match (host.parent(), host.file_name()) {
                (Some(above), Some(name)) if above.is_dir() => {
                    Mount::create_ambient(target, above, name, mode, authority)
                }
                (Some(above), Some(name)) if above.as_os_str().is_empty() => {
                    Mount::create_ambient(target, ".", name, mode, authority)
                }
                _ => Mount::open_ambient(target, host, mode, authority),
            }
        };
        // An existing directory may be named by a link; a missing one is created in its parent.
        let open = |target: &str, host: &Path| match host.is_dir() {
            true => Mount::open_ambient(SandboxPath::parse(target)?, host, mode, authority),
            false => made(target, host),
        };
        let workspace_mount = open("/workspace", workspace)?;
        let cache_mount = match cache {
            Some(host) => open("/cache", host)?,
            None => {
                let target = SandboxPath::parse("/cache")?;
                let below = ".cache";
                Mount::create_ambient(target, workspace, below, mode, authority)?
            }
        };
        Self::new(vec![workspace_mount, cache_mount])
    }

    pub(crate) fn from_table(table: MountTable) -> Self {
        Self {
            table: Arc::new(table),
            cancel: CancellationToken::new(),
            mask: None,
        }
    }

    /// Returns this sandbox with a cancellation token. Operations on bytes or entries check the
    /// token repeatedly, and fail with `CANCELLED`. Walks, lists and searches return their results
    /// so far. Earlier changes remain; a file is written completely or not at all.
    ///
    /// ```
    /// use file_sandbox::{CancellationToken, ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
    ///
    /// let data = Mount::memory(SandboxPath::parse("/data")?, Mode::ReadWrite);
    /// let files = FileSandbox::new(vec![data])?;
    /// let path = files.path("/data/a.md")?;
    /// files.write(&path, "text", Default::default())?;
    ///
    /// let cancel = CancellationToken::new();
    /// let call = files.with_cancel(&cancel);
    /// cancel.cancel();
    /// assert_eq!(call.hash(&path).unwrap_err().kind(), ErrorKind::Cancelled);
    /// assert!(files.hash(&path).is_ok());
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn with_cancel(&self, cancel: &CancellationToken) -> Self {
        Self {
            cancel: cancel.clone(),
            ..self.clone()
        }
    }

    /// Returns this sandbox with a mask for the texts that reads, searches and edits show.
    #[must_use]
    pub fn with_mask(&self, mask: TextMask) -> Self {
        Self {
            mask: Some(mask),
            ..self.clone()
        }
    }

    /// Parses a path as [`SandboxPath::parse`] does; an error also names the readable paths.
    ///
    /// # Errors
    /// Those of [`SandboxPath::parse`], and where a mount asks for it
    /// ([`Limits::strict_paths`](crate::Limits::strict_paths)) those of
    /// [`SandboxPath::parse_strict`].
    pub fn path(&self, text: &str) -> Result<SandboxPath, Error> {
        SandboxPath::parse(text)
            .and_then(|path| match self.table.is_strict_at(&path) {
                true => SandboxPath::parse_strict(text),
                false => Ok(path),
            })
            .map_err(|error| error.with_readable(|| self.readable_roots()))
    }

    /// Returns this sandbox without permission to read in the mounts that `closed` selects: no
    /// bytes, no names and no hashes, by any path or link. Permission to write is unchanged: a file
    /// can be put into such a mount.
    ///
    /// ```
    /// use file_sandbox::{ErrorKind, FileSandbox, Mode, Mount, SandboxPath};
    ///
    /// let inbox = Mount::memory(SandboxPath::parse("/inbox")?, Mode::ReadWrite);
    /// let files = FileSandbox::new(vec![inbox])?;
    /// let letter = files.path("/inbox/letter")?;
    /// let writer = files.without_reading(|mount| mount.target().as_str() == "/inbox");
    /// writer.write(&letter, "for you only", Default::default())?;
    /// let denied = writer.read(&letter, Default::default()).unwrap_err();
    /// assert_eq!(denied.kind(), ErrorKind::ReadBlocked);
    /// assert_eq!(files.read(&letter, Default::default())?.content, "for you only");
    /// # Ok::<(), file_sandbox::Error>(())
    /// ```
    #[must_use]
    pub fn without_reading(&self, closed: impl Fn(&Mount) -> bool) -> Self {
        let mut table = MountTable::clone(&self.table);
        for mount in &mut table.mounts {
            mount.closed |= closed(mount);
        }
        Self {
            table: Arc::new(table),
            ..self.clone()
        }
    }

    /// Returns the mode of the mount that covers a path; `None` outside every mount. Opens no file.
    #[must_use]
    pub fn mode_at(&self, path: &SandboxPath) -> Option<Mode> {
        self.table
            .mount_of(path)
            .map(|i| self.table.mounts[i].mode())
    }

    sandbox_names::getters! {
        /// The mounts, in the order they were given.
        pub mounts: &[Mount] = &table.mounts;
        /// Returns the form in which messages show the roots.
        pub root_style: RootStyle = table.style;
        /// The roots that may be read, as messages show them.
        pub readable_roots: Vec<String> = table.roots(Mode::ReadOnly);
        /// The roots that may be written to, as messages show them.
        pub writable_roots: Vec<String> = table.roots(Mode::ReadWrite);
    }

    /// `true` if a text is an absolute path that some mount covers. Opens no file.
    #[must_use]
    pub fn is_valid_path(&self, text: &str) -> bool {
        text.starts_with('/')
            && SandboxPath::parse(text).is_ok_and(|path| self.table.mount_of(&path).is_some())
    }

    /// Returns the sandbox path of an absolute path of the host, by text alone: models copy such
    /// paths from the output of commands. `None` outside every mount that was opened by path.
    #[must_use]
    pub fn path_of_host(&self, host: impl AsRef<Path>) -> Option<SandboxPath> {
        let (mount, names) = self.table.by_host(host.as_ref())?;
        let path = self.table.mounts[mount].target();
        Some(names.iter().fold(path.clone(), |path, name| {
            path.child(&crate::text::escape::escape_name(name))
        }))
    }
}

impl MountTable {
    pub(crate) fn new(mounts: Vec<Mount>, style: RootStyle) -> Result<Self, Error> {
        let ids = mounts
            .iter()
            .map(Mount::id)
            .collect::<Result<Vec<_>, _>>()?;
        for (i, mount) in mounts.iter().enumerate() {
            if mounts[..i]
                .iter()
                .any(|other| other.target() == mount.target())
            {
                let why = "this place is taken by another one";
                let reason = ErrorReason::Mount { why, source: None };
                return Err(Error::new(mount.target().asked(), reason));
            }
        }
        let nested_below = |outer: &Mount| {
            let inner = |(mount, inner): (usize, &Mount)| {
                let names = names_below(inner.target(), outer.target())?;
                let id = ids[mount];
                (!names.is_empty()).then_some(NestedMount { names, id, mount })
            };
            mounts.iter().enumerate().filter_map(inner).collect()
        };
        let nested = mounts.iter().map(nested_below).collect();
        Ok(Self {
            mounts,
            nested,
            ids,
            style,
        })
    }

    /// Returns the mount that covers a path: the one with the longest target.
    pub(crate) fn mount_of(&self, path: &SandboxPath) -> Option<usize> {
        self.mount_and_way(path).map(|(index, _)| index)
    }

    /// `true` if `..` is refused on the way to a path.
    fn is_strict_at(&self, path: &SandboxPath) -> bool {
        let strict = |mount: &Mount| mount.limits().has_strict_paths();
        match self.mount_of(path) {
            Some(index) => strict(&self.mounts[index]),
            None => !self.mounts.is_empty() && self.mounts.iter().all(strict),
        }
    }

    /// Returns the mount that covers a path, and the rest of the path below its target.
    #[inline]
    pub(crate) fn mount_and_way<'p>(&self, path: &'p SandboxPath) -> Option<(usize, &'p str)> {
        let mut longest: Option<(usize, &str)> = None;
        for (index, mount) in self.mounts.iter().enumerate() {
            if let Some(way) = path.below(mount.target())
                && longest.is_none_or(|(_, rest)| way.len() < rest.len())
            {
                longest = Some((index, way));
            }
        }
        longest
    }

    /// Returns the mount of an absolute path of the host, and the names in it. `None` for a
    /// directory that another mount covers, because the sandbox does not show it.
    pub(crate) fn by_host(&self, host: &Path) -> Option<(usize, Vec<OsString>)> {
        self.mounts
            .iter()
            .enumerate()
            .filter_map(|(i, mount)| Some((i, mount.names_of_host(host)?)))
            .min_by_key(|(_, names)| names.len())
            .filter(|(i, names)| self.nested[*i].is_empty() || self.shows(*i, names))
    }

    /// `true` if the sandbox shows these names of a mount, by it or by a submount of it, and no
    /// other mount covers them.
    fn shows(&self, mount: usize, names: &[OsString]) -> bool {
        let outer = &self.mounts[mount];
        self.mount_of(&path_in(outer, names))
            .is_some_and(|found| found == mount || outer.has_part(&self.mounts[found]).is_some())
    }

    /// `true` if a path is outside every mount and above one: a virtual directory.
    pub(crate) fn is_virtual(&self, path: &SandboxPath) -> bool {
        self.mounts
            .iter()
            .any(|mount| mount.target().starts_with(path))
            || (path.is_root() && self.mounts.is_empty())
    }

    pub(crate) fn roots(&self, at_least: Mode) -> Vec<String> {
        self.mounts
            .iter()
            .filter(|mount| mount.mode() >= at_least)
            .map(|mount| self.show(mount.target()))
            .collect()
    }

    /// Returns a path in the form of messages, for a path that the caller did not type.
    pub(crate) fn show(&self, target: &SandboxPath) -> String {
        match self.style {
            RootStyle::Absolute => target.as_str().to_owned(),
            RootStyle::Relative if target.is_root() => ".".to_owned(),
            RootStyle::Relative => format!(".{}", target.as_str()),
        }
    }

    /// Refuses two sets of rules for one directory, unless the outer mount contains the inner one
    /// at its target.
    fn refuse_overlaps(&self) -> Result<(), Error> {
        for (i, a) in self.mounts.iter().enumerate() {
            for (j, b) in self.mounts.iter().enumerate() {
                if i == j || a.same_rules(b) {
                    continue;
                }
                let shared = self.ids[i] == self.ids[j] || contains_elsewhere(a, b);
                if shared {
                    let other = self.show(a.target());
                    return Err(Error::new(
                        b.target().asked(),
                        ErrorReason::MountOverlap { other },
                    ));
                }
            }
        }
        Ok(())
    }
}

/// `true` if `inner`'s directory is below that of `outer`, but not at its target.
fn contains_elsewhere(outer: &Mount, inner: &Mount) -> bool {
    let Some(names) = inner.host().and_then(|host| outer.names_of_host(host)) else {
        return false;
    };
    names_below(inner.target(), outer.target()).as_ref() != Some(&names)
}
